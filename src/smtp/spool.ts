/**
 * Holds messages and attachments while they are received, so that many at once do not fill the memory: small messages
 * in memory, large messages and attachments in files of the spool folder. Nothing here is durable: a message is
 * accepted when it is filed, an attachment when its draft names it.
 *
 * Invariant: a file exists only while its content is being received and filed; files that a crash left behind are
 * removed at the next start.
 */
import { createHash } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { type FileHandle, open, readFile, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import { collectGarbageSoon, createMemoryRoom, LARGE_BYTES } from "../base/memory.ts";
import { Refusal } from "./refusal.ts";

/** RFC 5321 §6.3: at least 100, so that long honest paths work. */
export const MOST_HOPS = 100;

/** The bytes of a message, or the path of the file that holds them. */
export type Source = Uint8Array | string;

export interface Received {
  readonly source: Source;
  /** Bytes. */
  readonly size: number;
  /** Number of Received header fields: the servers that it has passed. */
  readonly hops: number;
  /** The message was larger than allowed, and nothing of it was kept. */
  readonly tooLarge: boolean;
  /** Reads it into memory, once there is room for it. It takes the room until `dispose`. */
  read(): Promise<Uint8Array>;
  /** Resolves when it is disposed of. */
  readonly disposed: Promise<void>;
  dispose(): Promise<void>;
}

export type Spool = ReturnType<typeof openSpool>;

/** An attachment in a file. */
export interface SpooledFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 of the content, hex. */
  readonly sha256: string;
  /** Removes the file, unless it has been moved. */
  dispose(): Promise<void>;
}

/** Larger than most mail without attachments. */
const LARGEST_IN_MEMORY = 256 * 1024;
const SMALLEST_BUFFER = 16 * 1024;
/** Bytes of all messages together; beyond this, even small messages go to files. */
const MOST_IN_MEMORY = 32 * 1024 * 1024;

/**
 * Opens the spool of this process, and empties it. `room`: for messages that are read back into memory. @throws errors
 * of the file system
 */
export function openSpool(folder: string, room = createMemoryRoom()) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let count = 0;
  let inMemory = 0;

  /**
   * Reads a message to its end, even after a failure, because the reply comes after the last byte.
   * @throws Refusal aborted when `content` breaks off; errors of the file system
   */
  async function receive(content: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Received> {
    const hops = countReceived();
    const path = join(folder, `${++count}.eml`);
    // Chunks are copied into one buffer: the client decides how small they are, and a million of them must cost no
    // more.
    let buffer = new Uint8Array(0);
    let used = 0;
    let size = 0;
    let file: FileHandle | undefined;
    let failure: unknown;
    let leaveRoom = (): void => {};
    const disposed = Promise.withResolvers<void>();

    const replaceBuffer = (next: Uint8Array<ArrayBuffer>): void => {
      inMemory += next.byteLength - buffer.byteLength;
      buffer = next;
    };
    const release = (): void => {
      replaceBuffer(new Uint8Array(0));
      used = 0;
    };
    const dispose = async (): Promise<void> => {
      release();
      disposed.resolve();
      leaveRoom();
      leaveRoom = () => {};
      const opened = file;
      file = undefined;
      if (!opened) return;
      await opened.close();
      await unlink(path);
      if (size > LARGE_BYTES) collectGarbageSoon();
    };

    function grow(needed: number): void {
      const next = new Uint8Array(Math.max(SMALLEST_BUFFER, Math.min(2 * needed, LARGEST_IN_MEMORY)));
      next.set(buffer.subarray(0, used));
      replaceBuffer(next);
    }

    async function flush(): Promise<void> {
      await file?.appendFile(buffer.subarray(0, used));
      used = 0;
    }

    async function append(chunk: Uint8Array): Promise<void> {
      const needed = used + chunk.byteLength;
      if (!file && (needed > LARGEST_IN_MEMORY || inMemory > MOST_IN_MEMORY)) {
        file = await open(path, "wx", 0o600);
        if (buffer.byteLength === 0) grow(0);
      }
      if (needed > buffer.byteLength) {
        if (file) await flush();
        else grow(needed);
      }
      if (file && chunk.byteLength > buffer.byteLength) {
        await file.appendFile(chunk);
      } else {
        buffer.set(chunk, used);
        used += chunk.byteLength;
      }
    }

    try {
      for await (const chunk of content) {
        size += chunk.byteLength;
        if (failure !== undefined || size > maxBytes) {
          release();
          continue;
        }
        hops.feed(chunk);
        await append(chunk).catch((error) => {
          failure = error;
        });
      }
      if (file && failure === undefined) {
        await flush().catch((error) => {
          failure = error;
        });
        release();
      }
    } catch (error) {
      failure = new Refusal("aborted", error);
    }
    if (failure !== undefined) {
      await dispose();
      throw failure;
    }
    if (!file) replaceBuffer(buffer.slice(0, used));
    const source = file ? path : buffer;
    const read = async (): Promise<Uint8Array> => {
      leaveRoom = await room.enter(size);
      return readMessageSource(source);
    };
    return { source, size, hops: hops.count(), tooLarge: size > maxBytes, read, disposed: disposed.promise, dispose };
  }

  /**
   * Writes an attachment durably into a file. `check` gets the number of bytes so far, before they are written.
   * @throws errors of `content`, `check` and the file system
   */
  async function keep(
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    check: (size: number) => void,
  ): Promise<SpooledFile> {
    const path = join(folder, `${++count}.file`);
    const dispose = () => rm(path, { force: true });
    const hash = createHash("sha256");
    let size = 0;
    try {
      const file = await open(path, "wx", 0o600);
      try {
        for await (const chunk of content) {
          size += chunk.byteLength;
          check(size);
          hash.update(chunk);
          await file.appendFile(chunk);
        }
        await file.sync();
      } finally {
        await file.close();
      }
    } catch (error) {
      await dispose();
      throw error;
    }
    return { path, size, sha256: hash.digest("hex"), dispose };
  }

  return { receive, keep };
}

/** Reads the bytes of a message into memory. */
export async function readMessageSource(source: Source): Promise<Uint8Array> {
  return typeof source === "string" ? await readFile(source) : source;
}

const LINE_FEED = 0x0a;
const FIELD = "received:";

/** Counts the Received fields of a header as it comes in. */
function countReceived(): { feed(chunk: Uint8Array): void; count(): number } {
  let count = 0;
  let inHeader = true;
  /** The beginning of the current line, enough to recognise the field. */
  let line = "";
  return {
    feed(chunk) {
      for (let i = 0; inHeader && i < chunk.byteLength; i++) {
        const byte = chunk[i] as number;
        if (byte === LINE_FEED) {
          inHeader = line !== "" && line !== "\r";
          line = "";
        } else if (line.length < FIELD.length) {
          line += String.fromCharCode(byte);
          if (line.length === FIELD.length && line.toLowerCase() === FIELD) count++;
        }
      }
    },
    count: () => count,
  };
}
