/**
 * The queue of webhook deliveries: one row for each event and endpoint (rules: Webhook delivery states). Finished rows
 * stay as the log (delivery-log.ts).
 *
 *   fan-out ──► pending ──claim──► leased ──┬──► delivered
 *                                  ▲        ├──► failed      a replay keeps the state of a finished delivery, except that
 *               retrying ──claim───┘        │                success makes a failed one delivered
 *                   ▲                       │
 *                   └───────────────────────┘
 *
 * This file and delivery-log.ts alone write webhook_deliveries. This file maintains webhook_endpoints.due_at and webhook_cursor.
 *
 * Invariants: an event is fanned out once: the cursor moves in the transaction that adds its deliveries. Each attempt
 * runs under a lease, so a crash may repeat an attempt and never loses one. An endpoint's due_at is at most the due
 * time of its earliest delivery, or the time of its latest claim where that is later: so the deliverer finds the next
 * endpoint without reading deliveries, and busy endpoints take turns. Retries, tests and replays come before first
 * attempts, so the deliverer notices a broken endpoint even when many deliveries wait for it.
 */
import { and, asc, desc, eq, gt, lte, sql } from "drizzle-orm";
import { newId, type Runtime } from "../base/runtime.ts";
import { events, type Health, webhookCursor, webhookDeliveries, webhookEndpoints } from "../store/schema.ts";
import { prepared, statement } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { isWorkspaceServed as isServedHere, UNSERVED } from "../store/unserved-workspaces.ts";
import type { Endpoint } from "./endpoints.ts";
import { buildEventEnvelope } from "./outbox.ts";

export type Delivery = typeof webhookDeliveries.$inferSelect;

/** An event to deliver to an endpoint. */
export interface NewDelivery {
  id: string;
  endpointSeq: number;
  eventSeq: number;
  eventId: string;
  event: string;
}

export interface NewTest extends Omit<NewDelivery, "eventSeq"> {
  /** The body. */
  sample: string;
}

/** A delivery to attempt, with its endpoint and its body. */
export interface Loaded {
  delivery: Delivery;
  endpoint: Endpoint;
  /** Body of the request, the same bytes at every attempt. */
  body: string;
}

/** The state of a delivery after an attempt. Times are epoch ms. */
export type DeliveryState = Pick<Delivery, "state" | "dueAt" | "status" | "response" | "error" | "finishedAt">;

/** The error of a delivery that was waiting when its endpoint was disabled. */
export const DISABLED = "the endpoint was disabled";

/** SQLite uses a partial index only where the query repeats its condition literally. */
export const isDue = sql`${webhookDeliveries.dueAt} IS NOT NULL`;
const isServed = sql`${webhookEndpoints.workspaceId} NOT IN ${sql.raw(UNSERVED)}`;

/**
 * Most events that one fan-out reads, and most deliveries that it makes, so that its transaction stays well under 50
 * ms.
 */
const PORTION = 1_000;
/** Most workspaces and endpoints that one fan-out reads: one costs more than an event. */
const MOST_READERS = 1_000;
/** Endpoints that are read at first; each page is twice the one before. */
const ENDPOINTS_PAGE = 16;

const dueDeliveriesSql = (urgent: 0 | 1): string =>
  `SELECT seq FROM (SELECT seq FROM webhook_deliveries
     WHERE endpoint_seq = ?1 AND urgent = ${urgent} AND due_at IS NOT NULL AND due_at <= ?2
     ORDER BY due_at, leased, seq LIMIT ?3)`;
const earliestDueSql = (urgent: 0 | 1): string =>
  `SELECT min(due_at) AS at FROM webhook_deliveries WHERE endpoint_seq = ?1 AND urgent = ${urgent} AND due_at IS NOT NULL`;

