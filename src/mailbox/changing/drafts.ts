/**
 * Drafts as the app opens them, to review, change, send or discard. The person who opens a draft to send it becomes its
 * sender, and therefore sees every recipient, including Bcc (rules: Bcc). A draft is a conversation of its own, with
 * one message.
 */
import { and, asc, desc, eq, isNotNull, min, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { type Caller, type Reach, requireAccess } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { newId } from "../../base/runtime.ts";
import type { EmailAddress } from "../../message/address.ts";
import { unpackText } from "../../message/reading.ts";
import { foldDocument } from "../../search/fold.ts";
import { readStoredMessages } from "../../search/stored.ts";
import type { Reader } from "../../store/core.ts";
import {
  attachments,
  type DraftAgent,
  drafts,
  messageBodies,
  messageOctets,
  messages,
  octetsWaiting,
  threads,
  type Unfinished,
} from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { UNSERVED_MAILBOXES } from "../../store/unserved-workspaces.ts";
import { bodyRow, contentRow } from "../filing/filing-rows.ts";
import type { PreparedMessage } from "../filing/prepare.ts";
import { initialThreadState } from "../filing/threading.ts";
import { type AttachmentRow, listMessageAttachments, type StoredFile } from "../reading/messages.ts";
import type { MailCore } from "../state/mail-core.ts";
import { addMailboxUsage, reachedMailbox } from "../state/mailboxes.ts";
import { markUnread } from "../state/message-state.ts";
import { reachedThread } from "./change.ts";
import { deleteConversations } from "./removal.ts";

export interface Draft {
  /** Id of its conversation. */
  id: string;
  /** messages.seq */
  seq: number;
  /** messages.id */
  emailId: string;
  threadSeq: number;
  reach: Reach;
  /** Message-ID with its angle brackets. */
  messageId?: string;
  from: EmailAddress;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  replyTo: EmailAddress[];
  /** Text typed into the recipient fields that is not an address yet. */
  unfinished: Unfinished;
  subject: string;
  text: string;
  /** HTML as the author wrote it, not sanitised. */
  html?: string;
  attachments: AttachmentRow[];
  /** In-Reply-To and References, and what a program added. */
  headers: [name: string, value: string][];
  /** Id of the conversation that it replies to, if that still exists. */
  answers?: string;
  /** Set if an API key created or changed it: the first one. */
  agent?: DraftAgent;
  /** Id of the API key that wrote it last; absent where a person did, or it is not known. */
  writtenBy?: string;
  /** Number of changes so far. */
  revision: number;
  /** Epoch ms. */
  savedAt: number;
  /** Bytes counted towards the quota. */
  size: number;
  /** When it is sent, and by whom. */
  due?: Due;
  /** Why it could not be sent when it was due. */
  refusal?: string;
}

export interface Due {
  /** Epoch ms. */
  at: number;
  userId: string;
  /** The API key that asked for it, if one did. */
  keyId?: string | undefined;
}

const isToBeSent = and(
  isNotNull(drafts.dueAt),
  eq(threads.folder, "drafts"),
  sql`${threads.mailboxId} NOT IN ${sql.raw(UNSERVED_MAILBOXES)}`,
);

const answered = alias(threads, "answered");

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
    .select({
      id: threads.id,
      agent: drafts.agent,
      dueAt: drafts.dueAt,
      refusal: drafts.refusal,
      to: messages.to,
      cc: messages.cc,
      answers: answered.id,
    })
    .from(threads)
    .innerJoin(messages, eq(messages.threadSeq, threads.seq))
    .innerJoin(drafts, eq(drafts.messageSeq, messages.seq))
    .leftJoin(answered, eq(answered.seq, drafts.answers))
    .where(and(eq(threads.mailboxId, sql.placeholder("mailboxId")), eq(threads.folder, "drafts")))
    .orderBy(desc(threads.lastMessageAt), desc(threads.seq))
    .limit(MOST_MARKED)
    .prepare(),
  scheduled: db
    .select({
      id: threads.id,
      subject: messages.subject,
      snippet: messages.snippet,
      to: messages.to,
      cc: messages.cc,
      dueAt: sql<number>`${drafts.dueAt}`,
    })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(
      and(isNotNull(drafts.dueAt), eq(messages.mailboxId, sql.placeholder("mailboxId")), eq(threads.folder, "drafts")),
    )
    .orderBy(asc(drafts.dueAt), asc(messages.seq))
    .limit(MOST_SCHEDULED)
    .prepare(),
  due: db
    .select({
      id: threads.id,
      at: sql<number>`${drafts.dueAt}`,
      userId: sql<string>`${drafts.dueBy}`,
      keyId: drafts.dueKey,
    })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(and(isToBeSent, sql`${drafts.dueAt} <= ${sql.placeholder("now")}`))
    .orderBy(asc(drafts.dueAt))
    .limit(MOST_DUE)
    .prepare(),
  nextDue: db
    .select({ at: min(drafts.dueAt) })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(isToBeSent)
    .prepare(),
}));

