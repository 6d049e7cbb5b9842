/**
 * What makes two transmissions the same message (rules: Same message): everything but the trace and
 * authentication headers, which each transmission adds anew.
 */
import { isTraceHeader, readHeaders } from "./headers.ts";

/** A header is read in pieces, so that memory is bounded; of one with more than a hundred, the rest counts as it is. */
const PIECE = { fields: 1_000, bytes: Number.POSITIVE_INFINITY };
const MOST_PIECES = 100;

/** SHA-256, hex. Folding of headers and line breaks at the very end do not count: relays change them. */
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
