/** Deleting the mail of a mailbox that is being removed, in portions: whole conversations, so that none is seen half. */
import { eq, inArray, sum } from "drizzle-orm";
import { messages, threads } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { deleteLearned } from "./junk/filter.ts";
import { addUsage } from "./usage.ts";

/** Conversations looked at for one portion; each has a message at least. */
const MOST_THREADS = 500;

/**
 * Deletes conversations of the mailbox until about `limit` messages are gone, one conversation at least. Bodies,
 * attachments, labels and index rows follow by foreign key and trigger; blobs are swept later. What the mailbox has
 * learned goes last. False when nothing was left.
 */
export function deleteMail(tx: Tx, mailboxId: string, limit: number): boolean {
  const candidates = tx
    .select({ seq: threads.seq, messageCount: threads.messageCount })
    .from(threads)
    .where(eq(threads.mailboxId, mailboxId))
    .limit(Math.min(limit, MOST_THREADS))
    .all();
  if (candidates.length === 0) return deleteLearned(tx, mailboxId);
  let count = 0;
  const portion: number[] = [];
  for (const thread of candidates) {
    if (count >= limit) break;
    portion.push(thread.seq);
    count += thread.messageCount;
  }
  const freed = tx
    .select({ bytes: sum(messages.size).mapWith(Number) })
    .from(messages)
    .where(inArray(messages.threadSeq, portion))
    .get();
  tx.delete(threads).where(inArray(threads.seq, portion)).run();
  addUsage(tx, mailboxId, -(freed?.bytes ?? 0));
  return true;
}
