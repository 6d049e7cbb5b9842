/**
 * Messages with their bodies. get_message renders one, piece by piece, or all its recipients or attachments. get_thread
 * renders a conversation from its newest message on: each gets a third of the remaining room, until there is no room
 * for another, and the oldest one may take the rest. The result counts the older ones that had no room.
 */
import { AppError } from "../../base/errors.ts";
import type { HeldView, MessageView, ThreadDetailView } from "../../mailbox/state/views.ts";
import type { EmailAddress } from "../../message/address.ts";
import { extractNewText } from "../../message/quoted-history.ts";
import { cutPiece, jsonTextLength, type Piece, type Room, resultBudget } from "./budget.ts";
import {
  cleanLineForMailFence,
  drawMailFenceNonce,
  mailFenceClosingLine,
  mailFenceOpeningLine,
  wrapInMailFence,
} from "./fence.ts";
import {
  buildMcpThread,
  cleanAddressForMailFence,
  formatAddressForMcp,
  formatAttachmentForMcp,
  formatShortenedList,
  formatThreadForMcp,
  messageIdLine,
  shortenAddresses,
  shortenList,
  subjectLine,
} from "./parts.ts";
import { makeMailToolResult, type RenderArguments, type RenderContext, type Rendered } from "./result.ts";

/** An offset longer than any, to measure what stands around a piece. */
const FAR = 999_999_999;

export async function renderMessageForMcp(
  { message }: { message: MessageView },
  args: RenderArguments,
  context: RenderContext,
): Promise<Rendered> {
  if (args.list !== undefined) return renderList(message, args.list, args, context);
  const budget = resultBudget(args);
  const body = await chooseMessageBody(message, args, context);
  const head = buildMessageHead(message, { budget, room: budget }, context);
  const frame = assemble(message, head, body, { shown: "", start: FAR, end: FAR }, args, context);
  const piece = cutPiece(body.whole, args.offset ?? 0, {
    text: budget - frame.text.length,
    json: budget - JSON.stringify(frame.structured).length,
  });
  return assemble(message, head, body, piece, args, context);
}

function assemble(
  message: MessageView,
  head: Head,
  body: Body,
  piece: Piece,
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const { start, end } = piece;
  const { length } = body.whole;
  const again = args.html ? ", html true" : args.newTextOnly ? ", newTextOnly true" : "";
  const cut = `Cut: characters ${start} to ${end} of ${length}; go on with get_message, id ${message.id}${again}, offset ${end}.`;
  const notes = [
    ...(end === length ? [] : [cut]),
    ...head.notes,
    ...body.notes,
    ...(message.listUnsubscribe ? [UNSUBSCRIBE] : []),
  ];
  const text = [
    `Conversation ${message.threadId}. Message:`,
    messageText(message, head, piece, context),
    ...notes,
  ].join("\n");
  const { threadId, mailbox, folder, held, delivery } = message;
  return makeMailToolResult(text, {
    message: {
      ...toStructuredMessage(message, head, body, piece),
      ...{ threadId, mailbox, folder, held: held?.state, delivery: delivery?.state },
    },
  });
}

/** Characters kept free for the lines around a list. */
const AROUND_LIST = 800;

function renderList(
  message: MessageView,
  list: "recipients" | "attachments",
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const offset = args.offset ?? 0;
  const budget = resultBudget(args) - AROUND_LIST;
  const all = list === "recipients" ? recipientRows(message) : attachmentRows(message);
  const taken: Row[] = [];
  let length = 0;
  for (const row of all.slice(offset)) {
    length += jsonTextLength(row.text) + JSON.stringify(row.structured ?? "").length + 3;
    if (length > budget) break;
    taken.push(row);
  }
  const end = offset + taken.length;
  const left = Math.max(0, all.length - end);
  const cut = `Cut: ${left} more of ${all.length}; go on with get_message, id ${message.id}, list ${list}, offset ${end}.`;
  const content = taken.map((row) => row.text).join("\n");
  const text = [
    `${taken.length} of ${all.length} ${list} of message ${message.id}:`,
    ...(taken.length === 0
      ? []
      : [
          wrapInMailFence(drawMailFenceNonce(context.nonce, content), content, {
            from: message.from.email,
            auth: message.auth,
          }),
        ]),
    ...(left > 0 ? [cut] : []),
  ].join("\n");
  return makeMailToolResult(text, {
    message: { id: message.id, threadId: message.threadId },
    attachments: list === "attachments" ? taken.map(({ structured }) => structured) : undefined,
    nextOffset: left > 0 ? end : undefined,
  });
}

interface Row {
  text: string;
  /** The fields that do not come from mail. */
  structured?: { id: string; size: number };
}