// Statements that run for every event or delivery are plain SQL: drizzle would double the cost of a row.
const statements = {
  eventsAfter: statement<{ seq: number; id: string; workspaceId: string; event: string }, [number, number]>(
    "SELECT seq, id, workspace_id AS workspaceId, event FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
  ),
  mailboxByEvent: statement<{ mailbox: string | null }, [seq: number]>(
    "SELECT data ->> 'mailbox' AS mailbox FROM events WHERE seq = ?",
  ),
  insert: statement<
    unknown,
    [
      id: string,
      endpointSeq: number,
      eventSeq: number | null,
      eventId: string,
      event: string,
      sample: string | null,
      urgent: 0 | 1,
      now: number,
    ]
  >(
    `INSERT INTO webhook_deliveries (id, endpoint_seq, event_seq, event_id, event, sample, state, urgent, due_at, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?8, ?8)`,
  ),
  event: statement<{ createdAt: number; data: string }, [number | null]>(
    "SELECT created_at AS createdAt, data FROM events WHERE seq = ?1",
  ),
  due: statement<{ seq: number }, [number, number, number]>(
    `${dueDeliveriesSql(1)} UNION ALL ${dueDeliveriesSql(0)} LIMIT ?3`,
  ),
  lease: statement<unknown, [seq: number, until: number]>(
    "UPDATE webhook_deliveries SET leased = 1, due_at = ?2 WHERE seq = ?1",
  ),
  recordState: statement<
    unknown,
    [
      seq: number,
      state: DeliveryState["state"],
      dueAt: number | null,
      status: number | null,
      response: string | null,
      error: string | null,
      finishedAt: number | null,
    ]
  >(
    `UPDATE webhook_deliveries SET leased = 0, urgent = 1, attempts = attempts + 1, state = ?2, due_at = ?3, status = ?4,
       response = ?5, error = ?6, finished_at = ?7
     WHERE seq = ?1`,
  ),
  leased: statement<{ seq: number }>("SELECT seq FROM webhook_deliveries WHERE due_at IS NOT NULL AND leased = 1"),
  recall: statement<unknown, [now: number, waits: string, longest: number]>(
    `UPDATE webhook_deliveries SET due_at = CASE WHEN due_at > ?1 + ?3 THEN ?1 ELSE ?1 + wait END
     FROM (SELECT d.seq AS stray, CASE d.attempts WHEN 0 THEN 0 ELSE coalesce(waits.value, ?3) END AS wait
           FROM webhook_deliveries d LEFT JOIN json_each(?2) waits ON waits.key = d.attempts - 1
           WHERE d.due_at IS NOT NULL AND d.due_at > ?1 AND d.leased = 0)
     WHERE seq = stray AND due_at > ?1 + wait`,
  ),
  release: statement<{ endpointSeq: number }, [number, number]>(
    `UPDATE webhook_deliveries SET leased = 0, due_at = ?2 WHERE seq = ?1 AND leased = 1
     RETURNING endpoint_seq AS endpointSeq`,
  ),
  sweepAgain: statement<unknown, [endpointSeq: number, voidThrough: number]>(
    "UPDATE webhook_endpoints SET sweeping = 1 WHERE seq = ?1 AND state <> 'removed' AND void_through >= ?2",
  ),
  earliest: statement<{ at: number | null }, [number]>(
    `SELECT min(at) AS at FROM (${earliestDueSql(0)} UNION ALL ${earliestDueSql(1)})`,
  ),
  setDue: statement<unknown, [seq: number, dueAt: number | null]>(
    "UPDATE webhook_endpoints SET due_at = ?2 WHERE seq = ?1",
  ),
  bringForward: statement<unknown, [seq: number, dueAt: number]>(
    "UPDATE webhook_endpoints SET due_at = ?2 WHERE seq = ?1 AND coalesce(due_at > ?2, 1)",
  ),
};

const queries = prepared((db) => ({
  cursor: db.select({ eventSeq: webhookCursor.eventSeq }).from(webhookCursor).prepare(),
  anyEndpoint: db.select({ seq: webhookEndpoints.seq }).from(webhookEndpoints).limit(1).prepare(),
  newestEvent: db.select({ seq: events.seq }).from(events).orderBy(desc(events.seq)).limit(1).prepare(),
  endpointsOf: db
    .select({
      seq: webhookEndpoints.seq,
      events: webhookEndpoints.events,
      mailboxes: webhookEndpoints.mailboxes,
      afterEvent: webhookEndpoints.afterEvent,
    })
    .from(webhookEndpoints)
    .where(and(eq(webhookEndpoints.workspaceId, sql.placeholder("workspaceId")), eq(webhookEndpoints.state, "active")))
    .orderBy(asc(webhookEndpoints.seq))
    .prepare(),
  advanceCursor: db
    .update(webhookCursor)
    .set({ eventSeq: sql`${sql.placeholder("eventSeq")}` })
    .prepare(),
  endpointsByDue: db
    .select({ seq: webhookEndpoints.seq, dueAt: webhookEndpoints.dueAt, health: webhookEndpoints.health })
    .from(webhookEndpoints)
    .where(
      and(
        sql`${webhookEndpoints.dueAt} IS NOT NULL`,
        lte(webhookEndpoints.dueAt, sql.placeholder("upTo")),
        sql`NOT ${webhookEndpoints.sweeping}`,
        isServed,
        sql`(${webhookEndpoints.dueAt}, ${webhookEndpoints.seq}) > (${sql.placeholder("dueAt")}, ${sql.placeholder("seq")})`,
      ),
    )
    .orderBy(asc(webhookEndpoints.dueAt), asc(webhookEndpoints.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
  nextDue: db
    .select({ dueAt: webhookEndpoints.dueAt })
    .from(webhookEndpoints)
    .where(
      and(sql`${webhookEndpoints.dueAt} IS NOT NULL`, gt(webhookEndpoints.dueAt, sql.placeholder("after")), isServed),
    )
    .orderBy(asc(webhookEndpoints.dueAt))
    .limit(1)
    .prepare(),
  endpoint: db
    .select()
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.seq, sql.placeholder("seq")))
    .prepare(),
  delivery: db
    .select()
    .from(webhookDeliveries)
    .where(eq(webhookDeliveries.seq, sql.placeholder("seq")))
    .prepare(),
}));

