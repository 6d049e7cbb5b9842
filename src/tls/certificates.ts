/**
 * The certificates of the TLS listeners (rules: Certificates), from any source: the server's own, and those of hosts that
 * a client names (SNI). Every pair it hands out is usable; running listeners get each later pair.
 */
import { isIP } from "node:net";
import { createSecureContext, type SecureContext } from "node:tls";
import type { Job } from "../base/scheduler.ts";
import { acmeCertificateSource } from "./acme.ts";
import type { KeyPair } from "./pair.ts";
import {
  type CertificateSetup,
  type DomainHosts,
  fileCertificateSource,
  type Renewal,
  type Source,
  selfSignedCertificateSource,
} from "./source.ts";

export type { DomainHosts, KeyPair };

export type Certificates = Awaited<ReturnType<typeof openCertificates>>;

function createCertificateSource(setup: CertificateSetup): Source {
  const { mode } = setup;
  if (mode.mode === "acme") return acmeCertificateSource(mode, setup);
  return mode.mode === "files" ? fileCertificateSource(mode, setup) : selfSignedCertificateSource(setup);
}

/** Why nobody can be asked for a certificate. */
const NOBODY = {
  files: "MAILROOM_TLS names files, which whoever makes them renews: the server takes up newer ones by itself",
  "self-signed": "the certificate is self-signed, and made anew by itself: MAILROOM_TLS=acme asks an authority for one",
  acme: "",
} as const;

/** Opens the certificate. @throws ConfigError for files that cannot be read or do not belong together. */
export async function openCertificates(setup: CertificateSetup) {
  const source = createCertificateSource(setup);
  const listeners = new Set<(pair: KeyPair) => void>();
  /** The keys of session tickets are the context's, so clients resume their sessions until the certificate changes. */
  const contexts = new WeakMap<KeyPair, SecureContext>();
  let pair = await source.first();

  function contextFor(pair: KeyPair): SecureContext {
    const context = contexts.get(pair) ?? createSecureContext(tlsOptions(pair));
    contexts.set(pair, context);
    return context;
  }

  const job: Job = {
    name: "certificates",
    runDue: () =>
      source.look((next) => {
        pair = next;
        for (const listener of listeners) listener(pair);
      }),
  };
  return {
    /** The server's own. */
    current: (): KeyPair => pair,
    /** The `SNICallback` of a listener (node:tls), which shows the server's own where this gives none. */
    choose(name: string, done: (error: null, context?: SecureContext) => void): void {
      const chosen = source.pairFor?.(name.toLowerCase().replace(/\.$/, ""));
      done(null, chosen && contextFor(chosen));
    },
    /** Lists the domains that have certificates of their own, or wait for one. */
    domains: () => source.domains?.() ?? [],
    /** `listener` gets every later pair. Returns what removes it. */
    onChange(listener: (pair: KeyPair) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Looks for a later pair. */
    job,
    /** Has the job's next run read the operator's files again, even if they look unchanged. */
    forget: () => source.forget?.(),
    /** Returns the proof for a challenge's `token` (RFC 8555 §8.3); undefined for an unknown token. */
    proof: (token: string) => source.proof?.(token),
    /** Proofs for the authority at the HTTPS listener (RFC 8737); undefined for other types of challenge. */
    alpn: source.alpn,
    /** Returns why an authority's certificate is missing or was not renewed. */
    trouble: () => source.trouble?.(),
    /**
     * Has the job's next run order the server's own certificate, or that of a domain, due or not.
     * @throws Error that says why nothing is ordered
     */
    async renew(domain: string | undefined): Promise<Renewal> {
      if (!source.renew) throw new Error(NOBODY[setup.mode.mode]);
      return source.renew(domain);
    },
    /** Ends orders under way. */
    stop: () => source.stop?.(),
  };
}

/** The names of the server's own certificate: its host name, and the host of `baseUrl`, the public origin of the web. */
export function ownCertificateNames({ hostname, baseUrl }: { hostname: string; baseUrl: string }): string[] {
  const main = hostname.toLowerCase();
  const webHost = new URL(baseUrl).hostname;
  const isPublic = webHost.includes(".") && isIP(webHost) === 0 && webHost !== main;
  return isPublic ? [main, webHost] : [main];
}

/** The options of a TLS listener that shows a pair. */
export const tlsOptions = ({ cert, key }: KeyPair) => ({ cert, key, minVersion: "TLSv1.2" }) as const;