/** Drafts shown in the conversation that they reply to. */
const MOST_ANSWERING = 20;
/** Drafts marked in a list. */
const MOST_MARKED = 500;
/** Scheduled drafts in a list. */
const MOST_SCHEDULED = 500;
/** Drafts sent before the due ones are read again. */
const MOST_DUE = 50;

const REFERRING = /^(?:in-reply-to|references)$/i;
/** A draft of a person that was imported may have fields that no recipient should see. */
const REFERRING_OR_ADDED = /^(?:in-reply-to|references|reply-to|(?:x|list)-.*)$/i;

/** `access`: what the caller needs. @throws AppError not_found, forbidden, conflict (it is not a draft) */
export function readDraft(db: Db, caller: Caller, threadId: string, access: "read" | "send" = "send"): Draft {
  const { thread, reach } = reachedThread(db, caller, threadId);
  requireAccess(reach, access);
  const row = statements(db).draft.get({ threadSeq: thread.seq });
  if (!row) throw new AppError("conflict", "This conversation is not a draft");
  if (thread.folder !== "drafts") throw new AppError("conflict", "This draft is in trash");
  const { message, body, draft, answers } = row;
  return {
    id: thread.id,
    seq: message.seq,
    emailId: message.id,
    threadSeq: thread.seq,
    reach,
    ...(message.messageId !== null && { messageId: message.messageId }),
    from: message.from,
    to: message.to,
    cc: message.cc,
    bcc: message.bcc,
    replyTo: message.replyTo,
    unfinished: draft.unfinished,
    subject: message.subject,
    text: body.text,
    ...(body.htmlSource === null ? {} : { html: unpackText(body.htmlSource) }),
    attachments: listMessageAttachments(db, message.seq),
    headers: body.headers.filter(([name]) => (draft.agent === null ? REFERRING : REFERRING_OR_ADDED).test(name)),
    ...(answers !== null && { answers }),
    ...(draft.agent !== null && { agent: draft.agent }),
    ...(draft.writtenBy !== null && { writtenBy: draft.writtenBy }),
    revision: draft.revision,
    savedAt: message.filedAt,
    size: message.size,
    ...(draft.dueAt !== null &&
      draft.dueBy !== null && {
        due: { at: draft.dueAt, userId: draft.dueBy, keyId: draft.dueKey ?? undefined },
      }),
    ...(draft.refusal !== null && { refusal: draft.refusal }),
  };
}

/** Ids of the drafts that reply to a conversation, oldest first. @throws AppError not_found */
export function draftsAnswering({ db }: Reader, caller: Caller, threadId: string): string[] {
  const { thread, reach } = reachedThread(db, caller, threadId);
  if (!reach.access.send) return [];
  return statements(db)
    .answering.all({ threadSeq: thread.seq })
    .map(({ id }) => id);
}

/** A draft as lists mark it. Its Bcc recipients are for those who open it. */
export interface DraftMark extends Pick<Draft, "to" | "cc"> {
  id: string;
  agent: DraftAgent | null;
  /** Epoch ms. */
  dueAt: number | null;
  refusal: string | null;
  /** Id of the conversation that it replies to. */
  answers: string | null;
}

/** The latest drafts of a mailbox (id, address or alias address). @throws AppError not_found */
export const markedDrafts = ({ db }: Reader, caller: Caller, mailbox: string): DraftMark[] =>
  statements(db).marked.all({ mailboxId: reachedMailbox(db, caller, mailbox) });

/** A scheduled draft in a list. Its Bcc recipients are for those who open it. */
export interface ScheduledDraft extends Pick<Draft, "id" | "subject" | "to" | "cc"> {
  snippet: string;
  /** Epoch ms. */
  dueAt: number;
}

/** The scheduled drafts of a mailbox (id, address or alias address), the next first. @throws AppError not_found */
export const scheduledDrafts = ({ db }: Reader, caller: Caller, mailbox: string): ScheduledDraft[] =>
  statements(db).scheduled.all({ mailboxId: reachedMailbox(db, caller, mailbox) });

