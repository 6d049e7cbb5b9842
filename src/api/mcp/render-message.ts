/** get_message: a message with its body, piece by piece; or all its recipients or attachments. */
import type { MessageView } from "../../mailbox/views.ts";
import { budgetOf, jsonLength, type Piece, pieceOf } from "./budget.ts";
import { drawNonce, fence, NOTICE, NOTICE_JSON } from "./fence.ts";
import { objectOf, write, writeLines } from "./json.ts";
import { type Body, bodyOf, type Head, headOf, messageFields, messageText } from "./message-parts.ts";
import { addressText, attachmentText, shownAddress, shownAttachment } from "./parts.ts";
import { type RenderArguments, type RenderContext, type Rendered, renderedOf } from "./rendering.ts";

export async function renderMessage(
  { message }: { message: MessageView },
  args: RenderArguments,
  context: RenderContext,
): Promise<Rendered> {
  if (args.list !== undefined) return renderList(message, args.list, args, context);
  const budget = budgetOf(args);
  const body = await bodyOf(message, args, context);
  const head = headOf(message, budget, context);
  const frame = assemble(message, head, body, { shown: "", start: 999_999_999, end: 999_999_999 }, args, context);
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

/** Characters kept for what stands around a list. */
const AROUND = 800;

function renderList(
  message: MessageView,
  list: "recipients" | "attachments",
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const offset = args.offset ?? 0;
  const budget = budgetOf(args) - AROUND;
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
