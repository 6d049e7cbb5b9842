/**
 * The database: opening, migrating, transactions and group commit. One connection a process; several processes (the
 * server and commands) share the file through SQLite's WAL.
 *
 * What a transaction committed survives a kill -9 or power cut the moment after: WAL with synchronous=FULL.
 */
import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, existsSync, mkdirSync, openSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, isUnavailable, unavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Blobs, openBlobs } from "./blobs.ts";
import { claimFolder } from "./claim.ts";
import { type Db, drizzleOver } from "./drizzle.ts";
import { migrate } from "./migrate.ts";

export type { Db };

declare const inTransaction: unique symbol;
/** The database inside a transaction. What writes takes one, so that it can only be called inside `transact`. */
export type Tx = Db & { readonly [inTransaction]: true };

export type NotAPromise<T> = T extends PromiseLike<unknown> ? never : T;

type CommitListener = (works: number) => void;

export interface Store {
  /** For reading; drizzle. */
  readonly db: Db;
  readonly blobs: Blobs;
  /**
   * Runs `work` in a write transaction (BEGIN IMMEDIATE) and commits; what it throws rolls all of it back. `work` is
   * synchronous: a promise would leave the transaction open. Nested, it joins the outer transaction.
   * @throws AppError server_error 503 when the store is busy or the disk full.
   */
  transact<T>(work: (tx: Tx) => NotAPromise<T>): T;
  /**
   * The same, sharing one commit (one fsync) with whatever else is enqueued meanwhile. Resolves after the commit. One
   * that throws rejects alone: `work` may therefore run twice, the first time rolled back, and must not mind.
   */
  enqueue<T>(work: (tx: Tx) => NotAPromise<T>): Promise<T>;
  /**
   * Runs `prepare`, after which something will be enqueued. While more is being prepared than waits to be committed, what
   * waits does so a little longer, for more to share the commit.
   */
  preparing<T>(prepare: () => Promise<T>): Promise<T>;
  /**
   * Inside a transaction: runs `work` at its end, after everything else in it, those of a lower `place` first. For what is
   * cheaper done together and in order, as the search index is.
   */
  beforeCommit(work: () => void, place?: number): void;
  /**
   * `listener` runs after every commit of this process, which stands whatever it throws, and is told how many works shared
   * it. Returns what removes it.
   */
  onCommit(listener: CommitListener): () => void;
  /** Changes whenever another process commits. */
  dataVersion(): number;
  /** Whether a commit and a file can be written: for the health page. Tried at most ten times a second. */
  works(): Promise<boolean>;
  close(): void;
}

export interface StoreOptions {
  /** Folder of blobs and, unless `file` says otherwise, database. Made when missing. */
  folder: string;
  /** The database file; for tests `:memory:`, or the bytes of one, of which a copy in memory is opened. */
  file?: string | Uint8Array;
  /** Opens a folder that is being restored into, too: by the restore itself. */
  restoring?: boolean;
  /** How long a write waits for another process's, in ms; of all that write, `enqueue` lets the event loop turn. */
  busyTimeoutMs?: number;
  /** The longest that something enqueued waits for others to share its commit, in ms. */
  gatherMs?: number;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  /** Of failures that are nobody's who asked for something. */
  log?: Pick<Log, "error">;
}

/** Filings that share a commit: enough to spread an fsync, few enough to keep the event loop's pauses short. */
const LARGEST_GROUP = 32;
/** `enqueue` waits for another process's write in pieces this long, in ms; the event loop turns between them. */
const BUSY_SLICE_MS = 20;
/**
 * Pages in the WAL, of 4 KiB, after which a commit writes them to the database: a page that many commits change, as those
 * at the ends of indexes are, is then written once for more of them.
 */
const CHECKPOINT_PAGES = 4_000;
/** What a large transaction makes of the WAL beyond this is given back. */
const LARGEST_WAL_BYTES = 64 * 1024 * 1024;
/** What SQLite needs to open a database: the index of its write-ahead log. */
const LEAST_ROOM_BYTES = 32 * 1024;
/** In the header of the database, for file(1) and the like: "MlRm". */
const APPLICATION_ID = 0x4d6c526d;
/** In the data folder, from before the first file of a restore until after its last: what lies there is not whole. */
export const RESTORING = "restoring";
/** A health check is good for so long: what anybody may ask must not keep the disk busy. */
const HEALTH_MS = 100;

