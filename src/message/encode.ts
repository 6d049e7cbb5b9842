/**
 * Transfer encodings (RFC 2045 §6.7, §6.8) of octets, in lines of at most 76 characters that end in CRLF unless told otherwise.
 * Makes strings of slices alone: those of a large attachment would take several times its size.
 */

/** Octets of a line of base64, and of a thousand: a large attachment is encoded in slices. */
const BASE64_LINE = 57;
const BASE64_SLICE = 1_000 * BASE64_LINE;
/** Room for the digits of a slice. */
const SLICE_DIGITS = Buffer.alloc((BASE64_SLICE / 3) * 4);

const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;
const EQUALS = 0x3d;
const HEX = Buffer.from("0123456789ABCDEF");

/** Most octets that base64 takes for `length` octets. */
export const base64Length = (length: number): number => Math.ceil(length / BASE64_LINE) * 78;

/** Base64 without a line break at its end. The next piece overwrites the one before. */
export function* base64Pieces(octets: Buffer): Generator<string | Buffer> {
  const lines = Buffer.allocUnsafe(base64Length(Math.min(octets.length, BASE64_SLICE)));
  for (let start = 0; start < octets.length; start += BASE64_SLICE) {
    if (start > 0) yield "\r\n";
    yield writeBase64Lines(octets.subarray(start, start + BASE64_SLICE), lines);
  }
}

/** Base64 without a line break at its end. */
export function encodeBase64(octets: Buffer): Buffer {
  return writeBase64Lines(octets, Buffer.allocUnsafe(base64Length(octets.length)));
}

/**
 * Writes lines of `lineLength` digits, a multiple of four, into `lines`. `column`: the digits that the first of them has before.
 */
export function writeBase64Lines(
  octets: Buffer,
  lines: Buffer,
  lineLength = 76,
  lineEnd: "\r\n" | "\n" = "\r\n",
  column = 0,
): Buffer {
  let length = 0;
  let left = lineLength - column;
  for (let start = 0; start < octets.length; start += BASE64_SLICE) {
    const digits = SLICE_DIGITS.subarray(0, SLICE_DIGITS.write(octets.toString("base64", start, start + BASE64_SLICE)));
    for (let at = 0; at < digits.length; ) {
      if (left === 0) {
        if (lineEnd === "\r\n") lines[length++] = CR;
        lines[length++] = LF;
        left = lineLength;
      }
      const taken = Math.min(left, digits.length - at);
      digits.copy(lines, length, at, at + taken);
      at += taken;
      length += taken;
      left -= taken;
    }
  }
  return lines.subarray(0, length);
}

/**
 * Marks of octets: 1 for an octet that stands for itself anywhere in a line of quoted-printable. Space and tab may not end a
 * line.
 */
const LITERAL = new Uint8Array(256).fill(1, SPACE + 1, 0x7f);
LITERAL[EQUALS] = 0;

/** Columns of a line, without the last, which is for the equals sign of a soft line break. */
const COLUMNS = 75;

/** Octets that quoted-printable takes for text, roughly: line ends that it adds are not counted. */
export function quotedPrintableLength(octets: Buffer): number {
  let encoded = 0;
  for (let i = 0; i < octets.length; i++)
    if ((octets[i] as number) > SPACE && LITERAL[octets[i] as number] === 0) encoded++;
  return octets.length + 2 * encoded;
}

/** Most octets that it takes, with line ends, control characters and what is encoded at the ends of a line alone. */
function mostOctets(octets: Buffer): number {
  let controls = 0;
  for (let i = 0; i < octets.length; i++) if ((octets[i] as number) < SPACE) controls++;
  const columns = quotedPrintableLength(octets) + 6 * (controls + 1);
  return columns + 5 * Math.ceil(columns / (COLUMNS - 2));
}

/** Quoted-printable of text whose lines end in CRLF, which stay line ends. */
export function encodeQuotedPrintable(octets: Buffer): Buffer {
  const encoded = Buffer.allocUnsafe(mostOctets(octets));
  let length = 0;
  let column = 0;
  for (let i = 0; i < octets.length; i++) {
    const octet = octets[i] as number;
    if (octet === CR && octets[i + 1] === LF) {
      encoded[length++] = CR;
      encoded[length++] = LF;
      column = 0;
      i++;
      continue;
    }
    const isSpace = octet === SPACE || octet === TAB;
    let isLiteral = LITERAL[octet] === 1 || (isSpace && !isLineEnd(octets, i + 1));
    if (column + (isLiteral ? 1 : 3) > COLUMNS) {
      encoded[length++] = EQUALS;
      encoded[length++] = CR;
      encoded[length++] = LF;
      column = 0;
    }
    isLiteral &&= column > 0 || !isMistakable(octets, i);
    if (isLiteral) {
      encoded[length++] = octet;
      column++;
    } else {
      encoded[length++] = EQUALS;
      encoded[length++] = HEX[octet >> 4] as number;
      encoded[length++] = HEX[octet & 15] as number;
      column += 3;
    }
  }
  return encoded.subarray(0, length);
}

const isLineEnd = (octets: Buffer, i: number): boolean =>
  i >= octets.length || (octets[i] === CR && octets[i + 1] === LF);

const FROM = Buffer.from("From ");
const DOT = 0x2e;
const DASH = 0x2d;

/** A line that begins so could be taken for another by mail programs (`From `, a dot) or for a delimiter (`--`). */
const isMistakable = (octets: Buffer, i: number): boolean =>
  octets[i] === DOT ||
  (octets[i] === DASH && octets[i + 1] === DASH) ||
  (octets[i] === FROM[0] && octets.subarray(i, i + FROM.length).equals(FROM));
