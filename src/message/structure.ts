/**
 * Reads the MIME structure of a message: where each part begins and ends (RFC 2046 §5.1). Cuts bytes and decodes
 * nothing.
 *
 * Other parsers accept delimiters only of the innermost open multipart and only without trailing white
 * space, so a forgotten closing delimiter or transport padding makes them drop or merge parts. Here a delimiter of any
 * open multipart counts, a multipart whose delimiter never comes is a text, and parts after a closing delimiter are
 * still parts: no byte between delimiters is lost. One pass, linear; a message beyond the limits has no structure.
 */
import { findHeader, type HeaderBlock, type HeaderField, readHeaders } from "./headers.ts";

/** A part by position in the bytes: a multipart with its children, or a leaf. */
export interface Part {
  header: HeaderBlock;
  /** Media type, lower case, without parameters. */
  type: string;
  contentType: HeaderValue;
  disposition: HeaderValue;
  children: Part[];
  /** Offsets of the content, still encoded, all delimiters of a multipart included; `end` is exclusive. */
  start: number;
  end: number;
}

/** A structured header value: `value` lower case, parameters as written, by lower-case name (RFC 2045 §5.1). */
interface HeaderValue {
  value: string;
  parameters: Map<string, string>;
}

/** The message exceeds what honest mail contains, so it is not taken apart. */
export class TooComplex extends Error {
  override readonly name = "TooComplex";
}

export const MAX_PARTS = 1_000;
const MAX_DEPTH = 50;
/** Work grows with the lines; the largest honest mail has a third of a million. */
const MAX_LINES = 2_000_000;

/** A multipart whose delimiters are recognised. */
interface Open {
  part: Part;
  boundary: string;
}

/** The part tree of a message. @throws TooComplex beyond the limits on parts, depth, lines and headers. */
export function readStructure(bytes: Buffer, mostParts = MAX_PARTS): Part {
  if (hasTooManyLines(bytes)) throw new TooComplex(`more than ${MAX_LINES} lines`);
  const open: Open[] = [];
  const depthOf = new Map<string, number>();
  let parts = 0;

  const readPart = (start: number, parent: Part | undefined): Part => {
    if (++parts > mostParts) throw new TooComplex(`more than ${mostParts} parts`);
    const isOwn = ownDelimiter();
    const header = readHeaders(
      bytes,
      start,
      (line, above) => findDelimiter(line, depthOf) !== undefined || isOwn(line, above),
    );
    if (header.oversized) throw new TooComplex("a header block beyond the limits");
    const part = makeHeaderPart(
      header,
      parent?.type === "multipart/digest" ? "message/rfc822" : "text/plain",
      bytes.length,
    );
    const boundary = readMultipartBoundary(header.fields);
    if (boundary !== "") {
      if (open.length >= MAX_DEPTH) throw new TooComplex(`more than ${MAX_DEPTH} levels of parts`);
      // An inner multipart may reuse the boundary of an outer one, which makes them indistinguishable: the inner one
      // wins.
      depthOf.set(boundary, open.length);
      open.push({ part, boundary });
    }
    parent?.children.push(part);
    return part;
  };
  /** Closes multiparts, which end at `end`. */
  const closeTo = (depth: number, end: number) => {
    for (const { boundary, part } of open.splice(depth)) {
      if (part.children.length > 0) part.end = end;
      const outer = open.findLastIndex((multipart) => multipart.boundary === boundary);
      if (outer < 0) depthOf.delete(boundary);
      else depthOf.set(boundary, outer);
    }
  };

  const root = readPart(0, undefined);
  let current: Part | undefined = root;
  let position = root.start;
  while (open.length > 0) {
    const dashes = nextDashes(bytes, position);
    if (dashes < 0) break;
    const lineEnd = bytes.indexOf(0x0a, dashes);
    const next = lineEnd < 0 ? bytes.length : lineEnd + 1;
    const delimiter =
      next - dashes > 1_024 ? undefined : findDelimiter(bytes.toString("latin1", dashes, next).trimEnd(), depthOf);
    position = next;
    if (delimiter === undefined) continue;
    const end = beforeLineBreak(bytes, dashes);
    if (current !== undefined) current.end = Math.max(current.start, end);
    closeTo(delimiter.depth + 1, end);
    const multipart = open[delimiter.depth]?.part;
    if (multipart !== undefined && multipart === current && multipart !== root) keepForgotten(bytes, multipart);
    if (delimiter.closes || multipart === undefined) {
      if (multipart?.children.length === 0) multipart.end = current?.end ?? multipart.end;
      // It stays open for late parts, unless the delimiter may belong to an outer multipart.
      if (open.findIndex(({ boundary }) => boundary === open[delimiter.depth]?.boundary) < delimiter.depth) {
        closeTo(delimiter.depth, beforeLineBreak(bytes, next));
      }
      current = undefined;
      continue;
    }
    current = readPart(next, multipart);
    position = current.start;
  }
  closeTo(0, bytes.length);
  for (const leaf of walkLeafParts(root)) if (leaf.type.startsWith("multipart/")) leaf.type = "text/plain";
  return root;
}

