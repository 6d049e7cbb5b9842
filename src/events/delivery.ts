/**
 * One attempt at a delivery: a signed POST by the guarded HTTP client (rules: Webhook headers, Webhook signature), and
 * its outcome, described for the admins of the endpoint.
 *
 * Invariants: the signature is over the exact bytes that are sent. During a rotation a receiver can verify with either
 * secret (rules: Secret rotation). The time limit covers everything from the DNS query to the last byte of the
 * response. At most 4 KiB of the body are kept. The description never names the IP address of a host. Neither it nor
 * the kept body contains control characters that a terminal would obey.
 */
import type { Runtime } from "../base/runtime.ts";
import { RefusedDestination } from "../net/destination.ts";
import { describeHttpFailure, type HttpClient } from "../net/http-client.ts";

export interface AttemptOutcome {
  /** The receiver sent a whole 2xx response in time (rules: Webhook attempts). */
  ok: boolean;
  /** HTTP status, if a response began. */
  status?: number;
  /** The first 4 KiB of the response's body. */
  response?: string;
  /** The failure, for people. */
  error?: string;
  /** The settings forbid connecting to the destination, so another attempt does not help. */
  refused?: true;
  /** Duration of the attempt. */
  ms: number;
}

const KEPT_BYTES = 4_096;

/** Facts that an attempt at a delivery needs. `body`: the same bytes at every attempt. */
export interface Attempted {
  delivery: { eventId: string; event: string; attempts: number };
  endpoint: Secrets & { url: string };
  body: string;
}

/** Makes the next attempt at a delivery. Never rejects. */
export async function attemptWebhookDelivery(
  { http, runtime }: { http: HttpClient; runtime: Pick<Runtime, "now"> },
  { delivery, endpoint, body }: Attempted,
  timeoutMs: number,
): Promise<AttemptOutcome> {
  const since = runtime.now();
  const number = delivery.attempts + 1;
  const headers = signedHeaders(endpoint, { ...delivery, body, number, now: since });
  let status: number | undefined;
  try {
    const response = await http.within(timeoutMs, async (signal) => {
      const begun = await http.send({ method: "POST", url: endpoint.url, headers, body, attempt: number }, signal);
      status = begun.status;
      return readStart(begun);
    });
    const ms = runtime.now() - since;
    return status !== undefined && status >= 200 && status < 300
      ? { ok: true, status, response, ms }
      : { ok: false, ...(status !== undefined && { status, error: describeStatus(status) }), response, ms };
  } catch (error) {
    return {
      ok: false,
      ...(status !== undefined && { status }),
      error: error instanceof RefusedDestination ? describeWebhookRefusal(error) : describeHttpFailure(error),
      ...(error instanceof RefusedDestination && { refused: true as const }),
      ms: runtime.now() - since,
    };
  }
}

/** Reads the first 4 KiB of the body, without a last character that is cut off; cancels the rest. */
async function readStart(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const head = Buffer.alloc(KEPT_BYTES);
  let size = 0;
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    head.set(next.value.subarray(0, Math.max(0, KEPT_BYTES - size)), Math.min(size, KEPT_BYTES));
    size += next.value.length;
    if (size <= KEPT_BYTES) continue;
    await reader?.cancel();
    break;
  }
  const text = new TextDecoder().decode(head.subarray(0, size), { stream: size > KEPT_BYTES });
  return text.replace(/[^\P{Cc}\t\r\n]/gu, "\ufffd");
}

/** The refusal, with the setting that may except the address. */
export const describeWebhookRefusal = ({ message, isExceptable }: RefusedDestination): string =>
  isExceptable ? `${message} (webhooks.allowNetworks lists exceptions)` : message;

const describeStatus = (status: number): string =>
  status >= 300 && status < 400 ? `answered ${status}, and redirects are not followed` : `answered ${status}`;

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** Makes a webhook secret (rules: Key and secret formats). */
export function newWebhookSecret(runtime: Pick<Runtime, "randomBytes">): string {
  return PREFIX + Buffer.from(runtime.randomBytes(SECRET_BYTES)).toString("base64");
}

/** An endpoint's secrets. `previousSecret` is valid until `previousUntil` (epoch ms). */
export interface Secrets {
  secret: string;
  previousSecret: string | null;
  previousUntil: number | null;
}

/**
 * Returns the header fields of an attempt, signed with these secrets, and those of Standard Webhooks, so that existing
 * verifiers work. `number`: 1 for the first attempt; `now`: epoch ms.
 */
function signedHeaders(
  { secret, previousSecret, previousUntil }: Secrets,
  { eventId, event, body, number, now }: { eventId: string; event: string; body: string; number: number; now: number },
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