/** Drafts due by `now` (epoch ms), earliest first; a limited number at once. */
export const dueDrafts = (db: Db, now: number): (Due & { id: string })[] =>
  statements(db)
    .due.all({ now })
    .map(({ keyId, ...due }) => ({ ...due, keyId: keyId ?? undefined }));

/** When the next draft is due, epoch ms. */
export const findNextDraftDueTime = (db: Db): number | null => statements(db).nextDue.get()?.at ?? null;

/** Removes a draft that has become a message, in the same transaction: if two people send it at once, one succeeds. */
export function removeDraft(tx: Tx, draft: Pick<Draft, "reach" | "threadSeq">): void {
  deleteConversations(tx, draft.reach.mailbox.id, [draft.threadSeq]);
}

/*
 * Changes a draft: its content, its attachments, and when it is sent. It keeps its ids, so that an open editor can
 * continue with it. Attachments are rows that name blobs; saving the text leaves them alone.
 *
 * Invariant: the conversation's row, index and usage agree with the draft after each change.
 */

/** The new content of a draft; `message` has no attachments. */
export interface DraftChange {
  message: PreparedMessage & { from: EmailAddress };
  bcc: readonly EmailAddress[];
  unfinished: Unfinished;
  /** The user who changed it, and the key if one did. */
  userId: string;
  keyId: string | undefined;
  /** That key, unless another made the draft. */
  agent: DraftAgent | undefined;
  /** Epoch ms. */
  now: number;
}

/** Bytes that a file takes in a message: base64 in lines of 76 characters, and its header. */
export const transmittedSize = (bytes: number): number => Math.ceil(bytes / 57) * 78 + 500;

/** The sum for several files. */
export const transmittedSizes = (files: readonly Pick<StoredFile, "size">[]): number =>
  files.reduce((sum, { size }) => sum + transmittedSize(size), 0);

/** An upper bound on the time in which sending can be undone. */
const LONGEST_UNDO_MS = 60_000;

const recallStatement = statement<unknown, [now: number, longest: number]>(
  `UPDATE drafts SET due_at = ?1 WHERE due_at > ?1 AND EXISTS
     (SELECT 1 FROM messages WHERE seq = message_seq AND filed_at > ?1 AND due_at - filed_at <= ?2)`,
);

const draftScope = ({ reach: { mailbox } }: Draft) => ({ workspaceId: mailbox.workspaceId, mailboxId: mailbox.id });

/** A draft that is written anew is no longer what a mail app had handed in, nor what could not be made. */
function dropOctets(tx: Tx, { seq }: Draft): void {
  for (const table of [messageOctets, octetsWaiting]) tx.delete(table).where(eq(table.messageSeq, seq)).run();
}

/** Updates everything that depends on the draft's files. */
function updateFileFacts({ engine }: MailCore, tx: Tx, draft: Draft): void {
  const files = listMessageAttachments(tx, draft.seq);
  const hasAttachments = files.length > 0;
  const bytes = transmittedSizes(files) - transmittedSizes(draft.attachments);
  tx.update(messages)
    .set({ hasAttachments, size: sql`${messages.size} + ${bytes}` })
    .where(eq(messages.seq, draft.seq))
    .run();
  tx.update(threads).set({ hasAttachments }).where(eq(threads.seq, draft.threadSeq)).run();
  dropOctets(tx, draft);
  addMailboxUsage(tx, draft.reach.mailbox.id, bytes);
  for (const stored of readStoredMessages(tx, [draft.seq])) engine.replace(tx, draft.seq, stored, stored.fold());
}

/** Writes files from position `first` on; returns their ids. */
const insertFiles = (
  { runtime }: MailCore,
  tx: Tx,
  draft: Draft,
  files: readonly StoredFile[],
  first: number,
): string[] =>
  files.map((file, i) => {
    const id = newId(runtime, "att");
    tx.insert(attachments)
      .values({ ...file, id, messageSeq: draft.seq, position: first + i })
      .run();
    return id;
  });

