/**
 * `npm test`: runs the whole suite (`bun test`, which includes tsc, Biome and knip) and ends with one line
 * `N passed, N failed` that any continuous integration can read. Arguments are passed on to `bun test`.
 *
 * What failed is told again at the end, where it is found. In a run of everything its files are then run once more, each
 * alone: a test that passes there is called unsteady, by name and with what it said the first time, and counts as passed.
 * That tells a defect from a test that other work of the machine can upset, which is a defect of the test.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { buildExecutable, withExecutable } from "./harness/executable.ts";
import { type Failure, type Report, readReport } from "./harness/report.ts";

/** A file system in memory: the tests commit many thousand times, and a disk takes its time over each. */
const MEMORY = "/dev/shm";
/** Twice what the files of a whole run come to, its executable among them. */
const ROOM_BYTES = 2 * 1024 ** 3;
/** More than these are no accident. */
const FILES_TO_RUN_AGAIN = 3;
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
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const args = process.argv.slice(2);
// Of some files, the few programs that they start may as well run from source. When it cannot be built, its own test says
// why.
const isWhole = args.every((arg) => arg.startsWith("-"));
const executable = isWhole ? await buildExecutable(join(folder, "mailroom")).catch(() => undefined) : undefined;
const env = { ...(executable === undefined ? process.env : withExecutable(executable)), TMPDIR: folder };

/** By a signal: nothing more is run. */
let isEnded = false;

interface Run {
  exitCode: number;
  /** Undefined when it came to no end. */
  report: Report | undefined;
  /** Something was thrown outside of any test, which the report does not tell. */
  hasErrors: boolean;
}

/** Runs tests, and shows what they print. */
async function runTests(name: string, options: readonly string[]): Promise<Run> {
  const path = join(folder, `${name}.xml`);
  const run = Bun.spawn(
    [
      process.execPath,
      "test",
      "--reporter=junit",
      `--reporter-outfile=${path}`,
      // So that what hangs is told: far more than any test takes, on a machine that is busy with other things, too.
      "--timeout=300000",
      ...options,
    ],
    { cwd: join(import.meta.dir, ".."), env, stdio: ["ignore", "inherit", "pipe"] },
  );
  const end = (signal: NodeJS.Signals): void => {
    isEnded = true;
    run.kill(signal);
  };
  for (const signal of ENDS) process.on(signal, end);
  let summary = "";
  for await (const bytes of run.stderr) {
    process.stderr.write(bytes);
    summary = (summary + new TextDecoder().decode(bytes)).slice(-1_000);
  }
  const exitCode = await run.exited;
  for (const signal of ENDS) process.off(signal, end);
  return { exitCode, report: readReport(path), hasErrors: /^ +\d+ errors?$/m.test(summary) };
}

/** Runs the files of what failed once more, each alone: what failed there, too. */
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

const { exitCode, report, hasErrors } = await runTests("whole", [
  // One more than there are cores: tests of mail servers wait as much as they work.
  `--parallel=${availableParallelism() + 1}`,
  // Loading the program anew for every file would take as long as the tests do.
  "--no-isolate",
  // The files that take longest start first, so that none of them is what the others are waited for.
  `--timings=${join(import.meta.dir, "timings.json")}`,
  ...args,
]);
if (report === undefined || isEnded) process.exit(exitCode || 1);

const { failures } = report;
for (const { file, test, said } of failures) console.log(`\n${file}: ${test}\n${said.trim()}`);
const failed = isWhole ? await failedAgain(failures) : failures;
if (failed.length < failures.length)
  console.log(`${failures.length - failed.length} unsteady: failed above, passed alone`);
if (report.skipped > 0) console.log(`${report.skipped} skipped, and said so`);
// A file that cannot be loaded fails the run without failing a test.
const alsoFailed = hasErrors || (exitCode !== 0 && failures.length === 0) ? 1 : 0;
const passed = report.passed + failures.length - failed.length;
console.log(`${passed} passed, ${failed.length + alsoFailed} failed`);
process.exit(failed.length + alsoFailed > 0 ? 1 : 0);
