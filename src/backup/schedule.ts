/**
 * Backups by themselves: the settings backup.folder, backup.everyHours and backup.keep. When the last one was is read
 * from the backup folder, so a folder that was emptied or changed gets one at once. The admins are mailed when backups
 * begin to fail, once until one has succeeded.
 */
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import type { NotifyAdmins } from "../outbound/notices.ts";
import type { Options } from "../store/settings.ts";
import { type BackupChild, type StartBackup, startBackup } from "./child.ts";
import { generationTime, listGenerations } from "./layout.ts";
import { type BackupState, recordFailure, writeBackupState } from "./state.ts";

export interface ScheduledBackupsParts {
  /** The data folder. */
  folder: string;
  hostname: string;
  options: Pick<Options, "get">;
  notifyAdmins: NotifyAdmins;
  /** Id of the workspace whose admins run the server; undefined while there is none. */
  operators(): string | undefined;
  start?: StartBackup | undefined;
  runtime: Pick<Runtime, "now">;
  log: Log;
}

export interface ScheduledBackups {
  job: Job;
  /** Ends a backup that is being made. */
  stop(): void;
}

const HOUR_MS = 3_600_000;
/** How soon changed settings are followed. */
const LOOK_MS = 60_000;

/**
 * When the newest backup in the folder was made, epoch ms, but for those that a clock made which was ahead; undefined when
 * none can be read there.
 */
async function lastMade(folder: string, now: number): Promise<number | undefined> {
  const generations = await listGenerations(folder).catch(() => []);
  return generations.map(({ id }) => generationTime(id)).findLast((time) => time !== undefined && time <= now);
}

export function createScheduledBackups(parts: ScheduledBackupsParts): ScheduledBackups {
  const { folder: data, hostname, options, notifyAdmins, operators, runtime, log, start = startBackup } = parts;
  let child: BackupChild | undefined;
  let stopped = false;
  let lastTry: { at: number; folder: string } | undefined;

  async function runDue(now: number): Promise<number> {
    const folder = options.get("backup.folder");
    if (folder === "off" || stopped) return now + LOOK_MS;
    const interval = options.get("backup.everyHours") * HOUR_MS;
    const made = await lastMade(folder, now);
    // One that failed is tried again sooner.
    const tried = lastTry?.folder === folder ? Math.min(lastTry.at, now) + Math.min(interval, HOUR_MS) : 0;
    const due = Math.max(made === undefined ? 0 : made + interval, tried);
    if (now < due) return Math.min(due, now + LOOK_MS);

    lastTry = { at: now, folder };
    const keep = options.get("backup.keep");
    try {
      child = start({ data, hostname, folder, keep });
      await child.done;
      log.info("backup made", { folder });
    } catch (error) {
      if (stopped) return now + LOOK_MS;
      log.error("backup failed", { folder, error });
      await fail(folder, error, now);
    } finally {
      child = undefined;
    }
    return runtime.now() + Math.min(interval, LOOK_MS);
  }

  /** Has the admins told if they do not know. */
  async function fail(folder: string, error: unknown, now: number): Promise<void> {
    const { lastGood, lastFailure } = await recordFailure(data, folder, error, now);
    const workspaceId = operators();
    if (lastFailure === undefined || lastFailure.told || workspaceId === undefined) return;
    const text = describe(lastGood, folder, lastFailure.error);
    await notifyAdmins({ workspaceId, subject: `Backup failed: ${folder}`, text }, () => {});
    await writeBackupState(data, { ...(lastGood && { lastGood }), lastFailure: { ...lastFailure, told: true } });
  }

  return {
    job: { name: "backup", runDue },
    stop() {
      stopped = true;
      child?.kill();
    },
  };
}

const describe = (lastGood: BackupState["lastGood"], folder: string, reason: string): string =>
  [
    `The backup into ${folder} failed: ${reason}`,
    lastGood === undefined
      ? "There is no backup of this server yet."
      : `The last good one was made on ${new Date(lastGood.at).toUTCString()}, into ${lastGood.folder}; it is as it was.`,
    "It is tried again within the hour, and you are not told again until one has succeeded. To try it by hand, and to look at what is there:",
    `    mailroom backup ${folder}\n    mailroom backup verify ${folder}`,
  ].join("\n\n");
