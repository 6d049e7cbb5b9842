/**
 * Decodes octets to text that every reader can receive.
 *
 * Mail often names its charset wrongly or leaves it out. Octets that are invalid in the claimed charset are decoded in
 * the most likely one, which avoids a text of replacement characters. The platform knows the charsets of the Encoding
 * Standard; iconv-lite, whose only user this is, knows those of DOS and rarer ones.
 */
import { isAscii, isUtf8 } from "node:buffer";
import iconv from "iconv-lite";
import { shiftedDecoder } from "./shifted.ts";

/** Charset names seen in mail that the Encoding Standard does not list. */
const ALIASES: Record<string, string> = {
  cp932: "shift_jis",
  "windows-31j": "shift_jis",
  cp936: "gbk",
  cp949: "euc-kr",
  "ks_c_5601-1992": "euc-kr",
  cp950: "big5",
  "iso-2022-jp-1": "iso-2022-jp",
  "iso-2022-jp-2": "iso-2022-jp",
  "iso-2022-jp-3": "iso-2022-jp",
  "iso-2022-jp-ms": "iso-2022-jp",
  cp1250: "windows-1250",
  cp874: "windows-874",
  cp866: "ibm866",
  "utf-8-mac": "utf-8",
};

/** The names in TextDecoder's type; any other throws. */
type Label = ConstructorParameters<typeof TextDecoder>[0];

const MAX_UTF7 = 1024 * 1024;

interface Decoder {
  /** Text in the charset is almost never valid UTF-8, unless it is ASCII: octets that are valid have a wrong label. */
  singleByte: boolean;
  decode(octets: Uint8Array): string;
}

const decoders = new Map<string, Decoder | undefined>();

function findCharsetDecoder(charset: string): Decoder | undefined {
  const name = charset.toLowerCase().trim();
  if (!decoders.has(name)) {
    // Senders choose the names, so the cache is bounded.
    if (decoders.size >= 500) decoders.clear();
    decoders.set(name, createDecoder(ALIASES[name] ?? name));
  }
  return decoders.get(name);
}

function createDecoder(name: string): Decoder | undefined {
  const shifted = shiftedDecoder(name);
  if (shifted) return { singleByte: false, decode: shifted };
  try {
    const decoder = new TextDecoder(name as Label);
    return { singleByte: SINGLE_BYTE.test(decoder.encoding), decode: (octets) => decoder.decode(octets) };
  } catch {}
  if (name.length > LONGEST_NAME || NO_CHARSET.test(name) || !iconv.encodingExists(name)) return undefined;
  return { singleByte: SINGLE_BYTE.test(name), decode: (octets) => iconv.decode(octets, name) };
}

const LONGEST_NAME = 100;
/** Names that iconv-lite takes for encodings and that are no charsets. */
const NO_CHARSET = /^[^a-z]*(?:base64|hex|binary|internal|utf-?7)/;

/** True for the labels of what any octets may be, and for none. */
const isUtf8OrAscii = (charset: string): boolean => /^(?:utf-?8|(?:us-?)?ascii|)$/i.test(charset.trim());

/** Charsets in which each octet is a character. */
const SINGLE_BYTE = /^(?:windows|iso-8859|koi8|(?:cs)?(?:ibm|cp|pc|dos)-?\d|\d+$|mac|x-mac)/;

/**
 * Text of octets in `charset`. Octets that are invalid there become replacement characters. Undefined for an unknown
 * charset, and for US-ASCII and UTF-8 that are invalid.
 */
export function decodeCharset(octets: Uint8Array, charset: string): string | undefined {
  const name = charset.toLowerCase().trim();
  if (isWideCharset(name) && !isUtf16(octets)) return decodeUnlabelledText(octets);
  if (isUtf8OrAscii(name)) return decodeUtf8OrIso2022Jp(octets);
  if (name === "utf-7" || name === "unicode-1-1-utf-7") {
    // UTF-7 is rare today, and decoding a lot of it is slow.
    return octets.length > MAX_UTF7 ? decodeUnlabelledText(octets) : decodeUtf7(Buffer.from(octets).toString("latin1"));
  }
  if (name.startsWith("iso-2022-jp")) {
    if (!octets.some((octet) => octet >= 0x80)) return decodeJis(octets);
    // ISO-2022-JP has no 8-bit octets: mailers that send them mean one of the other two Japanese charsets.
    return decodeStrictly(octets, "euc-jp") ?? decodeStrictly(octets, "shift_jis") ?? decodeUnlabelledText(octets);
  }
  const decoder = findCharsetDecoder(name);
  const isCertain = isJis(octets) || (decoder?.singleByte === true && isUtf8(octets));
  return isCertain ? decodeUtf8OrIso2022Jp(octets) : decoder?.decode(octets);
}

/** True if a label tells how to read 8-bit octets among ASCII. */
export const isEightBitCharset = (charset: string): boolean =>
  !isUtf8OrAscii(charset) && !isWideCharset(charset) && findCharsetDecoder(charset) !== undefined;

/** True if `charset` encodes ASCII differently. */
export function isWideCharset(charset: string): boolean {
  return /^(?:cs)?(?:utf16|ucs2|unicode$|iso10646)/.test(charset.toLowerCase().replace(/[^a-z\d]/g, ""));
}

/** In other scripts an octet may equal a space or a line feed by chance: this many are tolerated for each real one. */
const BY_CHANCE = 8;

