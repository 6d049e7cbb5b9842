/**
 * Filing: a prepared message becomes part of a mailbox, with its conversation, index, usage and event, in one
 * transaction (contract: Arrival, Folders, Spam). Nothing here reads the bytes of the message: that was prepare.ts.
 */
import { and, eq, gt, sql } from "drizzle-orm";
import { emit } from "../events/outbox.ts";
import type { EmailAddress } from "../message/address.ts";
import { newId, type Runtime } from "../runtime.ts";
import type { SearchEngine } from "../search/engine.ts";
import { prepared } from "../store/prepared.ts";
import {
  type AuthVerdicts,
  attachments,
  type Folder,
  MESSAGES_PER_THREAD,
  mailboxes,
  messageBodies,
  messages,
  threadReferences,
  threads,
} from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { folderOfMessage, moveMessages } from "./folders.ts";
import type { PreparedMessage } from "./prepare.ts";
import { isTrainedAsSpam } from "./senders.ts";
import { findThread, headerAddresses, type ThreadRow } from "./threading.ts";
import { addUsage } from "./usage.ts";

export interface Filing {
  mailboxId: string;
  /** The mailbox address or alias it arrived on, without a tag; of a sent message, the address it was sent from. */
  receivedOn: string;
  message: PreparedMessage;
  /** Epoch ms. */
  now: number;
  /** Judged spam for a reason of the arrival, such as DMARC; trained senders are known here. */
  spam?: boolean;
  auth?: AuthVerdicts;
  /** The user who sent it: then it is the Sent copy, read, and no new mail. */
  sentBy?: string;
}

export interface Filed {
  /** Message.id, the `emailId` of events. */
  messageId: string;
  threadId: string;
  /** It was there already: nothing was filed or announced. */
  duplicate: boolean;
}

/** Shown for mail whose From names nobody (RFC 6761 §6.4: an address that cannot exist). */
const NOBODY: EmailAddress = { email: "unknown@unknown.invalid" };

/** Addresses kept as participants of one conversation; the first ones, and whoever wrote last. */
const MOST_PARTICIPANTS = 500;

type Placeholder = ReturnType<typeof sql.placeholder>;

/** { name: the placeholder of that name, … } */
const placeholders = <K extends string>(...names: K[]): Record<K, Placeholder> =>
  Object.fromEntries(names.map((name) => [name, sql.placeholder(name)])) as unknown as Record<K, Placeholder>;

/** What filing writes of a conversation, new or continued. */
const THREAD_STATE = [
  "folder",
  "unread",
  "snoozedUntil",
  "lastMessageAt",
  "hasAttachments",
  "messageCount",
  "nextOrdinal",
  "subject",
  "subjectKey",
  "snippet",
  "counterpart",
  "participants",
] as const;

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
          eq(messages.kind, sql.placeholder("kind")),
        ),
      )
      .limit(1)
      .prepare(),
    newerInbound: db
      .select({ seq: messages.seq })
      .from(messages)
      .where(
        and(
          eq(messages.threadSeq, sql.placeholder("threadSeq")),
          eq(messages.kind, "received"),
          gt(messages.date, sql.placeholder("date")),
        ),
      )
      .limit(1)
      .prepare(),
    oldest: db
      .select({ date: sql<number>`min(${messages.date})` })
      .from(messages)
      .where(eq(messages.threadSeq, sql.placeholder("threadSeq")))
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
    insertAttachment: db
      .insert(attachments)
      .values(
        placeholders("id", "messageSeq", "position", "filename", "contentType", "size", "inline", "contentId", "blob"),
      )
      .prepare(),
  };
}

const statements = prepared(prepareStatements);

type ThreadState = Pick<ThreadRow, (typeof THREAD_STATE)[number]>;

