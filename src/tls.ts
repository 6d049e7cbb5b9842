/**
 * The certificate of the TLS listeners (contract: MAILROOM_TLS): made here on first start and kept, or read from files
 * and followed. A pair handed out always works; a new one that does not is logged, and the old one stays.
 *
 * The self-signed key and certificate are one file, replaced whole, so that no crash can leave halves that do not match.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import type { TlsMode } from "./config.ts";
import { ConfigError } from "./errors.ts";
import type { Log } from "./log.ts";
import type { Runtime } from "./runtime.ts";
import type { Job } from "./scheduler.ts";

/** PEM; `cert` may carry its chain. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

export interface Certificates {
  current(): KeyPair;
  /** `listener` gets every later pair. Returns what removes it. */
  onChange(listener: (pair: KeyPair) => void): () => void;
  /** For the scheduler: renews the self-signed certificate, or looks at the files. */
  job: Job;
}

export interface CertificateSetup {
  mode: TlsMode;
  /** The name in the self-signed certificate: a host name, or an address in brackets. */
  hostname: string;
  /** The data folder. */
  folder: string;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}

const DAY_MS = 24 * 60 * 60_000;
/** Nobody but an operator's own clients checks it, and those pin it: it should change rarely. */
const SELF_SIGNED_DAYS = 3650;
const RENEW_BEFORE_DAYS = 30;
const LOOK_AT_FILES_MS = 2_000;

/** Where pairs come from. */
interface Source {
  /** @throws ConfigError when there is no usable pair */
  first(): Promise<KeyPair>;
  /** The pair in force from now on, or undefined while nothing has changed. */
  next(): Promise<KeyPair | undefined>;
  /** Milliseconds between two looks. */
  interval: number;
}

/** Opens the certificate. @throws ConfigError for files that cannot be read or do not belong together. */
export async function openCertificates(setup: CertificateSetup): Promise<Certificates> {
  const { mode, runtime } = setup;
  const source = mode.mode === "files" ? fileSource(mode, setup) : selfSignedSource(setup);
  const listeners = new Set<(pair: KeyPair) => void>();
  let pair = await source.first();
  return {
    current: () => pair,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    job: {
      name: "certificates",
      async runDue() {
        const next = await source.next();
        if (next) {
          pair = next;
          for (const listener of listeners) listener(pair);
        }
        return runtime.now() + source.interval;
      },
    },
  };
}

/** What is wrong with a pair, or undefined. */
function problemOf({ cert, key }: KeyPair): string | undefined {
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

function fileSource(files: { cert: string; key: string }, { runtime, log }: CertificateSetup): Source {
  let seen = "";

  /** Changes when either file is written, or replaced by another. */
  async function signature(): Promise<string> {
    const stats = await Promise.all([stat(files.cert), stat(files.key)]);
    return stats.map(({ ino, size, mtimeMs }) => `${ino} ${size} ${mtimeMs}`).join();
  }

  async function read(): Promise<KeyPair> {
    const [cert, key] = await Promise.all([readFile(files.cert, "utf8"), readFile(files.key, "utf8")]);
    const pair = { cert, key };
    const problem = problemOf(pair);
    if (problem) throw new ConfigError(`MAILROOM_TLS: ${problem} (${files.cert}, ${files.key})`);
    const until = new X509Certificate(cert).validToDate;
    if (until.getTime() < runtime.now()) log.warn("certificate has expired", { cert: files.cert, until });
    return pair;
  }

  return {
    interval: LOOK_AT_FILES_MS,
    async first() {
      try {
        seen = await signature();
        return await read();
      } catch (error) {
        if (error instanceof ConfigError) throw error;
        throw new ConfigError(`MAILROOM_TLS: cannot read ${files.cert} and ${files.key}: ${(error as Error).message}`);
      }
    },
    async next() {
      const now = await signature().catch((error: Error) => error.message);
      if (now === seen) return undefined;
      seen = now;
      try {
        const pair = await read();
        log.info("certificate replaced", { cert: files.cert });
        return pair;
      } catch (error) {
        log.warn("new certificate cannot be used, the old one stays", { reason: (error as Error).message });
        return undefined;
      }
    },
  };
}

function selfSignedSource({ hostname, folder, runtime, log }: CertificateSetup): Source {
  const place = join(folder, "tls");
  const path = join(place, "self-signed.pem");
  const name = hostname.replace(/^\[(?:IPv6:)?|\]$/gi, "");

  function isInForce(pem: string): boolean {
    if (problemOf({ cert: pem, key: pem }) !== undefined) return false;
    const certificate = new X509Certificate(pem);
    const isForHost = isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name);
    return isForHost !== undefined && certificate.validToDate.getTime() - runtime.now() > RENEW_BEFORE_DAYS * DAY_MS;
  }

  async function make(): Promise<KeyPair> {
    const from = runtime.now() - DAY_MS;
    const until = runtime.now() + SELF_SIGNED_DAYS * DAY_MS;
    const pair = await selfSign(name, from, until, runtime.randomBytes(16));
    await mkdir(place, { recursive: true, mode: 0o700 });
    const temporary = `${path}.new`;
    const handle = await open(temporary, "w", 0o600);
    try {
      await handle.chmod(0o600);
      await handle.writeFile(`${pair.key}\n${pair.cert}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
    log.info("self-signed certificate made", { hostname, until: new Date(until) });
    return pair;
  }

  return {
    interval: DAY_MS,
    async first() {
      const pem = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return "";
        throw new ConfigError(`cannot read ${path}: ${error.message}`);
      });
      return isInForce(pem) ? splitPem(pem) : await make();
    },
    async next() {
      const pem = await readFile(path, "utf8").catch(() => "");
      return isInForce(pem) ? undefined : await make();
    },
  };
}

function splitPem(pem: string): KeyPair {
  const [key = ""] = /-----BEGIN PRIVATE KEY-----[\s\S]*?-----END PRIVATE KEY-----/.exec(pem) ?? [];
  const [cert = ""] = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/.exec(pem) ?? [];
  return { cert, key };
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
