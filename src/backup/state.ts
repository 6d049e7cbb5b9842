/**
 * When the data folder was last backed up, and whether that still works: a small file beside the database, so that it
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
  /** Since the last good one. `told`: the admins have been mailed. */
  lastFailure?: { at: number; folder: string; error: string; told: boolean };
}

/** What is known of the data folder's backups; nothing for one that has none. */
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

/** Keeps that a backup failed at `now` (epoch ms); the state since. */
export async function recordFailure(data: string, folder: string, error: unknown, now: number): Promise<BackupState> {
  const state = await readBackupState(data);
  const reason = error instanceof Error ? error.message : String(error);
  const lastFailure = { at: now, folder, error: reason, told: state.lastFailure?.told ?? false };
  const failed = { ...state, lastFailure };
  await writeBackupState(data, failed);
  return failed;
}
