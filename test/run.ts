/**
 * `npm test`: runs the whole suite (`bun test`, which includes tsc, Biome and knip) and ends with one line
 * `N passed, N failed` that any continuous integration can read. Arguments are passed on to `bun test`.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { buildExecutable, withExecutable } from "./harness/executable.ts";

const folder = mkdtempSync(join(tmpdir(), "mailroom-test-"));
const report = join(folder, "junit.xml");
const args = process.argv.slice(2);
// Of some files, the few programs that they start may as well run from source. When it cannot be built, its own test says
// why.
const isWhole = args.every((arg) => arg.startsWith("-"));
const executable = isWhole ? await buildExecutable(join(folder, "mailroom")).catch(() => undefined) : undefined;
const run = Bun.spawn(
  [
    process.execPath,
    "test",
    // One more than there are cores: tests of mail servers wait as much as they work.
    `--parallel=${availableParallelism() + 1}`,
    // Loading the program anew for every file would take as long as the tests do.
    "--no-isolate",
    "--timeout=120000",
    "--reporter=junit",
    `--reporter-outfile=${report}`,
    // The files that take longest start first, so that none of them is what the others are waited for.
    `--timings=${join(import.meta.dir, "timings.json")}`,
    ...args,
  ],
  {
    cwd: join(import.meta.dir, ".."),
    env: executable === undefined ? process.env : withExecutable(executable),
    stdio: ["ignore", "inherit", "inherit"],
  },
);
const exitCode = await run.exited;

const count = (attribute: string): number => {
  const head = /<testsuites\b[^>]*>/.exec(readFileSync(report, "utf8"))?.[0] ?? "";
  return Number(new RegExp(`\\b${attribute}="(\\d+)"`).exec(head)?.[1]);
};
const [tests, failed, skipped] = [count("tests"), count("failures"), count("skipped")];
rmSync(folder, { recursive: true });

// A file that cannot be loaded fails the run without failing a test.
const alsoFailed = exitCode !== 0 && failed === 0 ? 1 : 0;
if (skipped > 0) console.log(`${skipped} skipped, and said so`);
console.log(`${tests - failed - skipped} passed, ${failed + alsoFailed} failed`);
process.exit(exitCode);