function recipientRows({ to, cc, bcc = [] }: MessageView): Row[] {
  const rows = (field: string, addresses: EmailAddress[]): Row[] =>
    addresses.map((address) => ({ text: `${field}: ${formatAddressForMcp(cleanAddressForMailFence(address))}` }));
  return [...rows("to", to), ...rows("cc", cc), ...rows("bcc", bcc)];
}

const attachmentRows = ({ attachments }: MessageView): Row[] =>
  attachments.map((attachment) => ({
    text: formatAttachmentForMcp(attachment),
    structured: { id: attachment.id, size: attachment.size },
  }));

/** Share of the remaining room that a message of a conversation gets when it does not fit whole. */
const SHARE = 1 / 3;
/** Least characters of a piece; a message that has no room for them is left out. */
const LEAST_PIECE = 400;
/** Characters kept free for the lines that count messages and older ones. */
const AROUND_MESSAGES = 450;
/** Lists inside a message of a conversation get this share of what they get in get_message. */
const SHARE_OF_LISTS = 1 / 4;

export async function renderThreadForMcp(
  answer: ThreadDetailView,
  args: RenderArguments,
  context: RenderContext,
): Promise<Rendered> {
  const budget = resultBudget(args);
  const end = args.before === undefined ? answer.messages.length : getMessageIndex(answer.messages, args.before);
  const thread = {
    ...buildMcpThread(answer.thread, budget),
    ...shortenParticipants(answer.thread.participants, budget),
  };
  const others = formatShortenedList(thread.participants.map(formatAddressForMcp), thread.moreParticipants ?? 0);
  const headContent = `${formatThreadForMcp(thread)}\n  Between: ${others}`;
  const head = wrapInMailFence(drawMailFenceNonce(context.nonce, headContent), headContent);
  const { send, manage } = answer.permissions;
  const rights = `You may ${[...(send ? ["send"] : []), ...(manage ? ["manage"] : [])].join(" and ") || "only read"}.`;
  const room: Room = {
    text: budget - AROUND_MESSAGES - head.length - rights.length,
    json: budget - AROUND_MESSAGES - jsonTextLength(head) - rights.length,
  };
  const shown: ShownMessage[] = [];
  for (let index = end - 1; index >= 0; index--) {
    // The oldest message leaves no room for others.
    const share = index === 0 ? 1 : SHARE;
    const message = await showMessage(answer.messages[index] as MessageView, { room, share, budget }, args, context);
    if (message === undefined) break;
    room.text -= message.text.length + 2;
    room.json -= messageJsonLength(message);
    shown.unshift(message);
  }

  const older = end - shown.length;
  const nextBefore = shown[0]?.id;
  const count = `${shown.length} of ${answer.messages.length} messages, oldest first. ${rights}`;
  const cut = `Cut: ${older} older messages; get_thread with id ${answer.thread.id} and before ${nextBefore ?? ""} goes on with them.`;
  const hasOlder = older > 0 && nextBefore !== undefined;
  return makeMailToolResult([head, count, ...(hasOlder ? [cut] : []), ...shown.map(({ text }) => text)].join("\n"), {
    thread: { id: answer.thread.id },
    permissions: answer.permissions,
    messages: shown.map(({ structured }) => structured),
    older,
    nextBefore: hasOlder ? nextBefore : undefined,
  });
}

function getMessageIndex(messages: readonly MessageView[], id: string): number {
  const index = messages.findIndex((message) => message.id === id);
  if (index < 0) throw new AppError("bad_request", "before is not the id of a message of this conversation");
  return index;
}

function shortenParticipants(participants: ThreadDetailView["thread"]["participants"], budget: number) {
  const { items, more } = shortenAddresses(participants, budget);
  return { participants: items, ...(more === 0 ? {} : { moreParticipants: more }) };
}

interface ShownMessage {
  id: string;
  text: string;
  structured: object;
}

/** Characters of a message in structured content, with the line break before its text and the comma after its values. */
const messageJsonLength = ({ text, structured }: ShownMessage): number =>
  jsonTextLength(text) + JSON.stringify(structured).length + 3;

