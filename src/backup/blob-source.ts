/**
 * Where a backup takes blobs from: the data folder, else the cache of those in S3, else S3 itself. A backup has all of
 * them, so that it needs no S3 to be restored.
 */
import { unlink } from "node:fs/promises";
import { join } from "node:path";
import { isMissing } from "../base/files.ts";
import type { Runtime } from "../base/runtime.ts";
import type { S3Location } from "../net/s3.ts";
import { BLOB_CACHE } from "../store/blob-cache.ts";
import { requireMarkedPlace } from "../store/blob-mark.ts";
import { blobPath } from "../store/blobs.ts";
import { openS3Blobs } from "../store/s3-blobs.ts";
import { ignoreDamagedBlob, isDamagedBlobError } from "../store/sound.ts";
import { BLOBS } from "./backup-layout.ts";
import { findFileSize, makeFolder } from "./durable-files.ts";

export type BlobSource = ReturnType<typeof openBlobSource>;

/** @throws Error for a data folder that has blobs in another place */
export function openBlobSource(
  data: string,
  location: S3Location | undefined,
  runtime: Pick<Runtime, "now" | "setTimer" | "fetch">,
) {
  const s3 = location && openS3Blobs(location, runtime);
  requireMarkedPlace(data, s3?.place);
  const cache = join(data, BLOB_CACHE);
  const local = (name: string): string => blobPath(join(data, BLOBS), name);

  /** Undefined for a file that is missing, cannot be read, or has other bytes than `isSound` takes. */
  async function attempt<T>(path: string, copy: (path: string) => Promise<T>, isSound: (copied: T) => boolean) {
    try {
      const copied = await copy(path);
      return isSound(copied) ? copied : undefined;
    } catch (caught) {
      const error = caught as NodeJS.ErrnoException;
      // What fails at writing is the backup's disk.
      if (isMissing(error) || (isDamagedBlobError(error) && (error.syscall === "read" || error.path === path)))
        return undefined;
      throw error;
    }
  }

  return {
    /** Its bytes; undefined for one that is not in the data folder. */
    size: (name: string): Promise<number | undefined> => findFileSize(local(name)),
    /**
     * Copies a blob with `copy`, from the first place that has it with bytes that `isSound` takes; undefined if none has.
     * @throws AppError server_error 503; errors of the file system
     */
    async copy<T>(
      name: string,
      copy: (path: string) => Promise<T>,
      isSound: (copied: T) => boolean,
    ): Promise<T | undefined> {
      const found = await attempt(local(name), copy, isSound);
      if (found || !s3) return found;
      const cached = await attempt(blobPath(cache, name), copy, isSound);
      if (cached) return cached;
      await makeFolder(cache);
      const path = join(cache, `.backup-${name}`);
      try {
        // Perhaps it was moved from S3 to a file meanwhile.
        if (!(await s3.get(name, path).catch(ignoreDamagedBlob))) return await attempt(local(name), copy, isSound);
        return await attempt(path, copy, isSound);
      } finally {
        await unlink(path).catch(() => {});
      }
    },
  };
}
