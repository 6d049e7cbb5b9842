/**
 * Durable files of any size: written in pieces under another name, fsynced, then renamed. Only their owner may read
 * them. The owner is that of their folder, so that the server can read the files of a command that root ran; links that
 * this owner put there lead root nowhere (store/ownership.ts).
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isMissing, syncFolder } from "../base/files.ts";
import { giveFileToFolderOwner, refuseForeignLinks, requireUnlinked } from "../store/ownership.ts";

const PIECE_BYTES = 1024 * 1024;
/** Suffix of files being written. After a crash they may be removed. */
const UNFINISHED = ".unfinished";

export interface Hashed {
  /** Hex. */
  sha256: string;
  /** Bytes. */
  size: number;
}

const FULL = new Set(["ENOSPC", "EDQUOT", "SQLITE_FULL"]);

/** True for the error that a disk is full. */
export const isDiskFullError = (error: unknown): boolean => FULL.has((error as NodeJS.ErrnoException)?.code ?? "");

/** Size of a file in bytes; undefined for a missing one. */
export const findFileSize = (path: string): Promise<number | undefined> =>
  stat(path).then(
    ({ size }) => size,
    (error) => {
      if (isMissing(error)) return undefined;
      throw error;
    },
  );

/** Compares a file with what it should be: its hash if it is to be `reread`, else its size, where that is known. */
export async function checkFileState(
  path: string,
  { sha256, size }: { sha256: string; size: number | undefined },
  reread: boolean,
): Promise<"missing" | "damaged" | "whole"> {
  const found = await findFileSize(path);
  if (found === undefined) return "missing";
  const isWhole = reread ? (await hashFile(path)).sha256 === sha256 : found === (size ?? found);
  return isWhole ? "whole" : "damaged";
}

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
    requireUnlinked(handle.fd, path);
    if (made) giveFileToFolderOwner(handle.fd, path);
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

/** Makes the entries of a folder, and of the folders in it, survive a power cut. */
export async function syncTree(path: string): Promise<void> {
  for (const name of await listDirectoryNames(path)) await syncFolder(join(path, name));
  await syncFolder(path);
}

/** Makes a file durable and gives it to the owner of its folder. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    requireUnlinked(handle.fd, path);
    await handle.sync();
    giveFileToFolderOwner(handle.fd, path);
  } finally {
    await handle.close();
  }
}

/** Names in a folder, in order; none when it does not exist. */
export async function listDirectoryNames(folder: string): Promise<string[]> {
  refuseForeignLinks(folder);
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

/** Bytes of a file that is read whole: checksums, and manifests, which list what was lost, 64 digits each. */
const LARGEST_TEXT = 64 * 1024 * 1024;

/** The text of a small file. @throws Error for a large one, and for what is no plain file; errors of the file system */
export async function readSmallFile(path: string): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of readFilePieces(path)) {
    size += piece.length;
    if (size > LARGEST_TEXT) throw new Error(`${basename(path)} is too large`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

/**
 * The bytes of a file in pieces, each of them a buffer of its own. A pipe or a device, which may have no end, is not read.
 * @throws Error for one; errors of the file system
 */
async function* readFilePieces(path: string): AsyncGenerator<Uint8Array> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    requireUnlinked(handle.fd, path);
    if (!(await handle.stat()).isFile()) {
      throw Object.assign(new Error(`${basename(path)} is no plain file`), { code: "EDAMAGED", syscall: "read" });
    }
    for (let position = 0; ; ) {
      const buffer = Buffer.allocUnsafe(PIECE_BYTES);
      const { bytesRead } = await handle.read(buffer, 0, PIECE_BYTES, position);
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

/** Passes pieces on. `hashed` tells their hash and size at the end. */
function hashing(pieces: AsyncIterable<Uint8Array>) {
  const hash = createHash("sha256");
  let size = 0;
  async function* passOn(): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      hash.update(piece);
      size += piece.length;
      yield piece;
    }
  }
  return { pieces: passOn(), hashed: (): Hashed => ({ sha256: hash.digest("hex"), size }) };
}

/** @throws errors of the file system */
export async function hashFile(path: string): Promise<Hashed> {
  const { pieces, hashed } = hashing(readFilePieces(path));
  for await (const _ of pieces);
  return hashed();
}

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
    requireUnlinked(handle.fd, unfinished);
    const result = await write(handle);
    await handle.sync();
    if (isGood(result)) {
      giveFileToFolderOwner(handle.fd, unfinished);
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
    async (handle) => {
      const { pieces, hashed } = hashing(readFilePieces(from));
      for await (const piece of pieces) await handle.writeFile(piece);
      return hashed();
    },
    ({ sha256 }) => expected === undefined || sha256 === expected,
  );

/** Hashes of what was read, and of what was written instead. */
export interface Changed {
  read: Hashed;
  written: Hashed;
}

/** Copies a file like copyFile, but writes what `change` makes of its bytes. The copy appears only if it `isGood`. */
export const copyFileChanged = (
  from: string,
  to: string,
  change: (bytes: ReadableStream<Uint8Array>) => Promise<ReadableStream<Uint8Array>>,
  isGood?: (changed: Changed) => boolean,
): Promise<Changed> =>
  writeFileWhole(
    to,
    async (handle) => {
      const source = hashing(readFilePieces(from));
      const bytes = new ReadableStream<Uint8Array>({
        async pull(controller) {
          const { done, value } = await source.pieces.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
      });
      try {
        const result = hashing(await change(bytes));
        for await (const piece of result.pieces) await handle.writeFile(piece);
        return { read: source.hashed(), written: result.hashed() };
      } finally {
        await source.pieces.return(undefined);
      }
    },
    isGood,
  );

/** Writes or replaces a small file, durably with its folder. */
export async function writeText(path: string, text: string | Uint8Array): Promise<void> {
  await writeFileWhole(path, (handle) => handle.writeFile(text));
  await syncFolder(dirname(path));
}

/** Writes a file whole. Its name is durable once its folder is fsynced. */
export const writeBytes = (path: string, bytes: Uint8Array): Promise<void> =>
  writeFileWhole(path, (handle) => handle.writeFile(bytes));

/** Files read or written at once, so that their fsyncs share the disk's. */
const CONCURRENCY = 8;

/** Does `work` for each item, CONCURRENCY at once. When one throws, the others under way end first. */
export async function runConcurrently<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
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
