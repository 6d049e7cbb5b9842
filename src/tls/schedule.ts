/** When a certificate is asked for: at first, for another name, when it is time to renew, and after failures. Pure. */
import { X509Certificate } from "node:crypto";
import type { RenewalWindow } from "./authority.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * Waits after failures in a row. Public authorities allow few failed orders an hour for a name, and whatever is wrong,
 * DNS or a firewall, is put right by people.
 */
const WAITS_MS = [5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS];

/** Of a certificate's life. */
const LATEST = 0.8;
/** An authority that asks for more patience than that is not believed: its certificates are good for weeks. */
const LONGEST_WAIT_MS = 7 * 24 * HOUR_MS;

/** What went wrong last, kept on disk: a server that is restarted over and over asks no more often. */
export interface Trouble {
  /** In a row. */
  failures: number;
  /** Epoch ms. */
  at: number;
  /** Epoch ms; not before then. */
  retryAt: number;
  /** For people. */
  reason: string;
}

/**
 * When the certificate is to be renewed, epoch ms: a moment in the window that the authority suggests, or after two
 * thirds of its life. Where in the window, or how much later, the certificate itself decides, so that it stays the same
 * moment, and another for another's.
 */
export function renewalTime(cert: string, suggested: RenewalWindow | undefined): number {
  const { validFromDate, validToDate, fingerprint256 } = new X509Certificate(cert);
  const [from, until] = [validFromDate.getTime(), validToDate.getTime()];
  const chance = Number.parseInt(fingerprint256.replaceAll(":", "").slice(0, 8), 16) / 2 ** 32;
  // Whatever it suggests, not so late that failures could outlast the certificate.
  const latest = from + (until - from) * (LATEST + chance / 20);
  if (suggested) return Math.min(suggested.start + (suggested.end - suggested.start) * chance, latest);
  return from + (until - from) * (2 / 3 + chance / 20);
}

/** Whether the certificate is for all of these names. */
export function covers(cert: string, names: readonly string[]): boolean {
  const certificate = new X509Certificate(cert);
  return names.every((name) => certificate.checkHost(name, { wildcards: false }) !== undefined);
}

/** `chance`: 0 to 1. `askedFor`: not before then, if the authority said so. */
export function afterFailure(
  last: Trouble | undefined,
  { now, reason, chance, askedFor = 0 }: { now: number; reason: string; chance: number; askedFor?: number | undefined },
): Trouble {
  const failures = (last?.failures ?? 0) + 1;
  const wait = (WAITS_MS[failures - 1] ?? 24 * HOUR_MS) * (1 + chance / 5);
  return { failures, at: now, retryAt: Math.max(now + wait, Math.min(askedFor, now + LONGEST_WAIT_MS)), reason };
}

/** When to try again, epoch ms. A clock that was set back since makes the wait no longer. */
export function retryTimeOf({ at, retryAt }: Trouble, now: number): number {
  return retryAt - Math.max(0, at - now);
}
