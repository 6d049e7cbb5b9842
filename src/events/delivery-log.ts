/**
 * The log of deliveries, which consists of the queue's own rows: lists them, and resends one (rules: Webhook log,
 * Resend).
 *
 * Also all that goes through rows in portions, between which the event loop turns: the sweep, which fails the waiting
 * deliveries of a disabled endpoint and deletes those of a removed one (rules: Webhook delivery states), and the
 * upkeep, which deletes old deliveries and events.
 */
import { and, asc, desc, eq, gt, lt, lte, type SQL, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { type DeliveryState, events, webhookDeliveries, webhookEndpoints } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { UNSERVED } from "../store/unserved-workspaces.ts";
import {
  bringEndpointForward,
  type Delivery,
  DISABLED,
  endpointAt,
  fanOut,
  fanoutCursor,
  hasUnfannedEvents,
  isDue,
  rescheduleEndpoint,
} from "./delivery-queue.ts";
import type { Endpoint } from "./endpoints.ts";

/** Most rows that one transaction changes, so that it stays well under 50 ms. */
const PORTION = 1_000;
const DAY_MS = 24 * 60 * 60_000;
/**
 * The upkeep runs LOOKS times in a retention period, but not more often than OFTEN_MS, nor less often than SELDOM_MS.
 */
const SELDOM_MS = 60 * 60_000;
const OFTEN_MS = 1_000;
const LOOKS = 24;

const sweeping = prepared((db) =>
  db
    .select()
    .from(webhookEndpoints)
    .where(sql`${webhookEndpoints.sweeping} = 1`)
    .orderBy(asc(webhookEndpoints.seq))
    .limit(1)
    .prepare(),
);

/** Lists an endpoint's deliveries, newest first: `limit` at most, or all. `before`: only those with a lower `seq`. */
export function listEndpointDeliveries(
  db: Db,
  { seq }: Endpoint,
  { state, before, limit = -1 }: { state?: DeliveryState; before?: number | undefined; limit?: number },
): Delivery[] {
  return db
    .select()
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.endpointSeq, seq),
        before === undefined ? undefined : lt(webhookDeliveries.seq, before),
        state === undefined ? undefined : sql`+${eq(webhookDeliveries.state, state)}`,
      ),
    )
    .orderBy(desc(webhookDeliveries.seq))
    .limit(limit)
    .all();
}

/**
 * Makes a delivery in any state due at `now` (epoch ms). A finished delivery gets one more attempt; a waiting one gets
 * its next attempt. `workspaceId`: only for an endpoint of that workspace.
 * @throws AppError not_found; conflict while an attempt is under way
 */
export function resendEndpointDelivery(tx: Tx, id: string, now: number, workspaceId?: string): Delivery {
  const delivery = tx.select().from(webhookDeliveries).where(eq(webhookDeliveries.id, id)).get();
  const endpoint = delivery && endpointAt(tx, delivery.endpointSeq);
  const isReached = workspaceId === undefined || endpoint?.workspaceId === workspaceId;
  if (!endpoint || !isReached || endpoint.state === "removed") {
    throw new AppError("not_found", `there is no webhook delivery ${id}`);
  }
  if (delivery.leased && (delivery.dueAt ?? 0) > now) {
    throw new AppError("conflict", `an attempt at delivery ${id} is under way; try again when it has ended`);
  }
  const changed = { dueAt: now, leased: false, urgent: true };
  tx.update(webhookDeliveries).set(changed).where(eq(webhookDeliveries.seq, delivery.seq)).run();
  bringEndpointForward(tx, delivery.endpointSeq, now);
  return { ...delivery, ...changed };
}

/** Tells whether sweepEndpoints has work. */
export const needsEndpointSweep = (db: Db): boolean => sweeping(db).get() !== undefined;

/**
 * Fails a portion of the waiting deliveries of a disabled endpoint, or deletes a portion of a removed one's; returns
 * whether more may be left. `now`: epoch ms.
 */
export function sweepEndpoints(tx: Tx, now: number): boolean {
  const endpoint = sweeping(tx).get();
  if (!endpoint) return false;
  const { seq } = endpoint;
  const isRemoved = endpoint.state === "removed";
  const handled = isRemoved ? deleteSome(tx, eq(webhookDeliveries.endpointSeq, seq)) : failWaiting(tx, endpoint, now);
  if (handled === PORTION) return true;
  if (isRemoved) tx.delete(webhookEndpoints).where(eq(webhookEndpoints.seq, seq)).run();
  else tx.update(webhookEndpoints).set({ sweeping: false }).where(eq(webhookEndpoints.seq, seq)).run();
  return true;
}

