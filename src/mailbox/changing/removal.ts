/**
 * Deletes mail for good: of a mailbox, of a folder, discarded long ago. Works in portions of whole conversations, so
 * that none is ever half deleted. Bodies, attachments, labels and index rows follow by foreign key and trigger; the
 * sweep then removes the blobs that nothing names any more.
 */
import { and, asc, eq, inArray, isNotNull, isNull, lte, ne, sql, sum } from "drizzle-orm";
import { AppError } from "../../base/errors.ts";
import type { Job } from "../../base/scheduler.ts";
import { type Moved, type MoveRequest, moveBlobsToFiles, moveBlobsToS3 } from "../../store/blob-move.ts";
import { claimBlobMove } from "../../store/claim.ts";
import type { Core, Reader } from "../../store/core.ts";
import {
  attachments,
  discardedMessages,
  discardedThreads,
  type Folder,
  holds,
  messageOctets,
  messages,
  outboundContents,
  threadReferences,
  threads,
} from "../../store/schema.ts";
import { blobNames } from "../../store/snapshot.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { isDraft, remainingThreadState, type ThreadRow } from "../filing/threading.ts";
import { deleteJunkFilterPortion } from "../junk/junk-filter.ts";
import { addMailboxUsage } from "../state/mailboxes.ts";
import { deriveThreadFolder } from "../state/message-state.ts";
import { noteThreadChange } from "./change-feed.ts";

/** Conversations examined for one portion; each has at least one message. */
const MOST_THREADS = 500;

/**
 * Deletes a mailbox's mail until about `limit` messages are gone, at least one conversation; then its junk
 * filter. False if nothing was left.
 */
export const deleteMailboxMailPortion = (tx: Tx, mailboxId: string, limit: number): boolean =>
  deleteConversationPortion(tx, mailboxId, limit) > 0 || deleteJunkFilterPortion(tx, mailboxId);

/**
 * Deletes mail of a mailbox, or of one of its folders, until about `limit` messages are gone, at least one conversation.
 * Returns the number of conversations, 0 if there were none.
 */
export function deleteConversationPortion(tx: Tx, mailboxId: string, limit: number, folder?: Folder): number {
  const candidates = tx
    .select({ seq: threads.seq, messageCount: threads.messageCount })
    .from(threads)
    .where(and(eq(threads.mailboxId, mailboxId), folder === undefined ? undefined : eq(threads.folder, folder)))
    .limit(Math.min(limit, MOST_THREADS))
    .all();
  let count = 0;
  const portion: number[] = [];
  for (const thread of candidates) {
    if (count >= limit) break;
    portion.push(thread.seq);
    count += thread.messageCount;
  }
  deleteConversations(tx, mailboxId, portion);
  return portion.length;
}

/** @throws AppError conflict unless it is a draft or in trash or spam */
export function requireDeletable(tx: Tx, { folder, seq }: ThreadRow): void {
  if (folder === "trash" || folder === "spam" || isDraft(tx, seq)) return;
  throw new AppError("conflict", "Only drafts and mail in trash or spam can be deleted: move it to trash first");
}

/** Deletes conversations of one mailbox, by threads.seq. */
export function deleteConversations(tx: Tx, mailboxId: string, portion: readonly number[]): void {
  if (portion.length === 0) return;
  const freed = tx
    .select({ bytes: sum(messages.size).mapWith(Number) })
    .from(messages)
    .where(inArray(messages.threadSeq, portion))
    .get();
  tx.delete(threads).where(inArray(threads.seq, portion)).run();
  addMailboxUsage(tx, mailboxId, -(freed?.bytes ?? 0));
}

/**
 * Deletes messages (messages.seq) of a conversation, and the conversation with its last one. The rest of it stays where it
 * is, and answers to the deleted ones still join it.
 */
