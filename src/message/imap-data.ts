/**
 * Derives from the octets of a message what IMAP tells about it: ENVELOPE, BODYSTRUCTURE, sections and decoded parts (RFC 9051
 * §7.5.2, §6.4.5). Pure. Strings are latin1, octet by octet.
 */
import { decodeQuotedPrintable, readTransferEncoding } from "./decode.ts";
import { MAX_PARTS, type Part, readMessageHeader, tryReadStructure } from "./structure.ts";

/** A message that is nested deeper is told as data. */
const DEEPEST = 10;
/** Characters of BODYSTRUCTURE, at most: 250 for each of 500 attachments. */
export const LONGEST_STRUCTURE = 128 * 1024;
/** Characters of a part in it beside the texts of ImapPart, at most: marks, a number of lines, the type of data. */
const MARKS = 30;

/** The section of a message that a client names, such as `1.2.HEADER` (RFC 9051 §6.4.5). */
export interface Section {
  part: readonly number[];
  text?: "HEADER" | "HEADER.FIELDS" | "HEADER.FIELDS.NOT" | "TEXT" | "MIME";
  fields?: readonly string[];
}

/** A string: quoted where it can be, else a literal. */
export function formatImapString(latin1: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what a quoted string cannot hold
  if (/[\x00-\x1f\x7f-\xff]/.test(latin1) || latin1.length > 1_000) return `{${latin1.length}}\r\n${latin1}`;
  return `"${latin1.replace(/["\\]/g, "\\$&")}"`;
}

const nstring = (text: string | undefined): string => (text === undefined ? "NIL" : formatImapString(text));

/** A part as IMAP tells of it, by position in the octets of the whole message. */
export interface ImapPart {
  /** Offsets of the header, of what follows it, and of the end. */
  start: number;
  bodyStart: number;
  end: number;
  /** Transfer encoding of a leaf. */
  encoding: string;
  /** Type and subtype, of a multipart the subtype alone. */
  type: string;
  /** Text of a leaf behind its type. */
  basic: string;
  /** Text that BODYSTRUCTURE has on top of BODY. */
  extension: string;
  children: ImapPart[];
  message?: NestedMessage;
}

/** The message that a part holds. */
interface NestedMessage {
  envelope: string;
  root: ImapPart;
  lines: number;
}

/** The octets of a message, and its parts. */
export interface Content {
  readonly bytes: Buffer;
  readonly root: ImapPart;
}

/** Opens the octets of a message. Its parts are read when they are first asked for. */
export function openMessageContent(bytes: Buffer): Content {
  let root: ImapPart | undefined;
  return {
    bytes,
    // Many clients want nothing but the octets.
    get root() {
      root ??= readImapParts(bytes);
      return root;
    },
  };
}

const latin1 = (bytes: Buffer, start: number, end: number): string => bytes.toString("latin1", start, end);

/** The fields of a header, each with its line breaks. */
const splitHeaderText = (header: string): string[] => header.split(/(?<=\n)(?![ \t])/);
const headerFieldName = (field: string): string => /^([^\s:]+)[ \t]*:/.exec(field)?.[1]?.toLowerCase() ?? "";

/** Looks up the unfolded value of the first field of a name (lower case). */
type FindField = (name: string) => string | undefined;

function readFields(header: string): FindField {
  const fields = new Map<string, string>();
  for (const field of splitHeaderText(header)) {
    const name = headerFieldName(field);
    if (!fields.has(name)) fields.set(name, field);
  }
  return (name) => {
    const found = fields.get(name);
    return found
      ?.slice(found.indexOf(":") + 1)
      .replace(/\r?\n/g, "")
      .trim();
  };
}

/** Where what began before `from` ends: at `close`, unless `stop` comes first (-1). Backslashes quote. Infinity: it never ends. */
function endOfQuoted(text: string, from: number, close: string, stop?: string): number {
  for (let i = from; i < text.length; i++) {
    const character = text[i];
    if (character === "\\") i++;
    else if (character === close) return i;
    else if (character === stop) return -1;
  }
  return Number.POSITIVE_INFINITY;
}

