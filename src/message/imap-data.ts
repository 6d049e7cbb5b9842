/**
 * Derives from the octets of a message what IMAP tells about it: ENVELOPE, BODYSTRUCTURE, sections and decoded parts (RFC 9051
 * §7.5.2, §6.4.5). Pure. Strings are latin1, octet by octet.
 */
import { decodeQuotedPrintable, readTransferEncoding } from "./decode.ts";
import { type Part, readStructureOrFile } from "./structure.ts";

/** A message that is nested deeper is told as data. */
const DEEPEST = 10;

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

/** The octets of a message, and its parts. */
export interface Content {
  readonly bytes: Buffer;
  readonly root: Part;
}

/** Opens the octets of a message. Its parts are read when they are first asked for. */
export function openMessageContent(bytes: Buffer): Content {
  let root: Part | undefined;
  return {
    bytes,
    // Many clients want nothing but the octets.
    get root() {
      root ??= readStructureOrFile(bytes);
      return root;
    },
  };
}

const latin1 = (bytes: Buffer, start: number, end: number): string => bytes.toString("latin1", start, end);

/** The fields of a header, each with its line breaks. */
const splitHeaderText = (header: string): string[] => header.split(/(?<=\n)(?![ \t])/);
const headerFieldName = (field: string): string => /^([^\s:]+)[ \t]*:/.exec(field)?.[1]?.toLowerCase() ?? "";

/** The unfolded value of the first field of that name (lower case). */
function fieldIn(header: string, name: string): string | undefined {
  const found = splitHeaderText(header).find((field) => headerFieldName(field) === name);
  return found
    ?.slice(found.indexOf(":") + 1)
    .replace(/\r?\n/g, "")
    .trim();
}

const readHeaderText = (bytes: Buffer, part: Part): string => latin1(bytes, part.header.start, part.header.bodyStart);

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
  const from = formatAddressStructures(fieldIn(header, "from"));
  const or = (name: string): string => {
    const own = formatAddressStructures(fieldIn(header, name));
    return own === "NIL" ? from : own;
  };
  const text = (name: string): string => nstring(fieldIn(header, name));
  return `(${[
    ...[text("date"), text("subject"), from, or("sender"), or("reply-to")],
    ...["to", "cc", "bcc"].map((name) => formatAddressStructures(fieldIn(header, name))),
    ...[text("in-reply-to"), text("message-id")],
  ].join(" ")})`;
}

const envelopeIn = ({ bytes, root }: Content): string => formatImapEnvelope(readHeaderText(bytes, root));

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

/** The message that a part of type message/rfc822 holds; undefined where it is encoded or nested too deep. */
function messageIn({ bytes }: Content, part: Part, depth: number): Content | undefined {
  const encoding = readTransferEncoding(fieldIn(readHeaderText(bytes, part), "content-transfer-encoding"));
  if (part.type !== "message/rfc822" || !/^(?:7bit|8bit|binary)$/.test(encoding) || depth >= DEEPEST) return undefined;
  return openMessageContent(bytes.subarray(part.start, part.end));
}

const linesIn = (bytes: Buffer, start: number, end: number): number => {
  let lines = 0;
  for (let at = bytes.indexOf(0x0a, start); at >= 0 && at < end; at = bytes.indexOf(0x0a, at + 1)) lines++;
  return lines;
};

