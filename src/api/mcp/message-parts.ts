/** A message as a model reads it: what its body is, and what stands above it. Used by get_message and get_thread. */
import type { MessageView } from "../../mailbox/views.ts";
import { newTextOf } from "../../message/quoted.ts";
import { sanitizeHtml } from "../../message/sanitize.ts";
import { seenText } from "../../message/seen.ts";
import { visibleHtml } from "../../message/visible.ts";
import type { Piece } from "./budget.ts";
import { fence } from "./fence.ts";
import {
  addressText,
  attachmentText,
  listText,
  messageIdLine,
  shorten,
  shortenAddresses,
  shownAddress,
  shownAttachment,
  subjectLine,
} from "./parts.ts";
import type { RenderArguments, RenderContext } from "./rendering.ts";

export interface Body {
  kind: "text" | "html";
  /** The same for the same message and arguments: what `offset` counts in. */
  whole: string;
  /** What was left out of it, in sentences. */
  notes: string[];
}

/** The body that the arguments ask for. */
export function bodyOf(
  message: MessageView,
  { html = false, newTextOnly = false }: Pick<RenderArguments, "html" | "newTextOnly">,
  context: Pick<RenderContext, "htmlSource">,
): Body {
  // Of a conversation too large to be given whole: this is the snippet.
  if (message.truncated) return { kind: "text", whole: message.text, notes: [] };
  const source = context.htmlSource(message);
  if (html) {
    if (source === undefined) return { kind: "html", whole: "", notes: ["The message has no HTML; ask without html."] };
    const visible = visibleHtml(source);
    return { kind: "html", whole: sanitizeHtml(visible.html), notes: hiddenNotes(visible.hidden) };
  }
  const seen = seenText(message.text, source);
  const notes = hiddenNotes(seen.hidden);
  if (!newTextOnly) return { kind: "text", whole: seen.text, notes };
  const { text, leftOut } = newTextOf(seen.text, message.subject);
  if (leftOut > 0) {
    notes.push(`Left out: ${leftOut} characters of quoted history; get_message with newTextOnly false has them.`);
  }
  return { kind: "text", whole: text, notes };
}

const hiddenNotes = (hidden: number): string[] =>
  hidden === 0 ? [] : [`Left out: ${hidden} characters that the HTML hides from its reader.`];

/** What stands above a body, and what of it was cut. */
export function headOf(message: MessageView, budget: number, context: RenderContext) {
  const to = shortenAddresses(message.to, budget);
  const cc = shortenAddresses(message.cc, budget);
  const bcc = shortenAddresses(message.bcc ?? [], budget);
  const attachments = shorten(
    message.attachments.map((attachment) => shownAttachment(attachment, context)),
    budget,
    attachmentText,
  );
  const moreRecipients = to.more + cc.more + bcc.more;
  const subject = subjectLine(message.subject);
  const messageId = message.messageId === undefined ? undefined : messageIdLine(message.messageId);
  const from = shownAddress(message.from);
  const listOf = (name: string, { items, more }: typeof to) =>
    items.length + more === 0 ? [] : [`${name}: ${listText(items.map(addressText), more)}`];
  return {
    lines: [
      `From: ${addressText(from)}`,
      ...listOf("To", to),
      ...listOf("Cc", cc),
      ...listOf("Bcc", bcc),
      `Subject: ${subject}`,
      ...attachments.items.map((attachment) => `Attachment: ${attachmentText(attachment)}`),
      ...(attachments.more > 0 ? [`+${attachments.more} more attachments`] : []),
    ],
    structured: {
      id: message.id,
      threadId: message.threadId,
      mailboxId: message.mailboxId,
      direction: message.direction,
      ...(messageId === undefined ? {} : { messageId }),
      from,
      to: to.items,
      cc: cc.items,
      ...(bcc.items.length === 0 ? {} : { bcc: bcc.items }),
      ...(moreRecipients === 0 ? {} : { moreRecipients }),
      subject,
      date: message.date,
      read: message.read,
      attachments: attachments.items,
      ...(attachments.more === 0 ? {} : { moreAttachments: attachments.more }),
      ...(message.auth === undefined ? {} : { auth: message.auth }),
      ...(message.deliveredAt === undefined ? {} : { deliveredAt: message.deliveredAt }),
    },
    notes: [
      ...(moreRecipients === 0
        ? []
        : [`Cut: ${moreRecipients} more recipients; get_message with id ${message.id} and list recipients names all.`]),
      ...(attachments.more === 0
        ? []
        : [`Cut: ${attachments.more} more attachments; get_message with id ${message.id} and list attachments.`]),
    ],
  };
}

export type Head = ReturnType<typeof headOf>;

/** The line of ours above a message's fence. */
const titleOf = ({ id, direction, date, read, deliveredAt }: MessageView): string =>
  [
    id,
    direction,
    date,
    ...(read ? [] : ["unread"]),
    ...(deliveredAt === undefined ? [] : [`delivered ${deliveredAt}`]),
  ].join(" | ");

/** A message with a piece of its body, as text. */
export function messageText(message: MessageView, head: Head, shown: string, nonce: string): string {
  const content = [...head.lines, "", shown].join("\n");
  return `${titleOf(message)}\n${fence(nonce, content, { from: message.from.email, auth: message.auth })}`;
}

/** The same as structured content. */
export function messageStructured(head: Head, { kind, whole }: Body, { shown, start, end }: Piece) {
  return {
    ...head.structured,
    [kind]: shown,
    ...(start === 0 ? {} : { offset: start }),
    ...(end === whole.length ? {} : { nextOffset: end }),
    [`${kind}Length`]: whole.length,
  };
}
