/**
 * The search of the server. FTS5 is always written, in the transactions of the mail, and can serve every search. If
 * the settings enable Meilisearch, it serves them instead while its index is complete. While it is down, behind,
 * filling, too slow or faulty, FTS5 takes over, and the state says so.
 */
import type { ProcessState } from "../base/child-process.ts";
import type { Metrics, Sample } from "../base/metrics.ts";
import type { Core } from "../store/core.ts";
import type { SearchEngine } from "./engine.ts";
import { createFts5Engine } from "./fts5/fts5.ts";
import { countIndexBacklog } from "./fts5/upkeep.ts";
import { createMeilisearchFeed, type Fed, type FeedState } from "./meilisearch/feed.ts";
import {
  beginMeilisearchFeed,
  countMessagesToIndex,
  noteSearchChange,
  readMeilisearchFeed,
} from "./meilisearch/feed-rows.ts";
import { type Connection, chooseMeilisearchConnection } from "./meilisearch/meilisearch-client.ts";
import { createMeilisearchEngine } from "./meilisearch/meilisearch-engine.ts";
import { SETTINGS_VERSION } from "./meilisearch/message-documents.ts";

export interface SearchState {
  /** The engine that serves searches. */
  engine: "fts5" | "meilisearch";
  /** For people: the reason why FTS5 serves although Meilisearch is enabled, and the mail that FTS5 lacks. */
  reason?: string;
  feed: FeedState;
  /** Approximate number of stored messages that the embedded index lacks. */
  backlog: number;
  /** Searches since the start that FTS5 served in place of Meilisearch. */
  fallbacks: number;
}

export type Search = ReturnType<typeof createSearch>;

/** Time without queries to Meilisearch after a failure, ms. */
const REST_MS = 5_000;

const messages = (count: number): string => `${count} ${count === 1 ? "message" : "messages"}`;

/** A reason that anybody may read; the log has the exact error. */
function describeFeedTrouble({ phase, behind, refused }: FeedState): string | undefined {
  switch (phase) {
    case "down":
      return "meilisearch is not running";
    case "failing":
      return "meilisearch cannot be fed";
    case "filling":
      return `meilisearch is being filled: ${messages(behind)} to go`;
    case "behind":
      return `meilisearch is behind by ${messages(behind)}`;
    case "current":
      return refused === 0 ? undefined : `meilisearch refused ${messages(refused)}`;
    default:
      return undefined;
  }
}

