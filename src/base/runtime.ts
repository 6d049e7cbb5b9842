/**
 * What the world provides: the clock, timers, randomness, DNS and outgoing HTTP. The only file that asks the operating
 * system for any of them, secure-dns.ts apart, which it alone uses; tests hand in others.
 */
import { randomBytes } from "node:crypto";
import { Resolver } from "node:dns/promises";
import { createSecureDns, type SecureDns } from "./secure-dns.ts";

export type { NameServer, SecureAnswer, SecureDns, Tlsa } from "./secure-dns.ts";

/** The questions the appliance asks of DNS. Rejects with node's `ENOTFOUND`, `ENODATA`, `ETIMEOUT`, … in `code`. */
export type DnsResolver = Pick<
  Resolver,
  "resolve4" | "resolve6" | "resolveMx" | "resolveTxt" | "resolveCname" | "resolveNs" | "resolvePtr"
>;

export interface Runtime {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls `wake` once, `ms` milliseconds from now; returns what cancels it. */
  setTimer(wake: () => void, ms: number): () => void;
  randomBytes(size: number): Uint8Array;
  dns: DnsResolver;
  /** DNS that says what is authenticated; without it, nothing is. */
  secureDns?: SecureDns;
  /** Certificate authorities (PEM) that are trusted instead of those that the system has. */
  authorities?: readonly string[];
  fetch: typeof fetch;
}

/** The real world. `dnsServers`: `ip` or `ip:port`; empty for the system's resolvers. */
export function systemRuntime(dnsServers: readonly string[] = []): Runtime {
  const dns = new Resolver({ timeout: 5_000, tries: 2 });
  if (dnsServers.length > 0) dns.setServers([...dnsServers]);
  return {
    now: () => Date.now(),
    setTimer: (wake, ms) => {
      // Node clamps longer delays to 1 ms; the sleeper looks at the clock again when it wakes.
      const timer = setTimeout(wake, Math.min(ms, 2 ** 31 - 1));
      timer.unref();
      return () => clearTimeout(timer);
    },
    randomBytes: (size) => randomBytes(size),
    dns,
    secureDns: createSecureDns(dns.getServers(), () => randomBytes(2).readUInt16BE()),
    fetch,
  };
}

/** Crockford's: without i, l, o and u. */
export const BASE32 = "0123456789abcdefghjkmnpqrstvwxyz";
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/**
 * The prefixes of public ids (rules: Ids). Ours are `apw` app password, `dom` domain, `que` queue entry, `ses`
 * session, `sup` suppression, `und` a change that can be undone and `whd` webhook delivery.
 */
export type IdPrefix =
  | ("wsp" | "usr" | "mbx" | "thr" | "msg" | "att" | "evt" | "whk" | "key")
  | ("apw" | "dom" | "que" | "ses" | "sup" | "und" | "whd");

/** A character for each byte, which tells 5 bits of it. */
export function base32(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += BASE32[byte & 31];
  return text;
}

/** Of a timed token: those that tell the time, at its beginning. */
const TIME_LENGTH = 9;

function timeToken(now: number): string {
  let token = "";
  for (let rest = now, i = 0; i < TIME_LENGTH; i++, rest = Math.floor(rest / 32)) token = BASE32[rest % 32] + token;
  return token;
}

/**
 * `length` characters, of which 9 tell the time and the others are random (5 bits each): what is indexed by it is added
 * at the end, beside what came just before, instead of each on a page of its own.
 */
export const newTimedToken = (runtime: Pick<Runtime, "now" | "randomBytes">, length: number): string =>
  timeToken(runtime.now()) + base32(runtime.randomBytes(length - TIME_LENGTH));

const ID_LENGTH = 22;

/** A new public id, with 65 random bits, so that it cannot be guessed. Opaque to clients. */
export const newId = (runtime: Pick<Runtime, "now" | "randomBytes">, prefix: IdPrefix): string =>
  `${prefix}_${newTimedToken(runtime, ID_LENGTH)}`;

/** `length` characters [A-Za-z0-9], unbiased. */
export function randomToken(runtime: Pick<Runtime, "randomBytes">, length: number): string {
  let token = "";
  while (token.length < length) {
    for (const byte of runtime.randomBytes(length)) {
      if (byte < 248 && token.length < length) token += BASE62[byte % 62];
    }
  }
  return token;
}
