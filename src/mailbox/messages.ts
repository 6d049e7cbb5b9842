/**
 * Single messages: recent ones in a list, one whole, its RFC 5322 file, its attachments (rules: List of messages, One
 * message).
 */
import { and, asc, between, desc, eq, inArray, isNull, ne, sql } from "drizzle-orm";
import { type Caller, notFound, type Reach, reachTo } from "../access/caller.ts";
import type { EmailAddress } from "../message/address.ts";
import { composeMessage, formatAddress } from "../message/compose.ts";
import { unpackText } from "../message/reading.ts";
import { SANITIZER_VERSION } from "../message/sanitize.ts";
import { htmlOfText } from "../message/text.ts";
import {
  addresses,
  attachments,
  MESSAGES_PER_THREAD,
  mailboxes,
  messageBodies,
  messages,
  threads,
} from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { isOwnAddress } from "./addresses.ts";
import { type ClassificationView, readClassification } from "./junk/classification.ts";
import { mailboxesInReach, mailboxIdOf } from "./mailboxes.ts";
import type {
  AttachmentContent,
  AttachmentView,
  Direction,
  MessageFilters,
  MessageSummaryView,
  MessageView,
} from "./views.ts";
import { newestMessages } from "./walk.ts";

/** Characters of each message's text in a list, which bounds the memory for a page; GET the message for the rest. */
const LONGEST_BODY_TEXT = 100_000;

/** Bytes of bodies returned with a conversation; the oldest beyond it are cut. */
const LARGEST_CONVERSATION_BYTES = 16 * 1024 * 1024;

const statements = prepared((db) => {
  /** `cut`: placeholder of a JSON array, the messages.seq that are returned without their bodies. */
  const isCut = sql<boolean>`${messages.seq} in (select value from json_each(${sql.placeholder("cut")}))`.mapWith(
    Boolean,
  );
  const whole = (html: boolean) =>
    db
      .select({
        message: messages,
        threadId: threads.id,
        cut: isCut,
        body: {
          text: sql<string>`iif(${isCut}, ${messages.snippet}, ${messageBodies.text})`,
          html: html ? sql<string | null>`iif(${isCut}, null, ${messageBodies.html})` : sql<string | null>`null`,
          sanitizer: messageBodies.sanitizer,
          hasHtml: sql<boolean>`${messageBodies.htmlSource} is not null`.mapWith(Boolean),
        },
      })
      .from(messages)
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq));
  const one = (html: boolean) =>
    whole(html)
      .where(eq(messages.id, sql.placeholder("id")))
      .prepare();
  const ofThread = (html: boolean) =>
    whole(html)
      .where(eq(messages.threadSeq, sql.placeholder("threadSeq")))
      .orderBy(asc(messages.date), asc(messages.seq))
      .prepare();
  return {
    one: one(true),
    oneWithoutHtml: one(false),
    ofThread: ofThread(true),
    ofThreadWithoutHtml: ofThread(false),
    sizesOfThread: db
      .select({
        seq: messageBodies.messageSeq,
        text: sql<number>`octet_length(${messageBodies.text})`,
        html: sql<number>`coalesce(octet_length(${messageBodies.html}), 0)`,
      })
      .from(messages)
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
      .where(eq(messages.threadSeq, sql.placeholder("threadSeq")))
      .orderBy(desc(messages.date), desc(messages.seq))
      .prepare(),
    attachments: db
      .select()
      .from(attachments)
      .where(between(attachments.messageSeq, sql.placeholder("from"), sql.placeholder("to")))
      .orderBy(asc(attachments.messageSeq), asc(attachments.position))
      .prepare(),
    attachment: db
      .select({ attachment: attachments, mailboxId: messages.mailboxId })
      .from(attachments)
      .innerJoin(messages, eq(messages.seq, attachments.messageSeq))
      .where(eq(attachments.id, sql.placeholder("id")))
      .prepare(),
    source: db
      .select({ headers: messageBodies.headers, htmlSource: messageBodies.htmlSource })
      .from(messageBodies)
      .where(eq(messageBodies.messageSeq, sql.placeholder("seq")))
      .prepare(),
    setDelivered: db
      .update(messages)
      .set({ deliveredAt: sql`${sql.placeholder("now")}` })
      .where(and(eq(messages.id, sql.placeholder("emailId")), eq(messages.kind, "sent"), isNull(messages.deliveredAt)))
      .prepare(),
    ownAddresses: db
      .select({ address: addresses.address, since: addresses.createdAt })
      .from(addresses)
      .innerJoin(mailboxes, eq(mailboxes.id, addresses.mailboxId))
      .where(and(eq(mailboxes.ownerId, sql.placeholder("userId")), ne(addresses.kind, "catch-all")))
      .prepare(),
    summaries: db
      .select({
        message: messages,
        threadId: threads.id,
        text: sql<string>`substr(${messageBodies.text}, 1, ${LONGEST_BODY_TEXT})`,
      })
      .from(messages)
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
      .where(inArray(messages.seq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
      .prepare(),
  };
});

