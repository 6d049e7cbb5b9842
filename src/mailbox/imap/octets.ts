/**
 * Serves the octets of messages to mail apps: reads them in the room that a person has, and keeps large ones for the next
 * part that an app fetches.
 */
import { AppError, isUnavailable } from "../../base/errors.ts";
import { createMemoryRoom, type Room } from "../../base/memory.ts";
import type { Content } from "../../message/imap-data.ts";
import { asUnavailable } from "../../store/store.ts";
import { type Composed, composeOctets } from "../reading/composers.ts";
import { describeKeptOctets, type KeptDescription, listKeptHeaders, listKeptParts } from "../reading/kept-octets.ts";
import { findServedOctets, listServedOctets } from "../reading/missing-octets.ts";
import { areSmallOctets, readServedOctets } from "../reading/served-octets.ts";
import type { MailCore } from "../state/mail-core.ts";

/** Large messages that were read last; apps fetch one part after the other. */
const MOST_KEPT = 4;
/** Bytes of large messages that the sessions of a person read at once, from files; one alone may have more. */
const MOST_READ = 128 * 1024 * 1024;

/** Properties of octets that are known without reading them; null where only reading tells. */
export interface KnownOctets {
  size: number;
  envelope: string | null;
  structure: string | null;
}

export type Octets = ReturnType<typeof createOctets>;

export function createOctets(core: MailCore) {
  const { db, blobs, log } = core;
  /** Large messages, by what they are; the latest last. */
  const cache = new Map<string, Promise<Composed>>();
  /** Rooms by user id, so that the slow apps of one person hold up nobody else. */
  const rooms = new Map<string, Room>();

  /** Puts a large message together, or takes it from those that were read last. */
  function readLarge(kept: KeptDescription, userId: string): Promise<Composed> {
    const key = JSON.stringify([kept.seq, Buffer.from(kept.digest).toString("hex"), kept.hidden]);
    const composed = cache.get(key) ?? readServedOctets(core, kept, userId);
    cache.delete(key);
    cache.set(key, composed);
    composed.catch(() => cache.delete(key));
    for (const oldest of cache.keys()) {
      if (cache.size <= MOST_KEPT) break;
      cache.delete(oldest);
    }
    return composed;
  }

  /** @throws AppError server_error, 503 if it cannot be done now */
  async function readContent(kept: KeptDescription, userId: string): Promise<Content> {
    try {
      const { content } = await (areSmallOctets(kept) ? readServedOctets(core, kept, userId) : readLarge(kept, userId));
      return content;
    } catch (failure) {
      const error = asUnavailable(failure);
      if (isUnavailable(error)) throw error;
      log.error("the octets of a message cannot be put together", { emailId: kept.id, error });
      throw new AppError("server_error", "The message cannot be read", { cause: error });
    }
  }

  /**
   * Runs `use` on the octets of a message (messages.seq) as that person sees them; undefined if it is gone. The caller checks
   * access. @throws AppError server_error, 503 if it cannot be done now
   */
  async function withContent<T>(
    seq: number,
    userId: string,
    use: (content: Content) => T | Promise<T>,
  ): Promise<T | undefined> {
    const kept = await findServedOctets(core, seq, userId);
    if (!kept) return undefined;
    const room = rooms.get(userId) ?? createMemoryRoom(MOST_READ);
    rooms.set(userId, room);
    const leave = await room.enter(kept.size);
    try {
      // It may have been deleted or written anew while others were read.
      const present = kept.skeleton ? kept : describeKeptOctets(db, [seq], userId).get(seq);
      return present && (await use(await readContent(present, userId)));
    } finally {
      leave();
    }
  }

  return {
    withContent,
    /**
     * Reads small messages (messages.seq) together, as that person sees them, by messages.seq. Leaves to withContent those that
     * are large, lack octets or cannot be read.
     */
    async readSmall(seqs: readonly number[], userId: string): Promise<Map<number, Content>> {
      const small = [...describeKeptOctets(db, seqs, userId, "sizes").values()].filter(areSmallOctets);
      const contents = new Map<number, Content>();
      await Promise.all(
        [...listKeptParts(db, small)].map(async ([seq, parts]) => {
          const composed = await composeOctets(parts, blobs.read).catch(() => undefined);
          if (composed) contents.set(seq, composed.content);
        }),
      );
      return contents;
    },
    /** Reads the headers of messages (messages.seq) together, by messages.seq. Leaves some to `header`. */
    readHeaders: (seqs: readonly number[], userId: string): Map<number, Buffer> =>
      listKeptHeaders(db, [...describeKeptOctets(db, seqs, userId, "sizes").values()]),
    /**
     * Returns what is known of the octets of these messages (messages.seq) as that person sees them, by messages.seq. With
     * `sizes`, these alone are read.
     */
    async known(seqs: readonly number[], userId: string, what: "all" | "sizes"): Promise<Map<number, KnownOctets>> {
      const known = new Map<number, KnownOctets>();
      const found = await listServedOctets(core, seqs, userId, what);
      for (const { seq, visibleSize, envelope, structure } of found.values())
        known.set(seq, { size: visibleSize, envelope, structure });
      return known;
    },
    /** The size of a message; undefined if it is gone or cannot be composed. @throws AppError server_error 503 */
    async findMessageSize(seq: number, userId: string): Promise<number | undefined> {
      try {
        return (await findServedOctets(core, seq, userId))?.visibleSize;
      } catch (error) {
        if (isUnavailable(error)) throw error;
        return undefined;
      }
    },
    /** The header of a message; see withContent. */
    async header(seq: number, userId: string): Promise<Buffer | undefined> {
      const kept = await findServedOctets(core, seq, userId);
      return (
        (kept && listKeptHeaders(db, [kept]).get(seq)) ??
        withContent(seq, userId, ({ bytes, root }) => bytes.subarray(0, root.bodyStart))
      );
    },
  };
}