export function createFiling({
  engine,
  runtime,
}: {
  engine: Pick<SearchEngine, "add">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}): (tx: Tx, filing: Filing) => Filed {
  return function file(tx, filing) {
    const { mailboxId, receivedOn, message, now } = filing;
    const mailbox = statements(tx).mailbox.get({ mailboxId });
    if (!mailbox) throw new Error(`there is no mailbox ${mailboxId} to file into`);
    const kind = filing.sentBy === undefined ? "received" : "sent";
    const same = findSame(tx, filing, kind);
    if (same) return { ...same, duplicate: true };

    const from = message.from ?? NOBODY;
    const date = message.date !== undefined && message.date <= now ? message.date : now;
    const spam = kind === "received" && (filing.spam === true || isTrainedAsSpam(tx, mailboxId, from.email));
    const joined = findThread(tx, { mailboxId, receivedOn, message, date, spam });
    const state = joined
      ? continued(tx, joined, { ...message, from }, { kind, date })
      : started({ ...message, from }, { kind, date, spam });
    const thread = joined ?? startThread(tx, { ...state, id: newId(runtime, "thr"), mailboxId, receivedOn });
    if (joined) {
      statements(tx).updateThread.run({ ...state, seq: joined.seq });
      if (state.folder !== joined.folder) moveMessages(tx, joined.seq, state.folder);
    }
    for (const known of new Set([message.messageId, message.inReplyTo, ...message.references])) {
      if (known === undefined) continue;
      statements(tx).insertReference.run({ mailboxId, messageId: known, threadSeq: thread.seq });
    }

    const id = newId(runtime, "msg");
    const seq = thread.seq * MESSAGES_PER_THREAD + state.nextOrdinal - 1;
    insertMessage(tx, filing, { id, seq, threadSeq: thread.seq, kind, from, date, folder: state.folder });
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
    { mailboxId, receivedOn, message, now, auth, sentBy }: Filing,
    row: {
      id: string;
      seq: number;
      threadSeq: number;
      kind: "received" | "sent";
      from: EmailAddress;
      date: number;
      folder: Folder;
    },
  ): void {
    statements(tx).insertMessage.run({
      ...row,
      mailboxId,
      folder: folderOfMessage(row.kind, row.folder),
      read: row.kind === "sent",
      filedAt: now,
      messageId: message.messageId ?? null,
      inReplyTo: message.inReplyTo ?? null,
      to: message.to,
      cc: message.cc,
      bcc: message.bcc,
      replyTo: message.replyTo,
      subject: message.subject,
      snippet: message.snippet,
      receivedOn: row.kind === "sent" ? null : receivedOn,
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

function startThread(tx: Tx, row: ThreadState & Pick<ThreadRow, "id" | "mailboxId" | "receivedOn">) {
  const inserted = statements(tx).insertThread.get(row);
  if (!inserted) throw new Error("inserting a conversation returned no row");
  return { id: row.id, seq: inserted.seq };
}

/** The same message filed before. One without a Message-ID is never taken for another. */
function findSame(tx: Tx, { mailboxId, message }: Filing, kind: "received" | "sent") {
  if (message.messageId === undefined) return undefined;
  return statements(tx).same.get({
    mailboxId,
    messageId: message.messageId,
    fingerprint: message.fingerprint,
    kind,
  });
}

type Written = PreparedMessage & { from: EmailAddress };

/** spec: Thread.from. A conversation with nobody but Bcc recipients shows who wrote it: Bcc is shown nowhere. */
const counterpartOf = ({ from, to, cc }: Written, kind: "received" | "sent"): EmailAddress =>
  kind === "received" ? from : (to[0] ?? cc[0] ?? from);

function started(message: Written, arrival: { kind: "received" | "sent"; date: number; spam: boolean }): ThreadState {
  return {
    folder: arrival.kind === "sent" ? "sent" : arrival.spam ? "spam" : "inbox",
    unread: arrival.kind === "received",
    snoozedUntil: null,
    lastMessageAt: arrival.date,
    hasAttachments: message.attachments.length > 0,
    messageCount: 1,
    nextOrdinal: 1,
    subject: message.subject,
    subjectKey: message.subjectKey,
    snippet: message.snippet,
    counterpart: counterpartOf(message, arrival.kind),
    participants: participantsWith([], message),
  };
}

/** The conversation with the message in it, whichever of its messages that is by date. */
function continued(
  tx: Tx,
  thread: ThreadRow,
  message: Written,
  { kind, date }: { kind: "received" | "sent"; date: number },
): ThreadState {
  const received = kind === "received";
  const newest = date >= thread.lastMessageAt;
  const newestInbound = () => statements(tx).newerInbound.get({ threadSeq: thread.seq, date }) === undefined;
  const onlySent = () =>
    statements(tx).newerInbound.get({ threadSeq: thread.seq, date: Number.MIN_SAFE_INTEGER }) === undefined;
  const showsCounterpart = received ? newest || newestInbound() : newest && onlySent();
  const oldest = !newest && date < (statements(tx).oldest.get({ threadSeq: thread.seq })?.date ?? date);
  return {
    // New mail brings a conversation back, but for one in spam (contract: Folders).
    folder: received && thread.folder !== "spam" ? "inbox" : thread.folder,
    unread: received || thread.unread,
    snoozedUntil: received ? null : thread.snoozedUntil,
    lastMessageAt: Math.max(thread.lastMessageAt, date),
    hasAttachments: thread.hasAttachments || message.attachments.length > 0,
    messageCount: thread.messageCount + 1,
    nextOrdinal: thread.nextOrdinal + 1,
    subject: oldest ? message.subject : thread.subject,
    subjectKey: oldest ? message.subjectKey : thread.subjectKey,
    snippet: newest ? message.snippet : thread.snippet,
    counterpart: showsCounterpart ? counterpartOf(message, kind) : thread.counterpart,
    participants: participantsWith(thread.participants, message),
  };
}

/** The participants and those of one more message, each address once, with the first name it was given. */
function participantsWith(known: readonly EmailAddress[], message: Written): EmailAddress[] {
  const byAddress = new Map(known.map((participant) => [participant.email.toLowerCase(), participant]));
  for (const participant of headerAddresses(message)) {
    const key = participant.email.toLowerCase();
    const before = byAddress.get(key);
    if (before === undefined ? byAddress.size < MOST_PARTICIPANTS : before.name === undefined) {
      byAddress.set(key, participant);
    }
  }
  const participants = [...byAddress.values()];
  if (!byAddress.has(message.from.email.toLowerCase())) participants[participants.length - 1] = message.from;
  return participants;
}
