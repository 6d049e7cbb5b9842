/**
 * The files and folders that a command line names. Where root named them, root's own process opens them (cli/lender.ts),
 * and follows no link of another user (ownership.ts).
 */
import { constants } from "node:fs";
import { type FileHandle, link, mkdir, open, readdir, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { AppError } from "../base/errors.ts";
import { isMissing } from "../base/files.ts";
import { openedFolderPath, requireUnlinked } from "./ownership.ts";

export type Kind = "file" | "folder" | "other";

export interface Entry {
  name: string;
  kind: Kind;
}

export interface OpenFile {
  readonly size: number;
  /** Epoch ms. */
  readonly modifiedAt: number;
  /** The bytes from `position` on; fewer than `length` at the end of the file alone. */
  read(position: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** A file that is being written, under another name. One of `keep` and `drop` ends it. */
export interface NewFile {
  write(bytes: Uint8Array): Promise<void>;
  /** Gives it its name, durably. @throws AppError conflict if there is a file of that name */
  keep(): Promise<void>;
  drop(): Promise<void>;
}

/** Access to files and folders. All methods reject with errors of the file system. */
export interface NamedFiles {
  getFileKind(path: string): Promise<Kind>;
  /** Lists a folder, sorted by name. The kind of a link is "other". */
  list(path: string): Promise<Entry[]>;
  /** @throws Error for what is no plain file */
  open(path: string): Promise<OpenFile>;
  /** For its owner's eyes alone. @throws AppError conflict if there is a file of that name */
  create(path: string): Promise<NewFile>;
}

/** Bytes that `readPieces` reads at once. */
const PIECE_BYTES = 256 * 1024;

/** The bytes of a file in pieces, to its present end. */
export async function* readPieces(file: Pick<OpenFile, "read">): AsyncGenerator<Uint8Array> {
  for (let position = 0; ; ) {
    const piece = await file.read(position, PIECE_BYTES);
    if (piece.byteLength > 0) yield piece;
    if (piece.byteLength < PIECE_BYTES) return;
    position += piece.byteLength;
  }
}

const getFileKind = (found: { isFile(): boolean; isDirectory(): boolean }): Kind =>
  found.isFile() ? "file" : found.isDirectory() ? "folder" : "other";

async function openFolder(path: string): Promise<FileHandle> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    requireUnlinked(folder.fd, path);
    return folder;
  } catch (error) {
    await folder.close();
    throw error;
  }
}

async function readFully(file: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const buffer = Buffer.allocUnsafe(length);
  let size = 0;
  while (size < length) {
    const { bytesRead } = await file.read(buffer, size, length - size, position + size);
    if (bytesRead === 0) break;
    size += bytesRead;
  }
  return buffer.subarray(0, size);
}

const taken = (path: string) => new AppError("conflict", `${path} exists: name another file`);

/** For root: makes a folder that is missing, for another user who could not. Without a folder above it, it makes none. */
export async function makeFolderFor({ uid, gid }: { uid: number; gid: number }, path: string): Promise<void> {
  const parent = await openFolder(dirname(path)).catch((error) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (!parent) return;
  try {
    // What is in a folder of that user may be replaced between two steps.
    if ((await parent.stat()).uid === uid) return;
    const place = join(openedFolderPath(parent.fd, dirname(path)), basename(path));
    await mkdir(place, { mode: 0o700 });
    const folder = await open(place, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      await folder.chown(uid, gid);
    } finally {
      await folder.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await parent.close();
  }
}

/** Opens the files that this process itself may open. */
export const OWN_FILES: NamedFiles = {
  getFileKind: async (path) => getFileKind(await stat(path)),

  async list(path) {
    const folder = await openFolder(path);
    try {
      const entries = await readdir(openedFolderPath(folder.fd, path), { withFileTypes: true });
      return entries
        .map((entry) => ({ name: entry.name, kind: getFileKind(entry) }))
        .sort((a, b) => (a.name < b.name ? -1 : 1));
    } finally {
      await folder.close();
    }
  },

  async open(path) {
    // A pipe without a writer would keep it waiting.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      requireUnlinked(file.fd, path);
      const found = await file.stat();
      if (!found.isFile()) throw new Error(`${path} is no plain file`);
      return {
        size: found.size,
        modifiedAt: Math.floor(found.mtimeMs),
        read: (position, length) => readFully(file, position, length),
        close: () => file.close(),
      };
    } catch (error) {
      await file.close();
      throw error;
    }
  },

  async create(path) {
    const folder = await openFolder(dirname(path));
    const place = openedFolderPath(folder.fd, dirname(path));
    const named = join(place, basename(path));
    const partial = join(place, `.${basename(path)}.${process.pid}.partial`);
    let file: FileHandle;
    try {
      if (await Bun.file(named).exists()) throw taken(path);
      file = await open(partial, "wx", 0o600);
    } catch (error) {
      await folder.close();
      throw error;
    }
    async function drop(): Promise<void> {
      try {
        await file.close();
        await unlink(partial);
      } finally {
        await folder.close();
      }
    }
    return {
      write: (bytes) => file.writeFile(bytes),
      drop,
      async keep() {
        try {
          await file.sync();
          await link(partial, named).catch((error) => {
            throw error.code === "EEXIST" ? taken(path) : error;
          });
          await folder.sync();
        } finally {
          await drop();
        }
      },
    };
  },
};
