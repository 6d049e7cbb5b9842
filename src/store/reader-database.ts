/** The database as a reader has it: a connection that cannot write, and that reads one state of the database at a time. */
import { Database } from "bun:sqlite";
import { type Db, drizzleOver } from "./statement.ts";

/** How long a read waits at its beginning, for another process that restores the write-ahead log after a crash, ms. */
const BUSY_TIMEOUT_MS = 5_000;
/** The page cache, KiB. */
const CACHE_KIB = 8_192;

export interface ReaderDatabase {
  readonly db: Db;
  /** Resolves as `work`, which sees the database as it is when it begins, without later commits. One at a time. */
  atOnce<T>(work: () => T | Promise<T>): Promise<T>;
}

/** The file that readers open; undefined for a database in memory, which no other process reads. */
export function findDatabaseFile({ $client }: Db): string | undefined {
  return $client.filename === ":memory:" ? undefined : $client.filename;
}

/** @throws SQLiteError */
export function openReaderDatabase(file: string): ReaderDatabase {
  const sqlite = new Database(file, { readonly: true, strict: true });
  sqlite.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  sqlite.exec("PRAGMA query_only = ON");
  sqlite.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
  sqlite.exec("PRAGMA temp_store = MEMORY");
  return {
    db: drizzleOver(sqlite),
    async atOnce(work) {
      sqlite.exec("BEGIN");
      try {
        return await work();
      } finally {
        // After an error of the disk, SQLite has ended it on its own.
        if (sqlite.inTransaction) sqlite.exec("ROLLBACK");
      }
    },
  };
}
