import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./harness/folder.ts";
import { readReport } from "./harness/report.ts";

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
     test("throws", () => { throw new Error("thrown"); });`,
  );
  const command = [process.execPath, "test", "--reporter=junit", `--reporter-outfile=${path}`, file];
  expect(Bun.spawnSync(command, { cwd: folder }).exitCode).toBe(1);
  expect(readReport(path)).toEqual({
    passed: 2,
    skipped: 1,
    failures: [
      { file: "some.test.ts", test: 'a <group> > fails & "says" it', said: expect.stringContaining("<b>") },
      { file: "some.test.ts", test: "throws", said: expect.stringContaining("thrown") },
    ],
  });
});
