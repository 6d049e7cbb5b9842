/**
 * Webhook deliveries: an event on its way to one endpoint, and the log of it afterwards (rules: Webhook delivery
 * states). With delivery-log.ts the only writer of webhook_deliveries; keeps webhook_endpoints.due_at.
 *
 *   fan-out ──► pending ──claim──► leased ──┬──► delivered
 *               (waiting.ts)                │
 *                  retrying ◄───────────────┼──► failed          a replay leaves the state of what is finished, but that
 *                     └──────claim──────────┘                    it makes delivered of failed
 *
 * Invariants: an attempt is made under a lease, so a crash repeats one and never loses one. An endpoint with something due
 * has its due_at at that time or before, or when its turn is put off to, so the next to attempt is found without reading
 * the deliveries of an endpoint that is busy. What is tried again comes before what waits for its first attempt: an
 * endpoint that does not work is found out however much waits.
 */
import { and, asc, eq, gt, gte, lte, type SQL, sql } from "drizzle-orm";
import { webhookDeliveries, webhookEndpoints, type webhookLog } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import type { Endpoint } from "./endpoints.ts";
import { envelope } from "./payload.ts";
import { createSigning, type Signing } from "./signature.ts";
import {
  drawNumbers,
  dueWaiting,
  firstDueWaiting,
  leaseWaiting,
  logWaiting,
  type Outcome,
  putWaiting,
  recallWaiting,
  releaseAllWaiting,
  releaseWaiting,
  type Settled,
  type Waiting,
} from "./waiting.ts";

export type Delivery = typeof webhookLog.$inferSelect;

/** What an attempt at a delivery, and what becomes of it, depends on. */
export type Attemptable = Pick<
  Delivery,
  "seq" | "id" | "endpointSeq" | "eventSeq" | "eventId" | "event" | "state" | "attempts" | "finishedAt"
> & {
  /** No attempt has ended yet. */
  waiting: boolean;
};

/** A delivery under a lease, with what to send and where. */
export interface Claimed {
  delivery: Attemptable;
  endpoint: Endpoint;
  /** The same bytes at every attempt. */
  body: string;
  /** With the endpoint's secrets. */
  sign: Signing;
  /** Epoch ms; from then on it may be claimed again. */
  leasedUntil: number;
}

/** As in webhook_log and webhook_pending: an event goes to an endpoint once. */
const deliveryIdOf = (eventId: string, endpointSeq: number): string => `whd_${eventId.slice(4)}_${endpointSeq}`;

/** What the id of a delivery is made of; undefined of one whose id is its own. */
export function partsOfDeliveryId(id: string): { eventId: string; endpointSeq: number } | undefined {
  const [, event, endpoint] = /^whd_(\w+)_([1-9]\d*)$/.exec(id) ?? [];
  return event === undefined ? undefined : { eventId: `evt_${event}`, endpointSeq: Number(endpoint) };
}

const ENDPOINTS_PAGE = 16;
/** Characters of bodies beyond which one claim takes no more: whoever writes to thousands makes large ones. */
export const LARGEST_CLAIM = 1_000_000;

const param = (name: string): SQL => sql`${sql.placeholder(name)}`;
const ofEndpoint = eq(webhookDeliveries.endpointSeq, sql.placeholder("endpointSeq"));
/** Written out: SQLite uses a partial index only where the query says its condition literally. */
export const isDue = sql`${webhookDeliveries.dueAt} IS NOT NULL`;
const endpointIsDue = sql`${webhookEndpoints.dueAt} IS NOT NULL`;

interface LoggedRow extends Omit<Attemptable, "id" | "waiting"> {
  /** Its own. */
  id: string | null;
  sample: string | null;
  /** Of the event, if it is not a test. */
  createdAt: number | null;
  data: string | null;
}