/** Reads the header of a message, which ends where readStructure has it end. */
export const readMessageHeader = (bytes: Buffer): HeaderBlock => readHeaders(bytes, 0, ownDelimiter());

/** Reads the structure of a message; undefined if it exceeds the limits. */
export function tryReadStructure(bytes: Uint8Array, mostParts?: number): Part | undefined {
  try {
    return readStructure(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), mostParts);
  } catch {
    return undefined;
  }
}

/** The parts of a tree that hold content, in order. */
export function* walkLeafParts(part: Part): Generator<Part> {
  if (part.children.length === 0) yield part;
  else for (const child of part.children) yield* walkLeafParts(child);
}

/**
 * Value and parameters of a structured header value. Comments are skipped, quoted strings unquoted; the first of two
 * equal parameters counts. Only a piece of a parameter (RFC 2231 §3) keeps the quoted space at its ends.
 */
export function parseHeaderValue(text: string): HeaderValue {
  const parameters = new Map<string, string>();
  const pieces: string[] = [];
  let piece = "";
  let last = "";
  /** Characters of the piece up to the end of its last quoted string. */
  let quoted = 0;
  const endPiece = (): void => {
    pieces.push(piece.slice(0, quoted) + piece.slice(quoted).trimEnd());
    piece = "";
    last = "";
    quoted = 0;
  };
  let i = 0;
  while (i < text.length && pieces.length < 100) {
    const character = text[i] as string;
    if (character === '"') {
      for (i++; i < text.length && text[i] !== '"'; i++) {
        if (text[i] === "\\" && i + 1 < text.length) i++;
        piece += text[i];
      }
      quoted = piece.length;
      last = character;
    } else if (character === "(" && (piece === "" || /[\s;]$/.test(text[i - 1] ?? ""))) {
      const close = text.indexOf(")", i);
      i = close < 0 ? text.length : close;
    } else if (character === ";") {
      endPiece();
    } else if (character.trim() !== "" || (last !== "" && last !== "=")) {
      piece += character;
      last = character;
    }
    i++;
  }
  endPiece();
  // Some mailers leave out the value, as in `Content-Disposition: filename=a.pdf`.
  for (const parameter of pieces.slice(pieces[0]?.includes("=") ? 0 : 1)) {
    const equals = parameter.indexOf("=");
    const name = parameter.slice(0, equals).trim().toLowerCase();
    if (equals <= 0 || name === "" || parameters.has(name)) continue;
    const value = parameter.slice(equals + 1);
    parameters.set(name, name.includes("*") ? value : value.trim());
  }
  return { value: (pieces[0] ?? "").trim().toLowerCase(), parameters };
}

function makeHeaderPart(header: HeaderBlock, defaultType: string, end: number): Part {
  const contentType = parseHeaderValue(findHeader(header.fields, "content-type") ?? defaultType);
  const disposition = parseHeaderValue(findHeader(header.fields, "content-disposition") ?? "");
  return {
    header,
    type: mediaType(contentType.value),
    contentType,
    disposition,
    children: [],
    start: header.bodyStart,
    end,
  };
}