/** Renders a message, cut to its share of `room`, but at least LEAST_PIECE; undefined when there is no room. */
async function showMessage(
  message: MessageView,
  { room, share, budget }: { room: Room; share: number; budget: number },
  args: RenderArguments,
  context: RenderContext,
): Promise<ShownMessage | undefined> {
  if (Math.min(room.text, room.json) < LEAST_PIECE) return undefined;
  const newTextOnly = args.newTextOnly ?? true;
  const head = buildMessageHead(
    message,
    { budget: budget * SHARE_OF_LISTS, room: Math.min(room.text, room.json) },
    context,
  );
  const body = await chooseMessageBody(message, { newTextOnly }, context);
  const notes = [...body.notes, ...head.notes];
  const withPiece = (notes: string[], piece: Piece): ShownMessage => ({
    id: message.id,
    text: [messageText(message, head, piece, context), ...notes].join("\n"),
    structured: toStructuredMessage(message, head, body, piece),
  });
  const frame = withPiece([...notes, cutNote(message, FAR, FAR, newTextOnly)], { shown: "", start: 0, end: FAR });
  const left = { text: room.text - frame.text.length, json: room.json - messageJsonLength(frame) };
  if (Math.min(left.text, left.json) < Math.min(LEAST_PIECE, body.whole.length)) return undefined;
  const piece = cutPiece(body.whole, 0, {
    text: Math.min(left.text, Math.max(LEAST_PIECE, Math.floor(left.text * share))),
    json: Math.min(left.json, Math.max(LEAST_PIECE, Math.floor(left.json * share))),
  });
  const isCut = piece.end !== body.whole.length;
  if (message.truncated) notes.push(`Cut: only its beginning; get_message with id ${message.id} has the whole.`);
  else if (isCut) notes.push(cutNote(message, piece.end, body.whole.length, newTextOnly));
  return withPiece(notes, piece);
}

const cutNote = (message: MessageView, end: number, length: number, newTextOnly: boolean): string =>
  `Cut: characters 0 to ${end} of ${length}; go on with get_message, id ${message.id}${newTextOnly ? ", newTextOnly true" : ""}, offset ${end}.`;

interface Body {
  kind: "text" | "html";
  /** `offset` counts in it, so it is the same for the same message and arguments. */
  whole: string;
  /** Sentences that say what was left out. */
  notes: string[];
}

/** Gives the body that the arguments ask for. */
async function chooseMessageBody(
  message: MessageView,
  { html = false, newTextOnly = false }: Pick<RenderArguments, "html" | "newTextOnly">,
  context: Pick<RenderContext, "html">,
): Promise<Body> {
  // The conversation is too large to be read whole: `text` is the beginning.
  if (message.truncated) return { kind: "text", whole: message.text, notes: [] };
  if (html) {
    const visible = await context.html.visible(message);
    if (!visible) return { kind: "html", whole: "", notes: ["The message has no HTML; ask without html."] };
    return { kind: "html", whole: visible.html, notes: hiddenNotes(visible.hidden) };
  }
  const seen = await context.html.text(message);
  const notes = hiddenNotes(seen.hidden);
  if (!newTextOnly) return { kind: "text", whole: seen.text, notes };
  const { text, leftOut } = extractNewText(seen.text, message.subject);
  if (leftOut > 0) {
    notes.push(`Left out: ${leftOut} characters of quoted history; get_message with newTextOnly false has them.`);
  }
  return { kind: "text", whole: text, notes };
}

const hiddenNotes = (hidden: number): string[] =>
  hidden === 0 ? [] : [`Left out: ${hidden} characters that its reader does not see.`];

/** A message without its body. */
interface Head {
  /** The lines in the fence, above the body. */
  lines: string;
  /** The text around a body that does not contain the nonce. */
  around: Around;
  /** The attachments among the lines. */
  attachments: { id: string; size: number }[];
  /** Sentences that say what was cut. */
  notes: string[];
}

/** Share of the room that the names of attachments may take at least, and the characters that suffice for them. */
const SHARE_OF_ATTACHMENTS = 1 / 3;
const ENOUGH_FOR_ATTACHMENTS = 1_200;
/** Share of the budget that they may take when it is large. */
const LARGE_SHARE_OF_ATTACHMENTS = 1 / 10;

