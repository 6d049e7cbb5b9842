/**
 * Reads winmail.dat, which Outlook and Exchange write (TNEF, MS-OXTNEF): the body of the message and its files. Bounded: each
 * step takes octets of the file, RTF is decompressed to MOST_RTF at most, and messages are read to a depth of MOST_DEPTH.
 */
import { decodeCharset, decodeUnlabelledText } from "./charset.ts";
import { composeMessage } from "./compose.ts";
import { dateHeader } from "./date.ts";
import { mediaTypeFromFilename, messageFilename } from "./decode.ts";
import { containsRtfHtml, parseRtf } from "./rtf.ts";

export interface TnefFile {
  /** "" if it has none. */
  name: string;
  /** Media type, by its name if nothing else says it. */
  type: string;
  content: Buffer;
  /** Content-ID without angle brackets. */
  contentId?: string;
}

export interface Tnef {
  text?: string;
  html?: string;
  files: TnefFile[];
  /** False if some of it could not be read, or says more than text and files do, such as a contact or an appointment. */
  isWhole: boolean;
}

/** Offset of the first attribute: behind signature and key. */
const HEADER = 6;
const SIGNATURE = 0x223e9f78;
/** Messages inside of each other. */
const MOST_DEPTH = 3;
/** Files of a message; those behind them are not read. */
const MOST_FILES = 1_000;
/** Octets of decompressed RTF, and characters that are read of it. */
const MOST_RTF = 4 * 1024 * 1024;

export const isTnef = (octets: Buffer): boolean => octets.length >= HEADER && octets.readUInt32LE(0) === SIGNATURE;

/** Reads TNEF; undefined for octets that are none. Never throws. */
export function readTnef(octets: Buffer): Tnef | undefined {
  return isTnef(octets) ? bodyAndFiles(readObject(octets, 0)) : undefined;
}

/* Attributes (MS-OXTNEF §2.1.3). */

const ATTRIBUTES = {
  codepage: 0x69007,
  messageClass: 0x78008,
  subject: 0x18004,
  body: 0x2800c,
  properties: 0x69003,
  beginsFile: 0x69002,
  fileTitle: 0x18010,
  fileContent: 0x6800f,
  fileProperties: 0x69005,
};

/** A message, or a file of it, as its attributes and properties say. */
interface Attributes {
  title?: Buffer;
  content?: Buffer;
  properties: Properties;
}

interface TnefObject extends Attributes {
  subject?: Buffer;
  files: Attributes[];
  /** Label of the charset of texts that are not Unicode. */
  charset: string;
  messageClass: string;
  isWhole: boolean;
  depth: number;
}

function readObject(octets: Buffer, depth: number): TnefObject {
  const found: TnefObject = {
    files: [],
    properties: new Map(),
    charset: "windows-1252",
    messageClass: "",
    isWhole: true,
    depth,
  };
  let at = HEADER;
  try {
    while (at < octets.length && (octets[at] === 1 || octets[at] === 2)) {
      const id = octets.readUInt32LE(at + 1) & 0xffffff;
      const length = octets.readUInt32LE(at + 5);
      const start = at + 9;
      if (start + length > octets.length) throw new RangeError();
      readAttribute(found, id, octets.subarray(start, start + length));
      // A checksum of two octets follows.
      at = start + length + 2;
    }
    if (octets.subarray(at).some((octet) => octet > 0x20)) found.isWhole = false;
  } catch {
    found.isWhole = false;
  }
  return found;
}

