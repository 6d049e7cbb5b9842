/**
 * Copies the blobs of a backup. Blobs never change, so the backup folder's are kept, unless they are damaged: their size
 * differs from the data folder's, or, with `reread`, their hash differs from their name.
 *
 * Invariant: only bytes with the hash in its name replace a blob of the backup folder.
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
  /** Number of migrations applied to the snapshot. */
  schema: number;
  blobs: number;
  copied: number;
  copiedBytes: number;
  /** Copied blobs that replaced damaged ones of the backup folder. */
  mended: number;
  /** Missing or damaged in the data folder, and so not in this backup. */
  lacking: string[];
}

/** Bytes; undefined for a missing file. */
const sizeOf = (path: string): Promise<number | undefined> =>
  stat(path).then(
    ({ size }) => size,
    (error) => {
      if (isMissing(error)) return undefined;
      throw error;
    },
  );

/** State of a blob in the backup folder. */
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
 * Copies the blobs that the snapshot in `unfinished` names and the backup folder lacks, and writes the list of them all.
 * @throws AppError conflict for a snapshot of a newer version; errors of the file system
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
      // A blob that the data folder has lost must not stop the backup of the rest.
      if (sha256 !== name) {
        lacking.add(name);
        return;
      }
      copies.copied++;
      copies.copiedBytes += size;
      if (state === "damaged") copies.mended++;
    });
    // All shards: an interrupted backup may have left blobs there without fsync, and this one counts them as whole.
    for (const shard of await namesIn(to)) await syncFolder(join(to, shard));
    await syncFolder(to);
    const there = snapshot.blobs().filter((name) => !lacking.has(name));
    const blobs = await writeBlobList(join(unfinished, BLOB_LIST), there);
    return { schema: snapshot.schema, blobs, lacking: [...lacking].sort(), ...copies };
  } finally {
    snapshot.close();
  }
}

/* Files that list blobs, ordered by name. They are read line by line and merged, so their size does not matter. */

const BUFFER_BYTES = 64 * 1024;
const NAME = /^([0-9a-f]{64}) {2}/;

/** A line for `sha256sum -c`: the name of a blob is its hash. */
const lineOf = (name: string): string => `${name}  ${BLOBS}/${name.slice(0, 2)}/${name.slice(2)}\n`;

/** Writes names, given in order, to a new file, durably. Returns their number. */
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

/** Names in order. @throws Error for an invalid line or one out of order; errors of the file system */
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
  /** Indexes of the lists that have it. */
  of: number[];
}

/** Merges ordered lists into one, each name once. */
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

/** Files read or written at once, so that their fsyncs share the disk's. */
const CONCURRENCY = 8;

/** Does `work` for each item, CONCURRENCY at once. When one throws, the others under way end first. */
export async function sideBySide<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  let failed = false;
  async function runSome(): Promise<void> {
    for (let next = left.next(); !next.done && !failed; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: CONCURRENCY }, runSome));
  left.return?.();
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}
