/**
 * Builds the RFC 5322 bytes of a message, to send it or from what is stored of it (rules: Raw messages), and of the
 * delivery status notifications that this server sends. The only user of nodemailer's MIME building.
 *
 * Deterministic: the same parts give the same bytes. No field can add a header or a part: header values lose their
 * control characters, and boundaries come from an id that the author of the content cannot know.
 */
import { encodeWord } from "nodemailer/lib/mime-funcs";
import MimeNode from "nodemailer/lib/mime-node";
import { encode as encodeQuotedPrintable, wrap as wrapQuotedPrintable } from "nodemailer/lib/qp";
import { type EmailAddress, parseAddressList } from "./address.ts";
import { cleanText } from "./charset.ts";
import { formatTypeParameters, type TypeParameters } from "./content-type.ts";
import { dateHeader } from "./date.ts";
import { base64Length, base64Pieces } from "./encode.ts";
import { decodeWords } from "./headers.ts";

/**
 * Longest subject that we write, in characters. Some readers cut a large header (Postfix at 100 KiB), which would lose
 * the fields below the subject.
 */
export const LONGEST_SUBJECT = 10_000;

export interface ComposedAttachment {
  filename: string;
  /** The message has the file without its name. */
  unnamed?: boolean | undefined;
  /** Without parameters. */
  contentType: string;
  parameters?: TypeParameters | undefined;
  content: Uint8Array;
  inline: boolean;
  contentId?: string;
  /** The file stands beside the text without a name, as an invitation does (RFC 6047 §2.4). */
  alternative?: boolean | undefined;
}

export interface MessageParts {
  /** Names the message; the boundaries contain it. */
  id: string;
  /** [name, value] in order. ASCII values are kept as they are, encoded words included; others are encoded. */
  headers: readonly (readonly [name: string, value: string])[];
  text: string;
  html?: string;
  attachments: readonly ComposedAttachment[];
}

/** The bytes of the message, lines ended by CRLF. `above`: whole lines that go on top. */
export function composeMessage(parts: MessageParts, above = ""): Uint8Array {
  return underHeaders(parts.headers, buildBodyNode(parts), above);
}

/** A message of headers, one line each, and a body that brings its Content-* fields along. */
function underHeaders(headers: MessageParts["headers"], body: MimeNode, above = ""): Uint8Array {
  const lines = headers
    .filter(([name]) => /^[!-9;-~]{1,200}$/.test(name) && !/^(?:content-.*|mime-version)$/i.test(name))
    .map(([name, value]) => headerField(name, value));
  return serializeMimeNode(body, above + [...lines, "MIME-Version: 1.0", ""].join("\r\n"));
}

