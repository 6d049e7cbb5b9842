/** schema.ts agrees with the migrations: the same tables, columns, types, defaults and indexes. */
import { expect, test } from "bun:test";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import * as schema from "../../src/store/schema.ts";
import { openStore } from "../../src/store/store.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const sqlite = openStore({ folder: temporaryFolder(), runtime: fakeRuntime() }).db.$client;
const tables = Object.values(schema).filter((value) => is(value, SQLiteTable));
const made = sqlite
  .query(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'message_index%' ORDER BY name",
  )
  .all() as { name: string }[];

test("the migrations make the tables of the schema", () => {
  expect(tables.map((table) => getTableConfig(table).name).sort()).toEqual(made.map(({ name }) => name));
});

for (const table of tables) {
  const config = getTableConfig(table);
  test(`the migrations give ${config.name} the columns of the schema`, () => {
    const rows = sqlite.query(`PRAGMA table_info(${config.name})`).all() as {
      name: string;
      type: string;
      notnull: number;
      pk: number;
    }[];
    const expected = config.columns.map((column) => ({
      name: column.name,
      type: column.getSQLType().toUpperCase(),
      required: column.notNull || column.primary,
    }));
    expect(rows.map((row) => ({ name: row.name, type: row.type, required: row.notnull === 1 || row.pk > 0 }))).toEqual(
      expected,
    );
  });

  test(`the migrations give ${config.name} the indexes of the schema`, () => {
    const rows = sqlite.query(`PRAGMA index_list(${config.name})`).all() as { name: string; origin: string }[];
    const indexes = rows
      .filter((row) => row.origin === "c")
      .map((row) => row.name)
      .sort();
    expect(config.indexes.map((index) => index.config.name).sort()).toEqual(indexes);
  });
}
