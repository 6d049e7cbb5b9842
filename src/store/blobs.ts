/**
 * Content-addressed files: `blobs/ab/cdef…`, named by the SHA-256 of their bytes. A blob is on disk and fsynced before
 * the row that names it commits. The sweep removes a blob without a row once it is so old that no filing in progress
 * can still name it. A file with other bytes than those of its name is never read, and a write of its blob replaces it.
 */
import { mkdirSync } from "node:fs";
import { link, mkdir, open, readdir, rename, stat, unlink, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isMissing, syncFolder } from "../base/files.ts";
import type { Runtime } from "../base/runtime.ts";
import { claimBlobs } from "./claim.ts";
import { createBlobSoundnessCheck, DamagedBlob } from "./sound.ts";

/** Blobs in the data folder, or in S3 with a cache there (stored-blobs.ts). */
export interface Blobs {
  /**
   * Writes the bytes, which may come in pieces, durably and returns their name, SHA-256 in hex. The same bytes again
   * cost no second blob. @throws AppError server_error 503; errors of the file system
   */
  write(...pieces: readonly Uint8Array[]): Promise<string>;
  /**
   * Writes the bytes as `write` does, but into a file of the data folder while S3 fails: for background work, whose bytes must
   * not be lost.
   * @throws errors of the file system
   */
  keep(...pieces: readonly Uint8Array[]): Promise<string>;
  /**
   * Takes over a durable file on the same file system, by moving it here. `name`: its SHA-256 in hex. If the blob exists
   * already, the file stays where it is. @throws as write
   */
  adopt(file: string, name: string): Promise<string>;
  /** Checks for free space by writing and removing a file. @throws file system errors */
  check(): Promise<void>;
  /**
   * The file of a blob, for streaming at once. It may be missing. It was read to its end first: a disk that fails is
   * noticed while there is no response yet, which could then only be cut off. @throws DamagedBlob; AppError server_error
   * 503; errors of the file system, of a disk that fails
   */
  file(name: string): Promise<Bun.BunFile>;
  /** Reads a blob whole. @throws as file; errors of the file system */
  read(name: string): Promise<Uint8Array>;
  /**
   * True for a blob that is whole where it is kept, a copy in the cache aside; false for one that is missing. Changes
   * nothing. @throws as file
   */
  examine(name: string): Promise<boolean>;
  /**
   * Removes blobs last written before `olderThan` (epoch ms) that `isNamed` does not return; returns their number.
   * Calls it with one folder of names at a time. During a backup it removes nothing and returns undefined.
   */
  sweep(olderThan: number, isNamed: (names: string[]) => Set<string>): Promise<number | undefined>;
}

export type FileBlobs = ReturnType<typeof openBlobs>;

/** The path of a blob below the folder of blobs. */
export const blobPath = (folder: string, name: string): string => join(folder, name.slice(0, 2), name.slice(2));

/** Size of the file that tests for free space: larger than most attachments. */
const CHECK_BYTES = 256 * 1024;

/** Suffix that the sweep adds to a blob that it is about to remove. */
const LEAVING = ".leaving";

/** SHA-256 in hex. */
export function hashPieces(pieces: readonly Uint8Array[]): string {
  const hash = new Bun.CryptoHasher("sha256");
  for (const piece of pieces) hash.update(piece);
  return hash.digest("hex");
}