/** Tells whether some events have not been fanned out. */
export const hasUnfannedEvents = (db: Db): boolean => (queries(db).newestEvent.get()?.seq ?? 0) > fanoutCursor(db);

/** Tells the same; false where there is no endpoint. Cheap: the deliverer asks after every commit. */
export const hasNewEvents = (db: Db): boolean => queries(db).anyEndpoint.get() !== undefined && hasUnfannedEvents(db);

/** Returns the `seq` of the last event that was fanned out. */
export const fanoutCursor = (db: Db): number => queries(db).cursor.get()?.eventSeq ?? 0;

/** Makes deliveries of the next events, due now, for every endpoint that wants them. */
export function fanOut(tx: Tx, runtime: Pick<Runtime, "now" | "randomBytes">): void {
  const made: NewDelivery[] = [];
  const wanting = new Map<string, ReturnType<ReturnType<typeof queries>["endpointsOf"]["all"]>>();
  const after = fanoutCursor(tx);
  let [last, readers] = [after, 0];
  for (const { seq, id, workspaceId, event } of statements.eventsAfter(tx).all(after, PORTION)) {
    let endpoints = wanting.get(workspaceId);
    if (!endpoints) {
      if (readers >= MOST_READERS) break;
      endpoints = queries(tx).endpointsOf.all({ workspaceId });
      readers += 1 + endpoints.length;
      wanting.set(workspaceId, endpoints);
    }
    if (made.length > 0 && made.length + endpoints.length > PORTION) break;
    for (const endpoint of endpoints) {
      const { afterEvent, events, mailboxes } = endpoint;
      if (seq <= afterEvent || !events.includes(event)) continue;
      if (mailboxes && !mailboxes.includes(statements.mailboxByEvent(tx).get(seq)?.mailbox ?? "")) continue;
      made.push({ id: newId(runtime, "whd"), endpointSeq: endpoint.seq, eventSeq: seq, eventId: id, event });
    }
    last = seq;
  }
  addWebhookDeliveries(tx, made, runtime.now());
  if (last > after) queries(tx).advanceCursor.run({ eventSeq: last });
}

/** Adds deliveries of events, due at `now` (epoch ms). */
export function addWebhookDeliveries(tx: Tx, deliveries: readonly NewDelivery[], now: number): void {
  for (const { id, endpointSeq, eventSeq, eventId, event } of deliveries) {
    statements.insert(tx).run(id, endpointSeq, eventSeq, eventId, event, null, 0, now);
  }
  for (const seq of new Set(deliveries.map(({ endpointSeq }) => endpointSeq))) bringEndpointForward(tx, seq, now);
}

/** Adds a test, due at `now` (epoch ms). It is attempted once, even for a disabled endpoint. */
export function addWebhookTest(tx: Tx, { id, endpointSeq, eventId, event, sample }: NewTest, now: number): void {
  statements.insert(tx).run(id, endpointSeq, null, eventId, event, sample, 1, now);
  bringEndpointForward(tx, endpointSeq, now);
}

/**
 * Yields the endpoints with deliveries due by `upTo` (epoch ms), in the order of their turns. It leaves out endpoints
 * that are being swept, and those of workspaces that move to another server: their deliveries may not be claimed, and they
 * would take the turns of others.
 */
export function* endpointsByDue(db: Db, upTo: number): Generator<{ seq: number; dueAt: number; health: Health }> {
  let last = { dueAt: Number.MIN_SAFE_INTEGER, seq: 0 };
  // SQLite finds a page by due_at alone: of endpoints due at the same time it reads again those that were there before.
  for (let limit = ENDPOINTS_PAGE; ; limit *= 2) {
    const rows = queries(db).endpointsByDue.all({ ...last, upTo, limit });
    for (const { seq, dueAt, health } of rows) {
      last = { seq, dueAt: dueAt ?? 0 };
      yield { ...last, health };
    }
    if (rows.length < limit) return;
  }
}

/** Returns the next time after `after` at which an endpoint is due, both epoch ms; null when none is. */
export const nextEndpointDueTime = (db: Db, after: number): number | null =>
  queries(db).nextDue.get({ after })?.dueAt ?? null;

/** Reads an endpoint; undefined when its row is gone. */
export const endpointAt = (db: Db, seq: number): Endpoint | undefined => queries(db).endpoint.get({ seq });

