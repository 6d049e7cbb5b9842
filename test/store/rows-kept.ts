/** Expectations of upgrades from any schema. */
import { expect } from "bun:test";
import { is } from "drizzle-orm";
import { SQLiteTable } from "drizzle-orm/sqlite-core";
import * as schema from "../../src/store/schema.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { folderOf, peek, rowsOf, schemaOf } from "../harness/data/table-rows.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const open = (folder: string): Store => openStore({ folder, runtime: fakeRuntime() });

/** Columns that are no more. */
const GONE: Record<string, readonly string[]> = {
  imap_messages: ["octets"],
  imap_octets: ["size", "composer", "structure"],
};

let fresh: unknown;

/** Expects that a database with a row in every table is upgraded to the present schema, and keeps its rows. */
export function expectRowsKept(version: number): void {
  fresh ??= schemaOf(open(temporaryFolder()).db.$client);
  const folder = folderOf(version);
  const before = peek(folder, rowsOf);
  expect(Object.entries(before).filter(([, rows]) => rows.length === 0)).toEqual([]);

  const store = open(folder);
  const { $client } = store.db;
  expect(schemaOf($client)).toEqual(fresh);
  expect($client.query("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  expect($client.query("PRAGMA foreign_key_check").all()).toEqual([]);
  const after: Record<string, unknown[]> = {
    ...rowsOf($client),
    webhook_endpoints: $client.query("SELECT *, health AS pace FROM webhook_endpoints").all(),
  };
  for (const [table, rows] of Object.entries(before)) {
    // SQL cannot read its words; the counts below check it.
    if (table === "message_index") continue;
    // migrations.test.ts checks deliveries that waited in runs, and messages in trash alone.
    if (table === "webhook_waiting" || table === "discarded_messages") continue;
    for (const column of GONE[table] ?? []) for (const row of rows as Record<string, unknown>[]) delete row[column];
    expect([table, after[table]]).toEqual([
      table,
      expect.arrayContaining(rows.map((row) => expect.objectContaining(row))),
    ]);
  }
  // Indexed, or known to be missing.
  const { indexed, lacking } = $client
    .query(
      "SELECT (SELECT count(*) FROM message_index_docsize) AS indexed, (SELECT sum(messages) FROM search_backlog) AS lacking",
    )
    .get() as { indexed: number; lacking: number };
  expect(indexed + lacking).toBeGreaterThan(0);
  const tables = Object.values(schema).filter((value) => is(value, SQLiteTable));
  for (const table of tables) expect(() => store.db.select().from(table).all()).not.toThrow();
  store.close();
  expect(schemaOf(open(folder).db.$client)).toEqual(fresh);
}