export function createSearch({ store, options, runtime, log, wake }: Core) {
  const fts5 = createFts5Engine(store);
  const meilisearch = createMeilisearchEngine(store.db, runtime, fts5.messagesMatching);
  let feed: ReturnType<typeof createMeilisearchFeed> | undefined;
  let failedAt = Number.NEGATIVE_INFINITY;
  /** A clock that was set back also ends the pause. */
  const rests = (): boolean => Math.abs(runtime.now() - failedAt) < REST_MS;
  let fallbacks = 0;

  /** The result of Meilisearch; undefined if it cannot serve now, or lacks refused mail while `exactly` is required. */
  async function askMeilisearch<T>(exactly: boolean, ask: (fed: Fed) => Promise<T>): Promise<T | undefined> {
    const fed = rests() ? undefined : feed?.current();
    if (!fed || (exactly && !fed.complete)) {
      if (options.get("search.engine") === "meilisearch") fallbacks++;
      return undefined;
    }
    try {
      return await ask(fed);
    } catch (error) {
      fallbacks++;
      failedAt = runtime.now();
      log.warn("Meilisearch did not answer a search, FTS5 does", { error });
      feed?.doubt();
      return undefined;
    }
  }

  const engine: SearchEngine = {
    ...fts5,
    isExternal: () => options.get("search.engine") === "meilisearch",

    add(tx, messageSeq, scope, document) {
      noteSearchChange(tx, messageSeq);
      fts5.add(tx, messageSeq, scope, document);
    },
    addLater(tx, messageSeq) {
      noteSearchChange(tx, messageSeq);
      fts5.addLater(tx, messageSeq);
      wake("search-backlog");
    },
    replace(tx, messageSeq, scope, document) {
      noteSearchChange(tx, messageSeq);
      fts5.replace(tx, messageSeq, scope, document);
    },
    refill(tx) {
      if (readMeilisearchFeed(tx)?.active) beginMeilisearchFeed(tx, SETTINGS_VERSION, runtime);
    },
    pending() {
      const row = readMeilisearchFeed(store.db);
      return row?.active ? countMessagesToIndex(store.db, row) : undefined;
    },

    async match(query, scope) {
      const found = await askMeilisearch(true, (fed) => meilisearch.match(fed, query, scope));
      return found ?? fts5.match(query, scope);
    },
    matchLoosely: (query, scope) => askMeilisearch(false, (fed) => meilisearch.matchLoosely(fed, query, scope)),
    rank: (query, scope, found, isLoose) =>
      askMeilisearch(!isLoose, (fed) => meilisearch.rank(fed, query, scope, found, isLoose)),
  };

  return {
    ...engine,

    /** Begins to feed and query Meilisearch if the settings enable it. `child`: the server that the appliance runs. */
    start(child?: Connection): void {
      feed = createMeilisearchFeed({
        store,
        options,
        connection: chooseMeilisearchConnection(options, child),
        runtime,
        log,
      });
      feed.start();
    },
    /** Checks for changes by other processes. */
    look: (): void => feed?.look(),
    state(): SearchState {
      const state: FeedState = feed?.state() ?? { phase: "off", behind: 0, refused: 0 };
      const isResting = state.phase === "current" && rests();
      const fallback = isResting ? "meilisearch did not answer in time" : describeFeedTrouble(state);
      const engine = state.phase === "current" && fallback === undefined ? "meilisearch" : "fts5";
      const backlog = countIndexBacklog(store.db);
      const lacking = backlog === 0 ? undefined : `the index is taking in mail: ${messages(backlog)} to go`;
      const reason = [fallback, lacking].filter((one) => one !== undefined).join("; ");
      return { engine, ...(reason !== "" && { reason }), feed: state, backlog, fallbacks };
    },
    /** Resolves when Meilisearch has received everything that can be sent now. */
    idle: async (): Promise<void> => feed?.idle(),
    stop: async (): Promise<void> => feed?.stop(),
  };
}

/**
 * Registers the metrics of the embedded index, and of Meilisearch while it is enabled. `process`: the child process
 * that the appliance runs.
 */
export function registerSearchGauges(
  { gauge, counted }: Metrics,
  { search, process }: { search(): SearchState; process(): ProcessState },
): void {
  const ofSearch = (read: (state: SearchState) => number) => (): Sample[] => {
    const state = search();
    return state.feed.phase === "off" ? [] : [[{}, read(state)]];
  };
  const ofProcess = (read: (state: ProcessState) => number) => (): Sample[] => {
    const state = process();
    return state.state === "off" ? [] : [[{}, read(state)]];
  };

  gauge("mailroom_search_backlog_messages", "Stored messages that the embedded index has yet to take in", () => [
    [{}, search().backlog],
  ]);
  gauge(
    "mailroom_search_up",
    "Whether searches are answered by Meilisearch; else by the embedded index",
    ofSearch(({ engine }) => (engine === "meilisearch" ? 1 : 0)),
  );
  gauge(
    "mailroom_search_behind_messages",
    "Messages that Meilisearch has yet to be told of",
    ofSearch(({ feed }) => feed.behind),
  );
  gauge(
    "mailroom_search_refused_messages",
    "Messages that Meilisearch would not take",
    ofSearch(({ feed }) => feed.refused),
  );
  counted(
    "mailroom_search_fallbacks_total",
    "Searches that the embedded index answered in the place of Meilisearch",
    ofSearch(({ fallbacks }) => fallbacks),
  );
  gauge(
    "mailroom_search_process_up",
    "Whether the Meilisearch process answers",
    ofProcess(({ state }) => (state === "running" ? 1 : 0)),
  );
  counted(
    "mailroom_search_process_restarts_total",
    "How often the Meilisearch process was started again",
    ofProcess(({ restarts }) => restarts),
  );
}