/**
 * Leases, until `leasedUntil`, up to `count` deliveries of the endpoint that are due at `now` (both epoch ms). Returns
 * their seqs in the order of their attempts. The endpoint's next turn comes after those of the others.
 */
export function claimWebhookDeliveries(
  tx: Tx,
  endpointSeq: number,
  count: number,
  now: number,
  leasedUntil: number,
): number[] {
  const endpoint = endpointAt(tx, endpointSeq);
  // The sweep must first fail or delete the waiting deliveries of this endpoint.
  if (!endpoint || endpoint.sweeping || !isServedHere(tx, endpoint.workspaceId)) return [];
  const seqs = statements
    .due(tx)
    .all(endpointSeq, now, count)
    .map(({ seq }) => seq);
  for (const seq of seqs) statements.lease(tx).run(seq, leasedUntil);
  rescheduleEndpoint(tx, endpointSeq, now);
  return seqs;
}

/** Reads a claimed delivery when its attempt begins; undefined when it was deleted after its claim. */
export function loadClaimedDelivery(db: Db, seq: number): Loaded | undefined {
  const delivery = queries(db).delivery.get({ seq });
  const endpoint = delivery && endpointAt(db, delivery.endpointSeq);
  if (!endpoint || endpoint.state === "removed") return undefined;
  if (delivery.sample !== null) return { delivery, endpoint, body: delivery.sample };
  const event = statements.event(db).get(delivery.eventSeq);
  return event ? { delivery, endpoint, body: buildEventEnvelope({ ...delivery, ...event }) } : undefined;
}

/**
 * Tells whether the delivery was waiting when its endpoint was disabled, and so must not be attempted. Tests and
 * replays may.
 */
export const isDeliveryVoid = (
  { seq, eventSeq, finishedAt }: Pick<Delivery, "seq" | "eventSeq" | "finishedAt">,
  { state, voidThrough }: Endpoint,
): boolean => eventSeq !== null && finishedAt === null && (state !== "active" || seq <= voidThrough);

/** Records the outcome of an attempt and ends its lease. Does nothing for a delivery that was deleted meanwhile. */
export function recordDeliveryState(
  tx: Tx,
  { seq, endpointSeq }: Pick<Delivery, "seq" | "endpointSeq">,
  settled: DeliveryState,
): void {
  const { state, dueAt, status, response, error, finishedAt } = settled;
  statements.recordState(tx).run(seq, state, dueAt, status, response, error, finishedAt);
  if (dueAt !== null) bringEndpointForward(tx, endpointSeq, dueAt);
}

/**
 * Gives leases back without counting an attempt: the deliveries are due again at `now` (epoch ms). The sweep of a
 * disabled endpoint skips leased deliveries, so this asks for another sweep.
 */
export function releaseWebhookDeliveries(tx: Tx, seqs: readonly number[], now: number): void {
  for (const seq of seqs) {
    const row = statements.release(tx).get(seq, now);
    if (!row) continue;
    bringEndpointForward(tx, row.endpointSeq, now);
    statements.sweepAgain(tx).run(row.endpointSeq, seq);
  }
}

/**
 * Gives every lease back; returns how many. At start all leases are of a process that has ended. Reads all waiting
 * rows.
 */
export function releaseAllWebhookLeases(tx: Tx, now: number): number {
  const leased = statements.leased(tx).all();
  releaseWebhookDeliveries(
    tx,
    leased.map(({ seq }) => seq),
    now,
  );
  return leased.length;
}

/**
 * Brings forward deliveries that a clock running ahead has put off too far. `waits`: the wait after the first attempt,
 * the second, …, in ms. From `now` (epoch ms) on, a delivery waits no longer than the wait that follows its attempts;
 * one that is due later than the longest wait from now becomes due now. Reads all waiting rows.
 */
export function recallStrayDeliveries(tx: Tx, waits: readonly number[], now: number): void {
  statements.recall(tx).run(now, JSON.stringify(waits), Math.max(0, ...waits));
  for (const { seq } of [...endpointsByDue(tx, Number.MAX_SAFE_INTEGER)]) rescheduleEndpoint(tx, seq, now);
}

/**
 * Sets when the endpoint is next due: not before `now` (epoch ms), so that its turn comes after those of the others.
 */
export function rescheduleEndpoint(tx: Tx, endpointSeq: number, now: number): void {
  const at = statements.earliest(tx).get(endpointSeq)?.at ?? null;
  statements.setDue(tx).run(endpointSeq, at === null ? null : Math.max(at, now));
}

/** Makes the endpoint due at `dueAt` (epoch ms), unless it is due earlier. */
export const bringEndpointForward = (tx: Tx, endpointSeq: number, dueAt: number): void =>
  void statements.bringForward(tx).run(endpointSeq, dueAt);
