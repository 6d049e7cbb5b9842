/**
 * Feeds Meilisearch: first all stored mail, then every change in order, from rows committed with the mail
 * (feed-rows.ts). A row is deleted once the server has processed it, and sending it twice is harmless, so the feed
 * resumes after any crash of this process or the server.
 *
 * Each batch carries a mark that was committed before. An index with neither the last mark nor the one before was fed
 * from another state of the database (a restored backup, a copy) or is lost: it is rebuilt.
 */
import type { Log } from "../../base/log.ts";
import { letOthersRun } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Options } from "../../store/settings.ts";
import type { Db, Store } from "../../store/store.ts";
import { readStoredMessages, readStoredMessagesAfter, type StoredMessage } from "../stored.ts";
import {
  beginMeilisearchFeed,
  type Change,
  countMessagesLeftToFill,
  countRefusedByIndex,
  countSearchChanges,
  drawRandomName,
  endMeilisearchFeed,
  type FeedRow,
  hasSearchChanges,
  listNextSearchChanges,
  NOT_MADE,
  noteIndexCreated,
  readMeilisearchFeed,
  removeSentSearchChanges,
  setIndexFilledThrough,
  setIndexMark,
} from "./feed-rows.ts";
import {
  type Client,
  type Connection,
  createMeilisearchClient,
  type ServerAddress,
  ServerError,
} from "./meilisearch-client.ts";
import {
  createMarkDocument,
  INDEX_SETTINGS,
  type MessageDocument,
  SETTINGS_VERSION,
  toMessageDocument,
} from "./message-documents.ts";

export interface FeedState {
  /** `off`: Meilisearch is not the engine. `down`: no server is reachable. `failing`: see `reason`. */
  phase: "off" | "down" | "failing" | "filling" | "behind" | "current";
  /** For people, in phase `failing`. */
  reason?: string;
  /** Messages still to be sent. */
  behind: number;
  /** Messages that the server refused: only FTS5 has them. */
  refused: number;
}

/** An index that has received everything, and its server. */
export interface Fed {
  address: ServerAddress;
  index: string;
  /** The server refused none. */
  complete: boolean;
}

