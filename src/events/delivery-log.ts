/**
 * The log that deliveries are: reading it, sending one again, and getting rid of what is not needed any more, in portions
 * (rules: Webhook log, Webhook delivery states).
 */
import { and, asc, desc, eq, gt, lt, lte, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { AppError } from "../base/errors.ts";
import {
  type DeliveryState,
  events,
  webhookDeliveries,
  webhookEndpoints,
  webhookLog,
  webhookPending,
} from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { bringForward, correctDue, type Delivery, endpointAt, isDue, partsOfDeliveryId } from "./deliveries.ts";
import type { Endpoint } from "./endpoints.ts";
import { cursorOf } from "./fan-out.ts";
import { firstWaitedFor, idleWaiting, logWaiting, releaseWaiting, removeFirstWaiting } from "./waiting.ts";

/** Most rows that one transaction fails or deletes: it stays well under 50 ms. */
const PORTION = 1_000;

const isFinished = sql`${webhookDeliveries.finishedAt} IS NOT NULL`;

const sweeping = prepared((db) =>
  db
    .select()
    .from(webhookEndpoints)
    .where(sql`${webhookEndpoints.sweeping} = 1`)
    .orderBy(asc(webhookEndpoints.seq))
    .limit(1)
    .prepare(),
);

/**
 * Makes a delivery, in whatever state, due at `now` (epoch ms): one attempt more of what is finished, the next one of
 * what waits. `workspaceId`: only of an endpoint of that workspace.
 * @throws AppError not_found; conflict while an attempt is under way
 */
export function resend(tx: Tx, id: string, now: number, workspaceId?: string): Delivery {
  const delivery = deliveryOf(tx, id, workspaceId);
  if (delivery.leased && (delivery.dueAt ?? 0) > now) {
    throw new AppError("conflict", `an attempt at delivery ${id} is under way; try again when it has ended`);
  }
  bringForward(tx, delivery.endpointSeq, now);
  tx.update(webhookDeliveries).set({ dueAt: now, leased: false }).where(eq(webhookDeliveries.seq, delivery.seq)).run();
  if (delivery.leased) releaseWaiting(tx, delivery.endpointSeq, [delivery.seq]);
  return { ...delivery, dueAt: now, leased: false };
}

/** @throws AppError not_found */
function deliveryOf(db: Db, id: string, workspaceId?: string): Delivery {
  const delivery = findDelivery(db, id);
  const endpoint = delivery && endpointAt(db, delivery.endpointSeq);
  const isReached = workspaceId === undefined || endpoint?.workspaceId === workspaceId;
  if (!endpoint || !isReached || endpoint.state === "removed")
    throw new AppError("not_found", `there is no webhook delivery ${id}`);
  return delivery;
}

function findDelivery(db: Db, id: string): Delivery | undefined {
  const own = db.select().from(webhookDeliveries).where(eq(webhookDeliveries.id, id)).get();
  if (own) return db.select().from(webhookLog).where(eq(webhookLog.seq, own.seq)).get();
  const parts = partsOfDeliveryId(id);
  if (!parts) return undefined;
  const eventSeq = sql`(SELECT seq FROM events WHERE id = ${parts.eventId})`;
  const find = (log: typeof webhookLog | typeof webhookPending) =>
    db
      .select()
      .from(log)
      .where(and(eq(log.eventSeq, eventSeq), eq(log.endpointSeq, parts.endpointSeq)))
      .get();
  return find(webhookLog) ?? find(webhookPending);
}

/** The log of an endpoint, newest first; `limit` at most, or all of it. `before`: only those with a lower number. */
export function listDeliveries(
  db: Db,
  { seq }: Endpoint,
  { state, before, limit = -1 }: { state?: DeliveryState; before?: number | undefined; limit?: number },
): Delivery[] {
  // One snapshot: what another process records meanwhile would be in neither.
  return db.transaction(() => {
    const logged = db
      .select()
      .from(webhookLog)
      .where(
        and(
          eq(webhookLog.endpointSeq, seq),
          before === undefined ? undefined : lt(webhookLog.seq, before),
          state === undefined ? undefined : sql`+${eq(webhookLog.state, state)}`,
        ),
      )
      .orderBy(desc(webhookLog.seq))
      .limit(limit)
      .all();
    if (state !== undefined && state !== "pending") return logged;
    const waiting = db
      .select()
      .from(webhookPending)
      .where(
        and(eq(webhookPending.endpointSeq, seq), before === undefined ? undefined : lt(webhookPending.seq, before)),
      )
      .orderBy(sql`run DESC`, desc(webhookPending.eventSeq))
      .limit(limit)
      .all();
    return [...logged, ...waiting].sort((a, b) => b.seq - a.seq).slice(0, limit < 0 ? undefined : limit);
  });
}

/** Why a delivery failed that was waiting when its endpoint was disabled. */
export const DISABLED = "the endpoint was disabled";

/** Whether there is something for sweepEndpoints. */
export const needsSweep = (db: Db): boolean => sweeping(db).get() !== undefined;

/**
 * Works off a portion of what disabling or removing endpoints left; returns whether there may be more. `now`: epoch ms.
 */
export function sweepEndpoints(tx: Tx, now: number): boolean {
  const endpoint = sweeping(tx).get();
  if (!endpoint) return false;
  const { seq } = endpoint;
  const handled = endpoint.state === "removed" ? deletePortion(tx, endpoint) : voidPortion(tx, endpoint, now);
  if (handled < PORTION) {
    if (endpoint.state === "removed") tx.delete(webhookEndpoints).where(eq(webhookEndpoints.seq, seq)).run();
    else tx.update(webhookEndpoints).set({ sweeping: false }).where(eq(webhookEndpoints.seq, seq)).run();
  }
  return true;
}

function deletePortion(tx: Tx, { seq }: Endpoint): number {
  const portion = sql`(SELECT seq FROM ${webhookDeliveries} WHERE ${webhookDeliveries.endpointSeq} = ${seq} LIMIT ${PORTION})`;
  return deleted(tx, sql`${webhookDeliveries.seq} IN ${portion}`) + removeFirstWaiting(tx, seq, PORTION);
}

/** Tests and replays are attempted all the same; an attempt under way ends by itself. */
function voidPortion(tx: Tx, { seq, voidThrough }: Endpoint, now: number): number {
  const retried = tx
    .select({ seq: webhookDeliveries.seq })
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.endpointSeq, seq),
        isDue,
        sql`+${lte(webhookDeliveries.seq, voidThrough)}`,
        sql`${webhookDeliveries.eventSeq} IS NOT NULL AND ${webhookDeliveries.finishedAt} IS NULL AND NOT ${webhookDeliveries.leased}`,
      ),
    )
    .limit(PORTION)
    .all();
  const end = { state: "failed", dueAt: null, error: DISABLED, finishedAt: now } as const;
  tx.update(webhookDeliveries).set(end).where(isAmong(webhookDeliveries.seq, retried)).run();
  const waiting = idleWaiting(tx, seq, voidThrough, PORTION);
  logWaiting(tx, seq, [{ seqs: waiting, attempts: 0, settled: { ...end, status: null, response: null } }]);
  correctDue(tx, seq);
  return retried.length + waiting.length;
}

