/**
 * Decodes the content of a part: transfer encodings, charsets, format=flowed, file names. Linear time. The only user of
 * libmime.
 */
import libmime from "libmime";
import {
  cleanText,
  decodeCharset,
  decodeMislabelledText,
  type Guess,
  guessWindows1252,
  isEightBitCharset,
  isWideCharset,
} from "./charset.ts";
import { readHeaderParameter } from "./content-type.ts";
import { findHeader } from "./headers.ts";
import { type Part, parseHeaderValue } from "./structure.ts";
import { trimLineBreaks } from "./text.ts";

/** True for charsets that are often a wrong label, which charset.ts recognises. */
const isOftenWrong = (charset: string): boolean =>
  /^\s*(?:(?:unicode-1-1-)?utf-7|iso-2022-jp\S*)\s*$/i.test(charset) || isWideCharset(charset);

/**
 * The characters of a text part. Line breaks are \n, with none at the end. `guess`: the charset of octets that the
 * declared one does not fit.
 */
export async function decodeText(buffer: Buffer, part: Part, guess: Guess = guessWindows1252): Promise<string> {
  const charset = part.contentType.parameters.get("charset") ?? "";
  const mayBeWrong = isOftenWrong(charset);
  const octets = mayBeWrong ? decodePartOctets(buffer, part) : unflow(part, decodePartOctets(buffer, part));
  let text = decodeCharset(octets, charset);
  if (text === undefined || (text.includes("\ufffd") && !mayBeWrong)) {
    const inside = part.type === "text/html" ? charsetInHtml(octets) : undefined;
    text = await decodeMislabelledText(octets, text, inside === undefined ? guess : () => Promise.resolve(inside));
  }
  return trimLineBreaks(cleanText(text).replace(/\r\n?/g, "\n"));
}

/** Octets at the start of HTML in which its charset is looked for; browsers look into a quarter of them. */
const HTML_HEAD = 4_096;

/** The charset that a `meta` of HTML names; undefined if it names none, or one that does not tell how to read 8-bit octets. */
function charsetInHtml(octets: Buffer): string | undefined {
  const head = octets.toString("latin1", 0, HTML_HEAD);
  const name = /<meta\s[^<>]{0,500}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})/i.exec(head)?.[1] ?? "";
  return isEightBitCharset(name) ? name : undefined;
}

/** The octets of a text with the lines of each paragraph joined, if they are flowed (RFC 3676 §4). */
function unflow({ type, contentType: { parameters } }: Part, octets: Buffer): Buffer {
  const is = (name: string, value: string) => parameters.get(name)?.toLowerCase().trim() === value;
  if (type !== "text/plain" || !is("format", "flowed")) return octets;
  return Buffer.from(libmime.decodeFlowed(octets.toString("latin1"), is("delsp", "yes")), "latin1");
}

/** The octets of a leaf without their transfer encoding (RFC 2045 §6). */
export function decodePartOctets(buffer: Buffer, part: Part): Buffer {
  const content = buffer.subarray(part.start, part.end);
  const encoding = knownTransferEncoding(part);
  if (encoding === "base64") return beginsAsBase64(buffer, part) ? decodeBase64(content) : content;
  return encoding === "" ? content : decodeQuotedPrintable(content);
}

/** Octets of base64 that the platform decodes at a time. */
const BASE64_PIECE = 64 * 1024;

/**
 * RFC 4648 §3.3, §4: other characters are skipped, and the padding, an equals sign after two or three digits of four, is the
 * end. Makes strings of pieces alone: those of a large attachment would take three times its size.
 */
function decodeBase64(content: Buffer): Buffer {
  const octets = Buffer.allocUnsafe(Math.ceil((content.length * 3) / 4));
  const padding = content.indexOf(EQUALS);
  const wholeEnd = padding < 0 ? content.length : padding;
  let length = 0;
  /** Digits of a group of four that has begun, and their bits. */
  let digits = 0;
  let bits = 0;
  /** Where the platform decodes next; what it does not take is decoded here. */
  let next = 0;
  for (let i = 0; i < content.length; i++) {
    if (digits === 0 && i >= next && i < wholeEnd) {
      next = Math.min(wholeEnd, i + BASE64_PIECE);
      const { read, written } = decodeWholeGroups(content.toString("latin1", i, next), octets.subarray(length));
      i += read;
      length += written;
    }
    const value = BASE64_VALUES[content[i] as number] as number;
    if (value >= 0) {
      bits = (bits << 6) | value;
      if (digits > 0) octets[length++] = bits >> (6 - 2 * digits);
      digits = (digits + 1) % 4;
    } else if (content[i] === EQUALS && digits >= 2) break;
  }
  return octets.subarray(0, length);
}

/** Decodes the groups of four digits, with white space, that a text begins with; nothing if other characters are in it. */
function decodeWholeGroups(text: string, octets: Uint8Array): { read: number; written: number } {
  try {
    return octets.setFromBase64(text, { lastChunkHandling: "stop-before-partial" });
  } catch {
    return { read: 0, written: 0 };
  }
}

/** RFC 2045 §6.7. Invalid sequences stand for themselves. */
export function decodeQuotedPrintable(content: Buffer): Buffer {
  const octets = Buffer.allocUnsafe(content.length);
  let length = 0;
  for (let i = 0; i < content.length; ) {
    const octet = content[i] as number;
    if (octet !== EQUALS && !isSpace(octet)) {
      octets[length++] = octet;
      i++;
      continue;
    }
    // Transport may add white space at the ends of lines.
    let end = i + 1;
    while (end < content.length && isSpace(content[end])) end++;
    const lineEnd = end === content.length || content[end] === LF || content[end] === CR;
    if (octet !== EQUALS) {
      if (!lineEnd) length += content.copy(octets, length, i, end);
      i = end;
    } else if (end === content.length || content[end] === LF || (lineEnd && content[end + 1] === LF)) {
      i = Math.min(content.length, content[end] === CR ? end + 2 : end + 1);
    } else {
      const value = hexOctetValue(content[i + 1]) * 16 + hexOctetValue(content[i + 2]);
      octets[length++] = Number.isNaN(value) ? octet : value;
      i += Number.isNaN(value) ? 1 : 3;
    }
  }
  return octets.subarray(0, length);
}

