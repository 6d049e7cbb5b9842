import { expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Moved, moveBlobsToFiles, moveBlobsToS3 } from "../../src/store/blob-move.ts";
import { openBlobs } from "../../src/store/blobs.ts";
import { bytesOf, keyOf, openRemote, type RemoteRig } from "../harness/peers/remote-blobs.ts";
import { describeS3, type S3Program, startS3 } from "../harness/peers/s3.ts";

/** Files from before, of which rows name all but the last. */
async function withFilesIn(program: S3Program, texts: string[]) {
  const rig = await openRemote(await startS3(program));
  const files = openBlobs(join(rig.data, "blobs"), rig.runtime);
  const names: string[] = [];
  for (const text of texts) names.push(await files.write(bytesOf(text)));
  const named = new Set(names.slice(0, -1));
  return { ...rig, files, names, move: requestOf(rig, named) };
}

const requestOf = ({ blobs, runtime }: RemoteRig, named: ReadonlySet<string>) => {
  const told: number[] = [];
  return {
    told,
    remote: blobs,
    isNamed: (some: string[]) => new Set(some.filter((name) => named.has(name))),
    names: () => named,
    runtime,
    isInterrupted: () => false,
    onProgress: ({ moved }: Moved) => void told.push(moved),
  };
};

describeS3("blobs are moved", (program) => {
  const withFiles = (...texts: string[]) => withFilesIn(program, texts);

  test("to S3: those that rows name, and a damaged file is left where it is", async () => {
    const { move, files, names, inFiles, inS3, blobs } = await withFiles("one", "two", "damaged", "unnamed");
    writeFileSync(files.localBlobPath(names[2] ?? ""), "other bytes");
    expect(await moveBlobsToS3(move)).toEqual({ to: "s3", moved: 2, bytes: 6, lost: [names[2] ?? ""] });
    expect(inFiles()).toEqual(names.slice(2).sort());
    expect(await inS3()).toEqual(["owner", ...names.slice(0, 2)].sort());
    expect(move.told.at(-1)).toBe(2);
    expect(await blobs.isOwner()).toBe(true);
  });

  test("to files: one that S3 has lost, or has damaged, is told, and the place stays known", async () => {
    const { move, names, inFiles, s3, blobs } = await withFiles("one", "two", "three", "unnamed");
    await moveBlobsToS3(move);
    await s3.direct.delete(keyOf(names[1] ?? ""));
    expect(await moveBlobsToFiles(move)).toMatchObject({ moved: 2, lost: [names[1] ?? ""] });
    expect(blobs.mark()).toMatchObject({ target: "files", place: blobs.s3.place });
    expect(inFiles()).toEqual([names[0] ?? "", names[2] ?? "", names[3] ?? ""].sort());

    // It is found again, elsewhere.
    await s3.direct.write(keyOf(names[1] ?? ""), "two");
    expect(await moveBlobsToFiles(move)).toMatchObject({ moved: 1, lost: [] });
    expect(blobs.mark()).toMatchObject({ target: "files", place: null });
    expect(await moveBlobsToFiles(move)).toMatchObject({ moved: 0, lost: [] });
  });

  test("to files: objects with other bytes come from the cache, or are named; the rest comes, and so at the next time", async () => {
    const { move, names, inFiles, s3, blobs } = await withFiles("one", "two", "three", "four", "unnamed");
    const [one = "", two = "", three = "", four = ""] = names;
    await moveBlobsToS3(move);
    // Read before, so that there is a copy.
    await blobs.read(two);
    for (const [name, text] of [
      [one, "onE"],
      [two, ""],
      [three, "three and more"],
    ] as const) {
      await s3.direct.write(keyOf(name), text);
    }
    for (const moved of [2, 0]) {
      expect(await moveBlobsToFiles(move)).toMatchObject({ moved, lost: [one, three].sort() });
      expect(inFiles()).toEqual([two, four, names[4] ?? ""].sort());
      expect(blobs.mark()).toMatchObject({ target: "files", place: blobs.s3.place });
    }
    // A file of an earlier move is damaged; S3 still has it.
    writeFileSync(blobs.files.localBlobPath(four), "fou");
    await s3.direct.write(keyOf(one), "one");
    await s3.direct.write(keyOf(three), "three");
    expect(await moveBlobsToFiles(move)).toMatchObject({ moved: 3, lost: [] });
    expect(Buffer.from(await blobs.files.read(four)).toString()).toBe("four");
    expect(blobs.mark()).toMatchObject({ place: null });
  });

  test("to S3: a damaged file whose object is whole goes, a missing one is named, and what only the cache has is stored", async () => {
    const { move, files, names, inFiles, s3, inS3, blobs } = await withFiles("one", "two", "three", "four", "unnamed");
    const [one = "", two = "", three = "", four = "", unnamed = ""] = names;
    await s3.direct.write(keyOf(one), "one");
    await s3.direct.write(keyOf(two), "tw");
    writeFileSync(files.localBlobPath(one), "damaged");
    expect(await moveBlobsToS3(move)).toMatchObject({ moved: 4, lost: [] });
    expect(await s3.direct.file(keyOf(two)).text()).toBe("two");
    expect(inFiles()).toEqual([unnamed]);

    await blobs.read(one);
    await blobs.read(two);
    await s3.direct.write(keyOf(one), "");
    for (const name of [two, three]) await s3.direct.delete(keyOf(name));
    expect(await moveBlobsToS3(move)).toEqual({ to: "s3", moved: 2, bytes: 6, lost: [three] });
    expect(await inS3()).toEqual(["owner", one, two, four].sort());
    expect(await s3.direct.file(keyOf(one)).text()).toBe("one");
  });

  test("a file on a disk that fails is named, and the rest is moved", async () => {
    const { move, files, names, inFiles } = await withFiles("one", "two", "unnamed");
    const [one = "", two = "", unnamed = ""] = names;
    rmSync(files.localBlobPath(one));
    mkdirSync(files.localBlobPath(one));
    expect(await moveBlobsToS3(move)).toMatchObject({ moved: 1, lost: [one] });
    expect(await moveBlobsToFiles(move)).toMatchObject({ moved: 1, lost: [one] });
    expect(inFiles()).toEqual([one, two, unnamed].sort());
  });

  test("a move that is interrupted says so, has lost nothing, and goes on", async () => {
    const { move, names, inFiles, inS3, blobs } = await withFiles(
      ...Array.from({ length: 9 }, (_, n) => `${n}`),
      "unnamed",
    );
    const stopping = (most: number) => {
      let moved = 0;
      return { ...move, onProgress: () => void moved++, isInterrupted: () => moved >= most };
    };
    await expect(moveBlobsToS3(stopping(4))).rejects.toThrow(/interrupted after \d files; the same command goes on/);
    const all = new Set([...inFiles(), ...(await inS3())]);
    expect(names.filter((name) => !all.has(name))).toEqual([]);
    expect(await moveBlobsToS3(move)).toMatchObject({ lost: [] });
    expect(inFiles()).toEqual([names.at(-1) ?? ""]);
    await expect(moveBlobsToFiles(stopping(4))).rejects.toThrow(/interrupted/);
    expect(blobs.mark()).toMatchObject({ target: "files", place: blobs.s3.place });
    expect(await moveBlobsToFiles(move)).toMatchObject({ lost: [] });
    expect(inFiles()).toEqual([...names].sort());
  });

  test("a file that is stored during the way back, before a row names it, comes too", async () => {
    const { move, s3, blobs, inFiles } = await withFiles("one", "unnamed");
    await moveBlobsToS3(move);
    const storing = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    s3.interfere((request, forward) => {
      if (request.method !== "PUT") return undefined;
      storing.resolve();
      return goOn.promise.then(forward);
    });
    const writing = blobs.write(bytesOf("arriving"));
    await storing.promise;
    const moving = moveBlobsToFiles(move);
    const early = await Promise.race([moving.then(() => "moved"), Bun.sleep(50).then(() => "waits")]);
    expect(early).toBe("waits");
    goOn.resolve();
    const name = await writing;
    expect(await moving).toMatchObject({ moved: 2, lost: [] });
    expect(inFiles()).toContain(name);
    expect(await blobs.write(bytesOf("after"))).toBeString();
    expect(inFiles()).toHaveLength(4);
  });
});