/** `extended`: BODYSTRUCTURE, else BODY. */
export function formatBodyStructure(content: Content, extended: boolean, part = content.root, depth = 0): string {
  const { bytes } = content;
  const header = readHeaderText(bytes, part);
  const field = (name: string): string => nstring(fieldIn(header, name));
  const { value: disposition, parameters } = part.disposition;
  const dispositionText =
    disposition === "" ? "NIL" : `(${formatImapString(toLatin1(disposition))} ${formatBodyParameters(parameters)})`;
  const languages =
    fieldIn(header, "content-language")
      ?.split(/[\s,]+/)
      .filter((one) => one !== "") ?? [];
  const language = languages.length > 0 ? `(${languages.map(formatImapString).join(" ")})` : "NIL";
  const further = `${dispositionText} ${language} ${field("content-location")}`;
  if (part.children.length > 0) {
    const children = part.children.map((child) => formatBodyStructure(content, extended, child, depth)).join("");
    const [, subtype = "mixed"] = part.type.split("/");
    const more = extended ? ` ${formatBodyParameters(part.contentType.parameters)} ${further}` : "";
    return `(${children} ${formatImapString(subtype)}${more})`;
  }
  const [type = "text", subtype = "plain"] = part.type.split("/");
  const encoding = formatImapString(readTransferEncoding(fieldIn(header, "content-transfer-encoding")));
  const lines = linesIn(bytes, part.start, part.end);
  const inner = messageIn(content, part, depth);
  const named = part.type === "message/rfc822" && !inner ? ["application", "octet-stream"] : [type, subtype];
  const { parameters: given } = part.contentType;
  // RFC 2046 §4.1.2
  const all = type === "text" && !given.has("charset") ? new Map([...given, ["charset", "us-ascii"]]) : given;
  const basic = [
    ...named.map(formatImapString),
    formatBodyParameters(all),
    field("content-id"),
    field("content-description"),
    encoding,
    `${part.end - part.start}`,
  ];
  if (inner) basic.push(envelopeIn(inner), formatBodyStructure(inner, extended, inner.root, depth + 1), `${lines}`);
  else if (type === "text") basic.push(`${lines}`);
  return `(${basic.join(" ")}${extended ? ` ${field("content-md5")} ${further}` : ""})`;
}

/** A part by its number (RFC 9051 §6.4.5.1): of a message that is no multipart, the only part is 1. */
function findNumberedPart(content: Content, numbers: readonly number[]): { content: Content; part: Part } | undefined {
  let within = content;
  let { root: part } = content;
  for (const [depth, number] of numbers.entries()) {
    const inner = depth > 0 && part.children.length === 0 ? messageIn(within, part, depth) : undefined;
    if (inner) {
      within = inner;
      part = inner.root;
    }
    if (part.children.length > 0) {
      const child = part.children[number - 1];
      if (!child) return undefined;
      part = child;
    } else if (number !== 1 || (depth > 0 && !inner)) return undefined;
  }
  return { content: within, part };
}

/** The octets of a section; undefined if the message has no such part. */
export function findMessageSection(
  content: Content,
  { part: numbers, text, fields = [] }: Section,
): Buffer | undefined {
  if (numbers.length === 0 && text === undefined) return content.bytes;
  const found = findNumberedPart(content, numbers);
  if (!found) return undefined;
  const { bytes } = found.content;
  const { part } = found;
  const body = (of: Content, one: Part): Buffer => of.bytes.subarray(one.header.bodyStart, one.end);
  if (text === undefined) return body(found.content, part);
  if (text === "MIME") return bytes.subarray(part.header.start, part.header.bodyStart);
  const message = numbers.length === 0 ? content : messageIn(found.content, part, numbers.length);
  if (!message) return undefined;
  if (text === "TEXT") return message.bytes.subarray(message.root.header.bodyStart);
  const header = readHeaderText(message.bytes, message.root);
  return text === "HEADER" ? Buffer.from(header, "latin1") : selectHeaderFields(header, text, fields);
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
 * itself, a multipart and a message are as they are.
 */
export function decodeNumberedPart(content: Content, numbers: readonly number[]): Decoded | "unknown" | undefined {
  const section = findMessageSection(content, { part: numbers });
  if (!section) return undefined;
  const found = numbers.length === 0 ? undefined : findNumberedPart(content, numbers);
  const isLeaf = found?.part.children.length === 0 && !found.part.type.startsWith("message/");
  const header = isLeaf ? readHeaderText(found.content.bytes, found.part) : "";
  const encoding = readTransferEncoding(fieldIn(header, "content-transfer-encoding"));
  if (encoding === "base64") return { pieces: () => base64Pieces(section) };
  if (encoding === "quoted-printable") return { pieces: () => quotedPrintablePieces(section) };
  return /^(?:7bit|8bit|binary)$/.test(encoding) ? { pieces: () => splitOctets(section) } : "unknown";
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
