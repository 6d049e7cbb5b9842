/**
 * Where a message waits while it is received: small ones in memory, large ones in a file of the spool folder, so that
 * many at once do not fill the memory. Nothing here is durable: a message counts from its filing.
 *
 * Invariant: a file exists only while its message is received and filed; what a crash left behind goes at the next start.
 */
import { mkdirSync, rmSync } from "node:fs";
import { type FileHandle, open, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { Refusal } from "./refusal.ts";

/** A message as received: its bytes, or the path of the file that holds them. */
export type Source = Uint8Array | string;

export interface Received {
  readonly source: Source;
  /** Bytes. */
  readonly size: number;
  /** Received header fields: how many servers it has passed. */
  readonly hops: number;
  /** Larger than it may be: nothing of it was kept. */
  readonly tooLarge: boolean;
  dispose(): Promise<void>;
}

export interface Spool {
  /**
   * Takes in a message to its end, whatever happens on the way, and then says what came of it.
   * @throws Refusal aborted when `content` breaks off; what the file system says
   */
  receive(content: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Received>;
}

/** Larger than most mail without attachments. */
const LARGEST_IN_MEMORY = 256 * 1024;
/** Of all messages together; beyond it even small ones go to files. */
const MOST_IN_MEMORY = 32 * 1024 * 1024;

/** Opens the spool of this process, empty. @throws what the file system says */
export function openSpool(folder: string): Spool {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let count = 0;
  let inMemory = 0;

  async function receive(content: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Received> {
    const hops = countReceived();
    const path = join(folder, `${++count}.eml`);
    let chunks: Uint8Array[] = [];
    let held = 0;
    let size = 0;
    let file: FileHandle | undefined;
    let failure: unknown;

    const release = (): void => {
      chunks = [];
      inMemory -= held;
      held = 0;
    };
    const dispose = async (): Promise<void> => {
      release();
      await file?.close();
      if (file) await unlink(path);
      file = undefined;
    };

    async function keep(chunk: Uint8Array): Promise<void> {
      if (!file) {
        chunks.push(chunk);
        held += chunk.byteLength;
        inMemory += chunk.byteLength;
        if (size <= LARGEST_IN_MEMORY && inMemory <= MOST_IN_MEMORY) return;
        file = await open(path, "wx", 0o600);
        const sofar = joined(chunks, size);
        release();
        await file.appendFile(sofar);
      } else {
        await file.appendFile(chunk);
      }
    }

    try {
      // Read to the end even when it is lost already: the reply belongs after the last byte.
      for await (const chunk of content) {
        size += chunk.byteLength;
        if (failure !== undefined || size > maxBytes) {
          release();
          continue;
        }
        hops.feed(chunk);
        await keep(chunk).catch((error) => {
          failure = error;
        });
      }
    } catch (error) {
      failure = new Refusal("aborted", error);
    }
    if (failure !== undefined) {
      await dispose();
      throw failure;
    }
    const source = file ? path : joined(chunks, held);
    chunks = [];
    return { source, size, hops: hops.count(), tooLarge: size > maxBytes, dispose };
  }

  return { receive };
}

/** Bytes in an ArrayBuffer of their own, so that handing them to a worker copies nothing else. */
function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/** The bytes of a message, in memory. */
export async function readSource(source: Source): Promise<Uint8Array> {
  return typeof source === "string" ? await readFile(source) : source;
}

const LINE_FEED = 0x0a;
const FIELD = "received:";

/** Counts the Received fields of a header as it comes in. */
function countReceived(): { feed(chunk: Uint8Array): void; count(): number } {
  let count = 0;
  let inHeader = true;
  /** The beginning of the present line, as much of it as tells. */
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
