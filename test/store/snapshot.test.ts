/** Snapshots of the database: the blobs that they name, by a convention that the schema and the sweep share. */
import { expect, test } from "bun:test";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import * as schema from "../../src/store/schema.ts";
import { measureDatabase, openSnapshot, takeSnapshot } from "../../src/store/snapshot.ts";
import { openStore } from "../../src/store/store.ts";
import { newDataFolder } from "../harness/data/database.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const nameOf = (n: number): string => String(n).padStart(64, "0");

test("a snapshot names every blob once, in order, as of one moment", () => {
  const folder = newDataFolder();
  const store = openStore({ folder, runtime: fakeRuntime() });
  const { $client: sqlite } = store.db;
  const put = (n: number, blob: string | null) => {
    sqlite.run(
      `INSERT INTO outbound_messages (seq, id, workspace_id, mailbox_id, mailbox, thread_id, message_id, subject, domain,
         return_path, accepted_at, recipients, outside_recipients, mailbox_total, workspace_total)
       VALUES (?1, ?1, 'w', 'm', 'a@b', 't', ?1, '', 'b', ?1, 0, 1, 1, 1, 1)`,
      [n],
    );
    sqlite.run("INSERT INTO outbound_contents (message_seq, size, blob) VALUES (?, 1, ?)", [n, blob]);
  };
  for (const [i, n] of [7, 3, 7].entries()) put(i + 1, nameOf(n));
  put(9, null);
  expect(measureDatabase(folder)).toEqual({ bytes: expect.any(Number), schema: MIGRATIONS.length });
  const target = join(folder, "snapshot.db");
  takeSnapshot(folder, target);
  put(10, nameOf(1));
  expect(statSync(target).mode & 0o777).toBe(0o600);
  const snapshot = openSnapshot(target);
  expect([...snapshot.blobs()]).toEqual([nameOf(3), nameOf(7)]);
  expect([snapshot.check(), snapshot.schema > 0]).toEqual([[], true]);
  snapshot.close();
  store.close();
});

test("exactly the columns that name blobs are called `blob`, and the sweep reads them all", () => {
  const tables = Object.values(schema).filter((value) => is(value, SQLiteTable));
  const naming = tables.filter((table) => getTableConfig(table).columns.some(({ name }) => name === "blob"));
  const source = readFileSync(join(import.meta.dir, "../../src/mailbox/changing/removal.ts"), "utf8");
  const [, sweeper = ""] = source.split("const named =");
  const asked = Object.entries(schema).filter(([name]) => new RegExp(`\\.from\\(${name}\\)`).test(sweeper));
  expect(asked.map(([, table]) => table as unknown).sort()).toEqual(naming.sort());
});

test("refuses a folder without a database, and a file that is not a database", () => {
  const folder = temporaryFolder();
  expect(() => takeSnapshot(folder, join(folder, "x"))).toThrow("there is no database");
  expect(() => openSnapshot(join(import.meta.dir, "snapshot.test.ts"))).toThrow("not a database");
});
