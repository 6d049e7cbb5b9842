/**
 * The certificate of the TLS listeners (rules: Certificates), from any source. Every pair it hands out is usable; running
 * listeners get each later pair.
 */

import type { Job } from "../base/scheduler.ts";
import { acmeSource } from "./acme.ts";
import type { AlpnProofs } from "./alpn-front.ts";
import type { KeyPair } from "./pair.ts";
import type { Trouble } from "./schedule.ts";
import { type CertificateSetup, fileSource, type Names, type Source, selfSignedSource } from "./source.ts";

export type { KeyPair, Names };

export interface Certificates {
  current(): KeyPair;
  /** `listener` gets every later pair. Returns what removes it. */
  onChange(listener: (pair: KeyPair) => void): () => void;
  /** Looks for a later pair. */
  job: Job;
  /** Returns the proof for a challenge's `token` (RFC 8555 §8.3); undefined for an unknown token. */
  proof(token: string): string | undefined;
  /** Proofs for the authority at the HTTPS listener (RFC 8737); undefined for other types of challenge. */
  alpn?: AlpnProofs | undefined;
  /** Returns why an authority's certificate is missing or was not renewed. */
  trouble(): Trouble | undefined;
  /** Ends orders under way. */
  stop(): void;
}

function sourceOf(setup: CertificateSetup): Source {
  const { mode } = setup;
  if (mode.mode === "acme") return acmeSource(mode, setup);
  return mode.mode === "files" ? fileSource(mode, setup) : selfSignedSource(setup);
}

/** Opens the certificate. @throws ConfigError for files that cannot be read or do not belong together. */
export async function openCertificates(setup: CertificateSetup): Promise<Certificates> {
  const source = sourceOf(setup);
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
      runDue: () =>
        source.look((next) => {
          pair = next;
          for (const listener of listeners) listener(pair);
        }),
    },
    proof: (token) => source.proof?.(token),
    alpn: source.alpn,
    trouble: () => source.trouble?.(),
    stop: () => source.stop?.(),
  };
}
