/**
 * Time-based one-time passwords (RFC 6238 over RFC 4226), as authenticator apps create them: SHA-1, six digits, 30
 * seconds. Pure. No package is used: the important property, that no code is valid twice, would be left to us anyway.
 * The tests have the vectors of both RFCs.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { base32nopad } from "../base/encodings.ts";

/** RFC 4226 §4, R6: as long as the hash. */
export const SECRET_BYTES = 20;
const DIGITS = 6;
const STEP_MS = 30_000;
/** RFC 6238 §5.2: codes of the adjacent steps are valid, too, since clocks differ. */
const STEPS_ASIDE = 1;

/** The number of the time step at `now` (epoch ms). */
export const totpStepAt = (now: number): number => Math.floor(now / STEP_MS);

/** The latest step whose code is valid then. */
export const latestTotpStepAt = (now: number): number => totpStepAt(now) + STEPS_ASIDE;

/** RFC 4226 §5.3, with the time step as the counter. */
export function computeTotpCode(secret: Uint8Array, step: number, digits = DIGITS): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", secret).update(counter).digest();
  const offset = mac.readUInt8(mac.length - 1) & 0x0f;
  const number = mac.readUInt32BE(offset) & 0x7fffffff;
  return String(number % 10 ** digits).padStart(digits, "0");
}

/** The time step near `now` and after `after` whose code this is; undefined if there is none. */
export function findMatchingTotpStep(secret: Uint8Array, code: string, now: number, after = -1): number | undefined {
  const given = Buffer.from(code);
  const present = totpStepAt(now);
  let found: number | undefined;
  for (let step = present - STEPS_ASIDE; step <= present + STEPS_ASIDE; step++) {
    const expected = Buffer.from(computeTotpCode(secret, step));
    const same = given.length === expected.length && timingSafeEqual(given, expected);
    if (same && step > after) found ??= step;
  }
  return found;
}

/** RFC 4648 §6, without padding: the form of a secret that people type into authenticator apps. */
export const toBase32 = (bytes: Uint8Array): string => base32nopad.encode(bytes);

/** The secret in such a text, ignoring spaces and case; undefined unless it has SECRET_BYTES. */
export function readTotpSecret(text: string): Uint8Array | undefined {
  const letters = text.replace(/\s/g, "").toUpperCase();
  if (letters.length !== (SECRET_BYTES * 8) / 5 || /[^A-Z2-7]/.test(letters)) return undefined;
  return base32nopad.decode(letters);
}

/**
 * The content of the QR code for authenticator apps (Google's Key URI Format). `secret` in base32; `account` as the app
 * shows it.
 */
export function totpKeyUri(secret: string, account: string): string {
  const issuer = "Mailroom";
  return `otpauth://totp/${issuer}:${encodeURIComponent(account)}?secret=${secret}&issuer=${issuer}`;
}
