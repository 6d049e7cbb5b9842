/**
 * Filing: a prepared message becomes part of a mailbox, with its conversation, index, usage and event, in one
 * transaction (contract: Arrival, Folders, Spam). Nothing here reads the bytes of the message: that was prepare.ts.
 */
import { and, eq, sql } from "drizzle-orm";
import { emit } from "../events/outbox.ts";
import { type EmailAddress, NOBODY } from "../message/address.ts";
import { newId, type Runtime } from "../runtime.ts";
import type { SearchEngine } from "../search/engine.ts";
import type { Options } from "../store/options.ts";
import { prepared } from "../store/prepared.ts";
import {
  type AuthVerdicts,
  attachments,
  type DraftAgent,
  drafts,
  type Folder,
  MESSAGES_PER_THREAD,
  mailboxes,
  messageBodies,
  messages,
  threadReferences,
  threads,
  type Unfinished,
} from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { folderOfMessage, moveMessages } from "./folders.ts";
import { judge } from "./judgement.ts";
import { recordJudgement, teachAnswered } from "./junk/training.ts";
import { writeLabels } from "./labels.ts";
import type { PreparedMessage } from "./prepare.ts";
import { continued, type FilingKind, started, THREAD_STATE, type ThreadState } from "./thread-state.ts";
import { type Arrival, findThread, type ThreadRow, threadToJoin } from "./threading.ts";
import { addUsage } from "./usage.ts";

export interface Filing {
  mailboxId: string;
  /** The mailbox address or alias it arrived on, without a tag; of what we wrote, the address it is from. */
  receivedOn: string;
  message: PreparedMessage;
  /** Epoch ms. */
  now: number;
  /** Default: received. */
  kind?: FilingKind;
  /**
   * The conversation to join, whatever the headers say. One that is not there, is full or is a draft is not joined, but
   * looked for as ever.
   */
  threadId?: string;
  /** Instead of the Bcc that stands in the message. */
  bcc?: readonly EmailAddress[];
  /** Judged spam for a reason of the arrival, such as DMARC; what the mailbox has learned is known here. */
  spam?: boolean;
  auth?: AuthVerdicts;
  /** The user who sent it, or wrote the draft: who sees all of its Bcc. */
  sentBy?: string;
  /** Of a draft. */
  draft?: NewDraft;
}

/** What a draft is beside a message, as it is begun. */
export interface NewDraft {
  /** Id of the conversation that it answers. */
  answers?: string;
  unfinished?: Unfinished;
  agent?: DraftAgent;
}

/** Nothing is left to be finished. */
const FINISHED: Unfinished = { to: "", cc: "", bcc: "" };

export interface Filed {
  /** Message.id, the `emailId` of events. */
  messageId: string;
  threadId: string;
  /** It was there already: nothing was filed or announced. */
  duplicate: boolean;
}

/** Of a conversation that is a report between mail systems. */
const REPORT_LABEL = "Reports";

type Placeholder = ReturnType<typeof sql.placeholder>;

/** { name: the placeholder of that name, … } */
const placeholders = <K extends string>(...names: K[]): Record<K, Placeholder> =>
  Object.fromEntries(names.map((name) => [name, sql.placeholder(name)])) as unknown as Record<K, Placeholder>;

