/** The only file that knows @peculiar/x509. It loads the package on first use, since that costs 0.1 s and 17 MB. */
import { createHash } from "node:crypto";
import { isIP } from "node:net";
import type { KeyPair } from "./pair.ts";

async function load() {
  // The package's dependency container needs reflect-metadata, but does not depend on it.
  await import("reflect-metadata");
  return await import("@peculiar/x509");
}

/** id-pe-acmeIdentifier (RFC 8737 §3) */
const ACME_IDENTIFIER = "1.3.6.1.5.5.7.1.31";

/**
 * Makes a self-signed certificate. Times in epoch ms. `name`: host name or IP address. `random`: its serial number.
 * `proof`: the key authorization that it shows to an authority (RFC 8737 §3).
 */
export async function selfSign(
  name: string,
  from: number,
  until: number,
  random: Uint8Array,
  proof?: string,
): Promise<KeyPair> {
  const x509 = await load();
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [name] }],
    // RFC 5280 §4.1.2.2: positive.
    serialNumber: `01${Buffer.from(random).toString("hex")}`,
    notBefore: new Date(from),
    notAfter: new Date(until),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.SubjectAlternativeNameExtension([{ type: isIP(name) ? "ip" : "dns", value: name }]),
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      ...(proof === undefined ? [] : [new x509.Extension(ACME_IDENTIFIER, true, octetString(digestOf(proof)))]),
    ],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return { cert: certificate.toString("pem"), key: x509.PemConverter.encode(key, "PRIVATE KEY") };
}

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Encodes less than 128 bytes as a DER octet string. */
const octetString = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => Uint8Array.of(4, bytes.length, ...bytes);

/** Returns the id of a PEM certificate for renewal information (RFC 9773 §4.1); undefined without a key identifier. */
export async function renewalIdOf(cert: string): Promise<string | undefined> {
  const x509 = await load();
  const certificate = new x509.X509Certificate(cert);
  const issuer = certificate.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId;
  if (issuer === undefined) return undefined;
  // As in DER: a zero byte precedes a number that would be negative.
  const serial = certificate.serialNumber.replace(/^(?=[89a-f])/i, "00");
  return [issuer, serial].map((hex) => Buffer.from(hex, "hex").toString("base64url")).join(".");
}
