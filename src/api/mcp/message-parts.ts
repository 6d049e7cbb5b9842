/** A message as a model reads it: what its body is, and what stands above it. Used by get_message and get_thread. */
import type { MessageView } from "../../mailbox/views.ts";
import { newTextOf } from "../../message/quoted.ts";
import type { Piece } from "./budget.ts";
import { drawNonce, fenceEnd, fenceStart } from "./fence.ts";
import { fieldsOf, stringOf, type Written, write, writeLines } from "./json.ts";
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
export async function bodyOf(
  message: MessageView,
  { html = false, newTextOnly = false }: Pick<RenderArguments, "html" | "newTextOnly">,
  context: Pick<RenderContext, "html">,
): Promise<Body> {
  // Of a conversation too large to be given whole: this is the snippet.
  if (message.truncated) return { kind: "text", whole: message.text, notes: [] };
  if (html) {
    const visible = await context.html.visible(message);
    if (!visible) return { kind: "html", whole: "", notes: ["The message has no HTML; ask without html."] };
    return { kind: "html", whole: visible.html, notes: hiddenNotes(visible.hidden) };
  }
  const seen = await context.html.text(message);
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

/** A message without its body. */
export interface Head {
  /** Lines for inside the fence. */
  lines: string;
  /** What stands around a body, if that does not have the nonce. */
  around: Around;
  /** The fields of the message but its body, as JSON. */
  fields: string;
  /** What of it was cut, in sentences. */
  notes: string[];
}

export function headOf(message: MessageView, budget: number, context: RenderContext): Head {
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
    items.length + more === 0 ? "" : `\n${name}: ${listText(items.map(addressText), more)}`;
  let lines = `From: ${addressText(from)}${listOf("To", to)}${listOf("Cc", cc)}${listOf("Bcc", bcc)}\nSubject: ${subject}`;
  for (const attachment of attachments.items) lines += `\nAttachment: ${attachmentText(attachment)}`;
  if (attachments.more > 0) lines += `\n+${attachments.more} more attachments`;
  return {
    lines,
    around: aroundBody(message, lines, context.nonce()),
    // What is undefined is left out of JSON.
    fields: JSON.stringify({
      id: message.id,
      threadId: message.threadId,
      mailboxId: message.mailboxId,
      direction: message.direction,
      messageId,
      from,
      to: to.items,
      cc: cc.items,
      bcc: bcc.items.length === 0 ? undefined : bcc.items,
      moreRecipients: moreRecipients === 0 ? undefined : moreRecipients,
      subject,
      date: message.date,
      read: message.read,
      attachments: attachments.items,
      moreAttachments: attachments.more === 0 ? undefined : attachments.more,
      auth: message.auth,
      deliveredAt: message.deliveredAt,
    }).slice(1, -1),
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

/** The line of ours above a message's fence. */
const titleOf = ({ id, direction, date, read, deliveredAt }: MessageView): string =>
  `${id} | ${direction} | ${date}${read ? "" : " | unread"}${deliveredAt === undefined ? "" : ` | delivered ${deliveredAt}`}`;

interface Around {
  nonce: string;
  before: Written;
  after: Written;
}

function aroundBody(message: MessageView, lines: string, nonce: string): Around {
  const start = fenceStart(nonce, { from: message.from.email, auth: message.auth });
  return { nonce, before: write(`${titleOf(message)}\n${start}\n${lines}\n`), after: write(fenceEnd(nonce)) };
}

/** A message with a piece of its body, as text. `shown`: of the piece. */
export function messageText(
  message: MessageView,
  { lines, around }: Head,
  piece: Piece,
  shown: Written,
  { nonce }: Pick<RenderContext, "nonce">,
): Written {
  const occurs = lines.includes(around.nonce) || piece.shown.includes(around.nonce);
  const { before, after } = occurs ? aroundBody(message, lines, drawNonce(nonce, lines, piece.shown)) : around;
  return writeLines(before, shown, after);
}

/** The same as structured content: its fields, as JSON. `shown`: of the piece. */
export function messageFields(head: Head, { kind, whole }: Body, { start, end }: Piece, shown: Written): string {
  const ofBody = fieldsOf({
    [kind]: stringOf(shown),
    offset: start === 0 ? undefined : String(start),
    nextOffset: end === whole.length ? undefined : String(end),
    [`${kind}Length`]: String(whole.length),
  });
  return `${head.fields},${ofBody}`;
}
