/**
 * Looks into a CMS object (RFC 5652) as S/MIME mails it (RFC 8551 §3): what it is, and the content of a signed or compressed
 * one. Checks no signature. Linear time; the depth is bounded.
 *
 * The little of BER (X.690) that this takes is read here: an ASN.1 library would make objects of all of a hostile message,
 * and refuses a whole one for a certificate that it does not know.
 */
import { inflateSync } from "node:zlib";

/** `signed`: also for compressed content. */
export type Cms = { kind: "signed"; content: Buffer } | { kind: "encrypted" };

/**
 * Reads signed, compressed or encrypted content (CMS). Undefined for other content, such as certificates alone, and for content
 * that cannot be read. Never throws. `most`: limit on the octets of decompressed content.
 */
export function readCms(octets: Buffer, most: number): Cms | undefined {
  try {
    const [type, content] = listChildElements(elementAt(octets, 0, octets.length), 2);
    const oid = type && elementHex(type);
    if (oid === undefined || content === undefined) return undefined;
    if (ENCRYPTED.has(oid)) return { kind: "encrypted" };
    if (oid !== SIGNED && oid !== COMPRESSED) return undefined;
    // Both begin with a version and one or no set of algorithms, followed by the content (RFC 5652 §5.1, RFC 3274 §1.1).
    const [body] = listChildElements(content, 1);
    const encapsulated = body && listChildElements(body, 3)[2];
    const [contentType, wrapped] = encapsulated ? listChildElements(encapsulated, 2) : [];
    const [string] = wrapped ? listChildElements(wrapped, 1) : [];
    if (!contentType || !string || elementHex(contentType) !== DATA) return undefined;
    const data = readOctetString(string);
    if (oid === SIGNED) return { kind: "signed", content: data };
    const maxOutputLength = Math.min(most, LEAST_INFLATED + MOST_RATIO * data.length);
    return { kind: "signed", content: inflateSync(data, { maxOutputLength }) };
  } catch {
    return undefined;
  }
}

/**
 * Most bytes that a byte of compressed content may become. Text compresses to a tenth at best; content that exceeds the limit
 * is not opened.
 */
const MOST_RATIO = 20;
const LEAST_INFLATED = 64 * 1024;

/** Object identifiers, as hexadecimal digits of their content. */
const DATA = "2a864886f70d010701";
const SIGNED = "2a864886f70d010702";
const COMPRESSED = "2a864886f70d0109100109";
/** envelopedData, encryptedData, authEnvelopedData. */
const ENCRYPTED = new Set(["2a864886f70d010703", "2a864886f70d010706", "2a864886f70d0109100117"]);

class Malformed extends Error {
  override readonly name = "Malformed";
}

const MOST_DEPTH = 12;
const CONSTRUCTED = 0x20;
const OCTET_STRING = 0x04;

/** A value of BER. */
interface Element {
  octets: Buffer;
  tag: number;
  /** Offsets of its content. */
  start: number;
  end: number;
  /** Offset of what follows it. */
  next: number;
}

/** @throws Malformed */
function elementAt(octets: Buffer, at: number, end: number, depth = 0): Element {
  const tag = octets[at] as number;
  let length = octets[at + 1] as number;
  let start = at + 2;
  if (depth > MOST_DEPTH || start > end || (tag & 0x1f) === 0x1f) throw new Malformed();
  if (length === 0x80) {
    // Its length is that of what it holds, up to two octets of zero (X.690 §8.1.3.6).
    let next = start;
    while (next + 1 < end && !(octets[next] === 0 && octets[next + 1] === 0))
      next = elementAt(octets, next, end, depth + 1).next;
    if (next + 1 >= end) throw new Malformed();
    return { octets, tag, start, end: next, next: next + 2 };
  }
  if (length > 0x80) {
    const count = length - 0x80;
    if (count > 4 || start + count > end) throw new Malformed();
    length = octets.readUIntBE(start, count);
    start += count;
  }
  if (start + length > end) throw new Malformed();
  return { octets, tag, start, end: start + length, next: start + length };
}

/** The first `count` values inside of another. */
function listChildElements({ octets, tag, start, end }: Element, count: number): Element[] {
  const children: Element[] = [];
  if ((tag & CONSTRUCTED) === 0) return children;
  for (let at = start; at < end && children.length < count; ) {
    const child = elementAt(octets, at, end);
    children.push(child);
    at = child.next;
  }
  return children;
}

const elementHex = ({ octets, start, end }: Element): string =>
  octets.toString("hex", start, Math.min(end, start + 32));

/** The octets of an OCTET STRING, which may be in pieces (X.690 §8.7.3). Makes no list of these, which may be many. */
function readOctetString(string: Element): Buffer {
  const { octets } = string;
  const data = Buffer.allocUnsafe(string.end - string.start);
  let length = 0;
  const add = ({ tag, start, end }: Element, depth: number): void => {
    if ((tag & ~CONSTRUCTED) !== OCTET_STRING || depth > MOST_DEPTH) throw new Malformed();
    if ((tag & CONSTRUCTED) === 0) length += octets.copy(data, length, start, end);
    else
      for (let at = start; at < end; ) {
        const child = elementAt(octets, at, end);
        add(child, depth + 1);
        at = child.next;
      }
  };
  add(string, 0);
  return data.subarray(0, length);
}
