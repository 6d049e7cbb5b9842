/**
 * A message as received, as values: headers, addresses, text and HTML, attachments. Pure.
 *
 * structure.ts cuts the message into parts, body.ts decides which of them are shown, decode.ts decodes each. Never
 * rejects for what mail contains. Nothing is lost: every part that is not shown is an attachment, and so is the original
 * of mail that is beyond the limits, breaks the parser, or says something outside its parts (rules: Nothing lost).
 */
import { type Authors, authorsIn, type EmailAddress, parseAddressList, parseSender } from "./address.ts";
import { type BodyParts, chooseBody } from "./body.ts";
import { type Budget, createBudget } from "./budget.ts";
import { cleanText } from "./charset.ts";
import { parseDate } from "./date.ts";
import { decodeFile, decodeText } from "./decode.ts";
import { decodeWords } from "./encoded-word.ts";
import { type HeaderField, headerOf, headersOf, isTraceHeader, readHeaders } from "./headers.ts";
import { leftOut } from "./left-out.ts";
import { firstMessageId, referencesOf } from "./message-id.ts";
import { withoutBcc } from "./original.ts";
import { type Part, readStructure, TooComplex } from "./structure.ts";
import { htmlOfText, textOfHtml, trimLineBreaks } from "./text.ts";
import { followHtml } from "./visible.ts";

interface ParsedAttachment {
  filename: string;
  /** Media type, lower case, without parameters. */
  contentType: string;
  content: Uint8Array;
  /** The HTML body shows it by `cid:`. */
  inline: boolean;
  /** Without angle brackets. */
  contentId?: string;
}

export interface ParsedMessage {
  /**
   * [name, value] in order: unfolded, still encoded. Without trace, authentication and signature headers, without
   * Content-* and MIME-Version, which compose.ts makes anew, and without Bcc.
   */
  headers: [name: string, value: string][];
  /** With its angle brackets, as are the next two. */
  messageId?: string;
  inReplyTo?: string;
  /** Oldest first, without doubles. */
  references: string[];
  /** Epoch milliseconds; of the Date header, if it can be read. */
  date?: number;
  from?: EmailAddress;
  /** Whom all From fields name, or Sender where `from` is of there; `from` among them. */
  authors: Authors;
  sender?: EmailAddress;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  replyTo: EmailAddress[];
  subject: string;
  /** Plain text, derived from what is seen of the HTML where there is no text part; lines end in \n. */
  text: string;
  /** As received, decoded: not sanitised. */
  html?: string;
  attachments: ParsedAttachment[];
  /** Written by a program in answer to mail (RFC 3834 §5). */
  autoSubmitted: boolean;
  /** Why not all of the message could be parsed; the last attachment is then its original, `original.eml`. */
  problem?: string;
}

/**
 * Parses a message. Resolves for any bytes; `problem` says when they could not be taken apart. `budget`: of all that is
 * done with its HTML.
 */
export async function parseMessage(bytes: Uint8Array, budget: Budget = createBudget()): Promise<ParsedMessage> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const structure = readStructure(buffer);
    const content = await contentOf(buffer, chooseBody(structure), budget);
    const problem = leftOut(buffer, structure);
    if (problem !== undefined) content.attachments.push(originalOf(buffer));
    return { ...envelopeOf(structure.header.fields), ...content, ...(problem === undefined ? {} : { problem }) };
  } catch (error) {
    return unparsed(buffer, error instanceof TooComplex ? error.message : `the parser gave up: ${String(error)}`);
  }
}

/** What can be said of a message that is not taken apart. */
function unparsed(buffer: Buffer, problem: string): ParsedMessage {
  return {
    ...envelopeOf(readHeaders(buffer).fields),
    text: "",
    attachments: [originalOf(buffer)],
    problem: cleanText(problem).slice(0, 200),
  };
}

function originalOf(buffer: Buffer): ParsedAttachment {
  const content = new Uint8Array(withoutBcc(buffer));
  return { filename: "original.eml", contentType: "message/rfc822", content, inline: false };
}

type Envelope = Omit<ParsedMessage, "text" | "html" | "attachments" | "problem">;

