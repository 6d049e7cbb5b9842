/**
 * `npm test`: runs the whole suite (`bun test`, which includes tsc, Biome and knip) and ends with one line
 * `N passed, N failed` that any continuous integration can read. Arguments are passed on to `bun test`.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { buildExecutable, withExecutable } from "./harness/executable.ts";

/** A file system in memory: the tests commit many thousand times, and a disk takes its time over each. */
const MEMORY = "/dev/shm";
/** Twice what the files of a whole run come to, its executable among them. */
const ROOM_BYTES = 2 * 1024 ** 3;

function isRoomInMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    const mount = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .findLast((line) => line.split(" ")[1] === MEMORY);
    return bavail * bsize >= ROOM_BYTES && mount !== undefined && !/\bnoexec\b/.test(mount);
  } catch {
    return false;
  }
}

const folder = mkdtempSync(join(isRoomInMemory() ? MEMORY : tmpdir(), "mailroom-test-"));
// Servers that tests start as another user keep their files in it, too.
chmodSync(folder, 0o755);
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
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
    // So that what hangs is told: far more than any test takes, on a machine that is busy with other things, too.
    "--timeout=300000",
    "--reporter=junit",
    `--reporter-outfile=${report}`,
    // The files that take longest start first, so that none of them is what the others are waited for.
    `--timings=${join(import.meta.dir, "timings.json")}`,
    ...args,
  ],
  {
    cwd: join(import.meta.dir, ".."),
    env: { ...(executable === undefined ? process.env : withExecutable(executable)), TMPDIR: folder },
    stdio: ["ignore", "inherit", "inherit"],
  },
);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => run.kill(signal));
const exitCode = await run.exited;
if (!existsSync(report)) process.exit(exitCode || 1);

const count = (attribute: string): number => {
  const head = /<testsuites\b[^>]*>/.exec(readFileSync(report, "utf8"))?.[0] ?? "";
  return Number(new RegExp(`\\b${attribute}="(\\d+)"`).exec(head)?.[1]);
};
const [tests, failed, skipped] = [count("tests"), count("failures"), count("skipped")];

// A file that cannot be loaded fails the run without failing a test.
const alsoFailed = exitCode !== 0 && failed === 0 ? 1 : 0;
if (skipped > 0) console.log(`${skipped} skipped, and said so`);
console.log(`${tests - failed - skipped} passed, ${failed + alsoFailed} failed`);
process.exit(exitCode);
