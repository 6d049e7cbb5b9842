/**
 * The search of the appliance. FTS5 is always written, in the transactions of the mail, and can always reply. If the
 * settings enable Meilisearch, it replies instead while its index is complete. While it is down, behind, filling, too
 * slow or faulty, FTS5 replies, and the state says so.
 */
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import type { SearchEngine } from "./engine.ts";
import { countBacklog } from "./fts5/backlog.ts";
import { createFts5Engine } from "./fts5/fts5.ts";
import { type Connection, chooseConnection } from "./meilisearch/client.ts";
import { SETTINGS_VERSION } from "./meilisearch/documents.ts";
import { createMeilisearchEngine } from "./meilisearch/engine.ts";
import { createFeed, type Fed, type FeedState } from "./meilisearch/feed.ts";
import { beginFeed, countPending, noteChange, readFeed } from "./meilisearch/feed-rows.ts";

export interface SearchState {
  /** The engine that replies. */
  engine: "fts5" | "meilisearch";
  /** For people: why FTS5 replies although Meilisearch is enabled, and what FTS5 lacks. */
  reason?: string;
  feed: FeedState;
  /** Approximate number of stored messages that the embedded index lacks. */
  backlog: number;
  /** Searches since the start that FTS5 replied to in place of Meilisearch. */
  fallbacks: number;
}

export interface Search extends SearchEngine {
  /** Begins to feed and query Meilisearch if the settings enable it. `child`: the server that the appliance runs. */
  start(child?: Connection): void;
  /** Checks for changes by other processes. */
  look(): void;
  state(): SearchState;
  /** Resolves when Meilisearch has received everything that can be sent now. */
  idle(): Promise<void>;
  stop(): Promise<void>;
}

export interface SearchParts {
  store: Store;
  options: Pick<Options, "get" | "onRefresh">;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  log: Log;
}

/** How long Meilisearch is not queried after a failure, ms. */
const REST_MS = 5_000;

const messages = (count: number): string => `${count} ${count === 1 ? "message" : "messages"}`;

/** For everybody; the exact error is for the operator. */
function reasonOf({ phase, behind, refused }: FeedState): string | undefined {
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

export function createSearch({ store, options, runtime, log }: SearchParts): Search {
  const fts5 = createFts5Engine(store);
  const meilisearch = createMeilisearchEngine({ db: store.db, narrow: fts5.messagesMatching });
  let feed: ReturnType<typeof createFeed> | undefined;
  let failedAt = Number.NEGATIVE_INFINITY;
  /** A clock that was set back also ends the pause. */
  const rests = (): boolean => Math.abs(runtime.now() - failedAt) < REST_MS;
  let fallbacks = 0;

  /** The response of Meilisearch; undefined if it cannot reply. `exactly`: requires an index with all mail. */
  async function askMeilisearch<T>(
    exactly: boolean,
    ask: (fed: Fed) => Promise<T>,
  ): Promise<{ answer: T } | undefined> {
    const fed = rests() ? undefined : feed?.current();
    if (!fed || (exactly && !fed.complete)) {
      if (options.get("search.engine") === "meilisearch") fallbacks++;
      return undefined;
    }
    try {
      return { answer: await ask(fed) };
    } catch (error) {
      fallbacks++;
      failedAt = runtime.now();
      log.warn("Meilisearch did not answer a search, FTS5 does", { error });
      feed?.doubt();
      return undefined;
    }
  }

  return {
    ...fts5,

    add(tx, messageSeq, scope, document) {
      noteChange(tx, messageSeq);
      fts5.add(tx, messageSeq, scope, document);
    },
    replace(tx, messageSeq, scope, document) {
      noteChange(tx, messageSeq);
      fts5.replace(tx, messageSeq, scope, document);
    },
    refill(tx) {
      if (readFeed(tx)?.active) beginFeed(tx, SETTINGS_VERSION, runtime);
    },
    pending() {
      const row = readFeed(store.db);
      return row?.active ? countPending(store.db, row) : undefined;
    },

    async match(query, scope) {
      const answered = await askMeilisearch(true, (fed) => meilisearch.match(fed, query, scope));
      return answered?.answer ?? fts5.match(query, scope);
    },
    matchLoosely: async (query, scope) =>
      (await askMeilisearch(false, (fed) => meilisearch.matchLoosely(fed, query, scope)))?.answer,
    rank: async (query, scope, found, isLoose) =>
      (await askMeilisearch(!isLoose, (fed) => meilisearch.rank(fed, query, scope, found, isLoose)))?.answer,

    start(child) {
      feed = createFeed({ store, options, connection: chooseConnection(options, child), runtime, log });
      feed.start();
    },
    look: () => feed?.look(),
    state() {
      const state = feed?.state() ?? { phase: "off", behind: 0, refused: 0 };
      const isResting = state.phase === "current" && rests();
      const fallback = isResting ? "meilisearch did not answer in time" : reasonOf(state);
      const engine = state.phase === "current" && fallback === undefined ? "meilisearch" : "fts5";
      const backlog = countBacklog(store.db);
      const lacking = backlog === 0 ? undefined : `the index is being made anew: ${messages(backlog)} to go`;
      const reason = [fallback, lacking].filter((one) => one !== undefined).join("; ");
      return { engine, ...(reason !== "" && { reason }), feed: state, backlog, fallbacks };
    },
    idle: async () => feed?.idle(),
    stop: async () => feed?.stop(),
  };
}
