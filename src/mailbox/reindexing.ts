/**
 * The search index made anew from the mail that is stored, in portions: what is not reached yet is still found by its old
 * entry, and mail that is filed meanwhile has its entry already.
 */
import { asc, eq, gt, inArray, sql } from "drizzle-orm";
import type { SearchEngine } from "../search/engine.ts";
import { foldDocument } from "../search/fold.ts";
import { prepared } from "../store/prepared.ts";
import { attachments, mailboxes, messageBodies, messages } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

const statements = prepared((db) => ({
  portion: db
    .select({
      ...{ seq: messages.seq, mailboxId: messages.mailboxId, workspaceId: mailboxes.workspaceId },
      ...{ subject: messages.subject, from: messages.from, to: messages.to, cc: messages.cc },
      text: messageBodies.text,
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .innerJoin(mailboxes, eq(mailboxes.id, messages.mailboxId))
    .where(gt(messages.seq, sql.placeholder("after")))
    .orderBy(asc(messages.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
  files: db
    .select({ messageSeq: attachments.messageSeq, filename: attachments.filename })
    .from(attachments)
    .where(inArray(attachments.messageSeq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
    .orderBy(asc(attachments.messageSeq), asc(attachments.position))
    .prepare(),
}));

export interface Reindexing {
  /**
   * Makes the entries of `limit` messages after the one numbered `after`, 0 before the first; `last`, the number to go on
   * after, is undefined when there are no more.
   */
  portion(tx: Tx, after: number, limit: number): { messages: number; last: number | undefined };
  /** Takes out the entries of messages that are gone. */
  prune(tx: Tx): void;
  /** Whether the index cannot be read, so that it has to be emptied first. */
  isDamaged(): boolean;
  /** Takes out all entries. */
  empty(tx: Tx): void;
}

export const createReindexing = (
  engine: Pick<SearchEngine, "replace" | "prune" | "isDamaged" | "empty">,
): Reindexing => ({
  portion(tx, after, limit) {
    const portion = statements(tx).portion.all({ after, limit });
    const filenames = new Map<number, string[]>(portion.map(({ seq }) => [seq, []]));
    const seqs = JSON.stringify([...filenames.keys()]);
    for (const { messageSeq, filename } of statements(tx).files.all({ seqs }))
      filenames.get(messageSeq)?.push(filename);
    for (const { seq, workspaceId, mailboxId, from, ...rest } of portion) {
      const document = foldDocument({ ...rest, from: [from], filenames: filenames.get(seq) ?? [] });
      engine.replace(tx, seq, { workspaceId, mailboxId }, document);
    }
    return { messages: portion.length, last: portion.at(-1)?.seq };
  },
  prune: engine.prune,
  isDamaged: engine.isDamaged,
  empty: engine.empty,
});
