/** CMS objects (RFC 5652) as S/MIME mails them, without what no reader of the content looks at. */

/** A value of DER; with `indefinite` one of BER without its length (X.690 §8.1.3.6). */
export function element(tag: number, content: Uint8Array | Uint8Array[], indefinite = false): Buffer {
  const octets = Buffer.concat(Array.isArray(content) ? content : [content]);
  if (indefinite) return Buffer.concat([Buffer.from([tag, 0x80]), octets, Buffer.alloc(2)]);
  if (octets.length < 0x80) return Buffer.concat([Buffer.from([tag, octets.length]), octets]);
  const length = Buffer.alloc(6);
  length.writeUInt8(tag);
  length.writeUInt8(0x84, 1);
  length.writeUInt32BE(octets.length, 2);
  return Buffer.concat([length, octets]);
}

const SEQUENCE = 0x30;
const EXPLICIT = 0xa0;
const version = element(0x02, Buffer.from([1]));
const oid = (hex: string) => element(0x06, Buffer.from(hex, "hex"));
const DATA = "2a864886f70d010701";

/** How the content is written: whole; or, as programs do that stream, in pieces without lengths. */
export type Way = "der" | "ber";

function contentOf(way: Way, content: Uint8Array, type = DATA): Buffer {
  const isBer = way === "ber";
  const half = content.length >> 1;
  const pieces = [content.subarray(0, half), content.subarray(half)].map((piece) => element(0x04, piece));
  const string = isBer ? element(0x24, pieces, true) : element(0x04, content);
  return element(SEQUENCE, [oid(type), element(EXPLICIT, string, isBer)], isBer);
}

const infoOf = (way: Way, type: string, body: Buffer[]): Buffer =>
  element(
    SEQUENCE,
    [oid(type), element(EXPLICIT, element(SEQUENCE, body, way === "ber"), way === "ber")],
    way === "ber",
  );

/** SignedData whose set of signers is empty. */
export const signedCms = (content: Uint8Array, way: Way = "der", type?: string): Buffer =>
  infoOf(way, "2a864886f70d010702", [version, element(0x31, []), contentOf(way, content, type), element(0x31, [])]);

/** CompressedData (RFC 3274) of what is deflated already. */
export const compressedCms = (deflated: Uint8Array): Buffer =>
  infoOf("der", "2a864886f70d0109100109", [version, element(SEQUENCE, []), contentOf("der", deflated)]);

/** SignedData without content: certificates, or a signature apart. */
export const emptyCms = (): Buffer =>
  infoOf("der", "2a864886f70d010702", [version, element(0x31, []), element(SEQUENCE, oid(DATA)), element(0x31, [])]);

/** EnvelopedData or another kind that only a key opens. */
export const encryptedCms = (type = "2a864886f70d010703"): Buffer => infoOf("der", type, [version]);
