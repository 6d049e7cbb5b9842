/** The door to @peculiar/x509, which is loaded only when it is needed: it costs 0.1 s and 17 MB, and is rarely. */
import { isIP } from "node:net";
import type { KeyPair } from "./pair.ts";

async function load() {
  // Its dependency container asks for it, and does not bring it.
  await import("reflect-metadata");
  return await import("@peculiar/x509");
}

/** A certificate that nobody vouches for. Times in epoch ms. `name`: host name or IP address. `random`: its number. */
export async function selfSign(name: string, from: number, until: number, random: Uint8Array): Promise<KeyPair> {
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
    ],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return { cert: certificate.toString("pem"), key: x509.PemConverter.encode(key, "PRIVATE KEY") };
}

/** How an authority that gives renewal information calls a certificate of its own (RFC 9773 §4.1); PEM. */
export async function renewalIdOf(cert: string): Promise<string | undefined> {
  const x509 = await load();
  const certificate = new x509.X509Certificate(cert);
  const issuer = certificate.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId;
  if (issuer === undefined) return undefined;
  // As DER has it: with a zero byte before what would be negative.
  const serial = certificate.serialNumber.replace(/^(?=[89a-f])/i, "00");
  return [issuer, serial].map((hex) => Buffer.from(hex, "hex").toString("base64url")).join(".");
}
