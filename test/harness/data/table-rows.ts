/**
 * Puts a row into every table of a database with any schema, for upgrades to preserve. The values come from the schema
 * itself (types, words that a CHECK allows, rows that a key refers to), so new tables need no change here.
 */
import { Database } from "bun:sqlite";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIGRATIONS } from "../../../src/store/migrate.ts";
import { temporaryFolder } from "../folder.ts";

type Value = string | number | Uint8Array;

interface Column {
  name: string;
  type: string;
}

/** Lists the tables with rows of their own, without SQLite's, views, and the internal tables of virtual ones. */
export function tablesOf(sqlite: Database): string[] {
  const tables = sqlite.query("PRAGMA table_list").all() as { schema: string; name: string; type: string }[];
  return tables
    .filter(
      ({ schema, name, type }) =>
        schema === "main" && type !== "shadow" && type !== "view" && !name.startsWith("sqlite_"),
    )
    .map(({ name }) => name)
    .sort();
}

const columnsOf = (sqlite: Database, table: string): Column[] =>
  sqlite.query("SELECT name, type FROM pragma_table_info(?)").all(table) as Column[];

/** Finds the table and column that each column refers to. */
function parentsOf(sqlite: Database, table: string): Map<string, { table: string; to: string }> {
  const rows = sqlite.query('SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)').all(table);
  return new Map((rows as { table: string; from: string; to: string }[]).map((row) => [row.from, row]));
}

function valueFor(table: string, { name, type }: Column, definition: string): Value {
  const word = new RegExp(`CHECK \\(${name} IN \\('([^']*)'`).exec(definition)?.[1];
  if (word !== undefined) return word;
  const only = new RegExp(`CHECK \\(${name} = (\\d+)\\)`).exec(definition)?.[1];
  if (only !== undefined) return Number(only);
  if (type === "INTEGER") return 1;
  if (type === "REAL") return 0.5;
  if (type === "BLOB") return new TextEncoder().encode(`${table}.${name}`);
  // Valid both as JSON and as text.
  return `["${table}.${name}"]`;
}

/** Fills every empty table, referenced ones first. @throws SQLite's error for an invalid row */
function fillTables(sqlite: Database): void {
  const filled = new Set<string>();
  const fill = (table: string): void => {
    if (filled.has(table)) return;
    filled.add(table);
    const parents = parentsOf(sqlite, table);
    for (const parent of parents.values()) fill(parent.table);
    if (sqlite.query(`SELECT 1 FROM "${table}"`).get() !== null) return;
    const definition = sqlite.query("SELECT sql FROM sqlite_schema WHERE name = ?").get(table) as { sql: string };
    const values = columnsOf(sqlite, table).map((column): [string, Value] => {
      const parent = parents.get(column.name);
      if (!parent) return [column.name, valueFor(table, column, definition.sql)];
      const row = sqlite.query(`SELECT "${parent.to}" AS value FROM "${parent.table}"`).get() as { value: Value };
      return [column.name, row.value];
    });
    const names = values.map(([name]) => `"${name}"`).join(", ");
    const places = values.map(() => "?").join(", ");
    sqlite.query(`INSERT INTO "${table}" (${names}) VALUES (${places})`).run(...values.map(([, value]) => value));
  };
  for (const table of tablesOf(sqlite)) fill(table);
}

/** Reads every row of every table. */
export function rowsOf(sqlite: Database): Record<string, Record<string, unknown>[]> {
  return Object.fromEntries(
    tablesOf(sqlite).map((table) => [
      table,
      sqlite.query(`SELECT * FROM "${table}"`).all() as Record<string, unknown>[],
    ]),
  );
}

/** Reads the declarations of all tables, indexes and triggers, and the number of the schema. */
export const schemaOf = (sqlite: Database): unknown => [
  sqlite.query("PRAGMA user_version").get(),
  sqlite.query("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").all(),
];

/** Databases without rows of ours, by schema. */
const images = new Map<number, Uint8Array>();

/** Makes the empty database of a schema, from that of an earlier one where it was made before. */
function imageOf(version: number): Uint8Array {
  const earlier = Math.max(0, ...[...images.keys()].filter((made) => made <= version));
  const image = images.get(earlier);
  if (image && earlier === version) return image;
  const sqlite = image ? Database.deserialize(image) : new Database(":memory:");
  sqlite.exec("PRAGMA foreign_keys = ON");
  sqlite.transaction(() => {
    for (const sql of MIGRATIONS.slice(earlier, version)) sqlite.exec(sql);
    sqlite.exec(`PRAGMA user_version = ${version}`);
  })();
  const made = sqlite.serialize();
  sqlite.close();
  images.set(version, made);
  return made;
}

/** Makes a data folder as the version with that schema left it. `fill` writes its data. */
export function folderOf(version: number, fill: (sqlite: Database) => void = fillTables): string {
  const folder = temporaryFolder();
  const file = join(folder, "mailroom.db");
  writeFileSync(file, imageOf(version));
  const sqlite = new Database(file);
  sqlite.exec("PRAGMA foreign_keys = ON");
  sqlite.transaction(() => fill(sqlite))();
  sqlite.close();
  return folder;
}

/** Reads the database of a data folder. */
export function peek<T>(folder: string, look: (sqlite: Database) => T): T {
  const sqlite = new Database(join(folder, "mailroom.db"));
  try {
    return look(sqlite);
  } finally {
    sqlite.close();
  }
}
