/**
 * The search of the appliance. FTS5 is always written, in the transactions of the mail, and can always answer. Meilisearch,
 * where the settings want it, answers instead while its index has all there is; whenever it is down, behind, being filled,
 * too slow or at fault, FTS5 does, and the state says so.
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
import { beginFeed, countUntold, noteChange, readFeed } from "./meilisearch/feed-rows.ts";

export interface SearchState {
  /** Who answers. */
  engine: "fts5" | "meilisearch";
  /** Why it is FTS5 although the settings want Meilisearch, and what FTS5 lacks; for people. */
  reason?: string;
  feed: FeedState;
  /** About how many stored messages the embedded index has yet to take in. */
  backlog: number;
  /** Questions that Meilisearch was asked and FTS5 answered, since the start. */
  fallbacks: number;
}

export interface Search extends SearchEngine {
  /** Begins to feed Meilisearch and to ask it, where the settings want it. `child`: the one that the appliance runs. */
  start(child?: Connection): void;
  /** Looks for what other processes changed. */
  look(): void;
  state(): SearchState;
  /** Resolves when Meilisearch has been told what it can be told now. */
  idle(): Promise<void>;
  stop(): Promise<void>;
}

export interface SearchParts {
  store: Store;
  options: Pick<Options, "get" | "onRefresh">;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  log: Log;
}

/** After an answer that failed, Meilisearch is not asked, ms. */
const REST_MS = 5_000;

const messages = (count: number): string => `${count} ${count === 1 ? "message" : "messages"}`;

/** For anybody: what exactly fails is for who runs the server. */
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
  /** No longer either when the clock was set back meanwhile. */
  const rests = (): boolean => Math.abs(runtime.now() - failedAt) < REST_MS;
  let fallbacks = 0;

  /** What Meilisearch answers; undefined when it cannot. `exactly`: only an index that has all mail will do. */
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
    untold() {
      const row = readFeed(store.db);
      return row?.active ? countUntold(store.db, row) : undefined;
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
