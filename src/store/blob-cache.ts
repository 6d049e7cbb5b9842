/**
 * Copies of blobs that are in S3, in `blob-cache/ab/cdef…` of the data folder: those read last, up to a number of bytes.
 * A file has the hash of its name, was last used at its access time, and is in S3 since its modification time at least.
 * Names with a dot before them are files on their way:
 *
 *   .cdef….PROCESS-RANDOM   being uploaded, or downloaded
 *   .cdef….leaving          being removed from S3
 *
 * Server and commands share the folder, so all that they must know of each other is in it.
 */
import { mkdirSync, readlinkSync, statfsSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat, unlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isMissing } from "../base/files.ts";
import type { Runtime } from "../base/runtime.ts";
import { blobPath } from "./blobs.ts";

/** Name of the cache's folder in the data folder. */
export const BLOB_CACHE = "blob-cache";

/** A file that was used a moment ago may be about to be opened. */
const GRACE_MS = 60_000;
/** A file on its way that is older belongs to a process that has ended. */
const STALE_MS = 3_600_000;
/** The cache leaves so much of the disk free, or this share of a small one. */
const SPARE_BYTES = 2_000_000_000;
const SPARE_SHARE = 0.1;
/** Share to which a full cache is cut down. */
const KEPT_SHARE = 0.9;
/** How often the use of a file is noted, ms. */
const NOTED_MS = 30_000;

interface Entry {
  path: string;
  bytes: number;
  usedAt: number;
}

/** The numbers of processes are those of this namespace; other containers may share the folder. */
function namespaceOfProcesses(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  } catch {
    return "0";
  }
}
const NAMESPACE = namespaceOfProcesses();

