/**
 * Reads mbox files (RFC 4155) in all common dialects: mboxo and mboxrd, which quote lines that begin with `From `;
 * mboxcl and mboxcl2, which give a body's length in Content-Length; LF or CRLF line ends; gzipped.
 *
 * A message begins at a `From ` line that follows an empty line, has a date and precedes a header field; a text line
 * that begins with "From " is thus no separator even if its writer forgot to quote it. A Content-Length counts only if
 * another message, or the end of the file, follows the body that it gives, and only in a file whose first message has
 * one: elsewhere the sender wrote it, as in a file of our own.
 *
 * Memory: one message, at most `mostBytes` of it, and two pieces of the file.
 */
import { findExportMarks } from "./marks.ts";
import { isGzip, type MailFile, readUnpacked } from "./tree.ts";

export interface MboxMessage {
  /** Offset of its `From ` line in the unpacked file, in bytes. */
  offset: number;
  /** The `From ` line, without its end. */
  fromLine: string;
  /** The message without its `From ` line and the final empty line; quoted as in the file. */
  content: Buffer;
  /** Bytes of the message. If they exceed `mostBytes`, `content` is only the beginning. */
  size: number;
  /** The dialect does not quote: a `From ` line within belongs to the message. */
  unquoted: boolean;
}

const LF = 0x0a;
const CR = 0x0d;
const FROM = Buffer.from("\nFrom ");
/** Most bytes of a `From ` line and the line below it. */
const LONGEST_SEPARATOR = 8 * 1024;
/** Most bytes of a `From ` line. The rest belongs to the message, because a file may have no line break at all. */
const LONGEST_FROM_LINE = 1_000;
/** Bytes of a header that are searched for Content-Length. */
const LONGEST_HEADER = 256 * 1024;

const TIME = /\b\d{1,2}:\d{2}\b/;
const YEAR = /\b\d{4}\b/;
const LAST_YEAR = /\b\d{4}\s*$/;
const FIELD = /^(?:>From |[!-9;-~]+[ \t]*:)/;
const CONTENT_LENGTH = /^content-length[ \t]*:[ \t]*(\d{1,15})[ \t]*\r?$/im;

/** True for a line with a time, and a year before it or at its end. */
function isDated(line: string): boolean {
  const year = YEAR.exec(line);
  if (year && TIME.test(line.slice(year.index + year[0].length))) return true;
  const time = TIME.exec(line);
  return time !== null && LAST_YEAR.test(line.slice(time.index + time[0].length));
}

/** True if a file with this beginning is an mbox. */
export const isMbox = (beginning: Buffer): boolean =>
  /^(?:\r?\n)*From [^\r\n]/.test(beginning.toString("latin1", 0, 512));

/**
 * The messages of an mbox, in order. `mostBytes`: of one message in memory. @throws errors of the file system and of
 * gzip
 */
export async function* readMbox(file: MailFile, mostBytes: number): AsyncGenerator<MboxMessage> {
  const isPacked = file.read === undefined || isGzip(Buffer.from(await file.read(0, 2)));
  yield* cut(readUnpacked(file), isPacked ? undefined : file, mostBytes);
}

async function* cut(
  chunks: AsyncIterable<Buffer>,
  file: MailFile | undefined,
  mostBytes: number,
): AsyncGenerator<MboxMessage> {
  /** Read but not yet cut into messages; begins `base` bytes into the file. */
  let buffer: Buffer = Buffer.alloc(0);
  let base = 0;
  let current: Message | undefined;
  let mayLackDate: boolean | undefined;
  let trustsLengths = file !== undefined;

  function take(bytes: number): Buffer {
    const taken = buffer.subarray(0, bytes);
    buffer = buffer.subarray(bytes);
    base += bytes;
    return taken;
  }

  /** Takes the `From ` line at the beginning of the buffer; false while it is incomplete. */
  function begin(ended: boolean): boolean {
    let skip = 0;
    while (!current && (buffer[skip] === LF || buffer[skip] === CR)) skip++;
    take(skip);
    const end = buffer.subarray(0, LONGEST_FROM_LINE).indexOf(LF);
    if (end < 0 && !ended && buffer.length < LONGEST_FROM_LINE) return false;
    const offset = base;
    const line = take(end < 0 ? Math.min(buffer.length, LONGEST_FROM_LINE) : end + 1)
      .toString("latin1")
      .trimEnd();
    // A file whose first `From ` line has no date needs none in the others.
    mayLackDate ??= !isDated(line);
    current = { offset, fromLine: line, pieces: [], size: 0, bodyEnd: undefined, isLengthRead: !trustsLengths };
    return true;
  }

  /** Adds bytes of the buffer to the current message. */
  function keep(message: Message, bytes: number): void {
    const taken = take(bytes);
    const room = mostBytes - message.size;
    if (room > 0) message.pieces.push(taken.byteLength > room ? taken.subarray(0, room) : taken);
    message.size += taken.byteLength;
  }

  function finish(message: Message): MboxMessage {
    current = undefined;
    const { offset, fromLine, pieces, size, bodyEnd } = message;
    const [only] = pieces;
    const whole = only && pieces.length === 1 ? only : Buffer.concat(pieces);
    const content = size > mostBytes ? whole : whole.subarray(0, endOfMessage(whole));
    return {
      offset,
      fromLine,
      content,
      size: size > mostBytes ? size : content.byteLength,
      unquoted: bodyEnd !== undefined && content.includes(FROM),
    };
  }

  const pieces = chunks[Symbol.asyncIterator]();
  for (let ended = false; !ended; ) {
    const { value, done } = await pieces.next();
    ended = done === true;
    if (value) buffer = buffer.length === 0 ? value : Buffer.concat([buffer, value]);
    for (;;) {
      if (buffer.length === 0 && !ended) break;
      if (!current && (buffer.length === 0 || !begin(ended))) break;
      const message = current as Message | undefined;
      if (!message) break;
      if (!message.isLengthRead) {
        const header = headerEnd(buffer);
        if (header < 0 && !ended && buffer.length < LONGEST_HEADER) break;
        message.isLengthRead = true;
        message.bodyEnd = await believedEnd(file, buffer, header, base);
        trustsLengths = message.bodyEnd !== undefined || message.offset > 0;
      }
      const at = separatorIn(buffer, base, message.bodyEnd, { ended, mayLackDate: mayLackDate === true });
      if (at.found) {
        keep(message, at.index);
        yield finish(message);
        begin(ended);
        continue;
      }
      keep(message, at.index);
      break;
    }
  }
  if (current) {
    keep(current, buffer.length);
    yield finish(current);
  }
}

