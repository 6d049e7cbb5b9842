/**
 * Parses a received message into values: headers, addresses, text and HTML, attachments. Pure.
 *
 * structure.ts cuts the message into parts, forms.ts opens those that wrap others, decode.ts decodes each, and this file
 * decides which of them are shown.
 * Never rejects, whatever the mail contains. Nothing is lost: every part that is not shown is an attachment, and so is
 * the original of a message that exceeds the limits, breaks the parser, or has text outside its parts (rules: Nothing
 * lost).
 */
import {
  type Authors,
  authorsIn,
  type EmailAddress,
  normalizeAddress,
  parseAddressList,
  parseSender,
  withoutFalseName,
} from "./address.ts";
import { cleanText, type Guess } from "./charset.ts";
import { readTypeParameters, type TypeParameters } from "./content-type.ts";
import { parseDate } from "./date.ts";
import { decodeAttachedFile, decodeText, isDecodedWhole, messageFilename, partFileName } from "./decode.ts";
import { unwrapEmbeddedContent } from "./forms.ts";
import {
  decodeWords,
  findHeader,
  type HeaderField,
  isTraceHeader,
  listHeaders,
  readHeaders,
  withoutBcc,
} from "./headers.ts";
import { stripTags } from "./layout.ts";
import { type Budget, createHtmlBudget, isHtmlTooLarge, type Reader, readMarkup } from "./markup.ts";
import { firstMessageId, parseReferences } from "./message-id.ts";
import { hasVisibleCharacter, isMimeNote, isPlaceholderTextPart } from "./notes.ts";
import { DROPPED_WITH_CONTENT } from "./sanitize.ts";
import { type Part, readMultipartBoundary, readStructure, TooComplex } from "./structure.ts";
import { htmlOfText, trimLineBreaks } from "./text.ts";
import { createCharsetGuesser, decodeFields } from "./undeclared.ts";
import { findVisibleHtml } from "./visible.ts";

interface ParsedAttachment {
  filename: string;
  /** The message has the file without a name. */
  unnamed?: true;
  /** Media type, lower case, without parameters. */
  contentType: string;
  /** Absent if there are none. */
  parameters?: TypeParameters;
  content: Uint8Array;
  /** The HTML body shows it through `cid:`. */
  inline: boolean;
  /** Content-ID without angle brackets. */
  contentId?: string;
  /** Offsets of the content, still encoded, in the bytes of the message. Absent for a file from a form (forms.ts). */
  source?: { start: number; end: number };
  /** The file is an alternative of the text. */
  alternative?: true;
}

export interface ParsedMessage {
  /**
   * [name, value] in order: unfolded, still encoded. Without trace, authentication and signature headers, without
   * Content-* and MIME-Version, which compose.ts creates anew, and without Bcc.
   */
  headers: [name: string, value: string][];
  /** Message-ID with its angle brackets, which the next two fields have, too. */
  messageId?: string;
  inReplyTo?: string;
  /** Oldest first, without duplicates. */
  references: string[];
  /** Epoch milliseconds of the Date header, if it can be read. */
  date?: number;
  from?: EmailAddress;
  /** Every address in the From fields, or in Sender if `from` comes from there; includes `from`. */
  authors: Authors;
  sender?: EmailAddress;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  replyTo: EmailAddress[];
  /** Addresses, normalized, of mailboxes that the message was delivered to before, by the fields that they added. */
  deliveredTo: string[];
  subject: string;
  /** Plain text, from the visible HTML where there is no text part or it counts as absent; lines end in \n. */
  text: string;
  /** HTML as received and decoded, not sanitised. */
  html?: string;
  /** Offsets in the bytes of the message of the parts that `text` and `html` are all of, and that are no files of forms. */
  textStart?: number;
  htmlStart?: number;
  attachments: ParsedAttachment[];
  /** A program wrote it in response to mail (RFC 3834 §5). */
  autoSubmitted: boolean;
  /**
   * The reason why part of the message could not be parsed. The last attachment is then the original, `original.eml`.
   */
  problem?: string;
}

