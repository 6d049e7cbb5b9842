/**
 * Reads RTF (Rich Text Format 1.9.1): its text, or the HTML that a mail program encapsulated in it (MS-OXRTFEX). Pictures,
 * objects, style sheets and other tables are not text. Linear time.
 */
import { escapeHtml } from "./text.ts";

/** Receives a text while it is read. */
interface Receiver {
  add(text: string): void;
  /** Counts hidden or deleted characters. */
  leaveOut(what: string, count: number): void;
  /** Called at each step, also where there is no text. */
  look(): void;
}

/** Groups inside each other. */
const MOST_DEPTH = 1_000;

/** Destinations that hold no text of the document. Those behind `\*` do not either, unless they are in `SHOWN`. */
const NOT_TEXT = new Set(
  "fonttbl colortbl stylesheet info pict object listtable listoverridetable revtbl rsidtbl filetbl xmlnstbl fldinst themedata colorschememapping datastore latentstyles generator template private bkmkstart bkmkend nonshppict sp".split(
    " ",
  ),
);
const SHOWN = new Set(["shptxt", "shpinst", "shp", "fldrslt", "footnote", "annotation", "pntext"]);

/** Words that stand for characters. */
const CHARACTERS: Readonly<Record<string, string>> = {
  par: "\n",
  line: "\n",
  sect: "\n",
  row: "\n",
  nestrow: "\n",
  page: "\n\n--- page break ---\n\n",
  tab: "\t",
  cell: "\t",
  nestcell: "\t",
  emdash: "—",
  endash: "–",
  emspace: " ",
  enspace: " ",
  bullet: "•",
  lquote: "‘",
  rquote: "’",
  ldblquote: "“",
  rdblquote: "”",
};
/** Symbols behind a backslash that stand for characters. */
const SYMBOLS: Readonly<Record<string, string>> = {
  "~": "\u00a0",
  _: "-",
  "\\": "\\",
  "{": "{",
  "}": "}",
  "\n": "\n",
  "\r": "\n",
};

/** Encodings by `\fcharset`. Others are the document's. */
const CHARSETS: Readonly<Record<number, string>> = {
  0: "windows-1252",
  77: "macintosh",
  128: "shift_jis",
  129: "euc-kr",
  134: "gbk",
  136: "big5",
  161: "windows-1253",
  162: "windows-1254",
  163: "windows-1258",
  177: "windows-1255",
  178: "windows-1256",
  186: "windows-1257",
  204: "windows-1251",
  222: "windows-874",
  238: "windows-1250",
};

interface Group {
  /** Its text does not count; `fonts`: it is the table of fonts. */
  skips: boolean;
  fonts: boolean;
  hides: "characters of hidden text" | "characters of deleted text" | undefined;
  encoding: string | undefined;
  /** Bytes that stand behind `\u`, for readers without Unicode. */
  fallback: number;
  /** Text that is written at the end of the group. */
  ends: string;
  /** Its text is HTML as it was; or it is the RTF in place of that, for readers without HTML. */
  isHtml: boolean;
  isInstead: boolean;
}

const TOKEN = /\\([a-zA-Z]{1,40})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)/g;

/** True if RTF encapsulates HTML. */
export const containsRtfHtml = (bytes: Uint8Array): boolean =>
  Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 1_000)).includes("\\fromhtml");

