/**
 * The certificate of the TLS listeners (rules: Certificates), from any source, and the names that it is for. Every pair
 * it hands out is usable; running listeners get each later pair.
 */
import { isIP } from "node:net";
import type { DnsClient } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { lookUpAddresses } from "../net/host-addresses.ts";
import { acmeSource } from "./acme.ts";
import type { KeyPair } from "./pair.ts";
import { type CertificateSetup, fileSource, type Names, type Source, selfSignedSource } from "./source.ts";

export type { KeyPair, Names };

export type Certificates = Awaited<ReturnType<typeof openCertificates>>;

function sourceOf(setup: CertificateSetup): Source {
  const { mode } = setup;
  if (mode.mode === "acme") return acmeSource(mode, setup);
  return mode.mode === "files" ? fileSource(mode, setup) : selfSignedSource(setup);
}

/** Opens the certificate. @throws ConfigError for files that cannot be read or do not belong together. */
export async function openCertificates(setup: CertificateSetup) {
  const source = sourceOf(setup);
  const listeners = new Set<(pair: KeyPair) => void>();
  let pair = await source.first();
  const job: Job = {
    name: "certificates",
    runDue: () =>
      source.look((next) => {
        pair = next;
        for (const listener of listeners) listener(pair);
      }),
  };
  return {
    current: (): KeyPair => pair,
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
    /** Ends orders under way. */
    stop: () => source.stop?.(),
  };
}

/** Let's Encrypt allows at most this many names in an order. */
const MOST_NAMES = 100;

/** Finds the current names for an authority's certificate. Never rejects. */
export async function findNames({
  hostname,
  baseUrl,
  webHosts,
  dns,
}: {
  /** Name of the SMTP listeners. */
  hostname: string;
  /** Public origin of the web. */
  baseUrl: string;
  /** Lists hosts of the domains, the important ones first; those whose DNS leads to this server are included. */
  webHosts(): readonly string[];
  dns: DnsClient;
}): Promise<Names> {
  const main = hostname.toLowerCase();
  const webHost = new URL(baseUrl).hostname;
  const addressesOf = (host: string): Promise<string[]> => lookUpAddresses(host, dns).catch(() => []);
  const here = await addressesOf(main);
  const hosts = webHosts().slice(0, MOST_NAMES - 2);
  const leadHere = await Promise.all(
    hosts.map(async (host) => (await addressesOf(host)).some((address) => here.includes(address))),
  );
  const isPublic = webHost.includes(".") && isIP(webHost) === 0 && webHost !== main;
  return { main, others: [...(isPublic ? [webHost] : []), ...hosts.filter((_, i) => leadHere[i])] };
}
