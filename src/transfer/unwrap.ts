/**
 * A message out of what it was kept in: the bytes as they travelled, and what can be told of how it was kept. Quoted
 * lines are what they were, marks of programs are taken out, lines end in CRLF: so that the same message is the same
 * whether it came over SMTP, out of an mbox or out of a Maildir.
 */
import { parseDate } from "../message/date.ts";
import { type HeaderField, headersOf, readHeaders } from "../message/headers.ts";
import { type Marks, takeMarks } from "./marks.ts";
import type { FoundMessage } from "./sources.ts";

export interface Unwrapped {
  bytes: Buffer;
  fields: HeaderField[];
  marks: Marks;
  /** When it arrived where it was kept, epoch ms, as far as that is known. */
  receivedAt: number | undefined;
}

/** Bytes of a header that are read for what they tell of where a message has been. */
const MOST_HEADER = { fields: 500, bytes: 128 * 1024 };

export function unwrap(
  found: Pick<FoundMessage, "content" | "fromLine" | "unquoted" | "receivedAt" | "writtenAt" | "marks">,
): Unwrapped {
  const whole = found.content.toString("latin1");
  const end = endOfHeader(whole);
  const isMbox = found.fromLine !== undefined;
  const taken = isMbox ? takeMarks(whole.slice(0, end)) : { header: whole.slice(0, end), marks: { labels: [] } };
  const text = withCrlf(taken.header + (isMbox && !found.unquoted ? unquote(whole.slice(end)) : whole.slice(end)));
  const bytes = text === whole ? found.content : Buffer.from(text, "latin1");
  const { fields } = readHeaders(bytes, 0, undefined, MOST_HEADER);
  const receivedAt =
    found.receivedAt ??
    parseDate(found.fromLine?.replace(/^From \S*/, "") ?? "") ??
    arrivalOf(fields) ??
    found.writtenAt;
  return { bytes, fields, marks: { ...taken.marks, ...found.marks }, receivedAt };
}

/** Behind the line break of the last field. */
function endOfHeader(text: string): number {
  const end = /\n\r?\n/.exec(text)?.index;
  return end === undefined ? text.length : end + 1;
}

/** mboxrd: one `>` less before each line that begins with them and "From ". */
const unquote = (body: string): string => (body.includes(">From ") ? body.replace(/^>(>*From )/gm, "$1") : body);

/** Of a text whose header has lines ended by LF alone, all of them; others are left, lest binary content be changed. */
function withCrlf(text: string): string {
  const first = text.indexOf("\n");
  return first < 0 || text[first - 1] === "\r" ? text : text.replace(/\r?\n/g, "\r\n");
}

/** The date of the topmost Received field (RFC 5321 §4.4). */
function arrivalOf(fields: readonly HeaderField[]): number | undefined {
  const newest = headersOf(fields, "received")[0];
  return newest === undefined ? undefined : parseDate(newest.slice(newest.lastIndexOf(";") + 1));
}
