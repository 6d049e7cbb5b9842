/** Operations on files and folders that several modules share. */
import { open } from "node:fs/promises";

/** True for the error that a file or folder does not exist. */
export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException)?.code === "ENOENT";

/** Makes a folder's entries survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
