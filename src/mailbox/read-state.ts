/** Read and unread: of each message, and of the conversation, which is unread while any of its messages is. */
import { and, desc, eq, sql } from "drizzle-orm";
import { messages, threads } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

/** Every message of the conversation is read. */
export function markRead(tx: Tx, threadSeq: number): void {
  tx.update(messages)
    .set({ read: true })
    .where(and(eq(messages.threadSeq, threadSeq), eq(messages.read, false)))
    .run();
  tx.update(threads).set({ unread: false }).where(eq(threads.seq, threadSeq)).run();
}

/** The newest received message is unread; where none was received, the newest. */
export function markUnread(tx: Tx, threadSeq: number): void {
  const newest = tx
    .select({ seq: messages.seq })
    .from(messages)
    .where(eq(messages.threadSeq, threadSeq))
    .orderBy(sql`${messages.kind} = 'received' desc`, desc(messages.date), desc(messages.seq))
    .limit(1)
    .get();
  if (newest) tx.update(messages).set({ read: false }).where(eq(messages.seq, newest.seq)).run();
  tx.update(threads).set({ unread: true }).where(eq(threads.seq, threadSeq)).run();
}