export function deleteMessages(tx: Tx, thread: ThreadRow, seqs: readonly number[]): void {
  const rows = tx.select().from(messages).where(eq(messages.threadSeq, thread.seq)).all();
  const isGone = new Set(seqs);
  const [gone, left] = [rows.filter(({ seq }) => isGone.has(seq)), rows.filter(({ seq }) => !isGone.has(seq))];
  if (gone.length === 0) return;
  if (left.length === 0) {
    deleteConversations(tx, thread.mailboxId, [thread.seq]);
    return;
  }
  tx.delete(messages)
    .where(
      inArray(
        messages.seq,
        gone.map(({ seq }) => seq),
      ),
    )
    .run();
  addMailboxUsage(tx, thread.mailboxId, -gone.reduce((bytes, { size }) => bytes + size, 0));
  for (const { messageId } of gone) {
    if (messageId === null) continue;
    tx.insert(threadReferences)
      .values({ mailboxId: thread.mailboxId, messageId, threadSeq: thread.seq })
      .onConflictDoNothing()
      .run();
  }
  const folder = deriveThreadFolder(tx, thread.seq);
  tx.update(threads)
    .set({ ...remainingThreadState(left), folder, ...(folder !== thread.folder && { snoozedUntil: null }) })
    .where(eq(threads.seq, thread.seq))
    .run();
  noteThreadChange(tx, thread);
}

/** Messages deleted in one transaction whose conversation stays; each may be in a long one. */
const APART_PORTION = 20;

/** Deletes a portion of the messages in a folder whose conversation is elsewhere; returns their number. */
export function deleteApart(tx: Tx, mailboxId: string, folder: "trash" | "spam"): number {
  const found = tx
    .select({ seq: messages.seq, threadSeq: messages.threadSeq })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(and(eq(messages.mailboxId, mailboxId), eq(messages.folder, folder), ne(threads.folder, folder)))
    .limit(APART_PORTION)
    .all();
  deleteAmong(tx, found);
  return found.length;
}

function deleteAmong(tx: Tx, found: readonly { seq: number; threadSeq: number }[]): void {
  for (const [threadSeq, ofThread] of Map.groupBy(found, (one) => one.threadSeq)) {
    const thread = tx.select().from(threads).where(eq(threads.seq, threadSeq)).get();
    const seqs = ofThread.map(({ seq }) => seq);
    if (thread) deleteMessages(tx, thread, seqs);
  }
}

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;
/** The job runs this many times within retention.trashDays, but not more or less often than these times apart. */
const RUNS = 24;
const SHORTEST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = HOUR_MS;
/** Conversations deleted in one transaction; each may be long. */
const PORTION = 20;

/** Deletes a portion of what was discarded by `before` (epoch ms); returns the number of conversations. */
function deleteExpired(tx: Tx, before: number): number {
  const expired = tx
    .select({ seq: threads.seq, mailboxId: threads.mailboxId })
    .from(discardedThreads)
    .innerJoin(threads, eq(threads.seq, discardedThreads.threadSeq))
    .where(lte(discardedThreads.since, before))
    .orderBy(asc(discardedThreads.since))
    .limit(PORTION)
    .all();
  for (const [mailboxId, rows] of Map.groupBy(expired, (row) => row.mailboxId)) {
    deleteConversations(
      tx,
      mailboxId,
      rows.map(({ seq }) => seq),
    );
  }
  return expired.length;
}

/** Deletes a portion of the messages that were discarded alone by `before` (epoch ms); returns their number. */
function deleteExpiredMessages(tx: Tx, before: number): number {
  const expired = tx
    .select({ seq: messages.seq, threadSeq: messages.threadSeq })
    .from(discardedMessages)
    .innerJoin(messages, eq(messages.seq, discardedMessages.messageSeq))
    .where(lte(discardedMessages.since, before))
    .orderBy(asc(discardedMessages.since))
    .limit(APART_PORTION)
    .all();
  deleteAmong(tx, expired);
  return expired.length;
}

/**
 * Deletes for good what has been in trash or spam for retention.trashDays (rules: Spam retention). Triggers record the
 * conversations and messages; this job records the time at its next run, even while the setting is off.
 */