/**
 * Fails a portion of the waiting deliveries, except tests, replays and attempts under way. Returns how many it failed.
 */
function failWaiting(tx: Tx, { seq, voidThrough }: Endpoint, now: number): number {
  const waiting = and(
    eq(webhookDeliveries.endpointSeq, seq),
    isDue,
    sql`+${lte(webhookDeliveries.seq, voidThrough)}`,
    sql`NOT ${webhookDeliveries.leased} AND ${webhookDeliveries.eventSeq} IS NOT NULL AND +${webhookDeliveries.finishedAt} IS NULL`,
  );
  const failed = tx
    .update(webhookDeliveries)
    .set({ state: "failed", dueAt: null, error: DISABLED, finishedAt: now })
    .where(sql`${webhookDeliveries.seq} IN ${selectDeliveryPortion(waiting)}`)
    .returning({ seq: webhookDeliveries.seq })
    .all();
  rescheduleEndpoint(tx, seq, now);
  return failed.length;
}

/** Deletes a portion of the deliveries that finished before `before` (epoch ms); returns whether more may be left. */
export const deleteFinishedDeliveries = (tx: Tx, before: number): boolean =>
  deleteSome(
    tx,
    and(
      sql`${webhookDeliveries.finishedAt} IS NOT NULL`,
      lt(webhookDeliveries.finishedAt, before),
      sql`${webhookDeliveries.dueAt} IS NULL`,
    ),
  ) === PORTION;

const selectDeliveryPortion = (which: SQL | undefined): SQL =>
  sql`(SELECT seq FROM ${webhookDeliveries} WHERE ${which} LIMIT ${PORTION})`;

/** Deletes a portion of the deliveries that match; returns how many. */
const deleteSome = (tx: Tx, which: SQL | undefined): number =>
  tx
    .delete(webhookDeliveries)
    .where(sql`${webhookDeliveries.seq} IN ${selectDeliveryPortion(which)}`)
    .returning({ seq: webhookDeliveries.seq })
    .all().length;

/**
 * Reads the next portion of events after `after`, and deletes those that are older than `before` (epoch ms), fanned out
 * and without a kept delivery. Returns the last `seq` it read; null at the end.
 */
export function deleteEvents(tx: Tx, after: number, before: number): number | null {
  const next = tx
    .select({
      seq: events.seq,
      createdAt: events.createdAt,
      // Plain SQL, because drizzle would leave out the table names.
      // The deliveries of a workspace that moves here may come after its events.
      needed: sql<number>`EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_seq = events.seq)
        OR events.workspace_id IN ${sql.raw(UNSERVED)}`,
    })
    .from(events)
    .where(and(gt(events.seq, after), lte(events.seq, fanoutCursor(tx))))
    .orderBy(asc(events.seq))
    .limit(PORTION)
    .all();
  const fresh = next.findIndex(({ createdAt }) => createdAt >= before);
  const old = fresh < 0 ? next : next.slice(0, fresh);
  const unneeded = old.filter(({ needed }) => !needed).map(({ seq }) => seq);
  // One statement for all rows: one for each takes ten times as long.
  tx.delete(events)
    .where(sql`${events.seq} IN (SELECT value FROM json_each(${JSON.stringify(unneeded)}))`)
    .run();
  return old.length === PORTION ? (old.at(-1)?.seq ?? null) : null;
}

/**
 * Job: deletes finished deliveries after retention.deliveryLogDays (rules: Webhook log), and then the events that have no
 * kept delivery.
 */
export function trimWebhookLog({ store, options, runtime }: Core): Job {
  return {
    name: "webhook-log",
    deletes: true,
    async runDue(now) {
      const retentionMs = options.get("retention.deliveryLogDays") * DAY_MS;
      const before = now - retentionMs;
      while (await store.enqueue((tx) => deleteFinishedDeliveries(tx, before)));
      // Without any endpoint the deliverer fans nothing out; events must be fanned out before they can be deleted.
      while (hasUnfannedEvents(store.db)) await store.enqueue((tx) => fanOut(tx, runtime));
      for (let after: number | null = 0; after !== null; ) {
        const from: number = after;
        after = await store.enqueue((tx) => deleteEvents(tx, from, before));
      }
      return now + Math.max(OFTEN_MS, Math.min(retentionMs / LOOKS, SELDOM_MS));
    },
  };
}
