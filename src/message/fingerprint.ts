/**
 * What makes two transmissions the same message (contract: Arrival, "Same content"): everything but the trace and
 * authentication headers, which each transmission adds anew.
 */
import { isTraceHeader, readHeaders } from "./headers.ts";

const WHOLE_BLOCK = { fields: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };

/** SHA-256, hex. Folding of headers and line breaks at the very end do not count: relays change them. */
export function fingerprintOf(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { fields, bodyStart } = readHeaders(buffer, 0, undefined, WHOLE_BLOCK);
  const hash = new Bun.CryptoHasher("sha256");
  for (const { name, value } of fields) {
    if (!isTraceHeader(name)) hash.update(`${name.toLowerCase()}:${value.replace(/\s+/g, " ")}\n`);
  }
  hash.update("\n");
  let end = buffer.length;
  while (end > bodyStart && (buffer[end - 1] === 0x0a || buffer[end - 1] === 0x0d)) end--;
  hash.update(buffer.subarray(bodyStart, end));
  return hash.digest("hex");
}
