/**
 * Decodes the content of a part: transfer encodings, charsets, format=flowed, file names. The only user of mailparser.
 *
 * Each part goes through mailparser as a message of its own, so that its decoders work on exactly the bytes that
 * structure.ts found. Time is bounded: input on which those decoders are slow is handled here.
 */
import { MailParser } from "mailparser";
import { cleanText, decodeCharset, decodeOctets, isUnlabelled, isWide } from "./charset.ts";
import { headerOf } from "./headers.ts";
import { type Part, parseHeaderValue, TooComplex } from "./structure.ts";
import { trimLineBreaks } from "./text.ts";

/** True for charsets that charset.ts decodes: mailparser is very slow on them, or they are often a wrong label. */
const isDecodedHere = (charset: string): boolean =>
  /^\s*(?:(?:unicode-1-1-)?utf-7|iso-2022-jp\S*)\s*$/i.test(charset) || isWide(charset);

/** The characters of a text part. Line breaks are \n, with none at the end. */
export async function decodeText(buffer: Buffer, part: Part): Promise<string> {
  const charset = part.contentType.parameters.get("charset") ?? "";
  // Octets that need little or no decoding skip the streams, which would take most of the time of a short message.
  const octets = octetsOf(buffer.subarray(part.start, part.end), part);
  let text = octets && decodeCharset(octets, charset);
  if (text === undefined && !isDecodedHere(charset)) text = (await decodePart(buffer, part, "inline")).text;
  // Octets that are invalid in the claimed charset: mailparser replaces each, charset.ts finds a better charset.
  if (text === undefined || (text.includes("\ufffd") && isUnlabelled(charset))) {
    const { content } = await decodePart(buffer, part, "attachment");
    text = decodeCharset(content, charset) ?? decodeOctets(content);
  }
  return trimLineBreaks(cleanText(text).replace(/\r\n?/g, "\n"));
}

/**
 * The octets of a text whose transfer encoding is the identity or quoted-printable (RFC 2045 §6.2, §6.7). Undefined for
 * another encoding, and for format=flowed (RFC 3676), whose lines must be joined.
 */
function octetsOf(content: Buffer, part: Part): Buffer | undefined {
  if (part.contentType.parameters.has("format")) return undefined;
  const encoding = encodingOf(part);
  if (encoding === "base64") return undefined;
  return encoding === "" ? content : decodeQuotedPrintable(content);
}

/** RFC 2045 §6.7. Invalid sequences stand for themselves. mailparser's decoder is quadratic in the length of a line. */
function decodeQuotedPrintable(content: Buffer): Buffer {
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
      const value = hexOf(content[i + 1]) * 16 + hexOf(content[i + 2]);
      octets[length++] = Number.isNaN(value) ? octet : value;
      i += Number.isNaN(value) ? 1 : 3;
    }
  }
  return octets.subarray(0, length);
}

const [CR, LF, EQUALS] = [0x0d, 0x0a, 0x3d];

const isSpace = (octet: number | undefined): boolean => octet === 0x20 || octet === 0x09;

/** The value of a hexadecimal digit; NaN for any other octet. */
function hexOf(octet = 0): number {
  if (octet >= 0x30 && octet <= 0x39) return octet - 0x30;
  const letter = octet & ~0x20;
  return letter >= 0x41 && letter <= 0x46 ? letter - 0x37 : Number.NaN;
}

interface DecodedPart {
  text: string;
  content: Uint8Array;
  filename: string;
}

/**
 * The decoded octets of an attachment, and its file name.
 * @throws TooComplex, and errors of mailparser.
 */
export async function decodeFile(buffer: Buffer, part: Part): Promise<{ content: Uint8Array; filename: string }> {
  return decodePart(buffer, part, "attachment");
}

/**
 * Decodes one leaf with mailparser: as a text, to characters, or as an attachment, to octets.
 * @throws errors of mailparser.
 */
