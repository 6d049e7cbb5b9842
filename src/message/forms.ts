/**
 * Opens the forms in which mail programs wrap what they send (rules: Forms of mail): winmail.dat, opaque S/MIME, and files that
 * are uuencoded in a text. Their contents take their place in the tree of parts, and are read as other parts are.
 *
 * The wrapped content is appended to the bytes of the message, and its parts have their offsets there. The tree that is given
 * stays as it is. The depth, the number of forms and that of parts are bounded.
 */
import { decodeCharset, decodeUnlabelledText } from "./charset.ts";
import { decodePartOctets, mediaTypeFromFilename, partFileName } from "./decode.ts";
import { findHeader } from "./headers.ts";
import { stripTags } from "./layout.ts";
import { readCms } from "./smime.ts";
import { type Part, tryReadStructure, walkLeafParts } from "./structure.ts";
import { isTnef, readTnef } from "./tnef.ts";
import { findUuencoded } from "./uuencode.ts";

/** The bytes of a message, and its parts by their offsets there. */
export interface Message {
  buffer: Buffer;
  root: Part;
}

interface Form extends Message {
  /** `message`: a message of its own. `beside`: the part that was opened is shown behind it as a file. */
  kind: "message" | "parts" | "beside";
}

/** Forms inside of each other, such as a file that is uuencoded in a signed text. */
const MOST_DEPTH = 4;
const MOST_FORMS = 100;
const MOST_PARTS = 2_000;
/** Octets of what is opened, for one of the message, and beyond these. */
const MOST_RATIO = 4;
const LEAST_OCTETS = 1024 * 1024;

/** Puts the contents of all forms in their place. `inner`: the messages among them. The same message if it has no form. */
export function unwrapEmbeddedContent(message: Message): Message & { inner: Message[] } {
  const pieces = [message.buffer];
  const inner: Message[] = [];
  let length = message.buffer.length;
  let parts = 0;
  const left = () => LEAST_OCTETS + (MOST_RATIO + 1) * message.buffer.length - length;
  /** Opens the forms in a part of `within`, whose bytes begin at `base`. */
  const open = (within: Message, part: Part, base: number, depth: number, parent?: Part): Part => {
    const placed = base === 0 ? part : { ...part, start: part.start + base, end: part.end + base };
    if (part.children.length > 0) {
      const children = part.children.map((child) => open(within, child, base, depth, part));
      if (isEncryptedPgp(part))
        return { ...placed, children: [add(makeNoteMessage(PGP_NOTE), depth), ...children.filter(isFile)] };
      return children.every((child, index) => child === part.children[index]) ? placed : { ...placed, children };
    }
    if (parent !== undefined && isCalendar(within, part)) return { ...placed, type: "text/calendar" };
    const form = depth < MOST_DEPTH && pieces.length <= MOST_FORMS ? openPart(within, part, parent, left()) : undefined;
    if (form === undefined || form.buffer.length > left()) return placed;
    parts += [...walkLeafParts(form.root)].length;
    if (parts > MOST_PARTS) return placed;
    if (form.kind === "message") inner.push(form);
    const children = [
      add(form, depth + 1),
      ...(form.kind === "beside" ? [asFile(placed, isCms(part) ? "smime.p7m" : "winmail.dat")] : []),
    ];
    return { ...placed, type: "multipart/mixed", disposition: noValue(), children };
  };
  const add = (form: Message, depth: number): Part => {
    const base = length;
    pieces.push(form.buffer);
    length += form.buffer.length;
    return open(form, form.root, base, depth);
  };
  const root = open(message, message.root, 0, 0);
  return { buffer: pieces.length === 1 ? message.buffer : Buffer.concat(pieces), root, inner };
}

/** `most`: octets that its content may have. */
function openPart(within: Message, part: Part, parent: Part | undefined, most: number): Form | undefined {
  if (isCms(part)) return openCms(within, part, most);
  if (mayBeTnef(within, part)) return openTnef(within, part);
  if (transferEncodingField(part).startsWith("x-uu")) return openEncoded(within, part);
  if (mayHoldFiles(part) && parent?.type !== "multipart/alternative") return openText(within, part);
  return undefined;
}

/** True for a part that is declared as text and is a calendar file (RFC 5545 §3.4). */
function isCalendar({ buffer }: Message, part: Part): boolean {
  if (part.type !== "text/plain") return false;
  const begin = decodePartOctets(buffer, { ...part, end: Math.min(part.end, part.start + 100) });
  return /^(?:\u00ef\u00bb\u00bf)?\s*BEGIN:VCALENDAR\s/i.test(begin.toString("latin1"));
}

