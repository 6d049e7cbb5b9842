/** What `bun test` wrote of a run, as JUnit's XML. */
import { existsSync, readFileSync } from "node:fs";
import { Parser } from "htmlparser2";

export interface Failure {
  /** Of the test, from the root of the project. */
  file: string;
  /** With the names of the groups it is in. */
  test: string;
  /** What was expected, what came and where. */
  said: string;
  /** It took longer than it may: it goes on beside those after it. */
  timedOut: boolean;
}

export interface Report {
  passed: number;
  skipped: number;
  failures: Failure[];
}

/** Undefined when the run came to no end. */
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
          // Of any other it is the beginning of what follows.
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
  /** What was thrown, and where. */
  said: string;
}

/** Errors that were thrown outside of any test, as the output of `bun test` has them. */
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
 * Whether a test that timed out may have thrown it: its file is in the stack, or no test file is and the error came while
 * that file ran.
 */
export function isOfTimedOut({ during, said }: LateError, failures: readonly Failure[]): boolean {
  const files = failures.filter(({ timedOut }) => timedOut).map(({ file }) => file);
  const thrower = /[^\s(]+\.test\.ts(?=:\d)/.exec(said)?.[0];
  return files.some((file) => (thrower === undefined ? file === during : thrower.endsWith(file)));
}

/** Names of tests with control characters in them. */
export function unplainNames(output: string): string[] {
  const names = [...output.matchAll(/^\((?:pass|fail|skip|todo)\) (.*)$/gm)].map(([, name = ""]) => name);
  return names.filter((name) => /\p{Cc}/u.test(name));
}
