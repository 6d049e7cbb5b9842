/**
 * What makes a delivery believable: the headers of one attempt, signed afresh (rules: Webhook
 * headers, Webhook signature), beside those of Standard Webhooks, so that verifiers that exist already work.
 *
 * Invariant: what is signed is the very bytes that are sent. While a secret is being rotated, who knows either of the two
 * can verify (rules: Secret rotation).
 */
import type { Runtime } from "../base/runtime.ts";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** rules: Key and secret formats. */
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

/** What has the key of a secret in it already; each signature goes on from a copy. */
interface Signers {
  /** Of X-Service-Signature: keyed with the secret as it is written. */
  service: Bun.CryptoHasher;
  /** Of webhook-signature: keyed with its bytes (rules: Webhook signature). */
  standard: Bun.CryptoHasher;
}

const keyed = (key: string | Buffer): Bun.CryptoHasher => new Bun.CryptoHasher("sha256", key);

const signersOf = (secret: string): Signers => ({
  service: keyed(secret),
  standard: keyed(Buffer.from(secret.slice(PREFIX.length), "base64")),
});

/** Gives the header fields of an attempt, as they are sent: a line each, with its end (RFC 9112 §5). */
export type Signing = (attempt: Attempt) => string;

/** With these secrets; made once for many attempts. */
export function createSigning({ secret, previousSecret, previousUntil }: Secrets): Signing {
  const present = signersOf(secret);
  const previous = previousSecret === null ? undefined : signersOf(previousSecret);

  return ({ eventId, event, body, number, now }) => {
    const timestamp = String(Math.floor(now / 1_000));
    const before = previousUntil !== null && now < previousUntil ? previous : undefined;
    const { service } = before ?? present;
    const serviceV1 = service.copy().update(`${timestamp}.`).update(body).digest("hex");
    const standardBy = ({ standard }: Signers) =>
      `v1,${standard.copy().update(`${eventId}.${timestamp}.`).update(body).digest("base64")}`;
    return `Content-Type: application/json\r
X-Service-Event: ${event}\r
X-Service-Delivery: ${eventId}\r
X-Service-Attempt: ${number}\r
X-Service-Timestamp: ${timestamp}\r
X-Service-Signature: t=${timestamp},v1=${serviceV1}\r
webhook-id: ${eventId}\r
webhook-timestamp: ${timestamp}\r
webhook-signature: ${before ? `${standardBy(present)} ${standardBy(before)}` : standardBy(present)}\r
`;
  };
}
