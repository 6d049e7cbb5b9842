/**
 * The part of a Meilisearch server that the feed and the searches use, in memory: tasks in order, documents by number. It does
 * not understand queries: the test says what they find. It can refuse, hang, and lose data.
 */
import { atEndOfFile } from "../end.ts";

type Document = Record<string, unknown> & { id: number };

interface Task {
  uid: number;
  status: "succeeded" | "failed";
  error: { message: string; code: string } | null;
}

interface Asked {
  q: string;
  filter: string;
  attributesToSearchOn?: string[];
  /** True in a query for a ranked result. */
  showRankingScore?: boolean;
}

export interface FakeMeilisearch {
  readonly url: string;
  readonly key: string;
  /** Documents by index, and by number. */
  readonly indexes: Map<string, Map<number, Document>>;
  /** Requests as `METHOD /path`, without numbers of tasks. */
  readonly requests: string[];
  /** The bodies of all requests. */
  readonly bodies: string[];
  /** Behaviour that the test sets. */
  readonly does: {
    /** Gives the response instead. A promise that stays pending is a server that hangs. */
    answer?: ((request: string, body: string) => Response | Promise<Response> | undefined) | undefined;
    /** The reason why a document fails its task. */
    refuse?: ((document: Document) => string | undefined) | undefined;
    /** The numbers that a query finds, in this order when it is ranked. */
    find?: ((asked: Asked) => number[]) | undefined;
  };
  /** Numbers of the messages in its only index, ascending. */
  messages(): number[];
  stop(): void;
}

const running = new Set<{ stop(force: boolean): unknown }>();
atEndOfFile(() => {
  for (const server of running) server.stop(true);
  running.clear();
});

export const problem = (status: number, code: string): Response =>
  Response.json({ message: `problem ${code}`, code, type: "test", link: "" }, { status });

export function startFakeMeilisearch(port = 0): FakeMeilisearch {
  const indexes: FakeMeilisearch["indexes"] = new Map();
  const requests: string[] = [];
  const bodies: string[] = [];
  const does: FakeMeilisearch["does"] = {};
  const tasks: Task[] = [];

  function enqueue(work: () => Task["error"]): Response {
    const error = work();
    tasks.push({ uid: tasks.length, status: error ? "failed" : "succeeded", error });
    return Response.json({ taskUid: tasks.length - 1, indexUid: "", status: "enqueued", type: "", enqueuedAt: "" });
  }

  const missing = (): Task["error"] => ({ message: "Index not found.", code: "index_not_found" });

  function writeDocuments(uid: string, documents: Document[]): Task["error"] {
    const index = indexes.get(uid);
    if (!index) return missing();
    for (const document of documents) {
      const message = does.refuse?.(document);
      if (message !== undefined) return { message, code: "invalid_document_fields" };
    }
    for (const document of documents) index.set(document.id, document);
    return null;
  }

  function route(method: string, [kind = "", uid = "", what = "", id = ""]: string[], body: string): Response {
    const index = indexes.get(uid);
    switch (`${method} ${kind} ${what}`) {
      case "GET tasks ":
        return Response.json(tasks[Number(uid)]);
      case "POST indexes ": {
        const { uid: made } = JSON.parse(body) as { uid: string };
        return enqueue(() => {
          if (indexes.has(made)) return { message: "Index already exists.", code: "index_already_exists" };
          indexes.set(made, new Map());
          return null;
        });
      }
      case "DELETE indexes ":
        return enqueue(() => (indexes.delete(uid) ? null : missing()));
      case "PATCH indexes settings":
        return enqueue(() => (index ? null : missing()));
      case "POST indexes documents":
        return id === "delete-batch"
          ? enqueue(() => {
              for (const number of JSON.parse(body) as number[]) index?.delete(number);
              return index ? null : missing();
            })
          : enqueue(() => writeDocuments(uid, JSON.parse(body)));
      case "GET indexes documents": {
        const document = index?.get(Number(id));
        if (!document) return problem(404, index ? "document_not_found" : "index_not_found");
        return Response.json({ id: document.id, mark: document.mark });
      }
      case "GET indexes stats":
        return index
          ? Response.json({ numberOfDocuments: index.size, isIndexing: false, fieldDistribution: {} })
          : problem(404, "index_not_found");
      case "POST multi-search ": {
        const { queries } = JSON.parse(body) as { queries: (Asked & { indexUid: string })[] };
        if (queries.some(({ indexUid }) => !indexes.has(indexUid))) return problem(400, "index_not_found");
        const results = queries.map((asked) => {
          const found = does.find?.(asked) ?? [];
          return asked.showRankingScore
            ? { hits: found.map((id, place) => ({ id, _rankingScore: 1 / (place + 1) })) }
            : { facetDistribution: { id: Object.fromEntries(found.map((number) => [number, 1])) } };
        });
        return Response.json({ results });
      }
      default:
        return problem(404, "not_found");
    }
  }

  const key = "fake-key";
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const body = await request.text();
      const name = `${request.method} ${pathname.replace(/^\/tasks\/\d+$/, "/tasks")}`;
      requests.push(name);
      bodies.push(body);
      if (request.headers.get("authorization") !== `Bearer ${key}`) return problem(403, "invalid_api_key");
      return (await does.answer?.(name, body)) ?? route(request.method, pathname.split("/").slice(1), body);
    },
  });
  running.add(server);
  return {
    url: `http://127.0.0.1:${server.port}`,
    key,
    indexes,
    requests,
    bodies,
    does,
    messages() {
      const [index, ...others] = indexes.values();
      if (others.length > 0) throw new Error(`there are ${indexes.size} indexes`);
      return [...(index?.keys() ?? [])].filter((number) => number !== 0).sort((a, b) => a - b);
    },
    stop() {
      running.delete(server);
      server.stop(true);
    },
  };
}