export type AttachmentRow = typeof attachments.$inferSelect;

/** A file whose blob is already durable. */
export type StoredFile = Pick<AttachmentRow, "filename" | "contentType" | "size" | "inline" | "contentId" | "blob">;

/** The file of an attachment, to attach it to another message. */
export const storedFile = ({ filename, contentType, size, inline, contentId, blob }: StoredFile): StoredFile => ({
  filename,
  contentType,
  size,
  inline,
  contentId,
  blob,
});

/** The attachments of a message (messages.seq), in order. */
export const attachmentsOf = (db: Db, seq: number): AttachmentRow[] =>
  statements(db).attachments.all({ from: seq, to: seq });

/** messages.seq of the messages that are returned without their bodies, which bounds the memory for a conversation. */
function cutOfThread(db: Db, threadSeq: number, options: { html: boolean }): number[] {
  let bytes = 0;
  return statements(db)
    .sizesOfThread.all({ threadSeq })
    .filter(({ text, html }) => {
      bytes += text + (options.html ? html : 0);
      return bytes > LARGEST_CONVERSATION_BYTES;
    })
    .map(({ seq }) => seq);
}

/** The messages of a conversation, oldest first, as the caller sees them. */
export function messagesOfThread(
  store: Store,
  caller: Caller,
  threadSeq: number,
  options: { html: boolean },
): MessageView[] {
  const { db } = store;
  const { ofThread, ofThreadWithoutHtml } = statements(db);
  const cut = JSON.stringify(cutOfThread(db, threadSeq, options));
  const rows = (options.html ? ofThread : ofThreadWithoutHtml).all({ threadSeq, cut });
  const first = threadSeq * MESSAGES_PER_THREAD;
  const attachmentsOf = Map.groupBy(
    statements(db).attachments.all({ from: first, to: first + MESSAGES_PER_THREAD - 1 }),
    ({ messageSeq }) => messageSeq,
  );
  const readBcc = bccReader(db, caller);
  return rows.map(({ message, threadId, cut, body }) =>
    messageView(message, {
      threadId,
      truncated: cut,
      text: body.text,
      html: servedHtml(body),
      hasHtml: body.hasHtml,
      attachments: attachmentsOf.get(message.seq) ?? [],
      bcc: readBcc(message),
    }),
  );
}

/** @throws AppError not_found, also for a message out of reach */
function reachedMessage(db: Db, caller: Caller, id: string, options: { html: boolean }) {
  const { one, oneWithoutHtml } = statements(db);
  const found = (options.html ? one : oneWithoutHtml).get({ id, cut: "[]" });
  if (!found || !reachTo(db, caller, found.message.mailboxId)) throw notFound("message");
  return found;
}

