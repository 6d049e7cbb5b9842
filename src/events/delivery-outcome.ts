/**
 * Decides what an attempt means for its delivery and its endpoint, and records it (rules: Webhook attempts, Webhook
 * delivery states, Resend).
 *
 *   2xx                          delivered; an active endpoint's count of exhausted deliveries restarts at 0
 *   refused destination          failed at once, and counts
 *   any other failure            retried on the schedule; failed after its end, and counts
 *   failure of a test or replay  not retried, and does not count
 *   failure, endpoint disabled   not retried, and does not count
 */
import type { Health } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import type { AttemptOutcome } from "./delivery.ts";
import {
  type Delivery,
  type DeliveryState,
  DISABLED,
  endpointAt,
  isDeliveryVoid,
  recordDeliveryState,
} from "./delivery-queue.ts";
import { type Endpoint, setEndpointDisabled, setEndpointHealth } from "./endpoints.ts";

/** The time and the settings that decide about an ended attempt. */
export interface OutcomeTerms {
  /** Epoch ms. */
  now: number;
  /** Waits between attempts: one fewer than there are attempts. */
  retrySeconds: readonly number[];
  /** Exhausted deliveries in a row that disable an endpoint. */
  disableAfter: number;
  /** Time limit of one attempt. */
  timeoutMs: number;
}

/** A response that takes longer than this, in ms, is slow. */
export const SLOW_MS = 1_000;

interface StateAfterAttempt {
  settled: DeliveryState;
  /** The delivery is exhausted, and the endpoint's count goes up. */
  counts: boolean;
}

/** Decides the state of a delivery after an attempt. `endpoint`: as it is now. */
export function decideDeliveryState(
  delivery: Delivery,
  endpoint: Endpoint,
  outcome: AttemptOutcome,
  { now, retrySeconds }: Pick<OutcomeTerms, "now" | "retrySeconds">,
): StateAfterAttempt {
  const { ok, refused, status = null, response = null, error = null } = outcome;
  const finish = (state: DeliveryState["state"], counts = false, why = error): StateAfterAttempt => ({
    settled: { status, response, error: why, state, dueAt: null, finishedAt: now },
    counts,
  });
  if (ok) return finish("delivered");
  if (delivery.finishedAt !== null) return finish(delivery.state);
  if (isTest(delivery)) return finish("failed");
  const counts = !isDeliveryVoid(delivery, endpoint);
  // delivery.attempts does not include this attempt.
  const wait = retrySeconds[delivery.attempts];
  if (refused || wait === undefined) return finish("failed", counts);
  if (!counts) return finish("failed", false, [error, DISABLED].filter(Boolean).join("; "));
  const dueAt = now + Math.round(wait * 1_000);
  return { settled: { status, response, error, state: "retrying", dueAt, finishedAt: null }, counts: false };
}

const isTest = ({ eventSeq }: Delivery): boolean => eventSeq === null;

/** Returns the health of an endpoint after an attempt. `before`: its health before it. */
export function endpointHealthAfter({ ok, status, ms }: AttemptOutcome, before: Health, timeoutMs: number): Health {
  if (status === undefined || ms >= timeoutMs) return "failing";
  if (ms > SLOW_MS) return "slow";
  // A quick failure does not prove the endpoint, and does not delay others.
  return ok ? "proven" : before;
}

/** An attempt that has ended. */
export interface Ended {
  delivery: Delivery;
  outcome: AttemptOutcome;
}

/** The state of an endpoint after its attempts are recorded. */
export interface Recorded {
  health: Health;
  /** The endpoint is disabled or removed. */
  off: boolean;
}

/**
 * Records attempts in the order in which they ended; returns the state of their endpoints by seq. Skips deliveries that
 * were deleted meanwhile.
 */
export function recordWebhookAttempts(tx: Tx, attempts: readonly Ended[], terms: OutcomeTerms): Map<number, Recorded> {
  const recorded = new Map<number, Recorded>();
  for (const [endpointSeq, group] of Map.groupBy(attempts, ({ delivery }) => delivery.endpointSeq)) {
    const endpoint = endpointAt(tx, endpointSeq);
    recorded.set(
      endpointSeq,
      endpoint ? recordEndpointAttempts(tx, endpoint, group, terms) : { health: "failing", off: true },
    );
  }
  return recorded;
}

function recordEndpointAttempts(tx: Tx, before: Endpoint, attempts: readonly Ended[], terms: OutcomeTerms): Recorded {
  let endpoint = before;
  let { exhausted, health } = before;
  for (const { delivery, outcome } of attempts) {
    const { settled, counts } = decideDeliveryState(delivery, endpoint, outcome, terms);
    recordDeliveryState(tx, delivery, settled);
    if (!outcome.refused) health = endpointHealthAfter(outcome, health, terms.timeoutMs);
    if (counts) exhausted++;
    // A success after the endpoint was disabled leaves the count that disabled it, because the notice to the admins
    // gives it.
    else if (outcome.ok && !isTest(delivery) && endpoint.state === "active") exhausted = 0;
    if (counts && exhausted >= terms.disableAfter && setEndpointDisabled(tx, endpoint, terms.now, true)) {
      endpoint = endpointAt(tx, endpoint.seq) ?? endpoint;
    }
  }
  if (exhausted !== before.exhausted || health !== before.health)
    setEndpointHealth(tx, endpoint, { exhausted, health });
  return { health, off: endpoint.state !== "active" };
}
