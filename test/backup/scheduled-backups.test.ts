/** The settings backup.*: the times of scheduled backups, and the mail about failures. */
import { expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  GENERATIONS,
  generationId,
  MARKER,
  markerText,
  readBackupState,
  writeBackupState,
} from "../../src/backup/backup-layout.ts";
import type { BackupChild, StartBackup } from "../../src/backup/scheduled-backups.ts";
import { createScheduledBackups } from "../../src/backup/scheduled-backups.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { START } from "../harness/runtime.ts";
import { testCore } from "../harness/servers/core.ts";
import { until } from "../harness/until.ts";

const HOUR_MS = 3_600_000;

/** Scheduled backups whose child process is `outcome`: by default it succeeds and leaves a generation. */
function rig({ operators = () => "wsp_1" as string | undefined } = {}) {
  const testing = testCore();
  const { runtime } = testing;
  const data = testing.site.folder;
  const folder = join(temporaryFolder(), "backup");
  const settings: Record<string, unknown> = { "backup.folder": folder, "backup.everyHours": 24, "backup.keep": 3 };
  const started: Parameters<StartBackup>[0][] = [];
  const notices: { workspaceId: string; subject: string; text: string }[] = [];
  const state = {
    outcome: (): BackupChild => {
      mkdirSync(join(folder, GENERATIONS, generationId(runtime.now())), { recursive: true });
      void Bun.write(join(folder, MARKER), markerText(1));
      return { done: writeBackupState(data, {}), kill: () => {} };
    },
  };
  const core = {
    ...testing,
    options: { ...testing.options, get: (name: string) => settings[name] as never },
    site: { ...testing.site, hostname: "mail.acme.test" },
  };
  const backups = createScheduledBackups(core, {
    operators,
    environment: { MAILROOM_BLOBS: "s3://mail" },
    async notifyAdmins(notice, record) {
      record(undefined as never);
      notices.push(notice);
    },
    start(what) {
      started.push(what);
      return state.outcome();
    },
  });
  return {
    ...{ data, folder, settings, started, notices, state, backups, runtime },
    at: async (ms: number) => {
      runtime.advanceTo(START + ms);
      return (await backups.job.runDue(START + ms)) as number;
    },
  };
}

const failing = (message: string) => (): BackupChild => ({ done: Promise.reject(new Error(message)), kill: () => {} });

test("off until a folder is set; a changed setting takes effect within a minute", async () => {
  const { settings, started, at, folder, data } = rig();
  settings["backup.folder"] = "off";
  expect(await at(0)).toBe(START + 60_000);
  expect(started).toEqual([]);
  settings["backup.folder"] = folder;
  await at(60_000);
  expect(started).toEqual([
    { data, folder, keep: 3, hostname: "mail.acme.test", environment: { MAILROOM_BLOBS: "s3://mail" } },
  ]);
});

test("a backup made while the clock was ahead does not count once the clock is right", async () => {
  const { started, at, folder } = rig();
  await at(0);
  mkdirSync(join(folder, GENERATIONS, generationId(START + 100 * HOUR_MS)), { recursive: true });
  await at(24 * HOUR_MS);
  expect(started).toHaveLength(2);
  await at(30 * HOUR_MS);
  expect(started).toHaveLength(2);
});

test("backups follow the folder's newest by the interval, also after a restart; an emptied folder gets one at once", async () => {
  const { settings, started, at, folder } = rig();
  await at(0);
  await at(24 * HOUR_MS - 1);
  expect(started).toHaveLength(1);
  await at(24 * HOUR_MS);
  expect(started).toHaveLength(2);
  settings["backup.everyHours"] = 6;
  await at(30 * HOUR_MS - 1);
  expect(started).toHaveLength(2);
  await at(30 * HOUR_MS);
  expect(started).toHaveLength(3);
  rmSync(folder, { recursive: true });
  await at(31 * HOUR_MS);
  expect(started).toHaveLength(4);
});

test("a failing backup is mailed once, with the reason and the last good one, and tried again each hour", async () => {
  const { data, started, notices, state, at, folder } = rig();
  await at(0);
  await writeBackupState(data, { lastGood: { at: START, folder, generation: "g" } });
  const succeed = state.outcome;
  state.outcome = failing("the disk is full");
  await at(24 * HOUR_MS);
  expect(notices.map(({ workspaceId, subject }) => [workspaceId, subject])).toEqual([
    ["wsp_1", `Backup failed: ${folder}`],
  ]);
  expect(notices[0]?.text).toContain("the disk is full");
  expect(notices[0]?.text).toContain("The last good one was made on Mon, 05 Jan 2026 09:00:00 GMT");
  expect((await readBackupState(data)).lastFailure).toMatchObject({ error: "the disk is full", told: true });
  await at(25 * HOUR_MS - 1);
  expect(started).toHaveLength(2);
  await at(25 * HOUR_MS);
  expect([started.length, notices.length]).toEqual([3, 1]);

  state.outcome = succeed;
  await at(26 * HOUR_MS);
  state.outcome = failing("the disk is gone");
  await at(50 * HOUR_MS);
  expect(notices.map(({ text }) => text.includes("gone"))).toEqual([false, true]);
});

test("a failure without admins is mailed once there are some", async () => {
  let workspace: string | undefined;
  const { notices, state, at } = rig({ operators: () => workspace });
  state.outcome = failing("no");
  await at(0);
  expect(notices).toEqual([]);
  workspace = "wsp_2";
  await at(HOUR_MS);
  expect(notices).toMatchObject([
    { workspaceId: "wsp_2", text: expect.stringContaining("no backup of this server yet") },
  ]);
});

test("a server that stops ends the backup under way, without recording a failure", async () => {
  const { data, notices, started, state, backups, at } = rig();
  let killed = 0;
  const { promise: done, reject } = Promise.withResolvers<void>();
  state.outcome = () => ({
    done,
    kill() {
      killed++;
      reject(new Error("killed"));
    },
  });
  const running = at(0);
  await until(() => started.length > 0);
  backups.stop();
  await running;
  expect([killed, notices, await readBackupState(data)]).toEqual([1, [], {}]);
});
