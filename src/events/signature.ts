/**
 * Signs each attempt: makes its headers (rules: Webhook headers, Webhook signature), and those of Standard Webhooks, so that
 * existing verifiers work.
 *
 * Invariant: the signature is over the exact bytes that are sent. During a rotation a receiver can verify with either secret
 * (rules: Secret rotation).
 */
import type { Runtime } from "../base/runtime.ts";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** Makes a webhook secret (rules: Key and secret formats). */
export function newSecret(runtime: Pick<Runtime, "randomBytes">): string {
  return PREFIX + Buffer.from(runtime.randomBytes(SECRET_BYTES)).toString("base64");
}

/** An endpoint's secrets. `previousSecret` is valid until `previousUntil` (epoch ms). */
export interface Secrets {
  secret: string;
  previousSecret: string | null;
  previousUntil: number | null;
}

export interface Attempt {
  eventId: string;
  event: string;
  body: string;
  /** 1 for the first. */
  number: number;
  /** When it is signed, epoch ms. */
  now: number;
}

/** Returns the header fields of an attempt, signed with these secrets. */
export function signedHeaders(
  { secret, previousSecret, previousUntil }: Secrets,
  { eventId, event, body, number, now }: Attempt,
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1_000));
  const previous =
    previousSecret !== null && previousUntil !== null && now < previousUntil ? previousSecret : undefined;
  // rules: Webhook signature. The first is keyed with the text of the secret, the second with the bytes it encodes.
  const service = hmac(previous ?? secret, `${timestamp}.${body}`, "hex");
  const standard = [secret, ...(previous === undefined ? [] : [previous])].map(
    (one) => `v1,${hmac(Buffer.from(one.slice(PREFIX.length), "base64"), `${eventId}.${timestamp}.${body}`, "base64")}`,
  );
  return {
    "Content-Type": "application/json",
    "X-Service-Event": event,
    "X-Service-Delivery": eventId,
    "X-Service-Attempt": String(number),
    "X-Service-Timestamp": timestamp,
    "X-Service-Signature": `t=${timestamp},v1=${service}`,
    "webhook-id": eventId,
    "webhook-timestamp": timestamp,
    "webhook-signature": standard.join(" "),
  };
}

const hmac = (key: string | Buffer, text: string, encoding: "hex" | "base64"): string =>
  new Bun.CryptoHasher("sha256", key).update(text).digest(encoding);