/* S/MIME (RFC 8551 §3) and OpenPGP (RFC 3156 §4). */

/** Texts that stand for a message that only the recipient's mail app can read. */
const SMIME_NOTE = "This message is encrypted with S/MIME. Read it in a mail app that has the key.";
const PGP_NOTE = "This message is encrypted with OpenPGP. Read it in a mail app that has the key.";

const isCms = (part: Part): boolean =>
  /^application\/(?:x-)?pkcs7-mime$/.test(part.type) || (part.type === OCTETS && /\.p7m$/i.test(partFileName(part)));

function openCms(within: Message, part: Part, most: number): Form | undefined {
  const { buffer, root } = within;
  const cms = readCms(decodePartOctets(buffer, part), most);
  if (cms?.kind === "encrypted" && saysAlready(within, SMIME_NOTE)) return undefined;
  if (cms?.kind === "encrypted") return { ...makeNoteMessage(SMIME_NOTE), kind: "beside" };
  if (cms === undefined || !isEntity(cms.content, part === root)) return undefined;
  const inner = tryReadStructure(cms.content);
  return inner && { buffer: cms.content, root: inner, kind: "message" };
}

/** True for a MIME entity. A signed file, such as `contract.pdf.p7m`, is none. */
function isEntity(content: Buffer, mayBeText: boolean): boolean {
  const begin = content.toString("latin1", 0, 1_000);
  if (/^\s*(?:content-[a-z-]{1,50}|mime-version)[ \t]*:/i.test(begin)) return true;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: text has none of these
  return mayBeText && !/[\0-\x08\x0e-\x1f]/.test(begin);
}

/** True for multipart/encrypted, also where Exchange made it multipart/mixed. */
const isEncryptedPgp = ({ children }: Part): boolean => children.some((child) => !isFile(child));

/** False for the part that says the version of OpenPGP's encryption, and nothing else. */
const isFile = ({ type }: Part): boolean => type !== "application/pgp-encrypted";

function makeNoteMessage(text: string): Message {
  const buffer = Buffer.from(text);
  return { buffer, root: makeLeafPart("text/plain", 0, buffer.length) };
}

function asFile(part: Part, defaultName: string): Part {
  const filename = partFileName(part) || defaultName;
  return { ...part, disposition: { value: "attachment", parameters: new Map([["filename", filename]]) } };
}

/* winmail.dat. */

function mayBeTnef({ buffer }: Message, part: Part): boolean {
  if (/^application\/(?:vnd\.)?ms-tnef$/.test(part.type)) return true;
  const end = Math.min(part.end, part.start + 100);
  return part.type === OCTETS && isTnef(decodePartOctets(buffer, { ...part, end }));
}

function openTnef(within: Message, part: Part): Form | undefined {
  const tnef = readTnef(decodePartOctets(within.buffer, part));
  if (tnef === undefined) return undefined;
  const { text, html, files, isWhole } = tnef;
  const contents: Buffer[] = [];
  let length = 0;
  const leaf = (type: string, content: Buffer, filename?: string): Part => {
    contents.push(content);
    length += content.length;
    return makeLeafPart(type, length - content.length, length, filename);
  };
  const textLeaf = (type: string, written: string): Part => {
    const one = leaf(type, Buffer.from(written));
    one.contentType.parameters.set("charset", "utf-8");
    return one;
  };
  const bodies = [
    ...(text === undefined ? [] : [textLeaf("text/plain", text)]),
    ...(html === undefined ? [] : [textLeaf("text/html", html)]),
  ];
  const isSaid = bodies.length === 0 || saysAlready(within, text ?? stripTags(html ?? ""));
  const children = [
    ...(isSaid ? [] : [{ ...makeLeafPart("multipart/alternative", 0, 0), children: bodies }]),
    ...files.map(({ name, type, content, contentId }) => {
      const file = leaf(type, content, name);
      if (contentId !== undefined) file.header.fields.push({ name: "Content-ID", value: `<${contentId}>` });
      return file;
    }),
  ];
  // There is nothing in it, or nothing that is understood.
  if (children.length === 0 && (bodies.length === 0 || !isWhole)) return undefined;
  // It was opened before, and what is in it stands beside it.
  if (!isWhole && isSaid && files.every(({ name }) => hasFile(within.root, name))) return undefined;
  // An empty text stands for what says nothing new.
  const root =
    children.length === 0 ? makeLeafPart("text/plain", 0, 0) : { ...makeLeafPart("multipart/mixed", 0, 0), children };
  return { buffer: Buffer.concat(contents), root, kind: isWhole ? "parts" : "beside" };
}

