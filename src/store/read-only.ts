/**
 * The store of a standby: a database that Litestream writes, in another process, and that this one only reads.
 *
 * The connection has the file attached read-only, so that SQLite itself refuses every write, and another file can take
 * its place between two statements. Nothing of the file is cached: Litestream changes pages without SQLite's change
 * counter, so cached ones would be stale.
 *
 * Sign-in needs to keep something: sessions, and the last code of each second factor, are in temporary tables with the
 * names of the stored ones. They end with the process.
 */
import { constants, Database, SQLiteError } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type AppError, unavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Blobs, blobPath, openBlobs } from "./blobs.ts";
import { openRemoteBlobs } from "./remote-blobs.ts";
import type { S3Blobs } from "./s3-blobs.ts";
import { drizzleOver } from "./statement.ts";
import { asUnavailable, isDiskSpaceLow, measureDiskSpace, type NotAPromise, type Store, type Tx } from "./store.ts";

export interface ReadOnlyStore extends Store {
  /** Reads another file from now on, of the same schema. */
  follow(file: string): void;
  /** Tells the listeners of commits if the database has changed, and ends sessions whose password has, or whose person is locked. */
  look(): void;
}

/** How long a read waits while Litestream applies a change, ms. */
const BUSY_TIMEOUT_MS = 5_000;
/** Name of the attached database; SQLite finds its tables by their own names. */
const MAIL = "mail";

/**
 * Sessions end with the password that they were begun with, and when their person is locked. In the view, a code is used up when either the server or
 * this standby has seen it. Whatever else would change a second factor is refused like any write.
 */
const TEMPORARY = `
CREATE TEMP TABLE session_passwords (session_id TEXT PRIMARY KEY, password_hash TEXT) WITHOUT ROWID;
CREATE TEMP TABLE used_steps (user_id TEXT PRIMARY KEY, last_step INTEGER NOT NULL) WITHOUT ROWID;
CREATE TEMP TRIGGER session_begins AFTER INSERT ON sessions BEGIN
  INSERT INTO session_passwords SELECT NEW.id, password_hash FROM users WHERE id = NEW.user_id;
END;
CREATE TEMP TRIGGER session_ends AFTER DELETE ON sessions BEGIN
  DELETE FROM session_passwords WHERE session_id = OLD.id;
END;
CREATE TEMP VIEW second_factors AS
  SELECT f.user_id, f.secret, max(f.last_step, coalesce(u.last_step, 0)) AS last_step, f.created_at
    FROM ${MAIL}.second_factors f LEFT JOIN temp.used_steps u ON u.user_id = f.user_id;
CREATE TEMP TRIGGER code_used INSTEAD OF UPDATE ON second_factors BEGIN
  INSERT OR REPLACE INTO used_steps VALUES (NEW.user_id, NEW.last_step);
END;
CREATE TEMP TRIGGER factor_removed INSTEAD OF DELETE ON second_factors BEGIN DELETE FROM recovery_codes WHERE 0; END;
CREATE TEMP TRIGGER factor_added INSTEAD OF INSERT ON second_factors BEGIN DELETE FROM recovery_codes WHERE 0; END;
`;

