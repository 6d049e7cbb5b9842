/**
 * One server a data folder: two would clear each other's spool and run each job twice. The claim is a lock that the
 * operating system drops with the process, however it ends, so a crash leaves nothing to clean up.
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";

/** Claims the folder for this process; returns what gives it back. @throws Error when another server has it */
export function claimFolder(folder: string): () => void {
  const lock = new Database(join(folder, "serving.lock"), { create: true });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    throw new Error(`another server runs on the data folder ${folder}: stop it first`, { cause: error });
  }
  return () => lock.close();
}