function readAttribute(found: TnefObject, id: number, value: Buffer): void {
  const file = found.files.at(-1);
  if (id === ATTRIBUTES.codepage) found.charset = codePageCharset(value.readUInt32LE(0));
  else if (id === ATTRIBUTES.messageClass) found.messageClass = value.toString("latin1", 0, 100);
  else if (id === ATTRIBUTES.subject) found.subject = value;
  else if (id === ATTRIBUTES.body) found.content = value;
  else if (id === ATTRIBUTES.properties) readProperties(value, found.properties);
  else if (id === ATTRIBUTES.beginsFile && found.files.length === MOST_FILES) throw new RangeError();
  else if (id === ATTRIBUTES.beginsFile) found.files.push({ properties: new Map() });
  else if (file === undefined) return;
  else if (id === ATTRIBUTES.fileTitle) file.title = value;
  else if (id === ATTRIBUTES.fileContent) file.content = value;
  else if (id === ATTRIBUTES.fileProperties) readProperties(value, file.properties);
}

/* Properties (MS-OXTNEF §2.1.3.4, MS-OXPROPS). */

const PROPERTIES = {
  subject: 0x0037,
  submitted: 0x0039,
  senderName: 0x0c1a,
  senderAddress: 0x0c1f,
  senderSmtp: 0x5d01,
  displayTo: 0x0e04,
  body: 0x1000,
  rtf: 0x1009,
  html: 0x1013,
  htmlCodepage: 0x3fde,
  data: 0x3701,
  filename: 0x3704,
  longFilename: 0x3707,
  displayName: 0x3001,
  mimeType: 0x370e,
  contentId: 0x3712,
};
const WANTED: ReadonlySet<number> = new Set(Object.values(PROPERTIES));

const [STRING, UNICODE, OBJECT, BINARY, TIME] = [0x1e, 0x1f, 0x0d, 0x102, 0x40];
const MULTIPLE = 0x1000;
const NAMED = 0x8000;
/** Octets of a value by its type; of others they come before it. */
const SIZES: Readonly<Record<number, number>> = {
  1: 0,
  2: 4,
  3: 4,
  4: 4,
  5: 8,
  6: 8,
  7: 8,
  10: 4,
  11: 4,
  20: 8,
  [TIME]: 8,
  72: 16,
};

interface Property {
  type: number;
  /** The first value of the property. */
  value: Buffer;
}
/** Properties by their identifier; those that nobody asks for are left out. */
type Properties = Map<number, Property>;

const padded = (length: number): number => Math.ceil(length / 4) * 4;

/** @throws RangeError where a value goes beyond the end, or is of an unknown type */
function readProperties(octets: Buffer, properties: Properties): void {
  let at = 4;
  const word = (): number => {
    at += 4;
    return octets.readUInt32LE(at - 4);
  };
  const take = (length: number): Buffer => {
    if (at + length > octets.length) throw new RangeError();
    at += padded(length);
    return octets.subarray(at - padded(length), at - padded(length) + length);
  };
  for (let left = octets.readUInt32LE(0); left > 0; left--) {
    const tag = word();
    const [type, id] = [tag & 0xffff & ~MULTIPLE, tag >>> 16];
    if (id >= NAMED) {
      take(16);
      if (word() === 1) take(word());
      else word();
    }
    const size = SIZES[type];
    const isCounted = (tag & MULTIPLE) !== 0 || size === undefined;
    if (size === undefined && ![STRING, UNICODE, OBJECT, BINARY].includes(type)) throw new RangeError();
    for (let values = isCounted ? word() : 1, first = true; values > 0; values--, first = false) {
      const value = take(size ?? word());
      if (size === 0 && values > 1) throw new RangeError();
      if (first && WANTED.has(id)) properties.set(id, { type, value });
    }
  }
}

/* The message that they make. */

/** The label of a code page of Windows. */
function codePageCharset(codepage: number): string {
  if (codepage === 65_001) return "utf-8";
  return codepage < 2_000 ? `cp${codepage}` : String(codepage);
}

const decodeTnefText = (octets: Buffer, charset: string): string =>
  endAtNul(decodeCharset(octets, charset) ?? decodeUnlabelledText(octets));

function endAtNul(text: string): string {
  const nul = text.indexOf("\0");
  return (nul < 0 ? text : text.slice(0, nul)).replace(/\r\n?/g, "\n").toWellFormed();
}