/** Writes a new file durably; its name is durable once its folder is. */
export async function writeFileAt(path: string, pieces: readonly Uint8Array[], now: Date): Promise<void> {
  const handle = await open(path, "wx", 0o600);
  try {
    for (const piece of pieces) await handle.appendFile(piece);
    await handle.utimes(now, now);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Blobs in a folder. */
export function openBlobs(folder: string, runtime: Pick<Runtime, "now" | "randomBytes">) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const shardFolder = (name: string): string => join(folder, name.slice(0, 2));
  const localBlobPath = (name: string): string => blobPath(folder, name);
  const isSound = createBlobSoundnessCheck(runtime);

  /** False if the file does not exist. */
  const touch = (path: string, now: Date): Promise<boolean> =>
    utimes(path, now, now).then(
      () => true,
      () => false,
    );

  /** Shards whose own entries are durable. */
  const durableShards = new Set<string>();

  /**
   * Makes the entries of a blob and its shard durable. Needed for a blob that is found, too: another writer, perhaps of
   * another process, may have made the entries a moment ago.
   */
  async function syncEntries(name: string): Promise<void> {
    const shard = shardFolder(name);
    await syncFolder(shard);
    if (durableShards.has(shard)) return;
    await syncFolder(folder);
    durableShards.add(shard);
  }

  /**
   * True for a blob that is there, whole and durable. Protects it from the sweep until the row that names it has committed.
   * One that cannot be read is written anew.
   */
  async function isThere(name: string, now: Date): Promise<boolean> {
    if (!(await touch(localBlobPath(name), now))) return false;
    if (!(await isSound(localBlobPath(name), name).catch(() => false))) return false;
    await syncEntries(name);
    return true;
  }

  async function adopt(file: string, name: string): Promise<string> {
    const now = new Date(runtime.now());
    if (await isThere(name, now)) return name;
    await mkdir(shardFolder(name), { recursive: true, mode: 0o700 });
    await utimes(file, now, now);
    await rename(file, localBlobPath(name));
    await syncEntries(name);
    return name;
  }

  async function write(...pieces: readonly Uint8Array[]): Promise<string> {
    const name = hashPieces(pieces);
    const now = new Date(runtime.now());
    if (await isThere(name, now)) return name;
    await mkdir(shardFolder(name), { recursive: true, mode: 0o700 });
    const temporary = join(shardFolder(name), `.${Buffer.from(runtime.randomBytes(16)).toString("hex")}`);
    try {
      await writeFileAt(temporary, pieces, now);
      await rename(temporary, localBlobPath(name));
    } catch (error) {
      await unlink(temporary).catch(() => {});
      throw error;
    }
    await syncEntries(name);
    return name;
  }

  /**
   * Writes the bytes into a file of the folder `stage`, which is on the same file system; the caller adopts or removes the
   * file. `file` is undefined if the blob exists already. With `alwaysWritten`, the file is always written.
   */
  async function writeStaged(
    pieces: readonly Uint8Array[],
    stage: string,
    { alwaysWritten = false } = {},
  ): Promise<{ name: string; file?: string }> {
    const name = hashPieces(pieces);
    const now = new Date(runtime.now());
    if (!alwaysWritten && (await isThere(name, now))) return { name };
    await mkdir(stage, { recursive: true, mode: 0o700 });
    const file = join(stage, Buffer.from(runtime.randomBytes(16)).toString("hex"));
    await writeFileAt(file, pieces, now);
    return { name, file };
  }

  /** True if the file was last written before `olderThan`; false if it is gone, as one that a `write` has renamed. */
  const isOld = (path: string, olderThan: number): Promise<boolean> =>
    stat(path).then(
      ({ mtimeMs }) => mtimeMs < olderThan,
      (error) => {
        if (isMissing(error)) return false;
        throw error;
      },
    );

  /** Restores a file, unless its blob was written anew. */
  async function putBack(aside: string, path: string): Promise<void> {
    await link(aside, path).catch((error) => {
      if (error.code !== "EEXIST") throw error;
    });
    await unlink(aside);
  }

  /**
   * Renames before removing: a `write` of the same bytes either finds the file gone, or has touched it, and then it is
   * restored.
   */
  async function removeOld(path: string, olderThan: number): Promise<boolean> {
    if (!(await isOld(path, olderThan))) return false;
    const aside = `${path}${LEAVING}`;
    await rename(path, aside);
    if (!(await isOld(aside, olderThan))) {
      await putBack(aside, path);
      return false;
    }
    await unlink(aside);
    return true;
  }

  async function sweepShard(shard: string, olderThan: number, isNamed: (names: string[]) => Set<string>) {
    const entries = await readdir(join(folder, shard));
    const entryBlobName = (entry: string): string =>
      shard + (entry.endsWith(LEAVING) ? entry.slice(0, -LEAVING.length) : entry);
    const named = isNamed(entries.map(entryBlobName));
    let removed = 0;
    for (const entry of entries) {
      const path = join(folder, shard, entry);
      const blob = entryBlobName(entry);
      if (!named.has(blob)) removed += (await removeOld(path, olderThan)) ? 1 : 0;
      // A sweep was cut off before it restored this blob.
      else if (entry.endsWith(LEAVING)) await putBack(path, localBlobPath(blob));
    }
    return removed;
  }

  async function check(): Promise<void> {
    const path = join(folder, ".check");
    try {
      await writeFile(path, new Uint8Array(CHECK_BYTES), { mode: 0o600 });
    } finally {
      await unlink(path).catch(() => {});
    }
  }

  return {
    write,
    keep: write,
    writeStaged,
    adopt,
    check,
    localBlobPath,
    isSound,
    examine: (name: string): Promise<boolean> => isSound(localBlobPath(name), name),
    async file(name: string): Promise<Bun.BunFile> {
      await isSound(localBlobPath(name), name);
      return Bun.file(localBlobPath(name));
    },
    async read(name: string): Promise<Uint8Array> {
      const bytes = await Bun.file(localBlobPath(name)).bytes();
      if (hashPieces([bytes]) !== name) throw new DamagedBlob(name);
      return bytes;
    },
    async sweep(olderThan: number, isNamed: (names: string[]) => Set<string>): Promise<number | undefined> {
      const release = claimBlobs(dirname(folder));
      if (!release) return undefined;
      try {
        let removed = 0;
        for (const shard of await readdir(folder)) {
          if (/^[0-9a-f]{2}$/.test(shard)) removed += await sweepShard(shard, olderThan, isNamed);
        }
        return removed;
      } finally {
        release();
      }
    },
  };
}
