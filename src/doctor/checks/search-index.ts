/** Every message is in the search index, and nothing else is; and so in that of Meilisearch, where that is the engine. */
import { countBacklog } from "../../search/fts5/backlog.ts";
import { createClient } from "../../search/meilisearch/client.ts";
import { chooseConnection, type Place } from "../../search/meilisearch/connection.ts";
import { countRefused, countUntold, readFeed } from "../../search/meilisearch/feed-rows.ts";
import { readProcessState } from "../../search/meilisearch/process-state.ts";
import type { Check, Finding, World } from "../check.ts";

const PATIENCE_MS = 8_000;
const TODO = "Build it anew: mailroom reindex";

export const checkSearchIndex: Check = async (world) => {
  const { messages, indexed } = countRows(world);
  const base = { id: "search", name: "Search index" } as const;
  return [{ ...base, ...stateOf(world, messages, indexed) }, ...(await checkFed(world, messages))];
};

function stateOf({ store }: World, messages: number, indexed: number): Pick<Finding, "state" | "detail" | "todo"> {
  if (countBacklog(store.db) > 0) {
    const detail = `it is being made anew and has ${indexed} of ${messages} messages: searches do not find the others`;
    return { state: "warning", detail, todo: "Let the server run, which goes on with it" };
  }
  return messages === indexed
    ? { state: "ok", detail: `it has all ${messages} messages` }
    : { state: "bad", detail: `it has ${indexed} of ${messages} messages`, todo: TODO };
}

function countRows({ store }: World): { messages: number; indexed: number } {
  const row = store.db.$client
    .query<{ messages: number; indexed: number }, []>(
      "SELECT (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM message_index_docsize) AS indexed",
    )
    .get();
  return row ?? { messages: 0, indexed: 0 };
}

/** Where the server is, as who runs it has left word of it. */
function placeOf({ options, config }: World): Place | undefined {
  const child = { current: () => readProcessState(config.data)?.place, onChange: () => {}, stop: async () => {} };
  return chooseConnection({ get: options.get, onRefresh: () => {} }, child).current();
}

/** Whether the server answers is another check's. */
async function checkFed(world: World, messages: number): Promise<Finding[]> {
  const { db } = world.store;
  const feed = readFeed(db);
  const place = placeOf(world);
  if (!feed?.active || !place) return [];
  const base = { id: "search-feed", name: "Meilisearch index" } as const;
  let indexed: number;
  try {
    // Beside the messages it has its mark.
    indexed = (await createClient(place, { requestMs: PATIENCE_MS, taskMs: PATIENCE_MS }).count(feed.indexUid)) - 1;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [{ ...base, state: "unknown", detail: `it does not say what it has: ${reason}` }];
  }
  const refused = countRefused(db);
  const less = refused === 0 ? "" : `; it refused ${refused}, so the embedded index answers and it only forgives typos`;
  if (feed.filledThrough !== null || countUntold(db, feed) > 0) {
    const detail = `it has ${indexed} of ${messages} messages and is being told of the others, while the embedded index answers${less}`;
    return [{ ...base, state: "warning", detail }];
  }
  if (indexed + refused === messages && refused === 0) {
    return [{ ...base, state: "ok", detail: `it has all ${messages} messages` }];
  }
  const detail = `it has ${indexed} of ${messages} messages${less}`;
  return [{ ...base, state: indexed + refused === messages ? "warning" : "bad", detail, todo: TODO }];
}
