/** The times of test files that test/run.ts keeps. */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./harness/folder.ts";
import { mergeTimings, renewTimings } from "./harness/runner/timings.ts";

test("a new file is added, one that is gone is dropped, one that did not run stays", () => {
  const known = { "a.test.ts": 2000, "gone.test.ts": 9000, "other-tier.test.ts": 3000 };
  const measured = { "a.test.ts": 2000, "new.test.ts": 1234, "gone.test.ts": 9000 };
  const existing = ["other-tier.test.ts", "new.test.ts", "a.test.ts"];
  const merged = mergeTimings(known, measured, existing);
  expect(Object.entries(merged)).toEqual([
    ["a.test.ts", 2000],
    ["new.test.ts", 1300],
    ["other-tier.test.ts", 3000],
  ]);
});

test("an entry changes only when it is off by more than a third, and by more than half a second", () => {
  const known = { "large.test.ts": 10_000, "slow.test.ts": 2000, "quick.test.ts": 2000, "small.test.ts": 100 };
  const measured = { "large.test.ts": 10_900, "slow.test.ts": 2900, "quick.test.ts": 600, "small.test.ts": 500 };
  const merged = mergeTimings(known, measured, Object.keys(known));
  expect(merged).toEqual({ ...known, "quick.test.ts": 600 });
  expect(mergeTimings(merged, measured, Object.keys(known))).toEqual(merged);
});

test("a slower machine changes no entry", () => {
  const known = { "a.test.ts": 8000, "b.test.ts": 2000 };
  expect(
    mergeTimings(known, { "a.test.ts": 24_000, "b.test.ts": 6000, "c.test.ts": 3000 }, [
      "a.test.ts",
      "b.test.ts",
      "c.test.ts",
    ]),
  ).toEqual({
    ...known,
    "c.test.ts": 1000,
  });
});

test("times of files that did not run are no measure", () => {
  const folder = temporaryFolder();
  const [path, measured] = [join(folder, "timings.json"), join(folder, "measured.json")];
  const write = (file: string, files: Record<string, number>) =>
    writeFileSync(file, JSON.stringify({ version: 1, files }));
  const known = { "a.test.ts": 6000, "b.test.ts": 2000, "long.test.ts": 90_000 };
  write(path, known);
  write(measured, { ...known, "a.test.ts": 18_000, "b.test.ts": 6000 });
  renewTimings(path, measured, ["a.test.ts", "b.test.ts"], Object.keys(known));
  expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ version: 1, files: known });
});
