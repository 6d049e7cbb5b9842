/**
 * Serves the octets of messages to mail apps (../reading/served-octets.ts). Those that were not kept are frozen, because mail apps
 * keep what they fetched: size, digest, structure and the version of the composer are kept. That happens in a parser, soon
 * after mail is filed in a mailbox that was opened over IMAP, in portions for the mail that was there before, and in any case
 * before a message is served.
 */
import { and, eq, sql } from "drizzle-orm";
import { AppError, isUnavailable } from "../../base/errors.ts";
import { createMemoryRoom, type Room } from "../../base/memory.ts";
import type { Job } from "../../base/scheduler.ts";
import type { Content } from "../../message/imap-data.ts";
import { imapOctets, messages } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import { asUnavailable, type Store, type Tx } from "../../store/store.ts";
import {
  COMPOSER,
  type Composed,
  type ComposeStored,
  composeHeader,
  composeInParser,
  composeOctets,
  type Described,
  describeOctets,
} from "../reading/composers.ts";
import { describeKeptOctets, readKeptHeader } from "../reading/kept-octets.ts";
import {
  areSmallOctets,
  findServedOctets,
  listOctetsSources,
  type OctetsSource,
  readOctetsParts,
  readServedParts,
} from "../reading/served-octets.ts";
import type { MailCore } from "../state/mail-core.ts";

/** Values of imap_messages.octets. */
const READY = 1;
const LOST = 2;
const CHANGED = 3;

/** Most messages, and bytes beyond the first, that are frozen in one transaction. */
const PORTION = 64;
const PORTION_BYTES = 2 * 1024 * 1024;
/** New mail is frozen once no more has come for so long, or at last after LONGEST_MS: arriving mail goes first. */
const QUIET_MS = 2_000;
const LONGEST_MS = 60_000;
/** More than a portion takes: the clock was set meanwhile. */
const MOST_REST_MS = 5_000;
/** Large messages that were read last; apps fetch one part after the other. */
const MOST_KEPT = 4;
/** Bytes of large messages that the sessions of a person read at once, from files; one alone may have more. */
const MOST_READ = 128 * 1024 * 1024;

const among = sql`(select value from json_each(${sql.placeholder("seqs")}))`;
const statements = {
  // `octets <> 1`: the index has no others.
  // The newest of a folder first.
  waiting: statement<{ seq: number }, []>(
    `SELECT message_seq AS seq FROM imap_messages WHERE octets <> 1 AND octets = 0
     ORDER BY folder_id DESC, uid DESC LIMIT ${PORTION}`,
  ),
  unready: statement<{ octets: number; count: number }, []>(
    "SELECT octets, count(*) AS count FROM imap_messages WHERE octets <> 1 GROUP BY octets",
  ),
  all: statement<{ count: number }, []>("SELECT count(*) AS count FROM imap_messages"),
  kept: statement<{ seq: number }, [seqs: string]>(
    "SELECT message_seq AS seq FROM message_octets WHERE message_seq IN (SELECT value FROM json_each(?))",
  ),
  setState: statement<unknown, [state: number, seq: number]>(
    "UPDATE imap_messages SET octets = ? WHERE message_seq = ?",
  ),
};

const queries = prepared((db) => ({
  known: db
    .select({ seq: messages.seq, size: imapOctets.size, structure: imapOctets.structure })
    .from(imapOctets)
    .innerJoin(messages, eq(messages.seq, imapOctets.messageSeq))
    .where(
      and(
        sql`${imapOctets.messageSeq} in ${among}`,
        sql`${imapOctets.author} = (${messages.bcc} <> '[]' and ${messages.sentBy} is ${sql.placeholder("userId")})`,
      ),
    )
    .prepare(),
}));

/** A row of imap_octets but for its message. */
type Frozen = Omit<typeof imapOctets.$inferSelect, "messageSeq">;

/** Composes on this thread. */
export const createLocalComposer =
  ({ read }: Store["blobs"]): ComposeStored =>
  async (parts) => {
    const composed = await composeOctets(parts, read);
    return { ...describeOctets(composed), bytes: composed.content.bytes };
  };

/** Stored parts that octets are made of. */
type OctetsJobParts = Parameters<ComposeStored>[0];

/** Properties of octets that are known without reading them; null where only reading tells. */
export interface KnownOctets {
  size: number;
  envelope: string | null;
  structure: string | null;
}

export type Octets = ReturnType<typeof createOctets>;

