/**
 * Finds files that are uuencoded in a text (POSIX `uuencode`): `begin 644 NAME`, lines of data, `end`. The grammar is strict,
 * so that text which only looks like one stays text. Linear time: a line of data never begins a file.
 */

import { decodeUnlabelledText } from "./charset.ts";

/** A piece of a text: what stays text, by its offsets, or a file. */
export type Piece = { start: number; end: number } | { name: string; content: Buffer };

const [LF, CR, SPACE, GRAVE] = [0x0a, 0x0d, 0x20, 0x60];
const BEGIN = /^begin [0-7]{3,4} (\S.{0,254})$/;
/** Files of one text; those behind them stay text. */
const MOST_FILES = 100;

/** The pieces of a text in order; undefined if it has no file. */
export function findUuencoded(octets: Buffer): Piece[] | undefined {
  const pieces: Piece[] = [];
  let textStart = 0;
  let files = 0;
  for (let at = 0; at >= 0 && at < octets.length && files < MOST_FILES; ) {
    const begin = octets.indexOf("begin ", at, "latin1");
    if (begin < 0) break;
    at = begin + 1;
    if (begin > 0 && octets[begin - 1] !== LF) continue;
    const file = readFile(octets, begin);
    if (file === undefined) continue;
    pieces.push({ start: textStart, end: begin }, { name: file.name, content: file.content });
    textStart = file.end;
    at = file.end;
    files++;
  }
  return files === 0 ? undefined : [...pieces, { start: textStart, end: octets.length }];
}

/** A line without its end, and the offset of the next one. */
function lineAt(octets: Buffer, start: number): { end: number; next: number } {
  const lineFeed = octets.indexOf(LF, start);
  const next = lineFeed < 0 ? octets.length : lineFeed + 1;
  let end = lineFeed < 0 ? octets.length : lineFeed;
  while (end > start && octets[end - 1] === CR) end--;
  return { end, next };
}

function readFile(octets: Buffer, begin: number): { name: string; content: Buffer; end: number } | undefined {
  const first = lineAt(octets, begin);
  if (first.end - begin > 300) return undefined;
  const [, name] = BEGIN.exec(decodeUnlabelledText(octets.subarray(begin, first.end))) ?? [];
  if (name === undefined) return undefined;
  const lines: Buffer[] = [];
  let isOver = false;
  for (let at = first.next; at < octets.length; ) {
    const { end, next } = lineAt(octets, at);
    if (octets.toString("latin1", at, Math.min(end, at + 4)).trimEnd() === "end" && end - at <= 4) {
      return lines.length === 0 ? undefined : { name: name.trim(), content: Buffer.concat(lines), end: next };
    }
    const line = isOver ? undefined : decodeUuencodedLine(octets, at, end);
    if (line === undefined) return undefined;
    // A line of no octets precedes the end.
    if (line.length === 0) isOver = true;
    else lines.push(line);
    at = next;
  }
  return undefined;
}

/** The data of a line, of which the first character says how many octets it has; undefined if it is no such line. */
function decodeUuencodedLine(octets: Buffer, start: number, end: number): Buffer | undefined {
  const length = end === start ? 0 : ((octets[start] as number) - SPACE) & 0x3f;
  const digits = Math.ceil(length / 3) * 4;
  // A checksum may follow; spaces at the end may be lost on the way.
  if (end - start > digits + 2) return undefined;
  for (let i = start; i < end; i++)
    if ((octets[i] as number) < SPACE || (octets[i] as number) > GRAVE) return undefined;
  const valueAt = (i: number): number => (i < end ? ((octets[i] as number) - SPACE) & 0x3f : 0);
  const data = Buffer.alloc((digits / 4) * 3);
  for (let i = start + 1, out = 0; out < data.length; i += 4, out += 3) {
    const group = (valueAt(i) << 18) | (valueAt(i + 1) << 12) | (valueAt(i + 2) << 6) | valueAt(i + 3);
    data.writeUIntBE(group, out, 3);
  }
  return data.subarray(0, length);
}