/** The message being read. */
interface Message {
  offset: number;
  fromLine: string;
  pieces: Buffer[];
  size: number;
  /** End of its body by Content-Length, as an offset in the file; undefined without a credible one. */
  bodyEnd: number | undefined;
  /** True once its Content-Length was looked for, or need not be. */
  isLengthRead: boolean;
}

/** Offset of the body, after the empty line that ends the header; -1 if the buffer has none. */
function headerEnd(buffer: Buffer): number {
  const lf = buffer.indexOf("\n\n");
  const crlf = buffer.indexOf("\n\r\n");
  if (crlf >= 0 && (lf < 0 || crlf < lf)) return crlf + 3;
  return lf < 0 ? -1 : lf + 2;
}

/**
 * The end of the body by Content-Length, as an offset in the file; undefined if there is none or it is not credible.
 */
async function believedEnd(
  file: MailFile | undefined,
  buffer: Buffer,
  header: number,
  base: number,
): Promise<number | undefined> {
  if (!file || header < 0) return undefined;
  const fields = buffer.toString("latin1", 0, header);
  const length = CONTENT_LENGTH.exec(fields)?.[1];
  if (length === undefined || findExportMarks(fields)) return undefined;
  const end = base + header + Number(length);
  if (end > file.size) return undefined;
  const behind = Buffer.from((await file.read?.(end, 16)) ?? []);
  return /^(?:\r?\n){0,2}(?:From |$)/.test(behind.toString("latin1")) ? end : undefined;
}

/**
 * Index of the next separator; if none is found, the index up to which there is none, since later bytes may begin one.
 */
function separatorIn(
  buffer: Buffer,
  base: number,
  bodyEnd: number | undefined,
  { ended, mayLackDate }: { ended: boolean; mayLackDate: boolean },
): { found: boolean; index: number } {
  let from = bodyEnd === undefined ? 0 : Math.max(0, bodyEnd - base - 1);
  // A body with a Content-Length may end right at the separator, without a line break of its own.
  if (
    bodyEnd !== undefined &&
    base <= bodyEnd &&
    buffer.toString("latin1", bodyEnd - base, bodyEnd - base + 5) === "From "
  ) {
    return { found: true, index: bodyEnd - base };
  }
  for (;;) {
    const at = buffer.indexOf(FROM, from);
    if (at < 0) {
      const safe = buffer.length - FROM.byteLength - 2;
      const known = bodyEnd === undefined ? safe : Math.max(safe, Math.min(buffer.length, bodyEnd - base - 1));
      return { found: false, index: ended ? 0 : Math.max(0, known) };
    }
    const line = at + 1;
    if (bodyEnd !== undefined && base + line - bodyEnd >= 0 && base + line - bodyEnd <= 4)
      return { found: true, index: line };
    if (isAfterEmptyLine(buffer, at)) {
      const lineEnd = buffer.indexOf(LF, line);
      const nextEnd = lineEnd < 0 ? -1 : buffer.indexOf(LF, lineEnd + 1);
      if (nextEnd < 0 && !ended && buffer.length - line < LONGEST_SEPARATOR)
        return { found: false, index: Math.max(0, at - 2) };
      const fromEnd = Math.min(lineEnd < 0 ? buffer.length : lineEnd, line + LONGEST_FROM_LINE);
      const fromLine = buffer.toString("latin1", line, fromEnd);
      const next = buffer.toString("latin1", lineEnd < 0 ? buffer.length : lineEnd + 1, lineEnd + 1 + 200);
      const isHeader = FIELD.test(next) || (lineEnd >= 0 && /^\r?(?:\n|$)/.test(next));
      if (isHeader && (mayLackDate || isDated(fromLine))) return { found: true, index: line };
    }
    from = line;
  }
}

/** True if the line that ends at `end`, a line feed, is empty or is the `From ` line. */
function isAfterEmptyLine(buffer: Buffer, end: number): boolean {
  if (end === 0) return true;
  return buffer[end - 1] === LF || (buffer[end - 1] === CR && (end === 1 || buffer[end - 2] === LF));
}

/** The content's length without the empty line that separates it from the next message. */
function endOfMessage(content: Buffer): number {
  const end = content.byteLength;
  const tail = content.toString("latin1", Math.max(0, end - 4));
  if (end <= 2 && tail.trim() === "") return 0;
  if (tail.endsWith("\r\n\r\n")) return end - 2;
  return tail.endsWith("\n\n") ? end - 1 : end;
}