const [CR, LF, EQUALS] = [0x0d, 0x0a, 0x3d];

const isBlank = (octet = 0): boolean => octet <= 0x20;

const isSpace = (octet: number | undefined): boolean => octet === 0x20 || octet === 0x09;

/** The value of a hexadecimal digit; NaN for any other octet. */
function hexOctetValue(octet = 0): number {
  if (octet >= 0x30 && octet <= 0x39) return octet - 0x30;
  const letter = octet & ~0x20;
  return letter >= 0x41 && letter <= 0x46 ? letter - 0x37 : Number.NaN;
}

/** The decoded octets of an attachment, and its file name. */
export function decodeAttachedFile(buffer: Buffer, part: Part): { content: Uint8Array; filename: string } {
  const octets = decodePartOctets(buffer, part);
  const content = new Uint8Array(octets.buffer, octets.byteOffset, octets.byteLength);
  return { content, filename: partFileName(part) };
}

/** The media type that the name of a file tells; `application/octet-stream` for an unknown one. */
export const mediaTypeFromFilename = (name: string): string =>
  String(libmime.detectMimeType(name.slice(-20)) || "application/octet-stream");

/** A media type that is in common use, else `application/octet-stream`: no words of whoever wrote `type`. */
export const commonType = (type: string): string => mediaTypeFromFilename(`.${libmime.detectExtension(type)}`);

/** A file name for a message with this subject, as `Lunch.eml`; "" if nothing of the subject can be in one. */
export function messageFilename(subject: string): string {
  const name = subject
    .slice(0, 200)
    .toWellFormed()
    .replace(/[\s\p{Cc}\\/:*?"<>|]+/gu, " ")
    .trim();
  return name === "" ? "" : `${name}.eml`;
}

/** The file name that a part gives, still with encoded words; "" for none. */
export const partFileName = ({ disposition, contentType }: Part): string =>
  readHeaderParameter(disposition.parameters, "filename") ?? readHeaderParameter(contentType.parameters, "name") ?? "";

/** The transfer encoding that a field names, lower case (RFC 2045 §6.1); "7bit" if it names none. */
export function readTransferEncoding(field = ""): string {
  const claimed = parseHeaderValue(field).value;
  const known = /^(?:base64|quoted-printable)\b/.exec(claimed)?.[0];
  return known ?? (/^[a-z0-9-]{1,40}$/.test(claimed) ? claimed : "7bit");
}

/** The transfer encoding of a leaf; "" for none or an unknown one. */
function knownTransferEncoding(part: Part): "base64" | "quoted-printable" | "" {
  const encoding = readTransferEncoding(findHeader(part.header.fields, "content-transfer-encoding"));
  return encoding === "base64" || encoding === "quoted-printable" ? encoding : "";
}

/**
 * True if a leaf begins like base64. Other text that claims to be base64 would decode to noise, so it is taken as it
 * is.
 */
function beginsAsBase64(buffer: Buffer, part: Part): boolean {
  const begin = buffer.toString("latin1", part.start, Math.min(part.end, part.start + 1_000)).trimStart();
  return /^[A-Za-z0-9+/]*={0,2}[ \t]*(?:[\r\n]|$)|^[A-Za-z0-9+/]+=|^[A-Za-z0-9+/]{16}/.test(begin);
}

/**
 * True if decoding a leaf keeps all its octets. RFC 2045 §6.8 has decoders ignore characters outside the alphabet and
 * end at the padding, which loses prose that falsely claims base64, or that a mailing list appended. Truncated base64
 * counts as not whole, too.
 */
export function isDecodedWhole(buffer: Buffer, part: Part): boolean {
  if (knownTransferEncoding(part) !== "base64" || !beginsAsBase64(buffer, part)) return true;
  let digits = 0;
  let lineLength = 0;
  let [isLast, isPadded] = [false, false];
  for (let next = part.start; next < part.end; ) {
    const lineFeed = buffer.indexOf(LF, next);
    let at = next;
    let end = lineFeed < 0 ? part.end : Math.min(part.end, lineFeed);
    next = end + 1;
    while (at < end && isBlank(buffer[at])) at++;
    while (at < end && isBlank(buffer[end - 1])) end--;
    const inLine = end - at;
    if (inLine === 0) continue;
    // All lines have one length, except for a shorter last one. A line of another length is a word made of base64 digits.
    lineLength ||= inLine;
    if (isLast || inLine > lineLength) return false;
    isLast = inLine < lineLength;
    while (at < end && !isPadded && (BASE64_VALUES[buffer[at] as number] as number) >= 0) at++;
    while (at < end && buffer[at] === EQUALS) {
      isPadded = true;
      at++;
    }
    if (at < end) return false;
    digits += inLine;
  }
  return digits % 4 === 0;
}

/** Values of octets as base64 digits, also of the alphabet of RFC 4648 §5; -1 for any other octet. */
const BASE64_VALUES = new Int8Array(256).fill(-1);
for (const [i, octet] of Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=").entries()) {
  if (octet !== EQUALS) BASE64_VALUES[octet] = i < 64 ? i : i - 2;
}