/** Replaces the content of a draft; returns the new revision. */
export function changeDraft(
  { engine }: MailCore,
  tx: Tx,
  draft: Draft,
  { message, bcc, unfinished, userId, keyId, agent, now }: DraftChange,
): number {
  const {
    folder: _,
    nextOrdinal: __,
    hasAttachments: ___,
    ...state
  } = initialThreadState({ message, kind: "draft", date: now }, false);
  const size = message.size + transmittedSizes(draft.attachments);
  const filenames = draft.attachments.map(({ filename }) => filename);
  const { files } = foldDocument({ subject: "", text: "", from: [], to: [], cc: [], filenames });
  tx.update(threads)
    .set({ ...state, receivedOn: message.from.email })
    .where(eq(threads.seq, draft.threadSeq))
    .run();
  tx.update(messages)
    .set({ ...contentRow(message), date: now, filedAt: now, size, sentBy: userId, bcc: [...bcc], read: true })
    .where(eq(messages.seq, draft.seq))
    .run();
  tx.update(messageBodies).set(bodyRow(message)).where(eq(messageBodies.messageSeq, draft.seq)).run();
  dropOctets(tx, draft);
  const revision = draft.revision + 1;
  tx.update(drafts)
    .set({ revision, unfinished, refusal: null, writtenBy: keyId ?? null, agent: agent ?? null })
    .where(eq(drafts.messageSeq, draft.seq))
    .run();
  engine.replace(tx, draft.seq, draftScope(draft), { ...message.index, files });
  addMailboxUsage(tx, draft.reach.mailbox.id, size - draft.size);
  return revision;
}

/** Notes that a person has changed something of a draft. */
export function markDraftEditedByPerson(tx: Tx, draft: Pick<Draft, "seq">): void {
  tx.update(drafts).set({ writtenBy: null }).where(eq(drafts.messageSeq, draft.seq)).run();
}

/** Attaches files to a draft, after the existing ones; returns their ids. */
export function attachFiles(core: MailCore, tx: Tx, draft: Draft, files: readonly StoredFile[]): string[] {
  const ids = insertFiles(core, tx, draft, files, (draft.attachments.at(-1)?.position ?? -1) + 1);
  updateFileFacts(core, tx, draft);
  return ids;
}

/** Replaces all attachments of a draft. */
export function replaceDraftFiles(core: MailCore, tx: Tx, draft: Draft, files: readonly StoredFile[]): void {
  tx.delete(attachments).where(eq(attachments.messageSeq, draft.seq)).run();
  insertFiles(core, tx, draft, files, 0);
  updateFileFacts(core, tx, draft);
}

export function detachFile(core: MailCore, tx: Tx, draft: Draft, attachmentId: string): void {
  tx.delete(attachments).where(eq(attachments.id, attachmentId)).run();
  updateFileFacts(core, tx, draft);
}

export function scheduleDraft(tx: Tx, draft: Pick<Draft, "seq">, due: Due | undefined): void {
  tx.update(drafts)
    .set({ dueAt: due?.at ?? null, dueBy: due?.userId ?? null, dueKey: due?.keyId ?? null, refusal: null })
    .where(eq(drafts.messageSeq, draft.seq))
    .run();
}

/**
 * Makes drafts due at `now` (epoch ms) whose undo time has not ended only because the clock was ahead when somebody
 * pressed Send. A time that somebody chose stays.
 */
export function fixDraftTimesAfterClockJump(tx: Tx, now: number): void {
  recallStatement(tx).run(now, LONGEST_UNDO_MS);
}

/**
 * Keeps a scheduled draft as an unread one with the reason why it was not sent, which all who read it see. Does nothing
 * if the draft is no longer due at that time.
 */
export function refuseDraft(
  tx: Tx,
  draftId: string,
  dueAt: number,
  reasonFor: (draft: Pick<Draft, "from" | "to" | "cc" | "bcc">) => string,
): void {
  const found = tx
    .select({
      seq: messages.seq,
      threadSeq: messages.threadSeq,
      draft: { from: messages.from, to: messages.to, cc: messages.cc, bcc: messages.bcc },
    })
    .from(drafts)
    .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .where(sql`${threads.id} = ${draftId} and ${drafts.dueAt} = ${dueAt}`)
    .get();
  if (!found) return;
  tx.update(drafts)
    .set({ dueAt: null, dueBy: null, dueKey: null, refusal: reasonFor(found.draft) })
    .where(eq(drafts.messageSeq, found.seq))
    .run();
  markUnread(tx, found.threadSeq);
}

/** Unschedules every scheduled draft and stores the reason; returns their number. */
export function unscheduleAllDrafts(tx: Tx, reason: string): number {
  const changed = tx
    .update(drafts)
    .set({ dueAt: null, dueBy: null, dueKey: null, refusal: reason })
    .where(isNotNull(drafts.dueAt))
    .returning({ seq: drafts.messageSeq })
    .all();
  return changed.length;
}