/**
 * Parses a message. Resolves for any bytes; `problem` is set if they could not be taken apart. `budget` pays for all
 * work on its HTML. `known`: the message's structure, if it was read before.
 */
export async function parseMessage(
  bytes: Uint8Array,
  budget: Budget = createHtmlBudget(),
  known?: Part,
): Promise<ParsedMessage> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const structure = known ?? readStructure(buffer);
    const opened = unwrapEmbeddedContent({ buffer, root: structure });
    const guess = createCharsetGuesser(opened.buffer, opened.root);
    await decodeFields(opened.root, guess);
    const content = await parseMessageContent(opened.buffer, buffer.length, opened.root, guess, budget);
    const problem = [{ buffer, root: structure }, ...opened.inner]
      .map((message) => textOutsideParts(message.buffer, message.root))
      .find((found) => found !== undefined);
    if (problem !== undefined) content.attachments.push(makeOriginalAttachment(buffer));
    return {
      ...readHeaderEnvelope(opened.root.header.fields),
      ...content,
      ...(problem === undefined ? {} : { problem }),
    };
  } catch (error) {
    return unparsed(buffer, error instanceof TooComplex ? error.message : `the parser gave up: ${String(error)}`);
  }
}

/** The result for a message that cannot be taken apart. */
function unparsed(buffer: Buffer, problem: string): ParsedMessage {
  return {
    ...readHeaderEnvelope(readHeaders(buffer).fields),
    text: "",
    attachments: [makeOriginalAttachment(buffer)],
    problem: cleanText(problem).slice(0, 200),
  };
}

function makeOriginalAttachment(buffer: Buffer): ParsedAttachment {
  const content = new Uint8Array(withoutBcc(buffer));
  const source = { start: 0, end: buffer.length };
  return { filename: "original.eml", contentType: "message/rfc822", content, inline: false, source };
}

type Content = "text" | "html" | "textStart" | "htmlStart" | "attachments";
type Envelope = Omit<ParsedMessage, Content | "problem">;

function readHeaderEnvelope(fields: readonly HeaderField[]): Envelope {
  const addresses = (name: string) => parseAddressList(listHeaders(fields, name).join(", ")).map(withoutFalseName);
  const sender = addresses("sender")[0];
  const named = parseSender(findHeader(fields, "from") ?? "");
  const from = named ?? sender;
  const authors = authorsIn(listHeaders(fields, named === undefined ? "sender" : "from"));
  const messageId = firstMessageId(findHeader(fields, "message-id") ?? "");
  const inReplyTo = firstMessageId(findHeader(fields, "in-reply-to") ?? "");
  const date = parseDate(findHeader(fields, "date") ?? "");
  return {
    headers: fields.filter((field) => isStoredField(field.name)).map((field) => [field.name, cleanText(field.value)]),
    ...(messageId === undefined ? {} : { messageId }),
    ...(inReplyTo === undefined ? {} : { inReplyTo }),
    references: parseReferences(listHeaders(fields, "references").join(" ")),
    ...(date === undefined ? {} : { date }),
    ...(from === undefined ? {} : { from }),
    authors,
    ...(sender === undefined ? {} : { sender }),
    to: addresses("to"),
    cc: addresses("cc"),
    bcc: addresses("bcc"),
    replyTo: addresses("reply-to"),
    deliveredTo: listHeaders(fields, "delivered-to")
      .slice(0, MOST_DELIVERIES)
      .flatMap((value) => normalizeAddress(value) ?? []),
    subject: decodeSubject(findHeader(fields, "subject") ?? ""),
    autoSubmitted: !/^(?:no\b|$)/i.test(findHeader(fields, "auto-submitted") ?? ""),
  };
}

/** False for a header that is not stored: compose.ts creates it anew, or it must not be shown or replayed. */
export function isStoredField(name: string): boolean {
  const lower = name.toLowerCase();
  return !(
    isTraceHeader(lower) ||
    lower.startsWith("content-") ||
    lower === "mime-version" ||
    lower === "bcc" ||
    lower === "resent-bcc" ||
    // Our own exports set this field; a sender must not.
    lower === "x-mailroom-export"
  );
}