/** Time limits for one request and for a queued task, ms. */
const REQUEST_MS = 60_000;
const TASK_MS = 600_000;
/** Delay before a retry, ms: doubled each time. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

export function createMeilisearchFeed({
  store,
  options,
  connection,
  runtime,
  log,
}: {
  store: Store;
  options: Options;
  connection: Connection;
  runtime: Runtime;
  log: Log;
}) {
  const { db } = store;
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  let again = false;
  let cancelRetry: (() => void) | undefined;
  let failures = 0;
  let failure: string | undefined;
  /** The client for the current server. */
  let client: { address: ServerAddress; client: Client } | undefined;
  /** The index of the current server is known to carry our mark. */
  let proven = false;
  /** The index was made, and not seen since. */
  let isJustMade = false;
  /** Messages still to be filled in. Cached, because counting reads a whole index. */
  let unfilled: { index: string; messages: number } | undefined;
  let started = false;
  /** Meilisearch is not the engine, and changes are not recorded. */
  let rests = false;
  const endings: (() => void)[] = [];

  const isWanted = (): boolean => options.get("search.engine") === "meilisearch";

  function getFeedClient(address: ServerAddress): Client {
    if (client?.address.url !== address.url || client.address.key !== address.key) {
      const limits = { requestMs: REQUEST_MS, taskMs: TASK_MS, signal: stopping.signal, fetch: runtime.fetch };
      client = { address, client: createMeilisearchClient(address, limits) };
      proven = false;
    }
    return client.client;
  }

  /** Starts over with a new index for all stored mail; the old index is deleted. */
  function beginAnew(): void {
    store.transact((tx) => beginMeilisearchFeed(tx, SETTINGS_VERSION, runtime));
    proven = false;
  }

  /** The feed as the settings want it; undefined if Meilisearch is off. */
  function agreedFeed(): FeedRow | undefined {
    const row = readMeilisearchFeed(db);
    if (!isWanted()) {
      if (row?.active) store.transact((tx) => endMeilisearchFeed(tx));
      rests = true;
      return undefined;
    }
    rests = false;
    if (row?.active && row.settingsVersion === SETTINGS_VERSION) return row;
    beginAnew();
    return readMeilisearchFeed(db);
  }

  /** Does one piece of work; false if there is none. */
  async function step(): Promise<boolean> {
    const row = agreedFeed();
    const address = row && connection.current();
    if (!row || !address) return false;
    const server = getFeedClient(address);
    if (row.filledThrough === NOT_MADE) {
      await make(server, row);
      return true;
    }
    if (proven && row.filledThrough === null && !hasSearchChanges(db)) return false;
    const mark = await server.readMark(row.indexUid);
    if (mark === undefined || (mark !== row.mark && mark !== row.previousMark)) {
      if (isJustMade) throw new ServerError("failing", "it does not have the index that was just made");
      log.warn("the Meilisearch index is not of this mail store, and is made anew");
      beginAnew();
      return true;
    }
    proven = true;
    isJustMade = false;
    if (row.filledThrough === null) return sendChanges(server, row, mark);
    await fill(server, row, row.filledThrough, mark);
    return true;
  }

  async function make(server: Client, row: FeedRow): Promise<void> {
    if (row.replacedUid !== null) await server.drop(row.replacedUid);
    await server.make(row.indexUid, INDEX_SETTINGS);
    await server.write(row.indexUid, [], [createMarkDocument(row.mark)]);
    store.transact((tx) => void (isStill(row) && noteIndexCreated(tx)));
    isJustMade = true;
  }

  /** True if neither this process nor another has started the feed over meanwhile. */
  function isStill({ indexUid, filledThrough }: FeedRow): boolean {
    const row = readMeilisearchFeed(db);
    return row?.active === true && row.indexUid === indexUid && row.filledThrough === filledThrough;
  }

  /** Sends the next stored messages. */
  async function fill(server: Client, row: FeedRow, after: number, mark: string): Promise<void> {
    const { documents, last, more } = await readNext(db, after);
    const refused = await send(server, row, mark, [], documents);
    if (unfilled?.index === row.indexUid) unfilled.messages = Math.max(0, unfilled.messages - documents.length);
    store.transact((tx) => {
      if (!isStill(row)) return;
      removeSentSearchChanges(
        tx,
        0,
        documents.map(({ id }) => id),
        refused,
      );
      setIndexFilledThrough(tx, more ? last : null);
    });
  }

  /** Sends the oldest changes; false if there are none. */
  async function sendChanges(server: Client, row: FeedRow, mark: string): Promise<boolean> {
    const changes = listNextSearchChanges(db, BATCH);
    if (changes.length === 0) return false;
    const { through, sent, documents } = await readChanged(db, changes);
    const stored = new Set(documents.map(({ id }) => id));
    const removed = sent.filter((seq) => !stored.has(seq));
    const refused = await send(server, row, mark, removed, documents);
    store.transact((tx) => void (isStill(row) && removeSentSearchChanges(tx, through, sent, refused)));
    return true;
  }

  /** Sends a batch; resolves with the messages that the server refused. `present`: the current mark of the index. */
  async function send(
    server: Client,
    { indexUid }: FeedRow,
    present: string,
    removed: readonly number[],
    documents: readonly MessageDocument[],
  ): Promise<number[]> {
    const mark = drawRandomName(runtime);
    store.transact((tx) => setIndexMark(tx, mark, present));
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
    isJustMade = false;
    const reason = error instanceof Error ? error.message : String(error);
    if (reason !== failure) log.warn("Meilisearch cannot be fed", { error });
    failure = reason;
    const wait = Math.min(FIRST_RETRY_MS * 2 ** failures++, LONGEST_RETRY_MS);
    cancelRetry = runtime.setTimer(() => {
      cancelRetry = undefined;
      go();
    }, wait);
  }

  /** Works until nothing is left to do, unless it waits for a retry. */
  function go(): void {
    if (!started || stopping.signal.aborted || cancelRetry || (rests && !isWanted())) return;
    if (running) {
      again = true;
      return;
    }
    // Deferred, because its own commits call this again.
    running = letOthersRun()
      .then(run)
      .finally(() => {
        running = undefined;
        if (again && !cancelRetry) go();
      });
  }

  /** Retries immediately, because the cause of the failure may be gone. */
  function goAnew(): void {
    cancelRetry?.();
    cancelRetry = undefined;
    failures = 0;
    go();
  }

  /** Stored messages that the index still lacks. */
  function countUnfilledMessages({ indexUid, filledThrough }: FeedRow): number {
    if (filledThrough === null) return 0;
    // Another process may have started over.
    if (unfilled?.index !== indexUid)
      unfilled = { index: indexUid, messages: countMessagesLeftToFill(db, filledThrough) };
    return unfilled.messages;
  }

  function state(): FeedState {
    const row = readMeilisearchFeed(db);
    if (!row?.active || !isWanted()) return { phase: "off", behind: 0, refused: 0 };
    const behind = countSearchChanges(db) + countUnfilledMessages(row);
    const counts = { behind, refused: countRefusedByIndex(db) };
    if (!connection.current()) return { phase: "down", ...counts };
    if (failure !== undefined) return { phase: "failing", reason: failure, ...counts };
    if (row.filledThrough !== null) return { phase: "filling", ...counts };
    return { phase: behind > 0 || !proven ? "behind" : "current", ...counts };
  }

  return {
    start(): void {
      started = true;
      endings.push(store.onCommit(go));
      let address = connection.current();
      connection.onChange(() => {
        const now = connection.current();
        if (now?.url === address?.url && now?.key === address?.key) return go();
        address = now;
        client = undefined;
        proven = false;
        failure = undefined;
        goAnew();
      });
      go();
    },
    /** Checks again, because another process may have written. */
    look: go,
    /** Checks again whether the index exists and is ours, after a failed search. */
    doubt(): void {
      proven = false;
      go();
    },
    /** Undefined while the index lacks anything. */
    current(): Fed | undefined {
      const address = proven && isWanted() && failure === undefined ? connection.current() : undefined;
      if (!address || client?.address.url !== address.url || client.address.key !== address.key) return undefined;
      const row = readMeilisearchFeed(db);
      if (!row?.active || row.filledThrough !== null || hasSearchChanges(db)) return undefined;
      return { address, index: row.indexUid, complete: countRefusedByIndex(db) === 0 };
    },
    state,
    /** Resolves when no work is running or possible, except retries that wait for their time. */
    async idle(): Promise<void> {
      while (running) await running;
    },
    async stop(): Promise<void> {
      for (const end of endings) end();
      cancelRetry?.();
      stopping.abort();
      await running;
    },
  };
}

