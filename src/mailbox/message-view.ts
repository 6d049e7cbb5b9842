/**
 * Messages as they are shown (rules: Message fields), and the one place that decides what of a Bcc anybody sees: the
 * sender the whole list, a Bcc'd person their own address, nobody else any (rules: Bcc).
 */
import { and, eq, ne, sql } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import type { EmailAddress } from "../message/address.ts";
import { SANITIZER_VERSION } from "../message/sanitize.ts";
import { htmlOfText } from "../message/text.ts";
import { prepared } from "../store/prepared.ts";
import { addresses, type attachments, mailboxes, type messages } from "../store/schema.ts";
import type { Db } from "../store/store.ts";
import { isAmong } from "./addresses.ts";
import type { AttachmentView, Direction, MessageView } from "./views.ts";

type MessageRow = typeof messages.$inferSelect;
export type AttachmentRow = typeof attachments.$inferSelect;

export interface BodyRow {
  messageSeq: number;
  text: string;
  /** Null also when it was not asked for. */
  html: string | null;
  sanitizer: number;
}

const statements = prepared((db) => ({
  ownAddresses: db
    .select({ address: addresses.address })
    .from(addresses)
    .innerJoin(mailboxes, eq(mailboxes.id, addresses.mailboxId))
    .where(and(eq(mailboxes.ownerId, sql.placeholder("userId")), ne(addresses.kind, "catch-all")))
    .prepare(),
}));

/** Answers, for one caller, what they see of a message's Bcc; their own addresses are looked up once, if at all. */
export function bccReader(
  db: Db,
  caller: Caller,
): (message: Pick<MessageRow, "kind" | "bcc" | "sentBy">) => EmailAddress[] {
  let own: Set<string> | undefined;
  return ({ kind, bcc, sentBy }) => {
    if (bcc.length === 0 || sentBy === caller.userId) return bcc;
    // Nobody was sent it yet.
    if (kind === "draft") return [];
    own ??= new Set([
      caller.email,
      ...statements(db)
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

export const directionOf = (kind: MessageRow["kind"]): Direction => (kind === "received" ? "inbound" : "outbound");

/** Views of messages without HTML, so that the store need not be asked for it. */
const withoutHtml = new WeakSet<object>();

/** Whether it is known of a view that its message has no HTML. */
export const hasNoHtml = (message: Pick<MessageView, "id">): boolean => withoutHtml.has(message);

export function messageView(
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