const MOST_DELIVERIES = 100;
/** Characters of a subject; the header field has the rest. */
const LONGEST_SUBJECT = 2_000;

function decodeSubject(value: string): string {
  return cleanText(decodeWords(value))
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, LONGEST_SUBJECT)
    .toWellFormed();
}

/** `length`: bytes of the message, behind which `buffer` has the contents of its forms. */
async function parseMessageContent(
  buffer: Buffer,
  length: number,
  structure: Part,
  guess: Guess,
  budget: Budget,
): Promise<Pick<ParsedMessage, Content>> {
  const body = chooseBody(structure);
  const texts = new Map<Part, string>();
  for (const part of new Set([...body.text, ...body.html]))
    texts.set(part, trimLineBreaks(await decodeText(buffer, part, guess)));
  const partText = (part: Part) => texts.get(part) ?? "";
  const isHtml = (part: Part) => part.type === "text/html";

  const join = (pieces: string[], glue: string) =>
    trimLineBreaks(pieces.filter((piece) => piece.trim() !== "").join(glue));

  const given = body.html.some(isHtml)
    ? join(
        body.html.map((part) => (isHtml(part) ? partText(part) : htmlOfText(partText(part)))),
        "\n",
      )
    : undefined;
  // People are shown the text beside it.
  const html = given !== undefined && showsNothing(given, budget) ? undefined : given;
  // HTML that cannot be followed is shown to people, and indexed, as text with everything in it; visibleTextForModel decides
  // for models.
  const textFrom = (html: string) => findVisibleHtml(html, budget)?.text ?? stripTags(html);
  const joined = (parts: Part[]) =>
    join(
      parts.map((part) => (isHtml(part) ? textFrom(partText(part)) : partText(part))),
      "\n\n",
    );
  const stubs = new Set(body.text.filter((part) => !isHtml(part) && isPlaceholderTextPart(partText(part))));
  const said = joined(chooseBody(structure, stubs).text.filter((part) => !stubs.has(part)));
  const text = stubs.size === 0 || hasVisibleCharacter(said) ? said : joined(body.text);

  const alternatives = new Set(listAlternatives(structure));
  const attachments = body.attachments.map((part, index) =>
    decodeAttachment(buffer, length, part, index, alternatives.has(part)),
  );
  const shown = html === undefined ? new Set() : shownImages(html, budget);
  // Of several with one id, the last is shown.
  for (const attachment of attachments.toReversed()) {
    const { contentType, contentId } = attachment;
    attachment.inline = IMAGE_TYPE.test(contentType) && shown.delete(contentId);
  }
  const startOf = (wanted: string | undefined) =>
    texts.entries().find(([part, text]) => text !== "" && text === wanted && part.start < length)?.[0].start;
  const [textStart, htmlStart] = [startOf(text), startOf(html)];
  return {
    text,
    ...(html !== undefined && { html }),
    ...(textStart !== undefined && { textStart }),
    ...(htmlStart !== undefined && { htmlStart }),
    attachments,
  };
}

/** True for HTML with neither text, hidden or not, nor images. */
function showsNothing(html: string, budget: Budget): boolean {
  const visible = findVisibleHtml(html, budget);
  return visible?.text.trim() === "" && visible.hidden === 0 && !/<img\b/i.test(html);
}

/** Types of images that the app shows inside of HTML, and that of files whose type their sender did not know. */
const IMAGE_TYPE = /^image\/(?!svg|tiff)|^application\/octet-stream$/;

/**
 * The content ids of the images that people are shown in an HTML body (RFC 2392), also percent-decoded. The set is empty for
 * HTML that cannot be followed, since people see it as text.
 */
