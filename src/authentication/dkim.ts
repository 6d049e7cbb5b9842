/**
 * Signs outgoing mail with DKIM (RFC 6376, RFC 8463): relaxed/relaxed, for the domain of the From address. mailauth
 * canonicalises and writes the fields, in a parser, which never has a private key: the server signs what it asks for.
 */
import { createHash, createPrivateKey, type KeyObject, sign as signBytes } from "node:crypto";
import { promisify } from "node:util";
import {
  dkimBody,
  formatSignatureHeaderLine,
  generateCanonicalizedHeader,
  getSigningHeaderLines,
  parseHeaders,
} from "./mailauth.ts";

/** A key of a domain, from dkim_keys. */
export interface SigningKey {
  /** A-labels; the d= of its signatures. */
  domain: string;
  selector: string;
  algorithm: "rsa" | "ed25519";
  /** PKCS #8, PEM. */
  privateKey: string;
}

/** The part of a signing key that its signatures show. */
export type Signer = Omit<SigningKey, "privateKey">;

/** Fields that readers see or rely on (RFC 6376 §5.4.1). A signature covers every occurrence of them. */
const SIGNED = [
  "From",
  "Sender",
  "Reply-To",
  "Subject",
  "Date",
  "Message-ID",
  "To",
  "Cc",
  "In-Reply-To",
  "References",
  "MIME-Version",
  "Content-Type",
  "Content-Transfer-Encoding",
  "List-Id",
  "List-Unsubscribe",
  "List-Unsubscribe-Post",
];

/** Fields that a signature lists once more than they occur, so that one added on the way breaks it (RFC 6376 §8.15). */
const OVERSIGNED = ["From", "Subject"];

/** Parsed private keys, by PEM: parsing one takes a sixth as long as signing with it. */
const keysRead = new Map<string, KeyObject>();
const MOST_KEYS_READ = 500;

/** Parses a private key. @throws Error when it is no private key of that algorithm */
function readKey({ privateKey, algorithm, selector }: SigningKey): KeyObject {
  let key = keysRead.get(privateKey);
  if (key === undefined) {
    key = createPrivateKey(privateKey);
    if (keysRead.size >= MOST_KEYS_READ) keysRead.clear();
    keysRead.set(privateKey, key);
  }
  if (key.asymmetricKeyType !== algorithm) {
    throw Object.assign(new Error(`The DKIM key ${selector} is no ${algorithm} key`), { code: "EINVALIDTYPE" });
  }
  return key;
}

/** Signs with RSA on a thread of the pool, since RSA is nearly all the cost. */
const signOnPool = promisify(
  (data: Uint8Array, key: KeyObject, done: (error: Error | null, signature: Buffer) => void): void =>
    signBytes("sha256", data, key, done),
);

/** RFC 8463 §3: Ed25519 signs the hash. */
const signHash = (data: Uint8Array, key: KeyObject): Buffer =>
  signBytes(null, createHash("sha256").update(data).digest(), key);

/** Signs the canonical header of a message. @throws Error for a key that does not work */
export async function signHeader(key: SigningKey, header: Uint8Array): Promise<Uint8Array> {
  const privateKey = readKey(key);
  return key.algorithm === "rsa" ? signOnPool(header, privateKey) : signHash(header, privateKey);
}

/** Splits a message into header, with the line break at its end, and body. */
function splitMessage(message: Uint8Array): { header: Buffer; body: Buffer } {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  const end = bytes.indexOf("\r\n\r\n");
  return end < 0
    ? { header: bytes, body: bytes.subarray(bytes.length) }
    : { header: bytes.subarray(0, end + 2), body: bytes.subarray(end + 4) };
}

const SIGNATURE_FIELDS = /^(?:DKIM-Signature:[^\n]*\n(?:[ \t][^\n]*\n)*)*/i;
/** A field takes a few hundred characters. */
const LONGEST_SIGNATURES = 64 * 1024;

/** A message without the fields that `sign` puts on top. */
export function withoutDkimSignatures(content: Uint8Array): Uint8Array {
  const top = Buffer.from(content.buffer, content.byteOffset, Math.min(content.byteLength, LONGEST_SIGNATURES));
  return content.subarray(SIGNATURE_FIELDS.exec(top.toString("latin1"))?.[0].length ?? 0);
}

/** Hashes a body for the bh= tag: SHA-256, base64. */
function hashBody(body: Buffer): string {
  const hash = dkimBody("relaxed", "sha256");
  hash.update(body);
  return hash.digest("base64");
}

/**
 * Writes one DKIM-Signature field for each signer, each ended by CRLF, to be put before the message. The message's lines
 * end in CRLF. `signedAt`: epoch ms. `signature`: signs a canonical header, for the signer of that index, as signHeader does.
 * @throws Error for a message without From; the errors of `signature`
 */
export async function writeDkimSignatures(
  message: Uint8Array,
  signers: readonly Signer[],
  signedAt: number,
  signature: (signer: number, header: Uint8Array) => Promise<Uint8Array>,
): Promise<string> {
  if (signers.length === 0) return "";
  const { header, body } = splitMessage(message);
  const { headers, keys: names } = getSigningHeaderLines(parseHeaders(header).parsed, SIGNED.join(":"));
  // RFC 6376 §5.4: a signature must cover From.
  if (!headers.some(({ key }) => key === "from")) throw new Error("A message without From cannot be signed");
  // mailauth lists the fields bottom up. A name without a further field adds nothing to the signed bytes (RFC 6376
  // §5.4.2).
  const covered = { headers, keys: [names, ...OVERSIGNED].join(": ") };
  const bodyHash = hashBody(body);
  const fields = signers.map(async ({ domain, selector, algorithm }, index) => {
    const { canonicalizedHeader, dkimHeaderOpts } = generateCanonicalizedHeader("DKIM", covered, {
      signingDomain: domain,
      selector,
      algorithm: `${algorithm}-sha256`,
      canonicalization: "relaxed/relaxed",
      bodyHash,
      timestamp: Math.floor(signedAt / 1_000),
      expiration: false,
    });
    const b = Buffer.from(await signature(index, canonicalizedHeader)).toString("base64");
    return `${formatSignatureHeaderLine("DKIM", { ...dkimHeaderOpts, b }, true)}\r\n`;
  });
  return (await Promise.all(fields)).join("");
}
