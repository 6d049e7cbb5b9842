/**
 * Drafts as the app opens them, to be reviewed, changed, sent or discarded. Who opens one to send it becomes its sender,
 * and so sees every recipient, Bcc too (contract: Bcc).
 */
import { and, desc, eq, sql } from "drizzle-orm";
import { type Caller, type Reach, requireAccess } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import type { EmailAddress } from "../message/address.ts";
import { prepared } from "../store/prepared.ts";
import { messageBodies, messages, threads } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { reachedThread } from "./change.ts";
import { decompressHtml } from "./message-view.ts";
import { deleteConversations } from "./removal.ts";

export interface Draft {
  reach: Reach;
  from: EmailAddress;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  subject: string;
  text: string;
  /** As it was written, not sanitised. */
  html?: string;
  /** In-Reply-To and References. */
  headers: [name: string, value: string][];
  /** Id of the conversation that it answers, if that is there still. */
  answers?: string;
}

const statements = prepared((db) => ({
  draft: db
    .select({ message: messages, body: messageBodies })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(and(eq(messages.threadSeq, sql.placeholder("threadSeq")), eq(messages.kind, "draft")))
    .orderBy(desc(messages.seq))
    .limit(1)
    .prepare(),
  answered: db
    .select({ threadId: threads.id })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(
      and(
        eq(messages.mailboxId, sql.placeholder("mailboxId")),
        eq(messages.messageId, sql.placeholder("messageId")),
        sql`${messages.kind} <> 'draft'`,
      ),
    )
    .limit(1)
    .prepare(),
}));

const REFERRING = new Set(["in-reply-to", "references"]);

/** @throws AppError not_found, forbidden (drafts need send access), conflict (it is no draft) */
export function readDraft(db: Db, caller: Caller, threadId: string): Draft {
  const { thread, reach } = reachedThread(db, caller, threadId);
  requireAccess(reach, "send");
  const row = statements(db).draft.get({ threadSeq: thread.seq });
  if (!row) throw new AppError("conflict", "This conversation is no draft");
  const { message, body } = row;
  const answered =
    message.inReplyTo === null
      ? undefined
      : statements(db).answered.get({ mailboxId: thread.mailboxId, messageId: message.inReplyTo });
  return {
    reach,
    from: message.from,
    to: message.to,
    cc: message.cc,
    bcc: message.bcc,
    subject: message.subject,
    text: body.text,
    ...(body.htmlSource === null ? {} : { html: decompressHtml(body.htmlSource) }),
    headers: body.headers.filter(([name]) => REFERRING.has(name.toLowerCase())),
    ...(answered && { answers: answered.threadId }),
  };
}

/**
 * Removes a draft that has become a message, or another draft, in the same transaction: of two who send it at once, one
 * does. @throws AppError not_found, forbidden, conflict
 */
export function removeDraft(tx: Tx, caller: Caller, threadId: string): void {
  readDraft(tx, caller, threadId);
  const { thread } = reachedThread(tx, caller, threadId);
  deleteConversations(tx, thread.mailboxId, [thread.seq]);
}
