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
import type { Pace } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { type Attemptable, endpointAt, settle } from "./deliveries.ts";
import { DISABLED } from "./delivery-log.ts";
import { type Endpoint, setDisabled, setRecord } from "./endpoints.ts";
import type { RequestOutcome } from "./request.ts";
import type { Settled } from "./waiting.ts";

/** What is known when an attempt has ended, beside its outcome. */
export interface OutcomeTerms {
  /** Epoch ms. */
  now: number;
  /** Waits between attempts: one fewer than attempts. */
  retrySeconds: readonly number[];
  /** Exhausted deliveries in a row that disable an endpoint. */
  disableAfter: number;
}

/** An answer that takes longer, in ms, is slow. */
export const SLOW_MS = 1_000;

export interface Fate {
  settled: Settled;
  /** The delivery came to nothing, and the endpoint's count goes up. */
  counts: boolean;
}

/** `endpoint`: as it is now. */
export function fateOf(
  delivery: Attemptable,
  endpoint: Endpoint,
  outcome: RequestOutcome,
  { now, retrySeconds }: Pick<OutcomeTerms, "now" | "retrySeconds">,
): Fate {
  const { ok, refused, status = null, response = null, error = null } = outcome;
  const finish = (state: Settled["state"], counts = false, why = error): Fate => ({
    settled: { status, response, error: why, state, dueAt: null, finishedAt: now },
    counts,
  });
  if (ok) return finish("delivered");
  if (delivery.finishedAt !== null) return finish(delivery.state);
  if (isTest(delivery)) return finish("failed");
  const isVoid = endpoint.state !== "active" || delivery.seq <= endpoint.voidThrough;
  if (refused) return finish("failed", !isVoid);
  // delivery.attempts is without this one.
  const wait = retrySeconds[delivery.attempts];
  if (wait === undefined) return finish("failed", !isVoid);
  if (isVoid) return finish("failed", false, [error, DISABLED].filter(Boolean).join("; "));
  return {
    settled: { status, response, error, state: "retrying", dueAt: now + Math.round(wait * 1_000), finishedAt: null },
    counts: false,
  };
}

const isSame = (one: Settled, other: Settled): boolean =>
  one.state === other.state &&
  one.response === other.response &&
  one.status === other.status &&
  one.error === other.error &&
  one.dueAt === other.dueAt &&
  one.finishedAt === other.finishedAt;

/** Attempts of a test concern nobody's count. */
const isTest = ({ eventSeq }: Attemptable): boolean => eventSeq === null;

export function paceOf({ ok, status, ms }: RequestOutcome, before: Pace, timeoutMs: number): Pace {
  if (status === undefined || ms >= timeoutMs) return "failing";
  if (ms > SLOW_MS) return "slow";
  // An answer that is quick and bad proves nothing, and harms nobody.
  return ok ? "proven" : before;
}

/** An attempt that has ended. */
export interface Attempted {
  delivery: Attemptable;
  outcome: RequestOutcome;
}

/** What became of the endpoint. */
export interface Recorded {
  pace: Pace;
  /** It is not active: disabled just now or before, or removed. */
  off: boolean;
}

/** Records attempts of one endpoint, in the order in which they ended. Of what is gone meanwhile nothing is recorded. */
export function recordAttempts(
  tx: Tx,
  endpointSeq: number,
  attempts: readonly Attempted[],
  { timeoutMs, ...terms }: OutcomeTerms & { timeoutMs: number },
): Recorded {
  let endpoint = endpointAt(tx, endpointSeq);
  if (!endpoint) return { pace: "failing", off: true };
  let { exhausted, pace } = endpoint;
  const outcomes: { deliveries: Attemptable[]; settled: Settled }[] = [];
  for (const { delivery, outcome } of attempts) {
    const { settled, counts } = fateOf(delivery, endpoint, outcome, terms);
    const before = outcomes.at(-1);
    if (before && isSame(before.settled, settled)) before.deliveries.push(delivery);
    else outcomes.push({ deliveries: [delivery], settled });
    if (!outcome.refused) pace = paceOf(outcome, pace, timeoutMs);
    if (!isTest(delivery) && (counts || outcome.ok)) exhausted = counts ? exhausted + 1 : 0;
    if (counts && exhausted >= terms.disableAfter && setDisabled(tx, endpoint, terms.now, true)) {
      endpoint = endpointAt(tx, endpointSeq) ?? endpoint;
    }
  }
  settle(tx, endpointSeq, outcomes);
  if (exhausted !== endpoint.exhausted || pace !== endpoint.pace) setRecord(tx, endpoint, { exhausted, pace });
  return { pace, off: endpoint.state !== "active" };
}