const claiming = prepared((db) => ({
  // As text, as others below: drizzle's part is half of what a row costs.
  insertTest: db.$client.prepare(
    `INSERT INTO webhook_deliveries (seq, id, endpoint_seq, event_id, event, sample, state, due_at, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?7)`,
  ),
  dueEndpoints: db
    .select({ seq: webhookEndpoints.seq, dueAt: webhookEndpoints.dueAt, pace: webhookEndpoints.pace })
    .from(webhookEndpoints)
    .where(
      and(
        endpointIsDue,
        lte(webhookEndpoints.dueAt, sql.placeholder("upTo")),
        sql`(${webhookEndpoints.dueAt}, ${webhookEndpoints.seq}) > (${sql.placeholder("dueAt")}, ${sql.placeholder("seq")})`,
      ),
    )
    .orderBy(asc(webhookEndpoints.dueAt), asc(webhookEndpoints.seq))
    .limit(ENDPOINTS_PAGE)
    .prepare(),
  endpoint: db
    .select()
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.seq, sql.placeholder("seq")))
    .prepare(),
  due: db.$client.prepare<LoggedRow, [number, number]>(
    `SELECT d.seq, d.id, d.endpoint_seq AS endpointSeq, d.event_seq AS eventSeq, coalesce(d.event_id, e.id) AS eventId,
       coalesce(d.event, e.event) AS event, d.sample, d.state, d.attempts, d.finished_at AS finishedAt,
       e.created_at AS createdAt, e.data
     FROM webhook_deliveries d LEFT JOIN events e ON e.seq = d.event_seq
     WHERE d.endpoint_seq = ?1 AND d.due_at IS NOT NULL AND d.due_at <= ?2
     ORDER BY d.due_at, d.seq`,
  ),
  lease: db.$client.prepare(
    "UPDATE webhook_deliveries SET leased = 1, due_at = ?2 WHERE seq IN (SELECT value FROM json_each(?1))",
  ),
  earliest: db
    .select({ dueAt: webhookDeliveries.dueAt })
    .from(webhookDeliveries)
    .where(and(ofEndpoint, isDue))
    .orderBy(asc(webhookDeliveries.dueAt))
    .limit(1)
    .prepare(),
  setDue: db
    .update(webhookEndpoints)
    .set({ dueAt: param("dueAt") })
    .where(eq(webhookEndpoints.seq, sql.placeholder("seq")))
    .prepare(),
  bringForward: db.$client.prepare(
    `UPDATE webhook_endpoints SET due_at = ?2
     WHERE seq IN (SELECT value FROM json_each(?1)) AND coalesce(due_at > ?2, 1)`,
  ),
  release: db.$client.prepare(
    "UPDATE webhook_deliveries SET leased = 0, due_at = ?2 WHERE seq IN (SELECT value FROM json_each(?1)) AND leased = 1",
  ),
  sweepAgain: db
    .update(webhookEndpoints)
    .set({ sweeping: true })
    .where(
      and(
        eq(webhookEndpoints.seq, sql.placeholder("endpointSeq")),
        gte(webhookEndpoints.voidThrough, sql.placeholder("seq")),
      ),
    )
    .prepare(),
  settle: db.$client.prepare(
    `UPDATE webhook_deliveries
     SET leased = 0, attempts = attempts + 1, state = ?2, due_at = ?3, status = ?4, response = ?5, error = ?6, finished_at = ?7
     WHERE seq IN (SELECT value FROM json_each(?1))`,
  ),
}));

/** Of these events (events.seq, ascending), by endpoint, due at `now` (epoch ms). */
export function putDeliveries(tx: Tx, wanted: ReadonlyMap<number, readonly number[]>, now: number): void {
  if (wanted.size === 0) return;
  putWaiting(tx, wanted, now);
  claiming(tx).bringForward.run(JSON.stringify([...wanted.keys()]), now);
}

export type NewTest = Pick<Delivery, "id" | "endpointSeq" | "eventId" | "event" | "sample"> & { now: number };

/** Sends `sample`, the body, to the endpoint once, at `now` (epoch ms), whether it is enabled or not. */
export function putTest(tx: Tx, { id, endpointSeq, eventId, event, sample, now }: NewTest): void {
  claiming(tx).insertTest.run(drawNumbers(tx, 1) + 1, id, endpointSeq, eventId, event, sample, now);
  bringForward(tx, endpointSeq, now);
}

/** Endpoints with something due by `upTo` (epoch ms), whose turn it is first. */
export function* endpointsByDue(db: Db, upTo: number) {
  let last = { dueAt: Number.MIN_SAFE_INTEGER, seq: 0 };
  for (;;) {
    const rows = claiming(db).dueEndpoints.all({ ...last, upTo });
    for (const row of rows) {
      last = { ...row, dueAt: row.dueAt ?? 0 };
      yield last as typeof last & Pick<Endpoint, "pace">;
    }
    if (rows.length < ENDPOINTS_PAGE) return;
  }
}

