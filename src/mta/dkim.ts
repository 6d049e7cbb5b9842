/**
 * DKIM signatures of what leaves (RFC 6376, RFC 8463): relaxed/relaxed, for the domain of the From address.
 */
import { finished } from "node:stream/promises";
import { DkimSigner, type HeaderLine } from "./mailauth.ts";

/** A key of a domain, from dkim_keys. */
export interface SigningKey {
  /** A-labels; the d= of its signatures. */
  domain: string;
  selector: string;
  algorithm: "rsa" | "ed25519";
  /** PKCS #8, PEM. */
  privateKey: string;
}

/** What readers see or go by (RFC 6376 §5.4.1); every occurrence of them is signed. */
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

/** Listed once more than they occur, so that a second one added on the way breaks the signature (RFC 6376 §8.15). */
const OVERSIGNED = ["From", "Subject"];

const signedKeys = new Set(SIGNED.map((name) => name.toLowerCase()));

class OversigningSigner extends DkimSigner {
  /**
   * mailauth lists in h= the names of the fields it hashes, bottom up. A name without a field adds nothing to the hash
   * (RFC 6376 §5.4.2), so the further ones go where the name of the last field is listed: the topmost signed one.
   */
  protected override messageHeaders(headers: { parsed: HeaderLine[] }): Promise<void> {
    const last = headers.parsed.find(({ key }) => signedKeys.has(key));
    if (last) last.casedKey = [last.casedKey, ...OVERSIGNED].join(": ");
    return super.messageHeaders(headers);
  }
}

/**
 * A DKIM-Signature field a key, each ended by CRLF, to be put before the message. `signedAt`: epoch ms.
 * @throws what mailauth says of a key that does not work, or of a message without From
 */
export async function sign(message: Uint8Array, keys: readonly SigningKey[], signedAt: number): Promise<string> {
  if (keys.length === 0) return "";
  const signer = new OversigningSigner({
    signatureData: keys.map(({ domain, selector, algorithm, privateKey }) => ({
      signingDomain: domain,
      selector,
      privateKey,
      algorithm: `${algorithm}-sha256`,
      canonicalization: "relaxed/relaxed",
    })),
    headerList: SIGNED,
    signTime: new Date(signedAt),
    strict: true,
  });
  signer.end(message);
  await finished(signer);
  const [error] = signer.errors;
  if (error) throw error.err;
  return signer.signatureHeaders.map((field) => `${field}\r\n`).join("");
}
