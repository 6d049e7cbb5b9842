/**
 * The header block of a message or of one of its parts: fields in order, unfolded, still encoded.
 *
 * Reads what is there and never throws: a line that is no field is passed over, and text that follows the fields
 * without the blank line is the body. Linear in the bytes read.
 */

import { decodeOctets } from "./charset.ts";

/** A header field; `value` is unfolded, trimmed and free of control characters (RFC 5322 §2.2.3). */
export interface HeaderField {
  name: string;
  value: string;
}

export interface HeaderBlock {
  fields: HeaderField[];
  /** Offset of the first byte of the body. */
  bodyStart: number;
  /** The block was larger than the limits: `fields` holds what came before. */
  oversized: boolean;
}

/** Most fields and bytes of one header block; mail beyond is not parsed but kept whole. */
const MAX_FIELDS = 1_000;
const MAX_BLOCK_BYTES = 512 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;

interface HeaderLimits {
  fields: number;
  bytes: number;
}

/**
 * Reads the header block of `bytes` from `start`. `isDelimiter` is asked about lines that begin with `--`: a multipart
 * delimiter ends a block that lacks its blank line.
 */
export function readHeaders(
  bytes: Buffer,
  start = 0,
  isDelimiter: (line: string) => boolean = () => false,
  limits: HeaderLimits = { fields: MAX_FIELDS, bytes: MAX_BLOCK_BYTES },
): HeaderBlock {
  const fields: HeaderField[] = [];
  let fieldStart = -1;
  let strayStart = -1;
  let oversized = false;
  let position = start;
  const closeField = (end: number) => {
    if (fieldStart >= 0) fields.push(fieldOf(bytes, fieldStart, end));
    fieldStart = -1;
  };
  while (position < bytes.length) {
    const lineEnd = bytes.indexOf(LF, position);
    const next = lineEnd < 0 ? bytes.length : lineEnd + 1;
    const first = bytes[position];
    if (first === LF || (first === CR && bytes[position + 1] === LF)) {
      if (strayStart >= 0) break;
      closeField(position);
      return { fields, bodyStart: next, oversized };
    }
    if (first === 0x2d && bytes[position + 1] === 0x2d && isDelimiter(lineAt(bytes, position, next))) break;
    const isContinuation = first === SPACE || first === TAB;
    const isFull = !isContinuation && fields.length + (fieldStart < 0 ? 0 : 1) >= limits.fields;
    if (isFull || next - start > limits.bytes) {
      oversized = true;
      break;
    }
    if (!isContinuation && isFieldStart(bytes, position, next)) {
      closeField(position);
      fieldStart = position;
      strayStart = -1;
    } else if (
      !isContinuation &&
      strayStart < 0 &&
      !isEmptyField(bytes, fieldStart, position) &&
      !isMboxLine(bytes, position, start)
    ) {
      closeField(position);
      strayStart = position;
    }
    position = next;
  }
  // Lines that are no fields, and no field after them: the blank line was forgotten, they are the body.
  const end = strayStart >= 0 && !oversized ? strayStart : position;
  closeField(end);
  return { fields, bodyStart: end, oversized };
}

/** The first field of that name (lower case), or undefined. */
export function headerOf(fields: readonly HeaderField[], name: string): string | undefined {
  return fields.find((field) => field.name.length === name.length && field.name.toLowerCase() === name)?.value;
}

/** Every field of that name (lower case), in order. */
export function headersOf(fields: readonly HeaderField[], name: string): string[] {
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
 * Whether a field tells of the transport rather than of the message: trace (RFC 5321 §4.4), delivery marks, signatures
 * and authentication verdicts. They differ between two transmissions of one message.
 */
export function isTraceHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return TRACE.has(lower) || lower.startsWith("arc-");
}

/** A field name is printable ASCII without a colon (RFC 5322 §2.2); space before the colon is obsolete but seen. */
function isFieldStart(bytes: Buffer, position: number, end: number): boolean {
  let i = position;
  while (i < end && (bytes[i] as number) > SPACE && (bytes[i] as number) < 0x7f && bytes[i] !== COLON) i++;
  if (i === position) return false;
  while (i < end && (bytes[i] === SPACE || bytes[i] === TAB)) i++;
  return bytes[i] === COLON && i < end;
}

/** A field without a value: the next line has it, its white space was lost on the way. */
function isEmptyField(bytes: Buffer, start: number, end: number): boolean {
  if (start < 0) return false;
  let i = end - 1;
  while (i > start && (bytes[i] as number) <= SPACE) i--;
  return bytes[i] === COLON && bytes.indexOf(COLON, start) === i;
}

/** The `From ` line that mbox files, and programs that pipe them, leave before the header. */
function isMboxLine(bytes: Buffer, position: number, start: number): boolean {
  if (position !== start) return false;
  const offset = bytes[position] === 0x3e ? 1 : 0;
  return bytes.toString("latin1", position + offset, position + offset + 5) === "From ";
}

function lineAt(bytes: Buffer, start: number, end: number): string {
  return end - start > 1_024 ? "" : bytes.toString("latin1", start, end).trimEnd();
}

function fieldOf(bytes: Buffer, start: number, end: number): HeaderField {
  const colon = bytes.indexOf(COLON, start);
  return {
    name: bytes.toString("latin1", start, colon).trimEnd(),
    value: unfold(decodeOctets(bytes.subarray(colon + 1, end))),
  };
}

/** RFC 5322 §2.2.3: the line breaks go, the white space after them stays. */
function unfold(value: string): string {
  return (
    value
      .replace(/\r?\n/g, "")
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not get out
      .replace(/[\u0000-\u0008\u000a-\u001f\u007f]/g, " ")
      .trim()
  );
}