export function listMessages(db: Db, caller: Caller, filters: MessageFilters): MessageSummaryView[] {
  const mailboxId = filters.mailbox === undefined ? undefined : mailboxIdOf(db, caller, filters.mailbox);
  const mailboxes = mailboxesInReach(db, caller, mailboxId);
  const seqs = newestMessages(db, [...mailboxes.keys()], filters);
  const rows = new Map(
    statements(db)
      .summaries.all({ seqs: JSON.stringify(seqs) })
      .map((row) => [row.message.seq, row]),
  );
  return seqs.flatMap((seq) => {
    const row = rows.get(seq);
    const reach = row && mailboxes.get(row.message.mailboxId);
    return row && reach ? [summaryView(row, reach)] : [];
  });
}

export function getMessage(db: Db, caller: Caller, id: string, options: { html: boolean }): MessageView {
  const { message, threadId, body } = reachedMessage(db, caller, id, options);
  return messageView(message, {
    threadId,
    truncated: false,
    text: body.text,
    html: servedHtml(body),
    hasHtml: body.hasHtml,
    attachments: attachmentsOf(db, message.seq),
    bcc: bccReader(db, caller)(message),
  });
}

export function getClassification(db: Db, caller: Caller, id: string): ClassificationView {
  const { message } = reachedMessage(db, caller, id, { html: false });
  return readClassification(db, message.id);
}

export async function getRawMessage(store: Store, caller: Caller, id: string): Promise<Uint8Array> {
  const { message, body } = reachedMessage(store.db, caller, id, { html: false });
  const bcc = bccReader(store.db, caller)(message);
  return composeStored(store, { ...message, text: body.text }, bcc);
}

/**
 * Composes the RFC 5322 file of a message from stored headers, text, HTML and attachments. Lines end in CRLF. `bcc`:
 * the part that the reader may see.
 */
export async function composeStored(
  { db, blobs }: Pick<Store, "db" | "blobs">,
  { id, seq, text }: { id: string; seq: number; text: string },
  bcc: readonly EmailAddress[],
): Promise<Uint8Array> {
  const source = statements(db).source.get({ seq });
  return composeMessage({
    id,
    headers: [
      ...(source?.headers ?? []),
      ...(bcc.length === 0 ? [] : [["Bcc", bcc.map(formatAddress).join(", ")] as const]),
    ],
    text,
    ...(source?.htmlSource ? { html: unpackText(source.htmlSource) } : {}),
    attachments: await Promise.all(
      attachmentsOf(db, seq).map(async ({ filename, contentType, inline, contentId, blob }) => ({
        filename,
        contentType,
        inline,
        ...(contentId === null ? {} : { contentId }),
        content: await blobs.read(blob),
      })),
    ),
  });
}

export function filesOf(db: Db, caller: Caller, id: string): StoredFile[] {
  const { message } = reachedMessage(db, caller, id, { html: false });
  return attachmentsOf(db, message.seq).map(storedFile);
}

export function fileOf(db: Db, caller: Caller, id: string): StoredFile {
  const found = statements(db).attachment.get({ id });
  if (!found || !reachTo(db, caller, found.mailboxId)) throw notFound("attachment");
  return storedFile(found.attachment);
}

export function getAttachment({ db, blobs }: Store, caller: Caller, id: string): AttachmentContent {
  const { filename, contentType, size, blob } = fileOf(db, caller, id);
  return { filename, contentType, size, content: blobs.file(blob) };
}

type Summary = NonNullable<ReturnType<ReturnType<typeof statements>["summaries"]["get"]>>;

const summaryView = ({ message, threadId, text }: Summary, { mailbox }: Reach): MessageSummaryView => ({
  id: message.id,
  threadId,
  mailbox: mailbox.address,
  folder: message.folder,
  direction: directionOf(message.kind),
  from: message.from,
  to: message.to,
  ...(message.cc.length === 0 ? {} : { cc: message.cc }),
  subject: message.subject,
  snippet: message.snippet,
  bodyText: text,
  date: new Date(message.date).toISOString(),
  read: message.read,
  ...(message.messageId === null ? {} : { headerMessageId: message.messageId }),
});

