/**
 * The little of the wire format of DNS (RFC 1035 §4) that an update takes, where every byte counts since it is signed.
 * Pure.
 */

export const TYPE = { SOA: 6, TXT: 16, TSIG: 250 } as const;
/** NONE and ANY mean something of their own in updates (RFC 2136 §2.5) and signatures. */
export const CLASS = { IN: 1, NONE: 254, ANY: 255 } as const;
const HEADER_BYTES = 12;

export function number(size: 1 | 2 | 4 | 6, value: number): Buffer {
  const bytes = Buffer.alloc(size);
  bytes.writeUIntBE(value, 0, size);
  return bytes;
}

/** Uncompressed and in lower case, as signatures have it. @throws RangeError for what is no name */
export function encodeName(name: string): Buffer {
  const labels = name
    .toLowerCase()
    .split(".")
    .filter((label) => label !== "")
    .map((label) => Buffer.from(label, "latin1"));
  if (labels.some(({ length }) => length > 63)) throw new RangeError(`${name} is no name in DNS`);
  const bytes = Buffer.concat([...labels.flatMap((label) => [number(1, label.length), label]), number(1, 0)]);
  if (bytes.length > 255) throw new RangeError(`${name} is no name in DNS`);
  return bytes;
}

export interface Message {
  id: number;
  /** Opcode and flags, as the header has them. */
  flags: number;
  /** A question, or the zone of an update. */
  question: { name: string; type: number };
  /** Records of the third section: what an update changes (RFC 2136 §2.5). */
  changes?: readonly Buffer[];
}

export function encodeMessage({ id, flags, question, changes = [] }: Message): Buffer {
  return Buffer.concat([
    ...[id, flags, 1, 0, changes.length, 0].map((value) => number(2, value)),
    ...[encodeName(question.name), number(2, question.type), number(2, CLASS.IN)],
    ...changes,
  ]);
}

export interface NewRecord {
  name: string;
  type: number;
  class: number;
  /** Seconds. */
  ttl: number;
  data: Buffer;
}

export function encodeRecord({ name, type, class: kind, ttl, data }: NewRecord): Buffer {
  const fixed = [number(2, type), number(2, kind), number(4, ttl), number(2, data.length)];
  return Buffer.concat([encodeName(name), ...fixed, data]);
}

export interface ReadRecord {
  /** Where it starts. */
  start: number;
  name: string;
  type: number;
  data: Buffer;
}

export interface ReadMessage {
  id: number;
  flags: number;
  answers: readonly ReadRecord[];
  /** Of the last section. */
  additionals: readonly ReadRecord[];
}

/** @throws RangeError for what is no message */
export function readMessage(bytes: Buffer): ReadMessage {
  const [id = 0, flags = 0, ...counts] = [0, 2, 4, 6, 8, 10].map((at) => bytes.readUInt16BE(at));
  const [questions = 0, answers = 0, authorities = 0, additionals = 0] = counts;
  let at = HEADER_BYTES;
  for (let i = 0; i < questions; i++) at = readName(bytes, at).end + 4;
  const next = (): ReadRecord => {
    const { name, end } = readName(bytes, at);
    const length = bytes.readUInt16BE(end + 8);
    const record = { start: at, name, type: bytes.readUInt16BE(end) };
    at = end + 10 + length;
    if (at > bytes.length) throw new RangeError("a record is longer than the message");
    return { ...record, data: bytes.subarray(at - length, at) };
  };
  const section = (count: number): ReadRecord[] => Array.from({ length: count }, next);
  const [first] = [section(answers), section(authorities)];
  return { id, flags, answers: first, additionals: section(additionals) };
}

/** In lower case, without a final dot. `end`: where what follows it starts. */
export function readName(bytes: Buffer, start: number): { name: string; end: number } {
  const labels: string[] = [];
  let end: number | undefined;
  for (let at = start, length = bytes.readUInt8(at); length > 0; length = bytes.readUInt8(at)) {
    if (length >= 0xc0) {
      const target = bytes.readUInt16BE(at) & 0x3fff;
      // They lead back only, so that following them ends.
      if (target >= at) throw new RangeError("a name leads forward");
      end ??= at + 2;
      at = target;
      continue;
    }
    if (length > 63 || labels.length > 127) throw new RangeError("a label is no label");
    labels.push(bytes.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
    if (bytes[at] === 0) end ??= at + 1;
  }
  return { name: labels.join(".").toLowerCase(), end: end ?? start + 1 };
}
