/**
 * Reads the files of mail, as far as its time suffices, and names those that are damaged or missing. It begins with other files
 * each day, so that the daily examination gets around.
 */
import { isUnavailable } from "../../base/errors.ts";
import { blobNamesFrom } from "../../store/snapshot.ts";
import { isDamagedBlobError } from "../../store/sound.ts";
import type { Check } from "../check.ts";

const DISK_MS = 10_000;
/** Places in S3 are paid by the byte. */
const S3_MS = 3_000;
const AT_ONCE = 4;
const DAY_MS = 24 * 3_600_000;
/** Multiples of this number, each without its whole part, cover an interval evenly. */
const GOLDEN = 0.6180339887;
const MOST_NAMED = 10;
/** Names that are read from the database at once. */
const PAGE = 500;

/** Sorts after all names, since they are in hex. */
const AFTER_ALL = "g";

/** Chooses where the reading begins on a day: the first 8 hex digits of a name. */
const chooseFirstBlobName = (day: number): string =>
  Math.floor(((day * GOLDEN) % 1) * 2 ** 32)
    .toString(16)
    .padStart(8, "0");

export const checkBlobBytes: Check = async ({ store: { db, blobs, remote }, runtime }) => {
  const startedAt = runtime.now();
  const until = startedAt + (remote ? S3_MS : DISK_MS);
  const [damaged, missing]: [string[], string[]] = [[], []];
  let read = 0;
  let fault: unknown;
  let isAll = false;

  /** All names, a page at a time, from the day's on. */
  function* names(): Generator<string> {
    const first = chooseFirstBlobName(Math.floor(startedAt / DAY_MS));
    for (const [begin, end] of [[first, AFTER_ALL] as const, ["", first] as const]) {
      for (let from: string = begin, page = [from]; page.length > 0; from = `${page.at(-1)}.`) {
        page = blobNamesFrom(db, from, PAGE).filter((name) => name < end);
        yield* page;
      }
    }
    isAll = true;
  }
  const left = names();

  async function some(): Promise<void> {
    for (const name of left) {
      if (fault !== undefined) return;
      try {
        if (!(await blobs.examine(name))) missing.push(name);
        read++;
      } catch (error) {
        if (isDamagedBlobError(error)) damaged.push(name);
        else fault ??= error;
      }
      if (runtime.now() >= until) return;
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, some));
  if (fault !== undefined && !isUnavailable(fault)) throw fault;

  if (isAll && read + damaged.length === 0 && fault === undefined) return [];
  // A message may have been deleted meanwhile.
  const isNamed = (name: string): boolean => blobNamesFrom(db, name, 1)[0] === name;
  const found = Object.entries({ damaged, missing })
    .map(([what, names]) => [what, names.filter(isNamed).sort()] as const)
    .filter(([, names]) => names.length > 0)
    .map(([what, names]) => `${what}: ${listed(names)}`);
  const base = { id: "blob-bytes", name: "Files of mail" } as const;
  const looked = `${isAll ? "all " : ""}${read + damaged.length} were read${isAll ? "" : " today"}`;
  if (found.length > 0) {
    const todo = remote ? `${IN_S3} ${TODO}` : TODO;
    return [{ ...base, state: "bad", detail: [looked, ...found].join("; "), todo }];
  }
  // Another check tells why S3 fails.
  if (fault !== undefined) return [{ ...base, state: "unknown", detail: `${looked} before S3 failed` }];
  return [{ ...base, state: "ok", detail: `${looked}, and are whole` }];
};

const listed = (names: string[]): string =>
  [...names.slice(0, MOST_NAMED), ...(names.length > MOST_NAMED ? [`and ${names.length - MOST_NAMED} more`] : [])].join(
    ", ",
  );

const IN_S3 = "Run mailroom blobs move --to s3: it stores again what this server has a whole copy of.";
const TODO =
  "Look at the disk's health. Restore a backup elsewhere, and copy the files from its folder blobs (the first two characters of the name are a folder) to the same place below that of the data folder.";
