import { describe, expect, spyOn, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { blobPath, openBlobs } from "../../src/store/blobs.ts";
import { DamagedBlob } from "../../src/store/sound.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const HOUR = 3_600_000;

function setUp() {
  const folder = temporaryFolder();
  const runtime = fakeRuntime();
  return { folder, runtime, blobs: openBlobs(folder, runtime) };
}

describe("blobs", () => {
  test("are named by their SHA-256 and read back byte for byte", async () => {
    const { blobs } = setUp();
    const name = await blobs.write(bytes("abc"));
    expect(name).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect(await blobs.read(name)).toEqual(bytes("abc"));
    expect((await blobs.file(name)).size).toBe(3);
  });

  test("a check leaves nothing behind, and throws file system errors", async () => {
    const { folder, blobs } = setUp();
    await blobs.check();
    expect(readdirSync(folder)).toEqual([]);
    mkdirSync(join(folder, ".check"));
    await expect(blobs.check()).rejects.toMatchObject({ code: "EISDIR" });
  });

  test("may be empty", async () => {
    const { blobs } = setUp();
    expect(await blobs.read(await blobs.write(bytes("")))).toEqual(bytes(""));
  });

  test("the same bytes are one file, also when written at once", async () => {
    const { blobs, folder } = setUp();
    const names = await Promise.all(Array.from({ length: 8 }, () => blobs.write(bytes("same"))));
    expect(new Set(names).size).toBe(1);
    expect(readdirSync(join(folder, names[0]!.slice(0, 2)))).toEqual([names[0]!.slice(2)]);
  });

  test("a file is adopted once, and protected from the sweep", async () => {
    const { blobs, folder, runtime } = setUp();
    const [first, second] = [join(folder, "first"), join(folder, "second")];
    for (const file of [first, second]) writeFileSync(file, "abc", { mode: 0o600 });
    const sha256 = new Bun.CryptoHasher("sha256").update("abc").digest("hex");
    expect(await blobs.adopt(first, sha256)).toBe(sha256);
    expect(await blobs.read(sha256)).toEqual(bytes("abc"));
    expect(readdirSync(folder).sort()).toEqual([sha256.slice(0, 2), "second"]);
    const path = join(folder, sha256.slice(0, 2), sha256.slice(2));
    expect(statSync(path).mtimeMs).toBe(START);
    runtime.advanceTo(START + HOUR);
    expect(await blobs.adopt(second, sha256)).toBe(sha256);
    expect(statSync(path).mtimeMs).toBe(START + HOUR);
    expect(await blobs.write(bytes("abc"))).toBe(sha256);
  });

  test("are readable only by their owner", async () => {
    const { blobs, folder } = setUp();
    const name = await blobs.write(bytes("private"));
    expect(statSync(join(folder, name.slice(0, 2), name.slice(2))).mode & 0o077).toBe(0);
  });
});

describe("a blob with other bytes", () => {
  const flip = (path: string): void => {
    const there = readFileSync(path);
    there[0] = (there[0] ?? 0) ^ 1;
    writeFileSync(path, there);
  };
  const setUpDamaged = async (content = bytes("sound")) => {
    const rig = setUp();
    const name = await rig.blobs.write(content);
    const path = rig.blobs.localBlobPath(name);
    return { ...rig, content, name, path };
  };

  test("is neither read nor streamed", async () => {
    const { blobs, name, path } = await setUpDamaged();
    for (const other of ["Sound", "soun", "", "sound2"]) {
      writeFileSync(path, other);
      for (const work of [blobs.read, blobs.file, blobs.examine]) {
        await expect(work(name)).rejects.toMatchObject({ blob: name, code: "EDAMAGED" });
      }
    }
    rmSync(path);
    mkdirSync(path);
    await expect(blobs.file(name)).rejects.toBeInstanceOf(DamagedBlob);
    rmdirSync(path);
    expect(await blobs.examine(name)).toBe(false);
  });

  test("is written anew when it arrives again, by whichever way, and touched by nobody else", async () => {
    const { blobs, folder, content, name, path } = await setUpDamaged();
    const stage = join(folder, "stage");
    flip(path);
    await blobs.write(content);
    expect(await blobs.read(name)).toEqual(content);
    flip(path);
    writeFileSync(join(folder, "arrived"), content);
    await blobs.adopt(join(folder, "arrived"), name);
    expect(await blobs.read(name)).toEqual(content);
    flip(path);
    const staged = await blobs.writeStaged([content], stage);
    await blobs.adopt(staged.file ?? "", name);
    expect(await blobs.read(name)).toEqual(content);
    expect(await blobs.writeStaged([content], stage)).toEqual({ name });
    expect(readdirSync(join(folder, name.slice(0, 2)))).toEqual([name.slice(2)]);
  });

  test("a large one is found though it was read before, also when its times are set back", async () => {
    const { blobs, name, path } = await setUpDamaged(new Uint8Array(1_000_000).fill(7));
    expect((await blobs.file(name)).size).toBe(1_000_000);
    const { atime, mtime, ctimeMs } = statSync(path);
    // Within a tick of the file system's clock, a change does not show; the clock of this test is far from it.
    while (statSync(path).ctimeMs === ctimeMs) {
      flip(path);
      utimesSync(path, atime, mtime);
    }
    flip(path);
    if (readFileSync(path)[0] === 7) flip(path);
    utimesSync(path, atime, mtime);
    await expect(blobs.file(name)).rejects.toBeInstanceOf(DamagedBlob);
    await expect(blobs.read(name)).rejects.toBeInstanceOf(DamagedBlob);
  });

  test("a large one that was read is not read again for each piece, but after an hour", async () => {
    const { blobs, name, runtime } = await setUpDamaged(new Uint8Array(1_000_000).fill(7));
    const handle = await open("/dev/null");
    const kind: FileHandle = Object.getPrototypeOf(handle);
    await handle.close();
    const reads = spyOn(kind, "read");
    try {
      await blobs.file(name);
      const once = reads.mock.calls.length;
      expect(once).toBeGreaterThan(3);
      await blobs.file(name);
      expect(reads.mock.calls.length).toBe(once);
      runtime.advanceTo(START + HOUR);
      await blobs.file(name);
      expect(reads.mock.calls.length).toBe(2 * once);
    } finally {
      reads.mockRestore();
    }
  });

  test("does not take the place of one that arrived while a sweep had it aside", async () => {
    const { blobs, content, name, path } = await setUpDamaged();
    flip(path);
    renameSync(path, `${path}.leaving`);
    await blobs.write(content);
    expect(await blobs.sweep(START - HOUR, (names) => new Set(names))).toBe(0);
    expect(await blobs.read(name)).toEqual(content);
    expect(existsSync(`${path}.leaving`)).toBe(false);
  });
});

/** Holds up the first fsync of a folder until it is released. `synced`: what was fsynced, in order. */
async function holdSync(folder: string) {
  const handle = await open("/dev/null");
  const kind: FileHandle = Object.getPrototypeOf(handle);
  await handle.close();
  const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const synced: string[] = [];
  const { sync } = kind;
  let isFirst = true;
  const spy = spyOn(kind, "sync").mockImplementation(async function (this: FileHandle) {
    const path = readlinkSync(`/proc/self/fd/${this.fd}`);
    if (path === folder && isFirst) {
      isFirst = false;
      held.resolve();
      await released.promise;
    }
    await sync.call(this);
    synced.push(path);
  });
  return { held: held.promise, release: released.resolve, synced, [Symbol.dispose]: () => spy.mockRestore() };
}

// After a power cut, what was not fsynced when `write` resolved may be gone, though mail that names it was acknowledged.
describe.skipIf(!existsSync("/proc/self/fd"))("a write beside another process's, which has not ended", () => {
  const one = "0";
  const name = new Bun.CryptoHasher("sha256").update(one).digest("hex");
  const shard = name.slice(0, 2);
  let two = 1;
  while (!new Bun.CryptoHasher("sha256").update(`${two}`).digest("hex").startsWith(shard)) two++;

  test.each([
    ["the same bytes", one],
    ["other bytes of its shard", `${two}`],
  ])("%s are durable: the file's name, and that of its new shard", async (_what, text) => {
    const { blobs, folder, runtime } = setUp();
    for (const slow of [join(folder, shard), folder]) {
      rmSync(join(folder, shard), { recursive: true, force: true });
      using hold = await holdSync(slow);
      const other = openBlobs(folder, runtime).write(bytes(one));
      await hold.held;
      hold.synced.length = 0;
      await openBlobs(folder, runtime).write(bytes(text));
      expect(hold.synced).toEqual(expect.arrayContaining([join(folder, shard), folder]));
      hold.release();
      await other;
    }
    expect(await blobs.read(name)).toEqual(bytes(one));
  });
});

describe("sweep", () => {
  test("removes old unnamed blobs, and leftovers of a crash", async () => {
    const { blobs, folder } = setUp();
    const kept = await blobs.write(bytes("kept"));
    const orphan = await blobs.write(bytes("orphan"));
    mkdirSync(join(folder, "00"), { recursive: true });
    writeFileSync(join(folder, "00", ".half-written"), "x");
    const removed = await blobs.sweep(Date.now() + HOUR, (names) => new Set(names.filter((name) => name === kept)));
    expect(removed).toBe(2);
    expect(await (await blobs.file(kept)).exists()).toBe(true);
    expect(await (await blobs.file(orphan)).exists()).toBe(false);
  });

  test("restores a blob that a sweep was about to restore when the process ended", async () => {
    const { blobs, folder } = setUp();
    const name = await blobs.write(bytes("named meanwhile"));
    renameSync(blobPath(folder, name), `${blobPath(folder, name)}.leaving`);
    expect(await blobs.sweep(Date.now() + HOUR, (names) => new Set(names))).toBe(0);
    expect(await blobs.read(name)).toEqual(bytes("named meanwhile"));
  });

  test("passes over a file that a writer renames meanwhile", async () => {
    const { blobs, folder } = setUp();
    const [first, second] = [await blobs.write(bytes("one")), await blobs.write(bytes("two"))];
    const removed = await blobs.sweep(Date.now() + HOUR, (names) => {
      if (names.includes(first)) renameSync(blobPath(folder, first), blobPath(folder, second));
      return new Set();
    });
    expect(removed).toBe(1);
  });

  test("spares recent blobs, and those just written again", async () => {
    const { blobs, runtime } = setUp();
    const name = await blobs.write(bytes("about to be named"));
    expect(await blobs.sweep(START, () => new Set())).toBe(0);
    runtime.advanceTo(START + 5 * HOUR);
    await blobs.write(bytes("about to be named"));
    expect(await blobs.sweep(START + 4 * HOUR, () => new Set())).toBe(0);
    expect(await blobs.sweep(START + 6 * HOUR, () => new Set())).toBe(1);
    expect(await (await blobs.file(name)).exists()).toBe(false);
  });
});