/** Deletes a portion of what was finished before `before` (epoch ms); returns whether there may be more. */
export function deleteFinished(tx: Tx, before: number): boolean {
  const portion = sql`(SELECT seq FROM ${webhookDeliveries} WHERE ${and(isFinished, lt(webhookDeliveries.finishedAt, before))} AND NOT ${isDue} LIMIT ${PORTION})`;
  return deleted(tx, sql`${webhookDeliveries.seq} IN ${portion}`) === PORTION;
}

const deleted = (tx: Tx, which: SQL): number =>
  tx.delete(webhookDeliveries).where(which).returning({ seq: webhookDeliveries.seq }).all().length;

/** Of rows by number, for one statement: one for each row of a portion takes ten times as long. */
const isAmong = (column: SQLiteColumn, rows: readonly { seq: number }[]): SQL =>
  sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(rows.map(({ seq }) => seq))}))`;

/**
 * Deletes, of the next events after `after`, those from before `before` (epoch ms) that are fanned out and of which no
 * delivery is kept. Returns the last one looked at; null at the end.
 */
export function deleteEvents(tx: Tx, after: number, before: number): number | null {
  const next = tx
    .select({
      seq: events.seq,
      createdAt: events.createdAt,
      needed: sql<number>`EXISTS (SELECT 1 FROM ${webhookDeliveries} WHERE ${webhookDeliveries.eventSeq} = ${events.seq})`,
    })
    .from(events)
    .where(and(gt(events.seq, after), lte(events.seq, cursorOf(tx))))
    .orderBy(asc(events.seq))
    .limit(PORTION)
    .all();
  const waitedFor = firstWaitedFor(tx) ?? Number.POSITIVE_INFINITY;
  const fresh = next.findIndex(({ seq, createdAt }) => createdAt >= before || seq >= waitedFor);
  const old = fresh < 0 ? next : next.slice(0, fresh);
  const unneeded = old.filter(({ needed }) => !needed);
  tx.delete(events).where(isAmong(events.seq, unneeded)).run();
  return old.length === PORTION ? (old.at(-1)?.seq ?? null) : null;
}
