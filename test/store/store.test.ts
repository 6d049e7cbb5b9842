import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { AppError } from "../../src/base/errors.ts";
import { options, workspaces } from "../../src/store/schema.ts";
import { isDiskSpaceLow, openStore, type Store } from "../../src/store/store.ts";
import { newDataFolder } from "../harness/data/database.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const open = (folder = newDataFolder(), busyTimeoutMs = 20): Store =>
  openStore({ folder, busyTimeoutMs, runtime: fakeRuntime() });
const names = (store: Store): string[] =>
  store.db
    .select()
    .from(options)
    .all()
    .map((row) => row.name)
    .sort();
/** Writes an option and returns `result`. */
function put<T>(name: string, result?: T) {
  return (tx: Parameters<Parameters<Store["transact"]>[0]>[0]): T | undefined => {
    tx.insert(options).values({ name, value: "x" }).run();
    return result;
  };
}

describe("transact", () => {
  test("commits what it did", () => {
    const folder = newDataFolder();
    const store = open(folder);
    expect(store.transact((tx) => put("a", 7)(tx))).toBe(7);
    expect(names(open(folder))).toEqual(["a"]);
  });

  test("rolls back all of it when it throws", () => {
    const store = open();
    expect(() =>
      store.transact((tx) => {
        put("a")(tx);
        throw new AppError("conflict", "no");
      }),
    ).toThrow("no");
    expect(names(store)).toEqual([]);
  });

  test("nested, joins the outer transaction", () => {
    const store = open();
    expect(() =>
      store.transact((tx) => {
        store.transact(put("inner"));
        put("outer")(tx);
        throw new Error("late");
      }),
    ).toThrow("late");
    expect(names(store)).toEqual([]);
  });

  test("a busy store is 503 server_error and changes nothing", () => {
    const folder = newDataFolder();
    const store = open(folder);
    const other = new Database(join(folder, "mailroom.db"));
    other.exec("BEGIN IMMEDIATE");
    const refused = (() => {
      try {
        store.transact(put("a"));
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toMatchObject({ code: "server_error", status: 503, retryAfter: expect.any(Number) });
    other.exec("ROLLBACK");
    expect(names(store)).toEqual([]);
    store.transact(put("b"));
    expect(names(store)).toEqual(["b"]);
  });

  test("a full disk is 503 server_error, changes nothing, and the store goes on when there is room", () => {
    const store = open();
    const sqlite = store.db.$client;
    const pages = (sqlite.query("PRAGMA page_count").get() as { page_count: number }).page_count;
    sqlite.exec(`PRAGMA max_page_count = ${pages}`);
    const large = (tx: Parameters<Parameters<Store["transact"]>[0]>[0]): void => {
      for (let i = 0; i < 50; i++)
        tx.insert(options)
          .values({ name: `n${i}`, value: "x".repeat(4096) })
          .run();
    };
    expect(() => store.transact(large)).toThrow(expect.objectContaining({ code: "server_error", status: 503 }));
    expect(names(store)).toEqual([]);
    sqlite.exec("PRAGMA max_page_count = 1000000");
    store.transact(large);
    expect(names(store)).toHaveLength(50);
  });
});

describe("enqueue", () => {
  test("works enqueued together share one commit", async () => {
    const store = open();
    const commits: number[] = [];
    store.onCommit((works) => commits.push(works));
    const results = await Promise.all(Array.from({ length: 20 }, (_, i) => store.enqueue(put(`n${i}`, i))));
    expect(results).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(commits).toEqual([20]);
    expect(names(store)).toHaveLength(20);
  });

  test("waits for works still being prepared, and commits with them", async () => {
    const store = openStore({ folder: newDataFolder(), gatherMs: 3_600_000, runtime: fakeRuntime() });
    let commits = 0;
    store.onCommit(() => commits++);
    const ends: (() => void)[] = [];
    const message = (name: string) =>
      store.preparing(() => new Promise<void>((resolve) => ends.push(resolve))).then(() => store.enqueue(put(name)));
    const [first, second, third] = ["a", "b", "c"].map(message);
    ends[0]?.();
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(commits).toBe(0);
    ends[1]?.();
    await Promise.all([first, second]);
    expect(commits).toBe(1);
    ends[2]?.();
    await third;
    expect(commits).toBe(2);
  });

  test("does not wait long for a slow preparation", async () => {
    const store = open();
    for (let i = 0; i < 3; i++) void store.preparing(() => new Promise(() => {}));
    expect(await store.enqueue(put("a", 1))).toBe(1);
  });

  test("does not wait for a failed preparation", async () => {
    const store = open();
    const failed = store.preparing(() => Promise.reject(new Error("unreadable")));
    const enqueued = store.enqueue(put("a", 1));
    expect(failed).rejects.toThrow("unreadable");
    expect(await enqueued).toBe(1);
  });

  test("a commit whose listener throws stands, and is not repeated", async () => {
    const store = open();
    let told = 0;
    store.onCommit(() => {
      throw new Error("theirs");
    });
    store.onCommit(() => told++);
    let done = 0;
    const work = () => ++done;
    expect(await Promise.all([store.enqueue(work), store.enqueue(work)])).toEqual([1, 2]);
    expect(store.transact(work)).toBe(3);
    expect([done, told]).toEqual([3, 2]);
  });

  test("works that write much share a commit only as far as it stays short", async () => {
    const store = open();
    const told: number[] = [];
    store.onCommit((works) => told.push(works));
    const MB = 1024 * 1024;
    const bytes = [0, 1, MB, MB, 5 * MB, 0, 2 * MB, ...Array.from({ length: 40 }, () => 0)];
    await Promise.all(bytes.map((size, i) => store.enqueue(put(`${i}`), size)));
    // The fourth would exceed the bytes of the first group; works that write little are counted.
    expect(told).toEqual([3, 1, 1, 32, 10]);
  });

  test("a work that throws rolls back alone", async () => {
    const store = open();
    const outcomes = await Promise.allSettled([
      store.enqueue(put("a")),
      store.enqueue((tx) => {
        put("b")(tx);
        throw new Error("mine");
      }),
      store.enqueue(put("c")),
    ]);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(names(store)).toEqual(["a", "c"]);
  });

  test("resolves only after the commit: another process sees it", async () => {
    const folder = newDataFolder();
    const store = open(folder);
    const other = open(folder);
    await store.enqueue(put("a"));
    expect(names(other)).toEqual(["a"]);
  });

  test("a commit that fails rejects all of its group", async () => {
    const folder = newDataFolder();
    const store = open(folder);
    const other = new Database(join(folder, "mailroom.db"));
    other.exec("BEGIN IMMEDIATE");
    const outcomes = await Promise.allSettled([store.enqueue(put("a")), store.enqueue(put("b"))]);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(["rejected", "rejected"]);
    other.exec("ROLLBACK");
    expect(names(store)).toEqual([]);
  });

  test("another process's write does not block the event loop, and waiting works follow it", async () => {
    const folder = newDataFolder();
    const store = open(folder, 1_000);
    const other = new Database(join(folder, "mailroom.db"));
    other.exec("BEGIN IMMEDIATE");
    let turns = 0;
    const turn = (): void => {
      if (++turns === 3) other.exec("ROLLBACK");
      else setImmediate(turn);
    };
    setImmediate(turn);
    await Promise.all(["a", "b"].map((name) => store.enqueue(put(name))));
    expect([names(store), turns]).toEqual([["a", "b"], 3]);
  });

  test("close commits waiting works", async () => {
    const folder = newDataFolder();
    const store = open(folder);
    const waiting = store.enqueue(put("a"));
    store.close();
    await waiting;
    expect(names(open(folder))).toEqual(["a"]);
  });
});

describe("works", () => {
  test("only if a commit writes; tried again after a while", async () => {
    const folder = newDataFolder();
    const runtime = fakeRuntime();
    const store = openStore({ folder, busyTimeoutMs: 20, runtime });
    const other = open(folder);
    const before = other.dataVersion();
    expect(await store.works()).toBe(true);
    expect(other.dataVersion()).not.toBe(before);
    const lock = new Database(join(folder, "mailroom.db"));
    lock.exec("BEGIN IMMEDIATE");
    expect(await store.works()).toBe(true);
    runtime.advanceTo(runtime.now() + 100);
    expect(await store.works()).toBe(false);
    lock.exec("ROLLBACK");
    runtime.advanceTo(runtime.now() + 100);
    expect(await store.works()).toBe(true);
  });

  test("only if a file can be written", async () => {
    const folder = newDataFolder();
    const store = open(folder);
    mkdirSync(join(folder, "blobs", ".check"));
    expect(await store.works()).toBe(false);
  });
});

describe("opening", () => {
  test("creates a database readable only by its owner, in a folder readable by others", () => {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    open(folder).transact(put("a"));
    const files = readdirSync(folder).filter((name) => name.startsWith("mailroom.db"));
    expect(files.sort()).toEqual(["mailroom.db", "mailroom.db-shm", "mailroom.db-wal"]);
    for (const file of files) expect([file, statSync(join(folder, file)).mode & 0o777]).toEqual([file, 0o600]);
  });

  test("names a folder that cannot be used, and the reason", () => {
    const file = join(temporaryFolder(), "file");
    writeFileSync(file, "not a database, though long enough to be one".repeat(100));
    expect(() => open(file)).toThrow(`The data folder ${file} cannot be used: EEXIST`);
    const folder = temporaryFolder();
    copyFileSync(file, join(folder, "mailroom.db"));
    expect(() => open(folder)).toThrow(`The data folder ${folder} cannot be used: file is not a database`);
  });

  test("is durable: WAL, synchronous FULL, foreign keys on", () => {
    const sqlite = open().db.$client;
    const pragma = (name: string): unknown => Object.values(sqlite.query(`PRAGMA ${name}`).get() as object)[0];
    expect([pragma("journal_mode"), pragma("synchronous"), pragma("foreign_keys")]).toEqual(["wal", 2, 1]);
  });

  test("keeps existing data, and notices another process's commits", () => {
    const folder = newDataFolder();
    const store = open(folder);
    const before = store.dataVersion();
    open(folder).transact((tx) => void tx.insert(workspaces).values({ id: "wsp_1", name: "One", createdAt: 1 }).run());
    expect(store.dataVersion()).not.toBe(before);
    expect(store.db.select().from(workspaces).where(eq(workspaces.id, "wsp_1")).get()?.name).toBe("One");
  });

  test("refuses a data folder of a newer version", () => {
    const folder = newDataFolder();
    open(folder).db.$client.exec("PRAGMA user_version = 999");
    expect(() => open(folder)).toThrow("newer Mailroom");
  });
});

test("a disk is low when both few bytes and little of it are free", () => {
  const GB = 1_000_000_000;
  const isLow = (free: number, total: number) => isDiskSpaceLow({ free: free * GB, total: total * GB });
  expect([isLow(0, 1), isLow(0.9, 10), isLow(1.9, 20)]).toEqual([true, true, true]);
  expect([isLow(1, 10), isLow(0.5, 5), isLow(2, 1_000), isLow(15, 1_000)]).toEqual([false, false, false, false]);
});
