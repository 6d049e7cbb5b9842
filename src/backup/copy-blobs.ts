/**
 * The blobs of a backup. They never change, so one that the backup folder has is not copied again; unless it is damaged
 * there: of another size than in the data folder, or, where all of them are read anew, with another hash.
 *
 * Invariant: a blob of the backup folder is only replaced by one whose bytes have the hash that it is named by.
 */
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError } from "../base/errors.ts";
import { blobPath } from "../store/blobs.ts";
import { MIGRATIONS } from "../store/migrations.ts";
import { openSnapshot } from "../store/snapshot.ts";
import { sideBySide, writeBlobList } from "./blob-list.ts";
import { copyFile, hashFile, isMissing, makeFolder, namesIn, syncFolder } from "./files.ts";
import { BLOB_LIST, BLOBS, DATABASE } from "./layout.ts";

export interface Copies {
  /** Migrations that the snapshot has seen. */
  schema: number;
  blobs: number;
  copied: number;
  copiedBytes: number;
  /** Of the copied ones, those that were damaged in the backup folder. */
  mended: number;
  /** Missing or damaged in the data folder, and so not in this backup. */
  lacking: string[];
}

/** Bytes; undefined for a file that is not there. */
const sizeOf = (path: string): Promise<number | undefined> =>
  stat(path).then(
    ({ size }) => size,
    (error) => {
      if (isMissing(error)) return undefined;
      throw error;
    },
  );

/** Whether the backup folder has a blob, and whole. */
async function stateOf(
  { source, target, name }: { source: string; target: string; name: string },
  reread: boolean,
): Promise<"missing" | "damaged" | "whole"> {
  const size = await sizeOf(target);
  if (size === undefined) return "missing";
  if (reread) return (await hashFile(target)).sha256 === name ? "whole" : "damaged";
  return size === ((await sizeOf(source)) ?? size) ? "whole" : "damaged";
}

/**
 * Copies what the snapshot in `unfinished` names and the backup folder lacks, and lists all of it. @throws AppError
 * conflict for a snapshot of a newer version, and what the file system says
 */
export async function copyBlobs({
  data,
  folder,
  unfinished,
  reread,
}: {
  data: string;
  folder: string;
  unfinished: string;
  reread: boolean;
}): Promise<Copies> {
  const snapshot = openSnapshot(join(unfinished, DATABASE));
  try {
    if (snapshot.schema > MIGRATIONS.length) {
      throw new AppError(
        "conflict",
        "the data folder was written by a newer Mailroom: make the backup with that version",
      );
    }
    const copies = { copied: 0, copiedBytes: 0, mended: 0 };
    const lacking = new Set<string>();
    const from = join(data, BLOBS);
    const to = join(folder, BLOBS);
    await sideBySide(snapshot.blobs(), async (name) => {
      const [source, target] = [blobPath(from, name), blobPath(to, name)];
      const state = await stateOf({ source, target, name }, reread);
      if (state === "whole") return;
      await makeFolder(dirname(target));
      const { sha256, size } = await copyFile(source, target, name).catch((error) => {
        if (isMissing(error)) return { sha256: "", size: 0 };
        throw error;
      });
      // What the data folder has lost already must not keep the rest from being backed up.
      if (sha256 !== name) {
        lacking.add(name);
        return;
      }
      copies.copied++;
      copies.copiedBytes += size;
      if (state === "damaged") copies.mended++;
    });
    // All of them: a backup that was interrupted may have renamed a blob that this one found.
    for (const shard of await namesIn(to)) await syncFolder(join(to, shard));
    await syncFolder(to);
    const there = snapshot.blobs().filter((name) => !lacking.has(name));
    const blobs = await writeBlobList(join(unfinished, BLOB_LIST), there);
    return { schema: snapshot.schema, blobs, lacking: [...lacking].sort(), ...copies };
  } finally {
    snapshot.close();
  }
}
