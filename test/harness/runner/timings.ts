/** How long test files take, which test/timings.json keeps: the longest start first, so that a run does not end by waiting for one. */
import { readFileSync, writeFileSync } from "node:fs";

/** Milliseconds by file, as a path from the root of the project. */
type Timings = Record<string, number>;

/** Format of the file that `bun test --update-timings` reads and writes. */
interface TimingsFile {
  version: number;
  files: Timings;
}

/** Less is noise: of other work, and of loading the program, which the first file of a process pays for all. */
const NOISE_MS = 500;
const NOISE_SHARE = 1 / 3;

/**
 * Merges what a run measured into what is known. An entry changes only where it is far off, so that the file seldom does. A
 * slower machine changes nothing: measured times are first brought to the scale of those known. Files outside of `existing`
 * are dropped.
 */
export function mergeTimings(known: Timings, measured: Timings, existing: readonly string[]): Timings {
  const both = existing.filter((file) => file in known && file in measured);
  const sumOf = (timings: Timings) => both.reduce((sum, file) => sum + (timings[file] ?? 0), 0);
  const scale = sumOf(measured) > 0 ? sumOf(known) / sumOf(measured) : 1;
  const entries = existing.flatMap((file): [string, number][] => {
    const [before, now] = [known[file], measured[file]];
    if (now === undefined) return before === undefined ? [] : [[file, before]];
    const scaled = now * scale;
    const isNear =
      before !== undefined && Math.abs(scaled - before) <= Math.max(NOISE_MS, NOISE_SHARE * Math.max(scaled, before));
    return [[file, isNear ? before : Math.ceil(scaled / 100) * 100]];
  });
  return Object.fromEntries(entries.sort());
}

/** Renews test/timings.json by the times of the files that ran; `measured`: the copy of it that the run was given and changed. */
export function renewTimings(
  path: string,
  measured: string,
  ran: readonly string[],
  existing: readonly string[],
): void {
  const read = (file: string) => JSON.parse(readFileSync(file, "utf8")) as TimingsFile;
  const before = read(path);
  const times = Object.fromEntries(Object.entries(read(measured).files).filter(([file]) => ran.includes(file)));
  const after = { ...before, files: mergeTimings(before.files, times, existing) };
  writeFileSync(path, `${JSON.stringify(after, undefined, 2)}\n`);
}