function prepareStatements(db: Db) {
  const thread = placeholders(...THREAD_STATE);
  return {
    mailbox: db
      .select({ address: mailboxes.address, workspaceId: mailboxes.workspaceId })
      .from(mailboxes)
      .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
      .prepare(),
    same: db
      .select({ messageId: messages.id, threadId: threads.id })
      .from(messages)
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .where(
        and(
          eq(messages.mailboxId, sql.placeholder("mailboxId")),
          eq(messages.messageId, sql.placeholder("messageId")),
          eq(messages.fingerprint, sql.placeholder("fingerprint")),
          eq(messages.kind, "received"),
        ),
      )
      .limit(1)
      .prepare(),
    insertThread: db
      .insert(threads)
      .values({ ...placeholders("id", "mailboxId", "receivedOn"), starred: false, ...thread })
      .returning({ seq: threads.seq })
      .prepare(),
    updateThread: db
      .update(threads)
      // drizzle's types know placeholders in values() only; in set() they are encoded and filled alike.
      .set(thread as unknown as Partial<typeof threads.$inferInsert>)
      .where(eq(threads.seq, sql.placeholder("seq")))
      .prepare(),
    insertReference: db
      .insert(threadReferences)
      .values(placeholders("mailboxId", "messageId", "threadSeq"))
      .onConflictDoNothing()
      .prepare(),
    insertMessage: db
      .insert(messages)
      .values({
        ...placeholders(
          "seq",
          "id",
          "threadSeq",
          "mailboxId",
          "kind",
          "folder",
          "read",
          "date",
          "filedAt",
          "messageId",
          "inReplyTo",
          "from",
          "to",
          "cc",
          "bcc",
          "replyTo",
          "subject",
          "snippet",
          "receivedOn",
          "sentBy",
          "size",
          "fingerprint",
          "hasAttachments",
        ),
        // Given as text or null: a JSON column would make the null a text.
        auth: sql`${sql.placeholder("auth")}`,
      })
      .prepare(),
    insertBody: db
      .insert(messageBodies)
      .values(placeholders("messageSeq", "headers", "text", "html", "htmlSource", "sanitizer"))
      .prepare(),
    insertDraft: db
      .insert(drafts)
      .values({
        messageSeq: sql.placeholder("messageSeq"),
        revision: 1,
        answers: sql`(select seq from threads where id = ${sql.placeholder("answers")} and mailbox_id = ${sql.placeholder("mailboxId")})`,
        unfinished: sql.placeholder("unfinished"),
        // Given as text or null: a JSON column would make the null a text.
        agent: sql`${sql.placeholder("agent")}`,
      })
      .prepare(),
    insertAttachment: db
      .insert(attachments)
      .values(
        placeholders("id", "messageSeq", "position", "filename", "contentType", "size", "inline", "contentId", "blob"),
      )
      .prepare(),
  };
}

const statements = prepared(prepareStatements);

export function createFiling({
  engine,
  options,
  runtime,
}: {
  engine: Pick<SearchEngine, "add">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}): (tx: Tx, filing: Filing) => Filed {
  return function file(tx, filing) {
    const { mailboxId, receivedOn, message, now } = filing;
    const mailbox = statements(tx).mailbox.get({ mailboxId });
    if (!mailbox) throw new Error(`there is no mailbox ${mailboxId} to file into`);
    const kind = filing.kind ?? "received";
    const same = kind === "received" ? findSame(tx, filing) : undefined;
    if (same) return { ...same, duplicate: true };

    const from = message.from ?? NOBODY;
    const date = message.date !== undefined && message.date <= now ? message.date : now;
    const judgement = kind === "received" ? judge(tx, filing, from, options) : {};
    const spam = judgement.filedFor !== undefined;
    const joined = kind === "draft" ? undefined : threadFor(tx, filing, { mailboxId, receivedOn, message, date, spam });
    const addition = { message: { ...message, from }, kind, date } as const;
    // A report answers nothing: one that does is read as any mail is.
    const isReport = kind === "received" && message.aggregateReport !== undefined && !joined && !spam;
    const state = joined
      ? continued(tx, joined, addition)
      : { ...started(addition, spam), ...(isReport && { unread: false }) };
    const thread = joined ?? startThread(tx, { ...state, id: newId(runtime, "thr"), mailboxId, receivedOn });
    if (joined) {
      statements(tx).updateThread.run({ ...state, seq: joined.seq });
      if (state.folder !== joined.folder) moveMessages(tx, joined.seq, state.folder);
    }
    if (isReport) writeLabels(tx, thread.seq, [REPORT_LABEL]);
    if (kind !== "draft") addReferences(tx, filing, thread.seq);

    const id = newId(runtime, "msg");
    const seq = thread.seq * MESSAGES_PER_THREAD + state.nextOrdinal - 1;
    const read = kind === "sent" || kind === "draft" || isReport;
    insertMessage(tx, filing, { id, seq, threadSeq: thread.seq, kind, from, date, folder: state.folder, read });
    if (kind === "draft") insertDraft(tx, filing, seq);
    recordJudgement(tx, seq, judgement);
    if (kind === "sent" && joined && joined.folder !== "spam") teachAnswered(tx, joined, message, now);
    engine.add(tx, seq, { workspaceId: mailbox.workspaceId, mailboxId }, message.index);
    addUsage(tx, mailboxId, message.size);
    if (kind === "received") {
      emit(tx, {
        id: newId(runtime, "evt"),
        workspaceId: mailbox.workspaceId,
        event: "message.inbound",
        now,
        data: {
          emailId: id,
          threadId: thread.id,
          mailboxId,
          mailbox: mailbox.address,
          messageId: message.messageId ?? "",
          inReplyTo: message.inReplyTo ?? null,
          from,
          to: message.to,
          cc: message.cc,
          subject: message.subject,
          snippet: message.snippet,
          hasAttachments: message.attachments.length > 0,
          attachmentCount: message.attachments.length,
          isSpam: state.folder === "spam",
          receivedAt: new Date(now).toISOString(),
        },
      });
    }
    return { messageId: id, threadId: thread.id, duplicate: false };
  };

  function insertMessage(
    tx: Tx,
    { mailboxId, receivedOn, message, now, bcc, auth, sentBy }: Filing,
    row: {
      id: string;
      seq: number;
      threadSeq: number;
      kind: FilingKind;
      from: EmailAddress;
      date: number;
      folder: Folder;
      read: boolean;
    },
  ): void {
    const kind = row.kind === "notice" ? "received" : row.kind;
    statements(tx).insertMessage.run({
      ...row,
      mailboxId,
      kind,
      folder: folderOfMessage(kind, row.folder),
      filedAt: now,
      messageId: message.messageId ?? null,
      inReplyTo: message.inReplyTo ?? null,
      to: message.to,
      cc: message.cc,
      bcc: bcc ?? message.bcc,
      replyTo: message.replyTo,
      subject: message.subject,
      snippet: message.snippet,
      receivedOn: row.kind === "received" ? receivedOn : null,
      sentBy: sentBy ?? null,
      size: message.size,
      fingerprint: message.fingerprint,
      hasAttachments: message.attachments.length > 0,
      auth: auth === undefined ? null : JSON.stringify(auth),
    });
    statements(tx).insertBody.run({
      messageSeq: row.seq,
      headers: message.headers,
      text: message.text,
      html: message.html ?? null,
      htmlSource: message.htmlSource ?? null,
      sanitizer: message.sanitizer,
    });
    message.attachments.forEach((attachment, position) => {
      statements(tx).insertAttachment.run({
        ...attachment,
        id: newId(runtime, "att"),
        messageSeq: row.seq,
        position,
        contentId: attachment.contentId ?? null,
      });
    });
  }
}

