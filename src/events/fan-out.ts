/**
 * Fan-out: an event becomes a delivery for every endpoint that wants it (spec: Events). The only writer of webhook_cursor.
 *
 * Invariant: an event is fanned out once, and the cursor moves in that transaction.
 */
import { and, asc, desc, eq, gt, sql } from "drizzle-orm";
import { prepared } from "../store/prepared.ts";
import { events, webhookCursor, webhookEndpoints } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { bringForward, insertDelivery, PORTION } from "./deliveries.ts";

const fanning = prepared((db) => ({
  cursor: db.select({ eventSeq: webhookCursor.eventSeq }).from(webhookCursor).prepare(),
  anybody: db.select({ seq: webhookEndpoints.seq }).from(webhookEndpoints).limit(1).prepare(),
  newest: db.select({ seq: events.seq }).from(events).orderBy(desc(events.seq)).limit(1).prepare(),
  events: db
    .select({ seq: events.seq, id: events.id, workspaceId: events.workspaceId, event: events.event })
    .from(events)
    .where(gt(events.seq, sql.placeholder("after")))
    .orderBy(asc(events.seq))
    .limit(PORTION)
    .prepare(),
  endpoints: db
    .select({ seq: webhookEndpoints.seq, events: webhookEndpoints.events, afterEvent: webhookEndpoints.afterEvent })
    .from(webhookEndpoints)
    .where(and(eq(webhookEndpoints.workspaceId, sql.placeholder("workspaceId")), eq(webhookEndpoints.state, "active")))
    .orderBy(asc(webhookEndpoints.seq))
    .prepare(),
  advance: db
    .update(webhookCursor)
    .set({ eventSeq: sql`${sql.placeholder("eventSeq")}` })
    .prepare(),
}));

/** Whether there are events that have not been fanned out. */
export const hasUnread = (db: Db): boolean => (fanning(db).newest.get()?.seq ?? 0) > cursorOf(db);

/** The same, and somebody to be told. Cheap: asked after every commit. */
export const hasNewEvents = (db: Db): boolean => fanning(db).anybody.get() !== undefined && hasUnread(db);

export const cursorOf = (db: Db): number => fanning(db).cursor.get()?.eventSeq ?? 0;

/**
 * Makes a delivery of the next events for every endpoint that wants them, due at `now` (epoch ms); returns the endpoints
 * that got some, by seq. `newId`: gives a new `whd_` id.
 */
export function fanOut(tx: Tx, now: number, newId: () => string): Set<number> {
  const reached = new Set<number>();
  const wanting = new Map<string, ReturnType<ReturnType<typeof fanning>["endpoints"]["all"]>>();
  const after = cursorOf(tx);
  let made = 0;
  let last = after;
  for (const { seq, id, workspaceId, event } of fanning(tx).events.all({ after })) {
    const endpoints = wanting.get(workspaceId) ?? fanning(tx).endpoints.all({ workspaceId });
    wanting.set(workspaceId, endpoints);
    if (made > 0 && made + endpoints.length > PORTION) break;
    for (const endpoint of endpoints) {
      if (seq <= endpoint.afterEvent || !endpoint.events.includes(event)) continue;
      insertDelivery(tx, {
        id: newId(),
        endpointSeq: endpoint.seq,
        eventSeq: seq,
        eventId: id,
        event,
        sample: null,
        now,
      });
      reached.add(endpoint.seq);
      made++;
    }
    last = seq;
  }
  if (last > after) fanning(tx).advance.run({ eventSeq: last });
  for (const seq of reached) bringForward(tx, seq, now);
  return reached;
}
