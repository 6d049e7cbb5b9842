/**
 * DATA/blobs.json: where the blobs of a data folder may be, beside the folder itself. A server that does not know the place
 * would have lost them, so it does not start. A backup leaves the file out, because it has all blobs.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { isMissing } from "../base/files.ts";

export const BLOB_MARK = "blobs.json";

export interface BlobMark {
  /** The place in S3; null once all blobs are files again. */
  readonly place: string | null;
  /** Place of new blobs. */
  readonly target: "s3" | "files";
  /** Random id of the data folder. */
  readonly id: string;
}

/** Undefined for a folder whose blobs are files. */
export function readBlobMark(data: string): BlobMark | undefined {
  try {
    return JSON.parse(readFileSync(join(data, BLOB_MARK), "utf8")) as BlobMark;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new Error(`${BLOB_MARK} cannot be read: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** Durable. */
export function writeBlobMark(data: string, mark: BlobMark): void {
  const path = join(data, BLOB_MARK);
  const file = openSync(`${path}.new`, "w", 0o600);
  try {
    writeSync(file, `${JSON.stringify(mark)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.new`, path);
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** @throws Error unless MAILROOM_BLOBS, whose place is given, is the one in which the folder has blobs */
export function requireMarkedPlace(data: string, place: string | undefined): void {
  const marked = readBlobMark(data)?.place ?? undefined;
  if (marked === undefined || marked === place) return;
  const set = place === undefined ? "is not set" : `leads to ${place}`;
  throw new Error(
    `it has files of mail in S3 at ${marked}, and MAILROOM_BLOBS ${set}. Set it as it was; mailroom blobs move --to files then brings them back. If you have copied them elsewhere yourself, remove ${join(data, BLOB_MARK)}`,
  );
}