/** `budget`: of lists. `room`: characters left for the message. */
function buildMessageHead(
  message: MessageView,
  { budget, room }: { budget: number; room: number },
  context: Pick<RenderContext, "nonce">,
): Head {
  const to = shortenAddresses(message.to, budget);
  const cc = shortenAddresses(message.cc, budget);
  const bcc = shortenAddresses(message.bcc ?? [], budget);
  const replyTo = shortenAddresses(message.replyTo ?? [], budget);
  const enough = Math.min(ENOUGH_FOR_ATTACHMENTS, room * SHARE_OF_ATTACHMENTS);
  const attachments = shortenList(
    message.attachments,
    budget,
    formatAttachmentForMcp,
    Math.floor(Math.max(enough, budget * LARGE_SHARE_OF_ATTACHMENTS)),
  );
  const moreRecipients = to.more + cc.more + bcc.more;
  const subject = subjectLine(message.subject);
  const from = cleanAddressForMailFence(message.from);
  const formatAddressField = (name: string, { items, more }: typeof to) =>
    items.length + more === 0 ? "" : `\n${name}: ${formatShortenedList(items.map(formatAddressForMcp), more)}`;
  let lines = `From: ${formatAddressForMcp(from)}${formatAddressField("Reply-To", replyTo)}${formatAddressField("To", to)}${formatAddressField("Cc", cc)}${formatAddressField("Bcc", bcc)}\nSubject: ${subject}`;
  if (message.mailbox !== undefined && message.messageId !== undefined) {
    lines += `\nMessage-ID: ${messageIdLine(message.messageId)}`;
  }
  for (const attachment of attachments.items) lines += `\nAttachment: ${formatAttachmentForMcp(attachment)}`;
  if (attachments.more > 0) lines += `\n+${attachments.more} more attachments`;
  if (message.held) lines += heldLines(message.held, budget);
  lines += deliveryLine(message, budget);
  const ways =
    message.listUnsubscribe?.urls.slice(0, WAYS_SHOWN).map((url) => cleanLineForMailFence(url, LONGEST_URL)) ?? [];
  if (ways.length > 0) lines += `\nList-Unsubscribe: ${ways.join(", ")}`;
  return {
    lines,
    around: aroundBody(message, lines, context.nonce()),
    attachments: attachments.items.map(({ id, size }) => ({ id, size })),
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

/** Why it waits, and what it has beside text, recipients and files. */
function heldLines({ state, reason, headers, namedOnly, textDiffers }: HeldView, budget: number): string {
  const shown = headers
    .filter(({ name }) => !/^reply-to$/i.test(name))
    .map(({ name, value }) => cleanLineForMailFence(`${name}: ${value}`, LONGEST_FIELD));
  const fields = shortenList(shown, budget, (text) => text);
  const named = shortenAddresses(namedOnly, budget);
  const lines = [`Held: ${state}, ${cleanLineForMailFence(reason, LONGEST_REASON)}`, ...fields.items];
  if (fields.more > 0) lines.push(`+${fields.more} more header fields`);
  if (namedOnly.length > 0)
    lines.push(`Named, but not sent to: ${formatShortenedList(named.items.map(formatAddressForMcp), named.more)}`);
  if (textDiffers) lines.push("Its text part says something else than its HTML; get_raw_message has both.");
  return lines.map((line) => `\n${line}`).join("");
}

const UNSUBSCRIBE =
  "List-Unsubscribe is how to leave the list, as its sender says. Unsubscribing is for a person to press: tell your user, open nothing.";

const LONGEST_REASON = 500;
const LONGEST_FIELD = 300;
/** Most ways to leave a list that are shown; a message has at most ten. */
const WAYS_SHOWN = 2;
const LONGEST_URL = 250;

/** Names the state of each recipient where they differ. */
function deliveryLine({ delivery }: MessageView, budget: number): string {
  const recipients = delivery?.recipients ?? [];
  if (recipients.every(({ state }) => state === recipients[0]?.state)) return "";
  const shown = recipients.map(
    ({ recipient, state }) => `${cleanAddressForMailFence({ email: recipient }).email} ${state}`,
  );
  const { items, more } = shortenList(shown, budget, (text) => text);
  return `\nDelivery: ${formatShortenedList(items, more)}`;
}

/** The line above a message's fence. No value of it comes from mail. */
function formatMessageTitle({
  id,
  direction,
  date,
  read,
  mailbox,
  folder,
  deliveredAt,
  held,
  delivery,
}: MessageView): string {
  let title = `${id} | ${direction} | ${date}`;
  if (mailbox !== undefined) title += ` | ${mailbox} | ${folder}`;
  if (!read) title += " | unread";
  if (held) title += ` | ${held.state === "waiting" ? "waits for approval" : held.state}`;
  if (delivery) title += ` | delivery ${delivery.state}`;
  return deliveredAt === undefined ? title : `${title} | delivered ${deliveredAt}`;
}

interface Around {
  nonce: string;
  before: string;
  after: string;
}

function aroundBody(message: MessageView, lines: string, nonce: string): Around {
  const start = mailFenceOpeningLine(nonce, { from: message.from.email, auth: message.auth });
  return { nonce, before: `${formatMessageTitle(message)}\n${start}\n${lines}\n`, after: mailFenceClosingLine(nonce) };
}

/** A message with a piece of its body, as text. */
function messageText(
  message: MessageView,
  { lines, around }: Head,
  piece: Piece,
  { nonce }: Pick<RenderContext, "nonce">,
): string {
  const occurs = lines.includes(around.nonce) || piece.shown.includes(around.nonce);
  const { before, after } = occurs ? aroundBody(message, lines, drawMailFenceNonce(nonce, lines, piece.shown)) : around;
  return `${before}\n${piece.shown}\n${after}`;
}

/** The values of a message that structured content has: none of them is from mail. */
const toStructuredMessage = (
  { id }: MessageView,
  { attachments }: Head,
  { kind, whole }: Body,
  { start, end }: Piece,
) => ({
  id,
  ...(attachments.length > 0 && { attachments }),
  ...(start > 0 && { offset: start }),
  ...(end < whole.length && { nextOffset: end }),
  [`${kind}Length`]: whole.length,
});
