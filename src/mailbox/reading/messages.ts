/**
 * Single messages: recent ones in a list, one whole, its RFC 5322 file, its attachments (rules: List of messages, One
 * message).
 */
import { and, asc, desc, eq, getTableColumns, inArray, isNull, lt, ne, sql } from "drizzle-orm";
import { type Caller, findReach, outOfReachError, type Reach } from "../../access/caller.ts";
import { toIsoTime } from "../../base/time.ts";
import type { EmailAddress } from "../../message/address.ts";
import { formatAddress } from "../../message/compose.ts";
import { readListUnsubscribe } from "../../message/mailing-list.ts";
import { parseReferences } from "../../message/message-id.ts";
import { unpackText } from "../../message/reading.ts";
import { SANITIZER_VERSION } from "../../message/sanitize.ts";
import { htmlOfText } from "../../message/text.ts";
import type { Reader } from "../../store/core.ts";
import { addresses, attachments, mailboxes, messageBodies, messages, threads } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { readHeldView } from "../changing/holds.ts";
import { type ClassificationView, readClassification } from "../junk/classification.ts";
import { isOwnAddress } from "../state/addresses.ts";
import type { MailCore } from "../state/mail-core.ts";
import { mailboxesInReach, resolveMailboxId } from "../state/mailboxes.ts";
import type {
  AttachmentContent,
  AttachmentView,
  Direction,
  MessageDetailsView,
  MessageFilters,
  MessageSummaryView,
  MessageView,
} from "../state/views.ts";
import { composeInParser, composeMessageFile, estimateComposedSize, type StoredParts } from "./composers.ts";
import { newestMessages } from "./walk.ts";

/** Characters of each message's text in a list, which bounds the memory for a page; GET the message for the rest. */
const LONGEST_BODY_TEXT = 100_000;

/**
 * Bytes of messages that one answer reads whole, newest first: bodies, addresses and attachments. The others are cut,
 * which bounds the time and memory for a conversation or list of any mail.
 */
const LARGEST_ANSWER_BYTES = 16 * 1024 * 1024;
/** Bytes that an attachment counts for in LARGEST_ANSWER_BYTES. */
const ATTACHMENT_BYTES = 1_000;
/** Limits of a cut message: it leaves out longer lists of addresses (bytes of JSON), and attachments after the first ones. */
const LONGEST_CUT_LIST = 2_000;
const MOST_CUT_ATTACHMENTS = 10;

/** True for a message whose messages.seq is in the placeholder `cut`, a JSON array. */
const isCut = sql<boolean>`${messages.seq} in (select value from json_each(${sql.placeholder("cut")}))`.mapWith(
  Boolean,
);

/** The bytes of a row's lists of addresses, known without reading them. */
const addressBytes = sql`octet_length(${messages.to}) + octet_length(${messages.cc}) + octet_length(${messages.bcc})`;

const cutList = (list: typeof messages.to | typeof messages.cc | typeof messages.bcc) =>
  sql<EmailAddress[]>`iif(${isCut} and octet_length(${list}) > ${LONGEST_CUT_LIST}, '[]', ${list})`.mapWith(list);

const { replyTo: _, ...columns } = getTableColumns(messages);
const message = { ...columns, to: cutList(messages.to), cc: cutList(messages.cc), bcc: cutList(messages.bcc) };

