/**
 * Tells Meilisearch of the mail: first all that is stored, then every change, in order, from rows committed with the mail
 * (feed-rows.ts). A row goes once the server has done what it says, and telling it twice changes nothing, so that whatever
 * ends this process, or the server, is made good by going on.
 *
 * Each batch carries a mark that was committed before. An index without the last one, or the one before, was fed from
 * another state of the database (a backup restored, a copy) or is lost: it is made anew.
 */
import type { Log } from "../../base/log.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Options } from "../../store/settings.ts";
import type { Store } from "../../store/store.ts";
import { BATCH, readChanged, readNext, turn, writeBatch } from "./batches.ts";
import type { Connection, Place } from "./client.ts";
import { type Client, createClient } from "./client.ts";
import { INDEX_SETTINGS, type MessageDocument, markDocument, SETTINGS_VERSION } from "./documents.ts";
import {
  beginFeed,
  countChanges,
  countRefused,
  countUnfilled,
  drawName,
  endFeed,
  type FeedRow,
  hasChanges,
  NOT_MADE,
  nextChanges,
  readFeed,
  setFilledThrough,
  setMade,
  setMark,
  setTold,
} from "./feed-rows.ts";

export interface FeedParts {
  store: Store;
  options: Pick<Options, "get" | "onRefresh">;
  connection: Connection;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  log: Log;
}

/** `off`: Meilisearch is not the engine. `down`: there is no server to ask. `failing`: see `reason`. */
export type FeedPhase = "off" | "down" | "failing" | "filling" | "behind" | "current";

export interface FeedState {
  phase: FeedPhase;
  /** Of `failing`, for people. */
  reason?: string;
  /** Messages that it has yet to be told of. */
  behind: number;
  /** Messages that it would not take: only FTS5 has them. */
  refused: number;
}

/** An index that has been told all there is, and where. */
export interface Fed {
  place: Place;
  index: string;
  /** It took all that it was told. */
  complete: boolean;
}

export interface Feed {
  start(): void;
  /** Looks again: another process may have written something. */
  look(): void;
  /** Looks again whether the index is there and ours: a question failed. */
  doubt(): void;
  /** Undefined while the index lacks anything. */
  current(): Fed | undefined;
  state(): FeedState;
  /** Resolves when nothing is under way, and nothing is left but what waits for a time. */
  idle(): Promise<void>;
  stop(): Promise<void>;
}

const REQUEST_MS = 60_000;
const TASK_MS = 600_000;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