/** Text labelled UTF-16 is something else if its spaces and line feeds have no zero octet, or if it is all ASCII. */
function isUtf16(octets: Uint8Array): boolean {
  let wide = 0;
  let narrow = 0;
  let isAscii = true;
  for (const [i, octet] of octets.entries()) {
    isAscii &&= octet > 0x00 && octet < 0x7f;
    if (octet !== 0x20 && octet !== 0x0a) continue;
    if (octets[i - 1] === 0 || octets[i + 1] === 0) wide++;
    else narrow++;
  }
  return narrow <= BY_CHANCE * wide && !isAscii;
}

/** RFC 2152: runs of base64 of UTF-16 between `+` and `-`. */
function decodeUtf7(text: string): string {
  return text.replace(/\+([A-Za-z0-9+/]*)-?/g, (_, run: string) => {
    if (run === "") return "+";
    const units = Buffer.from(run, "base64");
    return units
      .subarray(0, units.length & ~1)
      .swap16()
      .toString("utf16le");
  });
}

const utf8 = new TextDecoder("utf-8", { fatal: true });
const lenientUtf8 = new TextDecoder("utf-8");
const windows1252 = new TextDecoder("windows-1252");
const iso2022jp = new TextDecoder("iso-2022-jp");

/**
 * Text of octets whose charset needs no label: UTF-8 (RFC 6532), or ISO-2022-JP, which announces its characters. Undefined
 * for other octets.
 */
export function decodeUtf8OrIso2022Jp(octets: Uint8Array): string | undefined {
  try {
    const text = utf8.decode(octets);
    return text.includes(ESC) && isJis(octets) ? decodeJis(octets) : text;
  } catch {
    return undefined;
  }
}

/** Text of octets that name no charset: UTF-8, or windows-1252, the usual charset of unlabelled 8-bit mail. */
export function decodeUnlabelledText(octets: Uint8Array): string {
  return decodeUtf8OrIso2022Jp(octets) ?? decodeNearUtf8(octets, 4) ?? windows1252.decode(octets);
}

/**
 * Text of invalid UTF-8 that is mostly valid: with at most `most` invalid characters for each other one outside ASCII. Octets
 * that begin no character, as of a quotation in windows-1252, are read in that.
 */
export function decodeNearUtf8(octets: Uint8Array, most: number): string | undefined {
  if (!isMostlyValid(lenientUtf8.decode(octets), most)) return undefined;
  const mended = Buffer.from(octets)
    .toString("latin1")
    .replace(STRAY, (run) => Buffer.from(windows1252.decode(Buffer.from(run, "latin1"))).toString("latin1"));
  return lenientUtf8.decode(Buffer.from(mended, "latin1"));
}

/** Octets that only continue characters of UTF-8, behind none, and that are characters of windows-1252. */
const STRAY = /(?<![\x80-\xff])[\x80\x82-\x8c\x8e\x91-\x9c\x9e-\xbf]+/g;

/** The charset of octets that the declared one does not fit. */
export type Guess = () => Promise<string>;

export const guessWindows1252: Guess = () => Promise.resolve("windows-1252");

/**
 * Text of octets that are invalid in the declared charset, where they are `text`: UTF-8 if they are valid there, else the
 * first of declared charset, UTF-8 and guessed charset in which they are mostly valid.
 */
export async function decodeMislabelledText(
  octets: Uint8Array,
  text: string | undefined,
  guess: Guess,
): Promise<string> {
  const isOther = text !== lenientUtf8.decode(octets) && isMostlyValid(text, 1);
  const known = decodeUtf8OrIso2022Jp(octets) ?? (isOther ? text : decodeNearUtf8(octets, 1));
  if (known !== undefined) return known;
  const guessed = decodeCharset(octets, await guess());
  return isMostlyValid(guessed, 1 / 10) ? guessed : (text ?? decodeUnlabelledText(octets));
}

/** `most`: the number of invalid characters that are allowed for each other one outside ASCII. */
function isMostlyValid(text: string | undefined, most: number): text is string {
  if (text === undefined) return false;
  const { wrong, foreign } = countForeign(text);
  return wrong <= most * foreign;
}

/** The number of replacement characters in a text, and of other characters outside ASCII. */
function countForeign(text: string): { wrong: number; foreign: number } {
  let wrong = 0;
  let foreign = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0xfffd) wrong++;
    else if (unit >= 0x80) foreign++;
  }
  return { wrong, foreign };
}

/** Escape sequences of ISO-2022-JP (RFC 1468), and the one of half-width katakana. */
const ESC = "\x1b";
const TO_KANJI = new RegExp(String.raw`${ESC}\$[@B]`);
const ESCAPE = String.raw`${ESC}(?:\$[@B]|\([BIJ])`;
const OVERRIDDEN = new RegExp(`${ESCAPE}(?=${ESCAPE})`, "g");

function isJis(octets: Uint8Array): boolean {
  if (!octets.includes(ESC.charCodeAt(0))) return false;
  return TO_KANJI.test(Buffer.from(octets).toString("latin1")) && isAscii(octets);
}

/**
 * Decodes ISO-2022-JP. The last of consecutive escape sequences counts; the decoder would write a replacement character between
 * them.
 */
function decodeJis(octets: Uint8Array): string {
  const text = Buffer.from(octets).toString("latin1").replace(OVERRIDDEN, "");
  return iso2022jp.decode(Buffer.from(text, "latin1"));
}

function decodeStrictly(octets: Uint8Array, charset: Label): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(octets);
  } catch {
    return undefined;
  }
}

/** `text` without NUL and lone surrogates, which readers must not receive. */
export function cleanText(text: string): string {
  return text.replaceAll("\u0000", "").toWellFormed();
}
