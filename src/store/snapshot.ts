/**
 * The database at one moment, as a file of its own: what a backup keeps. It is read without knowing the schema of its
 * version, so that any version's can be checked: a column called `blob` names a blob, by convention.
 *
 * `VACUUM INTO` reads in one transaction, so the file is one point in time, and a WAL lets the server write meanwhile;
 * the WAL cannot begin anew until it has ended, so it grows by what is written. Unlike the online backup it never has
 * to start over because somebody wrote, and it leaves out what was deleted.
 */
import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";

export interface Snapshot {
  /** `PRAGMA user_version`: how many migrations made it. */
  readonly schema: number;
  /** What `PRAGMA integrity_check` says is wrong; nothing for a sound one. */
  check(): string[];
  /** Names of the blobs that its rows name, each once, in order. */
  blobs(): Generator<string>;
  close(): void;
}

/** How long the beginning of a snapshot waits for a lock, ms. */
const BUSY_TIMEOUT_MS = 10_000;
const MOST_FINDINGS = 100;

const scalar = <T>(db: Database, query: string): T => (db.query(query).values()[0] as [T])[0];

/** Bytes that a snapshot of the data folder's database takes at most. @throws Error when there is none */
export function snapshotBytes(folder: string): number {
  const db = openLive(folder);
  try {
    return scalar<number>(db, "PRAGMA page_count") * scalar<number>(db, "PRAGMA page_size");
  } finally {
    db.close();
  }
}

/** Writes the data folder's database as it is now to `target`, which is not there yet; not fsynced. @throws Error */
export function takeSnapshot(folder: string, target: string): void {
  const db = openLive(folder);
  try {
    // Private from its first moment. SQLite takes an empty file for none.
    closeSync(openSync(target, "wx", 0o600));
    db.query("VACUUM INTO ?").run(target);
  } finally {
    db.close();
  }
}

/** Writable, though nothing is written: so it can read what a server that was killed has left in the WAL. */
function openLive(folder: string): Database {
  const path = join(folder, "mailroom.db");
  if (!existsSync(path)) throw new Error(`there is no database in the data folder ${folder}`);
  const db = new Database(path, { readwrite: true });
  db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  return db;
}

/** @throws Error for a file that is no database */
export function openSnapshot(path: string): Snapshot {
  const db = new Database(path, { readonly: true });
  let schema: number;
  try {
    schema = scalar<number>(db, "PRAGMA user_version");
  } catch (error) {
    db.close();
    throw error;
  }
  return {
    schema,
    check() {
      try {
        const found = db.query(`PRAGMA integrity_check(${MOST_FINDINGS})`).values() as [string][];
        return found.map(([finding]) => finding).filter((finding) => finding !== "ok");
      } catch (error) {
        if (error instanceof SQLiteError) return [error.message];
        throw error;
      }
    },
    *blobs() {
      const tables = db
        .query(
          "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'blob'",
        )
        .values() as [string][];
      if (tables.length === 0) return;
      const each = tables.map(([table]) => `SELECT blob FROM "${table}" WHERE blob IS NOT NULL`);
      const rows = db.query(`${each.join(" UNION ")} ORDER BY blob`).iterate() as Iterable<{ blob: string }>;
      for (const { blob } of rows) yield blob;
    },
    close: () => db.close(),
  };
}
