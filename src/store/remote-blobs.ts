/**
 * Blobs in S3, read through a cache in the data folder. Blobs that were in the folder before S3 was used stay files there until
 * `mailroom blobs move` moves them, and are read first. If a blob is damaged in one place, the next place gives it, and a file
 * of the folder is then written anew.
 *
 * Invariants: a blob is in S3, verified, before `write` or `adopt` resolves. The sweep removes no object that a writer counts
 * on: a writer counts on one that it stored less than FRESH_MS ago, and else stores it again, which makes it younger than what
 * the sweep removes; blob-cache.ts keeps the two from crossing.
 */
import { copyFile, link, rename, unlink, utimes } from "node:fs/promises";
import { isUnavailable } from "../base/errors.ts";
import { isMissing } from "../base/files.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { openBlobCache } from "./blob-cache.ts";
import { type BlobMark, readBlobMark, writeBlobMark } from "./blob-mark.ts";
import { type Blobs, type FileBlobs, hashPieces, writeFileAt } from "./blobs.ts";
import { claimBlobs } from "./claim.ts";
import type { S3Blobs } from "./s3-blobs.ts";

/** Much less than the hour after which the sweep removes what no row names. */
const FRESH_MS = 15 * 60_000;
/** How often to look whether a blob is still being removed, ms. */
const POLL_MS = 100;
/** Object with the id of the data folder that sweeps. */
const OWNER = "owner";

export type RemoteBlobs = ReturnType<typeof openRemoteBlobs>;

/** Blobs in S3 as far as they concern the parser pool and backups, which deal with files. */
export type Lender = Pick<RemoteBlobs, "adopt" | "lend">;