/*
 * Batches: messages as currently stored, folded a few at a time so that other requests get a turn. A message that the
 * server refuses does not hold up the others.
 */

/** Limits of one batch: messages, and characters of their words. */
const BATCH = 2_000;
const BATCH_CHARACTERS = 8_000_000;
/** Messages read at once, and characters folded without yielding. */
const SLICE = 10;
const CHARACTERS_OF_A_TURN = 100_000;

const isRefusal = (error: unknown): boolean => error instanceof ServerError && error.trouble === "refused";

/** The next stored messages after the one numbered `after`; `last` is the number to continue from, if there is more. */
async function readNext(db: Db, after: number): Promise<{ documents: MessageDocument[]; last: number; more: boolean }> {
  const documents: MessageDocument[] = [];
  let last = after;
  let more = true;
  for (let characters = 0; more && documents.length < BATCH && characters < BATCH_CHARACTERS; ) {
    const slice = readStoredMessagesAfter(db, last, SLICE);
    const before = documents.length;
    characters += await addDocuments(documents, slice, BATCH_CHARACTERS - characters);
    more = slice.length === SLICE || documents.length - before < slice.length;
    last = documents.at(-1)?.id ?? last;
  }
  return { documents, last, more };
}

/** The current state of the changed messages, as far as one batch reaches. */
async function readChanged(
  db: Db,
  changes: readonly Change[],
): Promise<{ through: number; sent: number[]; documents: MessageDocument[] }> {
  const documents: MessageDocument[] = [];
  const sent = new Set<number>();
  let through = 0;
  for (let i = 0, characters = 0; i < changes.length && characters < BATCH_CHARACTERS; i += SLICE) {
    const slice = changes.slice(i, i + SLICE);
    const seqs = [...new Set(slice.map(({ messageSeq }) => messageSeq))].filter((seq) => !sent.has(seq));
    const stored = readStoredMessages(db, seqs);
    const before = documents.length;
    characters += await addDocuments(documents, stored, BATCH_CHARACTERS - characters);
    const left = new Set(stored.slice(documents.length - before).map(({ seq }) => seq));
    for (const seq of seqs) if (!left.has(seq)) sent.add(seq);
    through = slice.at(-1)?.seq ?? through;
  }
  return { through, sent: [...sent], documents };
}

/** Adds messages until `room` characters are reached, at least one. Resolves with the number of characters. */
async function addDocuments(
  documents: MessageDocument[],
  messages: readonly StoredMessage[],
  room: number,
): Promise<number> {
  let characters = 0;
  let ofTurn = 0;
  for (const { foldInTurns, ...message } of messages) {
    const document = toMessageDocument({ ...message, document: await foldInTurns(letOthersRun) });
    documents.push(document);
    const own = Object.values(document).reduce<number>((sum, field) => sum + `${field}`.length, 0);
    characters += own;
    ofTurn += own;
    if (characters >= room) break;
    if (ofTurn < CHARACTERS_OF_A_TURN) continue;
    await letOthersRun();
    ofTurn = 0;
  }
  await letOthersRun();
  return characters;
}

/**
 * Removes and adds documents, then sets the mark. Resolves with the messages that the server refused, of which the
 * index then has nothing.
 */
async function writeBatch(
  server: Client,
  index: string,
  { removed, documents, mark }: { removed: readonly number[]; documents: readonly MessageDocument[]; mark: string },
  log: Pick<Log, "warn">,
): Promise<number[]> {
  const marking = createMarkDocument(mark);
  try {
    await server.write(index, removed, [...documents, marking]);
    return [];
  } catch (error) {
    if (!isRefusal(error) || documents.length === 0) throw error;
    const refused = await addInHalves(server, index, documents, log);
    await server.write(index, [], [marking]);
    return refused;
  }
}

async function addInHalves(
  server: Client,
  index: string,
  documents: readonly MessageDocument[],
  log: Pick<Log, "warn">,
): Promise<number[]> {
  const half = Math.ceil(documents.length / 2);
  const refused: number[] = [];
  for (const some of [documents.slice(0, half), documents.slice(half)]) {
    try {
      if (some.length > 0) await server.write(index, [], some);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (some.length > 1) refused.push(...(await addInHalves(server, index, some, log)));
      else {
        const ids = some.map(({ id }) => id);
        refused.push(...ids);
        // Removes the outdated version.
        await server.write(index, ids, []);
        log.warn("Meilisearch refuses a message", { seq: ids[0], error });
      }
    }
  }
  return refused;
}