/** Records that a recipient's server accepted it at `now` (epoch ms). The first call counts. */
export function markDelivered(tx: Tx, emailId: string, now: number): void {
  statements(tx).setDelivered.run({ emailId, now });
}

/*
 * Views of messages (rules: Message fields), and the only code that decides who sees a Bcc: the sender sees the whole
 * list, a Bcc recipient their own address, and everybody else nothing (rules: Bcc).
 */

type MessageRow = typeof messages.$inferSelect;
type BodyRow = typeof messageBodies.$inferSelect;

/**
 * Returns a function that gives the part of a message's Bcc that the caller sees. Their own addresses are read once, on
 * demand.
 */
function bccReader(
  db: Db,
  caller: Caller,
): (message: Pick<MessageRow, "kind" | "bcc" | "sentBy" | "date">) => EmailAddress[] {
  let own: { address: string; since: number }[] | undefined;
  return ({ kind, bcc, sentBy, date }) => {
    if (bcc.length === 0 || sentBy === caller.userId) return bcc;
    // A draft was sent to nobody yet.
    if (kind === "draft") return [];
    own ??= statements(db).ownAddresses.all({ userId: caller.userId });
    // Of what somebody here sent, no address of a later time: whoever may give themselves addresses could ask for one after
    // the other whether it was in Bcc.
    const counts = ({ since }: { since: number }) => kind !== "sent" || since <= date;
    const theirs = new Set([caller.email, ...own.filter(counts).map(({ address }) => address)]);
    return bcc.filter(({ email }) => isOwnAddress(theirs, email));
  };
}

/** The HTML to serve. HTML from an older policy is renewed before (reading.ts), or its text replaces it. */
export const servedHtml = ({ html, sanitizer, text }: Pick<BodyRow, "html" | "sanitizer" | "text">): string | null =>
  html === null || sanitizer >= SANITIZER_VERSION ? html : htmlOfText(text);

const directionOf = (kind: MessageRow["kind"]): Direction => (kind === "received" ? "inbound" : "outbound");

/** Views of messages without HTML, which spares a query for it. */
const withoutHtml = new WeakSet<object>();

/** True if a view's message is known to have no HTML. */
export const hasNoHtml = (message: Pick<MessageView, "id">): boolean => withoutHtml.has(message);

function messageView(
  row: MessageRow,
  parts: {
    threadId: string;
    /** The text is only a beginning, and the HTML is left out. */
    truncated: boolean;
    text: string;
    html: string | null;
    /** The message has HTML, even if it was not requested. */
    hasHtml: boolean;
    attachments: readonly AttachmentRow[];
    bcc: EmailAddress[];
  },
): MessageView {
  const view: MessageView = {
    id: row.id,
    threadId: parts.threadId,
    mailboxId: row.mailboxId,
    direction: directionOf(row.kind),
    ...(row.messageId === null ? {} : { messageId: row.messageId }),
    from: row.from,
    to: row.to,
    cc: row.cc,
    ...(parts.bcc.length === 0 ? {} : { bcc: parts.bcc }),
    subject: row.subject,
    date: new Date(row.date).toISOString(),
    read: row.read,
    text: parts.text,
    ...(parts.truncated && { truncated: true }),
    ...(parts.html === null ? {} : { html: parts.html }),
    attachments: parts.attachments.map(attachmentView),
    ...(row.auth === null ? {} : { auth: row.auth }),
    ...(row.deliveredAt === null ? {} : { deliveredAt: new Date(row.deliveredAt).toISOString() }),
  };
  if (!parts.hasHtml) withoutHtml.add(view);
  return view;
}

export const attachmentView = (row: AttachmentRow): AttachmentView => ({
  id: row.id,
  filename: row.filename,
  contentType: row.contentType,
  size: row.size,
  inline: row.inline,
  ...(row.contentId === null ? {} : { contentId: row.contentId }),
  url: `/api/v1/attachments/${row.id}`,
});
