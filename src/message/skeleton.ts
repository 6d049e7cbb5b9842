/**
 * Keeps the octets of a message without what its attachments, its text and its HTML hold already. Their encoded content is cut out
 * where encoding it again gives exactly these octets; the skeleton is what remains, with the cuts, which say how to put it back.
 * All that would not come back exactly stays in the skeleton. Pure.
 *
 * A skeleton is packed as one string of bytes: the version, the CRC-32 of all behind it, the number of bytes in the frame, and a
 * frame of zstd, which has the cuts and the skeleton. The dictionary belongs to the version: what was packed is read for years,
 * so neither ever changes. Small messages of the corpora take 36 % of their octets at level 4, 34 % in one and a half times as much
 * time at level 6, and 40 % there without the dictionary.
 */
import { constants, crc32, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { writeBase64Lines } from "./encode.ts";
import fragments from "./skeleton-dictionary-1.txt" with { type: "text" };

/** The octets of a message, cut. */
export interface Skeleton {
  bytes: Uint8Array;
  /** In order. */
  cuts: readonly Cut[];
}

/** A place where the content of an attachment was cut out. */
export interface Cut {
  /** Offset in the skeleton. */
  at: number;
  /** Number of the attachment, or TEXT or HTML. */
  position: number;
  /** Bytes of its content. */
  size: number;
  /** Digits of a full line of its base64, a multiple of four; 0 for content that stands there as it is. */
  lineLength: number;
  /** Ends all lines but the last, whose end stays in the skeleton. */
  lineEnd: "\r\n" | "\n";
}

/** An attachment or text, and the offsets in the octets between which its content lies, encoded. */
export interface EncodedPart {
  /** Number of the attachment, or TEXT or HTML. */
  position: number;
  start: number;
  end: number;
  content: Uint8Array;
}

/** Reads bytes `from` to `to` of an attachment's content. */
export type ReadContent = (position: number, from: number, to: number) => Promise<Uint8Array>;

/** The packed bytes are not whole, or the content of an attachment has another size than it had. */
export class DamagedSkeleton extends Error {
  override readonly name = "DamagedSkeleton";
}

/** Bytes of the smallest file that is cut out: a smaller one saves little, and each is one more to read. */
const LEAST_FILE = 1_024;
/** Bytes of texts that are cut out: larger ones are not read on the main thread beside the skeleton. */
const LEAST_TEXT = 64;
export const LARGEST_TEXT = 64 * 1024;
/** More attachments than any message is taken apart into. */
const MOST_CUTS = 10_000;
/** The text of the message and its HTML as they came, in UTF-8, with CRLF at the end of each line: beyond all attachments. */
export const TEXT = 1_000_000;
export const HTML = 1_000_001;
/** Octets of a whole message; smtp.maxMessageBytes allows half of it. */
export const MOST_OCTETS = 2 ** 31 - 1;
/** Octets that are encoded at a time, and that a piece of a stream has at most. */
const PIECE = 256 * 1024;

/** Cuts the content of attachments and texts out of the octets of a message. Linear time; with nothing to cut, no copy. */
export function cutSkeleton(octets: Uint8Array, parts: readonly EncodedPart[]): Skeleton {
  const kept: Uint8Array[] = [];
  const cuts: Cut[] = [];
  let [at, end] = [0, 0];
  for (const part of parts.toSorted((a, b) => a.start - b.start)) {
    const { length } = part.content;
    const isText = part.position === TEXT || part.position === HTML;
    const isCut = isText ? length >= LEAST_TEXT && length <= LARGEST_TEXT : length >= LEAST_FILE;
    if (part.start < end || !isCut || cuts.length === MOST_CUTS) continue;
    const found = findContent(octets, part);
    if (found === undefined) continue;
    kept.push(octets.subarray(end, found.start));
    at += found.start - end;
    cuts.push({ at, position: part.position, size: part.content.length, ...found.form });
    end = found.start + encodedSize(part.content.length, found.form);
  }
  if (cuts.length === 0) return { bytes: octets, cuts };
  return { bytes: Buffer.concat([...kept, octets.subarray(end)]), cuts };
}

/** The form in which content stands in the octets. */
type Form = Pick<Cut, "lineLength" | "lineEnd">;
const AS_IT_IS: Form = { lineLength: 0, lineEnd: "\r\n" };

/** Where the content of a part begins, and its form; undefined if no form gives exactly its octets. */
function findContent(octets: Uint8Array, part: EncodedPart): { start: number; form: Form } | undefined {
  const { start, content } = part;
  const encoded = octets.subarray(start, part.end);
  const room = Buffer.allocUnsafe(Math.min(PIECE, encoded.length) + AROUND);
  const isSame = (form: Form, from: number): boolean => {
    const size = encodedSize(content.length, form);
    if (from + size > encoded.length) return false;
    for (let piece = 0; piece < size; piece += PIECE) {
      const to = Math.min(size, piece + PIECE);
      const bytes = content.subarray(...contentRange(content.length, form, piece, to));
      const lines = encodePiece(form, bytes, piece, to, room);
      if (Buffer.compare(lines, encoded.subarray(from + piece, from + to)) !== 0) return false;
    }
    return true;
  };
  if (encoded.length === content.length) return isSame(AS_IT_IS, 0) ? { start, form: AS_IT_IS } : undefined;
  let first = 0;
  while (first < encoded.length && (encoded[first] as number) <= SPACE) first++;
  const form = formOfLines(encoded, first, content.length);
  return form !== undefined && isSame(form, first) ? { start: start + first, form } : undefined;
}

const [CR, LF, SPACE] = [0x0d, 0x0a, 0x20];

/** The form of base64 by its first line; undefined for a line whose digits are not in groups of four. */
function formOfLines(encoded: Uint8Array, first: number, size: number): Form | undefined {
  const lineFeed = encoded.indexOf(LF, first);
  const hasReturn = encoded[lineFeed - 1] === CR;
  const lineLength = (lineFeed < 0 ? encoded.length : lineFeed - (hasReturn ? 1 : 0)) - first;
  const digits = countDigits(size);
  if (lineLength >= digits) return { lineLength: digits, lineEnd: "\r\n" };
  return lineLength % 4 === 0 ? { lineLength, lineEnd: hasReturn ? "\r\n" : "\n" } : undefined;
}

/* The arithmetic of base64: a group of four digits stands for three bytes, and line ends stand between lines of digits. */

const countDigits = (size: number): number => Math.ceil(size / 3) * 4;

/** Octets that content takes in a form. */
function encodedSize(size: number, { lineLength, lineEnd }: Form): number {
  if (lineLength === 0) return size;
  const digits = countDigits(size);
  return digits + (Math.ceil(digits / lineLength) - 1) * lineEnd.length;
}

/** The group of digits to which an octet belongs; a line end belongs to the one before it. */
function groupAt({ lineLength, lineEnd }: Form, octet: number): number {
  const line = Math.floor(octet / (lineLength + lineEnd.length));
  const column = octet - line * (lineLength + lineEnd.length);
  return Math.floor((line * lineLength + Math.min(column, lineLength - 1)) / 4);
}

/** The range of content from which octets `start` to `end` of its encoded form are made. */
function contentRange(size: number, form: Form, start: number, end: number): [from: number, to: number] {
  if (form.lineLength === 0) return [start, end];
  // One group more, which brings the line end before it along.
  return [groupAt(form, start) * 3, Math.min(size, (groupAt(form, end - 1) + 2) * 3)];
}

/** More octets than the groups at both ends of a piece, and the next one, have outside of it. */
const AROUND = 16;

/** Octets `start` to `end` of encoded content. `bytes`: their range of it. `room`: where they are written, with AROUND more. */
function encodePiece(form: Form, bytes: Uint8Array, start: number, end: number, room?: Buffer): Uint8Array {
  const { lineLength, lineEnd } = form;
  if (lineLength === 0) return bytes;
  const before = groupAt(form, start) * 4;
  const column = before % lineLength;
  const lines = room ?? Buffer.allocUnsafe(encodedSize((column / 4) * 3 + bytes.length, form) - column);
  writeBase64Lines(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), lines, lineLength, lineEnd, column);
  const skipped = start - (before + Math.floor(before / lineLength) * lineEnd.length);
  return lines.subarray(skipped, skipped + end - start);
}