/** The text of a property; "" if it is none. */
function readStringProperty({ properties }: Attributes, id: number, charset: string): string {
  const property = properties.get(id);
  if (property?.type === UNICODE) return endAtNul(property.value.toString("utf16le"));
  return property?.type === STRING ? decodeTnefText(property.value, charset) : "";
}

function bodyAndFiles(found: TnefObject): Tnef {
  const { charset } = found;
  const files = found.files.flatMap((file) => readTnefFile(file, found) ?? []);
  const text =
    readStringProperty(found, PROPERTIES.body, charset) ||
    (found.content ? decodeTnefText(found.content, charset) : "");
  const read = { text, html: readTnefHtml(found) };
  const rtf = read.text === "" || read.html === "" ? readTnefRtf(found) : undefined;
  if (rtf !== undefined && containsRtfHtml(rtf)) read.html ||= textOfRtf(rtf, true);
  else if (rtf !== undefined) read.text ||= textOfRtf(rtf, false);
  return {
    ...(read.text.trim() !== "" && { text: read.text }),
    ...(read.html.trim() !== "" && { html: read.html }),
    files,
    // A message that is attached may turn out not to be whole while it is read.
    isWhole:
      found.isWhole && !/appointment|schedule|contact|distlist|task|stickynote|activity/i.test(found.messageClass),
  };
}

function readTnefHtml(found: TnefObject): string {
  const property = found.properties.get(PROPERTIES.html);
  if (property === undefined || property.type === UNICODE) return readStringProperty(found, PROPERTIES.html, "");
  const codepage = found.properties.get(PROPERTIES.htmlCodepage)?.value.readUInt32LE(0);
  return decodeTnefText(property.value, codepage === undefined ? "utf-8" : codePageCharset(codepage));
}

function textOfRtf(rtf: Buffer, html: boolean): string {
  const pieces: string[] = [];
  let room = MOST_RTF;
  const add = (piece: string): void => {
    room -= piece.length;
    if (room >= 0) pieces.push(piece);
  };
  parseRtf(rtf, { add, leaveOut() {}, look() {} }, { html });
  return pieces.join("");
}

/** The identifier with which the data of an attached message begins. */
const MESSAGE = Buffer.from("0703020000000000c000000000000046", "hex");

