/** The write-ahead log starts over although the main thread never checkpoints at a commit, and keeps all that was committed. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { startCheckpoints } from "../../src/store/checkpoints.ts";
import { options } from "../../src/store/schema.ts";
import { openStore } from "../../src/store/store.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const NEVER = 1_000_000;

/** A store whose log is written from 20 pages on. `commit` resolves after its commit, with the pages of the log. */
function opened(folder: string) {
  const store = openStore({ folder, runtime: fakeRuntime() });
  const lines: string[] = [];
  const log = createLog(
    "error",
    () => 0,
    (line) => lines.push(line),
  );
  const checkpoints = startCheckpoints(store, log, { most: { thread: 20, commit: NEVER } });
  const pages = store.db.$client.prepare<{ log: number }, []>("PRAGMA wal_checkpoint(NOOP)");
  let commits = 0;
  async function commit(): Promise<number> {
    const name = `option ${++commits}`;
    await store.enqueue((tx) => void tx.insert(options).values({ name, value: "x" }).run());
    return pages.get()?.log ?? 0;
  }
  /** Commits until the log has started over. */
  async function untilAnew(): Promise<void> {
    for (let before = 0, now = await commit(); now >= before; ) [before, now] = [now, await commit()];
  }
  return { store, lines, checkpoints, commit, untilAnew, commits: () => commits };
}

const countOf = (folder: string): unknown => {
  using sqlite = new Database(join(folder, "mailroom.db"), { readonly: true });
  return sqlite.query("SELECT count(*) AS n FROM options WHERE name LIKE 'option %'").get();
};

test("the log starts over while commits go on", async () => {
  const folder = temporaryFolder();
  const { store, lines, checkpoints, untilAnew, commits } = opened(folder);
  for (let times = 0; times < 3; times++) await untilAnew();
  await checkpoints.stop();
  store.close();
  expect(countOf(folder)).toEqual({ n: commits() });
  expect(lines).toEqual([]);
});

test("the log grows while another process reads, and starts over afterwards", async () => {
  const folder = temporaryFolder();
  const { store, lines, checkpoints, commit, untilAnew, commits } = opened(folder);
  await commit();
  const reader = new Database(join(folder, "mailroom.db"), { readonly: true });
  reader.exec("BEGIN");
  expect(reader.query("SELECT count(*) AS n FROM options WHERE name LIKE 'option %'").get()).toEqual({ n: 1 });
  let before = 0;
  for (let n = 0; n < 100; n++) {
    const now = await commit();
    expect(now).toBeGreaterThan(before);
    before = now;
  }
  expect(reader.query("SELECT count(*) AS n FROM options WHERE name LIKE 'option %'").get()).toEqual({ n: 1 });
  reader.exec("COMMIT");
  reader.close();
  await untilAnew();
  await checkpoints.stop();
  store.close();
  expect(countOf(folder)).toEqual({ n: commits() });
  expect(lines).toEqual([]);
});

test("a store in memory has no log to write", async () => {
  const store = openStore({ folder: temporaryFolder(), file: ":memory:", runtime: fakeRuntime() });
  const log = createLog(
    "error",
    () => 0,
    () => expect.unreachable(),
  );
  const checkpoints = startCheckpoints(store, log, { most: { thread: 1, commit: NEVER } });
  for (let n = 0; n < 10; n++)
    store.transact(
      (tx) =>
        void tx
          .insert(options)
          .values({ name: `${n}`, value: "x" })
          .run(),
    );
  await checkpoints.stop();
  store.close();
});

test("in the folder of a server that has a replica, commands leave checkpoints to Litestream, too", () => {
  const folder = temporaryFolder();
  const pages = (): unknown => {
    const store = openStore({ folder, runtime: fakeRuntime() });
    const found = store.db.$client.query("PRAGMA wal_autocheckpoint").get();
    store.close();
    return found;
  };
  expect(pages()).toEqual({ wal_autocheckpoint: 4_000 });
  writeFileSync(join(folder, "replica.json"), "{}");
  expect(pages()).toEqual({ wal_autocheckpoint: 131_072 });
});