/** The octets of the whole message. */
export const countOctets = (skeletonSize: number, cuts: readonly Cut[]): number =>
  cuts.reduce((sum, cut) => sum + encodedSize(cut.size, cut), skeletonSize);

/**
 * Octets `start` to `end` of the whole message, in pieces of at most 256 kB. Reads only the content that they need.
 * @throws DamagedSkeleton; errors of `readContent`
 */
export async function* streamOctets(
  skeleton: Skeleton,
  readContent: ReadContent,
  start = 0,
  end = Number.POSITIVE_INFINITY,
): AsyncGenerator<Uint8Array> {
  for (const piece of listPieces(skeleton, start, end))
    yield piece instanceof Uint8Array ? piece : await readEncoded(piece, readContent);
}

/** Octets `start` to `end` of the encoded content of a cut. */
interface CutPiece {
  cut: Cut;
  start: number;
  end: number;
}

/** The octets from `start` to `end` in pieces, those of cuts without their content. */
function* listPieces(skeleton: Skeleton, start: number, end: number): Generator<Uint8Array | CutPiece> {
  let passed = 0;
  for (const section of listSections(skeleton)) {
    const size = section instanceof Uint8Array ? section.length : encodedSize(section.size, section);
    const last = Math.min(size, end - passed);
    for (let from = Math.max(0, start - passed); from < last; from += PIECE) {
      const to = Math.min(last, from + PIECE);
      yield section instanceof Uint8Array ? section.subarray(from, to) : { cut: section, start: from, end: to };
    }
    passed += size;
  }
}

