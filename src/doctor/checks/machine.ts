/** Checks of the machine and the data folder: room, open files, clock, permissions, schema, backups. */
import { basename, join } from "node:path";
import { desc } from "drizzle-orm";
import { generationTime, listGenerations, readBackupState, readManifest } from "../../backup/backup-layout.ts";
import { shareDescriptors } from "../../base/descriptors.ts";
import { servesImap } from "../../config.ts";
import { MIGRATIONS } from "../../store/migrate.ts";
import { messages } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import { type Db, isDiskSpaceLow } from "../../store/store.ts";
import type { Check, Finding, State } from "../check.ts";

/* Room for mail: bytes and inodes of the data folder's file system. */

const GB = 1_000_000_000;
/** Inodes, as a share of all. */
const LOW_SHARE = 0.1;
const SHORT = { share: 0.03, bytes: GB / 2 };

const gigabytes = (bytes: number): string => `${(bytes / GB).toFixed(1)} GB`;
const percent = (share: number): string => `${Math.floor(share * 100)} %`;

export const checkDisk: Check = async ({ config, system }) => {
  const { free, total, freeInodes, inodes } = await system.space(config.data);
  const isShort = free < SHORT.bytes && free / total < SHORT.share;
  const state: State = isShort ? "bad" : isDiskSpaceLow({ free, total }) ? "warning" : "ok";
  const todo = `Make room on the disk of ${config.data}, or move it to a larger one: a full disk refuses mail until there is room. mailroom settings set retention.trashDays 30 empties trash and spam by itself.`;
  const findings: Finding[] = [
    {
      id: "disk",
      name: "Disk space",
      state,
      detail: `${gigabytes(free)} of ${gigabytes(total)} free`,
      ...(state !== "ok" && { todo }),
    },
  ];
  if (inodes > 0) {
    const share = freeInodes / inodes;
    const inodeState: State = share < SHORT.share ? "bad" : share < LOW_SHARE ? "warning" : "ok";
    findings.push({
      id: "inodes",
      name: "Inodes",
      state: inodeState,
      detail: `${percent(share)} of ${inodes} free`,
      ...(inodeState !== "ok" && {
        todo: `Remove small files from the disk of ${config.data}, or make its file system anew with more inodes.`,
      }),
    });
  }
  return findings;
};

/* The server's limit of open files, which bounds its connections. */

export const checkOpenFiles: Check = async ({ config, system, serving }) => {
  const limit = serving ? await system.openFilesOfServer(config.data) : undefined;
  if (limit === undefined) return [];
  const { smtp, http, imap, suffices } = shareDescriptors(limit, { imap: servesImap(config) });
  const mail = `${smtp.mx + smtp.submission + smtp.submissions} SMTP${imap > 0 ? `, ${imap} IMAP` : ""}`;
  const connections = `${mail} and ${http} HTTP connections`;
  return [
    {
      id: "open-files",
      name: "Open files",
      state: suffices ? "ok" : "warning",
      detail: `the limit is ${limit}, for ${connections}${suffices ? "" : ", which it does not suffice for"}`,
      ...(!suffices && {
        todo: "Raise the limit of open files (LimitNOFILE= of the service, ulimit -n) to 65536, and start the server again.",
      }),
    },
  ];
};

/*
 * The clock, which signatures, sessions and certificates depend on: it should follow a time server, and not be behind
 * the newest message.
 */

const TOLERANCE_MS = 5 * 60_000;
/** The newest rows to search: imported messages have old dates. The server waits for this query. */
const LAST_MESSAGES = 100;

/** When the newest message here was filed: epoch ms; undefined without any. */
export function newestMessageFiledAt(db: Db): number | undefined {
  const last = db
    .select({ at: messages.filedAt })
    .from(messages)
    .orderBy(desc(messages.seq))
    .limit(LAST_MESSAGES)
    .all();
  return last.length === 0 ? undefined : Math.max(...last.map(({ at }) => at));
}

export const checkClock: Check = async ({ store, runtime, system }) => {
  const base = { id: "clock", name: "Clock" } as const;
  const todo = "Switch time synchronisation on: timedatectl set-ntp true (with systemd-timesyncd or chrony installed).";
  const behind = (newestMessageFiledAt(store.db) ?? 0) - runtime.now();
  if (behind > TOLERANCE_MS) {
    const detail = `it is ${Math.round(behind / 60_000)} minutes behind the newest message here`;
    return [{ ...base, state: "bad", detail, todo }];
  }
  const follows = await system.clockFollows();
  if (follows === undefined)
    return [{ ...base, state: "unknown", detail: "the system does not tell whether it follows a time server" }];
  return follows
    ? [{ ...base, state: "ok", detail: "it follows a time server" }]
    : [{ ...base, state: "warning", detail: "it follows no time server", todo }];
};

/* Only the server's user may read the data folder, and it owns all of it. */

const OTHERS = 0o077;
/** Paths named in a finding, at most. */
const SOME = 5;

const named = (paths: readonly string[]): string =>
  paths.length <= SOME ? paths.join(", ") : `${paths.slice(0, SOME).join(", ")} and ${paths.length - SOME} more`;

