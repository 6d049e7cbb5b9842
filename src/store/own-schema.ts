/**
 * Tells whether a database has what its migrations make and nothing else. Views, triggers, computed columns and virtual tables
 * of a stranger would run with the server.
 */
import { Database } from "bun:sqlite";
import { emptyDatabase } from "./migrate.ts";

interface Made {
  type: string;
  name: string;
  sql: string | null;
}

/** Made by SQLite, and by Litestream for its own use. */
const ALWAYS = /^(?:sqlite_(?:stat\d|sequence|autoindex_.*)|_litestream_(?:seq|lock))$/;

const isPlainTable = ({ type, sql }: Made): boolean => type === "table" && !/^CREATE VIRTUAL /i.test(sql ?? "");

function readSchemaEntries(db: Database): Map<string, string> {
  const columns = db.prepare<Record<string, unknown>, [string]>(
    "SELECT name, upper(type) AS type, hidden FROM pragma_table_xinfo(?)",
  );
  const made = db.query<Made, []>("SELECT type, name, sql FROM sqlite_schema").all();
  return new Map(
    made
      .filter((one) => !ALWAYS.test(one.name) || !(isPlainTable(one) || one.type === "index"))
      // The text of a table depends on the version of SQLite that changed it; its columns do not.
      .map((one) => [
        `${one.type} ${one.name}`,
        isPlainTable(one) ? JSON.stringify(columns.all(one.name)) : (one.sql ?? ""),
      ]),
  );
}

/** The first thing in the database of that schema that its migrations do not make, or make otherwise; undefined if there is none. */
export function findForeignSchemaEntry(db: Database, schema: number): string | undefined {
  const own = Database.deserialize(emptyDatabase(schema), { strict: true });
  try {
    const expected = readSchemaEntries(own);
    for (const [name, sql] of readSchemaEntries(db)) if (expected.get(name) !== sql) return name;
    return undefined;
  } finally {
    own.close();
  }
}
