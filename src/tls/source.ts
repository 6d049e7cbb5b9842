/**
 * Sources of certificates: two files of the operator, or a self-signed certificate. acme.ts is the third, an authority.
 */
import { X509Certificate } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { TlsMode } from "../config.ts";
import type { AlpnProofs } from "./alpn-front.ts";
import { findKeyPairProblem, isCertificateForHost, type KeyPair, loadKeyPair, saveKeyPair, selfSign } from "./pair.ts";

/** A domain that is served here, for people of a tenant. */
export interface DomainHosts {
  /** A-labels, lower case. */
  name: string;
  /** The tenant's id. */
  owner: string;
  /** Hosts right below the domain that it may have here. */
  hosts: readonly string[];
}

export interface CertificateSetup {
  mode: TlsMode;
  /** The name in the self-signed certificate: a host name, or an address in brackets. */
  hostname: string;
  /** The data folder. */
  folder: string;
  /** The server's own names, in lower case, the most important first. By default, `hostname`. */
  names?: readonly string[];
  /** Lists the domains whose hosts get certificates from an authority. By default there are none. */
  domains?: () => readonly DomainHosts[];
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer" | "dns" | "authorities">;
  log: Log;
}

/** The last failure, kept on disk so that restarts do not make the server ask more often. */
export interface Trouble {
  /** Number of failures in a row. */
  failures: number;
  /** Epoch ms. */
  at: number;
  /** Epoch ms; not before then. */
  retryAt: number;
  /** For people. */
  reason: string;
  /** Kind of the failure, for advice.ts; undefined where it is not known. */
  type?: string | undefined;
  /** Text that tells which order failed, so that another one is tried at once; undefined in files of earlier versions. */
  of?: string | undefined;
}

/** Result of a renewal that a person asked for. */
export interface Renewal {
  names: readonly string[];
  /** When the certificate that is shown now ends, epoch ms; undefined without one of an authority. */
  until: number | undefined;
  /** Undefined when it succeeded. */
  trouble: Trouble | undefined;
}

/** The certificate for hosts of a domain. */
export interface DomainCertificate {
  domain: string;
  /** When it ends, epoch ms; undefined while there is none. */
  until: number | undefined;
  /** Its last order failed. */
  isFailing: boolean;
}

/** A source of pairs. */
export interface Source {
  /** @throws ConfigError when there is no usable pair */
  first(): Promise<KeyPair>;
  /**
   * Calls `replace` with the pair in force from now on, if it is another. Resolves with when to look again, epoch ms.
   */
  look(replace: (pair: KeyPair) => void): Promise<number>;
  /** Has `look` read the pair again, changed or not. */
  forget?(): void;
  /** Returns the proof for a challenge's `token`; undefined for an unknown token. */
  proof?(token: string): string | undefined;
  alpn?: AlpnProofs | undefined;
  /** Returns the pair for a host of a domain, given in lower case; undefined when the server's own is for it. */
  pairFor?(host: string): KeyPair | undefined;
  /** Lists the domains that have certificates or wait for one. */
  domains?(): readonly DomainCertificate[];
  /** Returns why an authority's certificate is missing or was not renewed. */
  trouble?(): Trouble | undefined;
  /**
   * Has the next `look` order a certificate, due or not: the server's own, or that of a domain.
   * @throws Error that says why nothing is ordered
   */
  renew?(domain: string | undefined): Promise<Renewal>;
  /** Ends orders under way. */
  stop?(): void;
}

const LOOK_MS = 2_000;

/** Reads the operator's certificate from two files, and again when they change. */
export function fileCertificateSource(
  files: { cert: string; key: string },
  { runtime, log }: CertificateSetup,
): Source {
  let seen = "";

  /** Changes when either file is written, or replaced by another. */
  async function signature(): Promise<string> {
    const stats = await Promise.all([stat(files.cert), stat(files.key)]);
    return stats.map(({ ino, size, mtimeMs }) => `${ino} ${size} ${mtimeMs}`).join();
  }

  async function read(): Promise<KeyPair> {
    const [cert, key] = await Promise.all([readFile(files.cert, "utf8"), readFile(files.key, "utf8")]);
    const pair = { cert, key };
    const problem = findKeyPairProblem(pair);
    if (problem) throw new ConfigError(`MAILROOM_TLS: ${problem} (${files.cert}, ${files.key})`);
    const until = new X509Certificate(cert).validToDate;
    if (until.getTime() < runtime.now()) log.warn("certificate has expired", { cert: files.cert, until });
    return pair;
  }

  return {
    async first() {
      try {
        seen = await signature();
        return await read();
      } catch (error) {
        if (error instanceof ConfigError) throw error;
        throw new ConfigError(`MAILROOM_TLS: cannot read ${files.cert} and ${files.key}: ${(error as Error).message}`);
      }
    },
    async look(replace) {
      const now = await signature().catch((error: Error) => error.message);
      if (now !== seen) {
        seen = now;
        try {
          replace(await read());
          log.info("certificate replaced", { cert: files.cert });
        } catch (error) {
          log.warn("new certificate cannot be used, the old one stays", { reason: (error as Error).message });
        }
      }
      return runtime.now() + LOOK_MS;
    },
    forget() {
      seen = "";
    },
  };
}

const DAY_MS = 24 * 60 * 60_000;
/** Only clients of the operator check this certificate, by pinning it, so it should change rarely. */
const SELF_SIGNED_DAYS = 3650;
const RENEW_BEFORE_DAYS = 30;

/** Makes a self-signed certificate on first start and keeps it: clients cannot verify it, but mail is encrypted. */
export function selfSignedCertificateSource({ hostname, folder, runtime, log }: CertificateSetup): Source {
  const path = join(folder, "tls", "self-signed.pem");

  async function loadStored(): Promise<KeyPair | undefined> {
    const pair = await loadKeyPair(path);
    if (!pair) return undefined;
    const certificate = new X509Certificate(pair.cert);
    const now = runtime.now();
    const isLasting = certificate.validToDate.getTime() - now > RENEW_BEFORE_DAYS * DAY_MS;
    // A certificate made while the clock was ahead is not valid yet.
    const isBegun = certificate.validFromDate.getTime() <= now;
    return isCertificateForHost(certificate, hostname) && isLasting && isBegun ? pair : undefined;
  }

  async function make(): Promise<KeyPair> {
    const from = runtime.now() - DAY_MS;
    const until = runtime.now() + SELF_SIGNED_DAYS * DAY_MS;
    const pair = await selfSign(hostname, from, until, runtime.randomBytes(16));
    await saveKeyPair(path, pair);
    log.info("self-signed certificate made", { hostname, until: new Date(until) });
    return pair;
  }

  return {
    async first() {
      const pair = await loadStored().catch((error: Error) => {
        throw new ConfigError(`cannot read ${path}: ${error.message}`);
      });
      return pair ?? (await make());
    },
    async look(replace) {
      if (!(await loadStored().catch(() => undefined))) replace(await make());
      return runtime.now() + DAY_MS;
    },
  };
}
