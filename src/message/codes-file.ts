/**
 * Masks codes and sign-in links in files: messages, part by part and with the messages attached to them, HTML, calendars
 * and every other text. Files of other kinds are left as they are (rules: Codes).
 */
import { isUtf8 } from "node:buffer";
import { decodeUnlabelledText } from "./charset.ts";
import { type CodedPart, maskCodes, UNCHECKED_MASK } from "./codes.ts";
import { headerField } from "./compose.ts";
import { decodeAttachedFile, decodeText } from "./decode.ts";
import { decodeWords, type HeaderField } from "./headers.ts";
import { type Part, tryReadStructure, walkLeafParts } from "./structure.ts";

export interface CodedFile {
  filename: string;
  /** Its media type, perhaps with parameters. */
  contentType: string;
  content: Uint8Array;
}

/** Octets that tell whether a file is text. */
export const CODED_HEAD_BYTES = 4_096;

/** True for a file that cannot be text, by its first octets. */
export const isBinary = (head: Uint8Array): boolean =>
  !isWide(head) &&
  (head.subarray(0, CODED_HEAD_BYTES).includes(0) || Buffer.from(head.subarray(0, 8)).includes("%PDF-"));

/** True for UTF-16, by its byte order mark. */
const isWide = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);

const TEXT_TYPE =
  /^(?:text\/|message\/|image\/svg\+xml|application\/(?:[\w.-]+\+)?(?:json|xml|yaml|javascript|csv|sql|ics))/i;
const TEXT_NAME = /\.(?:txt|text|md|csv|tsv|json|xml|ya?ml|log|ics|vcf|eml|svg|x?html?)$/i;
const HTML_TYPE = /^(?:text\/html|application\/xhtml\+xml)/i;
const HTML_BEGIN = /^\s*<(?:!doctype html|html|head|body)\b/i;
const MESSAGE_TYPE = /^message\/(?:rfc822|global)/i;
/** Header fields at the beginning of a file, one of which says that MIME parts follow. */
const MESSAGE_BEGIN = /^(?:From |[A-Za-z][\w-]{0,60}:[ \t])/;
const MIME_FIELD = /^(?:content-type|content-transfer-encoding|mime-version|received|message-id):/im;

/** Messages inside each other that are taken apart. */
const DEEPEST = 8;

/** The file with its codes and links masked, text in UTF-8; undefined if nothing in it is masked. */
export async function maskCodesInFile(
  { filename, contentType, content }: CodedFile,
  depth = 0,
): Promise<Uint8Array | undefined> {
  if (isBinary(content)) return undefined;
  const head = Buffer.from(content.subarray(0, CODED_HEAD_BYTES)).toString("latin1");
  const isMessage =
    MESSAGE_TYPE.test(contentType) || /\.eml$/i.test(filename) || (MESSAGE_BEGIN.test(head) && MIME_FIELD.test(head));
  if (isMessage) return maskMessage(content, depth);
  const isText = TEXT_TYPE.test(contentType) || TEXT_NAME.test(filename) || isWide(content) || isUtf8(content);
  if (!isText) return undefined;
  const text = decodeFileText(content);
  const html = HTML_TYPE.test(contentType) || /\.x?html?$/i.test(filename) || HTML_BEGIN.test(head);
  // The first part is a subject.
  const [, masked = ""] = maskCodes([{ content: "" }, { content: text, html }]).contents;
  return masked === text ? undefined : Buffer.from(masked);
}

function decodeFileText(content: Uint8Array): string {
  if (isWide(content)) return new TextDecoder(content[0] === 0xff ? "utf-16le" : "utf-16be").decode(content);
  const text = decodeUnlabelledText(content);
  // Lines of calendars and address cards are folded, also within a link.
  return /^\s*BEGIN:V/i.test(text) ? text.replace(/\r?\n[ \t]/g, "") : text;
}

/** Fields of structure and transport, and of lists: they hold neither text nor a link that signs in. */
const NOT_TEXT =
  /^(?:content-(?!description)|mime-version|message-id|in-reply-to|references|date|received|return-path|dkim-|arc-|authentication-results|list-)/i;

/** A range of the bytes, and what replaces it. */
interface Edit {
  start: number;
  end: number;
  bytes: Uint8Array;
}

