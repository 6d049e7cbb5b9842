/**
 * What is asked of a Meilisearch server, through its official client: the only file that knows it. Whatever writes
 * resolves when the server has done it, not when it has taken it down.
 *
 * What goes wrong is a ServerError that says what may be done about it; keys never get into one.
 */
import {
  type EnqueuedTask,
  Meilisearch,
  MeilisearchApiError,
  MeilisearchError,
  type MultiSearchQuery,
  type Settings,
} from "meilisearch";
import type { Options } from "../../store/settings.ts";
import { MARK_ID, type MarkDocument, type MessageDocument } from "./documents.ts";

export type IndexSettings = Settings;

/**
 * `unreachable`: no answer, or none in time. `key`: it is not let in. `missing`: there is no such index. `refused`: it
 * will not take what it was sent. `failing`: it cannot do it now, its disk being full, say.
 */
export type Trouble = "unreachable" | "key" | "missing" | "refused" | "failing";

export class ServerError extends Error {
  override name = "ServerError";
  constructor(
    readonly trouble: Trouble,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

export interface IndexQuery {
  q: string;
  filter: string;
  /** Attributes to look in; all that are searchable unless given. */
  fields?: readonly string[];
}

/** `score`: from 0 to 1, the more the better; the server's own. */
export interface RankedMessage {
  number: number;
  score: number;
}

export interface Client {
  /** Makes the index with these settings, empty, whether or not there was one. */
  make(index: string, settings: IndexSettings): Promise<void>;
  /** Deletes the index, if there is one. */
  drop(index: string): Promise<void>;
  /** Removes and adds or replaces documents, in this order. */
  write(index: string, removed: readonly number[], added: readonly (MessageDocument | MarkDocument)[]): Promise<void>;
  /** The mark kept in the index; undefined when there is no index or none in it. */
  readMark(index: string): Promise<string | undefined>;
  /** How many documents the index has, the mark included. */
  count(index: string): Promise<number>;
  /** The numbers of the messages that each of the queries finds. */
  search(index: string, queries: readonly IndexQuery[]): Promise<number[][]>;
  /** The messages that answer the query best, the best first, up to `most`. */
  rank(index: string, query: IndexQuery, most: number): Promise<RankedMessage[]>;
}

export interface ClientLimits {
  /** For one request, ms. */
  requestMs: number;
  /** For what it has taken down to be done, ms. */
  taskMs: number;
  /** Ends the waiting for what is under way. */
  signal?: AbortSignal;
}

const POLL_MS = 20;
const PRIMARY_KEY = "id";
/** Codes of what can be sent in vain again and again (https://www.meilisearch.com/docs/reference/errors/error_codes). */
const OF_A_DOCUMENT =
  /^(invalid_document|missing_document|malformed_payload|payload_too_large|bad_request|max_fields|document_)/;

function troubleOf(code: string, status: number): Trouble {
  if (code === "index_not_found" || code === "document_not_found") return "missing";
  if (status === 401 || status === 403) return "key";
  if (OF_A_DOCUMENT.test(code) || status === 413) return "refused";
  return "failing";
}

/** What the client threw, as a ServerError. */
function serverError(error: unknown): unknown {
  if (error instanceof MeilisearchApiError) {
    return new ServerError(troubleOf(error.cause?.code ?? "", error.response.status), error.message, { cause: error });
  }
  // What answers without being a Meilisearch server gives what is no JSON.
  if (error instanceof MeilisearchError || error instanceof SyntaxError) {
    return new ServerError("unreachable", "it does not answer", { cause: error });
  }
  return error;
}

export function createClient({ url, key }: Place, { requestMs, taskMs, signal }: ClientLimits): Client {
  const server = new Meilisearch({ host: url, apiKey: key, timeout: requestMs });
  const aborted = new Promise<never>((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  aborted.catch(() => {});

  /** The client's requests take no signal: what is under way when it comes is left to end by itself. */
  async function ask<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await (signal ? Promise.race([work(), aborted]) : work());
    } catch (error) {
      throw serverError(error);
    }
  }

  async function done(enqueued: Promise<EnqueuedTask>): Promise<void> {
    const { error } = await server.tasks.waitForTask(await enqueued, { timeout: taskMs, interval: POLL_MS });
    if (error) throw new ServerError(troubleOf(error.code, 0), error.message);
  }

  async function drop(index: string): Promise<void> {
    try {
      await done(server.deleteIndex(index));
    } catch (error) {
      const failure = serverError(error);
      if (!(failure instanceof ServerError && failure.trouble === "missing")) throw failure;
    }
  }

  return {
    drop: (index) => ask(() => drop(index)),
    make: (index, settings) =>
      ask(async () => {
        await drop(index);
        await done(server.createIndex(index, { primaryKey: PRIMARY_KEY }));
        await done(server.index(index).updateSettings(settings));
      }),
    write: (index, removed, added) =>
      ask(async () => {
        if (removed.length > 0) await done(server.index(index).deleteDocuments([...removed]));
        if (added.length > 0) await done(server.index(index).addDocuments([...added]));
      }),
    readMark: (index) =>
      ask(async () => {
        try {
          const { mark } = await server.index<MarkDocument>(index).getDocument(MARK_ID);
          return typeof mark === "string" ? mark : undefined;
        } catch (error) {
          const failure = serverError(error);
          if (failure instanceof ServerError && failure.trouble === "missing") return undefined;
          throw failure;
        }
      }),
    count: (index) => ask(async () => (await server.index(index).getStats()).numberOfDocuments),
    search: (index, queries) =>
      ask(async () => {
        const asked = queries.map((query) => ({ ...askedOf(index, query), limit: 0, facets: [PRIMARY_KEY] }));
        const { results } = await server.multiSearch({ queries: asked });
        if (results.length !== queries.length) throw new ServerError("failing", "it answered something else");
        return results.map(({ facetDistribution }) => numbersIn(facetDistribution?.[PRIMARY_KEY]));
      }),
    rank: (index, query, most) =>
      ask(async () => {
        const asked = { attributesToRetrieve: [PRIMARY_KEY], showRankingScore: true, limit: most };
        const { results } = await server.multiSearch({ queries: [{ ...askedOf(index, query), ...asked }] });
        return rankedIn(results[0]?.hits);
      }),
  };
}

const askedOf = (indexUid: string, { q, filter, fields }: IndexQuery): MultiSearchQuery => ({
  ...{ indexUid, q, filter, matchingStrategy: "all" },
  ...(fields && { attributesToSearchOn: [...fields] }),
});

const isMessage = (number: unknown): number is number => Number.isSafeInteger(number) && (number as number) > MARK_ID;

/** As of `numbersIn`. */
function rankedIn(hits: unknown): RankedMessage[] {
  if (!Array.isArray(hits)) throw new ServerError("failing", "it answered something else");
  return hits.flatMap(({ [PRIMARY_KEY]: number, _rankingScore: score }: Record<string, unknown>) =>
    isMessage(number) && Number.isFinite(score) ? [{ number, score: score as number }] : [],
  );
}

/**
 * The documents found, told by how often each id occurs among them: a tenth of the cost of as many hits. Whatever is no
 * number of a message is passed over. @throws ServerError when there are no counts: that is not the same as nothing found
 */
function numbersIn(counts: unknown): number[] {
  if (typeof counts !== "object" || counts === null) throw new ServerError("failing", "it answered something else");
  const numbers = Object.keys(counts).map(Number);
  return numbers.filter(isMessage).sort((a, b) => a - b);
}

/*
 * Where the Meilisearch server is, and whether there is one: that of `search.meilisearchUrl`, else the child process that
 * the appliance runs. Whoever uses it asks each time, and is told when the answer may have changed.
 */

/** A server that can be asked now. */
export interface Place {
  /** `http://host:port`, maybe with a path; without a slash at the end. */
  url: string;
  /** Empty for a server without keys. Never logged. */
  key: string;
}

export interface Connection {
  /** Undefined while there is none: off, starting, or down. */
  current(): Place | undefined;
  /** `listener` is called when what `current` gives may have changed. */
  onChange(listener: () => void): void;
  stop(graceMs: number): Promise<void>;
}

/** That of the settings, where they name one; otherwise the child's; none while the engine is another. */
export function chooseConnection(options: Pick<Options, "get" | "onRefresh">, child?: Connection): Connection {
  return {
    current() {
      if (options.get("search.engine") !== "meilisearch") return undefined;
      const url = options.get("search.meilisearchUrl");
      if (url === "none") return child?.current();
      const key = options.get("search.meilisearchKey");
      return { url, key: key === "none" ? "" : key };
    },
    onChange(listener) {
      options.onRefresh(listener);
      child?.onChange(listener);
    },
    stop: async (graceMs) => child?.stop(graceMs),
  };
}