function readTnefFile(file: Attributes, found: TnefObject): TnefFile | undefined {
  const { charset, depth } = found;
  const string = (id: number): string => readStringProperty(file, id, charset);
  const property = file.properties.get(PROPERTIES.data);
  // The data of an object begins with the identifier of its kind.
  const data = property?.type === OBJECT ? property.value.subarray(MESSAGE.length) : property?.value;
  const content = data ?? file.content;
  if (content === undefined) return undefined;
  const name =
    string(PROPERTIES.longFilename) ||
    (file.title ? decodeTnefText(file.title, charset) : "") ||
    string(PROPERTIES.filename) ||
    string(PROPERTIES.displayName);
  const isMessage = property?.type === OBJECT && property.value.subarray(0, MESSAGE.length).equals(MESSAGE);
  if (isMessage && isTnef(content)) {
    if (depth === MOST_DEPTH) return { name: "winmail.dat", type: "application/ms-tnef", content };
    const { isWhole, ...message } = readTnefMessage(readObject(content, depth + 1), name);
    found.isWhole &&= isWhole;
    return message;
  }
  const type = string(PROPERTIES.mimeType).toLowerCase();
  const contentId = string(PROPERTIES.contentId).replace(/[<>\s]/g, "");
  return {
    name,
    type: MEDIA_TYPE.test(type) && type !== "application/octet-stream" ? type : mediaTypeFromFilename(name),
    content: Buffer.from(content),
    ...(contentId !== "" && { contentId }),
  };
}

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,60}\/[a-z0-9!#$&^_.+-]{1,60}$/;

/** A message that was attached, as a message of the Internet. */
function readTnefMessage(found: TnefObject, name: string): TnefFile & Pick<Tnef, "isWhole"> {
  const string = (id: number): string => readStringProperty(found, id, found.charset);
  const subject = string(PROPERTIES.subject) || (found.subject ? decodeTnefText(found.subject, found.charset) : "");
  const address = [PROPERTIES.senderSmtp, PROPERTIES.senderAddress].map(string).find((one) => one.includes("@"));
  const { text = "", html, files, isWhole } = bodyAndFiles(found);
  const sent = found.properties.get(PROPERTIES.submitted);
  const date = sent?.type === TIME ? readFileTime(sent.value) : undefined;
  const content = composeMessage({
    id: "attached",
    headers: [
      ["From", `"${string(PROPERTIES.senderName).replace(/["\\]/g, "")}"${address ? ` <${address}>` : ""}`],
      ["To", string(PROPERTIES.displayTo)],
      ["Subject", subject],
      ...(date === undefined ? [] : [["Date", dateHeader(date)] as const]),
    ],
    text,
    ...(html !== undefined && { html }),
    attachments: files.map(({ name, type, content, contentId }) => ({
      filename: name,
      contentType: type,
      content,
      inline: contentId !== undefined && html?.includes(`cid:${contentId}`) === true,
      ...(contentId !== undefined && { contentId }),
    })),
  });
  const filename = messageFilename(name || subject) || "message.eml";
  return { name: filename, type: "message/rfc822", content: Buffer.from(content), isWhole };
}

/** Epoch milliseconds of a FILETIME, which counts 100 ns from 1601 on; undefined for a time that no date has. */
function readFileTime(value: Buffer): number | undefined {
  const date = Number(value.readBigUInt64LE(0) / 10_000n) - 11_644_473_600_000;
  return Math.abs(date) < 8e15 && date > 0 && date < 253_402_300_800_000 ? date : undefined;
}

/* Compressed RTF (MS-OXRTFCP). */

const COMPRESSED = 0x75465a4c;
const UNCOMPRESSED = 0x414c454d;
const RTF_HEADER = 16;
const WINDOW = 4_096;
/** Content of the window when the decompression begins (§2.1.3.1.1). */
const INITIAL =
  "{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";

/** The RTF of a message, also of a broken one as far as it can be decompressed. */
function readTnefRtf({ properties }: TnefObject): Buffer | undefined {
  const octets = properties.get(PROPERTIES.rtf)?.value;
  if (octets === undefined || octets.length < RTF_HEADER) return undefined;
  // Seventeen octets of a control and eight references become 136 at most.
  const length = Math.min(octets.readUInt32LE(4), MOST_RTF, 8 * octets.length);
  const kind = octets.readUInt32LE(8);
  if (kind === UNCOMPRESSED) return octets.subarray(RTF_HEADER, RTF_HEADER + length);
  return kind === COMPRESSED ? decompress(octets.subarray(RTF_HEADER), length) : undefined;
}

function decompress(octets: Buffer, length: number): Buffer {
  const rtf = Buffer.alloc(length);
  const window = Buffer.alloc(WINDOW);
  let end = window.write(INITIAL, "latin1");
  let written = 0;
  const put = (octet: number): void => {
    rtf[written++] = octet;
    window[end] = octet;
    end = (end + 1) % WINDOW;
  };
  for (let at = 0; at < octets.length && written < length; ) {
    let control = octets[at++] as number;
    for (let bit = 0; bit < 8 && at < octets.length && written < length; bit++, control >>= 1) {
      if ((control & 1) === 0) {
        put(octets[at++] as number);
        continue;
      }
      const reference = ((octets[at] as number) << 8) | (octets[at + 1] ?? 0);
      at += 2;
      const from = reference >> 4;
      // A reference to where the next octet goes is the end.
      if (from === end) return rtf.subarray(0, written);
      for (let i = 0; i < (reference & 0xf) + 2 && written < length; i++) put(window[(from + i) % WINDOW] as number);
    }
  }
  return rtf.subarray(0, written);
}
