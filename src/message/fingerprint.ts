/**
 * Decides when two transmissions are the same message (rules: Same message): the fingerprint covers everything except
 * the trace and authentication headers, which each transmission adds anew.
 */
import { isTraceHeader, readHeaders } from "./headers.ts";

/** A header is read in pieces to bound memory. After a hundred pieces, the rest counts as body. */
const PIECE = { fields: 1_000, bytes: Number.POSITIVE_INFINITY };
const MOST_PIECES = 100;

/** SHA-256, hex. Ignores the folding of headers and trailing line breaks, because relays change them. */
export function fingerprintOf(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const hash = new Bun.CryptoHasher("sha256");
  let bodyStart = 0;
  for (let pieces = 0, isMore = true; isMore && pieces < MOST_PIECES; pieces++) {
    const piece = readHeaders(buffer, bodyStart, undefined, PIECE);
    for (const { name, value } of piece.fields) {
      if (!isTraceHeader(name)) hash.update(`${name.toLowerCase()}:${value.replace(/\s+/g, " ")}\n`);
    }
    bodyStart = piece.bodyStart;
    isMore = piece.oversized;
  }
  hash.update("\n");
  let end = buffer.length;
  while (end > bodyStart && (buffer[end - 1] === 0x0a || buffer[end - 1] === 0x0d)) end--;
  hash.update(buffer.subarray(bodyStart, end));
  return hash.digest("hex");
}
