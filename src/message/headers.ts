/**
 * Reads the header block of a message or of one of its parts: fields in order, unfolded, still encoded; decodes the
 * encoded words in their values; and removes the Bcc fields.
 *
 * Never throws: a line that is not a field is skipped, and text that follows the fields without the blank line is the
 * body. Linear in the bytes read.
 */
import { decodeCharset, decodeUnlabelledText, decodeUtf8OrIso2022Jp } from "./charset.ts";

/** A header field; `value` is unfolded, trimmed and free of control characters (RFC 5322 §2.2.3). */
export interface HeaderField {
  name: string;
  value: string;
  /** The octets of a value that is not UTF-8. Its charset follows from the rest of the message (undeclared.ts). */
  octets?: Uint8Array;
}

export interface HeaderBlock {
  fields: HeaderField[];
  /** Offset of the first byte of the block. */
  start: number;
  /** Offset of the first byte of the body. */
  bodyStart: number;
  /** The block exceeds the limits: `fields` holds the ones before. */
  oversized: boolean;
  /** Other readers may end the header earlier, or show text where this one sees fields or skips lines. */
  doubtful: boolean;
}

/** Limits on fields and bytes of one header block; mail beyond is kept whole, unparsed. */
const MAX_FIELDS = 1_000;
const MAX_BLOCK_BYTES = 512 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;

/**
 * Reads the header block of `bytes` from `start`. `isDelimiter` receives each line that begins with `--` and the fields
 * above it: a multipart delimiter ends a block that lacks its blank line.
 */
export function readHeaders(
  bytes: Buffer,
  start = 0,
  isDelimiter?: (line: string, fields: readonly HeaderField[]) => boolean,
  limits = { fields: MAX_FIELDS, bytes: MAX_BLOCK_BYTES },
): HeaderBlock {
  const fields: HeaderField[] = [];
  let fieldStart = -1;
  let strayStart = -1;
  let oversized = false;
  let doubtful = false;
  let sawWhiteLine = false;
  let position = start;
  const closeField = (end: number) => {
    if (fieldStart >= 0) {
      fields.push(readHeaderField(bytes, fieldStart, end));
      doubtful ||= hasBareCarriageReturn(bytes, fieldStart, end);
    }
    fieldStart = -1;
  };
  while (position < bytes.length) {
    const lineEnd = bytes.indexOf(LF, position);
    const next = lineEnd < 0 ? bytes.length : lineEnd + 1;
    const first = bytes[position];
    if (first === LF || (first === CR && bytes[position + 1] === LF)) {
      if (strayStart >= 0) break;
      closeField(position);
      return { fields, start, bodyStart: next, oversized, doubtful };
    }
    if (isDelimiter !== undefined && first === 0x2d && bytes[position + 1] === 0x2d) {
      const above = fieldStart < 0 ? fields : [...fields, readHeaderField(bytes, fieldStart, position)];
      if (isDelimiter(lineAt(bytes, position, next), above)) break;
    }
    const isContinuation = (first === SPACE || first === TAB) && (fieldStart >= 0 || strayStart >= 0);
    const isFull = !isContinuation && fields.length + (fieldStart < 0 ? 0 : 1) >= limits.fields;
    if (isFull || next - start > limits.bytes) {
      oversized = true;
      break;
    }
    if (isFieldStart(bytes, position, next)) {
      doubtful ||= sawWhiteLine || (strayStart >= 0 && !isMboxLine(bytes, strayStart, position));
      closeField(position);
      fieldStart = position;
      strayStart = -1;
    } else if (strayStart < 0 && fieldStart >= 0 && isWhiteLine(bytes, position, next)) {
      sawWhiteLine = true;
    } else if (isContinuation) {
      doubtful ||= sawWhiteLine && strayStart < 0;
    } else if (isEmptyField(bytes, fieldStart, position)) {
      doubtful = true;
    } else if (strayStart < 0) {
      closeField(position);
      strayStart = position;
    }
    position = next;
  }
  // No field follows these lines: the blank line is missing, and they are the body.
  const end = strayStart >= 0 && !oversized ? strayStart : position;
  closeField(end);
  return { fields, start, bodyStart: end, oversized, doubtful };
}