export interface Claim {
  claimed: Claimed[];
  /** There may be more that is due. */
  more: boolean;
}

/**
 * Leases to `leaseUntil` up to `count` deliveries of the endpoint that are due at `now` (epoch ms), the first first; fewer
 * if their bodies are large.
 */
export function claim(tx: Tx, endpointSeq: number, count: number, now: number, leaseUntil: number): Claim {
  const endpoint = claiming(tx).endpoint.get({ seq: endpointSeq });
  // What is to be swept is nobody's to attempt; its turn comes after.
  if (!endpoint || endpoint.sweeping) return { claimed: [], more: false };
  const claimed: Claimed[] = [];
  const sign = createSigning(endpoint);
  let [size, more] = [0, false];
  const take = (delivery: Attemptable, body: string): boolean => {
    size += body.length;
    const isLarge = size > LARGEST_CLAIM;
    if (claimed.length === 0 || !isLarge) claimed.push({ delivery, endpoint, body, sign, leasedUntil: leaseUntil });
    more = isLarge || claimed.length >= count;
    return !more;
  };
  // Read as they are asked for.
  for (const { id, sample, createdAt, data, ...row } of claiming(tx).due.iterate(endpointSeq, now)) {
    const delivery = { ...row, id: id ?? deliveryIdOf(row.eventId, endpointSeq), waiting: false };
    if (!take(delivery, sample ?? envelope({ ...row, createdAt: createdAt ?? 0, data: data ?? "{}" }))) break;
  }
  if (!more) {
    for (const row of dueWaiting(tx, endpointSeq, now))
      if (!take(firstAttemptOf(endpointSeq, row), envelope(row))) break;
  }
  const [waiting, logged] = parted(claimed.map(({ delivery }) => delivery));
  if (logged.length > 0) claiming(tx).lease.run(JSON.stringify(logged), leaseUntil);
  const [first, last] = [waiting[0], waiting.at(-1)];
  if (first !== undefined && last !== undefined) leaseWaiting(tx, endpointSeq, [first, last], leaseUntil, now);
  correctDue(tx, endpointSeq);
  return { claimed, more };
}

/** The delivery outlives its body. */
const firstAttemptOf = (endpointSeq: number, { seq, eventSeq, eventId, event }: Waiting): Attemptable => ({
  seq,
  id: deliveryIdOf(eventId, endpointSeq),
  endpointSeq,
  eventSeq,
  eventId,
  event,
  state: "pending",
  attempts: 0,
  finishedAt: null,
  waiting: true,
});

/** Their numbers: of those whose first attempt it is, and of the others. */
function parted(deliveries: readonly Attemptable[]): [waiting: number[], logged: number[]] {
  const [waiting, logged]: [number[], number[]] = [[], []];
  for (const delivery of deliveries) (delivery.waiting ? waiting : logged).push(delivery.seq);
  return [waiting, logged];
}

/** The endpoint's turn comes after that of the others due at `now` (epoch ms). */
export function yieldTurn(tx: Tx, endpointSeq: number, now: number): undefined {
  const dueAt = earliestOf(tx, endpointSeq);
  if (dueAt !== null) claiming(tx).setDue.run({ seq: endpointSeq, dueAt: Math.max(dueAt, now) });
}

/** The endpoint's row says again when its earliest delivery is due. */
export function correctDue(tx: Tx, endpointSeq: number): void {
  claiming(tx).setDue.run({ seq: endpointSeq, dueAt: earliestOf(tx, endpointSeq) });
}

function earliestOf(db: Db, endpointSeq: number): number | null {
  const logged = claiming(db).earliest.get({ endpointSeq })?.dueAt ?? null;
  const waiting = firstDueWaiting(db, endpointSeq);
  return logged === null || waiting === null ? (logged ?? waiting) : Math.min(logged, waiting);
}

/** Something of the endpoint is due at `dueAt` (epoch ms). */
export const bringForward = (tx: Tx, endpointSeq: number, dueAt: number): void =>
  void claiming(tx).bringForward.run(JSON.stringify([endpointSeq]), dueAt);

