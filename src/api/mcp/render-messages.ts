/**
 * Messages with their bodies. get_message renders one, piece by piece, or all its recipients or attachments. get_thread
 * renders a conversation from its newest message on: each gets a third of the remaining room, until there is no room
 * for another, and the oldest one may take the rest. The result counts the older ones that had no room.
 */
import { AppError } from "../../base/errors.ts";
import type { MessageView, ThreadDetailView } from "../../mailbox/views.ts";
import { newTextOf } from "../../message/quoted-history.ts";
import { budgetOf, jsonLength, type Piece, pieceOf, type Room } from "./budget.ts";
import { drawNonce, fence, fenceEnd, fenceStart, NOTICE, NOTICE_JSON } from "./fence.ts";
import {
  addressText,
  attachmentText,
  listText,
  messageIdLine,
  shorten,
  shortenAddresses,
  shownAddress,
  shownAttachment,
  shownThread,
  subjectLine,
  threadText,
} from "./parts.ts";
import {
  arrayOf,
  fieldsOf,
  objectOf,
  type RenderArguments,
  type RenderContext,
  type Rendered,
  renderedOf,
  stringOf,
  type Written,
  write,
  writeLines,
} from "./result.ts";

/** An offset longer than any, to measure what stands around a piece. */
const FAR = 999_999_999;

