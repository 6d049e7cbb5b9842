/**
 * Proves names to an authority (rules: ACME challenges): by a response at port 80 of the name, by a certificate at its
 * port 443, or by a record in DNS.
 *
 * Invariant: a proof is shown only while an order is under way, and removed when the order succeeds or fails.
 */
import { join } from "node:path";
import type { ChallengeMode } from "../config.ts";
import type { Challenge } from "./certificate-authority.ts";
import { dnsChallenge } from "./dns-challenge.ts";
import { type KeyPair, selfSign } from "./pair.ts";
import type { CertificateSetup } from "./source.ts";

type Setup = Pick<CertificateSetup, "folder" | "runtime" | "log">;

/** @throws ConfigError for a hook that cannot be run */
export function openChallenge(mode: ChallengeMode, { folder, runtime, log }: Setup): Challenge {
  if (mode.type === "http") return httpChallenge();
  if (mode.type === "tls-alpn") return alpnChallenge(runtime);
  return dnsChallenge({ program: mode.program, folder: join(folder, "tls", "acme"), runtime, log });
}

function httpChallenge(): Challenge {
  const proofs = new Map<string, string>();
  return {
    type: "http-01",
    async show({ token, value }) {
      proofs.set(token, value);
    },
    async clear() {
      proofs.clear();
    },
    proof: (token) => proofs.get(token),
  };
}

const DAY_MS = 24 * 60 * 60_000;

/** Makes certificates for the authority alone; alpn-front.ts shows them. */
function alpnChallenge(runtime: Setup["runtime"]): Challenge {
  const pairs = new Map<string, KeyPair>();
  return {
    type: "tls-alpn-01",
    async show({ host, value }) {
      const now = runtime.now();
      pairs.set(host, await selfSign(host, now - DAY_MS, now + 7 * DAY_MS, runtime.randomBytes(16), value));
    },
    async clear() {
      pairs.clear();
    },
    alpn: { isPending: () => pairs.size > 0, pairFor: (name) => pairs.get(name) },
  };
}
