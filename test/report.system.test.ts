import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./harness/folder.ts";
import { errorsIn, isOfTimedOut, readReport, unplainNames } from "./harness/runner/report.ts";

test("what bun test says of passed, failed and skipped tests is read", () => {
  const folder = temporaryFolder();
  const path = join(folder, "report.xml");
  expect(readReport(path)).toBeUndefined();
  const file = join(folder, "some.test.ts");
  writeFileSync(
    file,
    `import { describe, expect, test } from "bun:test";
     test("passes", () => {});
     test.skip("is skipped", () => {});
     describe("a <group>", () => {
       test("passes", () => {});
       test('fails & "says" it', () => expect("<a>").toBe("<b>"));
     });
     test("throws", () => { throw new Error("thrown"); });
     test("hangs", async () => { await Bun.sleep(200); throw new Error("late"); }, 100);
     test("\\x01", () => Bun.sleep(300));`,
  );
  const command = [process.execPath, "test", "--reporter=junit", `--reporter-outfile=${path}`, file];
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd: folder });
  expect(exitCode).toBe(1);
  expect(readReport(path)).toEqual({
    passed: 3,
    skipped: 1,
    failures: [
      {
        file: "some.test.ts",
        test: 'a <group> > fails & "says" it',
        said: expect.stringContaining("<b>"),
        timedOut: false,
      },
      { file: "some.test.ts", test: "throws", said: expect.stringContaining("thrown"), timedOut: false },
      { file: "some.test.ts", test: "hangs", said: expect.stringContaining("timed out"), timedOut: true },
    ],
  });
  const output = stderr.toString();
  const [late, ...others] = errorsIn(output);
  expect([late, others]).toEqual([{ during: "some.test.ts", said: expect.stringContaining("error: late") }, []]);
  expect(unplainNames(output)).toEqual([expect.stringContaining("\x01")]);
});

test("an error is a timed-out test's if its file is in the stack, or if none is and it came while that file ran", () => {
  const failures = [{ file: "test/a.test.ts", test: "hangs", said: "", timedOut: true }];
  const thrownIn = (file: string, during: string) =>
    isOfTimedOut({ during, said: `error: late\n      at <anonymous> (/project/${file}:2:61)\n` }, failures);
  expect(thrownIn("test/a.test.ts", "test/b.test.ts")).toBe(true);
  expect(thrownIn("test/b.test.ts", "test/a.test.ts")).toBe(false);
  expect(thrownIn("src/some.ts", "test/a.test.ts")).toBe(true);
  expect(thrownIn("src/some.ts", "test/b.test.ts")).toBe(false);
  const failed = failures.map((failure) => ({ ...failure, timedOut: false }));
  expect(isOfTimedOut({ during: "test/a.test.ts", said: "" }, failed)).toBe(false);
});