export async function renderMessage(
  { message }: { message: MessageView },
  args: RenderArguments,
  context: RenderContext,
): Promise<Rendered> {
  if (args.list !== undefined) return renderList(message, args.list, args, context);
  const budget = budgetOf(args);
  const body = await bodyOf(message, args, context);
  const head = headOf(message, budget, context);
  const frame = assemble(message, head, body, { shown: "", start: FAR, end: FAR }, args, context);
  const piece = pieceOf(body.whole, args.offset ?? 0, {
    text: budget - frame.text.length,
    json: budget - objectOf(frame.structured).length,
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
  const shown = write(piece.shown);
  const isCut = piece.end !== body.whole.length;
  const again = args.html ? ", html true" : args.newTextOnly ? ", newTextOnly true" : "";
  const cuts = [
    ...(isCut
      ? [
          `Cut: characters ${piece.start} to ${piece.end} of ${body.whole.length}; go on with get_message, id ${message.id}${again}, offset ${piece.end}.`,
        ]
      : []),
    ...head.notes,
  ];
  const notes = [...cuts, ...body.notes];
  return {
    text: writeLines(
      write(`Conversation ${message.threadId}. Message:`),
      messageText(message, head, piece, shown, context),
      ...notes.map(write),
    ),
    structured: {
      notice: NOTICE_JSON,
      message: `{${messageFields(head, body, piece, shown)}}`,
      cut: notes.length === 0 ? undefined : JSON.stringify(notes),
    },
  };
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
  const budget = budgetOf(args) - AROUND_LIST;
  const { rows, total } =
    list === "recipients" ? recipientRows(message, offset) : attachmentRows(message, offset, context);
  const taken: Row[] = [];
  let text = 0;
  let json = 0;
  for (const row of rows) {
    text += row.text.length + 1;
    json += jsonLength(row.structured) + 1;
    if (Math.max(text, json) > budget) break;
    taken.push(row);
  }
  const nextOffset = offset + taken.length;
  const left = Math.max(0, total - nextOffset);
  const cut = `Cut: ${left} more of ${total}; go on with get_message, id ${message.id}, list ${list}, offset ${nextOffset}.`;
  const content = taken.map((row) => row.text).join("\n");
  return renderedOf(
    [
      `${taken.length} of ${total} ${list} of message ${message.id}:`,
      ...(taken.length === 0
        ? []
        : [fence(drawNonce(context.nonce, content), content, { from: message.from.email, auth: message.auth })]),
      ...(left > 0 ? [cut] : []),
    ].join("\n"),
    {
      notice: NOTICE,
      message: { id: message.id, threadId: message.threadId },
      [list]: taken.map((row) => row.structured),
      ...(left > 0 ? { nextOffset, cut: [cut] } : {}),
    },
  );
}

interface Row {
  text: string;
  structured: Record<string, unknown>;
}

function recipientRows({ to, cc, bcc = [] }: MessageView, offset: number): { rows: Row[]; total: number } {
  const all = [
    ...to.map((address) => ({ address, field: "to" })),
    ...cc.map((address) => ({ address, field: "cc" })),
    ...bcc.map((address) => ({ address, field: "bcc" })),
  ];
  const rows = all.slice(offset).map(({ address, field }) => {
    const shown = shownAddress(address);
    return { text: `${field}: ${addressText(shown)}`, structured: { field, ...shown } };
  });
  return { rows, total: all.length };
}

function attachmentRows(message: MessageView, offset: number, context: RenderContext): { rows: Row[]; total: number } {
  const rows = message.attachments.slice(offset).map((attachment) => {
    const shown = shownAttachment(attachment, context);
    return { text: attachmentText(shown), structured: shown };
  });
  return { rows, total: message.attachments.length };
}

/** Share of the remaining room that a message of a conversation gets when it does not fit whole. */
const SHARE = 1 / 3;
/** Least characters of a piece; a message that has no room for them is left out. */
const LEAST_PIECE = 400;
/** Characters kept free for the lines that count messages and older ones. */
const AROUND_MESSAGES = 450;
/** Lists inside a message of a conversation get this share of what they get in get_message. */
const SHARE_OF_LISTS = 1 / 4;

export async function renderThread(
  answer: ThreadDetailView,
  args: RenderArguments,
  context: RenderContext,
): Promise<Rendered> {
  const budget = budgetOf(args);
  const end = args.before === undefined ? answer.messages.length : indexOf(answer.messages, args.before);
  const thread = {
    ...shownThread(answer.thread, budget),
    ...participantsOf(answer.thread.participants, budget),
  };
  const others = listText(thread.participants.map(addressText), thread.moreParticipants ?? 0);
  const headContent = `${threadText(thread)}\n  Between: ${others}`;
  const head = fence(drawNonce(context.nonce, headContent), headContent);
  const { send, manage } = answer.permissions;
  const rights = `You may ${[...(send ? ["send"] : []), ...(manage ? ["manage"] : [])].join(" and ") || "only read"}.`;
  const basis = {
    notice: NOTICE_JSON,
    thread: JSON.stringify(thread),
    permissions: JSON.stringify(answer.permissions),
    messages: "[]",
  };

  const room: Room = {
    text: budget - AROUND_MESSAGES - head.length - rights.length,
    json: budget - AROUND_MESSAGES - objectOf(basis).length,
  };
  const shown: ShownMessage[] = [];
  for (let index = end - 1; index >= 0; index--) {
    // The oldest message leaves no room for others.
    const share = index === 0 ? 1 : SHARE;
    const message = await showMessage(answer.messages[index] as MessageView, { room, share, budget }, args, context);
    if (message === undefined) break;
    room.text -= message.text.length + 2;
    room.json -= message.structured.length + 1;
    shown.unshift(message);
  }

  const older = end - shown.length;
  const nextBefore = shown[0]?.id;
  const count = `${shown.length} of ${answer.messages.length} messages, oldest first. ${rights}`;
  const cut = `Cut: ${older} older messages; get_thread with id ${answer.thread.id} and before ${nextBefore ?? ""} goes on with them.`;
  const hasOlder = older > 0 && nextBefore !== undefined;
  return {
    text: writeLines(write([head, count, ...(hasOlder ? [cut] : [])].join("\n")), ...shown.map(({ text }) => text)),
    structured: {
      ...basis,
      messages: arrayOf(shown.map(({ structured }) => structured)),
      older: String(older),
      nextBefore: hasOlder ? JSON.stringify(nextBefore) : undefined,
      cut: hasOlder ? JSON.stringify([cut]) : undefined,
    },
  };
}

function indexOf(messages: readonly MessageView[], id: string): number {
  const index = messages.findIndex((message) => message.id === id);
  if (index < 0) throw new AppError("bad_request", "before is not the id of a message of this conversation");
  return index;
}

function participantsOf(participants: ThreadDetailView["thread"]["participants"], budget: number) {
  const { items, more } = shortenAddresses(participants, budget);
  return { participants: items, ...(more === 0 ? {} : { moreParticipants: more }) };
}

interface ShownMessage {
  id: string;
  text: Written;
  /** JSON object. */
  structured: string;
}

/** Renders a message, cut to its share of `room`, but at least LEAST_PIECE; undefined when there is no room. */
async function showMessage(
  message: MessageView,
  { room, share, budget }: { room: Room; share: number; budget: number },
  args: RenderArguments,
  context: RenderContext,
): Promise<ShownMessage | undefined> {
  if (Math.min(room.text, room.json) < LEAST_PIECE) return undefined;
  const newTextOnly = args.newTextOnly ?? true;
  const head = headOf(message, budget * SHARE_OF_LISTS, context);
  const body = await bodyOf(message, { newTextOnly }, context);
  const notes = [...body.notes, ...head.notes];
  const withPiece = (told: string[], piece: Piece): ShownMessage => {
    const shown = write(piece.shown);
    const fields = messageFields(head, body, piece, shown);
    return {
      id: message.id,
      text: writeLines(messageText(message, head, piece, shown, context), ...told.map(write)),
      structured: told.length === 0 ? `{${fields}}` : `{${fields},"notes":${JSON.stringify(told)}}`,
    };
  };
  const frame = withPiece([...notes, cutNote(message, FAR, FAR, newTextOnly)], { shown: "", start: 0, end: FAR });
  const left = { text: room.text - frame.text.length, json: room.json - frame.structured.length };
  if (Math.min(left.text, left.json) < Math.min(LEAST_PIECE, body.whole.length)) return undefined;
  const piece = pieceOf(body.whole, 0, {
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
async function bodyOf(
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
  const { text, leftOut } = newTextOf(seen.text, message.subject);
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
  /** The fields of the message but its body, as JSON. */
  fields: string;
  /** Sentences that say what was cut. */
  notes: string[];
}

function headOf(message: MessageView, budget: number, context: RenderContext): Head {
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
    // JSON leaves out undefined fields.
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

/** The line above a message's fence. No value of it comes from mail. */
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

/** Writes a message with a piece of its body as text. `shown` is the piece, written. */
function messageText(
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

/** Writes the same as the fields of structured content. */
function messageFields(head: Head, { kind, whole }: Body, { start, end }: Piece, shown: Written): string {
  const ofBody = fieldsOf({
    [kind]: stringOf(shown),
    offset: start === 0 ? undefined : String(start),
    nextOffset: end === whole.length ? undefined : String(end),
    [`${kind}Length`]: String(whole.length),
  });
  return `${head.fields},${ofBody}`;
}
