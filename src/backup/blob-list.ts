/** Lists of blobs in files, ordered by name: read a line at a time, several side by side, so that any size will do. */
import { closeSync, openSync, readSync } from "node:fs";
import { open } from "node:fs/promises";
import { BLOBS } from "./layout.ts";

const BUFFER_BYTES = 64 * 1024;
const NAME = /^([0-9a-f]{64}) {2}/;

/** A line for `sha256sum -c`: the name of a blob is its hash. */
const lineOf = (name: string): string => `${name}  ${BLOBS}/${name.slice(0, 2)}/${name.slice(2)}\n`;

/** Writes names, which are in order, to a new file, and makes it durable; how many. */
export async function writeBlobList(path: string, names: Iterable<string>): Promise<number> {
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