/** False if groups are too deep inside each other; what was read is with the receiver then. `html`: what is read is its HTML. */
export function parseRtf(bytes: Uint8Array, text: Receiver, { html = false } = {}): boolean {
  const source = new TextDecoder("latin1").decode(bytes);
  const groups: Group[] = [];
  let group: Group = {
    skips: false,
    fonts: false,
    hides: undefined,
    encoding: undefined,
    fallback: 1,
    ends: "",
    isHtml: false,
    isInstead: false,
  };
  const fonts = new Map<number, string>();
  let font = 0;
  let codePage = "windows-1252";
  let bytesOfText: number[] = [];
  /** Characters that stand for the `\u` before them. */
  let replaced = 0;
  /** A group has begun, and its first word may make it a destination. */
  let isFirst = false;
  let isOptional = false;

  function put(piece: string): void {
    if (group.skips || group.isInstead) return;
    if (html) text.add(group.isHtml ? piece : escapeHtml(piece));
    else if (group.hides) text.leaveOut(group.hides, piece.length);
    else text.add(piece);
  }

  function flush(): void {
    if (bytesOfText.length === 0) return;
    const octets = Uint8Array.from(bytesOfText);
    bytesOfText = [];
    put(new TextDecoder((group.encoding ?? codePage) as Bun.Encoding).decode(octets));
  }

  function putByte(byte: number): void {
    if (replaced > 0) replaced--;
    else bytesOfText.push(byte);
  }

  function endDestination(name: string, wasFirst: boolean): void {
    if (!wasFirst) return;
    if (name === "fonttbl") group.fonts = true;
    if (html && name === "htmltag") group.isHtml = true;
    else if (NOT_TEXT.has(name) || (isOptional && !SHOWN.has(name))) group.skips = true;
    else if (name === "footnote" || name === "annotation") {
      put(" [");
      group.ends = "]";
    }
    isOptional = false;
  }

  function word(name: string, given: string | undefined): void {
    const number = given === undefined ? undefined : Number(given);
    const isOn = number !== 0;
    const character = CHARACTERS[name];
    if (name === "u" && number !== undefined) {
      flush();
      put(String.fromCharCode(number & 0xffff));
      replaced = group.fallback;
    } else if (character !== undefined && Object.hasOwn(CHARACTERS, name)) {
      flush();
      put(character);
    } else if (name === "uc") group.fallback = Math.min(10, Math.max(0, number ?? 1));
    else if (name === "v" || name === "deleted") {
      flush();
      const what = name === "v" ? "characters of hidden text" : "characters of deleted text";
      group.hides = isOn ? what : undefined;
    } else if (name === "plain") {
      flush();
      group.hides = undefined;
    } else if (name === "htmlrtf" && html) {
      flush();
      group.isInstead = isOn;
    } else if (name === "ansicpg") codePage = findCodePageEncoding(number) ?? codePage;
    else if (name === "mac") codePage = "macintosh";
    else if (name === "f" || name === "deff") {
      flush();
      font = number ?? 0;
      if (!group.fonts) group.encoding = fonts.get(font);
    } else if (name === "fcharset" && group.fonts) {
      const encoding = CHARSETS[number ?? -1];
      if (encoding) fonts.set(font, encoding);
    }
  }

  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(source); match; match = TOKEN.exec(source)) {
    text.look();
    const [, name, number, hex, symbol, brace, plain] = match;
    const wasFirst: boolean = isFirst;
    isFirst = false;
    if (brace === "{") {
      flush();
      if (groups.length === MOST_DEPTH) return false;
      groups.push(group);
      group = { ...group, ends: "" };
      isFirst = true;
      isOptional = false;
      replaced = 0;
    } else if (brace === "}") {
      flush();
      put(group.ends);
      const before = groups.pop();
      if (!before) break;
      group = before;
      replaced = 0;
      // What follows the end of the document is no part of it.
      if (groups.length === 0) break;
    } else if (name !== undefined) {
      if (name === "bin") TOKEN.lastIndex += Math.max(0, Number(number ?? 0));
      endDestination(name, wasFirst);
      word(name, number);
    } else if (hex !== undefined) putByte(Number.parseInt(hex, 16));
    else if (symbol === "*") {
      isOptional = wasFirst;
      isFirst = wasFirst;
    } else if (symbol !== undefined) {
      flush();
      put(SYMBOLS[symbol] ?? "");
    } else if (plain !== undefined && !group.skips)
      for (const character of plain) putByte(character.charCodeAt(0) & 0xff);
  }
  flush();
  return true;
}

function findCodePageEncoding(codePage = 1252): string | undefined {
  const name = {
    932: "shift_jis",
    936: "gbk",
    949: "euc-kr",
    950: "big5",
    10000: "macintosh",
    65001: "utf-8",
    874: "windows-874",
  }[codePage];
  return name ?? (codePage >= 1250 && codePage <= 1258 ? `windows-${codePage}` : undefined);
}
