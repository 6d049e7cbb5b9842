/** The doctor reads the files of mail: all of a small store, and of a large one another part each day. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { unavailable } from "../../src/base/errors.ts";
import { checkBlobBytes } from "../../src/doctor/checks/blob-bytes.ts";
import { DamagedBlob } from "../../src/store/sound.ts";

const DAY_MS = 24 * 3_600_000;
const nameOf = (n: number): string => new Bun.CryptoHasher("sha256").update(`${n}`).digest("hex");

/** `examine` says what is found of a file, whose reading takes `ms`. */
function setUp(count: number, examine: (name: string) => boolean = () => true, { remote = false, ms = 1_000 } = {}) {
  const $client = new Database(":memory:");
  $client.run("CREATE TABLE files (blob TEXT)");
  for (let n = 0; n < count; n++) $client.run("INSERT INTO files VALUES (?)", [nameOf(n)]);
  let now = DAY_MS * 20_000;
  const read: string[] = [];
  const blobs = {
    examine: async (name: string) => {
      read.push(name);
      now += ms;
      return examine(name);
    },
  };
  const look = () =>
    checkBlobBytes({
      store: { db: { $client }, blobs, ...(remote && { remote: {} }) },
      runtime: { now: () => now },
    } as never);
  return {
    $client,
    look,
    /** Returns the names of the files that were read since the last call. */
    read: () => read.splice(0),
    pass(ms: number) {
      now += ms;
    },
  };
}

test("without files there is nothing to tell", async () => {
  expect(await setUp(0).look()).toEqual([]);
});

test("what is damaged or missing is named, up to ten of each", async () => {
  const { look, read } = setUp(9, (name) => {
    if (name === nameOf(3)) throw new DamagedBlob(name);
    if (name === nameOf(4)) throw Object.assign(new Error("a bad place"), { code: "EIO" });
    return name !== nameOf(5);
  });
  const found = await look();
  expect(found).toMatchObject([
    {
      id: "blob-bytes",
      state: "bad",
      detail: `all 9 were read; damaged: ${[nameOf(3), nameOf(4)].sort().join(", ")}; missing: ${nameOf(5)}`,
      todo: expect.stringContaining("Restore a backup elsewhere"),
    },
  ]);
  expect(read().sort()).toEqual(Array.from({ length: 9 }, (_, n) => nameOf(n)).sort());
  const [many] = await setUp(40, () => false, { ms: 500 }).look();
  expect(many?.detail).toMatch(/^20 were read today; missing: (?:[0-9a-f]{64}, ){10}and 10 more$/);
});

test("all of more than are listed at once are read", async () => {
  const { look, read } = setUp(1_203, () => true, { ms: 0 });
  expect(await look()).toMatchObject([{ state: "ok", detail: "all 1203 were read, and are whole" }]);
  expect(new Set(read()).size).toBe(1_203);
});

test("a message that is deleted meanwhile lacks nothing", async () => {
  const { $client, look } = setUp(2, (name) => {
    $client.run("DELETE FROM files WHERE blob = ?", [name]);
    return false;
  });
  expect(await look()).toMatchObject([{ state: "ok", detail: "all 2 were read, and are whole" }]);
});

test.each([
  ["ten seconds of a disk", false, 10],
  ["three seconds of S3, which has its price", true, 3],
])("of many, %s are read, and others the next days", async (_, remote, seconds) => {
  const { look, read, pass } = setUp(40, () => true, { remote });
  const seen = new Set<string>();
  for (let day = 0; day < 40; day++) {
    const [finding] = await look();
    const some = read();
    expect(finding).toMatchObject({ state: "ok", detail: `${some.length} were read today, and are whole` });
    expect(some.length).toBeWithin(seconds, seconds + 4);
    for (const name of some) seen.add(name);
    pass(DAY_MS);
  }
  expect(seen.size).toBe(40);
});

test("S3 that fails meanwhile is told elsewhere; what was found before is told here", async () => {
  const failing = (name: string) => {
    if (name === nameOf(1)) throw unavailable("S3 fails");
    return name !== nameOf(0);
  };
  const [none] = await setUp(2, (name) => failing(name === nameOf(0) ? nameOf(2) : name), { remote: true }).look();
  expect(none).toMatchObject({ state: "unknown", detail: expect.stringContaining("before S3 failed") });
  const [some] = await setUp(2, failing, { remote: true }).look();
  expect(some).toMatchObject({ state: "bad", detail: expect.stringContaining(`missing: ${nameOf(0)}`) });
  await expect(
    setUp(1, () => {
      throw new Error("something else");
    }).look(),
  ).rejects.toThrow("something else");
});