function shownImages(html: string, budget: Budget): Set<string | undefined> {
  const ids = new Set<string | undefined>();
  if (!/cid:/i.test(html) || isHtmlTooLarge(html)) return ids;
  let dropped = 0;
  const isDropped = (name: string) => DROPPED_WITH_CONTENT.includes(name);
  const reader: Reader = {
    open(name, { src = "" }) {
      if (isDropped(name)) dropped++;
      const id = name === "img" && dropped === 0 ? /^\s*cid:(.{1,500}?)\s*$/isu.exec(src)?.[1] : undefined;
      if (id === undefined) return;
      ids.add(id);
      try {
        ids.add(decodeURIComponent(id));
      } catch {}
    },
    close(name) {
      if (isDropped(name)) dropped--;
    },
    text() {},
    pass() {},
  };
  try {
    readMarkup(html, budget, reader);
    return ids;
  } catch {
    return new Set();
  }
}

function decodeAttachment(
  buffer: Buffer,
  length: number,
  part: Part,
  index: number,
  isAlternative: boolean,
): ParsedAttachment {
  const { content, filename } = decodeAttachedFile(buffer, part);
  const ownName = safeFilename(filename);
  const contentId = cleanText(findHeader(part.header.fields, "content-id") ?? "")
    .replace(/^[\s<]+|(?<![\s>])[\s>]+$/g, "")
    .slice(0, 500);
  const contentType = isCalendarFile(content, filename) ? "text/calendar" : part.type;
  const parameters = readTypeParameters(part.contentType.parameters);
  const alternative =
    isAlternative && ownName === "" && part.disposition.value !== "attachment" && isAlternativeFileType(contentType);
  return {
    filename: ownName || nameOfMessage(contentType, content) || defaultFilename(contentType, index),
    ...(ownName === "" && { unnamed: true }),
    contentType,
    ...(parameters.length > 0 && { parameters }),
    content,
    inline: false,
    ...(contentId === "" ? {} : { contentId }),
    ...(part.start < length && { source: { start: part.start, end: part.end } }),
    ...(alternative && { alternative }),
  };
}

/** A name for a message that is attached without one, by its subject; "" for anything else. */
function nameOfMessage(contentType: string, content: Uint8Array): string {
  if (contentType !== "message/rfc822" && contentType !== "message/global") return "";
  const start = content.findIndex((octet) => octet !== 0x0d && octet !== 0x0a);
  const { fields } = readHeaders(
    Buffer.from(content.buffer, content.byteOffset, content.byteLength),
    Math.max(start, 0),
  );
  return safeFilename(messageFilename(decodeSubject(findHeader(fields, "subject") ?? "")));
}

/** True for iCalendar (RFC 5545 §3.4), whatever type its sender declared. */
function isCalendarFile(content: Uint8Array, filename: string): boolean {
  const begin = Buffer.from(content.buffer, content.byteOffset, Math.min(content.byteLength, 1_000)).toString("latin1");
  return (CALENDAR_NAME.test(filename) ? /^BEGIN:VCALENDAR/im : /^(?:\u00ef\u00bb\u00bf)?\s*BEGIN:VCALENDAR/i).test(
    begin,
  );
}

const CALENDAR_NAME = /\.ics$/i;

/** Begins like a path, or has a step up or a backslash in it; any other slash is one of a title, as in `Report 1/2.pdf`. */
const PATH = /^(?:[/~.]|[a-z]:)|\\|\/\.\.\//iu;

