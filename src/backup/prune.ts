/**
 * What a backup folder no longer needs: generations beyond those to keep, what interrupted backups left, and blobs that
 * no finished generation names. Called with the folder claimed.
 *
 * Invariant: a blob goes only while every generation's list of blobs can be read and has the hash it should have.
 */
import { readFile, rename, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import { mergeNames, readBlobList } from "./blob-list.ts";
import { hashFile, namesIn, syncFolder } from "./files.ts";
import {
  BLOB_LIST,
  BLOBS,
  GENERATIONS,
  type Generation,
  generationTime,
  listGenerations,
  readSums,
  SUMS,
} from "./layout.ts";

/**
 * Removes the oldest beyond the newest `keep`; which. One of a time that has not come (`now`: epoch ms) was made by a clock
 * that was ahead: it counts as the oldest, so that the one made just now stays.
 */
export async function keepNewest(folder: string, keep: number | undefined, now: number): Promise<string[]> {
  if (keep === undefined) return [];
  const place = join(folder, GENERATIONS);
  const generations = await listGenerations(folder);
  const isOfFuture = ({ id }: Generation): boolean => (generationTime(id) ?? 0) > now;
  const oldestFirst = [...generations.filter(isOfFuture), ...generations.filter((one) => !isOfFuture(one))];
  const leaving = oldestFirst.slice(0, -keep);
  for (const { id, path } of leaving) {
    // No longer finished, before it is no longer whole.
    const aside = join(place, `.${id}`);
    await rename(path, aside);
    await syncFolder(place);
    await rm(aside, { recursive: true });
  }
  return leaving.map(({ id }) => id);
}

/** Removes generations that are not finished: made by a backup that was interrupted, or being removed by one. */
export async function sweepUnfinished(folder: string): Promise<void> {
  const place = join(folder, GENERATIONS);
  for (const name of await namesIn(place)) {
    if (name.startsWith(".")) await rm(join(place, name), { recursive: true });
  }
}

/** Removes the blobs that no finished generation names; how many. None while a list cannot be trusted. */
export async function sweepPool(folder: string): Promise<number> {
  const generations = await listGenerations(folder);
  if (!(await Promise.all(generations.map(hasItsList))).every(Boolean)) return 0;
  const named = mergeNames(generations.map(({ path }) => readBlobList(join(path, BLOB_LIST))));
  try {
    let next = named.next();
    let removed = 0;
    const pool = join(folder, BLOBS);
    for (const shard of await namesIn(pool)) {
      const wanted = new Set<string>();
      for (; !next.done && next.value.name.slice(0, 2) <= shard; next = named.next()) wanted.add(next.value.name);
      for (const entry of await namesIn(join(pool, shard))) {
        if (wanted.has(shard + entry)) continue;
        await unlink(join(pool, shard, entry));
        removed++;
      }
    }
    return removed;
  } finally {
    named.return(undefined);
  }
}

async function hasItsList({ path }: Generation): Promise<boolean> {
  try {
    const sums = readSums(await readFile(join(path, SUMS), "utf8"));
    return (await hashFile(join(path, BLOB_LIST))).sha256 === sums.get(BLOB_LIST);
  } catch {
    return false;
  }
}
