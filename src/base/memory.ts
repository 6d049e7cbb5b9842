/** The memory of the machine, and what large messages take of it. */
import { totalmem } from "node:os";

/** Bytes. A larger message has a parser for itself, waits until there is room, and leaves no garbage. */
export const LARGE_BYTES = 4 * 1024 * 1024;

/** Bytes that this process may use: the machine's memory, or what a container or systemd (MemoryMax) allows of it. */
export const memoryLimit = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

/** A large message takes up to so many times its size while it is prepared. */
export const TIMES_ITS_SIZE = 15;
/** Most bytes of large messages at one stage. */
export const largeMessageMemoryLimit = (): number => memoryLimit() / (TIMES_ITS_SIZE + 1);

const MB = 1024 * 1024;
/** Bytes that extracting the text of one document may take. */
export const documentMemory = (): number => Math.min(512 * MB, Math.max(64 * MB, memoryLimit() / 8));

/**
 * Bytes that a parser has once its code is loaded and has read some mail, and those that it may grow by between two looks at
 * it.
 */
const PARSER_BYTES = 192 * MB;
/** Bytes of its own that a parser may have while its tasks take `bytes`. */
export const parserMemory = (bytes: number): number => PARSER_BYTES + bytes;

/** Bytes of its own that a reader may have. It has some 40 MB once its code is loaded. */
export const readerMemory = (): number => Math.min(512 * MB, Math.max(128 * MB, memoryLimit() / 8));

let isCollecting = false;

/**
 * Collects the garbage of this thread after its present work, in some 15 ms. Left to itself, the engine lets it grow to
 * as much again as was in use at its last collection, perhaps in the middle of a large message.
 */
export function collectGarbageSoon(): void {
  if (isCollecting) return;
  isCollecting = true;
  setImmediate(() => {
    isCollecting = false;
    Bun.gc(true);
  });
}

/**
 * Collects the garbage of this thread, and resolves afterwards. Its caller has left the stack by then, which would keep objects
 * that are no longer used.
 */
export async function collectGarbage(): Promise<void> {
  collectGarbageSoon();
  await new Promise((resolve) => setImmediate(resolve));
}

export type Room = ReturnType<typeof createMemoryRoom>;

/**
 * Lets large messages into memory in the order in which they ask, `most` bytes at once; one alone may have more.
 */
export function createMemoryRoom(most = largeMessageMemoryLimit()) {
  const waiting: { bytes: number; admit(): void }[] = [];
  let taken = 0;

  function admit(): void {
    for (let next = waiting[0]; next && (taken === 0 || taken + next.bytes <= most); next = waiting[0]) {
      waiting.shift();
      taken += next.bytes;
      next.admit();
    }
  }

  return {
    /** Resolves once there is room, at once for a small message. The result gives the room back. */
    async enter(bytes: number): Promise<() => void> {
      if (bytes <= LARGE_BYTES) return () => {};
      await new Promise<void>((resolve) => {
        waiting.push({ bytes, admit: resolve });
        admit();
      });
      return () => {
        taken -= bytes;
        admit();
        collectGarbageSoon();
      };
    },
  };
}
