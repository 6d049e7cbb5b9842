/**
 * What makes a delivery believable: the headers of one attempt, signed afresh (spec: Request headers, Signature
 * verification), beside those of Standard Webhooks, so that verifiers that exist already work.
 *
 * Invariant: what is signed is the very bytes that are sent. While a secret is being rotated, who knows either of the two
 * can verify (contract: Webhook delivery states).
 */
import type { Runtime } from "../runtime.ts";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** contract: Names. */
export function newSecret(runtime: Pick<Runtime, "randomBytes">): string {
  return PREFIX + Buffer.from(runtime.randomBytes(SECRET_BYTES)).toString("base64");
}

/** An endpoint's secrets. `previousUntil`, epoch ms: until then `previousSecret` is good as well. */
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

/** The header fields of an attempt, by name. */
export function signedHeaders(
  { eventId, event, body, number, now }: Attempt,
  secrets: Secrets,
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1_000));
  const { secret, previousSecret, previousUntil } = secrets;
  const previous = previousUntil !== null && now < previousUntil ? previousSecret : null;
  // What is signed goes in by pieces: to join them would copy the body for each signature.
  const sign = (key: string | Buffer, before: string) =>
    new Bun.CryptoHasher("sha256", key).update(before).update(body);
  const standardBy = (one: string) => `v1,${sign(decoded(one), `${eventId}.${timestamp}.`).digest("base64")}`;
  return {
    "Content-Type": "application/json",
    "X-Service-Event": event,
    "X-Service-Delivery": eventId,
    "X-Service-Attempt": String(number),
    "X-Service-Timestamp": timestamp,
    "X-Service-Signature": `t=${timestamp},v1=${sign(previous ?? secret, `${timestamp}.`).digest("hex")}`,
    "webhook-id": eventId,
    "webhook-timestamp": timestamp,
    "webhook-signature": standardBy(secret) + (previous === null ? "" : ` ${standardBy(previous)}`),
  };
}

const decoded = (secret: string): Buffer => Buffer.from(secret.slice(PREFIX.length), "base64");
