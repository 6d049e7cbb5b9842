/** Certificates under an authority of their own, by default valid from yesterday for ten years. */
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import type { KeyPair } from "../../../src/tls/certificates.ts";
import { START } from "../runtime.ts";

const DAY_MS = 24 * 60 * 60_000;
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const FROM = new Date(START - DAY_MS);
const UNTIL = new Date(START + 3_650 * DAY_MS);

const newKeys = () => crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);

/** Oddities of the certificate of a host. */
export interface Oddities {
  /** Names in place of the host's own. */
  names?: readonly { type: "dns" | "ip" | "url"; value: string }[];
  from?: Date;
  /** True if its issuer is no authority. */
  isOfNoAuthority?: true;
  /** True if it is for clients. */
  isForClients?: true;
  /** True if another key has signed it. */
  isForged?: true;
}

/** Makes the pair of a host, followed by the authority's certificate, and that certificate by itself, in PEM. */
export async function makeChain(
  host: string,
  until = UNTIL,
  { names = [{ type: "dns", value: host }], from = FROM, isOfNoAuthority, isForClients, isForged }: Oddities = {},
): Promise<{ pair: KeyPair; authority: string }> {
  const [rootKeys, keys] = [await newKeys(), await newKeys()];
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=An authority",
    serialNumber: "01",
    notBefore: FROM,
    notAfter: UNTIL,
    signingAlgorithm: ALGORITHM,
    keys: rootKeys,
    extensions: [new x509.BasicConstraintsExtension(isOfNoAuthority !== true, undefined, true)],
  });
  const own = await x509.X509CertificateGenerator.create({
    subject: `CN=${host}`,
    issuer: root.subject,
    serialNumber: "02",
    notBefore: from,
    notAfter: until,
    signingAlgorithm: ALGORITHM,
    publicKey: keys.publicKey,
    signingKey: (isForged ? keys : rootKeys).privateKey,
    extensions: [
      ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension([...names])] : []),
      ...(isForClients ? [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])] : []),
    ],
  });
  const key = x509.PemConverter.encode(await crypto.subtle.exportKey("pkcs8", keys.privateKey), "PRIVATE KEY");
  const authority = root.toString("pem");
  return { pair: { cert: `${own.toString("pem")}\n${authority}`, key }, authority };
}
