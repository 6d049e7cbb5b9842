/**
 * The certificate of the TLS listeners (rules: Certificates), wherever it comes from. A pair handed out always works;
 * listeners are given a later one while they run.
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
  /** For the scheduler: looks whether there is a later pair. */
  job: Job;
  /** What to show the authority that asks for a challenge's `token` (RFC 8555 §8.3); undefined for one that is not ours. */
  proof(token: string): string | undefined;
  /** What to show the authority that comes to the HTTPS listener (RFC 8737); undefined when it is not told to. */
  alpn?: AlpnProofs | undefined;
  /** Why there is no certificate, or no later one, though there should be. */
  trouble(): Trouble | undefined;
  /** Ends what is under way. */
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