/** A parent to throw away for the body of message `id`: MimeNode gives a root a Date and a Message-ID of its own. */
export function createRootNode(id: string): MimeNode {
  return new MimeNode("multipart/mixed", {
    baseBoundary: id.replace(/[^A-Za-z0-9_.-]/g, ""),
    boundaryPrefix: "=_mailroom",
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** Builds mixed(alternative(text, related(html, inline…), file…), attachment…), each level only where it is needed. */
function buildBodyNode(parts: MessageParts): MimeNode {
  // A reader would take an inline text for one of the bodies.
  const inline =
    parts.html === undefined
      ? []
      : parts.attachments.filter((attachment) => attachment.inline && !/^text\//i.test(attachment.contentType));
  const others = parts.attachments.filter((attachment) => !inline.includes(attachment));
  const beside = others.filter(({ alternative }) => alternative);
  const attached = others.filter(({ alternative }) => !alternative);
  let node = createRootNode(parts.id);
  if (attached.length > 0) node = node.createChild("multipart/mixed");
  const mixed = node;
  const isAlternative = parts.html !== undefined || beside.length > 0;
  if (isAlternative) node = node.createChild("multipart/alternative");
  const alternatives = node;
  const top = attached.length > 0 ? mixed : node;
  const text = addTextPart(node, "text/plain", parts.text);
  if (parts.html !== undefined) {
    if (inline.length > 0) node = node.createChild("multipart/related");
    addTextPart(node, "text/html", withSafeIds(parts.html, inline));
    for (const attachment of inline) attach(node, attachment, "inline");
  }
  for (const attachment of beside) attach(alternatives, attachment);
  for (const attachment of attached) attach(mixed, attachment, "attachment");
  return attached.length > 0 || isAlternative ? top : text;
}

/** Longer texts, in characters, become base64: MimeNode chooses and applies other encodings slowly. */
const LONG_TEXT = 500_000;

/** Adds a text part to `parent`. */
export function addTextPart(
  parent: MimeNode,
  type: "text/plain" | "text/html" | "text/rfc822-headers",
  content: string,
): MimeNode {
  const node = parent.createChild(`${type}; charset=utf-8`);
  if (content.length > LONG_TEXT) node.setHeader("Content-Transfer-Encoding", "base64");
  return node.setContent(withCrlf(cleanText(content)));
}

/** Adds a file. Without a disposition it is an alternative of the texts before it. */
function attach(parent: MimeNode, attachment: ComposedAttachment, disposition?: "inline" | "attachment"): void {
  const { buffer, byteOffset, byteLength } = attachment.content;
  const content = Buffer.from(buffer, byteOffset, byteLength);
  const type = safeType(attachment.contentType, content);
  const isNamed = disposition !== undefined && !attachment.unnamed;
  const parameters = type === attachment.contentType.toLowerCase() ? (attachment.parameters ?? []) : [];
  // MimeNode encodes the parameters as RFC 2231 has it.
  const node = parent.createChild(
    type + formatTypeParameters(parameters),
    isNamed ? { filename: attachment.filename } : {},
  );
  if (disposition !== undefined) node.setHeader("Content-Disposition", disposition);
  const contentId = safeId(attachment.contentId ?? "");
  if (contentId) node.setHeader("Content-ID", { prepared: true, foldLines: true, value: `<${contentId}>` });
  if (type === "message/rfc822") {
    // RFC 2046 §5.2.1 forbids base64 and quoted-printable around a message.
    node.setHeader("Content-Transfer-Encoding", encodingOfMessage(content));
  } else {
    node.setHeader("Content-Transfer-Encoding", "base64");
  }
  node.setContent(content);
}

/**
 * A content id as a header field can carry it, and as URLs write it: percent-encoded where it is no printable ASCII (RFC 2392 §2).
 */
const safeId = (contentId: string): string =>
  contentId
    .toWellFormed()
    .replace(/[\p{Cc}<>]+/gu, "")
    .replace(/[^!-~]+/gu, encodeURIComponent);

/** HTML that refers to these files by the ids that they get. */
function withSafeIds(given: string, inline: readonly ComposedAttachment[]): string {
  let html = given;
  for (const { contentId = "" } of inline)
    if (safeId(contentId) !== contentId) html = html.replaceAll(`cid:${contentId}`, () => `cid:${safeId(contentId)}`);
  return html;
}

/**
 * A type that cannot be attached again as itself becomes data (RFC 2046), as does a message with NUL (rules: NUL).
 */
function safeType(contentType: string, content: Uint8Array): string {
  const type = contentType.toLowerCase();
  const isType = /^[a-z0-9!#$&^_.+-]{1,80}\/[a-z0-9!#$&^_.+-]{1,80}$/.test(type);
  const isSendable = !type.startsWith("multipart/") && !(type === "message/rfc822" && content.includes(0));
  return isType && isSendable ? type : "application/octet-stream";
}

/** RFC 2045 §2.7 to §2.9: lines up to 998 octets are 7bit or 8bit, anything else is binary. Expects no NUL. */
function encodingOfMessage(content: Buffer): "7bit" | "8bit" | "binary" {
  let lineStart = 0;
  let highest = 0;
  for (let i = 0; i < content.length; i++) {
    const octet = content[i] as number;
    if (octet === 0x0a) lineStart = i + 1;
    else if (i - lineStart > 998) return "binary";
    if (octet > highest) highest = octet;
  }
  return highest < 0x80 ? "7bit" : "8bit";
}

function withCrlf(text: string): string {
  return text.replace(/\r\n?|\n/g, "\r\n");
}

const ADDRESS_HEADERS = /^(?:resent-)?(?:from|sender|to|cc|bcc|reply-to)$/i;

/**
 * Header fields that may not hold encoded words (RFC 2047 §5); characters outside ASCII are sent as RFC 6532 has it.
 */
const STRUCTURED = /^(?:(?:resent-)?(?:date|message-id)|in-reply-to|references)$/i;

/** A field as it is transmitted, without the line break at its end. ASCII values are kept; others are encoded. */
export const headerField = (name: string, value: string): string =>
  foldHeaderField(`${name}: ${encodedValue(name, value)}`);

/** The value in ASCII, without control characters; other characters become encoded words (RFC 2047). */
function encodedValue(name: string, value: string): string {
  const clean = value.replace(/[^\t\P{Cc}]+/gu, " ").trim();
  if (!/[^\t -~]/.test(clean) || STRUCTURED.test(name)) return clean;
  const addresses = ADDRESS_HEADERS.test(name) ? parseAddressList(clean) : [];
  if (addresses.length === 0) return encodeHeaderText(decodeWords(clean));
  return addresses.map((address) => formatAddress(address)).join(", ");
}

/** An address as it stands in a header: the display name quoted or encoded (RFC 5322 §3.4, RFC 2047 §5). */
export function formatAddress({ email, name }: EmailAddress): string {
  const clean = name?.replace(/\p{Cc}+/gu, " ").trim() ?? "";
  // Only a quoted local part may hold spaces and brackets.
  const address = email.replace(/^("(?:[^"\\\p{Cc}]|\\[^\p{Cc}])*")?|[\s<>\p{Cc}]+/gu, "$1");
  if (clean === "") return address;
  if (/[^ -~]/.test(clean) || clean.includes("=?")) return `${encodeHeaderText(clean)} <${address}>`;
  const phrase = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+$/.test(clean) ? clean : `"${clean.replace(/["\\]/g, "\\$&")}"`;
  return `${phrase} <${address}>`;
}

/** Encoded words (RFC 2047) with a space between them. */
export function encodeHeaderText(text: string): string {
  const isMostlyAscii = text.replace(/[^ -~]+/g, "").length * 2 > text.length;
  return encodeWord(text, isMostlyAscii ? "Q" : "B", 52);
}

/**
 * Breaks a field into lines of at most 78 characters at white space, and of at most 998 in any case (RFC 5322 §2.2.3).
 * Unfolding restores it.
 */
export function foldHeaderField(field: string): string {
  let folded = "";
  let length = 0;
  for (const [token] of field.matchAll(/(?<!\s)\s*\S{1,900}/g)) {
    if (length > 0 && length + token.length > 78) {
      folded += /^\s/.test(token) ? "\r\n" : "\r\n ";
      length = 0;
      if (!/^\s/.test(token)) length = 1;
    }
    folded += token;
    length += token.length;
  }
  return folded;
}

/*
 * The bytes of a tree of MIME nodes, as MimeNode.build() gives them, but synchronously: for a message of ordinary size
 * its streams take five times as long as the work itself. A test compares the two.
 */

/**
 * Header and body of `node`, with further fields `above` it. Lines end in CRLF if those of its content do. Content is text or
 * octets. The pieces of a large message are never all in memory beside it.
 */
export function serializeMimeNode(node: MimeNode, above = ""): Uint8Array {
  const sink = new Bun.ArrayBufferSink();
  sink.start({ highWaterMark: estimatedSize(node), asUint8Array: true });
  sink.write(above);
  let last: string | undefined;
  for (const piece of writeNodePieces(node)) {
    sink.write(piece);
    const end = piece.at(-1);
    if (end !== undefined) last = typeof end === "string" ? end : String.fromCharCode(end);
  }
  if (last !== "\n") sink.write(last === "\r" ? "\n" : "\r\n");
  return sink.end() as Uint8Array;
}

/** Bytes that a node takes in base64; for other encodings a guess. */
function estimatedSize({ content, childNodes }: MimeNode): number {
  const length = typeof content === "string" || Buffer.isBuffer(content) ? content.length : 0;
  return childNodes.reduce((sum, child) => sum + estimatedSize(child), base64Length(length) + 1_024);
}

/** The next piece may overwrite one before. */
function* writeNodePieces(node: MimeNode): Generator<string | Buffer> {
  yield `${node.buildHeaders()}\r\n\r\n`;
  yield* writeNodeContent(node);
  if (!node.multipart) return;
  let before = "";
  for (const child of node.childNodes) {
    yield `${before}--${node.boundary}\r\n`;
    yield* writeNodePieces(child);
    before = "\r\n";
  }
  yield `\r\n--${node.boundary}--\r\n`;
}

function* writeNodeContent(node: MimeNode): Generator<string | Buffer> {
  const { content } = node;
  if (!content) return;
  if (typeof content !== "string" && !Buffer.isBuffer(content)) throw new Error("content is neither text nor octets");
  switch (node.getTransferEncoding()) {
    case "quoted-printable":
      yield wrapQuotedPrintable(encodeQuotedPrintable(content));
      return;
    case "base64":
      yield* base64Pieces(typeof content === "string" ? Buffer.from(content) : content);
      return;
    default:
      yield content;
  }
}

/*
 * Delivery status notifications: multipart/report with a text for people, a part for programs (RFC 3464) and the message
 * that it is about or its header (RFC 6522). No value can add a field, a recipient or a part: each is one line of printable
 * ASCII.
 */

export interface NoticeRecipient {
  /** Absent for a Bcc recipient; host, reply and original address are then left out too (rules: Bcc). */
  recipient?: string;
  /** The original recipient as the sender gave it: the type of the address, `;` and the address. */
  original?: string;
  action: "failed" | "delivered" | "relayed";
  /** Status code of RFC 3463, such as `5.1.1`. */
  status: string;
  /** Name of the host that refused the message. */
  remoteMta?: string;
  /** The host's reply, or the reason why there was none. */
  diagnostic?: string;
}

export interface NoticeParts {
  /** Names the notice; the boundaries contain it. */
  id: string;
  /** [name, value] in order: From, To, Subject, Date, Message-ID… */
  headers: MessageParts["headers"];
  /** The text for people. */
  text: string;
  /** This server's host name. */
  reportingMta: string;
  /** When the message was accepted, epoch milliseconds. */
  arrivalDate: number;
  /** The sender's name for the message. */
  envelopeId?: string;
  recipients: readonly NoticeRecipient[];
  /** Header of the message as transmitted, as lines of fields. Anything after an empty line is left out. */
  originalHeaders: string;
  /** The message as transmitted, to return it whole. */
  original?: Uint8Array;
}

/** The bytes of the notice, lines ended by CRLF. */
export function composeNotice(parts: NoticeParts): Uint8Array {
  const report = createRootNode(parts.id).createChild("multipart/report; report-type=delivery-status");
  addTextPart(report, "text/plain", parts.text);
  report.createChild("message/delivery-status").setContent(formatDeliveryStatus(parts));
  if (parts.original && !parts.original.includes(0)) {
    const content = Buffer.from(parts.original);
    const returned = report.createChild("message/rfc822").setContent(content);
    returned.setHeader("Content-Transfer-Encoding", encodingOfMessage(content));
    return underHeaders(parts.headers, report);
  }
  const [header = ""] = parts.originalHeaders.replace(/\r\n?/g, "\n").replace(/^\n+/, "").split("\n\n", 1);
  addTextPart(report, "text/rfc822-headers", header.endsWith("\n") ? header : `${header}\n`);
  return underHeaders(parts.headers, report);
}

/** The fields of RFC 3464 §2.2 and §2.3: one group for the message and one for each recipient. */
function formatDeliveryStatus({ envelopeId, reportingMta, arrivalDate, recipients }: NoticeParts): string {
  const ofMessage = [
    ...(envelopeId === undefined ? [] : [`Original-Envelope-Id: ${asciiLine(envelopeId)}`]),
    `Reporting-MTA: dns; ${hostName(reportingMta)}`,
    `Arrival-Date: ${dateHeader(arrivalDate)}`,
  ];
  return [ofMessage, ...recipients.map(formatRecipientFields)]
    .map((group) => `${group.map(foldHeaderField).join("\r\n")}\r\n`)
    .join("\r\n");
}

function formatRecipientFields({
  recipient,
  original,
  action,
  status,
  remoteMta,
  diagnostic,
}: NoticeRecipient): string[] {
  const outcome = [`Action: ${action}`, `Status: ${/^[245]\.\d{1,3}\.\d{1,3}$/.test(status) ? status : "5.0.0"}`];
  // A private address type, since the value is not an address (RFC 3464 §2.1.2).
  if (recipient === undefined) return ["Final-Recipient: x-undisclosed; a Bcc recipient", ...outcome];
  const reply = asciiLine(diagnostic ?? "");
  return [
    ...(original === undefined ? [] : [`Original-Recipient: ${asciiLine(original)}`]),
    `Final-Recipient: ${typedAddress(recipient)}`,
    ...outcome,
    ...(remoteMta === undefined ? [] : [`Remote-MTA: dns; ${hostName(remoteMta)}`]),
    // RFC 3464 §2.3.6: type smtp is for replies of servers only.
    ...(reply === "" ? [] : [`Diagnostic-Code: ${/^\d{3}\b/.test(reply) ? "smtp" : "x-mailroom"}; ${reply}`]),
  ];
}

/** RFC 6533 §3: escapes characters outside ASCII, so that the part stays 7bit. */
function typedAddress(address: string): string {
  const line = address.replace(/\p{Cc}+/gu, "");
  if (/^[ -~]*$/.test(line)) return `rfc822; ${line}`;
  const escaped = (character: string) => `\\x{${character.codePointAt(0)?.toString(16).toUpperCase()}}`;
  return `utf-8; ${line.replace(/[^!-~]|[\\+=]/gu, escaped)}`;
}

const hostName = (host: string): string => host.replace(/[^!-~]+/g, "");

const asciiLine = (text: string): string =>
  text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .replace(/[^ -~]/gu, "?");
