/**
 * The last good backup of a data folder, and the failure since, in a small file beside the database. A file of its own
 * can be written while the database cannot. It is not part of a backup.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isMissing, writeText } from "./files.ts";

/** In the data folder. */
export const STATE_FILE = "backup.json";

/** Times are epoch ms. */
export interface BackupState {
  lastGood?: { at: number; folder: string; generation: string };
  /** The last failure since the last good backup. `told`: the admins got a mail. */
  lastFailure?: { at: number; folder: string; error: string; told: boolean };
}

/** The state of the data folder's backups; empty when none was made. */
export async function readBackupState(data: string): Promise<BackupState> {
  try {
    return JSON.parse(await readFile(join(data, STATE_FILE), "utf8")) as BackupState;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return {};
    throw error;
  }
}

export const writeBackupState = (data: string, state: BackupState): Promise<void> =>
  writeText(join(data, STATE_FILE), `${JSON.stringify(state)}\n`);

/** Records that a backup failed at `now` (epoch ms). Returns the new state. */
export async function recordFailure(data: string, folder: string, error: unknown, now: number): Promise<BackupState> {
  const state = await readBackupState(data);
  const reason = error instanceof Error ? error.message : String(error);
  const lastFailure = { at: now, folder, error: reason, told: state.lastFailure?.told ?? false };
  const failed = { ...state, lastFailure };
  await writeBackupState(data, failed);
  return failed;
}
