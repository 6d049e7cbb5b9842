/** The certificate that is made here on first start and kept: nobody vouches for it, but mail flows encrypted. */
import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { CertificateSetup, Source } from "./certificates.ts";
import { type KeyPair, loadPair, savePair } from "./pair.ts";
import { selfSign } from "./x509.ts";

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
    const now = runtime.now();
    const isLasting = certificate.validToDate.getTime() - now > RENEW_BEFORE_DAYS * DAY_MS;
    // One that a clock made which was ahead is not valid yet.
    const isBegun = certificate.validFromDate.getTime() <= now;
    return isForHost !== undefined && isLasting && isBegun ? pair : undefined;
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
