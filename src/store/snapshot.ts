/**
 * A copy of the database at one moment, for backups. It is read without the schema of its version, so that snapshots of
 * any version can be checked: by convention, a column called `blob` names a blob.
 *
 * `VACUUM INTO` reads in one transaction, so the file is one point in time, and the WAL lets the server keep writing.
 * The WAL cannot restart until the copy ends, so it grows by those writes. Unlike the online backup it never starts
 * over because of a write, and it leaves out deleted data.
 */
import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { MIGRATIONS } from "./migrate.ts";
import { findForeignSchemaEntry } from "./own-schema.ts";
import { refuseForeignLinks } from "./ownership.ts";
import type { Db } from "./statement.ts";

/** How long a snapshot waits for a lock at its beginning, ms. */
const BUSY_TIMEOUT_MS = 10_000;
const MOST_FINDINGS = 100;

const scalar = <T>(db: Database, query: string): T => (db.query(query).values()[0] as [T])[0];

/**
 * Upper bound on the bytes of a snapshot of the data folder's database, and the number of migrations applied to it.
 * @throws Error if there is none
 */
export function measureDatabase(folder: string): { bytes: number; schema: number } {
  const db = openLive(folder);
  try {
    const bytes = scalar<number>(db, "PRAGMA page_count") * scalar<number>(db, "PRAGMA page_size");
    return { bytes, schema: scalar<number>(db, "PRAGMA user_version") };
  } finally {
    db.close();
  }
}

/** Writes the data folder's current database to `target`, which must not exist; not fsynced. @throws Error */
export function takeSnapshot(folder: string, target: string): void {
  const db = openLive(folder);
  try {
    // Private from the start. SQLite accepts an empty file as a new database.
    closeSync(openSync(target, "wx", 0o600));
    db.query("VACUUM INTO ?").run(target);
  } finally {
    db.close();
  }
}

/** Text of a setting in the data folder's database; undefined if it has its default. @throws Error if there is none */
export function storedSetting(folder: string, name: string): string | undefined {
  const db = openLive(folder);
  try {
    return db.query<{ value: string }, [string]>("SELECT value FROM options WHERE name = ?").get(name)?.value;
  } finally {
    db.close();
  }
}

/** Opens it writable without writing, since only then SQLite reads the WAL that a killed server left. */
function openLive(folder: string): Database {
  const path = join(folder, "mailroom.db");
  if (!existsSync(path)) throw new Error(`there is no database in the data folder ${folder}`);
  refuseForeignLinks(path);
  const db = new Database(path, { readwrite: true });
  db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  return db;
}

const tablesWithBlobs = (db: Database): string[] =>
  (
    db
      .query(
        "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'blob'",
      )
      .values() as [string][]
  ).map(([table]) => table);

/** Up to `most` names of blobs in the rows of a database, distinct and sorted, from `from` on. */
export function blobNamesFrom({ $client: db }: Pick<Db, "$client">, from: string, most: number): string[] {
  const each = tablesWithBlobs(db).map(
    (table) => `SELECT * FROM (SELECT DISTINCT blob FROM "${table}" WHERE blob >= ?1 ORDER BY blob LIMIT ?2)`,
  );
  if (each.length === 0) return [];
  const rows = db.query<{ blob: string }, [string, number]>(`${each.join(" UNION ")} ORDER BY blob LIMIT ?2`);
  return rows.all(from, most).map(({ blob }) => blob);
}

/** Names of the blobs in the rows of a database, of any version, distinct and sorted. */
export function* blobNames({ $client: db }: Pick<Db, "$client">): Generator<string> {
  const tables = tablesWithBlobs(db);
  if (tables.length === 0) return;
  const each = tables.map((table) => `SELECT blob FROM "${table}" WHERE blob IS NOT NULL`);
  const rows = db.query(`${each.join(" UNION ")} ORDER BY blob`).iterate() as Iterable<{ blob: string }>;
  for (const { blob } of rows) yield blob;
}

/** @throws Error for a file that is not a database */
export function openSnapshot(path: string) {
  const db = new Database(path, { readonly: true });
  let schema: number;
  try {
    db.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    schema = scalar<number>(db, "PRAGMA user_version");
  } catch (error) {
    db.close();
    throw error;
  }
  return {
    /** `PRAGMA user_version`: the number of migrations applied. */
    schema,
    /**
     * Checks the database. Returns the first thing in it that the migrations did not make, or else the errors of `PRAGMA
     * integrity_check`; the list is empty for a sound database.
     */
    check(): string[] {
      try {
        const strange = schema > MIGRATIONS.length ? undefined : findForeignSchemaEntry(db, schema);
        if (strange !== undefined) return [`has a ${strange} that is not Mailroom's`];
        const found = db.query(`PRAGMA integrity_check(${MOST_FINDINGS})`).values() as [string][];
        return found.map(([finding]) => finding).filter((finding) => finding !== "ok");
      } catch (error) {
        if (error instanceof SQLiteError) return [error.message];
        throw error;
      }
    },
    /** Names of the blobs in its rows, distinct and sorted. */
    blobs: () => blobNames({ $client: db }),
    close: (): void => db.close(),
  };
}