/** Deliveries that came to the same. */
export interface Alike {
  deliveries: readonly Attemptable[];
  settled: Settled;
}

/** Ends the leases of deliveries of one endpoint. Of what is gone meanwhile nothing is recorded. */
export function settle(tx: Tx, endpointSeq: number, outcomes: readonly Alike[]): void {
  const first: Outcome[] = [];
  for (const { deliveries, settled } of outcomes) {
    const { state, dueAt, status, response, error, finishedAt } = settled;
    const [waiting, logged] = parted(deliveries);
    if (waiting.length > 0) first.push({ seqs: waiting, attempts: 1, settled });
    if (logged.length > 0) {
      claiming(tx).settle.run(JSON.stringify(logged), state, dueAt, status, response, error, finishedAt);
    }
    if (dueAt !== null) bringForward(tx, endpointSeq, dueAt);
  }
  logWaiting(tx, endpointSeq, first);
}

/** The endpoint as it is now; undefined when its row is gone. */
export const endpointAt = (db: Db, seq: number): Endpoint | undefined => claiming(db).endpoint.get({ seq });

/** Gives leases back, due at `now` (epoch ms), without an attempt counted. */
export function release(tx: Tx, deliveries: readonly Pick<Delivery, "seq" | "endpointSeq">[], now: number): undefined {
  for (const [endpointSeq, group] of Map.groupBy(deliveries, (delivery) => delivery.endpointSeq)) {
    const seqs = group.map(({ seq }) => seq);
    claiming(tx).release.run(JSON.stringify(seqs), now);
    releaseWaiting(tx, endpointSeq, seqs);
    returnTo(tx, endpointSeq, Math.min(...seqs), now);
  }
}

/**
 * Some of the endpoint's, from `first` on, are due again at `now` (epoch ms). Of what was waiting when it was disabled the
 * sweep, which passes over leases, may be over: it has to come again.
 */
function returnTo(tx: Tx, endpointSeq: number, first: number, now: number): void {
  claiming(tx).sweepAgain.run({ endpointSeq, seq: first });
  bringForward(tx, endpointSeq, now);
}

/** The same for every lease; returns how many. At start they belong to a process that has ended. */
export function releaseLeases(tx: Tx, now: number): number {
  const logged = tx
    .select()
    .from(webhookDeliveries)
    .where(and(isDue, sql`${webhookDeliveries.leased} = 1`))
    .all();
  release(tx, logged, now);
  let count = logged.length;
  for (const [endpointSeq, runs] of Map.groupBy(releaseAllWaiting(tx), (run) => run.endpointSeq)) {
    const first = runs.reduce((least, { seq }) => Math.min(least, seq), Number.POSITIVE_INFINITY);
    returnTo(tx, endpointSeq, first, now);
    for (const { length } of runs) count += length;
  }
  return count;
}

/**
 * What waits for longer than it does after so many attempts (`waits`: after the first, the second, …, in ms) was put off by
 * a clock that was ahead: from `now` (epoch ms) on it waits for no more than that, and not at all when it is longer than any
 * wait. Reads all that waits.
 */
export function recallStrays(tx: Tx, waits: readonly number[], now: number): void {
  recallWaiting(tx, now);
  const longest = Math.max(0, ...waits);
  tx.$client
    .query(
      `UPDATE webhook_deliveries SET due_at = CASE WHEN due_at > ?1 + ?3 THEN ?1 ELSE ?1 + wait END
       FROM (SELECT d.seq AS stray, CASE d.attempts WHEN 0 THEN 0 ELSE coalesce(w.value, ?3) END AS wait
             FROM webhook_deliveries d LEFT JOIN json_each(?2) w ON w.key = d.attempts - 1
             WHERE d.due_at IS NOT NULL AND d.leased = 0)
       WHERE seq = stray AND due_at > ?1 + wait`,
    )
    .run(now, JSON.stringify(waits), longest);
  const putOff = tx.select({ seq: webhookEndpoints.seq }).from(webhookEndpoints).where(gt(webhookEndpoints.dueAt, now));
  for (const { seq } of putOff.all()) correctDue(tx, seq);
}