/** A message with its codes masked; undefined if it has none. */
async function maskMessage(bytes: Uint8Array, depth: number): Promise<Uint8Array | undefined> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const root = depth < DEEPEST ? tryReadStructure(bytes) : undefined;
  if (!root) return Buffer.from(`\r\n${UNCHECKED_MASK}\r\n`);

  const leaves = [...walkLeafParts(root)];
  const texts = new Map<Part, string>();
  for (const leaf of leaves) if (/^text\/(?!rtf)/.test(leaf.type)) texts.set(leaf, await decodeText(buffer, leaf));
  const blocks = listPartTree(root);
  const fields = blocks.flatMap(({ header }) => header.fields.filter(({ name }) => !NOT_TEXT.test(name)));
  const subject = fields.find(({ name }) => name.toLowerCase() === "subject");

  // Each with what is done with it once it is masked.
  const newTexts = new Map<Part, string>();
  const newNames = new Map<Part, string>();
  const newFields = new Map<HeaderField, string>();
  const parts: (CodedPart & { change(masked: string): void })[] = [];
  const addField = (field: HeaderField) => {
    // The name of a field may say what it holds.
    const before = field === subject ? "" : `${field.name}: `;
    parts.push({
      content: before + decodeWords(field.value),
      change: (masked) => newFields.set(field, masked.slice(before.length)),
    });
  };
  if (subject) addField(subject);
  else parts.push({ content: "", change() {} });
  for (const [leaf, content] of texts) {
    parts.push({ content, html: HTML_TYPE.test(leaf.type), change: (masked) => newTexts.set(leaf, masked) });
  }
  for (const field of fields) if (field !== subject) addField(field);
  for (const leaf of leaves) {
    parts.push({ content: decodeAttachedFile(buffer, leaf).filename, change: (masked) => newNames.set(leaf, masked) });
  }
  for (const [n, content] of maskCodes(parts).contents.entries()) {
    if (content !== parts[n]?.content) parts[n]?.change(content);
  }

  const edits: Edit[] = [];
  for (const part of blocks) {
    const { start, bodyStart, fields } = part.header;
    let body: Uint8Array | undefined;
    let isChanged = newTexts.has(part) || newNames.has(part);
    if (texts.has(part)) {
      body = Buffer.from((newTexts.get(part) ?? texts.get(part) ?? "").replaceAll("\n", "\r\n"));
    } else if (part.children.length === 0) {
      const { content, filename } = decodeAttachedFile(buffer, part);
      const octets = await maskCodesInFile({ filename, contentType: part.type, content }, depth + 1);
      isChanged ||= octets !== undefined;
      body = octets ?? content;
    }
    if (!isChanged && !fields.some((field) => newFields.has(field))) continue;
    const lines = fields
      .filter(({ name }) => !isChanged || !/^content-(?:type|transfer-encoding|disposition)$/i.test(name))
      .map((field) => headerField(field.name, newFields.get(field) ?? field.value));
    // A message may not be in base64 (RFC 2046 §5.2.1).
    const isMessage = MESSAGE_TYPE.test(part.type);
    if (isChanged) {
      const filename = newNames.get(part) ?? decodeAttachedFile(buffer, part).filename;
      const disposition = part.disposition.value || (filename === "" ? "" : "attachment");
      lines.push(`Content-Type: ${part.type}${texts.has(part) ? "; charset=utf-8" : ""}`);
      lines.push(`Content-Transfer-Encoding: ${isMessage ? "binary" : "base64"}`);
      const plain = filename.replace(/[^ -~]|["\\]/g, "_");
      if (disposition !== "") lines.push(headerField("Content-Disposition", `${disposition}; filename="${plain}"`));
    }
    edits.push({ start, end: bodyStart, bytes: Buffer.from(`${lines.join("\r\n")}\r\n\r\n`) });
    if (!isChanged || !body) continue;
    edits.push({ start: part.start, end: part.end, bytes: isMessage ? body : encodeBase64Lines(body) });
  }
  return edits.length === 0 ? undefined : edited(buffer, edits);
}

const encodeBase64Lines = (octets: Uint8Array): Buffer =>
  Buffer.from(
    Buffer.from(octets)
      .toString("base64")
      .replace(/.{76}(?=.)/g, "$&\r\n"),
  );

/** The bytes with ranges replaced, which neither overlap nor need be in order. */
function edited(buffer: Buffer, edits: readonly Edit[]): Buffer {
  const pieces: Uint8Array[] = [];
  let at = 0;
  for (const { start, end, bytes } of edits.toSorted((a, b) => a.start - b.start)) {
    pieces.push(buffer.subarray(at, start), bytes);
    at = end;
  }
  return Buffer.concat([...pieces, buffer.subarray(at)]);
}

/** All parts of a tree, each before its children. */
const listPartTree = (part: Part): Part[] => [part, ...part.children.flatMap(listPartTree)];
