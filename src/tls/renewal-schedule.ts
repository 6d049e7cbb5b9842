/** When to order a certificate for renewal, and after failures. Times in epoch ms. */
import type { X509Certificate } from "node:crypto";
import type { RenewalWindow } from "./certificate-authority.ts";
import type { Trouble } from "./source.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * Waits after failures in a row. Public authorities allow few failed orders an hour for a name, and a person has to fix
 * the usual causes, such as DNS or a firewall.
 */
const WAITS_MS = [5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS];

/** Latest renewal, as a part of a certificate's life. */
const LATEST = 0.8;
/** Longest wait that an authority may ask for: its certificates are valid for weeks. */
const LONGEST_WAIT_MS = 7 * 24 * HOUR_MS;

/**
 * Returns when to renew the certificate: a moment in the window that the authority suggests, or else after two thirds
 * of its life. `soonest`: when a window counts at the earliest, so that one in the past does not have orders follow each
 * other without end. Its fingerprint chooses the exact moment, which so stays the same, and differs between certificates.
 */
export function certificateRenewalTime(
  certificate: X509Certificate,
  suggested: RenewalWindow | undefined,
  soonest: number,
): number {
  const { validFromDate, validToDate, fingerprint256 } = certificate;
  const [from, until] = [validFromDate.getTime(), validToDate.getTime()];
  const chance = Number.parseInt(fingerprint256.replaceAll(":", "").slice(0, 8), 16) / 2 ** 32;
  // A later window is ignored: failures in a row could outlast the certificate.
  const latest = from + (until - from) * (LATEST + chance / 20);
  if (suggested) {
    const wanted = suggested.start + (suggested.end - suggested.start) * chance;
    return Math.min(Math.max(wanted, soonest), latest);
  }
  return from + (until - from) * (2 / 3 + chance / 20);
}

/**
 * Tells whether a renewal still waits for a name that fails, since the certificate is good for it: between half of its
 * life and the latest renewal. An earlier one is urgent, as after a revocation.
 */
export function mayCertificateRenewalWait({ validFromDate, validToDate }: X509Certificate, now: number): boolean {
  const [from, until] = [validFromDate.getTime(), validToDate.getTime()];
  const age = (now - from) / (until - from);
  return age >= 0.5 && age < LATEST;
}

/** Adds a failure. `chance`: 0 to 1. `askedFor`: the earliest time that the authority allows. `rest`: as in Trouble. */
export function addCertificateFailure(
  last: Trouble | undefined,
  {
    now,
    chance,
    askedFor = 0,
    ...rest
  }: { now: number; chance: number; askedFor?: number | undefined } & Pick<Trouble, "reason" | "type" | "of">,
): Trouble {
  const failures = (last?.failures ?? 0) + 1;
  const wait = (WAITS_MS[failures - 1] ?? 24 * HOUR_MS) * (1 + chance / 5);
  return { failures, at: now, retryAt: Math.max(now + wait, Math.min(askedFor, now + LONGEST_WAIT_MS)), ...rest };
}

/** Moves a failure to `now`, with its wait, after the clock was set back to before it. */
export const moveCertificateFailureToNow = (trouble: Trouble, now: number): Trouble => ({
  ...trouble,
  at: now,
  retryAt: now + trouble.retryAt - trouble.at,
});
