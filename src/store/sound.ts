/**
 * Whether the file of a blob has the bytes of its name. A disk loses bits and whoever looks after it truncates files, so a
 * file is hashed before it is served, and before it is taken for a copy of what arrives.
 *
 * A large file that was read is remembered by what `stat` tells of it, whose change time no program can set; not one that
 * has just changed, since another change within the same tick of the file system's clock would not show.
 */
import type { Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import { isMissing } from "../base/files.ts";
import type { Runtime } from "../base/runtime.ts";

const PIECE_BYTES = 256 * 1024;
/** Smaller files are hashed each time: at 1.4 GB/s that costs less than to serve them. */
const REMEMBERED_BYTES = 256 * 1024;
const MOST_REMEMBERED = 10_000;
/** A disk forgets, too. */
const REMEMBERED_MS = 3_600_000;
/** Longer than a tick of any file system. */
const TICK_MS = 2_000;

/** The bytes of a blob are not those of its name, and no copy is at hand: a fault of the store, for whoever asked. */
export class DamagedBlob extends Error {
  override readonly name = "DamagedBlob";
  /** Code in the manner of a system error; isDamagedBlobError knows the error by it when a parser throws it on. */
  readonly code = "EDAMAGED";

  constructor(readonly blob: string) {
    super(`the blob ${blob} has other bytes, and there is no other copy`);
  }
}

/** Error codes of damage: of DamagedBlob, a place of the disk, the rights of one file, and a path that is no file. */
const DAMAGE = new Set(["EDAMAGED", "EIO", "EACCES", "EISDIR", "ELOOP"]);

/** True for an error that one blob is damaged, in one place at least; others may be well. */
export const isDamagedBlobError = (error: unknown): boolean => DAMAGE.has((error as NodeJS.ErrnoException)?.code ?? "");

/** Handler for `catch` that treats a damaged file like a missing one. @throws any other error */
export function ignoreDamagedBlob(error: unknown): undefined {
  if (!isDamagedBlobError(error)) throw error;
}

/** Calls `take` with the bytes of a file in pieces, which are valid during the call. @throws errors of the file system */
export async function forEachFilePiece(path: string, take: (piece: Uint8Array) => void): Promise<void> {
  const file = await open(path, "r");
  try {
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    for (;;) {
      const { bytesRead } = await file.read(piece, 0, piece.length);
      if (bytesRead === 0) return;
      take(piece.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}

const fileIdentity = ({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string => [dev, ino, size, mtimeMs, ctimeMs].join();

export function createBlobSoundnessCheck({ now }: Pick<Runtime, "now">) {
  /** When they were read, by path and identity; the oldest first. */
  const remembered = new Map<string, number>();

  function remember(key: string): void {
    remembered.set(key, now());
    for (const oldest of remembered.keys()) {
      if (remembered.size <= MOST_REMEMBERED) return;
      remembered.delete(oldest);
    }
  }

  /**
   * True for a file with the bytes of the blob; false for none. @throws DamagedBlob for other bytes, and for what is no
   * file; errors of the file system
   */
  return async function isSound(path: string, name: string): Promise<boolean> {
    try {
      const found = await stat(path);
      if (!found.isFile()) throw new DamagedBlob(name);
      const key = `${path} ${fileIdentity(found)}`;
      const readAt = remembered.get(key);
      if (readAt !== undefined && Math.abs(now() - readAt) < REMEMBERED_MS) return true;
      remembered.delete(key);
      const hash = new Bun.CryptoHasher("sha256");
      await forEachFilePiece(path, (piece) => hash.update(piece));
      if (hash.digest("hex") !== name) throw new DamagedBlob(name);
      if (found.size >= REMEMBERED_BYTES && Math.abs(now() - found.ctimeMs) > TICK_MS) remember(key);
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  };
}
