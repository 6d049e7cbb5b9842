/**
 * How names are proven to an authority (rules: ACME challenges): by what is answered at port 80 of the name, by
 * a certificate at its port 443, or by a record in DNS.
 *
 * Invariant: a proof is shown only while an order is under way, and taken away whatever becomes of it.
 */
import { accessSync, constants, readFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { ChallengeMode } from "../config.ts";
import type { AlpnProofs } from "./alpn-front.ts";
import type { ChallengeType, Proof } from "./authority.ts";
import type { CertificateSetup } from "./certificates.ts";
import { type DnsRecords, dnsChallenge } from "./dns-challenge.ts";
import { openDnsHook } from "./dns-hook.ts";
import { openDnsUpdate } from "./dns-update.ts";
import type { KeyPair } from "./pair.ts";
import { parseTsigKey, type TsigKey } from "./tsig.ts";
import { selfSign } from "./x509.ts";

export interface Challenge {
  readonly type: ChallengeType;
  /** Resolves once the authority can see the proof. @throws Error that says why it cannot. */
  show(proof: Proof): Promise<void>;
  /** Takes away whatever is shown, also since before a crash. Never rejects. */
  clear(): Promise<void>;
  /** Ends what is under way; what is shown is to be cleared all the same. */
  stop?(): void;
  /** What to answer who asks for a token over HTTP (RFC 8555 §8.3). */
  proof?(token: string): string | undefined;
  /** What to show at the HTTPS listener. */
  alpn?: AlpnProofs;
}

type Setup = Pick<CertificateSetup, "folder" | "runtime" | "log">;

/** @throws ConfigError for a file that a challenge in DNS needs */
export function openChallenge(mode: ChallengeMode, { folder, runtime, log }: Setup): Challenge {
  if (mode.type === "http") return httpChallenge();
  if (mode.type === "tls-alpn") return alpnChallenge(runtime);
  return dnsChallenge({ records: openRecords(mode, runtime), folder: join(folder, "tls", "acme"), runtime, log });
}

type DnsMode = Extract<ChallengeMode, { type: "dns-hook" | "dns-update" }>;

function openRecords(mode: DnsMode, runtime: Setup["runtime"]): DnsRecords {
  if (mode.type === "dns-update") return openDnsUpdate({ ...mode, key: readKey(mode.keyFile), runtime });
  try {
    accessSync(mode.program, constants.X_OK);
  } catch (error) {
    throw new ConfigError(`MAILROOM_ACME_CHALLENGE: cannot run ${mode.program}: ${(error as Error).message}`);
  }
  return openDnsHook(mode.program, runtime);
}

function readKey(path: string): TsigKey {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new ConfigError(`MAILROOM_ACME_CHALLENGE: cannot read ${path}: ${(error as Error).message}`);
  }
  const key = parseTsigKey(text);
  if (!key) throw new ConfigError(`MAILROOM_ACME_CHALLENGE: ${path} holds no TSIG key as tsig-keygen writes it`);
  return key;
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

/** Its certificates are for the authority alone: alpn-front.ts shows them. */
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
