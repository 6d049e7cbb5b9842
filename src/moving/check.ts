/**
 * Finds an export and checks it, before anything of it is used: its files against their hashes, its database against the schema
 * of its version, and its rows against each other. What an export holds comes from outside.
 */
import { Database } from "bun:sqlite";
import { chmodSync, copyFileSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { hashFile } from "../backup/files.ts";
import { DATABASE, listGenerations, MANIFEST, readSums, requireFormat, SUMS } from "../backup/layout.ts";
import { AppError } from "../base/errors.ts";
import { MIGRATIONS, migrate } from "../store/migrate.ts";
import * as schema from "../store/schema.ts";
import { EXPORT, type ExportManifest } from "./layout.ts";
import { countOf, messagesBetween } from "./rows.ts";
import { MOVED } from "./tables.ts";

export const damaged = (what: string, cause?: unknown): AppError =>
  new AppError("conflict", `the export is damaged (${what}): make it again`, { cause });

export interface FoundExport {
  folder: string;
  /** Of its generation. */
  path: string;
  manifest: ExportManifest;
  /** The database, of this program's schema. */
  database: string;
  close(): void;
}

/** Finds an export, and checks its files except the blobs. @throws AppError */
export async function openExport(folder: string, data: string): Promise<FoundExport> {
  const path = (await listGenerations(folder, EXPORT)).at(-1)?.path;
  if (path === undefined) throw new AppError("not_found", `no export was finished in ${folder}: make it again`);
  const { manifest, sums } = await readManifest(path);
  const database = join(path, DATABASE);
  for (const [name, sha256] of sums) {
    const hashed = await hashFile(join(path, name)).catch((error) => {
      throw damaged(name, error);
    });
    if (hashed.sha256 !== sha256) throw damaged(`${name} has another checksum`);
  }
  checkDatabase(database, manifest);
  if (manifest.schema === MIGRATIONS.length) return { folder, path, manifest, database, close() {} };
  const migrated = join(data, `mailroom.db-import`);
  rmSync(migrated, { force: true });
  copyFileSync(database, migrated);
  chmodSync(migrated, 0o600);
  const db = new Database(migrated, { readwrite: true, strict: true });
  try {
    migrate(db, { claim: () => () => {} });
  } finally {
    db.close();
  }
  return { folder, path, manifest, database: migrated, close: () => rmSync(migrated, { force: true }) };
}

/** @throws AppError conflict for one that is damaged, or of a newer program */
async function readManifest(path: string): Promise<{ manifest: ExportManifest; sums: Map<string, string> }> {
  let sums: Map<string, string>;
  let manifest: ExportManifest;
  try {
    sums = readSums(await readFile(join(path, SUMS), "utf8"));
    manifest = JSON.parse(await readFile(join(path, MANIFEST), "utf8"));
    if (!isManifest(manifest)) throw new Error(`${MANIFEST} is not one`);
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error), error);
  }
  requireFormat("the export", manifest.format);
  if (manifest.schema <= MIGRATIONS.length) return { manifest, sums };
  throw new AppError(
    "conflict",
    `the export was made by a newer Mailroom (${manifest.version}, schema ${manifest.schema}; this one knows ${MIGRATIONS.length}): bring this server to that version first`,
  );
}

const isManifest = ({
  format,
  version,
  schema,
  id,
  final,
  workspace,
  settings,
  rows,
  lacking,
}: ExportManifest): boolean =>
  [format, schema].every(Number.isSafeInteger) &&
  schema > 0 &&
  [version, id, workspace?.id, workspace?.name].every((text) => typeof text === "string") &&
  typeof final === "boolean" &&
  [settings, rows].every((value) => typeof value === "object" && value !== null) &&
  Array.isArray(lacking);

type SchemaRow = { type: string; name: string; tbl_name: string; sql: string | null };
const SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";

/**
 * What is not exactly a database of that schema is not read: views and triggers of a stranger would run here.
 * @throws AppError conflict
 */
