/**
 * The outside world: clock, timers, randomness, DNS and outgoing HTTP, and the ids and tokens made of time and
 * randomness. Only this file and dns-client.ts, which only this file imports, ask the operating system for them. Tests
 * hand in a clock of theirs, and a DNS client that asks a server of theirs.
 */
import { randomBytes } from "node:crypto";
import { uptime } from "node:os";
import { createDnsClient, type DnsClient } from "./dns-client.ts";

export type { DnsAnswer, DnsClient, NameServer, RecordType, Tlsa } from "./dns-client.ts";

export interface Runtime {
  /** Epoch milliseconds. */
  now(): number;
  /**
   * Milliseconds since some moment, right to a second. Setting the clock does not change it, and time in which the
   * machine sleeps counts.
   */
  elapsed(): number;
  /** Calls `wake` once, in `ms` milliseconds. Returns a function that cancels the timer. */
  setTimer(wake: () => void, ms: number): () => void;
  randomBytes(size: number): Uint8Array;
  dns: DnsClient;
  /** Certificate authorities (PEM) to trust instead of the system's. */
  authorities?: readonly string[];
  fetch: typeof fetch;
}

/** The real runtime. `dnsServers`: `ip` or `ip:port`; empty for the system's resolvers. */
export function systemRuntime(dnsServers: readonly string[] = []): Runtime {
  const elapsed = () => uptime() * 1_000;
  return {
    now: () => Date.now(),
    elapsed,
    setTimer: (wake, ms) => {
      // Node turns longer delays into 1 ms. Callers look at the clock again when they wake.
      const timer = setTimeout(wake, Math.min(ms, 2 ** 31 - 1));
      timer.unref();
      return () => clearTimeout(timer);
    },
    randomBytes: (size) => randomBytes(size),
    dns: createDnsClient({ servers: dnsServers, randomNumber: () => randomBytes(2).readUInt16BE(), elapsed }),
    fetch,
  };
}

/** Crockford's alphabet: no i, l, o and u. */
export const BASE32 = "0123456789abcdefghjkmnpqrstvwxyz";
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/**
 * The prefixes of public ids (rules: Ids), and those that the rules do not list: `apw` app password, `cli` OAuth client, `dom` domain,
 * `exp` export of a workspace, `que` queue entry, `ses` session, `sup` suppression, `und` a change that can be undone, `whd` webhook delivery.
 */
export type IdPrefix =
  | ("wsp" | "usr" | "mbx" | "thr" | "msg" | "att" | "evt" | "whk" | "key")
  | ("apw" | "cli" | "dom" | "exp" | "que" | "ses" | "sup" | "und" | "whd");

/** One character for each byte, from its low 5 bits. */
export function base32(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += BASE32[byte & 31];
  return text;
}

/** Characters at the beginning of a timed token that tell the time. */
const TIME_LENGTH = 9;

function timeToken(now: number): string {
  let token = "";
  for (let rest = now, i = 0; i < TIME_LENGTH; i++, rest = Math.floor(rest / 32)) token = BASE32[rest % 32] + token;
  return token;
}

/**
 * `length` characters: 9 tell the time, the others are random (5 bits each). Rows indexed by it go to the end of the
 * index, beside the rows of the same moment, instead of each to a page of its own.
 */
export const newTimedToken = (runtime: Pick<Runtime, "now" | "randomBytes">, length: number): string =>
  timeToken(runtime.now()) + base32(runtime.randomBytes(length - TIME_LENGTH));

const ID_LENGTH = 22;

/** A new public id, with 65 random bits against guessing. Opaque to clients. */
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
