/** The daily examination: the admins get one mail when a finding turns bad, and one when it is well. */
import { expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import type { Finding } from "../../src/doctor/check.ts";
import { createDailyExamination } from "../../src/doctor/doctor.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { boot } from "../harness/servers/boot.ts";

const DAY_MS = 24 * 3_600_000;

const disk = (state: Finding["state"]): Finding => ({
  ...{ id: "disk", name: "Disk space", state, detail: `it is ${state}` },
  ...(state === "bad" && { todo: "Make room." }),
});

async function watched(first: Finding["state"]) {
  let finding = disk(first);
  const booted = await boot({}, undefined, { checks: { disk: () => [finding] } });
  await booted.advance(3_600_000);
  const subjects = async () =>
    (await booted.api.get<{ messages: { subject: string }[] }>("/messages?folder=inbox")).body.messages.map(
      ({ subject }) => subject,
    );
  return {
    ...booted,
    subjects,
    async day(state: Finding["state"]) {
      finding = disk(state);
      await booted.advance(DAY_MS);
      return subjects();
    },
  };
}

test("a finding that turns bad is mailed once, and again when it is well", async () => {
  const { day, subjects } = await watched("ok");
  expect(await subjects()).toEqual([]);
  expect(await day("warning")).toEqual([]);
  const told = ["Disk space: needs attention"];
  expect(await day("bad")).toEqual(told);
  expect(await day("bad")).toEqual(told);
  // An unknown state changes nothing.
  expect(await day("unknown")).toEqual(told);
  expect(await day("bad")).toEqual(told);
  const both = ["Disk space: well again", ...told];
  expect(await day("ok")).toEqual(both);
  expect(await day("ok")).toEqual(both);
  expect(await day("bad")).toEqual(["Disk space: needs attention", ...both]);
});

test("the mail has the finding, and what to do", async () => {
  const { api, day } = await watched("ok");
  await day("bad");
  const { body } = await api.get<{ messages: { bodyText: string; from: { email: string } }[] }>(
    "/messages?folder=inbox",
  );
  expect(body.messages[0]?.from.email).toBe("postmaster@example.test");
  expect(body.messages[0]?.bodyText).toStartWith("Disk space: it is bad.\nMake room.\n\n");
});

test("stopping abandons the examination under way and mails none of its findings", async () => {
  const told: unknown[] = [];
  const { promise: found, resolve: find } = Promise.withResolvers<Finding[]>();
  const watch = createDailyExamination({
    folder: temporaryFolder(),
    examine: () => found,
    notifyAdmins: async (notice) => void told.push(notice),
    operators: () => "wsp_1",
    log: createLog("silent", Date.now, () => {}),
  });
  const soon = (await watch.job.runDue(0)) ?? 0;
  const looking = watch.job.runDue(soon);
  watch.stop();
  expect(await looking).toBe(soon + DAY_MS);
  find([disk("bad")]);
  await found;
  expect(told).toEqual([]);
});

test("a clock that was ahead delays no examination once it is set right", async () => {
  const { advance, runtime, day, subjects } = await watched("ok");
  runtime.setBy(30 * DAY_MS);
  await advance(10 * 3_600_000);
  expect(await day("ok")).toEqual([]);
  runtime.setBy(-30 * DAY_MS);
  await advance(2_000);
  expect(await day("bad")).toEqual(["Disk space: needs attention"]);
  expect(await subjects()).toHaveLength(1);
});
