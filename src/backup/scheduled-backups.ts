/**
 * Scheduled backups, by the settings backup.folder, backup.everyHours and backup.keep. The time of the last one comes
 * from the backup folder, so an emptied or changed folder gets a backup at once. When backups begin to fail, the admins
 * get one mail; another only after a success.
 */
import { ownProgramCommand } from "../base/child-process.ts";
import type { NotifyAdmins } from "../outbound/notices.ts";
import type { Core } from "../store/core.ts";
import {
  type BackupState,
  generationTime,
  listGenerations,
  recordBackupFailure,
  writeBackupState,
} from "./backup-layout.ts";

const HOUR_MS = 3_600_000;
/** How soon a changed setting takes effect. */
const LOOK_MS = 60_000;

/**
 * When the newest backup in the folder was made, epoch ms; undefined when there is none or the folder cannot be read.
 * Backups from the future, made while the clock was ahead, do not count.
 */
async function lastMade(folder: string, now: number): Promise<number | undefined> {
  const generations = await listGenerations(folder).catch(() => []);
  return generations.map(({ id }) => generationTime(id)).findLast((time) => time !== undefined && time <= now);
}

export function createScheduledBackups(
  { options, now: clock, log, site }: Core,
  {
    notifyAdmins,
    operators,
    environment = {},
    start = startBackup,
  }: {
    notifyAdmins: NotifyAdmins;
    /** Id of the workspace whose admins run the server; undefined while there is none. */
    operators(): string | undefined;
    /** Environment variables that tell the backup's process where blobs are. Its data folder and host name are added. */
    environment?: Readonly<Record<string, string>>;
    start?: StartBackup | undefined;
  },
) {
  const { folder: data, hostname } = site;
  let child: BackupChild | undefined;
  let stopped = false;
  let lastTry: { at: number; folder: string } | undefined;

  async function runDue(now: number): Promise<number> {
    const folder = options.get("backup.folder");
    if (folder === "off" || stopped) return now + LOOK_MS;
    const interval = options.get("backup.everyHours") * HOUR_MS;
    const made = await lastMade(folder, now);
    // A failed backup is tried again sooner.
    const tried = lastTry?.folder === folder ? Math.min(lastTry.at, now) + Math.min(interval, HOUR_MS) : 0;
    const due = Math.max(made === undefined ? 0 : made + interval, tried);
    if (now < due) return Math.min(due, now + LOOK_MS);

    lastTry = { at: now, folder };
    const keep = options.get("backup.keep");
    try {
      child = start({ data, hostname, folder, keep, environment });
      await child.done;
      log.info("backup made", { folder });
    } catch (error) {
      if (stopped) return now + LOOK_MS;
      log.error("backup failed", { folder, error });
      await fail(folder, error, now);
    } finally {
      child = undefined;
    }
    return clock() + Math.min(interval, LOOK_MS);
  }

  /** Records the failure, and mails the admins unless they know. */
  async function fail(folder: string, error: unknown, now: number): Promise<void> {
    const { lastGood, lastFailure } = await recordBackupFailure(data, folder, error, now);
    const workspaceId = operators();
    if (lastFailure === undefined || lastFailure.told || workspaceId === undefined) return;
    const text = describe(lastGood, folder, lastFailure.error);
    await notifyAdmins({ workspaceId, subject: `Backup failed: ${folder}`, text }, () => {});
    await writeBackupState(data, { ...(lastGood && { lastGood }), lastFailure: { ...lastFailure, told: true } });
  }

  return {
    job: { name: "backup", runDue },
    /** Ends the backup under way. */
    stop(): void {
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

/*
 * The backup itself runs in a process of its own, as `mailroom backup`: SQLite copies without yielding, which would
 * stop the server, and a crash there leaves the server alone.
 */

export interface BackupChild {
  /** Rejects with the text of its stderr. */
  done: Promise<void>;
  /** Kills it; an interrupted backup leaves the former ones whole. */
  kill(): void;
}

/** `data`: the data folder; the others as in `mailroom backup`. */
export type StartBackup = (request: {
  data: string;
  hostname: string;
  folder: string;
  keep: number;
  environment: Readonly<Record<string, string>>;
}) => BackupChild;

const LONGEST_REASON = 2_000;

const startBackup: StartBackup = ({ data, hostname, folder, keep, environment }) => {
  const child = Bun.spawn([...ownProgramCommand(), "backup", folder, "--keep", String(keep), "--json"], {
    env: { ...environment, MAILROOM_DATA: data, MAILROOM_HOSTNAME: hostname },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stderr = new Response(child.stderr).text();
  return {
    kill: () => child.kill("SIGKILL"),
    done: (async () => {
      const [text, code] = await Promise.all([stderr, child.exited]);
      if (code === 0) return;
      const reason = text
        .replaceAll(/^mailroom: /gm, "")
        .trim()
        .slice(-LONGEST_REASON);
      throw new Error(reason || `the backup's process ended with ${child.signalCode ?? code}`);
    })(),
  };
};
