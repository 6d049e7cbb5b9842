/**
 * The database: opening, migrating, transactions and group commit. One connection per process; several processes (the
 * server and commands) share the file through SQLite's WAL.
 *
 * A committed transaction survives a kill -9 or power cut immediately afterwards: WAL with synchronous=FULL.
 */
import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, existsSync, mkdirSync, openSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, isUnavailable, unavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { requireMarkedPlace } from "./blob-mark.ts";
import { type Blobs, openBlobs } from "./blobs.ts";
import { claimFolder } from "./claim.ts";
import { migrateDatabase } from "./migrate.ts";
import { openRemoteBlobs, type RemoteBlobs } from "./remote-blobs.ts";
import type { S3Blobs } from "./s3-blobs.ts";
import { type Db, drizzleOver } from "./statement.ts";
import { CHECKPOINT_PAGES, REPLICATED, REPLICATED_PAGES } from "./wal.ts";

export type { Db };

declare const inTransaction: unique symbol;
/** The database inside a transaction. A function that writes takes one, so it can only be called inside `transact`. */
export type Tx = Db & { readonly [inTransaction]: true };

export type NotAPromise<T> = T extends PromiseLike<unknown> ? never : T;

type CommitListener = (works: number) => void;

export interface Store {
  /** For reading; drizzle. */
  readonly db: Db;
  readonly blobs: Blobs;
  /** The blobs if they are in S3; undefined otherwise. */
  readonly remote: RemoteBlobs | undefined;
  /**
   * Runs `work` in a write transaction (BEGIN IMMEDIATE) and commits; an error rolls everything back. `work` is
   * synchronous: a promise would leave the transaction open. A nested call joins the outer transaction.
   * @throws AppError server_error 503 if the store is busy or the disk full.
   */
  transact<T>(work: (tx: Tx) => NotAPromise<T>): T;
  /**
   * Runs `work` as `transact` does, but in one commit (one fsync) with all other works that wait. Resolves after the commit. An
   * error rejects only its own work: `work` may therefore run twice, the first time rolled back, and must allow that. `bytes`:
   * roughly how much it writes, if that may be much; works that write much share no commit.
   */
  enqueue<T>(work: (tx: Tx) => NotAPromise<T>, bytes?: number): Promise<T>;
  /** Enqueues a note about a read. A standby, which keeps nothing, drops it. */
  note(work: (tx: Tx) => NotAPromise<unknown>): Promise<void>;
  /** @throws AppError server_error 503 on a standby, which changes nothing */
  requireWritable(): void;
  /**
   * Runs `prepare`, which is followed by an `enqueue`. While more is being prepared than waits for the commit, the
   * waiting work waits a little longer, so that more share the commit.
   */
  preparing<T>(prepare: () => Promise<T>): Promise<T>;
  /**
   * Inside a transaction: runs `work` at its end, after all other work, by `order`. For work that is cheaper
   * together and in order, such as the search index.
   */
  beforeCommit(work: () => void, order?: number): void;
  /** `work` runs at the end of every transaction of this process, in it, after all other work. */
  inEveryCommit(work: (tx: Tx) => void): void;
  /**
   * `listener` runs after every commit of this process with the number of works that shared it. Its errors do not
   * affect the commit. Returns the function that removes it.
   */
  onCommit(listener: CommitListener): () => void;
  /**
   * Resolves when everything that this process has committed is as safe as the setting `replica.ack` says: what is told
   * to the outside as done, waits for it. @throws AppError server_error 503 if it cannot be had in time
   */
  replicated(): Promise<void>;
  /** `wait` is `replicated` from now on. Without a replica, a commit is enough. */
  replicateBy(wait: () => Promise<void>): void;
  /** Changes whenever another process commits. */
  dataVersion(): number;
  /** True if a commit and a file can be written, for the health page. Tried at most ten times a second. */
  works(): Promise<boolean>;
  /** True if the disk of the folder has little room left; false if the system does not tell. */
  isDiskLow(): boolean;
  close(): void;
}

