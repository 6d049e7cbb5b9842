/** The first tier runs in one process: no test of it starts a program, except for the static checks. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { plain } from "./harness/runner/plain.ts";
import { testFiles, tierOf } from "./harness/runner/tiers.ts";

const root = join(import.meta.dir, "..");
const STARTS_PROGRAMS = /\bBun\.(spawn|spawnSync|which)\(|"node:child_process"|"playwright-core"/;
const MEASURES_GROWTH = /\bcpuTime\(.*=>/;

/** The file and what it imports of test/, directly or not, as paths from the root. Imports of types alone do not count. */
function closureOf(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const imports = readFileSync(join(root, file), "utf8").matchAll(/^(?:import|export) (?!type )[^;]*?"(\.[^"]+)";/gm);
  for (const [, path = ""] of imports) {
    const imported = join(dirname(file), path);
    if (imported.startsWith("test/")) closureOf(imported, seen);
  }
  return seen;
}

test("the name of a file tells its tier", () => {
  const names = ["a.test.ts", "a.system.test.ts", "a.browser.test.ts", "a.thorough.test.ts", "a.long.test.ts"];
  expect(names.map(tierOf)).toEqual(["fast", "system", "system", "system", "long"]);
});

test("the first tier starts no program, nor does what is thorough", () => {
  const found = testFiles(root, ["fast", "system"])
    .filter((file) => !/\.(system|browser)\.test\.ts$/.test(file))
    .filter((file) => !["test/checks.test.ts", "test/tiers.test.ts"].includes(file))
    .flatMap((file) => {
      const culprit = [...closureOf(file)].find((one) => STARTS_PROGRAMS.test(readFileSync(join(root, one), "utf8")));
      return culprit === undefined ? [] : [`${file}: ${culprit}: name it .system.test.ts`];
    });
  expect(found).toEqual([]);
});

test("the first tier counts work that grows, and does not time it", () => {
  const found = testFiles(root, ["fast"]).filter((file) =>
    [...closureOf(file)].some(
      (one) => one !== "test/harness/growth.ts" && MEASURES_GROWTH.test(readFileSync(join(root, one), "utf8")),
    ),
  );
  expect(found).toEqual([]);
});

test("names are printed without control characters", () => {
  expect(plain("a\0b\u0085\u202e\ud800 é😀\u{e0001}")).toBe("a\\u0000b\\u0085\\u202e\\ud800 é😀\\u{e0001}");
});