/** The skeleton in pieces, with the cuts between them. */
function* listSections({ bytes, cuts }: Skeleton): Generator<Uint8Array | Cut> {
  let kept = 0;
  for (const cut of cuts) {
    yield bytes.subarray(kept, cut.at);
    yield cut;
    kept = cut.at;
  }
  yield bytes.subarray(kept);
}

async function readEncoded({ cut, start, end }: CutPiece, readContent: ReadContent): Promise<Uint8Array> {
  const [from, to] = contentRange(cut.size, cut, start, end);
  const bytes = await readContent(cut.position, from, to);
  if (bytes.length !== to - from) throw new DamagedSkeleton(`attachment ${cut.position} has another size`);
  return encodePiece(cut, bytes, start, end);
}

/** Octets `start` to `end` of the whole message, as far as it has them. @throws as streamOctets */
export async function readOctets(
  skeleton: Skeleton,
  readContent: ReadContent,
  start = 0,
  end = Number.POSITIVE_INFINITY,
): Promise<Uint8Array> {
  const last = Math.min(end, countOctets(skeleton.bytes.length, skeleton.cuts));
  const octets = new Uint8Array(Math.max(0, last - start));
  let length = 0;
  for (const piece of listPieces(skeleton, start, last)) {
    const bytes = piece instanceof Uint8Array ? piece : await readEncoded(piece, readContent);
    octets.set(bytes, length);
    length += bytes.length;
  }
  return octets;
}

/* Packing. Numbers are in LEB128. */

const VERSION = 1;
/** Bytes of the version and the checksum. */
const HEAD = 5;
const DICTIONARY = Buffer.from(fragments.replaceAll("\n", "\r\n"));
const LEVEL = 4;
/** Window of a frame, as a power of two, that every reader of zstd has (RFC 8878 §3.1.1.1.2); LEVEL takes less. */
const MOST_WINDOW = 23;