const hasFile = (root: Part, name: string): boolean => walkLeafParts(root).some((part) => partFileName(part) === name);

/** Characters of each text, and number of texts, that are compared. */
const LONGEST_COMPARED = 100_000;
const MOST_COMPARED = 10;

/** The words in the texts of a message, once they were asked for. */
const wordsSaid = new WeakMap<Part, ReadonlySet<string>>();

function wordsIn({ buffer, root }: Message): ReadonlySet<string> {
  const known = wordsSaid.get(root);
  if (known !== undefined) return known;
  const texts = [...walkLeafParts(root)]
    .filter(({ type }) => /^text\/(?:plain|html)$/.test(type))
    .slice(0, MOST_COMPARED);
  const words = texts.flatMap((part) => {
    const octets = decodePartOctets(buffer, { ...part, end: Math.min(part.end, part.start + LONGEST_COMPARED) });
    const charset = part.contentType.parameters.get("charset") ?? "";
    return splitTextWords(decodeCharset(octets, charset) ?? decodeUnlabelledText(octets));
  });
  const said = new Set(words);
  wordsSaid.set(root, said);
  return said;
}

/** True if a message says in its own texts what a form in it says: Exchange sends the text beside winmail.dat, too. */
function saysAlready(message: Message, text: string): boolean {
  const said = wordsIn(message);
  const words = splitTextWords(text.slice(0, LONGEST_COMPARED));
  return words.length > 0 && words.filter((word) => said.has(word)).length >= 0.9 * words.length;
}

const splitTextWords = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/* uuencode. */

const transferEncodingField = (part: Part): string =>
  (findHeader(part.header.fields, "content-transfer-encoding") ?? "").trim().toLowerCase();

/** Opens a part whose transfer encoding is uuencode. */
function openEncoded({ buffer }: Message, part: Part): Form | undefined {
  const files = (findUuencoded(buffer.subarray(part.start, part.end)) ?? []).filter((piece) => "content" in piece);
  const [file] = files;
  if (file === undefined || files.length > 1) return undefined;
  const root = makeLeafPart(part.type, 0, file.content.length, partFileName(part) || file.name);
  return { buffer: file.content, root, kind: "parts" };
}

const mayHoldFiles = (part: Part): boolean =>
  part.type === "text/plain" && /^(?:inline)?$/.test(part.disposition.value) && partFileName(part) === "";

/** Opens a text that holds files. */
function openText({ buffer }: Message, part: Part): Form | undefined {
  // Most texts need not be decoded for this.
  const isEncoded = transferEncodingField(part).startsWith("base64");
  if (!isEncoded && !buffer.subarray(part.start, part.end).includes("begin ")) return undefined;
  const octets = decodePartOctets(buffer, part);
  const found = findUuencoded(octets);
  if (found === undefined) return undefined;
  const contents: Buffer[] = [];
  let length = 0;
  const children = found.map((piece): Part => {
    const content = "content" in piece ? piece.content : octets.subarray(piece.start, piece.end);
    contents.push(content);
    const start = length;
    length += content.length;
    if ("content" in piece) return makeLeafPart(mediaTypeFromFilename(piece.name), start, length, piece.name);
    return { ...makeLeafPart(part.type, start, length), contentType: part.contentType };
  });
  const root = { ...makeLeafPart("multipart/mixed", 0, 0), children };
  return { buffer: Buffer.concat(contents), root, kind: "parts" };
}

/* Parts. */

/** The type of files that says nothing. */
const OCTETS = "application/octet-stream";

const noValue = (): Part["disposition"] => ({ value: "", parameters: new Map() });

/** A part without transfer encoding. With a name it is a file. */
function makeLeafPart(type: string, start: number, end: number, filename?: string): Part {
  const disposition =
    filename === undefined ? noValue() : { value: "attachment", parameters: new Map([["filename", filename]]) };
  const header = { fields: [], start, bodyStart: start, oversized: false, doubtful: false };
  return { header, type, contentType: { value: type, parameters: new Map() }, disposition, children: [], start, end };
}
