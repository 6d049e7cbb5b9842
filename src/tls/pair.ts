/**
 * A certificate with its key, as text: checks pairs, keeps each pair of the server in one file, and makes self-signed
 * ones. The only file that knows @peculiar/x509. It loads the package on first use, since that costs 0.1 s and 17 MB.
 */
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { isIP } from "node:net";
import { dirname } from "node:path";
import { isMissing, syncFolder } from "../base/files.ts";

/** PEM; `cert` may carry its chain. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** Describes what is wrong with a pair; undefined when it is usable. */
export function findKeyPairProblem({ cert, key }: KeyPair): string | undefined {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(cert);
  } catch {
    return "the certificate is not an X.509 certificate in PEM";
  }
  try {
    if (certificate.checkPrivateKey(createPrivateKey(key))) return undefined;
  } catch {
    return "the key is not a private key in PEM without a passphrase";
  }
  return "the key does not belong to the certificate";
}

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";
/** Certificates in a chain; usual ones have two to four. */
const MOST_IN_CHAIN = 10;

/** Describes what is wrong with a chain in PEM, which has nothing beside its certificates (RFC 8555 §9.1). */
export function findCertificateChainFault(text: string): string | undefined {
  const [before, ...parts] = text.split(BEGIN, MOST_IN_CHAIN + 2);
  if (parts.length > MOST_IN_CHAIN) return `the chain has more than ${MOST_IN_CHAIN} certificates`;
  const isWhole = parts.every((part) => {
    const [body = "", after] = part.split(END, 3);
    return after?.trim() === "" && isCertificate(`${BEGIN}${body}${END}`);
  });
  return before?.trim() === "" && isWhole ? undefined : "the chain is not one of X.509 certificates in PEM";
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

/** The DNS names of a certificate, in lower case. */
export const listCertificateNames = ({ subjectAltName = "" }: X509Certificate): string[] =>
  subjectAltName.split(", ").flatMap((name) => (name.startsWith("DNS:") ? name.slice(4).toLowerCase() : []));

/** `hostname`: a host name, or an IP address, which may be a literal as in SMTP (RFC 5321 §4.1.3). */
const withoutBrackets = (hostname: string): string => hostname.replace(/^\[(?:IPv6:)?|\]$/gi, "");

/** Tells whether a certificate is for a host name or an IP address. */
export function isCertificateForHost(certificate: X509Certificate, hostname: string): boolean {
  const name = withoutBrackets(hostname);
  return (isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name)) !== undefined;
}

/** Loads a pair that saveKeyPair wrote; undefined when the file is missing or damaged. @throws when it cannot be read */
export async function loadKeyPair(path: string): Promise<KeyPair | undefined> {
  const pem = await readFileIfPresent(path);
  const [key = ""] = /-----BEGIN PRIVATE KEY-----[\s\S]*?-----END PRIVATE KEY-----/.exec(pem ?? "") ?? [];
  const chain = pem?.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
  const pair = { key, cert: chain.join("\n") };
  return findKeyPairProblem(pair) === undefined ? pair : undefined;
}

/** Saves key and certificates in one file, so that a crash cannot leave halves that do not match. */
export async function saveKeyPair(path: string, { cert, key }: KeyPair): Promise<void> {
  await savePrivately(path, `${key}\n${cert}\n`);
}

/** Reads a file; undefined when it does not exist. @throws when it cannot be read */
export async function readFileIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Replaces a file whole, readable by its owner only, in a folder of the same kind; on disk when it resolves. */
export async function savePrivately(path: string, text: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const temporary = `${path}.new`;
  await withFile(temporary, "w", async (file) => {
    await file.chmod(0o600);
    await file.writeFile(text);
    await file.sync();
  });
  await rename(temporary, path);
  // Syncs the rename, too: the caller may next delete data that this file replaces.
  await syncFolder(folder);
}

async function withFile(path: string, flags: string, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags, 0o600);
  try {
    await use(file);
  } finally {
    await file.close();
  }
}

async function load() {
  // The package's dependency container needs reflect-metadata, but does not depend on it.
  await import("reflect-metadata");
  return await import("@peculiar/x509");
}

/** id-pe-acmeIdentifier (RFC 8737 §3) */
const ACME_IDENTIFIER = "1.3.6.1.5.5.7.1.31";

/**
 * Makes a self-signed certificate. Times in epoch ms. `hostname`: as for isCertificateForHost. `random`: its serial number.
 * `proof`: the key authorization that it shows to an authority (RFC 8737 §3).
 */
export async function selfSign(
  hostname: string,
  from: number,
  until: number,
  random: Uint8Array,
  proof?: string,
): Promise<KeyPair> {
  const name = withoutBrackets(hostname);
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
      ...(proof === undefined ? [] : [new x509.Extension(ACME_IDENTIFIER, true, octetString(hashProof(proof)))]),
    ],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return { cert: certificate.toString("pem"), key: x509.PemConverter.encode(key, "PRIVATE KEY") };
}

const hashProof = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Encodes less than 128 bytes as a DER octet string. */
const octetString = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => Uint8Array.of(4, bytes.length, ...bytes);

/** Returns the id of a PEM certificate for renewal information (RFC 9773 §4.1); undefined without a key identifier. */
export async function findRenewalId(cert: string): Promise<string | undefined> {
  const x509 = await load();
  const certificate = new x509.X509Certificate(cert);
  const issuer = certificate.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId;
  if (issuer === undefined) return undefined;
  // As in DER: a zero byte precedes a number that would be negative.
  const serial = certificate.serialNumber.replace(/^(?=[89a-f])/i, "00");
  return [issuer, serial].map((hex) => Buffer.from(hex, "hex").toString("base64url")).join(".");
}