async function decodePart(buffer: Buffer, part: Part, as: "inline" | "attachment"): Promise<DecodedPart> {
  refuseTooManyPieces(buffer, part);
  return new Promise((resolve, reject) => {
    const parser = new MailParser({
      skipTextToHtml: true,
      skipHtmlToText: true,
      skipImageLinks: true,
      skipTextLinks: true,
      keepDeliveryStatus: true,
      ignoreEmbedded: true,
      checksumAlgo: false,
    });
    const chunks: Uint8Array[] = [];
    let text = "";
    let filename = "";
    parser.on("data", (data) => {
      if (data.type === "text") {
        text = (part.type === "text/html" ? data.html : data.text) || "";
        return;
      }
      filename = data.filename ?? "";
      data.content.on("data", (chunk: Uint8Array) => chunks.push(chunk));
      data.content.on("end", () => data.release?.());
    });
    parser.on("error", reject);
    parser.on("end", () => resolve({ text, content: new Uint8Array(Buffer.concat(chunks)), filename }));
    parser.write(leafHeader(buffer, part, as));
    const content = buffer.subarray(part.start, part.end);
    parser.end(encodingOf(part) === "quoted-printable" ? decodeQuotedPrintable(content) : content);
  });
}

/** The header that mailparser gets for a leaf: its MIME fields, with the role `as`. */
function leafHeader(buffer: Buffer, part: Part, as: "inline" | "attachment"): Buffer {
  const { fields } = part.header;
  const withParameters = (name: string, value: string, { parameters }: Part["contentType"]) => {
    const raw = headerOf(fields, name) ?? "";
    const written = raw.includes(";") ? raw.slice(raw.indexOf(";")) : "";
    return `${name}: ${value}${/boundary/i.test(written) ? withoutBoundary(parameters) : written}\r\n`;
  };
  return Buffer.from(
    withParameters("content-type", as === "inline" ? part.type : "application/x-part", part.contentType) +
      withParameters("content-disposition", as, part.disposition) +
      (encodingOf(part) === "base64" && beginsAsBase64(buffer, part) ? "content-transfer-encoding: base64\r\n" : "") +
      "\r\n",
  );
}

/** mailparser takes any part that names a boundary for a multipart, and drops the text between its delimiters. */
function withoutBoundary(parameters: ReadonlyMap<string, string>): string {
  return [...parameters]
    .filter(([name]) => !name.startsWith("boundary"))
    .map(([name, value]) => `; ${name}="${value.replace(/["\\]/g, "\\$&")}"`)
    .join("");
}

/** The transfer encoding of a leaf (RFC 2045 §6.1); "" for none or an unknown one. */
function encodingOf(part: Part): "base64" | "quoted-printable" | "" {
  const claimed = parseHeaderValue(headerOf(part.header.fields, "content-transfer-encoding") ?? "").value;
  return (/^(?:base64|quoted-printable)\b/.exec(claimed)?.[0] as "base64" | "quoted-printable" | undefined) ?? "";
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
 * True if decoding a leaf keeps all its octets. RFC 2045 §6.8 has decoders ignore characters outside the alphabet,
 * which loses prose that falsely claims base64, or that a mailing list appended. Truncated base64 counts as not whole,
 * too.
 */
export function isDecodedWhole(buffer: Buffer, part: Part): boolean {
  if (encodingOf(part) !== "base64" || !beginsAsBase64(buffer, part)) return true;
  let digits = 0;
  let inLine = 0;
  let lineLength = 0;
  let isLast = false;
  for (let i = part.start; i <= part.end; i++) {
    const octet = i < part.end ? (buffer[i] as number) : 0x0a;
    if (BASE64_DIGITS[octet] === 1) {
      // All lines have one length, except for a shorter last one. A line of another length is a word made of base64
      // digits.
      if (isLast || (inLine > 0 && BASE64_DIGITS[buffer[i - 1] as number] !== 1)) return false;
      digits++;
      inLine++;
    } else if (octet > 0x20) return false;
    else if (octet === 0x0a && inLine > 0) {
      if (lineLength === 0) lineLength = inLine;
      isLast = inLine < lineLength;
      if (inLine > lineLength) return false;
      inLine = 0;
    }
  }
  return digits % 4 === 0;
}

/** By octet: 1 for the digits of both base64 alphabets, and for the padding. */
const BASE64_DIGITS = new Uint8Array(256);
for (const octet of Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")) {
  BASE64_DIGITS[octet] = 1;
}

/** Base64 may consist of pieces that each end in padding; decoding takes about a microsecond per piece. */
const MAX_PIECES = 500_000;

function refuseTooManyPieces(buffer: Buffer, part: Part): void {
  let pieces = 0;
  if (encodingOf(part) !== "base64") return;
  for (let at = buffer.indexOf(0x3d, part.start); at >= 0 && at < part.end; at = buffer.indexOf(0x3d, at + 1)) {
    if (++pieces > MAX_PIECES) throw new TooComplex(`more than ${MAX_PIECES} pieces of base64`);
  }
}