export function deleteDiscarded({ store, options }: Core): Job {
  return {
    name: "delete-discarded",
    deletes: true,
    async runDue(now) {
      await store.enqueue((tx) => {
        for (const table of [discardedThreads, discardedMessages]) {
          tx.update(table).set({ since: now }).where(isNull(table.since)).run();
        }
      });
      const days = options.get("retention.trashDays");
      if (days === "off") return now + LONGEST_WAIT_MS;
      const retentionMs = days * DAY_MS;
      while ((await store.enqueue((tx) => deleteExpired(tx, now - retentionMs))) > 0);
      while ((await store.enqueue((tx) => deleteExpiredMessages(tx, now - retentionMs))) > 0);
      return now + Math.max(SHORTEST_WAIT_MS, Math.min(retentionMs / RUNS, LONGEST_WAIT_MS));
    },
  };
}

/** First sweep after a start, when the server is less busy; then once a day. */
const FIRST_SWEEP_MS = HOUR_MS;
const SWEEP_INTERVAL_MS = DAY_MS;

/** Query for those of the given blobs that a message, the outbound queue or a held message names. */
const named = prepared((db) => {
  const among = sql`(select value from json_each(${sql.placeholder("names")}))`;
  return db
    .select({ blob: attachments.blob })
    .from(attachments)
    .where(inArray(attachments.blob, among))
    .union(
      db
        .select({ blob: sql<string>`${messageOctets.blob}` })
        .from(messageOctets)
        .where(and(isNotNull(messageOctets.blob), inArray(messageOctets.blob, among))),
    )
    .union(
      db
        .select({ blob: sql<string>`${outboundContents.blob}` })
        .from(outboundContents)
        .where(and(isNotNull(outboundContents.blob), inArray(outboundContents.blob, among))),
    )
    .union(
      db
        .select({ blob: sql<string>`${holds.blob}` })
        .from(holds)
        .where(and(isNotNull(holds.blob), inArray(holds.blob, among))),
    )
    .prepare();
});

const namedAmong =
  (db: Db) =>
  (names: string[]): Set<string> =>
    new Set(
      named(db)
        .all({ names: JSON.stringify(names) })
        .map(({ blob }) => blob),
    );

/**
 * Removes blobs that no message, held or not, and not the outbound queue names; returns their number, or undefined during a
 * backup, or while the place of blobs is unavailable. Blobs of the hour before `now` (epoch ms) stay, because a blob is older than its row, which commits
 * afterwards.
 */
export const sweepUnnamedBlobs = (
  { db, blobs }: Pick<Reader, "db" | "blobs">,
  now: number,
): Promise<number | undefined> => blobs.sweep(now - HOUR_MS, namedAmong(db));

/**
 * Moves blobs to S3 or back into files (store/blob-move.ts). @throws AppError conflict without a place in S3, or beside
 * another move
 */
export async function moveBlobs(
  { db, runtime, store: { remote } }: Core,
  to: Moved["to"],
  rest: Pick<MoveRequest, "isInterrupted" | "onProgress">,
): Promise<Moved> {
  if (!remote) throw new AppError("conflict", "set MAILROOM_BLOBS to the place in S3");
  const release = claimBlobMove(remote.data);
  if (!release) throw new AppError("conflict", "another move is under way");
  try {
    const move = to === "s3" ? moveBlobsToS3 : moveBlobsToFiles;
    return await move({ ...rest, runtime, remote, isNamed: namedAmong(db), names: () => blobNames(db) });
  } finally {
    release();
  }
}

/** Removes unnamed blobs once a day. */
export function sweepBlobs({ db, blobs, log }: Core): Job {
  let next: number | undefined;
  return {
    name: "sweep-blobs",
    deletes: true,
    async runDue(now, wasAhead) {
      if (wasAhead) next = undefined;
      next ??= now + FIRST_SWEEP_MS;
      if (now < next) return next;
      const removed = await sweepUnnamedBlobs({ db, blobs }, now);
      // A running backup's database names blobs of messages that existed when it began.
      if (removed === undefined) {
        next = now + HOUR_MS;
        return next;
      }
      if (removed > 0) log.info("removed files that nothing names", { removed });
      next = now + SWEEP_INTERVAL_MS;
      return next;
    },
  };
}