/** True for a file on its way whose process has ended, as far as its name tells. */
function isAbandoned(entry: string): boolean {
  const [, namespace, number] = /\.(\d+)-(\d+)-[0-9a-f]+$/.exec(entry) ?? [];
  if (namespace !== NAMESPACE) return false;
  try {
    process.kill(Number(number), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

export function openBlobCache(data: string, runtime: Pick<Runtime, "now" | "randomBytes">) {
  const folder = join(data, BLOB_CACHE);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const localBlobPath = (name: string): string => blobPath(folder, name);
  const shardFolder = (name: string): string => join(folder, name.slice(0, 2));
  const leavingMarkerPath = (name: string): string => join(shardFolder(name), `.${name.slice(2)}.leaving`);
  let limit = (): number => Number.POSITIVE_INFINITY;
  /** Bytes, as far as this process knows; undefined before the first look. */
  let known: number | undefined;
  let trimming: Promise<void> | undefined;

  const statIfPresent = (path: string) =>
    stat(path).catch((error) => {
      if (isMissing(error)) return undefined;
      throw error;
    });

  const namesIn = (path: string): Promise<string[]> =>
    readdir(path).catch((error) => {
      if (isMissing(error)) return [];
      throw error;
    });

  async function* shards(): AsyncGenerator<{ shard: string; entries: string[] }> {
    for (const shard of await namesIn(folder)) {
      if (/^[0-9a-f]{2}$/.test(shard)) yield { shard, entries: await namesIn(join(folder, shard)) };
    }
  }

  /** Bytes that the cache may have: fewer than its limit on a disk that is full. */
  function room(used: number): number {
    try {
      const { bavail, blocks, bsize } = statfsSync(folder);
      const spare = Math.min(SPARE_BYTES, blocks * bsize * SPARE_SHARE);
      return Math.min(limit(), Math.max(0, used + bavail * bsize - spare));
    } catch {
      return limit();
    }
  }

  async function look(): Promise<Entry[]> {
    const entries: Entry[] = [];
    for await (const { shard, entries: names } of shards()) {
      for (const name of names) {
        if (name.startsWith(".")) continue;
        const path = join(folder, shard, name);
        const found = await statIfPresent(path);
        if (found) entries.push({ path, bytes: found.size, usedAt: found.atimeMs });
      }
    }
    return entries;
  }

  async function trimNow(): Promise<void> {
    const entries = await look();
    let used = entries.reduce((sum, { bytes }) => sum + bytes, 0);
    const most = room(used);
    const now = runtime.now();
    entries.sort((a, b) => a.usedAt - b.usedAt);
    for (const { path, bytes, usedAt } of used > most ? entries : []) {
      if (used <= most * KEPT_SHARE) break;
      if (Math.abs(now - usedAt) < GRACE_MS) continue;
      await unlink(path).catch(() => {});
      used -= bytes;
    }
    known = used;
  }

  /** Removes what was used longest ago, while the cache is too large. */
  function trim(): Promise<void> {
    trimming ??= trimNow().finally(() => {
      trimming = undefined;
    });
    return trimming;
  }

  return {
    bound(bytes: () => number): void {
      limit = bytes;
    },
    /** Bytes in the cache, as far as this process knows. */
    bytes: (): number => known ?? 0,
    localBlobPath,
    trim,

    /** The file of a blob that is there, noted as used; undefined for others. */
    async use(name: string): Promise<{ path: string; storedAt: number } | undefined> {
      const path = localBlobPath(name);
      const found = await statIfPresent(path);
      if (!found) return undefined;
      const now = runtime.now();
      if (Math.abs(now - found.atimeMs) > NOTED_MS)
        await utimes(path, now / 1_000, found.mtimeMs / 1_000).catch(() => {});
      return { path, storedAt: found.mtimeMs };
    },

    /** A path for a file of the blob that is on its way here or to S3. */
    async onTheWay(name: string): Promise<string> {
      await mkdir(shardFolder(name), { recursive: true, mode: 0o700 });
      const random = Buffer.from(runtime.randomBytes(12)).toString("hex");
      return join(shardFolder(name), `.${name.slice(2)}.${NAMESPACE}-${process.pid}-${random}`);
    },

    /** Takes over the file of a blob that is in S3 since `storedAt`, epoch ms. */
    async take(name: string, path: string, storedAt: number): Promise<void> {
      const { size } = await stat(path);
      await mkdir(shardFolder(name), { recursive: true, mode: 0o700 });
      await utimes(path, runtime.now() / 1_000, storedAt / 1_000);
      await rename(path, localBlobPath(name));
      if (known !== undefined) known += size;
      if (known === undefined || known > room(known)) void trim().catch(() => {});
    },

    async drop(name: string): Promise<void> {
      await unlink(localBlobPath(name)).catch(() => {});
    },

    /*
     * A blob that is being removed from S3 must not be uploaded meanwhile, or the upload would be removed. Each side shows
     * its file first and then looks for the other's, so at least one of them sees the other. The one that uploads waits.
     */

    async isLeaving(name: string): Promise<boolean> {
      const found = await statIfPresent(leavingMarkerPath(name));
      return found !== undefined && Math.abs(runtime.now() - found.mtimeMs) < GRACE_MS;
    },
    /** True if nobody is uploading it; then `stay` is to be called at the end. */
    async leave(name: string): Promise<boolean> {
      await mkdir(shardFolder(name), { recursive: true, mode: 0o700 });
      await writeFile(leavingMarkerPath(name), "", { mode: 0o600 });
      await utimes(leavingMarkerPath(name), runtime.now() / 1_000, runtime.now() / 1_000);
      const prefix = `.${name.slice(2)}.`;
      const others = (await namesIn(shardFolder(name))).filter(
        (entry) => entry.startsWith(prefix) && !isAbandoned(entry),
      );
      return others.length === 1;
    },
    async stay(name: string): Promise<void> {
      await unlink(leavingMarkerPath(name)).catch(() => {});
    },

    /** Removes the files that `isNamed` does not return and that are older than `olderThan`, and what was left on its way. */
    async sweep(olderThan: number, isNamed: (names: string[]) => Set<string>): Promise<void> {
      for await (const { shard, entries } of shards()) {
        const named = isNamed(entries.filter((entry) => !entry.startsWith(".")).map((entry) => shard + entry));
        for (const entry of entries) {
          if (named.has(shard + entry)) continue;
          const path = join(folder, shard, entry);
          const found = await statIfPresent(path);
          const oldest = entry.startsWith(".") ? runtime.now() - STALE_MS : olderThan;
          if (isAbandoned(entry) || (found && found.mtimeMs < oldest)) await rm(path, { force: true });
        }
      }
      for (const entry of await namesIn(folder)) {
        if (!entry.startsWith(".")) continue;
        const found = await statIfPresent(join(folder, entry));
        if (found && found.mtimeMs < runtime.now() - STALE_MS) {
          await rm(join(folder, entry), { recursive: true, force: true });
        }
      }
      await trim();
    },

    /** Paths of the files on their way. */
    async onTheirWay(): Promise<string[]> {
      const paths: string[] = [];
      for await (const { shard, entries } of shards()) {
        for (const entry of entries) {
          const path = join(folder, shard, entry);
          if (!entry.startsWith(".") || entry.endsWith(".leaving") || isAbandoned(entry)) continue;
          const found = await statIfPresent(path);
          if (found && Math.abs(runtime.now() - found.mtimeMs) < STALE_MS) paths.push(path);
        }
      }
      return paths;
    },
    /** Removes all copies. */
    async clear(): Promise<void> {
      for (const { path } of await look()) await unlink(path).catch(() => {});
      known = 0;
    },
  };
}