const UNAVAILABLE_SQLITE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|NOMEM)/;
const UNAVAILABLE_SYSTEM = new Set(["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EIO", "EROFS", "ENOMEM"]);

/** A full disk or a busy store as the AppError that says so; anything else as it is. */
export function asUnavailable(error: unknown): unknown {
  if (error instanceof SQLiteError && UNAVAILABLE_SQLITE.test(error.code ?? "")) {
    return unavailable("The mail store is briefly unavailable; try again", error);
  }
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof SQLiteError) return asUnavailable(cause);
  if (UNAVAILABLE_SYSTEM.has((error as NodeJS.ErrnoException)?.code ?? "")) {
    return unavailable("The mail store is briefly unavailable; try again", error);
  }
  return error;
}

const isBusy = (error: unknown): boolean =>
  error instanceof AppError && error.cause instanceof SQLiteError && /^SQLITE_BUSY/.test(error.cause.code ?? "");

function openDatabase(
  file: string | Uint8Array,
  { busyTimeoutMs, restoring }: { busyTimeoutMs: number; restoring: boolean },
): Database {
  const path = typeof file === "string" ? file : ":memory:";
  // Private from its first moment, as SQLite then makes the files beside it: it holds mail, and the keys of domains.
  if (path !== ":memory:") closeSync(openSync(path, "a", 0o600));
  const sqlite =
    typeof file === "string"
      ? new Database(file, { create: true, strict: true })
      : Database.deserialize(file, { strict: true });
  try {
    sqlite.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    sqlite.exec("PRAGMA journal_mode = WAL");
    sqlite.exec("PRAGMA synchronous = FULL");
    sqlite.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    sqlite.exec(`PRAGMA journal_size_limit = ${LARGEST_WAL_BYTES}`);
    sqlite.exec("PRAGMA foreign_keys = ON");
    sqlite.exec("PRAGMA cache_size = -32768");
    sqlite.exec("PRAGMA temp_store = MEMORY");
    // A restore has claimed the folder already.
    migrate(sqlite, { claim: () => (restoring ? () => {} : claimFolder(dirname(path))) });
    return sqlite;
  } catch (error) {
    sqlite.close();
    throw error;
  }
}

/** Whether its disk has no room even for the files that SQLite opens beside a database. */
function isFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < LEAST_ROOM_BYTES;
  } catch {
    return false;
  }
}

