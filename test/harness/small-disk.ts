/** A small disk that a test can fill: a file system in memory, of a given size. Needs the right to mount. */
import { closeSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { atEndOfFile } from "./end.ts";
import { temporaryFolder } from "./folder.ts";

export const MB = 1_000_000;

export interface SmallDisk {
  /** The path of its mount. */
  readonly path: string;
  /** Fills it but for `spare` bytes. */
  fill(spare?: number): void;
  /** Frees the space that `fill` took. */
  empty(): void;
  /** Makes it larger. */
  grow(bytes: number): void;
}

const mounted: string[] = [];
atEndOfFile(() => {
  for (const path of mounted.splice(0)) Bun.spawnSync(["umount", "--lazy", path]);
});

const mount = (...args: string[]): boolean => Bun.spawnSync(["mount", ...args]).exitCode === 0;

/** The reason why tests that need one are skipped, for their titles. */
export const diskNote = mountable() ? "" : " (skipped: no right to mount a small disk)";

function mountable(): boolean {
  return Bun.spawnSync(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).exitCode === 0;
}

/** @throws Error when it cannot be mounted */
export function mountDisk(bytes: number): SmallDisk {
  const path = join(temporaryFolder(), "disk");
  mkdirSync(path);
  if (!mount("-t", "tmpfs", "-o", `size=${bytes}`, "none", path)) throw new Error("no disk could be mounted");
  mounted.push(path);
  const filler = join(path, "filler");
  return {
    path,
    fill(spare = 0) {
      const file = openSync(filler, "w");
      const { bavail, bsize } = statfsSync(path);
      try {
        const piece = Buffer.alloc(bsize);
        // Writes until there is no room. A file that is written meanwhile may take free space.
        for (let left = bavail * bsize - spare; left > 0; left -= bsize) writeSync(file, piece);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(filler, { force: true }),
    grow(larger) {
      if (!mount("-o", `remount,size=${larger}`, path)) throw new Error("the disk could not be made larger");
    },
  };
}