export interface StoreOptions {
  /** Folder of the blobs and, unless `file` is given, the database. Created if missing. */
  folder: string;
  /** The database file. For tests: `:memory:`, or bytes, of which a copy is opened in memory. */
  file?: string | Uint8Array;
  /** The blobs in S3; undefined if they are in the folder. */
  s3?: S3Blobs | undefined;
  /** Also opens a folder that is being restored; set by the restore itself. */
  restoring?: boolean;
  /** How long a write waits for another process's write, ms. Only `enqueue` does not block the event loop meanwhile. */
  busyTimeoutMs?: number;
  /** The longest that enqueued work waits for more to share its commit, ms. */
  gatherMs?: number;
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer">;
  /** Logs failures that no caller awaits. */
  log?: Pick<Log, "error">;
}

/** Most works in one commit: enough to share an fsync, few enough to keep pauses of the event loop short. */
const LARGEST_GROUP = 32;
/** Most bytes in one commit of several works, for the same reason. */
const LARGEST_GROUP_BYTES = 2 * 1024 * 1024;
/**
 * A transaction waits for another process's write in slices of this length, ms; `enqueue` yields to the event loop in
 * between. SQLite tries ever more rarely, in the end ten times a second, and its locks are not fair: in one long wait, it
 * would miss nearly every gap between the short transactions of a busy server.
 */
const BUSY_SLICE_MS = 20;
/** A large transaction grows the WAL beyond this; the excess is truncated later. */
const LARGEST_WAL_BYTES = 64 * 1024 * 1024;
/** The space that SQLite needs to open a database: the index of its write-ahead log. */
const LEAST_ROOM_BYTES = 32 * 1024;
/** Bounds of isDiskSpaceLow: free bytes, and the free share of the disk. */
const LOW_BYTES = 2_000_000_000;
const LOW_SHARE = 0.1;
/** Application id in the database header, for file(1): "MlRm". */
const APPLICATION_ID = 0x4d6c526d;
/**
 * File that is in the data folder from before the first file of a restore until after the last one: while it exists, the folder
 * is incomplete.
 */
export const RESTORING = "restoring";
/** How long a health check is valid. Any client may ask, and frequent requests must not keep the disk busy. */
const HEALTH_MS = 100;

const UNAVAILABLE_SQLITE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|NOMEM)/;
const UNAVAILABLE_SYSTEM = new Set(["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EIO", "EROFS", "ENOMEM"]);

/** Converts a full disk or busy store to the corresponding AppError; returns any other error unchanged. */
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

/** True if another process wrote for longer than this one waits. The work was not begun. */
export const isStoreBusy = (error: unknown): error is AppError =>
  error instanceof AppError && error.cause instanceof SQLiteError && /^SQLITE_BUSY/.test(error.cause.code ?? "");

function openDatabase(
  file: string | Uint8Array,
  { busyTimeoutMs, restoring }: { busyTimeoutMs: number; restoring: boolean },
): Database {
  const path = typeof file === "string" ? file : ":memory:";
  // Private from the start, and so are the files that SQLite creates beside it: it holds mail, and the keys of domains.
  if (path !== ":memory:") closeSync(openSync(path, "a", 0o600));
  const sqlite =
    typeof file === "string"
      ? new Database(file, { create: true, strict: true })
      : Database.deserialize(file, { strict: true });
  try {
    sqlite.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    sqlite.exec("PRAGMA journal_mode = WAL");
    sqlite.exec("PRAGMA synchronous = FULL");
    const isReplicated = path !== ":memory:" && existsSync(join(dirname(path), REPLICATED));
    sqlite.exec(`PRAGMA wal_autocheckpoint = ${isReplicated ? REPLICATED_PAGES : CHECKPOINT_PAGES}`);
    sqlite.exec(`PRAGMA journal_size_limit = ${LARGEST_WAL_BYTES}`);
    sqlite.exec("PRAGMA foreign_keys = ON");
    sqlite.exec("PRAGMA cache_size = -32768");
    sqlite.exec("PRAGMA temp_store = MEMORY");
    // A restore has already claimed the folder.
    migrateDatabase(sqlite, { claim: () => (restoring ? () => {} : claimFolder(dirname(path))) });
    return sqlite;
  } catch (error) {
    sqlite.close();
    throw error;
  }
}

/** The bytes of a disk. */
interface Room {
  free: number;
  total: number;
}

