/**
 * `npm test [-- TIER…]`: runs the tests of some tiers, by default of `fast`, with `bun test`. Other arguments go to
 * `bun test`; with files or folders among them, these run whatever their tier. The last line is `N passed, N failed`, then
 * `, N skipped` if any were, so that any continuous integration can read it. A run without other arguments in which nothing
 * fails renews test/timings.json.
 *
 * Failures are printed again at the end. In a run of whole tiers, the files of a few failures then run once more, each
 * alone. A test that passes there is unsteady and counts as passed: other work of the machine upset it, which is a defect
 * of the test and not of the code.
 *
 * A test that timed out goes on beside later tests, and may throw while they run. Such an error fails the run only if the
 * test fails alone, too. An error that no timed-out test can have thrown fails the run.
 */
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { plain } from "./harness/runner/plain.ts";
import {
  errorsIn,
  type Failure,
  isOfTimedOut,
  type LateError,
  type Report,
  readReport,
  unplainNames,
} from "./harness/runner/report.ts";
import { SHARING } from "./harness/runner/sharing.ts";
import { TIERS, type Tier, testFiles } from "./harness/runner/tiers.ts";
import { renewTimings } from "./harness/runner/timings.ts";
import { FEWER_RUNS } from "./harness/runs.ts";
import { buildExecutable, withExecutable } from "./harness/servers/executable.ts";

/** A file system in memory: the tests commit many thousand times, and each commit waits for a disk. */
const MEMORY = "/dev/shm";
/** Twice the size of all files of a whole run, its executable among them. */
const ROOM_BYTES = 2 * 1024 ** 3;
/** Failures in more files are no accident. */
const FILES_TO_RUN_AGAIN = 3;
const TIMINGS = join(import.meta.dir, "timings.json");
const ENDS = ["SIGINT", "SIGTERM"] as const;

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
// Programs whose process has just ended may still write in it.
process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 }));
const root = join(import.meta.dir, "..");
const isTier = (arg: string): arg is Tier => (TIERS as readonly string[]).includes(arg);
const chosen = process.argv.slice(2).filter(isTier);
const args = process.argv.slice(2).filter((arg) => !isTier(arg));
const tiers: Tier[] = chosen.length > 0 ? chosen : ["fast"];
const isWhole = args.every((arg) => arg.startsWith("-"));
const files = isWhole ? testFiles(root, tiers).map((file) => `./${file}`) : [];
// The first tier starts no program, and the few that named files start may as well run from source. If the build fails,
// its own test says why.
const isBuilt = isWhole && tiers.some((tier) => tier !== "fast");
const executable = isBuilt ? await buildExecutable(join(folder, "mailroom")).catch(() => undefined) : undefined;
const env = {
  ...(executable === undefined ? process.env : withExecutable(executable)),
  ...SHARING,
  // Whoever has time for the second tier, or asks for some files, has it for all runs.
  ...(isWhole && tiers.every((tier) => tier === "fast") && FEWER_RUNS),
  TMPDIR: folder,
};

/** A signal has ended the run: nothing more is started. */
let isEnded = false;

interface Run {
  exitCode: number;
  /** Undefined when the run did not end. */
  report: Report | undefined;
  /** Errors thrown outside of any test, which the report lacks. */
  errors: LateError[];
  /** Names of tests with control characters. */
  unplain: string[];
}

/** Runs tests, and shows their output. */
async function runTests(name: string, options: readonly string[]): Promise<Run> {
  const path = join(folder, `${name}.xml`);
  const run = Bun.spawn(
    [
      process.execPath,
      "test",
      "--reporter=junit",
      `--reporter-outfile=${path}`,
      // Far more than any test takes, even on a busy machine, so that a test that hangs is reported.
      "--timeout=120000",
      ...options,
    ],
    { cwd: root, env, stdio: ["ignore", "inherit", "pipe"] },
  );
  const end = (signal: NodeJS.Signals): void => {
    isEnded = true;
    run.kill(signal);
  };
  for (const signal of ENDS) process.on(signal, end);
  const chunks: Uint8Array[] = [];
  for await (const bytes of run.stderr) {
    process.stderr.write(bytes);
    chunks.push(bytes);
  }
  const output = Buffer.concat(chunks).toString();
  const exitCode = await run.exited;
  for (const signal of ENDS) process.off(signal, end);
  return { exitCode, report: readReport(path), errors: errorsIn(output), unplain: unplainNames(output) };
}

/** Runs the files of the failures once more, each alone. Resolves with what failed there, too. */
async function failedAgain(failures: readonly Failure[]): Promise<Failure[]> {
  const files = Map.groupBy(failures, ({ file }) => file);
  if (files.size > FILES_TO_RUN_AGAIN) return [...failures];
  const again: Failure[] = [];
  for (const [file, before] of files) {
    if (isEnded) return [...failures];
    const { exitCode, report } = await runTests(`again-${file.replaceAll("/", "-")}`, [file]);
    if (exitCode !== 0) again.push(...(report?.failures.length ? report.failures : before));
  }
  return again;
}

const timings = join(folder, "timings.json");
copyFileSync(TIMINGS, timings);
const { exitCode, report, errors, unplain } = await runTests("whole", [
  // One more than there are cores: tests of mail servers wait as much as they work.
  `--parallel=${availableParallelism() + 1}`,
  // Loading the program anew for every file would take as long as the tests do.
  "--no-isolate",
  // The files that take longest start first, so that the run does not end by waiting for one of them.
  `--timings=${timings}`,
  "--update-timings",
  ...args,
  ...files,
]);
if (report === undefined || isEnded) process.exit(exitCode || 1);

const { failures } = report;
for (const { file, test, said } of failures) console.log(`\n${file}: ${test}\n${said.trim()}`);
const failed = isWhole ? await failedAgain(failures) : failures;
if (failed.length < failures.length)
  console.log(`${failures.length - failed.length} unsteady: failed above, passed alone`);
for (const name of unplain) console.log(`control characters in the name of a test: ${plain(name)}`);
const late = errors.filter((error) => isWhole && isOfTimedOut(error, failures));
if (late.length > 0) console.log(`${late.length} errors thrown late by tests that timed out`);
// A file that cannot be loaded fails the run without failing a test.
const isUnexplained = exitCode !== 0 && failures.length === 0 && errors.length === 0;
const alsoFailed = errors.length - late.length + unplain.length + (isUnexplained ? 1 : 0);
const passed = report.passed + failures.length - failed.length;
const skipped = report.skipped > 0 ? `, ${report.skipped} skipped` : "";
console.log(`${passed} passed, ${failed.length + alsoFailed} failed${skipped}`);
if (failed.length + alsoFailed > 0) process.exit(1);
// Continuous integration leaves its checkout as it is.
if (args.length === 0 && !process.env.CI)
  renewTimings(TIMINGS, timings, testFiles(root, tiers), testFiles(root, TIERS));
process.exit(0);
