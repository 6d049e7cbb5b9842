/**
 * The content of a part, decoded: transfer encodings, charsets, format=flowed, file names. The only user of mailparser.
 *
 * A part goes through mailparser as a message of its own, so that its decoders work on exactly the bytes structure.ts
 * found. Time is bounded: what mailparser's decoders would take long for does not reach them.
 */
import { MailParser } from "mailparser";
import { cleanText, decodeCharset, decodeOctets, isUnlabelled, isWide } from "./charset.ts";
import { headerOf } from "./headers.ts";
import { type Part, parseHeaderValue, TooComplex } from "./structure.ts";
import { trimLineBreaks } from "./text.ts";

/** Charsets that mailparser's decoders take very long for, or read wrongly where their label is wrong. */
const isOwnCharset = (charset: string): boolean =>
  /^\s*(?:(?:unicode-1-1-)?utf-7|iso-2022-jp\S*)\s*$/i.test(charset) || isWide(charset);

/** The characters of a text part; line breaks are \n, and there is none at the end. */
export async function decodeText(buffer: Buffer, part: Part): Promise<string> {
  const charset = part.contentType.parameters.get("charset") ?? "";
  // Octets that stand as they are, or nearly, need no streams, which would take most of the time of a short message.
  const octets = octetsOf(buffer.subarray(part.start, part.end), part);
  let text = octets && decodeCharset(octets, charset);
  if (text === undefined && !isOwnCharset(charset)) text = (await decodePart(buffer, part, "inline")).text;
  // Octets that are not of the charset they claim: mailparser gives up each of them, charset.ts finds another.
  if (text === undefined || (text.includes("\ufffd") && isUnlabelled(charset))) {
    const { content } = await decodePart(buffer, part, "attachment");
    text = decodeCharset(content, charset) ?? decodeOctets(content);
  }
  return trimLineBreaks(cleanText(text).replace(/\r\n?/g, "\n"));
}

/**
 * The octets of a text whose transfer encoding leaves text as it is or is quoted-printable (RFC 2045 §6.2, §6.7);
 * undefined for another, and for lines of format=flowed (RFC 3676), which are to be joined.
 */
function octetsOf(content: Buffer, part: Part): Buffer | undefined {
  if (part.contentType.parameters.has("format")) return undefined;
  const encoding = encodingOf(part);
  if (encoding === "base64") return undefined;
  return encoding === "" ? content : decodeQuotedPrintable(content);
}

/**
 * RFC 2045 §6.7. What is not of the encoding stands for itself. mailparser's decoder takes the square of the length of a
 * long line.
 */
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
    // On its way, white space may have been put to the ends of lines.
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

/** The value of a hexadecimal digit; NaN for what is none. */
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

/** The octets of an attachment and the name it came with, decoded. @throws TooComplex, and what mailparser reports. */
export async function decodeFile(buffer: Buffer, part: Part): Promise<{ content: Uint8Array; filename: string }> {
  return decodePart(buffer, part, "attachment");
}

/**
 * One leaf through mailparser: as a text, decoded to characters, or as an attachment, decoded to octets.
 * @throws what mailparser reports.
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
    } as ConstructorParameters<typeof MailParser>[0]);
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
      data.content.on("end", () => data.release());
    });
    parser.on("error", reject);
    parser.on("end", () => resolve({ text, content: new Uint8Array(Buffer.concat(chunks)), filename }));
    parser.write(leafHeader(buffer, part, as));
    const content = buffer.subarray(part.start, part.end);
    parser.end(encodingOf(part) === "quoted-printable" ? decodeQuotedPrintable(content) : content);
  });
}

/** The header mailparser is shown for a leaf: its MIME fields, with the role that parse.ts gave it. */
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

/** mailparser takes any part that names a boundary for a multipart, and drops what lies between its delimiters. */
function withoutBoundary(parameters: ReadonlyMap<string, string>): string {
  return [...parameters]
    .filter(([name]) => !name.startsWith("boundary"))
    .map(([name, value]) => `; ${name}="${value.replace(/["\\]/g, "\\$&")}"`)
    .join("");
}

/** How the octets of a leaf are encoded (RFC 2045 §6.1); "" where they stand as they are, or nobody knows how. */
function encodingOf(part: Part): "base64" | "quoted-printable" | "" {
  const claimed = parseHeaderValue(headerOf(part.header.fields, "content-transfer-encoding") ?? "").value;
  return (/^(?:base64|quoted-printable)\b/.exec(claimed)?.[0] as "base64" | "quoted-printable" | undefined) ?? "";
}

/** Text that only claims to be base64 would be decoded to nothing anyone wrote: it is taken as it stands. */
function beginsAsBase64(buffer: Buffer, part: Part): boolean {
  const begin = buffer.toString("latin1", part.start, Math.min(part.end, part.start + 1_000)).trimStart();
  return /^[A-Za-z0-9+/]*={0,2}[ \t]*(?:[\r\n]|$)|^[A-Za-z0-9+/]+=|^[A-Za-z0-9+/]{16}/.test(begin);
}

/**
 * Whether decoding a leaf gives up none of its octets: RFC 2045 §6.8 has decoders ignore what is not of the alphabet, but
 * prose that only claims to be base64, or that a mailing list put below it, is lost so. What ends too early counts, too.
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
      // Lines are of one length, but the last, which may be shorter: another is a word that happens to be of the digits.
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

/** By octet: 1 for the digits of base64 in both its alphabets, and the padding. */
const BASE64_DIGITS = new Uint8Array(256);
for (const octet of Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")) {
  BASE64_DIGITS[octet] = 1;
}

/** Base64 may be made of pieces that each end in padding; decoding takes about a microsecond for each. */
const MAX_PIECES = 500_000;

function refuseTooManyPieces(buffer: Buffer, part: Part): void {
  let pieces = 0;
  if (encodingOf(part) !== "base64") return;
  for (let at = buffer.indexOf(0x3d, part.start); at >= 0 && at < part.end; at = buffer.indexOf(0x3d, at + 1)) {
    if (++pieces > MAX_PIECES) throw new TooComplex(`more than ${MAX_PIECES} pieces of base64`);
  }
}
