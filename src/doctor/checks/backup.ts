/** How old the last good backup is, and whether the last one failed. */
import { readBackupState } from "../../backup/state.ts";
import type { Check } from "../check.ts";

const HOUR_MS = 3_600_000;
/** Without a schedule, a backup is made by hand, or by a timer that is not ours. */
const BY_HAND_HOURS = 48;

export const checkBackup: Check = async ({ config, options, runtime }) => {
  const base = { id: "backup", name: "Backup" } as const;
  const { lastGood, lastFailure } = await readBackupState(config.data);
  const folder = options.get("backup.folder");
  const begin =
    "Have backups made by themselves: mailroom settings set backup.folder DIR, on another disk than the data.";
  const repeat = `Try it by hand: mailroom backup ${folder === "off" ? (lastFailure?.folder ?? "DIR") : folder}`;
  if (lastFailure) {
    return [{ ...base, state: "bad", detail: `the last one failed: ${lastFailure.error}`, todo: repeat }];
  }
  if (!lastGood)
    return [{ ...base, state: "warning", detail: "there is none", todo: folder === "off" ? begin : repeat }];
  const hours = Math.floor((runtime.now() - lastGood.at) / HOUR_MS);
  const allowed = folder === "off" ? BY_HAND_HOURS : 2 * options.get("backup.everyHours") + 1;
  const detail = `the last good one is ${hours} hours old, in ${lastGood.folder}`;
  if (hours <= allowed) return [{ ...base, state: "ok", detail }];
  return [{ ...base, state: "bad", detail, todo: folder === "off" ? begin : repeat }];
};