/**
 * Tests whether a line in the header delimits the multipart that the header describes: its first delimiter may follow
 * without a blank line, or after one that holds white space.
 */
function ownDelimiter(): (line: string, above: readonly HeaderField[]) => boolean {
  let boundary: string | undefined;
  let seen = 0;
  return (line, above) => {
    // A header may have many such lines, so each field is examined once.
    for (; boundary === undefined && seen < above.length; seen++) {
      const field = above[seen] as HeaderField;
      if (findHeader([field], "content-type") !== undefined) boundary = readMultipartBoundary([field]);
    }
    return boundary !== undefined && boundary !== "" && line === `--${boundary}`;
  };
}

/** The boundary of a multipart with this header, as latin1 like the lines; "" for a leaf. */
export function readMultipartBoundary(fields: readonly HeaderField[]): string {
  const written = findHeader(fields, "content-type") ?? "";
  const { value, parameters } = parseHeaderValue(written);
  if (!mediaType(value).startsWith("multipart/")) return "";
  // Without its semicolon the boundary is not parsed as a parameter.
  const boundary = parameters.get("boundary") ?? /\sboundary="?([^";]+)/i.exec(written)?.[1];
  return Buffer.from(boundary ?? "")
    .toString("latin1")
    .trimEnd();
}

/**
 * Keeps the text before the first delimiter of an inner multipart whose header has a second Content-Type: a part whose
 * own delimiter was forgotten, so that its fields stand among those of the multipart. Any other such text is a preamble,
 * which is no part (RFC 2046 §5.1.1).
 */
function keepForgotten(bytes: Buffer, multipart: Part): void {
  const { start, end, header } = multipart;
  if (bytes.toString("latin1", start, Math.min(end, start + 10_000)).trim() === "") return;
  const own = header.fields.findIndex((field) => field.name.toLowerCase() === "content-type");
  const fields = header.fields.filter((_, index) => index !== own);
  if (findHeader(fields, "content-type") === undefined) return;
  multipart.children.push(makeHeaderPart({ ...header, fields }, "text/plain", end));
}

/** RFC 2045 §5.2: an invalid media type is a text, unless its top-level type says that it is data. */
function mediaType(value: string): string {
  const type = value.split(/[\s,]/, 1)[0] ?? "";
  if (/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/.test(type) && type.length < 128) return type;
  return type === "" || type === "text" || type === "text/" || type === "plain"
    ? "text/plain"
    : "application/octet-stream";
}

/** The open multipart that a line delimits; undefined for an ordinary line. `line` has no trailing white space. */
function findDelimiter(line: string, depthOf: Map<string, number>): { depth: number; closes: boolean } | undefined {
  const rest = line.slice(2);
  const depth = depthOf.get(rest);
  if (depth !== undefined) return { depth, closes: false };
  if (!rest.endsWith("--")) return undefined;
  const closing = depthOf.get(rest.slice(0, -2).trimEnd());
  return closing === undefined ? undefined : { depth: closing, closes: true };
}

/** Offset of the next line that starts with `--`, from the line beginning at `position` on; -1 if there is none. */
function nextDashes(bytes: Buffer, position: number): number {
  if (bytes[position] === 0x2d && bytes[position + 1] === 0x2d) return position;
  const found = bytes.indexOf("\n--", position, "latin1");
  return found < 0 ? -1 : found + 1;
}

/** RFC 2046 §5.1.1: the line break before a delimiter belongs to the delimiter. */
function beforeLineBreak(bytes: Buffer, delimiter: number): number {
  if (bytes[delimiter - 1] !== 0x0a) return delimiter;
  return bytes[delimiter - 2] === 0x0d ? delimiter - 2 : delimiter - 1;
}

/** True if a message has more lines than honest mail ever has; it is then not read line by line. */
export function hasTooManyLines(bytes: Uint8Array): boolean {
  if (bytes.length <= MAX_LINES) return false;
  let lines = 0;
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) if (++lines > MAX_LINES) return true;
  return false;
}
