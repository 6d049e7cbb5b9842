/** The bytes of a message as received, attached if they could not be parsed. */

const BCC_FIELD = /^(?:resent-)?bcc[ \t]*:/i;
const [LF, SPACE, TAB] = [0x0a, 0x20, 0x09];

/** The offset of the empty line that ends the header. */
function endOfHeader(buffer: Buffer): number {
  if (/^\r?\n/.test(buffer.toString("latin1", 0, 2))) return 0;
  const ends = ["\n\n", "\n\r\n"].map((end) => buffer.indexOf(end)).filter((at) => at >= 0);
  return ends.length === 0 ? buffer.length : Math.min(...ends) + 1;
}

/** The same bytes without the fields Bcc and Resent-Bcc (rules: Bcc): only a Bcc recipient may learn of a Bcc. */
export function withoutBcc(bytes: Uint8Array): Uint8Array {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = endOfHeader(buffer);
  const kept = Buffer.allocUnsafe(end);
  let length = 0;
  let isBcc = false;
  for (let start = 0; start < end; ) {
    const lineEnd = buffer.indexOf(LF, start);
    const next = lineEnd < 0 || lineEnd >= end ? end : lineEnd + 1;
    // An indented line continues the field above.
    const isIndented = buffer[start] === SPACE || buffer[start] === TAB;
    if (!isIndented) isBcc = BCC_FIELD.test(buffer.toString("latin1", start, next));
    if (!isBcc) length += buffer.copy(kept, length, start, next);
    start = next;
  }
  return length === end ? bytes : Buffer.concat([kept.subarray(0, length), buffer.subarray(end)]);
}
