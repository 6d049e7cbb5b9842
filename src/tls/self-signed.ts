/** The certificate that is made here on first start and kept: nobody vouches for it, but mail flows encrypted. */
import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import type { CertificateSetup, Source } from "./certificates.ts";
import { type KeyPair, loadPair, savePair } from "./pair.ts";

const DAY_MS = 24 * 60 * 60_000;
/** Nobody but an operator's own clients checks it, and those pin it: it should change rarely. */
const SELF_SIGNED_DAYS = 3650;
const RENEW_BEFORE_DAYS = 30;

export function selfSignedSource({ hostname, folder, runtime, log }: CertificateSetup): Source {
  const path = join(folder, "tls", "self-signed.pem");
  const name = hostname.replace(/^\[(?:IPv6:)?|\]$/gi, "");

  async function kept(): Promise<KeyPair | undefined> {
    const pair = await loadPair(path);
    if (!pair) return undefined;
    const certificate = new X509Certificate(pair.cert);
    const isForHost = isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name);
    const isLasting = certificate.validToDate.getTime() - runtime.now() > RENEW_BEFORE_DAYS * DAY_MS;
    return isForHost !== undefined && isLasting ? pair : undefined;
  }

  async function make(): Promise<KeyPair> {
    const from = runtime.now() - DAY_MS;
    const until = runtime.now() + SELF_SIGNED_DAYS * DAY_MS;
    const pair = await selfSign(name, from, until, runtime.randomBytes(16));
    await savePair(path, pair);
    log.info("self-signed certificate made", { hostname, until: new Date(until) });
    return pair;
  }

  return {
    async first() {
      const pair = await kept().catch((error: Error) => {
        throw new ConfigError(`cannot read ${path}: ${error.message}`);
      });
      return pair ?? (await make());
    },
    async look(replace) {
      if (!(await kept().catch(() => undefined))) replace(await make());
      return runtime.now() + DAY_MS;
    },
  };
}

/** Times in epoch ms. `name`: host name or IP address. */
async function selfSign(name: string, from: number, until: number, random: Uint8Array): Promise<KeyPair> {
  provideReflectMetadata();
  // Loaded only when a certificate is made: it costs 0.1 s and 17 MB, once in ten years.
  const x509 = await import("@peculiar/x509");
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

/**
 * The three functions of the Reflect metadata proposal that @peculiar/x509's dependency container asks for, and does
 * not bring.
 */
function provideReflectMetadata(): void {
  if ("getMetadata" in Reflect) return;
  const kept = new WeakMap<object, Map<unknown, unknown>>();
  const get = (name: unknown, target: object): unknown => kept.get(target)?.get(name);
  Object.assign(Reflect, {
    getMetadata: get,
    getOwnMetadata: get,
    defineMetadata(name: unknown, value: unknown, target: object) {
      kept.set(target, (kept.get(target) ?? new Map()).set(name, value));
    },
  });
}
