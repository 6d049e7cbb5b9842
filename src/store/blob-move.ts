/**
 * Moves the blobs of a data folder to S3, or back into files, while a server runs on it. A move that was cut off goes on
 * where it stopped: what is there already is verified instead of moved.
 *
 * Invariants: a file is removed only once its object is verified; the mark forgets the place only once every blob that a
 * row names is a file. Blobs that no row names stay where they are, for the sweep.
 */
import { readdir, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { writeMark } from "./blob-mark.ts";
import type { RemoteBlobs } from "./remote-blobs.ts";

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
  /** Names of those that have other bytes than they should, or are nowhere. They were left alone. */
  lost: string[];
}

export interface MoveRequest {
  remote: RemoteBlobs;
  /** Those of the given names that rows name. */
  isNamed(names: string[]): Set<string>;
  /** All of them. */
  names(): Iterable<string>;
  runtime: Pick<Runtime, "now" | "setTimer">;
  isInterrupted(): boolean;
  onProgress(moved: Moved): void;
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

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

const interruption = ({ moved }: Moved): Error =>
  new Error(`interrupted after ${moved} files; the same command goes on from there`);

/** @throws AppError server_error 503 when S3 fails; Error when interrupted; errors of the file system */
export async function moveToS3({ remote, isNamed, runtime, isInterrupted, onProgress }: MoveRequest): Promise<Moved> {
  const { data, files, s3 } = remote;
  const result: Moved = { to: "s3", moved: 0, bytes: 0, lost: [] };
  writeMark(data, { ...remote.mark(), place: s3.place, target: "s3" });
  await remote.own();
  const leaving: { path: string; at: number }[] = [];
  const removeOpened = async (until: number): Promise<void> => {
    while (leaving[0] && leaving[0].at <= until) await unlink(leaving.shift()?.path ?? "").catch(() => {});
  };
  for (const shard of await readdir(join(data, "blobs"))) {
    if (!/^[0-9a-f]{2}$/.test(shard)) continue;
    const entries = await readdir(join(data, "blobs", shard));
    const names = entries.map((entry) => shard + entry).filter((name) => /^[0-9a-f]{64}$/.test(name));
    await each([...isNamed(names)], isInterrupted, async (name) => {
      const path = files.pathOf(name);
      const { size } = await stat(path);
      if (await s3.put(name, path, { known: true })) {
        leaving.push({ path, at: runtime.now() });
        result.moved++;
        result.bytes += size;
      } else result.lost.push(name);
      onProgress(result);
    });
    await removeOpened(runtime.now() - OPENED_MS);
    if (isInterrupted()) break;
  }
  if (leaving.length > 0) await pause(runtime, OPENED_MS);
  await removeOpened(Number.POSITIVE_INFINITY);
  if (isInterrupted()) throw interruption(result);
  return result;
}

/** @throws as moveToS3 */
export async function moveToFiles(request: MoveRequest): Promise<Moved> {
  const { remote, isNamed, names, runtime, isInterrupted, onProgress } = request;
  const { data, files, s3, cache } = remote;
  const result: Moved = { to: "files", moved: 0, bytes: 0, lost: [] };
  if (remote.mark().place === null) return result;
  writeMark(data, { ...remote.mark(), target: "files" });
  // Uploads that began before end in S3, and are listed then.
  for (let before = await cache.onTheirWay(); before.length > 0 && !isInterrupted(); ) {
    await pause(runtime, POLL_MS);
    const now = new Set(await cache.onTheirWay());
    before = before.filter((path) => now.has(path));
  }

  async function bring(name: string): Promise<void> {
    if (await isThere(files.pathOf(name))) return;
    const path = await cache.onTheWay(name);
    try {
      // Not a copy of the cache: what comes from there is verified.
      if (!(await s3.get(name, path))) return;
      const { size } = await stat(path);
      await files.adopt(path, name);
      result.moved++;
      result.bytes += size;
      onProgress(result);
    } finally {
      await unlink(path).catch(() => {});
    }
  }

  for (let from: string | undefined, isFirst = true; (isFirst || from) && !isInterrupted(); isFirst = false) {
    const { objects, next } = await s3.list(from);
    const named = isNamed(objects.map(({ name }) => name));
    const young = runtime.now() - NAMED_MS;
    const wanted = objects.filter(({ name, modifiedAt }) => named.has(name) || modifiedAt > young);
    await each(wanted, isInterrupted, ({ name }) => bring(name));
    from = next;
  }
  if (isInterrupted()) throw interruption(result);
  for (const name of names()) if (!(await isThere(files.pathOf(name)))) result.lost.push(name);
  if (result.lost.length > 0) return result;
  writeMark(data, { ...remote.mark(), place: null });
  await pause(runtime, OPENED_MS);
  await cache.clear();
  return result;
}
