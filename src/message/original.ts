/** A message as it came, to be attached where it could not be parsed. */

const LINE_FEED = 0x0a;
const NAMES_BCC = /^(?:resent-)?bcc[ \t]*:/i;
const LONGEST_NAME = "resent-bcc".length + 32;

/** The same bytes without the header fields Bcc and Resent-Bcc (contract: Bcc): nobody but a Bcc'd person may learn of one. */
export function withoutBcc(bytes: Uint8Array): Uint8Array {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const kept: Buffer[] = [];
  let keptFrom = 0;
  let dropping = false;
  for (let start = 0; start < buffer.length; ) {
    const feed = buffer.indexOf(LINE_FEED, start);
    const end = feed < 0 ? buffer.length : feed + 1;
    const line = buffer.toString("latin1", start, Math.min(end, start + LONGEST_NAME));
    if (/^\r?\n/.test(line)) break;
    if (!/^[ \t]/.test(line)) {
      const drop = NAMES_BCC.test(line);
      if (drop && !dropping) kept.push(buffer.subarray(keptFrom, start));
      dropping = drop;
    }
    start = end;
    if (dropping) keptFrom = end;
  }
  return kept.length === 0 ? bytes : Buffer.concat([...kept, buffer.subarray(keptFrom)]);
}