/** Packs a skeleton with its cuts. */
export function packSkeleton({ bytes, cuts }: Skeleton): Uint8Array {
  const numbers = [cuts.length];
  let before = 0;
  for (const { at, position, size, lineLength, lineEnd } of cuts) {
    numbers.push(at - before, position, size, lineLength + LINE_ENDS.indexOf(lineEnd));
    before = at;
  }
  const content = Buffer.concat([writeNumbers(numbers), bytes]);
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL };
  const frame = zstdCompressSync(content, { dictionary: DICTIONARY, params });
  const packed = Buffer.concat([Buffer.alloc(HEAD), writeNumbers([content.length]), frame]);
  packed.writeUInt8(VERSION);
  packed.writeUInt32LE(crc32(packed.subarray(HEAD)), 1);
  return packed;
}

/**
 * Unpacks the skeleton of a message of `size` octets. `most`: bytes that it may take. @throws DamagedSkeleton if it takes more,
 * is not whole, of another version, or of a message of another size
 */
export function unpackSkeleton(packed: Uint8Array, size: number, most = MOST_OCTETS): Skeleton {
  const [head, body] = [Buffer.from(packed.subarray(0, HEAD)), packed.subarray(HEAD)];
  if (head[0] !== VERSION) throw new DamagedSkeleton(`unknown version ${head[0]}`);
  if (head.length < HEAD || head.readUInt32LE(1) !== crc32(body)) throw new DamagedSkeleton("another checksum");
  const outer = createNumberReader(body);
  const length = outer.next();
  // The numbers of a cut take less than what is cut out.
  if (size > MOST_OCTETS || length > Math.min(size, most) + 1) throw new DamagedSkeleton("too large");
  const numbers = createNumberReader(unpackFrame(outer.rest(), length));
  const count = numbers.next();
  if (count > MOST_CUTS) throw new DamagedSkeleton("too many cuts");
  const cuts: Cut[] = [];
  for (let at = 0; cuts.length < count; ) {
    at += numbers.next();
    const [position, size, form] = [numbers.next(), numbers.next(), numbers.next()];
    const lineEnd = LINE_ENDS[form % 4];
    if (size === 0 || lineEnd === undefined) throw new DamagedSkeleton("a cut that is none");
    cuts.push({ at, position, size, lineLength: form - (form % 4), lineEnd });
  }
  const bytes = numbers.rest();
  if ((cuts.at(-1)?.at ?? 0) > bytes.length) throw new DamagedSkeleton("a cut beyond the end");
  if (countOctets(bytes.length, cuts) !== size) throw new DamagedSkeleton("of another size");
  return { bytes, cuts };
}

const LINE_ENDS = ["\r\n", "\n"] as const;

/** The content of a frame, which has `length` bytes. Hostile frames take no more memory than that. */
function unpackFrame(frame: Uint8Array, length: number): Uint8Array {
  const params = { [constants.ZSTD_d_windowLogMax]: MOST_WINDOW };
  let content: Uint8Array;
  try {
    content = zstdDecompressSync(frame, { dictionary: DICTIONARY, maxOutputLength: length, params });
  } catch (error) {
    throw new DamagedSkeleton(String(error), { cause: error });
  }
  if (content.length !== length) throw new DamagedSkeleton("cut off");
  return content;
}

/** Numbers in groups of seven bits, the lowest first; the high bit says that more follow. */
function writeNumbers(numbers: readonly number[]): Uint8Array {
  const octets: number[] = [];
  for (let number of numbers) {
    for (; number > 0x7f; number = Math.floor(number / 0x80)) octets.push((number % 0x80) + 0x80);
    octets.push(number);
  }
  return Uint8Array.from(octets);
}

function createNumberReader(bytes: Uint8Array) {
  let at = 0;
  return {
    /** @throws DamagedSkeleton at the end, and for a number that is not exact */
    next(): number {
      let number = 0;
      for (let unit = 1; ; unit *= 0x80) {
        const octet = bytes[at++];
        if (octet === undefined) throw new DamagedSkeleton("cut off");
        number += (octet % 0x80) * unit;
        if (!(number <= Number.MAX_SAFE_INTEGER)) throw new DamagedSkeleton("too large");
        if (octet < 0x80) return number;
      }
    },
    /** The bytes behind the numbers. */
    rest: () => bytes.subarray(at),
  };
}