export function openRemoteBlobs({
  data,
  files,
  s3,
  runtime,
}: {
  /** The data folder. */
  data: string;
  files: FileBlobs;
  s3: S3Blobs;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
}) {
  const cache = openBlobCache(data, runtime);
  if (readBlobMark(data) === undefined) {
    const id = Buffer.from(runtime.randomBytes(16)).toString("hex");
    writeBlobMark(data, { place: s3.place, target: "s3", id });
  }
  /** Read each time: a move by another process changes it. */
  const mark = (): BlobMark => readBlobMark(data) ?? { place: s3.place, target: "s3", id: "" };
  const counts = { hits: 0, misses: 0 };

  const { isSound } = files;

  /* Writing. */

  async function isFresh(name: string): Promise<boolean> {
    const cached = await cache.use(name);
    if (!cached || Math.abs(runtime.now() - cached.storedAt) >= FRESH_MS || mark().target === "files") return false;
    return isSound(cached.path, name).catch(() => false);
  }

  /** Stores a durable file that is on its way, and takes it over. */
  async function store(name: string, path: string): Promise<void> {
    try {
      while (await cache.isLeaving(name)) await pause(runtime, POLL_MS);
      if (mark().target === "files") {
        await files.adopt(path, name);
        return;
      }
      const now = runtime.now();
      if (!(await s3.put(name, path))) throw new Error(`the file of the blob ${name} has other bytes`);
      await cache.take(name, path, now);
    } finally {
      await unlink(path).catch(() => {});
    }
  }

  async function adopt(file: string, name: string): Promise<string> {
    if (await isFresh(name)) return name;
    const path = await cache.onTheWay(name);
    const now = new Date(runtime.now());
    await utimes(file, now, now);
    await rename(file, path);
    await store(name, path);
    return name;
  }

  async function write(...pieces: readonly Uint8Array[]): Promise<string> {
    const name = hashPieces(pieces);
    if (await isFresh(name)) return name;
    const path = await cache.onTheWay(name);
    try {
      await writeFileAt(path, pieces, new Date(runtime.now()));
    } catch (error) {
      await unlink(path).catch(() => {});
      throw error;
    }
    await store(name, path);
    return name;
  }

  const keep = (...pieces: readonly Uint8Array[]): Promise<string> =>
    write(...pieces).catch((error) => {
      if (isUnavailable(error)) return files.write(...pieces);
      throw error;
    });

  /* Reading. */

  const coming = new Map<string, Promise<boolean>>();

  /** Brings a blob into the cache; readers of the same one share it. False if there is no such blob. */
  function bring(name: string): Promise<boolean> {
    const shared = coming.get(name) ?? bringAlone(name).finally(() => coming.delete(name));
    coming.set(name, shared);
    return shared;
  }

  async function bringAlone(name: string): Promise<boolean> {
    const path = await cache.onTheWay(name);
    if (!(await s3.get(name, path))) return false;
    // When it was stored is not known.
    await cache.take(name, path, 0);
    return true;
  }

  /**
   * The sound one of the two files that a blob may have here; undefined if neither is. `fault`: why the first of them that
   * is there is not.
   */
  async function findHere(name: string): Promise<{ path?: string; fault?: unknown }> {
    let fault: unknown;
    for (const path of [files.localBlobPath(name), (await cache.use(name))?.path]) {
      try {
        if (path !== undefined && (await isSound(path, name))) return { path, fault };
      } catch (error) {
        fault ??= error;
      }
    }
    return { fault };
  }

  /** The sound file of a blob; undefined if it is nowhere. @throws as Blobs.file */
  async function locate(name: string): Promise<string | undefined> {
    const local = files.localBlobPath(name);
    for (let isSought = false; ; isSought = true) {
      const { path, fault } = await findHere(name);
      if (path !== undefined && path !== local) {
        if (!isSought) counts.hits++;
        // Without room for it, it stays as it is.
        if (fault !== undefined) await files.write(await Bun.file(path).bytes()).catch(() => {});
      }
      if (path !== undefined) return path;
      if (isSought && fault !== undefined) throw fault;
      if (isSought) return undefined;
      counts.misses++;
      await bring(name);
    }
  }

  /** Calls `use` again if the file moves before it is opened. */
  async function reading<T>(name: string, use: (path: string) => Promise<T>): Promise<T> {
    for (let n = 0; ; n++) {
      try {
        return await use((await locate(name)) ?? files.localBlobPath(name));
      } catch (error) {
        if (!isMissing(error) || n === 2) throw error;
      }
    }
  }

  const linkOrCopy = (from: string, to: string): Promise<void> =>
    link(from, to).catch((error) => {
      if (isMissing(error)) throw error;
      return copyFile(from, to);
    });

  /**
   * Makes a file at `path`, in the data folder, of a blob, for as long as the caller needs it. A blob that is only in S3 does
   * not enter the cache. @throws error ENOENT for a blob that is nowhere; AppError server_error 503
   */
  async function lend(name: string, path: string): Promise<void> {
    const { path: here, fault } = await findHere(name);
    try {
      if (here !== undefined) return await linkOrCopy(here, path);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    if (await s3.get(name, path)) return;
    if (fault !== undefined) throw fault;
    // A move may have brought it back meanwhile.
    await linkOrCopy(files.localBlobPath(name), path);
  }

  async function examine(name: string): Promise<boolean> {
    let fault: unknown;
    const isFile = await isSound(files.localBlobPath(name), name).catch((error) => {
      fault = error;
      return false;
    });
    if (isFile || (await s3.examine(name))) return true;
    if (fault !== undefined) throw fault;
    return false;
  }

  /* Sweeping. */

  /** True for the data folder that sweeps: the first one, or the one that `own` was called for last. */
  async function isOwner(): Promise<boolean> {
    const owner = await s3.readNote(OWNER);
    if (owner === undefined) await own();
    return owner === undefined || owner === mark().id;
  }

  const own = (): Promise<void> => s3.writeNote(OWNER, mark().id);

  async function removeObject(name: string, olderThan: number, isNamed: (names: string[]) => Set<string>) {
    try {
      if (!(await cache.leave(name)) || isNamed([name]).has(name)) return false;
      const object = await s3.stat(name);
      if (!object || !(object.modifiedAt < olderThan)) return false;
      await cache.drop(name);
      await s3.remove(name);
      return true;
    } finally {
      await cache.stay(name);
    }
  }

  /** Sweeps the objects (see Blobs.sweep), a page at a time, so that a backup need not wait for all of them. */
  async function sweepObjects(
    olderThan: number,
    isNamed: (names: string[]) => Set<string>,
  ): Promise<number | undefined> {
    if (mark().place === null || !(await isOwner())) return 0;
    let removed = 0;
    for (let from: string | undefined, isFirst = true; isFirst || from !== undefined; isFirst = false) {
      const release = claimBlobs(data);
      if (!release) return undefined;
      try {
        const { objects, next } = await s3.list(from);
        const old = objects.filter(({ modifiedAt }) => modifiedAt < olderThan).map(({ name }) => name);
        const named = isNamed(old);
        for (const name of old) {
          if (!named.has(name) && (await removeObject(name, olderThan, isNamed))) removed++;
        }
        from = next;
      } finally {
        release();
      }
    }
    return removed;
  }

  return {
    write,
    keep,
    adopt,
    lend,
    locate,
    examine,
    check: files.check,
    file: async (name: string): Promise<Bun.BunFile> => Bun.file((await locate(name)) ?? files.localBlobPath(name)),
    read: (name: string): Promise<Uint8Array> =>
      reading(name, async (path) => new Uint8Array(await Bun.file(path).arrayBuffer())),
    /** Sweeps files, cache and objects (see Blobs.sweep); returns undefined also while S3 is unavailable. */
    async sweep(olderThan: number, isNamed: (names: string[]) => Set<string>): Promise<number | undefined> {
      const removed = await files.sweep(olderThan, isNamed);
      if (removed === undefined) return undefined;
      await cache.sweep(olderThan, isNamed);
      try {
        const more = await sweepObjects(olderThan, isNamed);
        return more === undefined ? undefined : removed + more;
      } catch (error) {
        if (isUnavailable(error)) return undefined;
        throw error;
      }
    },
    s3,
    cache,
    counts,
    mark,
    isOwner,
    own,
    data,
    files,
  } satisfies Blobs & Record<string, unknown>;
}
