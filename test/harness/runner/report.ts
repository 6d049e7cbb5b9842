/** Reads the results of `bun test` from JUnit's XML and from its output. */
import { existsSync, readFileSync } from "node:fs";
import { Parser } from "htmlparser2";

export interface Failure {
  /** The file of the test, from the root of the project. */
  file: string;
  /** The name with those of its groups. */
  test: string;
  /** The expected and the actual value, and the place. */
  said: string;
  /** True if the test took too long; it still runs beside later tests. */
  timedOut: boolean;
}

export interface Report {
  passed: number;
  skipped: number;
  failures: Failure[];
}

/** Undefined when the run did not end. */
export function readReport(path: string): Report | undefined {
  if (!existsSync(path)) return undefined;
  const report: Report = { passed: 0, skipped: 0, failures: [] };
  let tests = 0;
  let failure: Failure = { file: "", test: "", said: "", timedOut: false };
  const parser = new Parser(
    {
      onopentag(name, { tests: count, skipped, file = "", name: test = "", classname, type, message = "" }) {
        if (name === "testsuites") {
          tests = Number(count);
          report.skipped = Number(skipped);
        } else if (name === "testcase")
          failure = { file, test: classname ? `${classname} > ${test}` : test, said: "", timedOut: false };
        else if (name === "failure") {
          failure.timedOut = type === "TimeoutError";
          // Otherwise it is the beginning of the next text.
          if (failure.timedOut) failure.said = message;
          report.failures.push(failure);
        }
      },
      ontext(text) {
        failure.said += text;
      },
    },
    { xmlMode: true },
  );
  parser.end(readFileSync(path, "utf8"));
  report.passed = tests - report.skipped - report.failures.length;
  return report;
}

export interface LateError {
  /** The file whose tests ran when it was thrown, from the root of the project. */
  during: string;
  /** The error and its place. */
  said: string;
}

/** Finds errors outside of tests in the output of `bun test`. */
export function errorsIn(output: string): LateError[] {
  const errors: LateError[] = [];
  let during = "";
  const parts = /^(\S+\.test\.ts):$|^# Unhandled error between tests\n-{5,}\n([\s\S]*?)^-{5,}$/gm;
  for (const [, file, said] of output.matchAll(parts)) {
    if (file !== undefined) during = file;
    else errors.push({ during, said: said ?? "" });
  }
  return errors;
}

/**
 * True when a test that timed out may have thrown the error: its file is in the stack, or no test file is and the error came
 * while that file ran.
 */
export function isOfTimedOut({ during, said }: LateError, failures: readonly Failure[]): boolean {
  const files = failures.filter(({ timedOut }) => timedOut).map(({ file }) => file);
  const thrower = /[^\s(]+\.test\.ts(?=:\d)/.exec(said)?.[0];
  return files.some((file) => (thrower === undefined ? file === during : thrower.endsWith(file)));
}

/** Finds names of tests with control characters. */
export function unplainNames(output: string): string[] {
  const names = [...output.matchAll(/^\((?:pass|fail|skip|todo)\) (.*)$/gm)].map(([, name = ""]) => name);
  return names.filter((name) => /\p{Cc}/u.test(name));
}
