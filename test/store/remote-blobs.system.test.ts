import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isUnavailable } from "../../src/base/errors.ts";
import { openBlobs } from "../../src/store/blobs.ts";
import { claimBlobs } from "../../src/store/claim.ts";
import { DamagedBlob } from "../../src/store/sound.ts";
import { bytesOf, keyOf, nameOfText, openRemote, type RemoteRig } from "../harness/peers/remote-blobs.ts";
import { describeS3, startS3 } from "../harness/peers/s3.ts";
import { until } from "../harness/until.ts";

const HOUR = 3_600_000;
const down = () => new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 });
const none = () => new Set<string>();
const all = (names: string[]) => new Set(names);

const staged = ({ data }: RemoteRig, text: string): string => {
  mkdirSync(join(data, "spool"), { recursive: true });
  const path = join(data, "spool", `${Math.random()}`);
  writeFileSync(path, text);
  return path;
};
const textOf = async (rig: RemoteRig, name: string): Promise<string> => (await rig.blobs.file(name)).text();

describeS3("blobs in S3, and in the cache", (program) => {
  const open = async () => openRemote(await startS3(program));

  test("are there before a write or an adoption resolves, and are then read from the cache", async () => {
    const rig = await open();
    const { blobs } = rig;
    const written = await blobs.write(bytesOf("writ"), bytesOf("ten"));
    expect(written).toBe(nameOfText("written"));
    const file = staged(rig, "adopted");
    const adopted = await blobs.adopt(file, nameOfText("adopted"));
    expect(await rig.inS3()).toEqual([written, adopted].sort());
    expect(rig.inCache()).toEqual([written, adopted].sort());
    expect(rig.inFiles()).toEqual([]);
    expect(rig.asked()).toEqual([`PUT ${written.slice(0, 2)}${written.slice(2)}`, `PUT ${adopted}`]);
    expect(Buffer.from(await blobs.read(written)).toString()).toBe("written");
    expect(await textOf(rig, adopted)).toBe("adopted");
    expect(rig.asked()).toEqual([]);
    expect(blobs.counts).toEqual({ hits: 2, misses: 0 });
  });

  test("what was stored a moment ago is not stored again; what was stored before is, so that it is young", async () => {
    const rig = await open();
    const name = await rig.blobs.write(bytesOf("again"));
    rig.asked();
    const file = staged(rig, "again");
    await rig.blobs.adopt(file, name);
    await rig.again().write(bytesOf("again"));
    expect(rig.asked()).toEqual([]);
    // It belongs to the caller.
    expect(readFileSync(file, "utf8")).toBe("again");
    rig.runtime.advance(16 * 60_000);
    await rig.blobs.adopt(file, name);
    expect(rig.asked()).toEqual([`PUT ${name}`]);
    expect(rig.inCache()).toEqual([name]);
  });

  test("a write that fails is an error that passes, and leaves nothing", async () => {
    const rig = await open();
    rig.s3.interfere(down);
    const file = staged(rig, "two");
    for (const work of [() => rig.blobs.write(bytesOf("one")), () => rig.blobs.adopt(file, nameOfText("two"))]) {
      expect(isUnavailable(await work().catch((error) => error))).toBe(true);
    }
    expect([rig.inCache(), rig.inFiles(), await rig.inS3()]).toEqual([[], [], []]);
  });

  test("readers of a blob that is not here share one download, and never see other bytes", async () => {
    const rig = await open();
    const name = await rig.blobs.write(bytesOf("shared"));
    await rig.blobs.cache.clear();
    rig.asked();
    const texts = await Promise.all([1, 2, 3].map(() => textOf(rig, name)));
    expect(texts).toEqual(["shared", "shared", "shared"]);
    expect(rig.asked()).toEqual([`GET ${name}`]);
    expect(rig.blobs.counts).toMatchObject({ misses: 3 });

    await rig.blobs.cache.clear();
    await rig.s3.direct.write(keyOf(name), "forged");
    const { read, file, lend } = rig.blobs;
    for (const work of [read, file, (blob: string) => lend(blob, join(rig.data, "lent"))]) {
      await expect(work(name)).rejects.toBeInstanceOf(DamagedBlob);
    }
    expect(rig.inCache()).toEqual([]);
    expect(rig.blobs.s3.failure()).toBeUndefined();
  });

  test("what is damaged in one place comes from another, and a file is written anew", async () => {
    const rig = await open();
    const { blobs } = rig;
    const name = await blobs.write(bytesOf("three copies"));
    await blobs.files.write(bytesOf("three copies"));
    const [file, cached] = [blobs.files.localBlobPath(name), blobs.cache.localBlobPath(name)];
    const lent = async (): Promise<string> => {
      const path = join(rig.data, `lent-${Math.random()}`);
      await blobs.lend(name, path);
      return readFileSync(path, "utf8");
    };
    // From the cache.
    writeFileSync(file, "damaged");
    expect(await lent()).toBe("three copies");
    expect(await textOf(rig, name)).toBe("three copies");
    expect(readFileSync(file, "utf8")).toBe("three copies");
    // From S3.
    for (const path of [file, cached]) writeFileSync(path, "three copieS");
    expect(await lent()).toBe("three copies");
    rig.s3.interfere(down);
    expect(isUnavailable(await blobs.read(name).catch((error) => error))).toBe(true);
    rig.s3.interfere(undefined);
    rig.runtime.advance(10_000);
    expect(Buffer.from(await blobs.read(name)).toString()).toBe("three copies");
    for (const path of [file, cached]) expect(readFileSync(path, "utf8")).toBe("three copies");
    // The file, while S3 has other bytes.
    rmSync(cached);
    await rig.s3.direct.write(keyOf(name), "");
    expect(await textOf(rig, name)).toBe("three copies");
    expect(await blobs.examine(name)).toBe(true);
    // Nowhere.
    writeFileSync(file, "");
    for (const work of [() => blobs.read(name), () => blobs.examine(name), lent]) {
      await expect(work()).rejects.toBeInstanceOf(DamagedBlob);
    }
    await rig.s3.direct.delete(keyOf(name));
    await expect(blobs.read(name)).rejects.toBeInstanceOf(DamagedBlob);
    await expect(lent()).rejects.toBeInstanceOf(DamagedBlob);
  });

  test("a damaged copy of what was stored a moment ago is not taken for what arrives", async () => {
    const rig = await open();
    const name = await rig.blobs.write(bytesOf("again"));
    await rig.s3.direct.write(keyOf(name), "aGain");
    for (const arrive of [() => rig.blobs.write(bytesOf("again")), () => rig.blobs.adopt(staged(rig, "again"), name)]) {
      writeFileSync(rig.blobs.cache.localBlobPath(name), "agai");
      rig.asked();
      await arrive();
      expect(rig.asked()).toEqual([`PUT ${name}`]);
      expect(await rig.s3.direct.file(keyOf(name)).text()).toBe("again");
      expect(await textOf(rig, name)).toBe("again");
    }
  });

  test("a blob that is nowhere is a file that is missing", async () => {
    const { blobs } = await open();
    expect(await (await blobs.file(nameOfText("nothing"))).exists()).toBe(false);
    await expect(blobs.read(nameOfText("nothing"))).rejects.toMatchObject({ code: "ENOENT" });
    await expect(blobs.lend(nameOfText("nothing"), "/nowhere")).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("with S3 down, what is in the cache or still a file is read, and the rest passes", async () => {
    const rig = await open();
    const cached = await rig.blobs.write(bytesOf("cached"));
    const gone = await rig.blobs.write(bytesOf("elsewhere"));
    await rig.blobs.cache.drop(gone);
    const file = await openBlobs(join(rig.data, "blobs"), rig.runtime).write(bytesOf("a file from before"));
    rig.s3.interfere(down);
    expect(await textOf(rig, cached)).toBe("cached");
    expect(await textOf(rig, file)).toBe("a file from before");
    expect(isUnavailable(await rig.blobs.file(gone).catch((error) => error))).toBe(true);
  });

  test("a file is lent as a link or a download, without filling the cache", async () => {
    const rig = await open();
    const cached = await rig.blobs.write(bytesOf("cached"));
    const far = await rig.blobs.write(bytesOf("far"));
    await rig.blobs.cache.drop(far);
    for (const [name, text] of [
      [cached, "cached"],
      [far, "far"],
    ] as const) {
      const path = join(rig.data, `lent-${text}`);
      await rig.blobs.lend(name, path);
      expect(readFileSync(path, "utf8")).toBe(text);
    }
    expect(rig.inCache()).toEqual([cached]);
  });

  test("the cache keeps to its bytes, and what was used last", async () => {
    const rig = await open();
    const { blobs, runtime } = rig;
    const text = (n: number) => `${n}`.repeat(100_000);
    const names: string[] = [];
    for (let n = 0; n < 8; n++) {
      names.push(await blobs.write(bytesOf(text(n))));
      runtime.advance(10 * 60_000);
    }
    await blobs.read(names[0] ?? "");
    runtime.advance(10 * 60_000);
    blobs.cache.bound(() => 450_000);
    await blobs.cache.trim();
    expect(rig.inCache()).toEqual([names[0], ...names.slice(5)].map(String).sort());
    expect(blobs.cache.bytes()).toBe(400_000);

    // Another process knows it from the files, and what was used a moment ago stays.
    const other = rig.again();
    other.cache.bound(() => 150_000);
    await other.read(names[6] ?? "");
    const late = await other.write(bytesOf(text(9)));
    await until(() => rig.inCache().length === 2);
    expect(rig.inCache()).toEqual([names[6] ?? "", late].sort());
    expect((await rig.inS3()).length).toBe(9);
  });

  test("the sweep removes old objects and copies that no row names, and nothing else", async () => {
    const rig = await open();
    const { blobs } = rig;
    const kept = await blobs.write(bytesOf("kept"));
    await blobs.write(bytesOf("orphan"));
    const evicted = await blobs.write(bytesOf("evicted"));
    await blobs.cache.drop(evicted);
    await rig.s3.direct.write("team/blobs/ab/notes.txt", "not ours");
    await rig.s3.direct.write("team/other", "not ours");
    const isNamed = (names: string[]) => new Set(names.filter((name) => name === kept));
    expect(await blobs.sweep(Date.now() - HOUR, isNamed)).toBe(0);
    expect(await blobs.sweep(Date.now() + HOUR, isNamed)).toBe(2);
    expect(await rig.inS3()).toEqual(["abnotes.txt", kept, "owner"].sort());
    expect(await rig.s3.direct.exists("team/other")).toBe(true);
    expect(rig.inCache()).toEqual([kept]);
  });

  test("the sweep leaves a blob that a row names only after the list", async () => {
    const rig = await open();
    const { blobs } = rig;
    const named = await blobs.write(bytesOf("named"));
    let asked = 0;
    // The row commits between the list and the removal.
    expect(
      await blobs.sweep(Date.now() + HOUR, (names) => (names.includes(named) && asked++ > 1 ? all(names) : none())),
    ).toBe(0);
  });

  test("an upload and the removal of the same blob do not cross", async () => {
    const rig = await open();
    const { blobs } = rig;
    const name = await blobs.write(bytesOf("crossing"));
    await blobs.cache.clear();
    const isRemoving = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    rig.s3.interfere((request, forward) => {
      if (request.method !== "DELETE") return undefined;
      isRemoving.resolve();
      return goOn.promise.then(forward);
    });
    rig.asked();
    const sweeping = blobs.sweep(Date.now() + HOUR, none);
    await isRemoving.promise;
    const writing = rig.again().write(bytesOf("crossing"));
    await until(() => rig.inCache().length === 2);
    goOn.resolve();
    expect([await sweeping, await writing]).toEqual([1, name]);
    expect(await rig.inS3()).toContain(name);
    expect(rig.asked().slice(-2)).toEqual([`DELETE ${name}`, `PUT ${name}`]);

    // The other way round: what is being uploaded is not removed.
    await blobs.cache.clear();
    const isStoring = Promise.withResolvers<void>();
    const store = Promise.withResolvers<void>();
    rig.s3.interfere((request, forward) => {
      if (request.method !== "PUT") return undefined;
      isStoring.resolve();
      return store.promise.then(forward);
    });
    const again = blobs.write(bytesOf("crossing"));
    await isStoring.promise;
    expect(await rig.again().sweep(Date.now() + HOUR, none)).toBe(0);
    store.resolve();
    expect(await again).toBe(name);
    expect(await rig.inS3()).toContain(name);
  });

  test("leftovers of processes that ended go, and do not stop a sweep for ever", async () => {
    const rig = await open();
    const { blobs, data } = rig;
    const name = await blobs.write(bytesOf("left"));
    const cache = join(data, "blob-cache");
    const [half, leaving] = ["12", "leaving"].map((end) =>
      join(cache, name.slice(0, 2), `.${name.slice(2)}.${end}`),
    ) as [string, string];
    // Of a process that is no more; the number is larger than any.
    const [present = ""] = (await blobs.cache.onTheWay(name)).match(/\d+-\d+(?=-[0-9a-f]+$)/) ?? [];
    const abandoned = join(cache, name.slice(0, 2), `.${name.slice(2)}.${present.replace(/\d+$/, "99999999")}-ab`);
    const stage = join(cache, ".import-1");
    mkdirSync(stage);
    for (const path of [half, leaving, abandoned, join(stage, "1")]) writeFileSync(path, "");
    expect((await blobs.cache.onTheirWay()).map((path) => path === half)).toEqual([true]);
    const before = (Date.now() - 2 * HOUR) / 1_000;
    for (const path of [half, leaving, stage]) utimesSync(path, before, before);
    expect(await blobs.cache.isLeaving(name)).toBe(false);
    expect(await blobs.sweep(Date.now() + HOUR, none)).toBe(1);
    expect(rig.inCache()).toEqual([]);
    expect(() => statSync(stage)).toThrow();
  });

  test("during a backup, or with S3 down, the sweep removes nothing there", async () => {
    const rig = await open();
    const name = await rig.blobs.write(bytesOf("orphan"));
    const release = claimBlobs(rig.data);
    expect(await rig.blobs.sweep(Date.now() + HOUR, none)).toBeUndefined();
    release?.();
    rig.s3.interfere(down);
    expect(await rig.blobs.sweep(Date.now() + HOUR, none)).toBeUndefined();
    rig.s3.interfere(undefined);
    expect(await rig.inS3()).toEqual([name]);
  });

  test("only one data folder sweeps a place, the one that took it last", async () => {
    const first = await open();
    await first.blobs.write(bytesOf("of the first"));
    expect(await first.blobs.sweep(Date.now(), all)).toBe(0);
    const second = await openRemote(first.s3);
    expect(await second.blobs.sweep(Date.now() + HOUR, none)).toBe(0);
    expect(await second.blobs.isOwner()).toBe(false);
    await second.blobs.own();
    expect(await second.blobs.sweep(Date.now() + HOUR, none)).toBe(1);
    expect(await first.blobs.isOwner()).toBe(false);
  });
});
