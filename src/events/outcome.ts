/**
 * What an attempt comes to, for its delivery and for its endpoint (rules: Webhook attempts, Webhook
 * delivery states).
 *
 *   2xx                          delivered; the endpoint counts from nought
 *   refused destination          failed at once, and counts
 *   any other failure            retried on the schedule; after its end failed, and counts
 *   of a test, or a replay       nothing is retried, and no failure counts
 *   of a disabled endpoint       nothing is retried, and no failure counts
 */
import type { Health } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import type { AttemptOutcome } from "./delivery.ts";
import { type Endpoint, setDisabled, setRecord } from "./endpoints.ts";
import { type Delivery, DISABLED, endpointAt, isVoid, type Settled, settle } from "./queue.ts";

/** What is known when an attempt has ended, beside its outcome. */
export interface OutcomeTerms {
  /** Epoch ms. */
  now: number;
  /** Waits between attempts: one fewer than attempts. */
  retrySeconds: readonly number[];
  /** Exhausted deliveries in a row that disable an endpoint. */
  disableAfter: number;
  /** Of one attempt. */
  timeoutMs: number;
}

/** A response that takes longer, in ms, is slow. */
export const SLOW_MS = 1_000;

interface Settlement {
  settled: Settled;
  /** The delivery came to nothing, and the endpoint's count goes up. */
  counts: boolean;
}

/** What an attempt makes of its delivery. `endpoint`: as it is now. */
export function settlementOf(
  delivery: Delivery,
  endpoint: Endpoint,
  outcome: AttemptOutcome,
  { now, retrySeconds }: Pick<OutcomeTerms, "now" | "retrySeconds">,
): Settlement {
  const { ok, refused, status = null, response = null, error = null } = outcome;
  const finish = (state: Settled["state"], counts = false, why = error): Settlement => ({
    settled: { status, response, error: why, state, dueAt: null, finishedAt: now },
    counts,
  });
  if (ok) return finish("delivered");
  if (delivery.finishedAt !== null) return finish(delivery.state);
  if (isTest(delivery)) return finish("failed");
  const counts = !isVoid(delivery, endpoint);
  // delivery.attempts is without this one.
  const wait = retrySeconds[delivery.attempts];
  if (refused || wait === undefined) return finish("failed", counts);
  if (!counts) return finish("failed", false, [error, DISABLED].filter(Boolean).join("; "));
  const dueAt = now + Math.round(wait * 1_000);
  return { settled: { status, response, error, state: "retrying", dueAt, finishedAt: null }, counts: false };
}

const isTest = ({ eventSeq }: Delivery): boolean => eventSeq === null;

/** The health of an endpoint after an attempt; `before`: before it. */
export function healthAfter({ ok, status, ms }: AttemptOutcome, before: Health, timeoutMs: number): Health {
  if (status === undefined || ms >= timeoutMs) return "failing";
  if (ms > SLOW_MS) return "slow";
  // A bad response that is quick proves nothing, and delays nobody.
  return ok ? "proven" : before;
}

/** An attempt that has ended. */
export interface Ended {
  delivery: Delivery;
  outcome: AttemptOutcome;
}

/** What became of an endpoint. */
export interface Recorded {
  health: Health;
  /** Disabled, now or before, or removed. */
  off: boolean;
}

/**
 * Records attempts in the order in which they ended; returns what became of their endpoints, by seq. Nothing is recorded of
 * what was deleted meanwhile.
 */
export function recordAttempts(tx: Tx, attempts: readonly Ended[], terms: OutcomeTerms): Map<number, Recorded> {
  const recorded = new Map<number, Recorded>();
  for (const [endpointSeq, group] of Map.groupBy(attempts, ({ delivery }) => delivery.endpointSeq)) {
    const endpoint = endpointAt(tx, endpointSeq);
    recorded.set(endpointSeq, endpoint ? recordOf(tx, endpoint, group, terms) : { health: "failing", off: true });
  }
  return recorded;
}

function recordOf(tx: Tx, before: Endpoint, attempts: readonly Ended[], terms: OutcomeTerms): Recorded {
  let endpoint = before;
  let { exhausted, health } = before;
  for (const { delivery, outcome } of attempts) {
    const { settled, counts } = settlementOf(delivery, endpoint, outcome, terms);
    settle(tx, delivery, settled);
    if (!outcome.refused) health = healthAfter(outcome, health, terms.timeoutMs);
    if (counts) exhausted++;
    else if (outcome.ok && !isTest(delivery)) exhausted = 0;
    if (counts && exhausted >= terms.disableAfter && setDisabled(tx, endpoint, terms.now, true)) {
      endpoint = endpointAt(tx, endpoint.seq) ?? endpoint;
    }
  }
  if (exhausted !== before.exhausted || health !== before.health) setRecord(tx, endpoint, { exhausted, health });
  return { health, off: endpoint.state !== "active" };
}
