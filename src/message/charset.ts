/**
 * Decodes octets to text that every reader can receive.
 *
 * Mail often names its charset wrongly or leaves it out. Octets that are invalid in the claimed charset are decoded in
 * the most likely one, which avoids a text of replacement characters.
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

/** The names in TextDecoder's type; any other throws. */
type Label = ConstructorParameters<typeof TextDecoder>[0];

const MAX_UTF7 = 1024 * 1024;

const decoders = new Map<string, TextDecoder | undefined>();

function decoderOf(charset: string): TextDecoder | undefined {
  const name = charset.toLowerCase().trim();
  if (!decoders.has(name)) {
    // Senders choose the names, so the cache of unknown ones is bounded.
    if (decoders.size >= 500) decoders.clear();
    let decoder: TextDecoder | undefined;
    try {
      decoder = new TextDecoder((ALIASES[name] ?? name) as Label);
    } catch {}
    decoders.set(name, decoder);
  }
  return decoders.get(name);
}

/** True if octets in `charset` are read as if it were absent: it is UTF-8, ASCII or unknown. */
export function isUnlabelled(charset: string): boolean {
  const name = charset.toLowerCase().trim();
  return /^(?:utf-?8|(?:us-?)?ascii|)$/.test(name) || decoderOf(name) === undefined;
}

/**
 * Text of octets in `charset`; undefined for an unknown one. US-ASCII and UTF-8 that are invalid are read like octets
 * without a charset.
 */
export function decodeCharset(octets: Uint8Array, charset: string): string | undefined {
  const name = charset.toLowerCase().trim();
  if (isWide(name) && !isUtf16(octets)) return decodeOctets(octets);
  if (/^(?:utf-?8|(?:us-?)?ascii|)$/.test(name)) return decodeOctets(octets);
  if (name === "utf-7" || name === "unicode-1-1-utf-7") {
    // UTF-7 is rare today, and decoding a lot of it is slow.
    return octets.length > MAX_UTF7 ? decodeOctets(octets) : decodeUtf7(Buffer.from(octets).toString("latin1"));
  }
  if (name.startsWith("iso-2022-jp") && octets.some((octet) => octet >= 0x80)) {
    // ISO-2022-JP has no 8-bit octets: mailers that send them mean one of the other two Japanese charsets.
    return decodeStrictly(octets, "euc-jp") ?? decodeStrictly(octets, "shift_jis") ?? decodeOctets(octets);
  }
  return decoderOf(name)?.decode(octets);
}

/** True if `charset` encodes ASCII differently. The last two are not charsets, but mailparser decodes them. */
export function isWide(charset: string): boolean {
  return /^(?:cs)?(?:utf16|ucs2|unicode$|iso10646|base64|hex)/.test(charset.toLowerCase().replace(/[^a-z\d]/g, ""));
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

/**
 * Text of octets that name no charset: UTF-8 (RFC 6532), or windows-1252, the usual charset of unlabelled 8-bit mail.
 * UTF-8 with a few invalid octets stays UTF-8.
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

/** `text` without NUL and lone surrogates, which readers must not receive. */
export function cleanText(text: string): string {
  return text.replaceAll("\u0000", "").toWellFormed();
}
