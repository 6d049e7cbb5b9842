/**
 * Drafts as the app opens them, to be reviewed, changed, sent or discarded. Who opens one to send it becomes its sender,
 * and so sees every recipient, Bcc too (rules: Bcc). A draft is a conversation of its own, with one message.
 */

import { and, asc, desc, eq, isNotNull, min, sql } from "drizzle-orm";
import { type Caller, type Reach, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { EmailAddress } from "../message/address.ts";
import { unpackText } from "../message/reading.ts";
import { type DraftAgent, drafts, messageBodies, messages, threads, type Unfinished } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { reachedThread } from "./change.ts";
import type { AttachmentRow } from "./messages.ts";
import { deleteConversations } from "./removal.ts";
import { attachmentsOf } from "./stored-message.ts";

export interface Draft {
  /** Id of its conversation. */
  id: string;
  /** messages.seq */
  seq: number;
  threadSeq: number;
  reach: Reach;
  from: EmailAddress;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  /** What was typed beside them and is no address yet. */
  unfinished: Unfinished;
  subject: string;
  text: string;
  /** As it was written, not sanitised. */
  html?: string;
  attachments: AttachmentRow[];
  /** In-Reply-To and References. */
  headers: [name: string, value: string][];
  /** Id of the conversation that it answers, if that is there still. */
  answers?: string;
  /** Made with an API key. */
  agent?: DraftAgent;
  /** Counts the changes. */
  revision: number;
  /** Epoch ms. */
  savedAt: number;
  /** Bytes that it takes of the quota. */
  size: number;
  /** When it is to be sent, epoch ms, and by whom. */
  due?: Due;
  /** Why it was not sent when it was due. */
  refusal?: string;
}

export interface Due {
  at: number;
  userId: string;
}

const statements = prepared((db) => ({
  draft: db
    .select({ message: messages, body: messageBodies, draft: drafts, answers: threads.id })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .innerJoin(drafts, eq(drafts.messageSeq, messages.seq))
    .leftJoin(threads, eq(threads.seq, drafts.answers))
    .where(and(eq(messages.threadSeq, sql.placeholder("threadSeq")), eq(messages.kind, "draft")))
    .orderBy(desc(messages.seq))
    .limit(1)
    .prepare(),
  answering: db
    .select({ id: threads.id })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(and(eq(drafts.answers, sql.placeholder("threadSeq")), eq(threads.folder, "drafts")))
    .orderBy(asc(messages.filedAt), asc(messages.seq))
    .limit(MOST_ANSWERING)
    .prepare(),
  marked: db
    .select({ id: threads.id, agent: drafts.agent, dueAt: drafts.dueAt, refusal: drafts.refusal })
    .from(threads)
    .innerJoin(messages, eq(messages.threadSeq, threads.seq))
    .innerJoin(drafts, eq(drafts.messageSeq, messages.seq))
    .where(
      and(
        eq(threads.mailboxId, sql.placeholder("mailboxId")),
        eq(threads.folder, "drafts"),
        sql`(${drafts.agent} is not null or ${drafts.dueAt} is not null or ${drafts.refusal} is not null)`,
      ),
    )
    .orderBy(desc(threads.lastMessageAt), desc(threads.seq))
    .limit(MOST_MARKED)
    .prepare(),
  due: db
    .select({ id: threads.id, at: sql<number>`${drafts.dueAt}`, userId: sql<string>`${drafts.dueBy}` })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(
      and(isNotNull(drafts.dueAt), sql`${drafts.dueAt} <= ${sql.placeholder("now")}`, eq(threads.folder, "drafts")),
    )
    .orderBy(asc(drafts.dueAt))
    .limit(MOST_DUE)
    .prepare(),
  nextDue: db
    .select({ at: min(drafts.dueAt) })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(and(isNotNull(drafts.dueAt), eq(threads.folder, "drafts")))
    .prepare(),
}));

/** Drafts shown in the conversation that they answer. */
const MOST_ANSWERING = 20;
/** Drafts that are marked in a list. */
const MOST_MARKED = 500;
/** Drafts that are sent before it is looked again which are due. */
const MOST_DUE = 50;

const REFERRING = new Set(["in-reply-to", "references"]);

/** @throws AppError not_found, forbidden (drafts need send access), conflict (it is no draft) */
export function readDraft(db: Db, caller: Caller, threadId: string): Draft {
  const { thread, reach } = reachedThread(db, caller, threadId);
  requireAccess(reach, "send");
  const row = statements(db).draft.get({ threadSeq: thread.seq });
  if (!row) throw new AppError("conflict", "This conversation is no draft");
  if (thread.folder !== "drafts") throw new AppError("conflict", "This draft is in trash");
  const { message, body, draft, answers } = row;
  return {
    id: thread.id,
    seq: message.seq,
    threadSeq: thread.seq,
    reach,
    from: message.from,
    to: message.to,
    cc: message.cc,
    bcc: message.bcc,
    unfinished: draft.unfinished,
    subject: message.subject,
    text: body.text,
    ...(body.htmlSource === null ? {} : { html: unpackText(body.htmlSource) }),
    attachments: attachmentsOf(db, message.seq),
    headers: body.headers.filter(([name]) => REFERRING.has(name.toLowerCase())),
    ...(answers !== null && { answers }),
    ...(draft.agent !== null && { agent: draft.agent }),
    revision: draft.revision,
    savedAt: message.filedAt,
    size: message.size,
    ...(draft.dueAt !== null && draft.dueBy !== null && { due: { at: draft.dueAt, userId: draft.dueBy } }),
    ...(draft.refusal !== null && { refusal: draft.refusal }),
  };
}

/** Ids of the drafts that answer a conversation, oldest first. @throws AppError not_found */
export function draftsAnswering(db: Db, caller: Caller, threadId: string): string[] {
  const { thread, reach } = reachedThread(db, caller, threadId);
  if (!reach.access.send) return [];
  return statements(db)
    .answering.all({ threadSeq: thread.seq })
    .map(({ id }) => id);
}

/** A draft that is not only somebody's own: what marks it in a list. */
export interface DraftMark {
  id: string;
  agent: DraftAgent | null;
  /** Epoch ms. */
  dueAt: number | null;
  refusal: string | null;
}

/** The drafts of a mailbox that an agent made, that are to be sent, or that were not; the newest first. */
export const markedDrafts = (db: Db, mailboxId: string): DraftMark[] => statements(db).marked.all({ mailboxId });

/** Drafts to be sent by `now` (epoch ms), the earliest first; not all of them when there are many. */
export const dueDrafts = (db: Db, now: number): (Due & { id: string })[] => statements(db).due.all({ now });

/** When the next draft is to be sent, epoch ms. */
export const nextDue = (db: Db): number | null => statements(db).nextDue.get()?.at ?? null;

/** Removes a draft that has become a message, in the same transaction: of two who send it at once, one does. */
export function removeDraft(tx: Tx, draft: Pick<Draft, "reach" | "threadSeq">): void {
  deleteConversations(tx, draft.reach.mailbox.id, [draft.threadSeq]);
}
