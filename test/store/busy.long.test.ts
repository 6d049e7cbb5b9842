import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { openStore } from "../../src/store/store.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

/** Short transactions, one after another, with gaps of 2 ms. */
const BUSY_WRITER = `
  const { Database } = require("bun:sqlite");
  const sqlite = new Database(process.argv[1]);
  sqlite.exec("PRAGMA busy_timeout = 10000");
  for (let isTold = false; ; Bun.sleepSync(2)) {
    sqlite.exec("BEGIN IMMEDIATE");
    if (!isTold) console.log("begun");
    isTold = true;
    Bun.sleepSync(80);
    sqlite.exec("COMMIT");
  }`;

test("a transaction finds the gaps between those of a process that writes nearly all of the time", async () => {
  const folder = temporaryFolder();
  const store = openStore({ folder, busyTimeoutMs: 5_000, runtime: fakeRuntime() });
  await using writer = Bun.spawn([process.execPath, "-e", BUSY_WRITER, join(folder, "mailroom.db")], {
    stdout: "pipe",
  });
  const { value } = await writer.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toBe("begun\n");
  using probe = new Database(join(folder, "mailroom.db"));
  const isFree = () => {
    try {
      probe.exec("BEGIN IMMEDIATE; ROLLBACK");
      return true;
    } catch {
      return false;
    }
  };
  for (let n = 0; n < 12; n++) {
    while (isFree());
    store.transact((tx) => void tx.$client.exec("PRAGMA application_id = 1"));
  }
  store.close();
  expect(probe.query("PRAGMA application_id").get()).toEqual({ application_id: 1 });
}, 240_000);
