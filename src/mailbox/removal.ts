/**
 * Deletes mail for good, in portions of whole conversations, so that none is ever half deleted. Bodies, attachments,
 * labels and index rows follow by foreign key and trigger; blobs are swept later.
 */
import { and, eq, inArray, sum } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { type Folder, messages, threads } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { deleteLearned } from "./junk/filter.ts";
import { isDraft, type ThreadRow } from "./threading.ts";
import { addUsage } from "./usage.ts";

/** Conversations examined for one portion; each has at least one message. */
const MOST_THREADS = 500;

/**
 * Deletes a mailbox's mail until about `limit` messages are gone, at least one conversation. What the mailbox has
 * learned goes last. False if nothing was left.
 */
export const deleteMail = (tx: Tx, mailboxId: string, limit: number): boolean =>
  deletePortion(tx, mailboxId, limit) > 0 || deleteLearned(tx, mailboxId);

/** The same for one folder; returns the number of conversations, 0 if it is empty. */
export function deletePortion(tx: Tx, mailboxId: string, limit: number, folder?: Folder): number {
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
  throw new AppError("conflict", "Only drafts, and what is in trash or spam, can be deleted: move it there first");
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
  addUsage(tx, mailboxId, -(freed?.bytes ?? 0));
}