const statements = prepared((db) => {
  const whole = (html: boolean) =>
    db
      .select({
        message,
        threadId: threads.id,
        cut: isCut,
        body: {
          text: sql<string>`iif(${isCut}, ${messages.snippet}, ${messageBodies.text})`,
          html: html ? sql<BodyRow["html"]>`iif(${isCut}, null, ${messageBodies.html})` : sql<null>`null`,
          htmlBytes: messageBodies.htmlBytes,
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
        bytes: sql<number>`${addressBytes} + octet_length(${messageBodies.text})
          + iif(${sql.placeholder("html")}, coalesce(${messageBodies.htmlBytes}, octet_length(${messageBodies.html}), 0), 0)
          + ${ATTACHMENT_BYTES} * (select coalesce(max(${attachments.position}) + 1, 0) from ${attachments}
            where ${attachments.messageSeq} = ${messages.seq})`,
      })
      .from(messages)
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
      .where(eq(messages.threadSeq, sql.placeholder("threadSeq")))
      .orderBy(desc(messages.date), desc(messages.seq))
      .prepare(),
    attachments: db
      .select()
      .from(attachments)
      .where(
        and(
          inArray(attachments.messageSeq, sql`(select value from json_each(${sql.placeholder("seqs")}))`),
          lt(attachments.position, sql.placeholder("most")),
        ),
      )
      .orderBy(asc(attachments.messageSeq), asc(attachments.position))
      .prepare(),
    attachment: db
      .select({ attachment: attachments, emailId: messages.id, mailboxId: messages.mailboxId })
      .from(attachments)
      .innerJoin(messages, eq(messages.seq, attachments.messageSeq))
      .where(eq(attachments.id, sql.placeholder("id")))
      .prepare(),
    details: db
      .select({
        mailboxId: messages.mailboxId,
        folder: messages.folder,
        inReplyTo: messages.inReplyTo,
        replyTo: messages.replyTo,
        headers: messageBodies.headers,
      })
      .from(messages)
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
      .where(eq(messages.id, sql.placeholder("id")))
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
    sizes: db
      .select({
        seq: messageBodies.messageSeq,
        bytes: sql<number>`${addressBytes} + octet_length(${messageBodies.text})`,
      })
      .from(messages)
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
      .where(inArray(messages.seq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
      .prepare(),
    summaries: db
      .select({
        message,
        threadId: threads.id,
        cut: isCut,
        text: sql<string>`iif(${isCut}, ${messages.snippet}, substr(${messageBodies.text}, 1, ${LONGEST_BODY_TEXT}))`,
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
export type StoredFile = Omit<AttachmentRow, "id" | "messageSeq" | "position">;

/** The file of an attachment, to attach it to another message. */
export const storedFile = ({
  id: _,
  messageSeq: __,
  position: ___,
  ...file
}: StoredFile & Partial<AttachmentRow>): StoredFile => file;

/** The attachments of a message (messages.seq), in order. */
export const listMessageAttachments = (db: Db, seq: number): AttachmentRow[] =>
  statements(db).attachments.all({ seqs: JSON.stringify([seq]), most: Number.MAX_SAFE_INTEGER });

/** messages.seq of those of these messages that do not fit into an answer beside the ones before them. */
function listCutMessages(sizes: readonly { seq: number; bytes: number }[]): number[] {
  let left = LARGEST_ANSWER_BYTES;
  return sizes
    .filter(({ bytes }) => {
      if (bytes > left) return true;
      left -= bytes;
      return false;
    })
    .map(({ seq }) => seq);
}

/** The attachments of messages, by messages.seq, of those in `cut` only the first ones. */
function attachmentsOfAll(db: Db, seqs: readonly number[], cut: readonly number[]): Map<number, AttachmentRow[]> {
  const isCut = new Set(cut);
  const whole = JSON.stringify(seqs.filter((seq) => !isCut.has(seq)));
  const rows = [
    ...statements(db).attachments.all({ seqs: whole, most: Number.MAX_SAFE_INTEGER }),
    ...statements(db).attachments.all({ seqs: JSON.stringify(cut), most: MOST_CUT_ATTACHMENTS }),
  ];
  return Map.groupBy(rows, ({ messageSeq }) => messageSeq);
}

/** The messages of a conversation, oldest first, as the caller sees them. */
export function messagesOfThread(db: Db, caller: Caller, threadSeq: number, options: { html: boolean }): MessageView[] {
  const { ofThread, ofThreadWithoutHtml } = statements(db);
  const cut = listCutMessages(statements(db).sizesOfThread.all({ threadSeq, html: options.html ? 1 : 0 }));
  const rows = (options.html ? ofThread : ofThreadWithoutHtml).all({ threadSeq, cut: JSON.stringify(cut) });
  const seqs = rows.map(({ message }) => message.seq);
  const listMessageAttachments = attachmentsOfAll(db, seqs, cut);
  const readBcc = bccReader(db, caller);
  return rows.map(({ message, threadId, cut, body }) =>
    messageView(message, {
      threadId,
      truncated: cut,
      text: body.text,
      html: servedHtml(body),
      hasHtml: body.hasHtml,
      attachments: listMessageAttachments.get(message.seq) ?? [],
      bcc: readBcc(message),
    }),
  );
}

/** @throws AppError not_found, also for a message out of reach */
function reachedMessage(db: Db, caller: Caller, id: string, options: { html: boolean }) {
  const { one, oneWithoutHtml } = statements(db);
  const found = (options.html ? one : oneWithoutHtml).get({ id, cut: "[]" });
  if (!found || !findReach(db, caller, found.message.mailboxId)) throw outOfReachError("message");
  return found;
}

/** Newest first. @throws AppError not_found (mailbox) */
export function listMessages({ db }: Reader, caller: Caller, filters: MessageFilters): MessageSummaryView[] {
  const mailboxId = filters.mailbox === undefined ? undefined : resolveMailboxId(db, caller, filters.mailbox);
  const mailboxes = mailboxesInReach(db, caller, mailboxId);
  const seqs = newestMessages(db, [...mailboxes.keys()], filters);
  const bytesOf = new Map(
    statements(db)
      .sizes.all({ seqs: JSON.stringify(seqs) })
      .map(({ seq, bytes }) => [seq, bytes]),
  );
  const cut = listCutMessages(seqs.map((seq) => ({ seq, bytes: bytesOf.get(seq) ?? 0 })));
  const rows = new Map(
    statements(db)
      .summaries.all({ seqs: JSON.stringify(seqs), cut: JSON.stringify(cut) })
      .map((row) => [row.message.seq, row]),
  );
  return seqs.flatMap((seq) => {
    const row = rows.get(seq);
    const reach = row && mailboxes.get(row.message.mailboxId);
    return row && reach ? [summaryView(row, reach)] : [];
  });
}

/** @throws AppError not_found */
export function getMessage({ db }: Reader, caller: Caller, id: string, options: { html: boolean }): MessageView {
  const { message, threadId, body } = reachedMessage(db, caller, id, options);
  return messageView(message, {
    threadId,
    truncated: false,
    text: body.text,
    html: servedHtml(body),
    hasHtml: body.hasHtml,
    attachments: listMessageAttachments(db, message.seq),
    bcc: bccReader(db, caller)(message),
  });
}

/** Text and HTML of a message as they were written. @throws AppError not_found */
export function writtenContent({ db }: Reader, caller: Caller, id: string): { text: string; html?: string } {
  const { message, body } = reachedMessage(db, caller, id, { html: false });
  const { htmlSource } = statements(db).source.get({ seq: message.seq }) ?? {};
  return { text: body.text, ...(htmlSource && { html: unpackText(htmlSource) }) };
}

/** Fields of a message that getMessage leaves out. @throws AppError not_found */
export function getMessageDetails({ db }: Reader, caller: Caller, id: string): MessageDetailsView {
  const found = statements(db).details.get({ id });
  const reach = found && findReach(db, caller, found.mailboxId);
  if (!found || !reach) throw outOfReachError("message");
  const { folder, inReplyTo, replyTo, headers } = found;
  const references = parseReferences(
    headers.flatMap(([name, value]) => (name.toLowerCase() === "references" ? value : [])).join(" "),
  );
  const listUnsubscribe = readListUnsubscribe(headers);
  return {
    folder,
    mailbox: reach.mailbox.address,
    ...(inReplyTo !== null && { inReplyTo }),
    ...(references.length > 0 && { references }),
    ...(replyTo.length > 0 && { replyTo }),
    ...(listUnsubscribe && { listUnsubscribe }),
    ...readHeldView(db, id),
  };
}

/** Why a message is in spam or not. @throws AppError not_found */
export function getClassification({ db }: Reader, caller: Caller, id: string): ClassificationView {
  const { message } = reachedMessage(db, caller, id, { html: false });
  return readClassification(db, message.id);
}

/** Bytes of a message that is composed on the main thread when it is read. */
export const SMALL_MESSAGE = 64 * 1024;

/**
 * The message as an RFC 5322 file, composed from its stored parts; a large one is in a file's memory. @throws AppError
 * not_found
 */
export async function getRawMessage({ db, blobs, parser }: MailCore, caller: Caller, id: string): Promise<Uint8Array> {
  const { message, body } = reachedMessage(db, caller, id, { html: false });
  const parts = readStoredMessageParts(db, { ...message, text: body.text }, bccReader(db, caller)(message));
  if (estimateComposedSize(parts) <= SMALL_MESSAGE) return composeMessageFile(parts, blobs.read);
  const composed = await composeInParser(parser, { ...parts, trace: "" }, caller.userId);
  return composed.content.bytes;
}

/** Composes the RFC 5322 file of a message. `bcc`: the part that the reader may see. */
export const composeStoredMessage = (
  { db, blobs }: Pick<Reader, "db" | "blobs">,
  message: { id: string; seq: number; text: string },
  bcc: readonly EmailAddress[],
): Promise<Uint8Array> => composeMessageFile(readStoredMessageParts(db, message, bcc), blobs.read);

/** Reads the parts from which the file of a message is composed. */
export function readStoredMessageParts(
  db: Db,
  { id, seq, text }: { id: string; seq: number; text: string },
  bcc: readonly EmailAddress[],
): StoredParts {
  const source = statements(db).source.get({ seq });
  return {
    id,
    headers: [
      ...(source?.headers ?? []),
      ...(bcc.length === 0 ? [] : [["Bcc", bcc.map(formatAddress).join(", ")] as const]),
    ],
    text,
    ...(source?.htmlSource && { html: source.htmlSource }),
    files: listMessageAttachments(db, seq).map(storedFile),
  };
}

/** The attachments of a message, to attach them to another. @throws AppError not_found */
export function listReusableAttachments({ db }: Reader, caller: Caller, id: string): StoredFile[] {
  const { message } = reachedMessage(db, caller, id, { html: false });
  return listMessageAttachments(db, message.seq).map(storedFile);
}

function reachedAttachment(db: Db, caller: Caller, id: string) {
  const found = statements(db).attachment.get({ id });
  if (!found || !findReach(db, caller, found.mailboxId)) throw outOfReachError("attachment");
  return found;
}

/** An attachment, to attach it to another message, and the message that has it. @throws AppError not_found */
export function getReusableAttachment(
  { db }: Reader,
  caller: Caller,
  id: string,
): { file: StoredFile; emailId: string } {
  const { attachment, emailId } = reachedAttachment(db, caller, id);
  return { file: storedFile(attachment), emailId };
}

/** @throws AppError not_found */
export async function getAttachment({ db, blobs }: Reader, caller: Caller, id: string): Promise<AttachmentContent> {
  const { attachment, emailId } = reachedAttachment(db, caller, id);
  const { filename, contentType, parameters, size, blob } = attachment;
  return { emailId, filename, contentType, parameters, size, content: await blobs.file(blob) };
}

type Summary = NonNullable<ReturnType<ReturnType<typeof statements>["summaries"]["get"]>>;

const summaryView = ({ message, threadId, cut, text }: Summary, { mailbox }: Reach): MessageSummaryView => ({
  id: message.id,
  threadId,
  mailbox: mailbox.address,
  folder: message.folder,
  direction: messageDirection(message.kind),
  from: message.from,
  to: message.to,
  ...(message.cc.length === 0 ? {} : { cc: message.cc }),
  subject: message.subject,
  snippet: message.snippet,
  bodyText: text,
  ...(cut && { truncated: true }),
  date: toIsoTime(message.date),
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

type MessageRow = Omit<typeof messages.$inferSelect, "replyTo">;
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

/** The HTML to serve. HTML from an older policy is renewed before (stored-html.ts), or its text replaces it. */
export function servedHtml({
  html,
  htmlBytes,
  sanitizer,
  text,
}: Pick<BodyRow, "html" | "htmlBytes" | "sanitizer" | "text">): string | null {
  if (html !== null && sanitizer < SANITIZER_VERSION) return htmlOfText(text);
  return html instanceof Uint8Array ? unpackText(html, htmlBytes ?? 0) : html;
}

const messageDirection = (kind: MessageRow["kind"]): Direction => (kind === "received" ? "inbound" : "outbound");

/** Views of messages without HTML, which spares a query for it. */
const withoutHtml = new WeakSet<object>();

/** True if a view's message is known to have no HTML. */
export const hasNoHtml = (message: Pick<MessageView, "id">): boolean => withoutHtml.has(message);

function messageView(
  row: MessageRow,
  parts: {
    threadId: string;
    /** The message is cut. */
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
    direction: messageDirection(row.kind),
    ...(row.messageId === null ? {} : { messageId: row.messageId }),
    from: row.from,
    to: row.to,
    cc: row.cc,
    ...(parts.bcc.length === 0 ? {} : { bcc: parts.bcc }),
    subject: row.subject,
    date: toIsoTime(row.date),
    read: row.read,
    text: parts.text,
    ...(parts.truncated && { truncated: true }),
    ...(parts.html === null ? {} : { html: parts.html }),
    attachments: parts.attachments.map(attachmentView),
    ...(row.auth === null ? {} : { auth: row.auth }),
    ...(row.deliveredAt === null ? {} : { deliveredAt: toIsoTime(row.deliveredAt) }),
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