/** A file name that is valid on every system: no path, no control or direction-changing characters. */
export function safeFilename(name: string): string {
  const decoded = cleanText(decodeWords(name));
  return (PATH.test(decoded) ? decoded.replace(/^.*[/\\]/su, "") : decoded.replaceAll("/", "_"))
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

/*
 * Chooses which parts of a message are shown and which are attached: the algorithm of RFC 8621 §4.1.4, without its
 * inline media, which are attachments here.
 *
 * Every leaf ends up in at least one of the lists.
 */

interface BodyParts {
  /** Parts of the plain text, in order; HTML where an alternative has no text. */
  text: Part[];
  /** Parts of the HTML, in order; texts where an alternative has no HTML. */
  html: Part[];
  attachments: Part[];
}

/** `stubs`: texts that count as absent beside HTML. */
function chooseBody(root: Part, stubs: ReadonlySet<Part> = new Set()): BodyParts {
  const body: BodyParts = { text: [], html: [], attachments: [] };
  sortParts([root], "mixed", stubs, body.text, body.html, body.attachments);
  return body;
}

/** `text` or `html` is undefined inside an alternative that already is of the other kind. */
function sortParts(
  parts: readonly Part[],
  multipart: string,
  stubs: ReadonlySet<Part>,
  text: Part[] | undefined,
  html: Part[] | undefined,
  attachments: Part[],
  inAlternative = false,
): void {
  const textsBefore = text?.length ?? -1;
  const htmlsBefore = html?.length ?? -1;
  const hasText = multipart === "alternative" && parts.some(holdsText);
  for (const [index, part] of parts.entries()) {
    if (part.children.length > 0) {
      const subtype = part.type.slice("multipart/".length);
      sortParts(rootFirst(part), subtype, stubs, text, html, attachments, inAlternative || subtype === "alternative");
    } else if (hasText && isOtherForm(part)) {
      // It says in another form what the text says.
    } else if (!isShown(part, index, multipart)) {
      attachments.push(part);
    } else if (multipart === "alternative") {
      (part.type === "text/html" ? html : text)?.push(part);
      if ((part.type === "text/html" ? html : text) === undefined) attachments.push(part);
    } else {
      if (inAlternative) {
        if (part.type === "text/html") text = undefined;
        else html = undefined;
      }
      text?.push(part);
      html?.push(part);
      if (text === undefined && html === undefined) attachments.push(part);
    }
  }
  if (multipart === "alternative" && text !== undefined && html !== undefined) {
    // Only one kind is present, or says something: it stands for both.
    if (html.length === htmlsBefore) html.push(...text.slice(textsBefore));
    else if (text.slice(textsBefore).every((part) => stubs.has(part)))
      text.splice(textsBefore, text.length, ...html.slice(htmlsBefore));
  }
}

/** The children of a multipart; of a related one, the part that `start` names comes first (RFC 2387 §3.2). */
function rootFirst({ children, type, contentType }: Part): readonly Part[] {
  const start = type === "multipart/related" ? contentType.parameters.get("start") : undefined;
  if (start === undefined) return children;
  const root = children.find((part) => findHeader(part.header.fields, "content-id")?.trim() === start);
  return root === undefined ? children : [root, ...children.filter((part) => part !== root)];
}

const holdsText = (part: Part): boolean =>
  part.children.length > 0 ? part.children.some(holdsText) : SHOWN_TYPES.has(part.type);

const SHOWN_TYPES: ReadonlySet<string> = new Set(["text/plain", "text/html"]);

/**
 * True for an alternative that is neither text, HTML nor a file: those for AMP, watches and reactions (RFC 9078, Gmail's), and
 * what is unknown.
 */
function isOtherForm({ type, contentType, disposition }: Part): boolean {
  if (disposition.value === "attachment" || isNamed(disposition.parameters)) return false;
  if (disposition.value === "reaction" || OTHER_FORM.test(type)) return true;
  // A type that is broken may have been that of the text.
  const isWhole = contentType.value === type;
  return isWhole && !isNamed(contentType.parameters) && !SHOWN_TYPES.has(type) && !FILE_TYPE.test(type);
}

const OTHER_FORM = /^text\/(?:x-amp-html|watch-html|vnd\.google\.email-reaction\+json)$/;
/** Types of files, which some senders put among the alternatives without a name. */
const FILE_TYPE =
  /^(?:image|audio|video|message|model|font)\/|^text\/(?:(?:x-)?v?calendar|(?:x-)?vcard|rfc822-headers)$|^application\/(?:ics|octet-stream|pdf|zip|ms-tnef|msword|vnd\.(?:ms|openxmlformats)-.*|(?:x-)?pkcs7-.*|pgp-.*)$/;

/** True for the type of a file that may stand among the alternatives of a text, and that its readers find as an attachment. */
export const isAlternativeFileType = (type: string): boolean => FILE_TYPE.test(type);

/** The parts that stand beside a text as its alternatives. */
function* listAlternatives({ type, children }: Part): Generator<Part> {
  if (type === "multipart/alternative" && children.some(holdsText)) yield* children;
  for (const child of children) yield* listAlternatives(child);
}

/** True if a text is not meant as a file: of several neighbours, only the first may have a name. */
function isShown(part: Part, index: number, multipart: string): boolean {
  if (part.type !== "text/plain" && part.type !== "text/html") return false;
  const { value, parameters } = part.disposition;
  // RFC 2183 §2.8: an unknown disposition means attachment. A value that is not even a token is ignored.
  if (value !== "inline" && value !== "reaction" && /^[a-z0-9-]+$/.test(value)) return false;
  if (CALENDAR_NAME.test(partFileName(part))) return false;
  return index === 0 || (multipart !== "related" && !isNamed(parameters) && !isNamed(part.contentType.parameters));
}

function isNamed(parameters: Map<string, string>): boolean {
  for (const name of parameters.keys()) if (/^(?:file)?name(?:\*|$)/.test(name)) return true;
  return false;
}

/*
 * Finds text of a message outside its parts, which would be neither shown nor attached.
 *
 * RFC 2046 §5.1.1 has readers ignore the text before, between and after the parts. A reader that finds other delimiters
 * shows it, though, so text that is lost here would be seen there. A note for readers without MIME is ignored.
 */

/** Describes the text of a message outside its parts, without quoting it; undefined if there is none. Linear time. */
export function textOutsideParts(bytes: Buffer, root: Part): string | undefined {
  const boundaries = new Set<string>();
  const gaps: [start: number, end: number][] = [];
  let position = 0;
  let problem: string | undefined;
  const walk = (part: Part) => {
    gaps.push([position, part.header.start]);
    if (part.header.doubtful) problem ??= "where a header ends is doubtful";
    if (part !== root && part.header.fields.some(({ name }) => !isPartField(name)))
      problem ??= "text in a part's header";
    position = Math.max(position, part.header.bodyStart);
    boundaries.add(readMultipartBoundary(part.header.fields));
    if (part.children.length === 0) position = Math.max(position, part.end);
    if (part.children.length === 0 && !isDecodedWhole(bytes, part)) problem ??= "more than the base64 it is said to be";
    for (const child of part.children) walk(child);
  };
  walk(root);
  gaps.push([position, bytes.length]);
  if (problem !== undefined) return problem;
  return gaps.some(([start, end]) => hasText(bytes, start, end, boundaries)) ? "text outside the parts" : undefined;
}

/** RFC 2046 §5.1: other fields have no meaning in the header of a part. */
const isPartField = (name: string): boolean => /^(?:content-|x-|mime-version$)/i.test(name);

/** Bytes of a longer text, which says more than a note. */
const LONGEST_NOTE = 1_000;

/** True if a gap between parts contains more than delimiters and a note. */
function hasText(bytes: Buffer, start: number, end: number, boundaries: ReadonlySet<string>): boolean {
  let note = "";
  for (let at = start; at < end; ) {
    const lineEnd = bytes.indexOf(0x0a, at);
    const next = lineEnd < 0 ? end : Math.min(end, lineEnd + 1);
    if (!isBlank(bytes, at, next) && !isDelimiter(bytes, at, next, boundaries)) {
      if (note.length + next - at > LONGEST_NOTE) return true;
      note += bytes.toString("utf8", at, next);
    }
    at = next;
  }
  return !isMimeNote(note);
}

function isBlank(bytes: Buffer, start: number, end: number): boolean {
  let i = start;
  while (i < end && (bytes[i] as number) <= 0x20) i++;
  return i === end;
}

function isDelimiter(bytes: Buffer, start: number, end: number, boundaries: ReadonlySet<string>): boolean {
  if (end - start > 1_024 || bytes[start] !== 0x2d || bytes[start + 1] !== 0x2d) return false;
  const boundary = bytes.toString("latin1", start + 2, end).trimEnd();
  return boundaries.has(boundary) || (boundary.endsWith("--") && boundaries.has(boundary.slice(0, -2).trimEnd()));
}
