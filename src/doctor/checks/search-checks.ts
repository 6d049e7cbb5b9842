/** Checks of search: the Meilisearch server, if the settings ask for one, and the index. */
import { join } from "node:path";
import { findExecutable, readProcessState } from "../../base/child-process.ts";
import { toIsoTime } from "../../base/time.ts";
import { readResponseText, SHORT_ANSWER } from "../../net/answer.ts";
import { countIndexBacklog } from "../../search/fts5/upkeep.ts";
import { countMessagesToIndex, countRefusedByIndex, readMeilisearchFeed } from "../../search/meilisearch/feed-rows.ts";
import {
  chooseMeilisearchConnection,
  createMeilisearchClient,
  type ServerAddress,
} from "../../search/meilisearch/meilisearch-client.ts";
import { MEILISEARCH, SEARCH_FOLDER, type StoredState } from "../../search/meilisearch/process.ts";
import { statement } from "../../store/statement.ts";
import type { Check, Finding, World } from "../check.ts";

/* The Meilisearch server, if the settings ask for one. While it is down, the embedded index answers searches. */

const PATIENCE_MS = 8_000;
const REINDEX = "Build it anew: mailroom reindex";
const MB = 1_000_000;

export const checkSearchEngine: Check = async (world) => {
  if (world.options.get("search.engine") !== "meilisearch") return [];
  const base = { id: "search-engine", name: "Meilisearch" } as const;
  const found = world.options.get("search.meilisearchUrl") === "none" ? await seeOurs(world) : await seeOther(world);
  return [{ ...base, ...found }];
};

const readStoredState = (data: string): StoredState | undefined => readProcessState(join(data, SEARCH_FOLDER));

type Found = Pick<Finding, "state" | "detail" | "todo">;

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Finds the state of this server's Meilisearch process. */
async function seeOurs({ config, options, runtime, serving }: World): Promise<Found> {
  const todo =
    "Searches are answered by the embedded index meanwhile. Its reason is in the log (journalctl -u mailroom); mailroom settings set search.engine fts5 gives it up.";
  if (!serving) {
    const setting = options.get("search.meilisearchPath");
    try {
      const { path, version } = await findExecutable(
        MEILISEARCH,
        setting,
        config.data,
        runtime,
        new AbortController().signal,
      );
      return { state: "ok", detail: `${path} is version ${version}; it runs while the server does` };
    } catch (error) {
      return { state: "bad", detail: describeError(error), todo };
    }
  }
  const stored = readStoredState(config.data);
  if (stored?.state === "failed") {
    const when = stored.retryAt === undefined ? "" : `; it is tried again at ${toIsoTime(stored.retryAt)}`;
    return { state: "bad", detail: `it does not run: ${stored.reason}${when}`, todo };
  }
  if (stored?.state !== "running" || stored.place === undefined) return { state: "warning", detail: "it is starting" };
  const restarts =
    stored.restarts === 0 ? "" : `, started again ${stored.restarts === 1 ? "once" : `${stored.restarts} times`}`;
  try {
    const { bytes } = await ask(stored.place.url, stored.place.key, runtime);
    const size = `${(bytes / MB).toFixed(1)} MB of disk`;
    return {
      state: "ok",
      detail: `version ${stored.version} answers (process ${stored.pid}${restarts}), and takes ${size}`,
    };
  } catch (error) {
    const detail = `process ${stored.pid} (version ${stored.version}${restarts}) does not answer: ${describeError(error)}`;
    return { state: "bad", detail, todo };
  }
}

/** Finds the state of a Meilisearch server that somebody else runs. */
async function seeOther({ options, runtime }: World): Promise<Found> {
  const url = options.get("search.meilisearchUrl");
  const key = options.get("search.meilisearchKey");
  try {
    const { bytes } = await ask(url, key === "none" ? "" : key, runtime);
    return { state: "ok", detail: `${url} answers, and takes ${(bytes / MB).toFixed(1)} MB of disk` };
  } catch (error) {
    return {
      state: "bad",
      detail: `${url} cannot be used: ${describeError(error)}`,
      todo: "Start that server, or correct search.meilisearchUrl and search.meilisearchKey; searches are answered by the embedded index meanwhile.",
    };
  }
}

