/** A message as it came, to be attached where it could not be parsed. */

/** A field Bcc or Resent-Bcc with its folded lines; `(?<![^\n])` is the beginning of a line. */
const BCC_FIELDS = /(?<![^\n])(?:resent-)?bcc[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*(?:\n|$)/gi;

/** Where the empty line that ends the header begins. */
function endOfHeader(buffer: Buffer): number {
  if (/^\r?\n/.test(buffer.toString("latin1", 0, 2))) return 0;
  const ends = ["\n\n", "\n\r\n"].map((end) => buffer.indexOf(end)).filter((at) => at >= 0);
  return ends.length === 0 ? buffer.length : Math.min(...ends) + 1;
}

/** The same bytes without the fields Bcc and Resent-Bcc (contract: Bcc): nobody but a Bcc'd person may learn of one. */
export function withoutBcc(bytes: Uint8Array): Uint8Array {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = endOfHeader(buffer);
  const header = buffer.toString("latin1", 0, end).replace(BCC_FIELDS, "");
  return header.length === end ? bytes : Buffer.concat([Buffer.from(header, "latin1"), buffer.subarray(end)]);
}
