/**
 * Decodes encoded words (RFC 2047) in header values.
 *
 * Malformed ones stay as written; an unknown charset counts as absent.
 */
import { decodeCharset, decodeOctets } from "./charset.ts";

interface Word {
  charset: string;
  octets: Uint8Array;
}

/** The length limit for an encoded word; RFC 2047 §2 allows 75, but mailers write longer ones. */
const ENCODED_WORD = /=\?([^?\s]{1,60})\?([bq])\?([^?]{0,10000}?)\?=/giy;

/**
 * `text` with its encoded words decoded. White space between two of them is dropped (RFC 2047 §6.2). Neighbours in one
 * charset are decoded together, since mailers split characters between them.
 */
export function decodeWords(text: string): string {
  if (!text.includes("=?")) return text;
  let decoded = "";
  let pending: Word[] = [];
  const flush = () => {
    decoded += textOfWords(pending);
    pending = [];
  };
  let position = 0;
  while (position < text.length) {
    const begin = text.indexOf("=?", position);
    if (begin < 0) break;
    ENCODED_WORD.lastIndex = begin;
    const match = ENCODED_WORD.exec(text);
    const between = text.slice(position, begin);
    if (match === null) {
      flush();
      decoded += `${between}=?`;
      position = begin + 2;
      continue;
    }
    if (between !== "" && (pending.length === 0 || between.trim() !== "")) {
      flush();
      decoded += between;
    }
    const [, label = "", encoding = "", payload = ""] = match;
    // RFC 2231 §5: a language may follow the charset.
    const charset = (label.split("*")[0] ?? "").toLowerCase();
    const octets = encoding.toLowerCase() === "b" ? Buffer.from(payload, "base64") : qEncoded(payload);
    if (pending.length > 0 && pending[0]?.charset !== charset) flush();
    pending.push({ charset, octets });
    position = ENCODED_WORD.lastIndex;
  }
  flush();
  return decoded + text.slice(position);
}

function textOfWords(words: readonly Word[]): string {
  const charset = words[0]?.charset ?? "";
  const decode = (octets: Uint8Array) => decodeCharset(octets, charset) ?? decodeOctets(octets);
  // In these charsets each word begins in ASCII again, and the decoder fails on two adjacent escape sequences.
  if (charset.startsWith("iso-2022")) return words.map((word) => decode(word.octets)).join("");
  return decode(Buffer.concat(words.map((word) => word.octets)));
}

/** The Q encoding, RFC 2047 §4.2. */
function qEncoded(payload: string): Uint8Array {
  const spaced = payload.replaceAll("_", " ");
  const octets = Buffer.from(spaced, "utf8");
  let length = 0;
  for (let i = 0; i < octets.length; i++) {
    let octet = octets[i] as number;
    if (octet === 0x3d) {
      const hex = octets.toString("latin1", i + 1, i + 3);
      if (/^[0-9a-f]{2}$/i.test(hex)) {
        octet = Number.parseInt(hex, 16);
        i += 2;
      }
    }
    octets[length++] = octet;
  }
  return octets.subarray(0, length);
}
