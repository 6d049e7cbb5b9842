/**
 * Talks to a Meilisearch server through its official client; no other file uses that. Writes resolve when the server
 * has finished them, not when it has queued them.
 *
 * Failures are ServerErrors whose `trouble` the caller can act on. Keys never appear in one.
 *
 * The last part chooses the server: the one that the settings name, or the child process.
 */
import {
  type EnqueuedTask,
  Meilisearch,
  MeilisearchApiError,
  MeilisearchError,
  type MultiSearchQuery,
  type Settings,
} from "meilisearch";
import type { Runtime } from "../../base/runtime.ts";
import { readResponseText, SHORT_ANSWER, toShownSentence } from "../../net/answer.ts";
import type { Options } from "../../store/settings.ts";
import { MARK_ID, type MarkDocument, type MessageDocument } from "./message-documents.ts";

/**
 * `unreachable`: no response, or none in time. `key`: not authorised. `missing`: no such index. `refused`: the server
 * rejects what was sent. `failing`: it cannot do it now, for example because its disk is full.
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
  /** Attributes to search; default: all searchable ones. */
  fields?: readonly string[];
}

/** `score`: the server's own, from 0 to 1; higher is better. */
interface RankedMessage {
  number: number;
  score: number;
}

export type Client = ReturnType<typeof createMeilisearchClient>;

/** Bytes of what searches find: the numbers of a million messages, each a key with a count, take some fifteen million. */
const LARGEST_FOUND = 64 * 1024 * 1024;
/** Objects and lists of an answer. Each takes much more memory than its two characters; the largest answers have some hundred. */
const MOST_PARTS = 10_000;
const POLL_MS = 20;
const PRIMARY_KEY = "id";
/** Error codes that a retry cannot fix (https://www.meilisearch.com/docs/reference/errors/error_codes). */
const OF_A_DOCUMENT =
  /^(invalid_document|missing_document|malformed_payload|payload_too_large|bad_request|max_fields|document_)/;

function classifyTrouble(code: string, status: number): Trouble {
  if (code === "index_not_found" || code === "document_not_found") return "missing";
  if (status === 401 || status === 403) return "key";
  if (OF_A_DOCUMENT.test(code) || status === 413) return "refused";
  return "failing";
}

/** Converts an error of the client to a ServerError. */
function serverError(thrown: unknown): unknown {
  // The client wraps what the function throws that makes its requests.
  const error =
    thrown instanceof MeilisearchError && thrown.cause instanceof MeilisearchApiError ? thrown.cause : thrown;
  if (error instanceof MeilisearchApiError) {
    const message = toShownSentence(error.message) || `it answered ${error.response.status}`;
    return new ServerError(classifyTrouble(error.cause?.code ?? "", error.response.status), message, { cause: error });
  }
  // A server that is not Meilisearch does not respond with JSON.
  if (error instanceof MeilisearchError || error instanceof SyntaxError) {
    return new ServerError("unreachable", "it does not answer", { cause: error });
  }
  return error;
}

/**
 * `requestMs` and `taskMs` limit the time of one request and of a queued task; `signal` ends waiting for work in
 * progress. `fetch` makes the requests.
 */
