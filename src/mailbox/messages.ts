/** Single messages: lists of recent ones, one whole, its file, its attachments (rules: List of messages, One message). */
import { and, asc, between, desc, eq, inArray, isNull, ne, sql } from "drizzle-orm";
import { type Caller, notFound, type Reach, reachTo } from "../access/caller.ts";
import type { EmailAddress } from "../message/address.ts";
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
import { isAmong } from "./addresses.ts";
import type { DraftFile } from "./draft-changes.ts";
import { type JudgementView, readJudgement } from "./judged.ts";
import { mailboxesToList, mailboxIdOf } from "./mailboxes.ts";
import { composeStored } from "./stored-message.ts";
import type {
  AttachmentContent,
  AttachmentView,
  Direction,
  MessageFilters,
  MessageSummaryView,
  MessageView,
} from "./views.ts";
import { newestMessages } from "./walk.ts";

/** Characters of the text that a list shows of each message, so that no page of them outgrows memory; GET one for the rest. */
const LONGEST_BODY_TEXT = 100_000;

/** Bytes of bodies that a conversation is given with; those that do not fit are cut, the oldest first. */
const LARGEST_CONVERSATION_BYTES = 16 * 1024 * 1024;

const statements = prepared((db) => {
  /** `cut`: placeholder of a JSON array, the messages.seq that are given without their bodies. */
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
          messageSeq: messageBodies.messageSeq,
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

/**
 * messages.seq of those of a conversation that are given without their bodies, so that nobody can fill the memory by
 * writing often and much.
 */
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

export function createMessages(store: Store) {
  const { db } = store;

  /** @throws AppError not_found, the same when it does not exist and when it is not reached */
  function reachedMessage(caller: Caller, id: string, options: { html: boolean }) {
    const { one, oneWithoutHtml } = statements(db);
    const found = (options.html ? one : oneWithoutHtml).get({ id, cut: "[]" });
    if (!found || !reachTo(db, caller, found.message.mailboxId)) throw notFound("message");
    return found;
  }

  return {
    listMessages(caller: Caller, filters: MessageFilters): MessageSummaryView[] {
      const mailboxId = filters.mailbox === undefined ? undefined : mailboxIdOf(db, caller, filters.mailbox);
      const mailboxes = mailboxesToList(db, caller, mailboxId);
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
    },

    getMessage(caller: Caller, id: string, options: { html: boolean }): MessageView {
      const { message, threadId, body } = reachedMessage(caller, id, options);
      return messageView(message, {
        threadId,
        truncated: false,
        text: body.text,
        html: servedHtml(body),
        hasHtml: body.hasHtml,
        attachments: statements(db).attachments.all({ from: message.seq, to: message.seq }),
        bcc: bccReader(db, caller)(message),
      });
    },

    getJudgement(caller: Caller, id: string): JudgementView {
      const { message } = reachedMessage(caller, id, { html: false });
      return readJudgement(db, message.id);
    },

    async getRawMessage(caller: Caller, id: string): Promise<Uint8Array> {
      const { message, body } = reachedMessage(caller, id, { html: false });
      const bcc = bccReader(db, caller)(message);
      return composeStored(store, { ...message, text: body.text }, bcc);
    },

    filesOf(caller: Caller, id: string): DraftFile[] {
      const { message } = reachedMessage(caller, id, { html: false });
      return statements(db)
        .attachments.all({ from: message.seq, to: message.seq })
        .map(({ filename, contentType, size, inline, contentId, blob }) => ({
          ...{ filename, contentType, size, inline, contentId, blob },
        }));
    },

    getAttachment(caller: Caller, id: string): AttachmentContent {
      const found = statements(db).attachment.get({ id });
      if (!found || !reachTo(db, caller, found.mailboxId)) throw notFound("attachment");
      const { filename, contentType, size, blob } = found.attachment;
      return { filename, contentType, size, content: store.blobs.file(blob) };
    },
  };
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

/* When a sent message first reached somebody (rules: Message fields). */

const deliveryStatements = prepared((db) => ({
  setDelivered: db
    .update(messages)
    .set({ deliveredAt: sql`${sql.placeholder("now")}` })
    .where(and(eq(messages.id, sql.placeholder("emailId")), eq(messages.kind, "sent"), isNull(messages.deliveredAt)))
    .prepare(),
}));

/** The server of a recipient has accepted it at `now` (epoch ms); the first time counts. */
export function markDelivered(tx: Tx, emailId: string, now: number): void {
  deliveryStatements(tx).setDelivered.run({ emailId, now });
}

/*
 * Messages as they are shown (rules: Message fields), and the one place that decides what of a Bcc anybody sees: the sender the
 * whole list, a Bcc'd person their own address, nobody else any (rules: Bcc).
 */

type MessageRow = typeof messages.$inferSelect;
export type AttachmentRow = typeof attachments.$inferSelect;

export interface BodyRow {
  messageSeq: number;
  text: string;
  /** Null also when it was not asked for. */
  html: string | null;
  sanitizer: number;
}

const viewStatements = prepared((db) => ({
  ownAddresses: db
    .select({ address: addresses.address })
    .from(addresses)
    .innerJoin(mailboxes, eq(mailboxes.id, addresses.mailboxId))
    .where(and(eq(mailboxes.ownerId, sql.placeholder("userId")), ne(addresses.kind, "catch-all")))
    .prepare(),
}));

/** Answers, for one caller, what they see of a message's Bcc; their own addresses are looked up once, if at all. */
function bccReader(db: Db, caller: Caller): (message: Pick<MessageRow, "kind" | "bcc" | "sentBy">) => EmailAddress[] {
  let own: Set<string> | undefined;
  return ({ kind, bcc, sentBy }) => {
    if (bcc.length === 0 || sentBy === caller.userId) return bcc;
    // Nobody was sent it yet.
    if (kind === "draft") return [];
    own ??= new Set([
      caller.email,
      ...viewStatements(db)
        .ownAddresses.all({ userId: caller.userId })
        .map(({ address }) => address),
    ]);
    const theirs = own;
    return bcc.filter(({ email }) => isAmong(theirs, email));
  };
}

/** The HTML to serve. One that an older policy made is made anew before (reading.ts), or its text stands for it. */
export const servedHtml = ({ html, sanitizer, text }: Omit<BodyRow, "messageSeq">): string | null =>
  html === null || sanitizer >= SANITIZER_VERSION ? html : htmlOfText(text);

const directionOf = (kind: MessageRow["kind"]): Direction => (kind === "received" ? "inbound" : "outbound");

/** Views of messages without HTML, so that the store need not be asked for it. */
const withoutHtml = new WeakSet<object>();

/** Whether it is known of a view that its message has no HTML. */
export const hasNoHtml = (message: Pick<MessageView, "id">): boolean => withoutHtml.has(message);

function messageView(
  row: MessageRow,
  parts: {
    threadId: string;
    /** The text is only its beginning, and the HTML is left out. */
    truncated: boolean;
    text: string;
    html: string | null;
    /** There is HTML, also when it was not asked for. */
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