export function openReadOnlyStore({
  folder,
  s3,
  file,
  refusal,
  runtime,
  log,
}: {
  /** The data folder, with the blobs. */
  folder: string;
  /** The blobs in S3; undefined if they are on the server's disk. */
  s3: S3Blobs | undefined;
  /** The database; its schema is that of this program. */
  file: string;
  /** Why nothing is changed here, and where it would be. */
  refusal(): AppError;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  log: Pick<Log, "error">;
}): ReadOnlyStore {
  const { SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE, SQLITE_OPEN_URI } = constants;
  const sqlite = new Database(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI);
  sqlite.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA temp_store = MEMORY`);
  const db = drizzleOver(sqlite);
  const listeners = new Set<(works: number) => void>();
  const files = openBlobs(join(folder, "blobs"), runtime);
  const remote = s3 && openRemoteBlobs({ data: folder, files, s3, runtime });
  let seen: number | undefined;

  function attach(path: string): void {
    sqlite.query(`ATTACH ? AS ${MAIL}`).run(`${pathToFileURL(resolve(path))}?mode=ro`);
    sqlite.exec(`PRAGMA ${MAIL}.cache_size = 0`);
  }

  attach(file);
  try {
    const table = sqlite.query<{ sql: string }, []>(`SELECT sql FROM ${MAIL}.sqlite_schema WHERE name = 'sessions'`);
    sqlite.exec(`${table.get()?.sql.replace("CREATE TABLE", "CREATE TEMP TABLE")};${TEMPORARY}`);
  } catch (error) {
    sqlite.close();
    throw error;
  }

  const dataVersion = (): number =>
    sqlite.query<{ data_version: number }, []>(`PRAGMA ${MAIL}.data_version`).get()?.data_version ?? 0;

  const isRefusedWrite = (error: unknown): boolean =>
    error instanceof SQLiteError
      ? error.code?.startsWith("SQLITE_READONLY") === true
      : error instanceof Error && isRefusedWrite(error.cause);

  function transact<T>(work: (tx: Tx) => NotAPromise<T>): T {
    if (sqlite.inTransaction) return work(db as Tx);
    sqlite.exec("BEGIN");
    try {
      const result = work(db as Tx);
      sqlite.exec("COMMIT");
      return result;
    } catch (error) {
      if (sqlite.inTransaction) sqlite.exec("ROLLBACK");
      throw isRefusedWrite(error) ? refusal() : asUnavailable(error);
    }
  }

  function tellListeners(): void {
    for (const listener of listeners) {
      try {
        listener(1);
      } catch (error) {
        log.error("a listener of changes failed", { error });
      }
    }
  }

  /** Requires a blob that was copied here: without S3, blobs stay on the server. @throws AppError server_error 503 */
  async function requireFile(name: string): Promise<void> {
    if (existsSync(blobPath(join(folder, "blobs"), name))) return;
    throw unavailable("A standby has attachments only where MAILROOM_BLOBS names a place for them in S3");
  }
  const read: Pick<Blobs, "file" | "read" | "examine"> = remote ?? {
    examine: files.examine,
    async file(name) {
      await requireFile(name);
      return files.file(name);
    },
    async read(name) {
      await requireFile(name);
      return files.read(name);
    },
  };

  const refuse = (): never => {
    throw refusal();
  };
  const refuseLater = async (): Promise<never> => refuse();
  const written = { write: refuseLater, keep: refuseLater, adopt: refuseLater, sweep: refuseLater };

  return {
    db,
    remote: remote && { ...remote, ...written },
    blobs: {
      ...{ file: read.file, read: read.read, examine: read.examine, check: async () => {} },
      ...written,
    },
    transact,
    enqueue: async (work) => transact(work),
    note: async () => {},
    requireWritable: refuse,
    preparing: (prepare) => prepare(),
    beforeCommit: refuse,
    inEveryCommit() {},
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    replicated: async () => {},
    replicateBy() {},
    dataVersion,
    works: async () => existsSync(file) && dataVersion() >= 0,
    isDiskLow() {
      const room = measureDiskSpace(folder);
      return room !== undefined && isDiskSpaceLow(room);
    },
    follow(next) {
      sqlite.exec(`DETACH ${MAIL}`);
      attach(next);
      file = next;
      seen = undefined;
    },
    look() {
      const version = dataVersion();
      if (version === seen) return;
      seen = version;
      sqlite.exec(
        `DELETE FROM sessions WHERE EXISTS (SELECT 1 FROM session_passwords p LEFT JOIN users u ON u.id = sessions.user_id
           WHERE p.session_id = sessions.id AND (p.password_hash IS NOT u.password_hash OR u.locked_at IS NOT NULL))`,
      );
      tellListeners();
    },
    close: () => sqlite.close(),
  };
}
