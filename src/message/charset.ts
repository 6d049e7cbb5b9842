/**
 * Charsets: from octets to text that every reader can be handed.
 *
 * Mail names its charset wrongly as often as not at all. Where octets are not of the charset they claim, the one they
 * most likely are of is used, rather than a text of replacement characters.
 */

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
  "utf-8-mac": "utf-8",
};

/** The names TextDecoder is typed for; any other throws. */
type Label = ConstructorParameters<typeof TextDecoder>[0];

const MAX_UTF7 = 1024 * 1024;

const decoders = new Map<string, TextDecoder | undefined>();

function decoderOf(charset: string): TextDecoder | undefined {
  const name = charset.toLowerCase().trim();
  if (!decoders.has(name)) {
    // Names come from strangers: the memory of those that lead nowhere is bounded.
    if (decoders.size >= 500) decoders.clear();
    let decoder: TextDecoder | undefined;
    try {
      decoder = new TextDecoder((ALIASES[name] ?? name) as Label);
    } catch {}
    decoders.set(name, decoder);
  }
  return decoders.get(name);
}

/** Whether octets in `charset` are read as if they named none: it is a Unicode one, ASCII, or unknown. */
export function isUnlabelled(charset: string): boolean {
  const name = charset.toLowerCase().trim();
  return /^(?:utf-?8|(?:us-?)?ascii|)$/.test(name) || decoderOf(name) === undefined;
}

/**
 * Text of octets in `charset`; undefined for an unknown one. US-ASCII and UTF-8 that are neither are read like octets
 * without a charset.
 */
export function decodeCharset(octets: Uint8Array, charset: string): string | undefined {
  const name = charset.toLowerCase().trim();
  if (isWide(name) && !isUtf16(octets)) return decodeOctets(octets);
  if (/^(?:utf-?8|(?:us-?)?ascii|)$/.test(name)) return decodeOctets(octets);
  if (name === "utf-7" || name === "unicode-1-1-utf-7") {
    // Nobody writes much of it any more, and much of it takes long.
    return octets.length > MAX_UTF7 ? decodeOctets(octets) : decodeUtf7(Buffer.from(octets).toString("latin1"));
  }
  if (name.startsWith("iso-2022-jp") && octets.some((octet) => octet >= 0x80)) {
    // It has no octets of 8 bits: mailers that send them wrote one of the other two charsets of Japan.
    return decodeStrictly(octets, "euc-jp") ?? decodeStrictly(octets, "shift_jis") ?? decodeOctets(octets);
  }
  return decoderOf(name)?.decode(octets);
}

/** Whether ASCII is not written as such in `charset`. The last two are none, but mailparser decodes them. */
export function isWide(charset: string): boolean {
  return /^(?:cs)?(?:utf16|ucs2|unicode$|iso10646|base64|hex)/.test(charset.toLowerCase().replace(/[^a-z\d]/g, ""));
}

/** Characters of other scripts have octets that are a space or a line feed by chance: so many for each that is one. */
const BY_CHANCE = 8;

/** Text that is labelled UTF-16 and is none has spaces and line feeds without a zero octet, or is all ASCII. */
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

/**
 * Text of octets that name no charset: UTF-8 (RFC 6532), or what unlabelled 8-bit mail usually is, windows-1252. UTF-8
 * with a few octets gone wrong stays UTF-8.
 */
export function decodeOctets(octets: Uint8Array): string {
  try {
    return utf8.decode(octets);
  } catch {
    const text = lenientUtf8.decode(octets);
    let wrong = 0;
    let foreign = 0;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit === 0xfffd) wrong++;
      else if (unit >= 0x80) foreign++;
    }
    return foreign > 0 && 4 * foreign >= wrong ? text : windows1252.decode(octets);
  }
}

function decodeStrictly(octets: Uint8Array, charset: Label): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(octets);
  } catch {
    return undefined;
  }
}

/** `text` without what no reader may be handed: NUL, and halves of surrogate pairs. */
export function cleanText(text: string): string {
  return text.replaceAll("\u0000", "").toWellFormed();
}
