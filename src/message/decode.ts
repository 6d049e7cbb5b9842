/**
 * The content of a part, decoded: transfer encodings, charsets, format=flowed, file names. The only user of mailparser.
 *
 * A part goes through mailparser as a message of its own, so that its decoders work on exactly the bytes structure.ts
 * found. Time is bounded: what mailparser's decoders would take long for does not reach them.
 */
import { MailParser } from "mailparser";
import { cleanText, decodeCharset, decodeOctets, isUnlabelled } from "./charset.ts";
import { headerOf } from "./headers.ts";
import { type Part, TooComplex } from "./structure.ts";
import { trimLineBreaks } from "./text.ts";

/** Charsets that mailparser's decoders take very long for, or read wrongly where their label is wrong. */
const OWN_CHARSETS = /^\s*(?:(?:unicode-1-1-)?utf-7|iso-2022-jp\S*)\s*$/i;

/** The characters of a text part; line breaks are \n, and there is none at the end. */
export async function decodeText(buffer: Buffer, part: Part): Promise<string> {
  const charset = part.contentType.parameters.get("charset") ?? "";
  // Octets that stand as they are, or nearly, need no streams, which would take most of the time of a short message.
  const octets = octetsOf(buffer.subarray(part.start, part.end), part);
  let text = octets && decodeCharset(octets, charset);
  if (text === undefined && !OWN_CHARSETS.test(charset)) text = (await decodePart(buffer, part, "inline")).text;
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
  const encoding = headerOf(part.header.fields, "content-transfer-encoding") ?? "";
  if (/^(?:7bit|8bit|binary|)$/i.test(encoding)) return content;
  return /^quoted-printable$/i.test(encoding) ? decodeQuotedPrintable(content) : undefined;
}

/** What is not of the encoding stands for itself. */
function decodeQuotedPrintable(content: Buffer): Buffer {
  const octets = content
    .toString("latin1")
    // On its way, white space may have been put to the ends of lines. Looking behind keeps long runs of it cheap.
    .replace(/(?<![\t ])[\t ]+$/gm, "")
    .replace(/=(?:\r?\n|$)/g, "")
    .replace(/=([\dA-F]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  return Buffer.from(octets, "latin1");
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
    parser.end(buffer.subarray(part.start, part.end));
  });
}

/** The header mailparser is shown for a leaf: its MIME fields, with the role that body.ts gave it. */
function leafHeader(buffer: Buffer, part: Part, as: "inline" | "attachment"): Buffer {
  const { fields } = part.header;
  const withParameters = (name: string, value: string) => {
    const raw = headerOf(fields, name) ?? "";
    const parameters = raw.indexOf(";");
    return `${name}: ${value}${parameters < 0 ? "" : raw.slice(parameters)}\r\n`;
  };
  const claimed = headerOf(fields, "content-transfer-encoding");
  const encoding = /^\s*base64\b/i.test(claimed ?? "") && !beginsAsBase64(buffer, part) ? undefined : claimed;
  return Buffer.from(
    withParameters("content-type", as === "inline" ? part.type : "application/x-part") +
      withParameters("content-disposition", as) +
      (encoding === undefined ? "" : `content-transfer-encoding: ${encoding}\r\n`) +
      "\r\n",
  );
}

/** Text that only claims to be base64 would be decoded to nothing anyone wrote: it is taken as it stands. */
function beginsAsBase64(buffer: Buffer, part: Part): boolean {
  const begin = buffer.toString("latin1", part.start, Math.min(part.end, part.start + 1_000)).trimStart();
  return /^[A-Za-z0-9+/]*={0,2}[ \t]*(?:[\r\n]|$)|^[A-Za-z0-9+/]+=|^[A-Za-z0-9+/]{16}/.test(begin);
}

/** Base64 may be made of pieces that each end in padding; decoding takes about a microsecond for each. */
const MAX_PIECES = 500_000;

function refuseTooManyPieces(buffer: Buffer, part: Part): void {
  let pieces = 0;
  if (!/^\s*base64\b/i.test(headerOf(part.header.fields, "content-transfer-encoding") ?? "")) return;
  for (let at = buffer.indexOf(0x3d, part.start); at >= 0 && at < part.end; at = buffer.indexOf(0x3d, at + 1)) {
    if (++pieces > MAX_PIECES) throw new TooComplex(`more than ${MAX_PIECES} pieces of base64`);
  }
}
