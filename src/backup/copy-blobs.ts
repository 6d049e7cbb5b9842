/**
 * The blobs of a backup. They never change, so one that the backup folder has is not copied again; unless it is damaged
 * there: of another size than in the data folder, or, where all of them are read anew, with another hash.
 *
 * Invariant: a blob of the backup folder is only replaced by one whose bytes have the hash that it is named by.
 */

import { closeSync, openSync, readSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError } from "../base/errors.ts";
import { blobPath } from "../store/blobs.ts";
import { MIGRATIONS } from "../store/migrate.ts";
import { openSnapshot } from "../store/snapshot.ts";
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

/* Lists of blobs in files, ordered by name: read a line at a time, several side by side, so that any size will do. */

const BUFFER_BYTES = 64 * 1024;
const NAME = /^([0-9a-f]{64}) {2}/;

/** A line for `sha256sum -c`: the name of a blob is its hash. */
const lineOf = (name: string): string => `${name}  ${BLOBS}/${name.slice(0, 2)}/${name.slice(2)}\n`;

/** Writes names, which are in order, to a new file, and makes it durable; how many. */
async function writeBlobList(path: string, names: Iterable<string>): Promise<number> {
  const handle = await open(path, "wx", 0o600);
  try {
    let count = 0;
    let text = "";
    for (const name of names) {
      count++;
      text += lineOf(name);
      if (text.length < BUFFER_BYTES) continue;
      await handle.writeFile(text);
      text = "";
    }
    await handle.writeFile(text);
    await handle.sync();
    return count;
  } finally {
    await handle.close();
  }
}

/** Names in order. @throws Error for a line that is none, or out of order, and what the file system says */
export function* readBlobList(path: string): Generator<string> {
  const fd = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(BUFFER_BYTES);
    let rest = "";
    let last = "";
    for (let read = readSync(fd, buffer); read > 0; read = readSync(fd, buffer)) {
      const lines = (rest + buffer.toString("latin1", 0, read)).split("\n");
      rest = lines.pop() as string;
      for (const line of lines) {
        const [, name] = NAME.exec(line) ?? [];
        if (name === undefined || lineOf(name) !== `${line}\n` || name <= last) {
          throw new Error(`"${line}" does not belong there`);
        }
        last = name;
        yield name;
      }
    }
    if (rest !== "") throw new Error("its last line is cut off");
  } finally {
    closeSync(fd);
  }
}

export interface Named {
  name: string;
  /** The places among the lists of those that have it. */
  of: number[];
}

/** What several ordered lists have, in order. */
export function* mergeNames(lists: readonly Iterable<string>[]): Generator<Named> {
  const readers = lists.map((list) => list[Symbol.iterator]());
  try {
    const heads = readers.map((reader) => reader.next());
    for (;;) {
      const names = heads.flatMap(({ done, value }) => (done ? [] : [value as string]));
      if (names.length === 0) return;
      const name = names.sort()[0] as string;
      const of = heads.flatMap(({ done, value }, i) => (!done && value === name ? [i] : []));
      yield { name, of };
      for (const i of of) heads[i] = (readers[i] as Iterator<string>).next();
    }
  } finally {
    for (const reader of readers) reader.return?.();
  }
}

/** Files read or written side by side, so that their fsyncs share the disk's. */
const LANES = 8;

/** Does `work` for each, some side by side. When it throws, what is under way ends before this does. */
export async function sideBySide<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  let failed = false;
  async function lane(): Promise<void> {
    for (let next = left.next(); !next.done && !failed; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: LANES }, lane));
  left.return?.();
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}
