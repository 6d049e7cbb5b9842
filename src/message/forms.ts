/**
 * Opens the forms in which mail programs wrap what they send (rules: Forms of mail): opaque S/MIME, and files that are uuencoded
 * in a text. Their contents take their place in the tree of parts, and are read as other parts are.
 *
 * What was wrapped is appended to the bytes of the message, and its parts have their offsets there. The tree that is given stays
 * as it is. The depth, the number of forms and that of parts are bounded.
 */
import { decodeOctets } from "./charset.ts";
import { fileNameOf, octetsOf } from "./decode.ts";
import { headerOf } from "./headers.ts";
import { readCms } from "./smime.ts";
import { leavesOf, type Part, structureOf } from "./structure.ts";
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
export function openForms(message: Message): Message & { inner: Message[] } {
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
        return { ...placed, children: [add(noteOf(PGP_NOTE), depth), ...children.filter(isFile)] };
      return children.every((child, index) => child === part.children[index]) ? placed : { ...placed, children };
    }
    const form = depth < MOST_DEPTH && pieces.length <= MOST_FORMS ? openPart(within, part, parent, left()) : undefined;
    if (form === undefined || form.buffer.length > left()) return placed;
    parts += [...leavesOf(form.root)].length;
    if (parts > MOST_PARTS) return placed;
    if (form.kind === "message") inner.push(form);
    const children = [add(form, depth + 1), ...(form.kind === "beside" ? [asFile(placed)] : [])];
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
  if (encodingOf(part).startsWith("x-uu")) return openEncoded(within, part);
  if (mayHoldFiles(part) && parent?.type !== "multipart/alternative") return openText(within, part);
  return undefined;
}

/* S/MIME (RFC 8551 §3) and OpenPGP (RFC 3156 §4). */

/** What people read in place of what only the recipient's mail app can. */
const SMIME_NOTE = "This message is encrypted with S/MIME. Read it in a mail app that has the key.";
const PGP_NOTE = "This message is encrypted with OpenPGP. Read it in a mail app that has the key.";

const isCms = (part: Part): boolean =>
  /^application\/(?:x-)?pkcs7-mime$/.test(part.type) ||
  (part.type === "application/octet-stream" && /\.p7m$/i.test(fileNameOf(part)));

function openCms({ buffer, root }: Message, part: Part, most: number): Form | undefined {
  const cms = readCms(octetsOf(buffer, part), most);
  if (cms?.kind === "encrypted") return { ...noteOf(SMIME_NOTE), kind: "beside" };
  if (cms === undefined || !isEntity(cms.content, part === root)) return undefined;
  const inner = structureOf(cms.content);
  return inner && { buffer: cms.content, root: inner, kind: "message" };
}

/** True for a MIME entity. A signed file, such as `contract.pdf.p7m`, is none. */
function isEntity(content: Buffer, mayBeText: boolean): boolean {
  const begin = content.toString("latin1", 0, 1_000);
  if (/^\s*(?:content-[a-z-]{1,50}|mime-version)[ \t]*:/i.test(begin)) return true;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: text has none of these
  return mayBeText && !/[\0-\x08\x0e-\x1f]/.test(begin);
}

const isEncryptedPgp = ({ type, children }: Part): boolean =>
  type === "multipart/encrypted" && children.some((child) => child.type === "application/pgp-encrypted");

/** False for the part that says the version of OpenPGP's encryption, and nothing else. */
const isFile = ({ type }: Part): boolean => type !== "application/pgp-encrypted";

function noteOf(text: string): Message {
  const buffer = Buffer.from(text);
  return { buffer, root: leafOf("text/plain", 0, buffer.length) };
}

function asFile(part: Part): Part {
  const filename = fileNameOf(part) || "smime.p7m";
  return { ...part, disposition: { value: "attachment", parameters: new Map([["filename", filename]]) } };
}

/* uuencode. */

const encodingOf = (part: Part): string =>
  (headerOf(part.header.fields, "content-transfer-encoding") ?? "").trim().toLowerCase();

/** Opens a part whose transfer encoding is uuencode. */
function openEncoded({ buffer }: Message, part: Part): Form | undefined {
  const files = (findUuencoded(buffer.subarray(part.start, part.end)) ?? []).filter((piece) => "content" in piece);
  const [file] = files;
  if (file === undefined || files.length > 1) return undefined;
  const root = leafOf(part.type, 0, file.content.length, fileNameOf(part) || file.name);
  return { buffer: file.content, root, kind: "parts" };
}

const mayHoldFiles = (part: Part): boolean =>
  part.type === "text/plain" && /^(?:inline)?$/.test(part.disposition.value) && fileNameOf(part) === "";

/** Opens a text that holds files. */
function openText({ buffer }: Message, part: Part): Form | undefined {
  // Most texts need not be decoded for this.
  const isEncoded = encodingOf(part).startsWith("base64");
  if (!isEncoded && !buffer.subarray(part.start, part.end).includes("begin ")) return undefined;
  const octets = octetsOf(buffer, part);
  const found = findUuencoded(octets);
  if (found === undefined) return undefined;
  const contents: Buffer[] = [];
  let length = 0;
  const children = found.map((piece): Part => {
    const content = "content" in piece ? piece.content : octets.subarray(piece.start, piece.end);
    contents.push(content);
    const start = length;
    length += content.length;
    if ("content" in piece) return leafOf("application/octet-stream", start, length, piece.name);
    return { ...leafOf(part.type, start, length), contentType: part.contentType };
  });
  const root = { ...leafOf("multipart/mixed", 0, 0), children };
  return { buffer: Buffer.concat(contents), root, kind: "parts" };
}

/* Parts. */

const noValue = (): Part["disposition"] => ({ value: "", parameters: new Map() });

/** A part without transfer encoding. With a name it is a file. */
function leafOf(type: string, start: number, end: number, filename?: string): Part {
  const disposition =
    filename === undefined
      ? noValue()
      : {
          value: "attachment",
          parameters: new Map([["filename", decodeOctets(Buffer.from(filename, "latin1"))]]),
        };
  const header = { fields: [], start, bodyStart: start, oversized: false, doubtful: false };
  return { header, type, contentType: { value: type, parameters: new Map() }, disposition, children: [], start, end };
}