function insertDraft(tx: Tx, { mailboxId, draft = {} }: Filing, messageSeq: number): void {
  const { answers = null, unfinished = FINISHED, agent } = draft;
  const given = { answers, unfinished, agent: agent === undefined ? null : JSON.stringify(agent) };
  statements(tx).insertDraft.run({ messageSeq, mailboxId, ...given });
}

function startThread(tx: Tx, row: ThreadState & Pick<ThreadRow, "id" | "mailboxId" | "receivedOn">) {
  const inserted = statements(tx).insertThread.get(row);
  if (!inserted) throw new Error("inserting a conversation returned no row");
  return { id: row.id, seq: inserted.seq };
}

/** The same message received before. One without a Message-ID is never taken for another. */
function findSame(db: Db, { mailboxId, message: { messageId, fingerprint } }: Pick<Filing, "mailboxId" | "message">) {
  return messageId === undefined ? undefined : statements(db).same.get({ mailboxId, messageId, fingerprint });
}

/** Whether the mailbox has received the message before: filing it would change nothing (contract: Arrival). */
export const holds = (db: Db, mailboxId: string, message: PreparedMessage): boolean =>
  findSame(db, { mailboxId, message }) !== undefined;

const threadFor = (tx: Tx, { threadId }: Filing, arrival: Arrival): ThreadRow | undefined =>
  (threadId === undefined ? undefined : threadToJoin(tx, arrival.mailboxId, threadId)) ?? findThread(tx, arrival);

/** What later mail of the conversation is known by. A draft is not: nobody can answer it, and it may answer the same. */
function addReferences(tx: Tx, { mailboxId, message }: Filing, threadSeq: number): void {
  for (const messageId of new Set([message.messageId, message.inReplyTo, ...message.references])) {
    if (messageId !== undefined) statements(tx).insertReference.run({ mailboxId, messageId, threadSeq });
  }
}