/** A string, a comment or what is in angle brackets, without its marks. */
interface Enclosed {
  mark: '"' | "(" | "<";
  text: string;
}

/**
 * The tokens of a structured field: what is enclosed, special characters, and other text. In one pass: what never ends is looked
 * for once.
 */
function* tokenizeFieldValue(value: string): Generator<Enclosed | string> {
  const endless = new Set<string>();
  const others = /[^",(<:;]+/y;
  for (let at = 0; at < value.length; ) {
    const mark = value[at] as string;
    if ((mark === '"' || mark === "(" || mark === "<") && !endless.has(mark)) {
      const close = mark === "<" ? value.indexOf(">", at) : -1;
      const end =
        mark === '"'
          ? endOfQuoted(value, at + 1, '"')
          : mark === "("
            ? endOfQuoted(value, at + 1, ")", "(")
            : close < 0
              ? Number.POSITIVE_INFINITY
              : close;
      if (end === Number.POSITIVE_INFINITY) endless.add(mark);
      else if (end >= 0) {
        yield { mark, text: value.slice(at + 1, end) };
        at = end + 1;
        continue;
      }
    }
    others.lastIndex = at;
    const run = others.exec(value)?.[0] ?? mark;
    yield run;
    at += run.length;
  }
}

const unquoted = (text: string): string => text.replace(/\\([\s\S])/g, "$1");

/** An address without comments, white space and quotes. */
const stripAddress = (address: string): string =>
  [...tokenizeFieldValue(address)]
    .map((token) =>
      typeof token === "string"
        ? token.replace(/\s+/g, "")
        : token.mark === '"'
          ? unquoted(token.text)
          : token.mark === "<"
            ? `<${token.text}>`
            : "",
    )
    .join("");

/** The address structures of a field (RFC 9051 §7.5.2), groups included; "NIL" for none. */
export function formatAddressStructures(value: string | undefined): string {
  if (value === undefined) return "NIL";
  const found: string[] = [];
  const add = (name: string | undefined, mailbox: string | undefined, host: string | undefined, hops?: string): void =>
    void found.push(`(${[name, hops, mailbox, host].map(nstring).join(" ")})`);
  let phrase = "";
  let route: string | undefined;
  let comment = "";
  const finishAddress = (): void => {
    // `@one,@two:` before an address is the way to it (RFC 5322 §4.4).
    const [way = "", hops] = /^(@[^:]*):/.exec(route ?? "") ?? [];
    const address = (route?.slice(way.length) ?? phrase).trim();
    const name = route === undefined ? comment.trim() : phrase.trim();
    if (address !== "") {
      const at = address.lastIndexOf("@");
      // A name without an address.
      if (at < 0 && route === undefined && address.includes(" ")) add(address, "", "");
      else {
        const [mailbox, host] = at < 0 ? [address, ""] : [address.slice(0, at), address.slice(at + 1)];
        add(name === "" ? undefined : name, mailbox, host, hops);
      }
    } else if (name !== "") {
      // `<>`
      add(name, "", "");
    }
    phrase = "";
    route = undefined;
    comment = "";
  };
  for (const token of tokenizeFieldValue(value)) {
    if (typeof token !== "string") {
      if (token.mark === '"') phrase += unquoted(token.text);
      else if (token.mark === "(") comment = unquoted(token.text);
      else route = stripAddress(token.text);
    } else if (token === ":") {
      add(undefined, phrase.trim(), undefined);
      phrase = "";
    } else if (token === ",") finishAddress();
    else if (token === ";") {
      finishAddress();
      add(undefined, undefined, undefined);
    } else phrase += token.replace(/\s+/g, " ");
  }
  finishAddress();
  return found.length === 0 ? "NIL" : `(${found.join("")})`;
}

/** ENVELOPE of a message with this header. */
export function formatImapEnvelope(header: string): string {
  const field = readFields(header);
  const from = formatAddressStructures(field("from"));
  const or = (name: string): string => {
    const own = formatAddressStructures(field(name));
    return own === "NIL" ? from : own;
  };
  const text = (name: string): string => nstring(field(name));
  return `(${[
    ...[text("date"), text("subject"), from, or("sender"), or("reply-to")],
    ...["to", "cc", "bcc"].map((name) => formatAddressStructures(field(name))),
    ...[text("in-reply-to"), text("message-id")],
  ].join(" ")})`;
}

/** The octets of a text that structure.ts has read, in UTF-8. */
const toLatin1 = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

const PIECE = /^([^*]+)\*(\d{1,3})(\*?)$/;

/**
 * Joins the pieces of each parameter (RFC 2231 §3), and puts them last. Encoded values stay encoded, and pieces of which one is
 * missing stay apart.
 */
function joinParameterPieces(parameters: ReadonlyMap<string, string>): [name: string, value: string][] {
  const all = [...parameters].map(([name, value]) => {
    const [, of = "", number, mark] = PIECE.exec(name) ?? [];
    return { name, value, of, number: Number(number), isEncoded: mark === "*" };
  });
  const { "": whole = [], ...groups } = Object.groupBy(all, ({ of }) => of);
  const joined = Object.entries(groups).flatMap(([name, pieces = []]) => {
    pieces.sort((a, b) => a.number - b.number);
    if (pieces.some(({ number }, i) => number !== i)) return pieces;
    if (!pieces.some(({ isEncoded }) => isEncoded)) return { name, value: pieces.map(({ value }) => value).join("") };
    const encoded = pieces.map(({ value, isEncoded }) => (isEncoded ? value : value.replaceAll("%", "%25"))).join("");
    // Charset and language are in the first piece, if that is encoded.
    return { name: `${name}*`, value: pieces[0]?.isEncoded ? encoded : `''${encoded}` };
  });
  return [...whole, ...joined].map(({ name, value }) => [name, value]);
}

function formatBodyParameters(parameters: ReadonlyMap<string, string>): string {
  const pairs = joinParameterPieces(parameters).map((pair) =>
    pair.map((text) => formatImapString(toLatin1(text))).join(" "),
  );
  return pairs.length === 0 ? "NIL" : `(${pairs.join(" ")})`;
}

const linesIn = (bytes: Buffer, start: number, end: number): number => {
  let lines = 0;
  for (let at = bytes.indexOf(0x0a, start); at >= 0 && at < end; at = bytes.indexOf(0x0a, at + 1)) lines++;
  return lines;
};

const DATA = '"application" "octet-stream"';
const AS_IS = /^(?:7bit|8bit|binary)$/;

/** Reads a part without those in it. `base`: where the octets that `part` tells of begin in `bytes`. */
function readImapPart(bytes: Buffer, part: Part, base: number): ImapPart {
  const [start, bodyStart, end] = [part.header.start, part.start, part.end].map((at) => at + base) as [
    number,
    number,
    number,
  ];
  const find = readFields(latin1(bytes, start, bodyStart));
  const field = (name: string): string => nstring(find(name));
  const { value: disposition, parameters } = part.disposition;
  const dispositionText =
    disposition === "" ? "NIL" : `(${formatImapString(toLatin1(disposition))} ${formatBodyParameters(parameters)})`;
  const languages =
    find("content-language")
      ?.split(/[\s,]+/)
      .filter((one) => one !== "") ?? [];
  const language = languages.length > 0 ? `(${languages.map(formatImapString).join(" ")})` : "NIL";
  const further = `${dispositionText} ${language} ${field("content-location")}`;
  const { parameters: given } = part.contentType;
  const [type = "text", subtype = "plain"] = part.type.split("/");
  const place = { start, bodyStart, end, children: [] };
  if (part.children.length > 0) {
    const extension = ` ${formatBodyParameters(given)} ${further}`;
    return { ...place, encoding: "7bit", type: formatImapString(subtype), basic: "", extension };
  }
  const encoding = readTransferEncoding(find("content-transfer-encoding"));
  // RFC 2046 §4.1.2
  const all = type === "text" && !given.has("charset") ? new Map([...given, ["charset", "us-ascii"]]) : given;
  const basic = [
    formatBodyParameters(all),
    field("content-id"),
    field("content-description"),
    formatImapString(encoding),
    `${end - bodyStart}`,
    ...(type === "text" ? [`${linesIn(bytes, bodyStart, end)}`] : []),
  ].join(" ");
  const extension = ` ${field("content-md5")} ${further}`;
  return { ...place, encoding, type: [type, subtype].map(formatImapString).join(" "), basic, extension };
}

/** Parts, and characters of BODYSTRUCTURE, that a message with all that are nested in it may still have. */
interface Budget {
  parts: number;
  characters: number;
}

/** Reads the message from `start` to `end`. Undefined if it exceeds the limits or the budget; messages in it that do are data. */
function readMessage(
  bytes: Buffer,
  [start, end]: readonly [start: number, end: number],
  budget: Budget,
  depth = 0,
): NestedMessage | undefined {
  const structure = tryReadStructure(bytes.subarray(start, end), budget.parts);
  if (!structure) return undefined;
  const envelope = depth === 0 ? "" : formatImapEnvelope(latin1(bytes, start, start + structure.start));
  const left = { parts: budget.parts, characters: budget.characters - envelope.length };
  const messages: ImapPart[] = [];
  const read = (part: Part): ImapPart => {
    const told = readImapPart(bytes, part, start);
    left.parts--;
    left.characters -= told.type.length + told.basic.length + told.extension.length + MARKS;
    if (part.type === "message/rfc822" && part.children.length === 0) messages.push(told);
    told.children = part.children.map(read);
    return told;
  };
  const root = read(structure);
  if (left.characters < 0) return undefined;
  Object.assign(budget, left);
  for (const part of messages) {
    const canBeRead = AS_IS.test(part.encoding) && depth < DEEPEST;
    const message = canBeRead ? readMessage(bytes, [part.bodyStart, part.end], budget, depth + 1) : undefined;
    if (message) part.message = message;
    else part.type = DATA;
  }
  return { envelope, root, lines: depth === 0 ? 0 : linesIn(bytes, start, end) };
}

/** The parts of a message; one that exceeds the limits is a single file below its header. */
function readImapParts(bytes: Buffer): ImapPart {
  const message = readMessage(bytes, [0, bytes.length], { parts: MAX_PARTS, characters: LONGEST_STRUCTURE });
  if (message) return message.root;
  const { bodyStart } = readMessageHeader(bytes);
  const encoding = readTransferEncoding(readFields(latin1(bytes, 0, bodyStart))("content-transfer-encoding"));
  const basic = `NIL NIL NIL ${formatImapString(encoding)} ${bytes.length - bodyStart}`;
  const place = { start: 0, bodyStart, end: bytes.length, children: [] };
  return { ...place, encoding, type: DATA, basic, extension: " NIL NIL NIL NIL" };
}

/** `extended`: BODYSTRUCTURE, else BODY. */
export const formatBodyStructure = ({ root }: Pick<Content, "root">, extended: boolean): string =>
  formatPart(root, extended);

function formatPart({ type, basic, extension, children, message }: ImapPart, extended: boolean): string {
  const more = extended ? extension : "";
  if (children.length > 0) return `(${children.map((child) => formatPart(child, extended)).join("")} ${type}${more})`;
  const held = message ? ` ${message.envelope} ${formatPart(message.root, extended)} ${message.lines}` : "";
  return `(${type} ${basic}${held}${more})`;
}

/** A part by its number (RFC 9051 §6.4.5.1): of a message that is no multipart, the only part is 1. */
function findNumberedPart(root: ImapPart, numbers: readonly number[]): ImapPart | undefined {
  let part = root;
  for (const [depth, number] of numbers.entries()) {
    const inner = depth > 0 ? part.message?.root : undefined;
    part = inner ?? part;
    if (part.children.length > 0) {
      const child = part.children[number - 1];
      if (!child) return undefined;
      part = child;
    } else if (number !== 1 || (depth > 0 && !inner)) return undefined;
  }
  return part;
}

/** The octets of a section; undefined if the message has no such part. */
export function findMessageSection(
  content: Content,
  { part: numbers, text, fields = [] }: Section,
): Buffer | undefined {
  const isWhole = numbers.length === 0;
  // Its parts are not read for that.
  if (isWhole && text === undefined) return content.bytes;
  const { bytes, root } = content;
  const part = findNumberedPart(root, numbers);
  if (!part) return undefined;
  if (text === undefined) return bytes.subarray(part.bodyStart, part.end);
  if (text === "MIME") return bytes.subarray(part.start, part.bodyStart);
  const message = isWhole ? root : part.message?.root;
  if (!message) return undefined;
  if (text === "TEXT") return bytes.subarray(message.bodyStart, isWhole ? bytes.length : part.end);
  const header = bytes.subarray(message.start, message.bodyStart);
  return text === "HEADER" ? header : selectHeaderFields(header.toString("latin1"), text, fields);
}

/** The fields of a header with these names, or all but those, and an empty line. */
export function selectHeaderFields(
  header: string,
  of: "HEADER.FIELDS" | "HEADER.FIELDS.NOT",
  names: readonly string[],
): Buffer {
  const asked = new Set(names.map((name) => name.toLowerCase()));
  const wanted = splitHeaderText(header).filter(
    (field) => field.trim() !== "" && asked.has(headerFieldName(field)) === (of === "HEADER.FIELDS"),
  );
  return Buffer.from(`${wanted.join("")}\r\n`, "latin1");
}

/** Octets decoded at once: a few ms. */
const CHUNK = 256 * 1024;

/** A part without its transfer encoding (RFC 3516). Each run of `pieces` decodes it anew, piece by piece. */
export interface Decoded {
  pieces(): Generator<Buffer>;
}

/**
 * A part for BINARY; undefined if the message has no such part, "unknown" for an encoding that we do not know. The message
 * itself and a multipart are as they are.
 */
export function decodeNumberedPart(
  { bytes, root }: Content,
  numbers: readonly number[],
): Decoded | "unknown" | undefined {
  if (numbers.length === 0) return { pieces: () => splitOctets(bytes) };
  const part = findNumberedPart(root, numbers);
  if (!part) return undefined;
  const section = bytes.subarray(part.bodyStart, part.end);
  if (part.encoding === "base64") return { pieces: () => base64Pieces(section) };
  if (part.encoding === "quoted-printable") return { pieces: () => quotedPrintablePieces(section) };
  return AS_IS.test(part.encoding) ? { pieces: () => splitOctets(section) } : "unknown";
}

export function* splitOctets<T extends Uint8Array>(octets: T): Generator<T> {
  for (let at = 0; at < octets.length; at += CHUNK) yield octets.subarray(at, at + CHUNK) as T;
}

function* base64Pieces(octets: Buffer): Generator<Buffer> {
  let left = "";
  for (const piece of splitOctets(octets)) {
    const digits = left + piece.toString("latin1").replace(/[^A-Za-z0-9+/=]+/g, "");
    const padding = digits.indexOf("=");
    const whole = padding < 0 ? digits.length - (digits.length % 4) : padding;
    yield Buffer.from(digits.slice(0, whole), "base64");
    if (padding >= 0) return;
    left = digits.slice(whole);
  }
  yield Buffer.from(left, "base64");
}

/** Whole lines. */
function* quotedPrintablePieces(octets: Buffer): Generator<Buffer> {
  for (let at = 0; at < octets.length; ) {
    const lineEnd = octets.indexOf(0x0a, at + CHUNK);
    const end = lineEnd < 0 ? octets.length : lineEnd + 1;
    yield decodeQuotedPrintable(octets.subarray(at, end));
    at = end;
  }
}