/** @throws Error that names the folder and says why it cannot be used */
export function openStore({
  folder,
  file,
  busyTimeoutMs = 1_000,
  gatherMs = 30,
  restoring = false,
  runtime,
  log,
}: StoreOptions): Store {
  let sqlite: Database;
  let blobs: Blobs;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (!restoring && existsSync(join(folder, RESTORING))) {
      throw new Error("a restore into it has not ended; if none is under way, restore again");
    }
    blobs = openBlobs(join(folder, "blobs"), runtime);
    sqlite = openDatabase(file ?? join(folder, "mailroom.db"), { busyTimeoutMs, restoring });
  } catch (error) {
    // SQLite calls it a disk I/O error.
    const reason = isFull(folder) ? "its disk is full" : error instanceof Error ? error.message : String(error);
    throw new Error(`The data folder ${folder} cannot be used: ${reason}`, { cause: error });
  }

  const db = drizzleOver(sqlite);
  const begin = sqlite.prepare("BEGIN IMMEDIATE");
  const commit = sqlite.prepare("COMMIT");
  const rollback = sqlite.prepare("ROLLBACK");
  const listeners = new Set<CommitListener>();
  let atEnd: { work: () => void; place: number }[] = [];

  function transact<T>(work: (tx: Tx) => NotAPromise<T>, works = 1): T {
    if (sqlite.inTransaction) return work(db as Tx);
    let result: T;
    try {
      begin.run();
      try {
        result = work(db as Tx);
        for (const last of atEnd.sort((a, b) => a.place - b.place)) last.work();
        commit.run();
      } catch (error) {
        // A full disk makes SQLite roll back by itself.
        if (sqlite.inTransaction) rollback.run();
        throw error;
      } finally {
        atEnd = [];
      }
    } catch (error) {
      throw asUnavailable(error);
    }
    tellListeners(works);
    return result;
  }

  /** What was committed would be done again, if it were told to have failed. */
  function tellListeners(works: number): void {
    for (const listener of listeners) {
      try {
        listener(works);
      } catch (error) {
        log?.error("what follows a commit failed", { error });
      }
    }
  }

  interface Entry {
    work: (tx: Tx) => unknown;
    resolve: (value: unknown) => void;
    reject: (error: unknown) => void;
    /** How many more times it may find the store busy. */
    patience: number;
  }
  const waiting: Entry[] = [];
  /** How much is being prepared. */
  let coming = 0;
  let scheduled = false;
  /** Real time, whatever clock a test has: nobody is to wait for a test to move it. */
  let gathering: Timer | undefined;

  /**
   * All in one transaction; should one of them throw, each in its own. No savepoints: FTS5 writes out what it has
   * gathered at each, which triples the cost of indexing.
   */
  function commitGroup(): void {
    scheduled = false;
    const group = waiting.splice(0, LARGEST_GROUP);
    if (group.length === 0) return;
    if (waiting.length > 0) schedule();
    try {
      const values = withBusyTimeout(BUSY_SLICE_MS, () =>
        transact((tx) => group.map(({ work }) => work(tx)), group.length),
      );
      group.forEach(({ resolve }, i) => {
        resolve(values[i]);
      });
    } catch (error) {
      if (isBusy(error)) {
        waiting.unshift(...group.filter((entry) => entry.patience > 0));
        for (const entry of group) if (entry.patience-- <= 0) entry.reject(error);
        if (waiting.length > 0) schedule();
      } else if (group.length === 1 || isUnavailable(error)) {
        for (const { reject } of group) reject(error);
      } else {
        for (const entry of group) commitAlone(entry);
      }
    }
  }

  function commitAlone({ work, resolve, reject }: Entry): void {
    try {
      resolve(transact(work as (tx: Tx) => NotAPromise<unknown>));
    } catch (error) {
      reject(error);
    }
  }

  function withBusyTimeout<T>(ms: number, work: () => T): T {
    sqlite.exec(`PRAGMA busy_timeout = ${Math.min(ms, busyTimeoutMs)}`);
    try {
      return work();
    } finally {
      sqlite.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    }
  }

  /** Half of what is under way at a time: while it is committed, workers prepare the other half. */
  function schedule(): void {
    if (scheduled || waiting.length === 0) return;
    if (waiting.length < Math.min(coming, LARGEST_GROUP)) {
      gathering ??= setTimeout(scheduleNow, gatherMs);
      return;
    }
    scheduleNow();
  }

  function scheduleNow(): void {
    clearTimeout(gathering);
    gathering = undefined;
    if (scheduled) return;
    scheduled = true;
    // After the I/O of this turn, so that what arrives together commits together.
    setImmediate(commitGroup);
  }

  async function preparing<T>(prepare: () => Promise<T>): Promise<T> {
    coming++;
    try {
      return await prepare();
    } finally {
      coming--;
      schedule();
    }
  }

  function enqueue<T>(work: (tx: Tx) => NotAPromise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const patience = Math.ceil(busyTimeoutMs / BUSY_SLICE_MS) - 1;
      waiting.push({ work, resolve: resolve as Entry["resolve"], reject, patience });
      schedule();
    });
  }

  async function check(): Promise<boolean> {
    try {
      // Writes a page although the value stays; a commit of nothing would write none.
      await enqueue(() => void sqlite.exec(`PRAGMA application_id = ${APPLICATION_ID}`));
      await blobs.check();
      return true;
    } catch {
      return false;
    }
  }
  let health: { checkedAt: number; works: Promise<boolean> } | undefined;

  return {
    db,
    blobs,
    transact,
    enqueue,
    preparing,
    beforeCommit(work, place = 0) {
      if (!sqlite.inTransaction) throw new Error("beforeCommit was called outside a transaction");
      atEnd.push({ work, place });
    },
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    works() {
      const now = runtime.now();
      if (health === undefined || Math.abs(now - health.checkedAt) >= HEALTH_MS) {
        health = { checkedAt: now, works: check() };
      }
      return health.works;
    },
    dataVersion: () => (sqlite.query("PRAGMA data_version").get() as { data_version: number }).data_version,
    close() {
      clearTimeout(gathering);
      while (waiting.length > 0) commitGroup();
      sqlite.close();
    },
  };
}
