/** The list of what becomes of each table when a workspace moves, held against the schema. */
import { expect, test } from "bun:test";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { MOVED, TABLES } from "../../src/moving/tables.ts";
import * as schema from "../../src/store/schema.ts";
import { storeInMemory } from "../harness/data/database.ts";

const sqlite = storeInMemory().db.$client;
const columnsOf = (table: string) =>
  sqlite.query<{ name: string; type: string }, [string]>("SELECT name, type FROM pragma_table_info(?)").all(table);
const foreignKeysOf = (table: string) =>
  sqlite
    .query<{ from: string; table: string }, [string]>('SELECT "from", "table" FROM pragma_foreign_key_list(?)')
    .all(table);

test("every table of the schema is in the list, and nothing else", () => {
  const tables = (Object.values(schema) as unknown[]).filter((value): value is SQLiteTable => is(value, SQLiteTable));
  expect(Object.keys(TABLES).sort()).toEqual(tables.map((table) => getTableConfig(table).name).sort());
});

test("a table that is left says why", () => {
  for (const plan of Object.values(TABLES)) if ("left" in plan) expect(plan.left.length).toBeGreaterThan(10);
});

test("a table comes after the one that its rows belong to", () => {
  const seen = new Set(["workspaces"]);
  for (const { name, of } of MOVED) {
    expect([name, seen.has(of)]).toEqual([name, true]);
    seen.add(name);
  }
});

test("every column that names a row by its number says of which table", () => {
  for (const { name, numbers = {}, values = {} } of MOVED) {
    const ofOthers = foreignKeysOf(name)
      .filter(({ from }) => columnsOf(name).some((column) => column.name === from && column.type === "INTEGER"))
      .map(({ from, table }) => [from, table]);
    for (const [from, table] of ofOthers) {
      if (from !== undefined && from in values) continue;
      expect([name, from, numbers[from as string]]).toEqual([name, from, table]);
    }
    const named = columnsOf(name).filter((column) => /(^|_)seq$|^after_event$|^void_through$/.test(column.name));
    for (const { name: column } of named) {
      const isKnown = column in numbers || column in values;
      // A message's own numbers come with it, as its conversation's do.
      expect([name, column, isKnown]).toEqual([name, column, true]);
    }
  }
});
