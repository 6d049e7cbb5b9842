/**
 * Finds an export and checks it before anything of it is used, since it comes from outside: its files against their hashes, its
 * database against the schema of its version, and its rows against each other.
 */
import { Database } from "bun:sqlite";
import { chmodSync, copyFileSync, rmSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { basename, join } from "node:path";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import {
  DATABASE,
  listGenerations,
  MANIFEST,
  parseChecksums,
  requireBackupFormat,
  SUMS,
} from "../backup/backup-layout.ts";
import { hashFile, listDirectoryNames, readSmallFile } from "../backup/durable-files.ts";
import { AppError } from "../base/errors.ts";
import { isMissing } from "../base/files.ts";
import { LARGEST_IN_ROW, LONGEST_KEPT, MOST_HIDDEN } from "../mailbox/filing/keep-octets.ts";
import { LONGEST_STRUCTURE } from "../message/imap-data.ts";
import { MOST_OCTETS } from "../message/skeleton.ts";
import { emptyDatabase, MIGRATIONS, migrateDatabase } from "../store/migrate.ts";
import * as schema from "../store/schema.ts";
import { EXPORT, type ExportManifest } from "./export-layout.ts";
import { countTableRows, messagesBetweenSql } from "./rows.ts";
import { MOVED } from "./tables.ts";

/** The refusal of an export. `what`: what is wrong with it. */
export class Damaged extends AppError {
  constructor(
    readonly what: string,
    cause?: unknown,
  ) {
    super("conflict", `the export is damaged (${what}): make it again`, { cause });
  }
}

export const damagedExportError = (what: string, cause?: unknown): Damaged => new Damaged(what, cause);

export interface FoundExport {
  folder: string;
  /** Path of its generation. */
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
  // A journal beside the database would be taken for its own.
  const stray = (await listDirectoryNames(path)).find((name) => name !== SUMS && !sums.has(name));
  if (stray !== undefined) throw damagedExportError(`${stray} does not belong there`);
  for (const [name, sha256] of sums) {
    if ((await findPlainFileSize(join(path, name))) === undefined) throw damagedExportError(`${name} is missing`);
    const hashed = await hashFile(join(path, name)).catch((error) => {
      throw damagedExportError(name, error);
    });
    if (hashed.sha256 !== sha256) throw damagedExportError(`${name} has another checksum`);
  }
  checkDatabase(database, manifest);
  if (manifest.schema === MIGRATIONS.length) return { folder, path, manifest, database, close() {} };
  const migrated = join(data, `mailroom.db-import`);
  rmSync(migrated, { force: true });
  copyFileSync(database, migrated);
  chmodSync(migrated, 0o600);
  const db = new Database(migrated, { readwrite: true, strict: true });
  try {
    migrateDatabase(db, { claim: () => () => {} });
  } catch (error) {
    rmSync(migrated, { force: true });
    throw damagedExportError("its rows cannot be brought up to date", error);
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
    sums = parseChecksums(await readSmallFile(join(path, SUMS)));
    manifest = JSON.parse(await readSmallFile(join(path, MANIFEST)));
    if (!isManifest(manifest)) throw new Error(`${MANIFEST} is not one`);
  } catch (error) {
    throw damagedExportError(error instanceof Error ? error.message : String(error), error);
  }
  requireBackupFormat("the export", manifest.format);
  if (manifest.schema <= MIGRATIONS.length) return { manifest, sums };
  throw new AppError(
    "conflict",
    `the export was made by a newer Mailroom (${manifest.version}, schema ${manifest.schema}; this one knows ${MIGRATIONS.length}): bring this server to that version first`,
  );
}

/** Size of a plain file; undefined for a missing one. Links, pipes and devices are never opened. @throws AppError conflict for one */
export async function findPlainFileSize(path: string): Promise<number | undefined> {
  const found = await lstat(path).catch((error) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (found && !found.isFile()) throw damagedExportError(`${basename(path)} is no plain file`);
  return found?.size;
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
  Object.values(settings).every((value) => typeof value === "string") &&
  Array.isArray(lacking) &&
  lacking.every((name) => typeof name === "string" && /^[0-9a-f]{64}$/.test(name));

type SchemaRow = { type: string; name: string; tbl_name: string; sql: string | null };
const SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";

/**
 * Refuses a database that differs from its schema in anything, since views and triggers of a stranger would run here.
 * @throws AppError conflict
 */
function checkDatabase(path: string, { schema, workspace, rows }: ExportManifest): void {
  const made = Database.deserialize(emptyDatabase(schema), { strict: true });
  let db: Database | undefined;
  try {
    // Of a database that is opened to read alone, SQLite forgets the CHECK constraints.
    db = new Database(path, { readwrite: true, strict: true });
    db.exec("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    const mode = db.query<{ journal_mode: string }, []>("PRAGMA journal_mode").get()?.journal_mode;
    if (mode !== "delete") throw new Error(`${DATABASE} has a log beside it`);
    const version = db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version;
    const readSchemaText = (one: Database) => JSON.stringify(one.query<SchemaRow, []>(SCHEMA).all());
    if (version !== schema || readSchemaText(db) !== readSchemaText(made))
      throw new Error(`${DATABASE} has another schema`);
    const [{ integrity_check: finding = "" } = {}] = db
      .query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)")
      .all();
    if (finding !== "ok") throw new Error(`${DATABASE}: ${finding}`);
    const orphan = db.query<{ table: string }, []>("PRAGMA foreign_key_check").get();
    if (orphan) throw new Error(`a row of ${orphan.table} belongs to nothing`);
    const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    for (const { name } of tables) {
      // As many as the program of that version listed; a later one may move more tables.
      if (Object.hasOwn(rows, name) && countTableRows(db, name) !== rows[name])
        throw new Error(`${name} has another number of rows`);
    }
    const ids = db.query<{ id: string }, []>("SELECT id FROM workspaces").all();
    if (ids.length !== 1 || ids[0]?.id !== workspace.id) throw new Error("it has another workspace");
  } catch (error) {
    throw damagedExportError(error instanceof Error ? error.message : String(error), error);
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
  EITHER: (column) => `typeof(${column}) IN ('text', 'blob')`,
};

/** An address as messages have them. */
const ADDRESS = (value: string): string => `json_extract(${value}, '$.email') IS NOT NULL`;
const EACH = (column: string, of: string): string =>
  `json_type(${column}) = 'array' AND NOT EXISTS (SELECT 1 FROM json_each(${column}) WHERE NOT (${of}))`;
const TEXTS = (column: string): string => EACH(column, "type = 'text'");
const OBJECT = (column: string): string => `json_type(${column}) = 'object'`;
const ADDRESSES = (column: string): string => EACH(column, `type = 'object' AND ${ADDRESS("value")}`);
const SENDER = (column: string): string => `${OBJECT(column)} AND ${ADDRESS(column)}`;

/** Conditions on the JSON in columns, by their names: jobs of the server read it, for all workspaces. */
const SHAPES: Readonly<Record<string, (column: string) => string>> = {
  ...{ from: SENDER, counterpart: SENDER },
  ...{ to: ADDRESSES, cc: ADDRESSES, bcc: ADDRESSES, reply_to: ADDRESSES, participants: ADDRESSES },
  ...{ recipients: ADDRESSES, headers: (column) => EACH(column, "json_array_length(value) = 2") },
  ...{ scopes: TEXTS, passed: TEXTS, mailboxes: TEXTS, events: TEXTS, ids: TEXTS },
  ...{ policy: OBJECT, auth: OBJECT, unfinished: OBJECT, agent: OBJECT, data: OBJECT, dsn: OBJECT },
  templates: (column) => EACH(column, "type = 'object'"),
  parameters: (column) =>
    EACH(
      column,
      "json_array_length(value) = 2 AND json_type(value, '$[0]') = 'text' AND json_type(value, '$[1]') = 'text'",
    ),
  hidden: (column) =>
    EACH(
      column,
      `json_array_length(value) = 3 AND json_type(value, '$[0]') = 'integer' AND json_type(value, '$[1]') = 'integer'
         AND value ->> 0 BETWEEN 0 AND value ->> 1 - 1 AND value ->> 2 IN ('bcc', 'results')`,
    ),
};

const isId = (column: string): string =>
  `length(${column}) <= 64 AND ${column} GLOB '[a-z][a-z][a-z]_?*' AND ${column} NOT GLOB '*[^0-9A-Za-z_]*'`;

/** SQL: the address is of that domain. */
const isAt = (address: string, domain: string): string =>
  `substr(${address}, -length(${domain}) - 1) = '@' || ${domain}`;

/** Rows that belong together, and so must agree. */
const DISAGREEING = [
  `addresses m JOIN moved.domains t ON t.id = m.domain_id WHERE NOT (${isAt("m.address", "t.name")})`,
  `outbound_messages m WHERE NOT (${isAt("m.return_path", "m.domain")}) OR m.return_path NOT GLOB 'bounce+[0-9a-z]*'
     OR m.recipients < 0 OR m.outside_recipients < 0`,
  `messages m JOIN moved.threads t ON t.seq = m.thread_seq
     WHERE m.mailbox_id <> t.mailbox_id OR m.seq NOT ${messagesBetweenSql("t.seq", "t.seq")}`,
  "thread_references m JOIN moved.threads t ON t.seq = m.thread_seq WHERE m.mailbox_id <> t.mailbox_id",
  "holds m JOIN moved.messages t ON t.seq = m.message_seq WHERE m.mailbox_id <> t.mailbox_id",
  "automatic_mail m JOIN moved.messages t ON t.seq = m.message_seq WHERE m.mailbox_id <> t.mailbox_id",
  // What is in a row is read on the main thread, in proportion to `size`.
  `message_octets m WHERE m.size NOT BETWEEN 0 AND ${MOST_OCTETS} OR length(m.digest) <> 32 OR length(m.served_digest) <> 32
     OR (m.skeleton IS NULL) = (m.blob IS NULL) OR length(m.skeleton) > ${LARGEST_IN_ROW}
     OR length(m.envelope) > ${LONGEST_KEPT} OR length(m.structure) > ${LONGEST_STRUCTURE}
     OR json_array_length(m.hidden) > ${MOST_HIDDEN}
     OR EXISTS (SELECT 1 FROM (SELECT value ->> 0 AS start, value ->> 1 AS stop, lag(value ->> 1, 1, 0) OVER (ORDER BY key) AS before
                FROM json_each(m.hidden)) WHERE start < before OR stop > m.size)`,
  "mailboxes m JOIN moved.users t ON t.id = m.owner_id WHERE m.workspace_id <> t.workspace_id",
];

/** Checks the values in the attached database; in that of an export, also that there is no other workspace. @throws AppError conflict */
export function checkDatabaseValues(sqlite: Database, workspace?: ExportManifest["workspace"]): void {
  const exists = (query: string): boolean => sqlite.prepare(query).get() !== null;
  const tables = new Map(
    (Object.values(schema) as unknown[])
      .filter((value): value is SQLiteTable => is(value, SQLiteTable))
      .map((table) => [getTableConfig(table).name, getTableConfig(table).columns] as const),
  );
  for (const { name, by, of } of MOVED) {
    const wrong = (tables.get(name) ?? []).map((column) => {
      const quoted = `"${column.name}"`;
      // Packed text.
      const type = column.columnType === "SQLiteCustomColumn" ? "EITHER" : column.getSQLType().toUpperCase();
      const isRight = [TYPES[type]?.(quoted) ?? "TRUE"];
      if (column.dataType === "json")
        isRight.push(`CASE WHEN json_valid(${quoted}) THEN ${SHAPES[column.name]?.(quoted) ?? "TRUE"} ELSE FALSE END`);
      if (column.name === "id" && column.dataType === "string") isRight.push(isId(quoted));
      if (column.name === "blob") isRight.push(`length(${quoted}) = 64 AND ${quoted} NOT GLOB '*[^0-9a-f]*'`);
      return `NOT (${column.notNull ? "" : `${quoted} IS NULL OR `}${isRight.join(" AND ")})`;
    });
    if (of === "workspaces" && workspace) wrong.push(`${by} <> '${workspace.id.replaceAll("'", "''")}'`);
    if (exists(`SELECT 1 FROM moved.${name} WHERE ${wrong.join(" OR ")}`)) throw damagedExportError(`a row of ${name}`);
  }
  for (const query of DISAGREEING) {
    if (exists(`SELECT 1 FROM moved.${query}`)) throw damagedExportError(`a row of ${query.split(" ")[0]}`);
  }
}