function checkDatabase(path: string, { schema, workspace, rows }: ExportManifest): void {
  const made = new Database(":memory:", { strict: true });
  let db: Database | undefined;
  try {
    migrate(made, { claim: () => () => {}, migrations: MIGRATIONS.slice(0, schema) });
    db = new Database(path, { readonly: true, strict: true });
    db.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    const version = db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version;
    const schemaOf = (one: Database) => JSON.stringify(one.query<SchemaRow, []>(SCHEMA).all());
    if (version !== schema || schemaOf(db) !== schemaOf(made)) throw new Error(`${DATABASE} has another schema`);
    const [{ integrity_check: finding = "" } = {}] = db
      .query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)")
      .all();
    if (finding !== "ok") throw new Error(`${DATABASE}: ${finding}`);
    const orphan = db.query<{ table: string }, []>("PRAGMA foreign_key_check").get();
    if (orphan) throw new Error(`a row of ${orphan.table} belongs to nothing`);
    const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    for (const { name } of tables) {
      // As many as the program of that version listed; a later one may move more tables.
      if (Object.hasOwn(rows, name) && countOf(db, name) !== rows[name])
        throw new Error(`${name} has another number of rows`);
    }
    const ids = db.query<{ id: string }, []>("SELECT id FROM workspaces").all();
    if (ids.length !== 1 || ids[0]?.id !== workspace.id) throw new Error("it has another workspace");
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error), error);
  } finally {
    db?.close();
    made.close();
  }
}

const TYPES: Readonly<Record<string, (column: string) => string>> = {
  INTEGER: (column) =>
    `(typeof(${column}) = 'integer' AND ${column} BETWEEN -${Number.MAX_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER})`,
  REAL: (column) => `typeof(${column}) IN ('integer', 'real')`,
  TEXT: (column) => `typeof(${column}) = 'text'`,
  BLOB: (column) => `typeof(${column}) = 'blob'`,
};

/** Rows that belong together, and so must agree. */
const DISAGREEING = [
  `messages m JOIN moved.threads t ON t.seq = m.thread_seq
     WHERE m.mailbox_id <> t.mailbox_id OR m.seq NOT ${messagesBetween("t.seq", "t.seq")}`,
  "thread_references m JOIN moved.threads t ON t.seq = m.thread_seq WHERE m.mailbox_id <> t.mailbox_id",
  "holds m JOIN moved.messages t ON t.seq = m.message_seq WHERE m.mailbox_id <> t.mailbox_id",
  "automatic_mail m JOIN moved.messages t ON t.seq = m.message_seq WHERE m.mailbox_id <> t.mailbox_id",
  "mailboxes m JOIN moved.users t ON t.id = m.owner_id WHERE m.workspace_id <> t.workspace_id",
];

/** Checks the values in the attached database. @throws AppError conflict */
export function checkValues(sqlite: Database, { workspace }: ExportManifest): void {
  const exists = (query: string): boolean => sqlite.prepare(query).get() !== null;
  const tables = new Map(
    (Object.values(schema) as unknown[])
      .filter((value): value is SQLiteTable => is(value, SQLiteTable))
      .map((table) => [getTableConfig(table).name, getTableConfig(table).columns] as const),
  );
  for (const { name, by, of } of MOVED) {
    const wrong = (tables.get(name) ?? []).map((column) => {
      const quoted = `"${column.name}"`;
      const isRight = [TYPES[column.getSQLType().toUpperCase()]?.(quoted) ?? "TRUE"];
      if (column.dataType === "json") isRight.push(`json_valid(${quoted})`);
      if (column.name === "blob") isRight.push(`length(${quoted}) = 64 AND ${quoted} NOT GLOB '*[^0-9a-f]*'`);
      return `NOT (${column.notNull ? "" : `${quoted} IS NULL OR `}${isRight.join(" AND ")})`;
    });
    if (of === "workspaces") wrong.push(`${by} <> '${workspace.id.replaceAll("'", "''")}'`);
    if (exists(`SELECT 1 FROM moved.${name} WHERE ${wrong.join(" OR ")}`)) throw damaged(`a row of ${name}`);
  }
  for (const query of DISAGREEING) {
    if (exists(`SELECT 1 FROM moved.${query}`)) throw damaged(`a row of ${query.split(" ")[0]}`);
  }
}
