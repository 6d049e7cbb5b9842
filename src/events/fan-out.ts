/**
 * Fan-out: an event becomes a delivery for every endpoint that wants it (rules: Events). The only writer of
 * webhook_cursor.
 *
 * Invariant: an event is fanned out once, and the cursor moves in that transaction.
 */
import { and, asc, desc, eq, sql } from "drizzle-orm";
import { newId, type Runtime } from "../base/runtime.ts";
import { events, webhookCursor, webhookEndpoints } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { type NewDelivery, putDeliveries } from "./queue.ts";

/** Most events that one transaction reads, and most deliveries that it makes, so that it stays well under 50 ms. */
const PORTION = 1_000;
/** Most workspaces and endpoints that it reads: one costs more than an event. */
const MOST_READERS = 1_000;

interface EventRow {
  seq: number;
  id: string;
  workspaceId: string;
  event: string;
}

const fanning = prepared((db) => ({
  cursor: db.select({ eventSeq: webhookCursor.eventSeq }).from(webhookCursor).prepare(),
  anybody: db.select({ seq: webhookEndpoints.seq }).from(webhookEndpoints).limit(1).prepare(),
  newest: db.select({ seq: events.seq }).from(events).orderBy(desc(events.seq)).limit(1).prepare(),
  // Plain SQL, because it returns a row for each event.
  events: db.$client.prepare<EventRow, [number, number]>(
    "SELECT seq, id, workspace_id AS workspaceId, event FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
  ),
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

/** Tells whether some events have not been fanned out. */
export const hasUnread = (db: Db): boolean => (fanning(db).newest.get()?.seq ?? 0) > cursorOf(db);

/** Tells the same if any endpoint exists. Cheap: the deliverer asks after every commit. */
export const hasNewEvents = (db: Db): boolean => fanning(db).anybody.get() !== undefined && hasUnread(db);

export const cursorOf = (db: Db): number => fanning(db).cursor.get()?.eventSeq ?? 0;

/** Makes deliveries of the next events, due now, for every endpoint that wants them. */
export function fanOut(tx: Tx, runtime: Pick<Runtime, "now" | "randomBytes">): void {
  const made: NewDelivery[] = [];
  const wanting = new Map<string, ReturnType<ReturnType<typeof fanning>["endpoints"]["all"]>>();
  const after = cursorOf(tx);
  let [last, readers] = [after, 0];
  for (const { seq, id, workspaceId, event } of fanning(tx).events.all(after, PORTION)) {
    let endpoints = wanting.get(workspaceId);
    if (!endpoints) {
      if (readers >= MOST_READERS) break;
      endpoints = fanning(tx).endpoints.all({ workspaceId });
      readers += 1 + endpoints.length;
      wanting.set(workspaceId, endpoints);
    }
    if (made.length > 0 && made.length + endpoints.length > PORTION) break;
    for (const endpoint of endpoints) {
      if (seq <= endpoint.afterEvent || !endpoint.events.includes(event)) continue;
      made.push({ id: newId(runtime, "whd"), endpointSeq: endpoint.seq, eventSeq: seq, eventId: id, event });
    }
    last = seq;
  }
  putDeliveries(tx, made, runtime.now());
  if (last > after) fanning(tx).advance.run({ eventSeq: last });
}