export function createFeed({ store, options, connection, runtime, log }: FeedParts): Feed {
  const { db } = store;
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  let again = false;
  let cancelRetry: (() => void) | undefined;
  let failures = 0;
  let failure: string | undefined;
  /** Of the server last talked to. */
  let client: { place: Place; client: Client } | undefined;
  /** Its index carries our mark. */
  let proven = false;
  /** Messages that are still to be filled in, once counted: counting reads a whole index. */
  let unfilled: { index: string; messages: number } | undefined;
  let started = false;
  /** Meilisearch is not the engine, and nothing is written down for it. */
  let rests = false;
  const endings: (() => void)[] = [];

  const isWanted = (): boolean => options.get("search.engine") === "meilisearch";

  function clientOf(place: Place): Client {
    if (client?.place.url !== place.url || client.place.key !== place.key) {
      const limits = { requestMs: REQUEST_MS, taskMs: TASK_MS, signal: stopping.signal };
      client = { place, client: createClient(place, limits) };
      proven = false;
    }
    return client.client;
  }

  /** What is stored goes into an index of a new name; that of the old is deleted. */
  function beginAnew(): void {
    store.transact((tx) => beginFeed(tx, SETTINGS_VERSION, runtime));
    proven = false;
  }

  /** The feed as the settings want it; undefined when they want none. */
  function agreedFeed(): FeedRow | undefined {
    const row = readFeed(db);
    if (!isWanted()) {
      if (row?.active) store.transact((tx) => endFeed(tx));
      rests = true;
      return undefined;
    }
    rests = false;
    if (row?.active && row.settingsVersion === SETTINGS_VERSION) return row;
    beginAnew();
    return readFeed(db);
  }

  /** Does one piece of what is to be done; false when there is nothing. */
  async function step(): Promise<boolean> {
    const row = agreedFeed();
    const place = row && connection.current();
    if (!row || !place) return false;
    const server = clientOf(place);
    if (row.filledThrough === NOT_MADE) {
      await make(server, row);
      return true;
    }
    if (proven && row.filledThrough === null && !hasChanges(db)) return false;
    const mark = await server.readMark(row.indexUid);
    if (mark === undefined || (mark !== row.mark && mark !== row.previousMark)) {
      log.warn("the Meilisearch index is not of this mail store, and is made anew");
      beginAnew();
      return true;
    }
    proven = true;
    if (row.filledThrough === null) return tellChanges(server, row, mark);
    await fill(server, row, row.filledThrough, mark);
    return true;
  }

  async function make(server: Client, row: FeedRow): Promise<void> {
    if (row.replacedUid !== null) await server.drop(row.replacedUid);
    await server.make(row.indexUid, INDEX_SETTINGS);
    await server.write(row.indexUid, [], [markDocument(row.mark)]);
    store.transact((tx) => void (isStill(row) && setMade(tx)));
  }

  /** Whether the feed has not been begun anew meanwhile, by this process or another. */
  function isStill({ indexUid, filledThrough }: FeedRow): boolean {
    const row = readFeed(db);
    return row?.active === true && row.indexUid === indexUid && row.filledThrough === filledThrough;
  }

  /** The next of what was stored before. */
  async function fill(server: Client, row: FeedRow, after: number, mark: string): Promise<void> {
    const { documents, last, more } = await readNext(db, after);
    const refused = await tell(server, row, mark, [], documents);
    if (unfilled?.index === row.indexUid) unfilled.messages = Math.max(0, unfilled.messages - documents.length);
    store.transact((tx) => {
      if (!isStill(row)) return;
      setTold(
        tx,
        0,
        documents.map(({ id }) => id),
        refused,
      );
      setFilledThrough(tx, more ? last : null);
    });
  }

  /** The oldest changes; false when there is none. */
  async function tellChanges(server: Client, row: FeedRow, mark: string): Promise<boolean> {
    const changes = nextChanges(db, BATCH);
    if (changes.length === 0) return false;
    const { through, told, documents } = await readChanged(db, changes);
    const stored = new Set(documents.map(({ id }) => id));
    const removed = told.filter((seq) => !stored.has(seq));
    const refused = await tell(server, row, mark, removed, documents);
    store.transact((tx) => void (isStill(row) && setTold(tx, through, told, refused)));
    return true;
  }

  /** Resolves with the messages that the server would not take. `present`: the mark of the index. */
  async function tell(
    server: Client,
    { indexUid }: FeedRow,
    present: string,
    removed: readonly number[],
    documents: readonly MessageDocument[],
  ): Promise<number[]> {
    const mark = drawName(runtime);
    store.transact((tx) => setMark(tx, mark, present));
    return writeBatch(server, indexUid, { removed, documents, mark }, log);
  }

  async function run(): Promise<void> {
    do {
      again = false;
      try {
        while (!stopping.signal.aborted && (await step())) succeed();
        if (!stopping.signal.aborted && connection.current()) succeed();
      } catch (error) {
        if (stopping.signal.aborted) return;
        fail(error);
        return;
      }
    } while (again && !stopping.signal.aborted);
  }

  function succeed(): void {
    if (failure !== undefined) log.info("Meilisearch is fed again");
    failures = 0;
    failure = undefined;
  }

  function fail(error: unknown): void {
    proven = false;
    const reason = error instanceof Error ? error.message : String(error);
    if (reason !== failure) log.warn("Meilisearch cannot be fed", { error });
    failure = reason;
    const wait = Math.min(FIRST_RETRY_MS * 2 ** failures++, LONGEST_RETRY_MS);
    cancelRetry = runtime.setTimer(() => {
      cancelRetry = undefined;
      go();
    }, wait);
  }

  function go(): void {
    if (!started || stopping.signal.aborted || cancelRetry || (rests && !isWanted())) return;
    if (running) {
      again = true;
      return;
    }
    // Not at once: what it commits calls this again.
    running = turn()
      .then(run)
      .finally(() => {
        running = undefined;
        if (again && !cancelRetry) go();
      });
  }

  /** At once: what failed before may be otherwise now. */
  function goAnew(): void {
    cancelRetry?.();
    cancelRetry = undefined;
    failures = 0;
    go();
  }

  /** Messages stored before its index that it has yet to get. */
  function unfilledOf({ indexUid, filledThrough }: FeedRow): number {
    if (filledThrough === null) return 0;
    // Another process may have begun anew.
    if (unfilled?.index !== indexUid) unfilled = { index: indexUid, messages: countUnfilled(db, filledThrough) };
    return unfilled.messages;
  }

  function state(): FeedState {
    const row = readFeed(db);
    if (!row?.active || !isWanted()) return { phase: "off", behind: 0, refused: 0 };
    const behind = countChanges(db) + unfilledOf(row);
    const counts = { behind, refused: countRefused(db) };
    if (!connection.current()) return { phase: "down", ...counts };
    if (failure !== undefined) return { phase: "failing", reason: failure, ...counts };
    if (row.filledThrough !== null) return { phase: "filling", ...counts };
    return { phase: behind > 0 || !proven ? "behind" : "current", ...counts };
  }

  return {
    start() {
      started = true;
      endings.push(store.onCommit(go));
      let place = connection.current();
      connection.onChange(() => {
        const now = connection.current();
        if (now?.url === place?.url && now?.key === place?.key) return go();
        place = now;
        client = undefined;
        proven = false;
        failure = undefined;
        goAnew();
      });
      go();
    },
    look: go,
    doubt() {
      proven = false;
      go();
    },
    current() {
      const place = proven && isWanted() ? connection.current() : undefined;
      if (!place || client?.place.url !== place.url || client.place.key !== place.key || failure !== undefined)
        return undefined;
      const row = readFeed(db);
      if (!row?.active || row.filledThrough !== null || hasChanges(db)) return undefined;
      return { place, index: row.indexUid, complete: countRefused(db) === 0 };
    },
    state,
    async idle() {
      while (running) await running;
    },
    async stop() {
      for (const end of endings) end();
      cancelRetry?.();
      stopping.abort();
      await running;
    },
  };
}
