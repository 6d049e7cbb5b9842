/**
 * Identifies a message: by the identifiers that mailers write (RFC 5322 §3.6.4), always returned with their angle
 * brackets, and by a fingerprint of its content.
 */
import { cleanText } from "./charset.ts";
import { type HeaderBlock, isTraceHeader, readHeaders } from "./headers.ts";

/** Most identifiers kept of a References header: the root and the newest ones. */
const MAX_REFERENCES = 100;
const MAX_LENGTH = 998;

/** The first identifier of a header value; undefined when there is none. */
export function firstMessageId(value: string): string | undefined {
  for (const id of identifiersIn(value)) return id;
  return undefined;
}

/** The identifiers of a References value: oldest first, without duplicates, at most 100. */
export function parseReferences(value: string): string[] {
  const found = new Set(identifiersIn(value));
  const ids = [...found];
  return ids.length <= MAX_REFERENCES ? ids : [...ids.slice(0, 1), ...ids.slice(1 - MAX_REFERENCES)];
}

/** Some mailers omit the brackets; their identifier is then a word with an @. */
function* identifiersIn(value: string): Generator<string> {
  const text = cleanText(value);
  if (text.includes("<")) {
    for (const [, content = ""] of text.matchAll(/<([^<>]*)>?/g)) {
      const id = content.replace(/\s+/g, "");
      if (id !== "" && id.length < MAX_LENGTH) yield `<${id}>`;
    }
    return;
  }
  for (const word of text.split(/[\s,]+/)) {
    const id = word.replace(/>$/, "");
    if (id.includes("@") && id.length < MAX_LENGTH) yield `<${id}>`;
  }
}

/** A header is read in pieces to bound memory. After a hundred pieces, the rest counts as body. */
const PIECE = { fields: 1_000, bytes: Number.POSITIVE_INFINITY };
const MOST_PIECES = 100;

/**
 * SHA-256, hex, equal for two transmissions of the same message (rules: Same message). Covers everything except what a
 * transmission changes: trace and authentication headers, the folding of headers, and trailing line breaks. `header`: the
 * message's, if it was read before.
 */
export function fingerprintMessage(bytes: Uint8Array, header?: HeaderBlock): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const hash = new Bun.CryptoHasher("sha256");
  let bodyStart = 0;
  for (let pieces = 0, isMore = true; isMore && pieces < MOST_PIECES; pieces++) {
    const known = pieces === 0 ? header : undefined;
    const piece: HeaderBlock = known ?? readHeaders(buffer, bodyStart, undefined, PIECE);
    let fields = "";
    for (const { name, value } of piece.fields) {
      if (!isTraceHeader(name)) fields += `${name.toLowerCase()}:${value.replace(/\s+/g, " ")}\n`;
    }
    hash.update(fields);
    bodyStart = piece.bodyStart;
    isMore = piece.oversized;
  }
  hash.update("\n");
  let end = buffer.length;
  while (end > bodyStart && (buffer[end - 1] === 0x0a || buffer[end - 1] === 0x0d)) end--;
  hash.update(buffer.subarray(bodyStart, end));
  return hash.digest("hex");
}