/** The value of the first field of that name (lower case), or undefined. */
export function findHeader(fields: readonly HeaderField[], name: string): string | undefined {
  return fields.find((field) => field.name.length === name.length && field.name.toLowerCase() === name)?.value;
}

/** The values of every field of that name (lower case), in order. */
export function listHeaders(fields: readonly HeaderField[], name: string): string[] {
  return fields
    .filter((field) => field.name.length === name.length && field.name.toLowerCase() === name)
    .map((field) => field.value);
}

const TRACE = new Set([
  "received",
  "return-path",
  "delivered-to",
  "x-original-to",
  "envelope-to",
  "x-envelope-to",
  "x-envelope-from",
  "x-received",
  "received-spf",
  "authentication-results",
  "x-authentication-results",
  "dkim-signature",
  "x-google-dkim-signature",
  "domainkey-signature",
]);

/**
 * True if a field describes the transport rather than the message: trace (RFC 5321 §4.4), delivery marks, signatures
 * and authentication verdicts. These differ between two transmissions of one message.
 */
export function isTraceHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return TRACE.has(lower) || lower.startsWith("arc-");
}

/** A field name is printable ASCII without a colon (RFC 5322 §2.2). Space before the colon is obsolete, but occurs. */
function isFieldStart(bytes: Buffer, position: number, end: number): boolean {
  let i = position;
  while (i < end && (bytes[i] as number) > SPACE && (bytes[i] as number) < 0x7f && bytes[i] !== COLON) i++;
  if (i === position) return false;
  while (i < end && (bytes[i] === SPACE || bytes[i] === TAB)) i++;
  return bytes[i] === COLON && i < end;
}

/** A field without a value: the next line has it, after losing its leading white space on the way. */
function isEmptyField(bytes: Buffer, start: number, end: number): boolean {
  if (start < 0) return false;
  let i = end - 1;
  while (i > start && (bytes[i] as number) <= SPACE) i--;
  return bytes[i] === COLON && bytes.indexOf(COLON, start) === i;
}

/** The `From ` line that mbox files, and programs that pipe them, leave before the header. */
function isMboxLine(bytes: Buffer, start: number, end: number): boolean {
  if (start !== 0 || bytes.indexOf(LF) + 1 !== end || hasBareCarriageReturn(bytes, 0, end)) return false;
  const offset = bytes[0] === 0x3e ? 1 : 0;
  return bytes.toString("latin1", offset, offset + 5) === "From ";
}

function isWhiteLine(bytes: Buffer, start: number, end: number): boolean {
  let i = start;
  while (i < end && (bytes[i] as number) <= SPACE) i++;
  return i === end;
}

/** Some readers take a bare CR for the end of a line. Several before a line feed belong to that line's end. */
function hasBareCarriageReturn(bytes: Buffer, start: number, end: number): boolean {
  // Searches the field only: without a match, indexOf would scan the whole message for each field.
  const field = bytes.subarray(start, end);
  for (let at = field.indexOf(CR); at >= 0 && at + 1 < field.length; at = field.indexOf(CR, at + 1)) {
    if (field[at + 1] !== CR && field[at + 1] !== LF) return true;
  }
  return false;
}

function lineAt(bytes: Buffer, start: number, end: number): string {
  return end - start > 1_024 ? "" : bytes.toString("latin1", start, end).trimEnd();
}

function readHeaderField(bytes: Buffer, start: number, end: number): HeaderField {
  const colon = bytes.indexOf(COLON, start);
  const name = bytes.toString("latin1", start, colon).trimEnd();
  const octets = bytes.subarray(colon + 1, end);
  const text = decodeUtf8OrIso2022Jp(octets);
  return text === undefined
    ? { name, value: unfoldHeaderValue(decodeUnlabelledText(octets)), octets }
    : { name, value: unfoldHeaderValue(text) };
}