/** Bytes of a disk, and the number of files that it can hold; 0 where the file system has no limit. */
interface FileRoom extends Room {
  files: number;
  freeFiles: number;
}

/** True if little of the disk is free: both little of it, and few bytes. */
export const isDiskSpaceLow = ({ free, total }: Room): boolean => free < LOW_BYTES && free < total * LOW_SHARE;

/** Undefined if the system does not tell. */
export function measureDiskSpace(folder: string): FileRoom | undefined {
  try {
    const { bavail, blocks, bsize, files, ffree } = statfsSync(folder);
    return { free: bavail * bsize, total: blocks * bsize, files, freeFiles: ffree };
  } catch {
    return undefined;
  }
}

/** True if the disk lacks space even for the files that SQLite opens beside a database. */
const isFull = (folder: string): boolean => (measureDiskSpace(folder)?.free ?? LEAST_ROOM_BYTES) < LEAST_ROOM_BYTES;

/** @throws Error that names the folder and the reason why it cannot be used */
export function openStore({
  folder,
  file,
  busyTimeoutMs = 1_000,
  gatherMs = 30,
  restoring = false,
  s3,
  runtime,
  log,
}: StoreOptions): Store {
  let sqlite: Database;
  let blobs: Blobs;
  let remote: RemoteBlobs | undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (!restoring && existsSync(join(folder, RESTORING))) {
      throw new Error("a restore into it has not ended; if none is under way, restore again");
    }
    requireMarkedPlace(folder, s3?.place);
    const files = openBlobs(join(folder, "blobs"), runtime);
    remote = s3 && openRemoteBlobs({ data: folder, files, s3, runtime });
    blobs = remote ?? files;
    sqlite = openDatabase(file ?? join(folder, "mailroom.db"), { busyTimeoutMs, restoring });
  } catch (error) {
    // SQLite reports a disk I/O error.
    const reason = isFull(folder) ? "its disk is full" : error instanceof Error ? error.message : String(error);
    throw new Error(`The data folder ${folder} cannot be used: ${reason}`, { cause: error });
  }

  const db = drizzleOver(sqlite);
  const begin = sqlite.prepare("BEGIN IMMEDIATE");
  const commit = sqlite.prepare("COMMIT");
  const rollback = sqlite.prepare("ROLLBACK");
  const listeners = new Set<CommitListener>();
  let atEnd: { work: () => void; order: number }[] = [];
  const inEveryCommit: ((tx: Tx) => void)[] = [];
  let replicated = (): Promise<void> => Promise.resolve();

  const slices = Math.ceil(busyTimeoutMs / BUSY_SLICE_MS);

  function beginWithin(most: number): void {
    sqlite.exec(`PRAGMA busy_timeout = ${Math.min(BUSY_SLICE_MS, busyTimeoutMs)}`);
    try {
      for (let slice = 1; ; slice++) {
        try {
          begin.run();
          return;
        } catch (error) {
          if (slice >= most || (error as SQLiteError).code !== "SQLITE_BUSY") throw error;
        }
      }
    } finally {
      sqlite.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    }
  }

  const transact: Store["transact"] = (work) => transactWithin(slices, work);

  function transactWithin<T>(mostSlices: number, work: (tx: Tx) => NotAPromise<T>, works = 1): T {
    if (sqlite.inTransaction) return work(db as Tx);
    let result: T;
    try {
      beginWithin(mostSlices);
      try {
        result = work(db as Tx);
        for (const last of atEnd.sort((a, b) => a.order - b.order)) last.work();
        for (const last of inEveryCommit) last(db as Tx);
        commit.run();
      } catch (error) {
        // On a full disk, SQLite rolls back on its own.
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

  /** A listener's error must not make committed work look failed, or it would be repeated. */
  function tellListeners(works: number): void {
    for (const listener of listeners) {
      try {
        listener(works);
      } catch (error) {
        log?.error("a listener of commits failed", { error });
      }
    }
  }

  interface Entry {
    work: (tx: Tx) => unknown;
    resolve: (value: unknown) => void;
    reject: (error: unknown) => void;
    bytes: number;
    /** Remaining attempts to find the store not busy. */
    patience: number;
  }
  const waiting: Entry[] = [];
  /** Number of preparations in progress. */
  let preparations = 0;
  let scheduled = false;
  /** Real time even in tests with a fake clock, because no test advances it for a commit. */
  let gathering: Timer | undefined;

  /**
   * Runs all work in one transaction; if any throws, each in its own. No savepoints: FTS5 writes out its pending data
   * at each, which triples the cost of indexing.
   */
  function commitGroup(): void {
    scheduled = false;
    const group = takeGroup();
    if (group.length === 0) return;
    if (waiting.length > 0) schedule();
    try {
      const values = transactWithin(1, (tx) => group.map(({ work }) => work(tx)), group.length);
      group.forEach(({ resolve }, i) => {
        resolve(values[i]);
      });
    } catch (error) {
      if (isStoreBusy(error)) {
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

  function takeGroup(): Entry[] {
    let bytes = 0;
    const end = waiting.findIndex((entry, i) => {
      bytes += entry.bytes;
      return i === LARGEST_GROUP || (i > 0 && bytes > LARGEST_GROUP_BYTES);
    });
    return waiting.splice(0, end < 0 ? waiting.length : end);
  }

  function commitAlone({ work, resolve, reject }: Entry): void {
    try {
      resolve(transact(work as (tx: Tx) => NotAPromise<unknown>));
    } catch (error) {
      reject(error);
    }
  }

  /** Commits half of the work in progress at a time: meanwhile, parsers prepare the other half. */
  function schedule(): void {
    if (scheduled || waiting.length === 0) return;
    if (waiting.length < Math.min(preparations, LARGEST_GROUP)) {
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
    // After the I/O of this turn, so that work that arrives together commits together.
    setImmediate(commitGroup);
  }

  async function preparing<T>(prepare: () => Promise<T>): Promise<T> {
    preparations++;
    try {
      return await prepare();
    } finally {
      preparations--;
      schedule();
    }
  }

  function enqueue<T>(work: (tx: Tx) => NotAPromise<T>, bytes = 0): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const patience = slices - 1;
      waiting.push({ work, resolve: resolve as Entry["resolve"], reject, bytes, patience });
      schedule();
    });
  }

  async function check(): Promise<boolean> {
    try {
      // Writes a page with an unchanged value; an empty commit would write none.
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
    remote,
    transact,
    enqueue,
    note: async (work) => void (await enqueue(work)),
    requireWritable() {},
    preparing,
    beforeCommit(work, order = 0) {
      if (!sqlite.inTransaction) throw new Error("beforeCommit was called outside a transaction");
      atEnd.push({ work, order });
    },
    inEveryCommit: (work) => void inEveryCommit.push(work),
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    replicated: () => replicated(),
    replicateBy(wait) {
      replicated = wait;
    },
    works() {
      const now = runtime.now();
      if (health === undefined || Math.abs(now - health.checkedAt) >= HEALTH_MS) {
        health = { checkedAt: now, works: check() };
      }
      return health.works;
    },
    isDiskLow() {
      const room = measureDiskSpace(folder);
      return room !== undefined && (isDiskSpaceLow(room) || room.freeFiles < room.files * LOW_SHARE);
    },
    dataVersion: () => (sqlite.query("PRAGMA data_version").get() as { data_version: number }).data_version,
    close() {
      clearTimeout(gathering);
      while (waiting.length > 0) commitGroup();
      sqlite.close();
    },
  };
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

/**
 * Like `store.enqueue`, but waits for as long as the store is unavailable: for commits that must eventually succeed,
 * because something outside, such as a reply from another server, cannot be undone.
 */
export function createPatientCommit({
  store,
  runtime,
  log,
  warning,
  isOver,
}: {
  store: Pick<Store, "enqueue">;
  runtime: Pick<Runtime, "setTimer">;
  log: Log;
  /** Logged while it waits. */
  warning: string;
  /** True if the result is no longer needed. */
  isOver?(): boolean;
}): Store["enqueue"] {
  return async (work, bytes) => {
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      try {
        return await store.enqueue(work, bytes);
      } catch (error) {
        if (!isUnavailable(error) || isOver?.()) throw error;
        log.warn(warning, { retryInMs: wait, error });
        await pause(runtime, wait);
      }
    }
  };
}
