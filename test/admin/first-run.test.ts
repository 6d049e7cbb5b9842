/** The token of the first run: which one counts, and until when. */
import { expect, test } from "bun:test";
import { setUp } from "../../src/admin/setup.ts";
import { createAppliance } from "../../src/appliance.ts";
import { createLog } from "../../src/base/log.ts";
import { readConfig } from "../../src/config.ts";
import { newDatabase } from "../harness/database.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const GIVEN = { domain: "acme.test", email: "ada@acme.test", name: "Ada", password: "correct horse" };

function openEmpty() {
  const runtime = fakeRuntime();
  const config = readConfig({ MAILROOM_DATA: temporaryFolder() });
  return createAppliance(
    config,
    runtime,
    createLog("silent", runtime.now, () => {}),
    { file: newDatabase() },
  );
}

test("only the last token that was issued counts", () => {
  const { firstRun } = openEmpty();
  expect(["", "undefined", "x".repeat(43)].map(firstRun.admits)).toEqual([false, false, false]);
  const [old = "", token = ""] = [firstRun.issueToken(), firstRun.issueToken()];
  expect(token).toMatch(/^[A-Za-z0-9]{43}$/);
  expect([old, token, `${token}x`, ""].map(firstRun.admits)).toEqual([false, true, false, false]);
});

test("it is used up by setting up, here or at the command line, and no other is issued", async () => {
  for (const byCommand of [true, false]) {
    const appliance = openEmpty();
    const { firstRun } = appliance;
    const token = firstRun.issueToken() ?? "";
    expect([firstRun.isDue(), firstRun.admits(token)]).toEqual([true, true]);
    await (byCommand ? setUp(appliance, GIVEN) : firstRun.setUp(GIVEN));
    expect([firstRun.isDue(), firstRun.admits(token), firstRun.issueToken()]).toEqual([false, false, undefined]);
    await expect(firstRun.setUp({ ...GIVEN, workspace: "Again" })).rejects.toThrow(/there is a workspace already/);
  }
});

test("two at once make one workspace", async () => {
  const { firstRun, people } = openEmpty();
  firstRun.issueToken();
  const outcomes = await Promise.allSettled([firstRun.setUp(GIVEN), firstRun.setUp({ ...GIVEN, workspace: "Second" })]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect(people.listWorkspaces()).toHaveLength(1);
});
