/**
 * get_thread: a conversation, its newest messages first to be kept. The newest has a third of what room there is, then
 * the one before, until there is no room for another; the oldest may take what is left. Older ones are counted.
 */
import { AppError } from "../../base/errors.ts";
import type { MessageView, ThreadDetailView } from "../../mailbox/views.ts";
import { budgetOf, type Piece, pieceOf, type Room } from "./budget.ts";
import { drawNonce, fence, NOTICE_JSON } from "./fence.ts";
import { arrayOf, objectOf, type Written, write, writeLines } from "./json.ts";
import { bodyOf, headOf, messageFields, messageText } from "./message-parts.ts";
import { addressText, listText, shortenAddresses, shownThread, threadText } from "./parts.ts";
import type { RenderArguments, RenderContext, Rendered } from "./rendering.ts";

/** Share of the remaining room that a message may take when it does not fit whole, and how much at least. */
const SHARE = 1 / 3;
const LEAST_PIECE = 400;
/** An offset longer than any, to measure what stands around a piece. */
const FAR = 999_999_999;
/** Characters kept for how many older ones there are. */
const AROUND = 450;
/** Of the budget of get_message for lists inside of it, what a message of a conversation has. */
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
    text: budget - AROUND - head.length - rights.length,
    json: budget - AROUND - objectOf(basis).length,
  };
  const shown: ShownMessage[] = [];
  for (let index = end - 1; index >= 0; index--) {
    // Behind the oldest there is none to leave room for.
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
  /** An object, as JSON. */
  structured: string;
}

/** The message, cut to its share of `room` or LEAST_PIECE; undefined when it has none. */
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
