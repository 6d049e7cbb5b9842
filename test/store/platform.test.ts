/** Behaviour of bun:sqlite on which the store stands (docs: Platform): a new release of Bun that differs fails here. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";

function open(options?: { safeIntegers: boolean }) {
  const db = new Database(":memory:", options);
  db.run("CREATE TABLE t (a, b)");
  const write = db.query("INSERT INTO t VALUES (?, ?)") as unknown as { run(...values: unknown[]): void };
  const read = (what: string) =>
    (db.query(`SELECT ${what} AS found FROM t ORDER BY rowid DESC`).get() as { found: unknown }).found;
  return { db, write, read };
}

const LARGE = 2n ** 53n + 1n;

test("an integer beyond 2^53 is stored whole, and read rounded unless it is asked for whole", () => {
  const rounded = open();
  rounded.write.run(LARGE, null);
  expect([rounded.read("a"), rounded.read("CAST(a AS TEXT)")]).toEqual([2 ** 53, String(LARGE)]);
  const whole = open({ safeIntegers: true });
  whole.write.run(LARGE, null);
  expect(whole.read("a")).toBe(LARGE);
});

test("a bigint beyond 2^63 wraps", () => {
  const { write, read } = open();
  write.run(2n ** 63n, null);
  expect(read("CAST(a AS TEXT)")).toBe(String(-(2n ** 63n)));
});

test("a missing parameter throws, and undefined is NULL", () => {
  const { write, read } = open();
  expect(() => write.run(1)).toThrow("expected 2 values, received 1");
  write.run(1, undefined);
  expect(read("b")).toBeNull();
});

test("text keeps NUL, and no half of a surrogate pair", () => {
  const { write, read } = open();
  write.run(1, "a\0b");
  expect([read("b"), read("length(b)")]).toEqual(["a\0b", 1]);
  write.run(1, "\ud800x");
  expect(read("b")).toBe("\ufffdx");
});

test("a transaction takes back what came before an error, but for what an await leaves outside of it", async () => {
  const { db, write, read } = open();
  const failing = db.transaction(() => {
    write.run(1, "first");
    throw new Error("fails");
  });
  expect(failing).toThrow("fails");
  expect(db.inTransaction).toBe(false);
  write.run(0, "none");
  const waiting = db.transaction(async () => {
    write.run(2, "second");
    await Promise.resolve();
    throw new Error("fails late");
  });
  const ended = waiting();
  expect(db.inTransaction).toBe(false);
  await expect(ended).rejects.toThrow("fails late");
  expect(read("b")).toBe("second");
});
