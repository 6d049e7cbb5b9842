/**
 * The steps of messages for `mailroom trace`: their arrival, and each attempt to deliver them. The command reads the rest from
 * the rows of messages, queue and webhooks. The only writer of trace_steps.
 *
 * Invariant: a step is written in the transaction of its event. Only the step of a refusal, which has no transaction, may be
 * lost in a crash.
 */
import { asc, inArray, sql } from "drizzle-orm";
import type { Job } from "../base/scheduler.ts";
import type { DeliveryResult } from "../smtp/delivery-result.ts";
import type { Envelope } from "../smtp/role.ts";
import type { Core, Reader } from "../store/core.ts";
import { type AuthVerdicts, type TraceStep, traceSteps } from "../store/schema.ts";
import { perDatabase, prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import type { Claim } from "./claims.ts";

/** Details of `received` and `refused`. */
export interface ArrivalDetail extends Pick<Envelope, "ip" | "helo" | "tls" | "reversePath"> {
  /** Number of recipients in the envelope. */
  recipients: number;
  size: number | undefined;
  auth: AuthVerdicts | undefined;
  /** The way it was filed, or the reply that refused it. */
  outcome: string;
  /** Ids of the messages that it was filed as, now or before. */
  emailIds?: string[];
}

/** Details of `attempted`. */
export interface AttemptDetail {
  emailId: string;
  /** Why the server tried to send mail about the message by itself. */
  automatic?: "forward" | "absence";
  results: {
    outcome: DeliveryResult["kind"];
    reply: string;
    remote?: string | undefined;
    /** Addresses as in RCPT TO. */
    recipients: string[];
  }[];
}

export interface StoredStep {
  at: number;
  step: TraceStep;
  trace: string | null;
  detail: Record<string, unknown>;
}

const DAY_MS = 24 * 60 * 60_000;
const PORTION = 500;
const SELDOM_MS = 60 * 60_000;
const OFTEN_MS = 1_000;
const LOOKS = 24;

const statements = prepared((db) => ({
  insert: db
    .insert(traceSteps)
    .values({
      at: sql.placeholder("at"),
      key: sql.placeholder("key"),
      step: sql.placeholder("step"),
      trace: sql.placeholder("trace"),
      detail: sql.placeholder("detail"),
    })
    .prepare(),
  oldest: db
    .select({ seq: traceSteps.seq, at: traceSteps.at })
    .from(traceSteps)
    .orderBy(asc(traceSteps.seq))
    .limit(PORTION)
    .prepare(),
}));

/** Records a message that came at `at` (epoch ms). `key`: its Message-ID, else the id that it was filed with. */
export function traceArrival(
  tx: Tx,
  step: "received" | "refused",
  { key, at, trace }: { key: string; at: number; trace: string },
  detail: ArrivalDetail,
): void {
  statements(tx).insert.run({ at, key, step, trace, detail });
}

const HOUR_MS = 3_600_000;
/** Most refusals recorded in an hour: senders decide how many there are. */
const MOST_REFUSALS = 500;

/** The refusals of the present hour. */
const refusals = perDatabase(() => ({ hour: 0, count: 0 }));

/** Counts one more refusal, and tells whether it is to be recorded. */
export function countRefusalToTrace({ db, now }: Reader): boolean {
  const hour = Math.floor(now() / HOUR_MS);
  const counted = refusals(db);
  if (hour !== counted.hour) Object.assign(counted, { hour, count: 0 });
  return ++counted.count <= MOST_REFUSALS;
}

/** Records an attempt that ended at `at` (epoch ms). `results`: one for each entry, in order. */
export function traceAttempt(
  tx: Tx,
  { message, entries }: Claim,
  results: readonly DeliveryResult[],
  at: number,
): void {
  const detail: AttemptDetail = { emailId: message.id, results: [] };
  for (const [i, { recipient }] of entries.entries()) {
    const result = results[i];
    if (result === undefined) continue;
    const { kind: outcome, reply, remote } = result;
    const alike = detail.results.find((known) => known.outcome === outcome && known.reply === reply);
    if (alike) alike.recipients.push(recipient);
    else detail.results.push({ outcome, reply, remote, recipients: [recipient] });
  }
  statements(tx).insert.run({ at, key: message.messageId, step: "attempted", trace: null, detail });
}

/** Records, with a message that arrived, what became of mail that the server was to write about it. `key`: as traceArrival. */
export function traceAutomatic(
  tx: Tx,
  key: string,
  {
    at,
    emailId,
    automatic,
    recipient,
    outcome,
    reply,
  }: {
    at: number;
    emailId: string;
    automatic: NonNullable<Claim["message"]["automatic"]>;
    recipient: string;
    outcome: "accepted" | "refused";
    reply: string;
  },
): void {
  const detail = { emailId, automatic, results: [{ outcome, reply, recipients: [recipient] }] };
  statements(tx).insert.run({ at, key, step: "attempted", trace: null, detail });
}

/** Lists the steps of a message, the oldest first. `keys`: its Message-ID and ids. */
export function listTraceSteps(db: Db, keys: readonly string[]): StoredStep[] {
  const { at, step, trace, detail } = traceSteps;
  return db
    .select({ at, step, trace, detail })
    .from(traceSteps)
    .where(inArray(traceSteps.key, [...keys]))
    .orderBy(asc(traceSteps.seq))
    .all();
}

/** Deletes the steps of messages. `keys`: their Message-IDs and ids. */
export function deleteTraceSteps(tx: Tx, keys: readonly string[]): void {
  if (keys.length > 0)
    tx.delete(traceSteps)
      .where(inArray(traceSteps.key, [...keys]))
      .run();
}

/** Deletes the expired among the oldest steps; returns whether there may be more. Steps are in the order of their time. */
function deletePortion(tx: Tx, before: number): boolean {
  const expired = statements(tx)
    .oldest.all()
    .filter(({ at }) => at < before)
    .map(({ seq }) => seq);
  if (expired.length > 0) tx.delete(traceSteps).where(inArray(traceSteps.seq, expired)).run();
  return expired.length === PORTION;
}

/** The job that deletes steps older than retention.traceDays, in portions. */
export const deleteOldTraceSteps = ({ store, options }: Core): Job => ({
  name: "trace-log",
  deletes: true,
  async runDue(now) {
    const retentionMs = options.get("retention.traceDays") * DAY_MS;
    while (await store.enqueue((tx) => deletePortion(tx, now - retentionMs)));
    return now + Math.max(OFTEN_MS, Math.min(retentionMs / LOOKS, SELDOM_MS));
  },
});
