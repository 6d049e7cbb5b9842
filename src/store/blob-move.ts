/**
 * Moves the blobs of a data folder to S3, or back into files, while a server runs on it. A move that was cut off continues
 * where it stopped. A blob that is damaged in one place is taken from another. A blob that is damaged or missing in all places
 * is named, and the rest is moved.
 *
 * Invariants: a file is removed only once its object is verified; the mark forgets the place only once every blob that a row
 * names is a file. Blobs that no row names stay where they are, for the sweep.
 */
import { statSync } from "node:fs";
import { readdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { writeBlobMark } from "./blob-mark.ts";
import type { RemoteBlobs } from "./remote-blobs.ts";
import type { S3Blobs, S3Object } from "./s3-blobs.ts";
import { ignoreDamagedBlob } from "./sound.ts";

/** A reader that has found a file opens it within this time, ms. */
const OPENED_MS = 2_000;
const POLL_MS = 200;
/** A row for a blob commits within this time after the blob was stored, ms. */
const NAMED_MS = 3_600_000;
const AT_ONCE = 8;

export interface Moved {
  to: "s3" | "files";
  /** Blobs that are there now, and were not known to be, and their bytes. */
  moved: number;
  bytes: number;
  /** Names of those that have other bytes than they should, or are nowhere, in order. They were left alone. */
  lost: string[];
}

export interface MoveRequest {
  remote: RemoteBlobs;
  /** Returns those of the given names that rows name. */
  isNamed(names: string[]): Set<string>;
  /** Returns all names that rows name. */
  names(): Iterable<string>;
  runtime: Pick<Runtime, "now" | "setTimer">;
  isInterrupted(): boolean;
  onProgress(moved: Moved): void;
}

/** True for a file that is there, with another size than `size`. */
const isOtherSize = (path: string, size: number): boolean =>
  (statSync(path, { throwIfNoEntry: false })?.size ?? size) !== size;

/** The blobs in S3, a page at a time. */
async function* listBlobPages(s3: S3Blobs): AsyncGenerator<S3Object[]> {
  for (let from: string | undefined, isFirst = true; isFirst || from !== undefined; isFirst = false) {
    const { objects, next } = await s3.list(from);
    yield objects;
    from = next;
  }
}

/** Runs `work` for some items at once; stops with the first error, or once `isOver`. */
async function each<T>(items: readonly T[], isOver: () => boolean, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  let failed = false;
  async function run(): Promise<void> {
    for (let next = left.next(); !next.done && !failed && !isOver(); next = left.next()) {
      await work(next.value).catch((error) => {
        failed = true;
        throw error;
      });
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, run));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** The result without the lost blobs that no row names any more. */
const stillNamed = (result: Moved, { isNamed }: MoveRequest): Moved => ({
  ...result,
  lost: [...isNamed(result.lost)].sort(),
});

const interruption = ({ moved }: Moved): Error =>
  new Error(`interrupted after ${moved} files; the same command goes on from there`);

/** @throws AppError server_error 503 when S3 fails; Error when interrupted; errors of the file system */
export async function moveBlobsToS3(request: MoveRequest): Promise<Moved> {
  const { remote, isNamed, names, runtime, isInterrupted, onProgress } = request;
  const { data, files, s3, cache } = remote;
  const result: Moved = { to: "s3", moved: 0, bytes: 0, lost: [] };
  writeBlobMark(data, { ...remote.mark(), place: s3.place, target: "s3" });
  await remote.own();
  const leaving: { path: string; at: number }[] = [];
  const removeOpened = async (until: number): Promise<void> => {
    while (leaving[0] && leaving[0].at <= until) await unlink(leaving.shift()?.path ?? "").catch(() => {});
  };

  async function store(name: string): Promise<void> {
    const path = await remote.locate(name).catch(ignoreDamagedBlob);
    if (path !== undefined && (await s3.put(name, path).catch(ignoreDamagedBlob))) {
      leaving.push({ path: files.localBlobPath(name), at: runtime.now() });
      result.moved++;
      result.bytes += Bun.file(path).size;
    } else result.lost.push(name);
    onProgress(result);
  }

  for (const shard of await readdir(join(data, "blobs"))) {
    if (!/^[0-9a-f]{2}$/.test(shard)) continue;
    const entries = await readdir(join(data, "blobs", shard));
    const found = entries.map((entry) => shard + entry).filter((name) => /^[0-9a-f]{64}$/.test(name));
    await each([...isNamed(found)], isInterrupted, store);
    await removeOpened(runtime.now() - OPENED_MS);
    if (isInterrupted()) break;
  }
  if (!isInterrupted()) {
    const missing = new Set(names());
    for await (const objects of listBlobPages(s3)) {
      for (const { name, size } of objects) if (!isOtherSize(cache.localBlobPath(name), size)) missing.delete(name);
    }
    for (const name of result.lost) missing.delete(name);
    await each([...missing], isInterrupted, store);
  }
  if (leaving.length > 0) await pause(runtime, OPENED_MS);
  await removeOpened(Number.POSITIVE_INFINITY);
  if (isInterrupted()) throw interruption(result);
  return stillNamed(result, request);
}

/** @throws as moveBlobsToS3 */
export async function moveBlobsToFiles(request: MoveRequest): Promise<Moved> {
  const { remote, isNamed, names, runtime, isInterrupted, onProgress } = request;
  const { data, files, s3, cache } = remote;
  const result: Moved = { to: "files", moved: 0, bytes: 0, lost: [] };
  if (remote.mark().place === null) return result;
  writeBlobMark(data, { ...remote.mark(), target: "files" });
  // Uploads that began before end in S3, and are listed then.
  for (let before = await cache.onTheirWay(); before.length > 0 && !isInterrupted(); ) {
    await pause(runtime, POLL_MS);
    const now = new Set(await cache.onTheirWay());
    before = before.filter((path) => now.has(path));
  }

  const isSound = (path: string, name: string) => files.isSound(path, name).catch(ignoreDamagedBlob);

  /** False if there is no sound copy. */
  async function bring(name: string): Promise<boolean> {
    if (await isSound(files.localBlobPath(name), name)) return true;
    const path = await cache.onTheWay(name);
    try {
      // Not a copy of the cache, if possible: what S3 has damaged is found.
      if (await s3.get(name, path).catch(ignoreDamagedBlob)) await files.adopt(path, name);
      else if (await isSound(cache.localBlobPath(name), name))
        await files.write(await Bun.file(cache.localBlobPath(name)).bytes());
      else return false;
    } finally {
      await unlink(path).catch(() => {});
    }
    result.moved++;
    result.bytes += Bun.file(files.localBlobPath(name)).size;
    onProgress(result);
    return true;
  }

  for await (const objects of listBlobPages(s3)) {
    const named = isNamed(objects.map(({ name }) => name));
    const young = runtime.now() - NAMED_MS;
    const wanted = objects.filter(({ name, modifiedAt }) => named.has(name) || modifiedAt > young);
    await each(wanted, isInterrupted, async ({ name }) => void (await bring(name)));
    if (isInterrupted()) break;
  }
  await each([...names()], isInterrupted, async (name) => {
    if (!(await bring(name))) result.lost.push(name);
  });
  if (isInterrupted()) throw interruption(result);
  const moved = stillNamed(result, request);
  if (moved.lost.length > 0) return moved;
  writeBlobMark(data, { ...remote.mark(), place: null });
  await pause(runtime, OPENED_MS);
  await cache.clear();
  return result;
}
