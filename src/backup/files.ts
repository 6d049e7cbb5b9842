/**
 * Durable files of any size: written in pieces under another name, fsynced, then renamed. Only their owner may read
 * them. The owner is that of their folder, so that the server can read the files of a command that root ran; links that
 * this owner put there lead root nowhere (store/ownership.ts).
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { giveToOwner, refuseLinks, requirePlace } from "../store/ownership.ts";

const PIECE_BYTES = 1024 * 1024;
/** Suffix of files being written. After a crash they may be removed. */
const UNFINISHED = ".unfinished";

export interface Hashed {
  /** Hex. */
  sha256: string;
  /** Bytes. */
  size: number;
}

/** True for the error that a file or folder does not exist. */
export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException)?.code === "ENOENT";

/** Makes a folder in an existing one, unless it exists. Not fsynced. */
export async function makeFolder(path: string): Promise<void> {
  const made = await mkdir(path, { mode: 0o700 }).then(
    () => true,
    (error) => {
      if (error.code === "EEXIST") return false;
      throw error;
    },
  );
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    requirePlace(handle.fd, path);
    if (made) giveToOwner(handle.fd, path);
  } finally {
    await handle.close();
  }
}

/** Makes the missing folders between `root`, which exists, and `path` in it. */
export async function makeFolders(root: string, path: string): Promise<void> {
  if (path === root || path === dirname(path)) return;
  await makeFolders(root, dirname(path));
  await makeFolder(path);
}

/** Makes a folder's entries survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes a file durable and gives it to the owner of its folder. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    requirePlace(handle.fd, path);
    await handle.sync();
    giveToOwner(handle.fd, path);
  } finally {
    await handle.close();
  }
}

/** Names in a folder, in order; none when it does not exist. */
export async function namesIn(folder: string): Promise<string[]> {
  refuseLinks(folder);
  try {
    return (await readdir(folder)).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Paths of the regular files below a folder, relative to it, in order. Links are not followed. */
export async function filesBelow(folder: string, skip: (path: string) => boolean = () => false): Promise<string[]> {
  const found: string[] = [];
  async function walk(below: string): Promise<void> {
    const entries = await readdir(join(folder, below), { withFileTypes: true }).catch((error) => {
      // Removed meanwhile.
      if (isMissing(error)) return [];
      throw error;
    });
    for (const entry of entries) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (skip(path)) continue;
      if (entry.isDirectory()) await walk(path);
      else if (entry.isFile()) found.push(path);
    }
  }
  await walk("");
  return found.sort();
}

/** Reads a file in pieces. */
async function readPieces(path: string, take: (piece: Uint8Array) => Promise<void> | void): Promise<Hashed> {
  const handle = await open(path, "r");
  try {
    requirePlace(handle.fd, path);
    const hash = createHash("sha256");
    const buffer = new Uint8Array(PIECE_BYTES);
    let size = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, PIECE_BYTES, size);
      if (bytesRead === 0) return { sha256: hash.digest("hex"), size };
      const piece = buffer.subarray(0, bytesRead);
      hash.update(piece);
      size += bytesRead;
      await take(piece);
    }
  } finally {
    await handle.close();
  }
}

/** @throws errors of the file system */
export const hashFile = (path: string): Promise<Hashed> => readPieces(path, () => {});

/** Writes a file by `write`. It appears whole and durable when `isGood` accepts the result; otherwise not at all. */
async function writeFileWhole<T>(
  path: string,
  write: (handle: FileHandle) => Promise<T>,
  isGood: (result: T) => boolean = () => true,
): Promise<T> {
  const unfinished = `${path}${UNFINISHED}`;
  await rm(unfinished, { force: true });
  const handle = await open(unfinished, "wx", 0o600);
  let renamed = false;
  try {
    requirePlace(handle.fd, unfinished);
    const result = await write(handle);
    await handle.sync();
    if (isGood(result)) {
      giveToOwner(handle.fd, unfinished);
      await rename(unfinished, path);
      renamed = true;
    }
    return result;
  } finally {
    await handle.close();
    if (!renamed) await rm(unfinished, { force: true }).catch(() => {});
  }
}

/**
 * Copies a file. With `expected`, the copy appears only if the bytes read have that hash. Its name is durable once its
 * folder is fsynced.
 */
export const copyFile = (from: string, to: string, expected?: string): Promise<Hashed> =>
  writeFileWhole(
    to,
    (handle) => readPieces(from, async (piece) => void (await handle.writeFile(piece))),
    ({ sha256 }) => expected === undefined || sha256 === expected,
  );

/** Writes or replaces a text file, durably with its folder. */
export async function writeText(path: string, text: string): Promise<void> {
  await writeFileWhole(path, (handle) => handle.writeFile(text));
  await syncFolder(dirname(path));
}

/** Files read or written at once, so that their fsyncs share the disk's. */
const CONCURRENCY = 8;

/** Does `work` for each item, CONCURRENCY at once. When one throws, the others under way end first. */
export async function sideBySide<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  let failed = false;
  async function runSome(): Promise<void> {
    for (let next = left.next(); !next.done && !failed; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: CONCURRENCY }, runSome));
  left.return?.();
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}