function envelopeOf(fields: readonly HeaderField[]): Envelope {
  const addresses = (name: string) => parseAddressList(headersOf(fields, name).join(", "));
  const sender = addresses("sender")[0];
  const named = parseSender(headerOf(fields, "from") ?? "");
  const from = named ?? sender;
  const authors = authorsIn(headersOf(fields, named === undefined ? "sender" : "from"));
  const messageId = firstMessageId(headerOf(fields, "message-id") ?? "");
  const inReplyTo = firstMessageId(headerOf(fields, "in-reply-to") ?? "");
  const date = parseDate(headerOf(fields, "date") ?? "");
  return {
    headers: fields.filter((field) => isKept(field.name)).map((field) => [field.name, cleanText(field.value)]),
    ...(messageId === undefined ? {} : { messageId }),
    ...(inReplyTo === undefined ? {} : { inReplyTo }),
    references: referencesOf(headersOf(fields, "references").join(" ")),
    ...(date === undefined ? {} : { date }),
    ...(from === undefined ? {} : { from }),
    authors,
    ...(sender === undefined ? {} : { sender }),
    to: addresses("to"),
    cc: addresses("cc"),
    bcc: addresses("bcc"),
    replyTo: addresses("reply-to"),
    subject: subjectOf(headerOf(fields, "subject") ?? ""),
    autoSubmitted: !/^(?:no\b|$)/i.test(headerOf(fields, "auto-submitted") ?? ""),
  };
}

/** Headers that are stored: what compose.ts makes itself, and what must not be shown or replayed, is not. */
function isKept(name: string): boolean {
  const lower = name.toLowerCase();
  return !(
    isTraceHeader(lower) ||
    lower.startsWith("content-") ||
    lower === "mime-version" ||
    lower === "bcc" ||
    lower === "resent-bcc" ||
    // What our own exports say of a message is no sender's to say.
    lower === "x-mailroom-export"
  );
}

function subjectOf(value: string): string {
  return cleanText(decodeWords(value))
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}

async function contentOf(
  buffer: Buffer,
  body: BodyParts,
  budget: Budget,
): Promise<Pick<ParsedMessage, "text" | "html" | "attachments">> {
  const texts = new Map<Part, string>();
  for (const part of new Set([...body.text, ...body.html]))
    texts.set(part, trimLineBreaks(await decodeText(buffer, part)));
  const textOf = (part: Part) => texts.get(part) ?? "";
  const isHtml = (part: Part) => part.type === "text/html";

  const join = (pieces: string[], glue: string) =>
    trimLineBreaks(pieces.filter((piece) => piece.trim() !== "").join(glue));

  const html = body.html.some(isHtml)
    ? join(
        body.html.map((part) => (isHtml(part) ? textOf(part) : htmlOfText(textOf(part)))),
        "\n",
      )
    : undefined;
  // What cannot be followed is shown to people as text, with everything in it, and is found by it; seen.ts has it for models.
  const textFrom = (html: string) => textOfHtml(followHtml(html, budget)?.html ?? html, budget);
  const text = join(
    body.text.map((part) => (isHtml(part) ? textFrom(textOf(part)) : textOf(part))),
    "\n\n",
  );

  const shown = contentIdsIn(html ?? "");
  const attachments: ParsedAttachment[] = [];
  for (const part of body.attachments)
    attachments.push(await decodeAttachment(buffer, part, attachments.length, shown));
  return { text, ...(html === undefined ? {} : { html }), attachments };
}

/** The content ids an HTML body refers to (RFC 2392), percent-decoded where they are encoded. */
function contentIdsIn(html: string): Set<string> {
  const ids = new Set<string>();
  for (const [, id = ""] of html.matchAll(/\bcid:([^\s"'<>()]{1,500})/gi)) {
    ids.add(id);
    try {
      ids.add(decodeURIComponent(id));
    } catch {}
  }
  return ids;
}

async function decodeAttachment(
  buffer: Buffer,
  part: Part,
  index: number,
  shown: ReadonlySet<string>,
): Promise<ParsedAttachment> {
  const { content, filename } = await decodeFile(buffer, part);
  const contentId = cleanText(headerOf(part.header.fields, "content-id") ?? "")
    .replace(/^[\s<]+|(?<![\s>])[\s>]+$/g, "")
    .slice(0, 500);
  return {
    filename: safeFilename(filename) || defaultFilename(part.type, index),
    contentType: part.type,
    content,
    inline: contentId !== "" && shown.has(contentId),
    ...(contentId === "" ? {} : { contentId }),
  };
}

/** A name that is a name on every system: no path, no control or direction-changing characters. */
export function safeFilename(name: string): string {
  return cleanText(decodeWords(name))
    .replace(/^.*[/\\]/su, "")
    .replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, " ")
    .trim()
    .slice(0, 255)
    .toWellFormed();
}

const EXTENSIONS: Record<string, string> = {
  "message/rfc822": "eml",
  "message/delivery-status": "txt",
  "text/plain": "txt",
  "text/calendar": "ics",
  "text/vcard": "vcf",
  "image/jpeg": "jpg",
  "image/svg+xml": "svg",
  "application/octet-stream": "bin",
};

export function defaultFilename(type: string, index: number): string {
  const subtype = type.slice(type.indexOf("/") + 1);
  return `attachment-${index + 1}.${EXTENSIONS[type] ?? (/^[a-z0-9]{1,8}$/.test(subtype) ? subtype : "bin")}`;
}
