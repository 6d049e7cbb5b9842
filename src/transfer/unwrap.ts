/**
 * Restores a stored message to the bytes that travelled over SMTP: mbox quoting undone, programs' marks removed, lines
 * ended by CRLF. Thus the same message is recognised whether it came over SMTP, from an mbox file or from a Maildir.
 */
import { parseDate } from "../message/date.ts";
import { type HeaderField, headersOf, readHeaders } from "../message/headers.ts";
import { type Marks, takeMarks } from "./marks.ts";
import type { FoundMessage } from "./sources.ts";

export interface Unwrapped {
  bytes: Buffer;
  fields: HeaderField[];
  marks: Marks;
  /** When it arrived at its source, epoch ms; undefined when unknown. */
  receivedAt: number | undefined;
}

/** Limits for reading the header fields that tell where a message has been. */
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

/** Index after the line break of the last field. */
function endOfHeader(text: string): number {
  const end = /\n\r?\n/.exec(text)?.index;
  return end === undefined ? text.length : end + 1;
}

/** Undoes mboxrd quoting: drops one `>` of each line that has `>`s before "From ". */
const unquote = (body: string): string => (body.includes(">From ") ? body.replace(/^>(>*From )/gm, "$1") : body);

/** Gives all lines CRLF when the first has LF alone; leaves other texts, since they may hold binary content. */
function withCrlf(text: string): string {
  const first = text.indexOf("\n");
  return first < 0 || text[first - 1] === "\r" ? text : text.replace(/\r?\n/g, "\r\n");
}

/** The date of the topmost Received field (RFC 5321 §4.4). */
function arrivalOf(fields: readonly HeaderField[]): number | undefined {
  const newest = headersOf(fields, "received")[0];
  return newest === undefined ? undefined : parseDate(newest.slice(newest.lastIndexOf(";") + 1));
}