/** RFC 5322 §2.2.3: removes the line breaks and keeps the white space after them. */
export function unfoldHeaderValue(value: string): string {
  return (
    value
      .replace(/\r?\n/g, "")
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not get out
      .replace(/[\u0000-\u0008\u000a-\u001f\u007f]/g, " ")
      .trim()
  );
}

/** The offset of the empty line that ends the header. */
function endOfHeader(buffer: Buffer): number {
  if (/^\r?\n/.test(buffer.toString("latin1", 0, 2))) return 0;
  const ends = ["\n\n", "\n\r\n"].map((end) => buffer.indexOf(end)).filter((at) => at >= 0);
  return ends.length === 0 ? buffer.length : Math.min(...ends) + 1;
}

/** RFC 5322 §4 lets readers meet NUL and forbids to send it (rules: NUL). The same array if there is none. */
export const withoutNul = (bytes: Uint8Array): Uint8Array =>
  bytes.includes(0) ? bytes.filter((octet) => octet !== 0) : bytes;

/**
 * The bytes whose signatures count, of a message that is filed as `filed`: those that came, unless NUL in its header may
 * hide a field from the verifier that readers then see.
 */
export function chooseBytesToVerify(bytes: Uint8Array, filed: Uint8Array): Uint8Array {
  if (filed === bytes) return bytes;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.indexOf(0) < endOfHeader(buffer) ? filed : bytes;
}

/** The lines of a header field, by position. */
export interface FieldLines {
  start: number;
  end: number;
  /** Lower case, as any reader may take it; "" for lines that have none. */
  name: string;
  /** Offset behind the colon. */
  value: number;
}

/**
 * The fields of the header with all of their lines: an indented line continues the field above. A bare CR ends a line, too, since
 * some readers see one there.
 */
export function* readFieldLines(buffer: Buffer): Generator<FieldLines> {
  const end = endOfHeader(buffer);
  let fieldStart = 0;
  for (let start = 0; start < end; ) {
    const next = endOfLine(buffer, start, end);
    if (next >= end || !isIndentedAt(buffer, next)) {
      yield nameField(buffer, fieldStart, next);
      fieldStart = next;
    }
    start = next;
  }
}

/** Where the line ends that begins at `start`, its break included. */
function endOfLine(buffer: Buffer, start: number, end: number): number {
  let at = start;
  while (at < end && buffer[at] !== LF && buffer[at] !== CR) at++;
  while (at < end && buffer[at] === CR) at++;
  return at < end && buffer[at] === LF ? at + 1 : at;
}

function nameField(buffer: Buffer, start: number, end: number): FieldLines {
  const colon = buffer.subarray(start, end).indexOf(COLON);
  if (colon < 0 || isIndentedAt(buffer, start)) return { start, end, name: "", value: start };
  // Whatever is no visible character may be nothing to a reader.
  const name = buffer
    .toString("latin1", start, start + colon)
    .replace(/[^!-~]+/g, "")
    .toLowerCase();
  return { start, end, name, value: start + colon + 1 };
}

/** True for a line that continues the field above it, or would if there were one. */
export const isIndentedAt = (buffer: Buffer, start: number): boolean =>
  buffer[start] === SPACE || buffer[start] === TAB;

/** True for the lines of a Bcc or Resent-Bcc field. */
export const isBccField = ({ name }: FieldLines): boolean => name === "bcc" || name === "resent-bcc";

/** The bytes of a message without its Bcc and Resent-Bcc fields (rules: Bcc); the same array if it has none. */
export function withoutBcc(bytes: Uint8Array): Uint8Array {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const hidden = readFieldLines(buffer).filter(isBccField).toArray();
  return hidden.length === 0 ? bytes : withoutRanges(buffer, hidden);
}

/** A copy of the bytes without these ranges, which are in order. */
export function withoutRanges(buffer: Buffer, ranges: readonly { start: number; end: number }[]): Buffer {
  const starts = [0, ...ranges.map(({ end }) => end)];
  const ends = [...ranges.map(({ start }) => start), buffer.length];
  return Buffer.concat(starts.map((start, i) => buffer.subarray(start, ends[i])));
}