export const checkPermissions: Check = async ({ config, system }) => {
  const base = { id: "permissions", name: "File permissions" } as const;
  const [folder, ...files] = await system.entries(config.data);
  if (!folder) return [{ ...base, state: "unknown", detail: `${config.data} cannot be looked at` }];
  const keys = files.some(({ path }) => path === join(config.data, "tls"))
    ? await system.entries(join(config.data, "tls"))
    : [];
  const all = [folder, ...files, ...keys];
  // Others cannot reach files in a folder that they cannot enter.
  const open = (folder.mode & OTHERS) === 0 ? [] : all.filter(({ mode }) => (mode & OTHERS) !== 0);
  if (open.length > 0) {
    return [
      {
        ...base,
        state: "bad",
        detail: `others may reach ${named(open.map(({ path }) => path))}`,
        todo: `Close the folder to others: chmod 700 ${config.data}`,
      },
    ];
  }
  const foreign = all.filter(({ uid }) => uid !== folder.uid).map(({ path }) => path);
  if (foreign.length > 0) {
    return [
      {
        ...base,
        state: "bad",
        detail: `${named(foreign)} belong to another user than the folder`,
        todo: `Give all of it to the server's user: chown -R --reference=${config.data} ${config.data}`,
      },
    ];
  }
  return [{ ...base, state: "ok", detail: "only the server's user reaches the data folder" }];
};

/* The database has the schema of this version. */

const selectVersion = statement<{ user_version: number }>("PRAGMA user_version");

export const checkSchema: Check = ({ store }) => {
  const base = { id: "schema", name: "Database schema" } as const;
  const version = selectVersion(store.db).get()?.user_version ?? 0;
  const detail = `version ${version} of ${MIGRATIONS.length}`;
  if (version === MIGRATIONS.length) return [{ ...base, state: "ok", detail }];
  return [
    { ...base, state: "bad", detail, todo: "Run this command with the version of Mailroom that the server runs." },
  ];
};

/* The age of the newest backup that is in its folder, and a failure since. */

const HOUR_MS = 3_600_000;
/** The allowed age without a schedule, when people or a timer of theirs make backups. */
const BY_HAND_HOURS = 48;

/**
 * Names of the folders where an upgrade keeps a backup of the version before (install.sh). These backups are neither chosen by
 * an admin nor repeated.
 */
const OF_UPGRADES = ["upgrades", "undo"];

/** When the newest backup in a folder was made, epoch ms, as the folder itself has it; undefined without one. */
async function newestIn(folder: string): Promise<number | undefined> {
  for (const { id, path } of (await listGenerations(folder)).reverse()) {
    const at = generationTime(id);
    const isReal = await readManifest(path, id).then(
      () => true,
      () => false,
    );
    if (at !== undefined && isReal) return at;
  }
  return undefined;
}

/** The user of the service may be kept out of folders that root backs up to. */
const isHidden = (error: unknown): boolean => ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");

export const checkBackup: Check = async ({ config, options, runtime }) => {
  const base = { id: "backup", name: "Backup" } as const;
  const { lastGood, lastFailure } = await readBackupState(config.data);
  const scheduled = options.get("backup.folder");
  const begin =
    "Have backups made by themselves: mailroom settings set backup.folder DIR, on another disk than the data.";
  const repeat = `Try it by hand: mailroom backup ${scheduled === "off" ? (lastFailure?.folder ?? "DIR") : scheduled}`;
  if (lastFailure) {
    return [{ ...base, state: "bad", detail: `the last one failed: ${lastFailure.error}`, todo: repeat }];
  }
  const isOfUpgrade = lastGood !== undefined && OF_UPGRADES.includes(basename(lastGood.folder));
  const folder = scheduled !== "off" ? scheduled : isOfUpgrade ? undefined : lastGood?.folder;
  if (folder === undefined) {
    const detail = isOfUpgrade ? `there is none but that of the last upgrade, in ${lastGood.folder}` : "there is none";
    return [{ ...base, state: "warning", detail, todo: begin }];
  }
  const noted = lastGood?.folder === folder ? lastGood.at : undefined;
  let at: number | undefined;
  let where = `in ${folder}`;
  try {
    at = await newestIn(folder);
  } catch (error) {
    if (noted !== undefined && scheduled === "off" && isHidden(error)) {
      at = noted;
      where += ", where this user may not look,";
    } else if (noted !== undefined) {
      const reason = error instanceof Error ? error.message : String(error);
      return [{ ...base, state: "bad", detail: `those in ${folder} cannot be seen: ${reason}`, todo: repeat }];
    }
  }
  if (at === undefined) {
    const state = noted === undefined ? "warning" : "bad";
    return [{ ...base, state, detail: `there is none in ${folder}`, todo: repeat }];
  }
  const hours = Math.floor((runtime.now() - at) / HOUR_MS);
  const allowed = scheduled === "off" ? BY_HAND_HOURS : 2 * options.get("backup.everyHours") + 1;
  const detail = `the newest ${where} is ${hours} hours old`;
  if (hours <= allowed) return [{ ...base, state: "ok", detail }];
  return [{ ...base, state: "bad", detail, todo: scheduled === "off" ? begin : repeat }];
};
