/**
 * Locks between processes: exclusive transactions on empty SQLite files. The operating system releases them when the
 * process ends in any way, so a crash leaves nothing to clean up.
 */
import { Database } from "bun:sqlite";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { giveFileToFolderOwner, refuseForeignLinks } from "./ownership.ts";

/**
 * Claims the folder for this process as its server: a second one would clear the first one's spool and run each job
 * again. Returns the function that releases it. @throws Error if another server holds it
 */
export function claimFolder(folder: string): () => void {
  const release = tryLockFile(join(folder, "serving.lock"));
  if (!release) throw new Error(`another server runs on the data folder ${folder}: stop it first`);
  return release;
}

/**
 * Blocks the sweep of a data folder's blobs while a backup may still name them, and a second backup. Undefined while
 * another process holds it.
 */
export const claimBlobs = (folder: string): (() => void) | undefined => tryLockFile(join(folder, "backup.lock"));

/** Blocks a second move of a data folder's blobs. Undefined while another process holds it. */
export const claimBlobMove = (folder: string): (() => void) | undefined => tryLockFile(join(folder, "blob-move.lock"));

/**
 * Takes the lock on a file, which is created if missing; undefined if another process holds it. Returns the function
 * that releases it.
 */
export function tryLockFile(path: string): (() => void) | undefined {
  makeFile(path);
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
 * Creates the file with the owner of its folder: a command run by root must not lock the server out. An existing file
 * is not even opened: under POSIX, closing any descriptor of a file drops all the process's locks on it.
 */
function makeFile(path: string): void {
  refuseForeignLinks(path);
  let file: number;
  try {
    file = openSync(path, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw error;
  }
  giveFileToFolderOwner(file, path);
  closeSync(file);
}

/** True if a server runs on the folder. */
export function isDataFolderClaimed(folder: string): boolean {
  const path = join(folder, "serving.lock");
  if (!existsSync(path)) return false;
  refuseForeignLinks(path);
  // A read takes the lock that only an exclusive one refuses, and releases it at once.
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