/** Bytes of its data on disk. @throws Error with the reason when it does not answer */
async function ask(
  url: string,
  key: string,
  { fetch, setTimer }: Pick<World["runtime"], "fetch" | "setTimer">,
): Promise<{ bytes: number }> {
  const controller = new AbortController();
  const cancel = setTimer(() => controller.abort(new Error(`no answer within ${PATIENCE_MS / 1_000} s`)), PATIENCE_MS);
  try {
    const response = await fetch(`${url}/stats`, {
      signal: controller.signal,
      redirect: "manual",
      headers: key === "" ? {} : { authorization: `Bearer ${key}` },
    });
    if (response.status === 401 || response.status === 403) throw new Error("it refuses the key");
    const answer = response.ok ? await readResponseText(response, SHORT_ANSWER) : "{}";
    const { databaseSize } = JSON.parse(answer) as { databaseSize?: unknown };
    if (typeof databaseSize !== "number") throw new Error(`what answers there (${response.status}) is no Meilisearch`);
    return { bytes: databaseSize };
  } finally {
    cancel();
  }
}

/* The search index has every message and nothing else. The same goes for Meilisearch's index, if that is the engine. */

export const checkSearchIndex: Check = async (world) => {
  const { messages, indexed } = countRows(world);
  const base = { id: "search", name: "Search index" } as const;
  return [{ ...base, ...judgeSearchIndex(world, messages, indexed) }, ...(await checkFed(world, messages))];
};

function judgeSearchIndex(
  { store }: World,
  messages: number,
  indexed: number,
): Pick<Finding, "state" | "detail" | "todo"> {
  if (countIndexBacklog(store.db) > 0) {
    const detail = `it is taking in mail and has ${indexed} of ${messages} messages: searches do not find the others`;
    return { state: "warning", detail, todo: "Let the server run, which goes on with it" };
  }
  return messages === indexed
    ? { state: "ok", detail: `it has all ${messages} messages` }
    : { state: "bad", detail: `it has ${indexed} of ${messages} messages`, todo: REINDEX };
}

const selectCounts = statement<{ messages: number; indexed: number }>(
  "SELECT (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM message_index_docsize) AS indexed",
);

function countRows({ store }: World): { messages: number; indexed: number } {
  return selectCounts(store.db).get() ?? { messages: 0, indexed: 0 };
}

/** The connection to Meilisearch, from the settings or the state file of its process. */
function findSearchServer({ options, config }: World): ServerAddress | undefined {
  const current = () => readStoredState(config.data)?.place;
  const child = { current, onChange: () => {}, stop: async () => {} };
  return chooseMeilisearchConnection({ get: options.get, onRefresh: () => {} }, child).current();
}

/** Compares Meilisearch's index; checkSearchEngine reports a server that does not answer. */
async function checkFed(world: World, messages: number): Promise<Finding[]> {
  const { db } = world.store;
  const feed = readMeilisearchFeed(db);
  const place = findSearchServer(world);
  if (!feed?.active || !place) return [];
  const base = { id: "search-feed", name: "Meilisearch index" } as const;
  let indexed: number;
  try {
    // One document is the feed's own mark.
    const { fetch } = world.runtime;
    const client = createMeilisearchClient(place, { requestMs: PATIENCE_MS, taskMs: PATIENCE_MS, fetch });
    indexed = (await client.count(feed.indexUid)) - 1;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [{ ...base, state: "unknown", detail: `it does not say what it has: ${reason}` }];
  }
  const refused = countRefusedByIndex(db);
  const less = refused === 0 ? "" : `; it refused ${refused}, so the embedded index answers and it only forgives typos`;
  if (feed.filledThrough !== null || countMessagesToIndex(db, feed) > 0) {
    const detail = `it has ${indexed} of ${messages} messages and is being told of the others, while the embedded index answers${less}`;
    return [{ ...base, state: "warning", detail }];
  }
  if (indexed + refused === messages && refused === 0) {
    return [{ ...base, state: "ok", detail: `it has all ${messages} messages` }];
  }
  const detail = `it has ${indexed} of ${messages} messages${less}`;
  return [{ ...base, state: indexed + refused === messages ? "warning" : "bad", detail, todo: REINDEX }];
}
