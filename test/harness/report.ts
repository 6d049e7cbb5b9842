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
  let failure: Failure = { file: "", test: "", said: "" };
  const parser = new Parser(
    {
      onopentag(name, { tests: count, skipped, file = "", name: test = "", classname }) {
        if (name === "testsuites") {
          tests = Number(count);
          report.skipped = Number(skipped);
        } else if (name === "testcase") failure = { file, test: classname ? `${classname} > ${test}` : test, said: "" };
        else if (name === "failure") report.failures.push(failure);
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