export function createOctets(core: MailCore) {
  const { db, store, runtime, log, parser, wake } = core;
  /** Large messages, by `octetsKey`; the latest last. */
  const cache = new Map<string, Promise<Composed>>();
  /** Rooms by user id, so that the slow apps of one person hold up nobody else. */
  const rooms = new Map<string, Room>();
  let cancelTimer: (() => void) | undefined;
  /** Since when mail waits for the timer, epoch ms. */
  let since: number | undefined;

  const findSeqsOfKept = (seqs: readonly number[]): Set<number> =>
    new Set(
      statements
        .kept(db)
        .all(JSON.stringify(seqs))
        .map(({ seq }) => seq),
    );

  /** Looks for mail to freeze, soon. */
  function look(): void {
    if (!statements.waiting(db).get()) return;
    const now = runtime.now();
    since ??= now;
    cancelTimer?.();
    cancelTimer = runtime.setTimer(
      () => {
        since = undefined;
        wake(JOB);
      },
      Math.max(0, Math.min(QUIET_MS, since + LONGEST_MS - now)),
    );
  }
  store.onCommit(look);

  /** Composes what is to be kept of a message. Undefined if it cannot be composed. @throws AppError server_error 503 */
  async function frozenRows(source: OctetsSource): Promise<Frozen[] | undefined> {
    const authors = source.bcc.length > 0 && source.sentBy !== null ? [false, true] : [false];
    try {
      return await Promise.all(
        authors.map(async (author) => {
          return toFrozenRow(
            await parser.composeStored(readOctetsParts(db, source, { author, composer: COMPOSER })),
            author,
          );
        }),
      );
    } catch (error) {
      if (isUnavailable(error)) throw error;
      log.error(FAILED, { emailId: source.id, error });
      return undefined;
    }
  }

  /**
   * Freezes some of the mail that waits; returns whether there was any. @throws AppError server_error 503 if some of it cannot be
   * composed now; the rest is frozen
   */
  async function freezeSome(): Promise<boolean> {
    const seqs = statements
      .waiting(db)
      .all()
      .map(({ seq }) => seq);
    if (seqs.length === 0) return false;
    let bytes = 0;
    const kept = findSeqsOfKept(seqs);
    const sources = listOctetsSources(
      db,
      seqs.filter((seq) => !kept.has(seq)),
    ).filter((source, i) => {
      bytes += source.bytes;
      return bytes <= PORTION_BYTES || i === 0;
    });
    const all = await Promise.allSettled(sources.map(async (source) => ({ source, rows: await frozenRows(source) })));
    await store.enqueue((tx) => {
      for (const seq of kept) statements.setState(tx).run(READY, seq);
      for (const { value } of all.filter((one) => one.status === "fulfilled")) {
        const { source, rows } = value;
        if (rows) freeze(tx, source, rows, true);
        else statements.setState(tx).run(LOST, source.seq);
      }
    });
    const failed = all.find((one) => one.status === "rejected");
    if (failed) throw failed.reason;
    return true;
  }

  const octetsKey = ({ seq, filedAt }: OctetsSource, author: boolean): string => `${seq} ${filedAt} ${author}`;

  /** Composes a large message, or takes it from those that were read last. */
  function large(key: string, parts: () => OctetsJobParts, userId: string): Promise<Composed> {
    const present = cache.get(key);
    const composed = present ?? composeInParser(parser, parts(), userId);
    cache.delete(key);
    cache.set(key, composed);
    composed.catch(() => cache.delete(key));
    for (const oldest of cache.keys()) {
      if (cache.size <= MOST_KEPT) break;
      cache.delete(oldest);
    }
    return composed;
  }

  /** Makes octets, small ones on this thread. `key`: see octetsKey. @throws AppError server_error, 503 if it cannot be done now */
  async function makeOctets(
    source: OctetsSource,
    { key, isSmall, parts, userId }: { key: string; isSmall: boolean; parts(): OctetsJobParts; userId: string },
  ): Promise<Composed> {
    try {
      return await (isSmall ? composeOctets(parts(), store.blobs.read) : large(key, parts, userId));
    } catch (failure) {
      const error = asUnavailable(failure);
      if (isUnavailable(error)) throw error;
      log.error(FAILED, { emailId: source.id, error });
      throw new AppError("server_error", "The message cannot be read", { cause: error });
    }
  }

  /** Makes the octets of a message as that person sees it: those that were kept, or else composed and frozen. */
  async function contentFor(source: OctetsSource, userId: string): Promise<Content> {
    const served = findServedOctets(db, source, userId);
    const { author } = served;
    const composed = await makeOctets(source, {
      key: octetsKey(source, author),
      isSmall: areSmallOctets(source, served),
      parts: () => readServedParts(db, source, served),
      userId,
    });
    if (served.kept) return composed.content;
    const { frozen } = served;
    if (!frozen) {
      const row = toFrozenRow(describeOctets(composed), author);
      await store.enqueue((tx) => freeze(tx, source, [row], source.bcc.length === 0));
    } else if (!frozen.digest.equals(composed.digest)) {
      const { composer } = frozen;
      log.error("the octets of a message are no longer what a mail app was told", { emailId: source.id, composer });
      await store.enqueue((tx) => void statements.setState(tx).run(CHANGED, source.seq));
    }
    return composed.content;
  }

  /**
   * Runs `use` on the octets of a message (messages.seq) as that person sees them, frozen from now on; undefined if it is
   * gone. The caller checks access. @throws what composing throws
   */
  async function withContent<T>(
    seq: number,
    userId: string,
    use: (content: Content) => T | Promise<T>,
  ): Promise<T | undefined> {
    const [source] = listOctetsSources(db, [seq]);
    if (!source) return undefined;
    const room = rooms.get(userId) ?? createMemoryRoom(MOST_READ);
    rooms.set(userId, room);
    const leave = await room.enter(source.bytes);
    try {
      return await use(await contentFor(source, userId));
    } finally {
      leave();
    }
  }

  return {
    withContent,
    /** Returns what is known of the octets of these messages (messages.seq) as that person sees them, by messages.seq. */
    known(seqs: readonly number[], userId: string): Map<number, KnownOctets> {
      const known = new Map<number, KnownOctets>();
      for (const { seq, visibleSize, envelope, structure } of describeKeptOctets(db, seqs, userId).values())
        known.set(seq, { size: visibleSize, envelope, structure });
      const others = seqs.filter((seq) => !known.has(seq));
      if (others.length === 0) return known;
      for (const { seq, ...row } of queries(db).known.all({ seqs: JSON.stringify(others), userId }))
        known.set(seq, { ...row, envelope: null });
      return known;
    },
    /** The size of a message; undefined if it is gone or cannot be composed. @throws AppError server_error 503 */
    async findMessageSize(seq: number, userId: string): Promise<number | undefined> {
      const [source] = listOctetsSources(db, [seq]);
      if (!source) return undefined;
      const served = findServedOctets(db, source, userId);
      const size = served.kept ? served.kept.visibleSize : served.frozen?.size;
      if (size !== undefined) return size;
      return withContent(seq, userId, ({ bytes }) => bytes.byteLength).catch((error) => {
        if (!(error instanceof AppError) || isUnavailable(error)) throw error;
        return undefined;
      });
    },
    /** The header of a message; see withContent. */
    async header(seq: number, userId: string): Promise<Buffer | undefined> {
      const [source] = listOctetsSources(db, [seq]);
      if (!source) return undefined;
      const served = findServedOctets(db, source, userId);
      const header = served.kept && readKeptHeader(db, served.kept);
      if (header) return header;
      const { author } = served;
      const composer = served.kept ? undefined : served.frozen?.composer;
      if (composer !== undefined && !source.isPlain)
        return composeHeader(readOctetsParts(db, source, { author, composer, text: "" }));
      if (composer !== undefined && areSmallOctets(source, served))
        return composeHeader(readOctetsParts(db, source, { author, composer }));
      return withContent(seq, userId, ({ bytes, root }) => bytes.subarray(0, root.bodyStart));
    },
    look,
    /** The gauge of what is frozen. */
    samples(): [labels: { octets: string }, count: number][] {
      const others = new Map(
        statements
          .unready(db)
          .all()
          .map(({ octets, count }) => [octets, count]),
      );
      const [waiting = 0, lost = 0, changed = 0] = [0, LOST, CHANGED].map((state) => others.get(state));
      const ready = (statements.all(db).get()?.count ?? 0) - waiting - lost - changed;
      return Object.entries({ ready, waiting, lost, changed }).map(([octets, count]) => [{ octets }, count]);
    },
    job: {
      name: JOB,
      // Half of the time is left to other mail.
      async runDue(time) {
        if (!(await freezeSome())) return null;
        const now = runtime.now();
        return now + Math.min(now - time, MOST_REST_MS);
      },
    } satisfies Job as Job,
  };
}

const JOB = "freeze-octets";
const FAILED = "a message cannot be composed for mail apps";

const toFrozenRow = ({ digest, structure, size }: Described, author: boolean): Frozen => ({
  author,
  size,
  digest: Buffer.from(digest),
  composer: COMPOSER,
  structure,
});

/** Does nothing for a message that was deleted or written anew meanwhile. `isAll`: there are no further rows. */
function freeze(tx: Tx, { seq, filedAt }: OctetsSource, rows: readonly Frozen[], isAll: boolean): void {
  const [present] = listOctetsSources(tx, [seq]);
  if (present?.filedAt !== filedAt) return;
  for (const row of rows) {
    tx.insert(imapOctets)
      .values({ messageSeq: seq, ...row })
      .onConflictDoNothing()
      .run();
  }
  if (isAll) statements.setState(tx).run(READY, seq);
}