/* Encoded words (RFC 2047) in header values. */

interface Word {
  charset: string;
  octets: Uint8Array;
}

/** RFC 2047 §2 allows 75 characters, but mailers write longer encoded words. */
const ENCODED_WORD = /=\?([^?\s]{1,60})\?([bq])\?([^?]{0,10000}?)\?=/giy;

/**
 * `text` with its encoded words decoded. A malformed one stays as written, and an unknown charset counts as absent.
 * White space between two encoded words is dropped (RFC 2047 §6.2). Neighbours in one charset are decoded together,
 * because mailers split characters between them.
 */
export function decodeWords(text: string): string {
  if (!text.includes("=?")) return text;
  let decoded = "";
  let pending: Word[] = [];
  const flush = () => {
    decoded += textOfWords(pending);
    pending = [];
  };
  let position = 0;
  while (position < text.length) {
    const begin = text.indexOf("=?", position);
    if (begin < 0) break;
    ENCODED_WORD.lastIndex = begin;
    const match = ENCODED_WORD.exec(text);
    const between = text.slice(position, begin);
    if (match === null) {
      flush();
      decoded += `${between}=?`;
      position = begin + 2;
      continue;
    }
    if (between !== "" && (pending.length === 0 || between.trim() !== "")) {
      flush();
      decoded += between;
    }
    const [, label = "", encoding = "", payload = ""] = match;
    // RFC 2231 §5: a language may follow the charset.
    const charset = (label.split("*")[0] ?? "").toLowerCase();
    const octets = encoding.toLowerCase() === "b" ? Buffer.from(payload, "base64") : qEncoded(payload);
    if (pending.length > 0 && pending[0]?.charset !== charset) flush();
    pending.push({ charset, octets });
    position = ENCODED_WORD.lastIndex;
  }
  flush();
  return decoded + text.slice(position);
}

function textOfWords(words: readonly Word[]): string {
  const charset = words[0]?.charset ?? "";
  const decode = (octets: Uint8Array) => decodeCharset(octets, charset) ?? decodeUnlabelledText(octets);
  const runs: Uint8Array[][] = [];
  let isOpen = false;
  for (const { octets } of words) {
    if (isOpen) runs.at(-1)?.push(octets);
    else runs.push([octets]);
    isOpen = !SHIFTING.test(charset) || endsShifted(octets);
  }
  return runs.map((run) => decode(Buffer.concat(run))).join("");
}

/** In these charsets each word begins in ASCII again, and the decoder fails on two adjacent escape sequences. */
const SHIFTING = /^(?:cs)?(?:iso-?2022|hz)/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one
const SHIFT = /\u001b(?:\$[@AB]|\$?\([A-J])|[\u000e\u000f]|~[{}]/g;
/** Escape sequences after which ASCII follows. */
const BACK: ReadonlySet<string> = new Set(["\u001b(B", "\u001b(H", "\u001b(J", "\u000f", "~}"]);

/** True for octets of such a charset that end in the middle of a text: the next word goes on with it. */
function endsShifted(octets: Uint8Array): boolean {
  const last = Buffer.from(octets).toString("latin1").match(SHIFT)?.at(-1);
  return last !== undefined && !BACK.has(last);
}

/** The Q encoding, RFC 2047 §4.2. */
function qEncoded(payload: string): Uint8Array {
  const spaced = payload.replaceAll("_", " ");
  const octets = Buffer.from(spaced, "utf8");
  let length = 0;
  for (let i = 0; i < octets.length; i++) {
    let octet = octets[i] as number;
    if (octet === 0x3d) {
      const hex = octets.toString("latin1", i + 1, i + 3);
      if (/^[0-9a-f]{2}$/i.test(hex)) {
        octet = Number.parseInt(hex, 16);
        i += 2;
      }
    }
    octets[length++] = octet;
  }
  return octets.subarray(0, length);
}
