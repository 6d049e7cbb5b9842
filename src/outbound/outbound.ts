/**
 * Reads the outbound queue (queue.ts): the content of messages under way, their recipients, and the entries that wait.
 */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import { outboundContents, outboundMessages, type QueueState, queueEntries } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store } from "../store/store.ts";
import type { OutboundContent, OutboundMessage, QueueEntry } from "./queue.ts";

/** A recipient that is waiting or held, as the operator sees it. Times are epoch ms. */
export interface Unsettled {
  /** Grows with the age of the queue: where the entry stands among those in its state. */
  seq: number;
  id: string;
  workspaceId: string;
  emailId: string;
  messageId: string;
  /** Address it was sent from. */
  mailbox: string;
  recipient: string;
  field: QueueEntry["field"];
  state: QueueState;
  attempts: number;
  /** An attempt is under way. */
  attempting: boolean;
  /** Null while an attempt is under way, and for what is held. */
  nextAttemptAt: number | null;
  reply: string | null;
  acceptedAt: number;
}

const LIST_PAGE = 500;
/** How long a count of waiting entries is reused: counting a million takes some milliseconds. */
const COUNT_MS = 1_000;

const reading = prepared((db) => ({
  content: db
    .select()
    .from(outboundContents)
    .where(eq(outboundContents.messageSeq, sql.placeholder("messageSeq")))
    .prepare(),
  byReturnPath: db
    .select()
    .from(outboundMessages)
    .where(eq(outboundMessages.returnPath, sql.placeholder("returnPath")))
    .prepare(),
  byMessageId: db
    .select()
    .from(outboundMessages)
    .where(eq(outboundMessages.messageId, sql.placeholder("messageId")))
    .orderBy(asc(outboundMessages.seq))
    .prepare(),
  entries: db
    .select()
    .from(queueEntries)
    .where(eq(queueEntries.messageSeq, sql.placeholder("messageSeq")))
    .orderBy(asc(queueEntries.seq))
    .prepare(),
  unsettled: db
    .select({ count: sql<number>`count(*)` })
    .from(queueEntries)
    .where(sql`${queueEntries.state} IN ('waiting', 'held')`)
    .prepare(),
}));

/** The content to transmit; undefined once every recipient is settled. */
export function contentOf(db: Db, messageSeq: number): OutboundContent | undefined {
  const row = reading(db).content.get({ messageSeq });
  if (row?.bytes) return { bytes: row.bytes };
  return row?.blob ? { blob: row.blob, size: row.size } : undefined;
}

/** The same as bytes. @throws Error when there is none; the error of the file system */
export async function readContent({ db, blobs }: Pick<Store, "db" | "blobs">, messageSeq: number): Promise<Uint8Array> {
  const content = contentOf(db, messageSeq);
  if (content === undefined) throw new Error(`outbound message ${messageSeq} has no content`);
  return "bytes" in content ? content.bytes : blobs.read(content.blob);
}

/** The message with this reverse-path, in lower case. */
export function findByReturnPath(db: Db, returnPath: string): OutboundMessage | undefined {
  return reading(db).byReturnPath.get({ returnPath });
}

/** Those sent with that Message-ID (with its angle brackets), the oldest first. */
export function findByMessageId(db: Db, messageId: string): OutboundMessage[] {
  return reading(db).byMessageId.all({ messageId });
}

/** Every recipient of a message, in its order. */
export function entriesOf(db: Db, messageSeq: number): QueueEntry[] {
  return reading(db).entries.all({ messageSeq });
}

const counts = prepared((_db) => ({ at: Number.NEGATIVE_INFINITY, count: 0 }));

/** Recipients waiting or held, as of at most a second ago. `now`: epoch ms. */
export function waitingCount(db: Db, now: number): number {
  const last = counts(db);
  if (Math.abs(now - last.at) >= COUNT_MS) {
    last.at = now;
    last.count = reading(db).unsettled.get()?.count ?? 0;
  }
  return last.count;
}

/** Where an entry stands in listUnsettled. */
export interface QueuePosition {
  state: (typeof UNSETTLED)[number];
  seq: number;
}

const UNSETTLED = ["waiting", "held"] as const;

/**
 * The recipients of a workspace, or of all, that are not settled: waiting, then held; of either the oldest first. `from`:
 * only those that stand after it.
 */
export function* listUnsettled(db: Db, workspaceId?: string, from?: QueuePosition): Generator<Unsettled> {
  for (const state of UNSETTLED.slice(from && UNSETTLED.indexOf(from.state))) {
    let after = from?.state === state ? from.seq : 0;
    for (;;) {
      const rows = db
        .select({ entry: queueEntries, message: outboundMessages })
        .from(queueEntries)
        .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
        .where(
          and(
            sql`${queueEntries.state} = ${sql.raw(`'${state}'`)}`,
            gt(queueEntries.seq, after),
            workspaceId === undefined ? undefined : eq(outboundMessages.workspaceId, workspaceId),
          ),
        )
        .orderBy(asc(queueEntries.seq))
        .limit(LIST_PAGE)
        .all();
      for (const { entry, message } of rows) yield unsettledView(entry, message);
      const last = rows.at(-1);
      if (last === undefined || rows.length < LIST_PAGE) break;
      after = last.entry.seq;
    }
  }
}

function unsettledView(entry: QueueEntry, message: OutboundMessage): Unsettled {
  const { id, seq, recipient, field, state, attempts, reply, leased } = entry;
  const { workspaceId, id: emailId, messageId, mailbox, acceptedAt } = message;
  const nextAttemptAt = leased ? null : entry.dueAt;
  return {
    id,
    seq,
    workspaceId,
    emailId,
    messageId,
    mailbox,
    acceptedAt,
    recipient,
    field,
    state,
    attempts,
    attempting: leased,
    nextAttemptAt,
    reply,
  };
}