export function createMeilisearchClient(
  { url, key }: ServerAddress,
  {
    requestMs,
    taskMs,
    signal,
    fetch,
  }: { requestMs: number; taskMs: number; signal?: AbortSignal } & Pick<Runtime, "fetch">,
) {
  /** Requests as the client makes them itself, whose own ones look names up by the system. */
  async function httpClient(...[input, init]: Parameters<typeof fetch>): Promise<unknown> {
    const response = await fetch(input, { ...init, redirect: "manual" });
    const isSearch = String(input).endsWith("/multi-search");
    const text = await readResponseText(response, isSearch ? LARGEST_FOUND : SHORT_ANSWER);
    if (hasMoreParts(text, MOST_PARTS)) throw new Error(`it has more than ${MOST_PARTS} objects and lists`);
    const body = text === "" ? undefined : JSON.parse(text);
    if (!response.ok) throw new MeilisearchApiError(response, body);
    return body;
  }

  const server = new Meilisearch({ host: url, apiKey: key, timeout: requestMs, httpClient });
  const aborted = new Promise<never>((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  aborted.catch(() => {});

  /** The client's requests accept no signal, so an aborted one ends in the background. */
  async function ask<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await (signal ? Promise.race([work(), aborted]) : work());
    } catch (error) {
      throw serverError(error);
    }
  }

  async function done(enqueued: Promise<EnqueuedTask>): Promise<void> {
    const { error } = await server.tasks.waitForTask(await enqueued, { timeout: taskMs, interval: POLL_MS });
    if (error) throw new ServerError(classifyTrouble(error.code, 0), toShownSentence(error.message));
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
    /** Deletes the index if it exists. */
    drop: (index: string): Promise<void> => ask(() => drop(index)),
    /** Creates the index empty with these settings, replacing an existing one. */
    make: (index: string, settings: Settings): Promise<void> =>
      ask(async () => {
        await drop(index);
        await done(server.createIndex(index, { primaryKey: PRIMARY_KEY }));
        await done(server.index(index).updateSettings(settings));
      }),
    /** Removes documents, then adds or replaces others. */
    write: (
      index: string,
      removed: readonly number[],
      added: readonly (MessageDocument | MarkDocument)[],
    ): Promise<void> =>
      ask(async () => {
        if (removed.length > 0) await done(server.index(index).deleteDocuments([...removed]));
        if (added.length > 0) await done(server.index(index).addDocuments([...added]));
      }),
    /** The mark stored in the index; undefined without an index or mark. */
    readMark: (index: string): Promise<string | undefined> =>
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
    /** Number of documents in the index, including the mark. */
    count: (index: string): Promise<number> =>
      ask(async () => (await server.index(index).getStats()).numberOfDocuments),
    /** For each query, the numbers of the messages it finds. */
    search: (index: string, queries: readonly IndexQuery[]): Promise<number[][]> =>
      ask(async () => {
        const requests = queries.map((query) => ({
          ...toSearchRequest(index, query),
          limit: 0,
          facets: [PRIMARY_KEY],
        }));
        const { results } = await server.multiSearch({ queries: requests });
        if (results.length !== queries.length) throw new ServerError("failing", "it answered something else");
        return results.map(({ facetDistribution }) => numbersIn(facetDistribution?.[PRIMARY_KEY]));
      }),
    /** The best messages for the query, best first, up to `most`. */
    rank: (index: string, query: IndexQuery, most: number): Promise<RankedMessage[]> =>
      ask(async () => {
        const ranked = { attributesToRetrieve: [PRIMARY_KEY], showRankingScore: true, limit: most };
        const { results } = await server.multiSearch({ queries: [{ ...toSearchRequest(index, query), ...ranked }] });
        return rankedIn(results[0]?.hits);
      }),
  };
}

/** True if a JSON text has more than `most` objects and lists, or as many brackets in its strings. */
function hasMoreParts(text: string, most: number): boolean {
  let count = 0;
  for (const bracket of ["{", "["]) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) if (++count > most) return true;
  }
  return false;
}

const toSearchRequest = (indexUid: string, { q, filter, fields }: IndexQuery): MultiSearchQuery => ({
  indexUid,
  q,
  filter,
  matchingStrategy: "all",
  ...(fields && { attributesToSearchOn: [...fields] }),
});

const isMessage = (number: unknown): number is number => Number.isSafeInteger(number) && (number as number) > MARK_ID;

/** Reads hits. Ignores those that are no messages, as `numbersIn` does. @throws ServerError without a list */
function rankedIn(hits: unknown): RankedMessage[] {
  if (!Array.isArray(hits)) throw new ServerError("failing", "it answered something else");
  return hits.flatMap(({ [PRIMARY_KEY]: number, _rankingScore: score }: Record<string, unknown>) =>
    isMessage(number) && Number.isFinite(score) ? [{ number, score: score as number }] : [],
  );
}

/**
 * The documents found, derived from the number of occurrences of each id: a tenth of the cost of as many hits. Ignores
 * keys that are not message numbers. @throws ServerError without counts, which differs from an empty result
 */
function numbersIn(counts: unknown): number[] {
  if (typeof counts !== "object" || counts === null) throw new ServerError("failing", "it answered something else");
  const numbers = Object.keys(counts).map(Number);
  return numbers.filter(isMessage).sort((a, b) => a - b);
}

/*
 * The address of the Meilisearch server: `search.meilisearchUrl`, else the child process that the appliance runs. Users
 * read it each time, and are notified when it may have changed.
 */

/** The address of a running server. */
export interface ServerAddress {
  /** `http://host:port`, possibly with a path, without a trailing slash. */
  url: string;
  /** Empty for a server without keys. Never logged. */
  key: string;
}

export interface Connection {
  /** Undefined while there is no server: off, starting, or down. */
  current(): ServerAddress | undefined;
  /** `listener` is called when the result of `current` may have changed. */
  onChange(listener: () => void): void;
  stop(graceMs: number): Promise<void>;
}

/** The configured server, else the child; none while another engine is selected. */
export function chooseMeilisearchConnection(
  options: Pick<Options, "get" | "onRefresh">,
  child?: Connection,
): Connection {
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
