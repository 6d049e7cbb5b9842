/**
 * Locks between processes that the operating system drops with the process, however it ends, so a crash leaves nothing
 * to clean up: exclusive transactions on empty SQLite files.
 */
import { Database } from "bun:sqlite";
import { chownSync, closeSync, existsSync, openSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Claims the folder for this process as its server: two would clear each other's spool and run each job twice. Returns
 * what gives it back. @throws Error when another server has it
 */
export function claimFolder(folder: string): () => void {
  const release = tryClaim(join(folder, "serving.lock"));
  if (!release) throw new Error(`another server runs on the data folder ${folder}: stop it first`);
  return release;
}

/**
 * Keeps the sweeper from the blobs of a data folder, while a backup may still name them, and one backup from another.
 * Undefined while somebody else does.
 */
export const claimBlobs = (folder: string): (() => void) | undefined => tryClaim(join(folder, "backup.lock"));

/** Takes the lock that the file is, made when missing; undefined when another has it. Returns what gives it back. */
export function tryClaim(path: string): (() => void) | undefined {
  makeFor(dirname(path), path);
  const lock = new Database(path, { readwrite: true });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if ((error as { code?: string }).code === "SQLITE_BUSY") return undefined;
    throw error;
  }
  return () => lock.close();
}

/**
 * The file belongs to whom its folder does: a command run by root must not lock the server out. One that is there is not
 * even opened: POSIX has a process lose all its locks on a file as soon as it closes any descriptor of it.
 */
function makeFor(folder: string, path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(folder);
  chownSync(path, uid, gid);
}

/** Whether a server runs on the folder. */
export function isClaimed(folder: string): boolean {
  const path = join(folder, "serving.lock");
  if (!existsSync(path)) return false;
  // A glance takes the lock that only an exclusive one refuses, and gives it back at once.
  const lock = new Database(path, { readonly: true });
  try {
    lock.query("SELECT count(*) FROM sqlite_schema").get();
    return false;
  } catch {
    return true;
  } finally {
    lock.close();
  }
}
