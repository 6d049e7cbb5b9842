/**
 * Events, and the outbox that keeps them. Each is written in the transaction of its cause, so an event exists exactly
 * when its mail does (rules: Events). The only writer of events. An event never contains a body or Bcc.
 *
 * Invariant: webhooks deliver the JSON text that the outbox keeps, so every attempt and every resend of an event sends
 * the same bytes, even from a later version of the program.
 */
import { eq, gt, inArray, max, sql } from "drizzle-orm";
import { toIsoTime } from "../base/time.ts";
import { events } from "../store/schema.ts";
import { prepared, statement } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import type { EventData } from "./catalogue.ts";
import type { EventName } from "./kinds.ts";

/** `id`: a new `evt_` id; retries and resends of its deliveries repeat it. `now`: epoch ms. */
export interface NewEvent<E extends EventName> {
  id: string;
  workspaceId: string;
  event: E;
  data: EventData[E];
  now: number;
}

const statements = {
  atOrAfter: statement<{ seq: number; createdAt: number }, [seq: number]>(
    "SELECT seq, created_at AS createdAt FROM events WHERE seq >= ? ORDER BY seq LIMIT 1",
  ),
  since: statement<StoredEvent, [seq: number, limit: number]>(
    `SELECT seq, workspace_id AS workspaceId, id AS eventId, event, created_at AS createdAt, data
       FROM events WHERE seq > ? ORDER BY seq LIMIT ?`,
  ),
};

const queries = prepared((db) => ({
  insert: db
    .insert(events)
    .values({
      id: sql.placeholder("id"),
      workspaceId: sql.placeholder("workspaceId"),
      event: sql.placeholder("event"),
      createdAt: sql.placeholder("now"),
      data: sql.placeholder("data"),
      emailId: sql.placeholder("emailId"),
    })
    .prepare(),
  latest: db
    .select({ seq: max(events.seq) })
    .from(events)
    .prepare(),
  arrivals: db
    .select({ seq: events.seq, emailId: sql<string>`${events.data} ->> 'emailId'` })
    .from(events)
    .where(
      sql`${gt(events.seq, sql.placeholder("seq"))}
        and ${eq(events.workspaceId, sql.placeholder("workspaceId"))}
        and ${events.event} = 'message.inbound'`,
    )
    .orderBy(events.seq)
    .limit(sql.placeholder("limit"))
    .prepare(),
}));

/** Writes an event in the transaction `tx`. */
export function emitEvent<E extends EventName>(tx: Tx, event: NewEvent<E>): void {
  queries(tx).insert.run({ ...event, emailId: event.data.emailId });
}

/** Deletes the events of these messages (messages.id), with their deliveries; returns how many events. */
export function deleteMessageEvents(tx: Tx, emailIds: readonly string[]): number {
  if (emailIds.length === 0) return 0;
  return tx
    .delete(events)
    .where(inArray(events.emailId, [...emailIds]))
    .returning({ seq: events.seq })
    .all().length;
}

/** Returns the number of the latest event of any kind; 0 before the first. */
export const latestEvent = (db: Db): number => queries(db).latest.get()?.seq ?? 0;

/** Returns the number of the first event since a time (epoch ms), by bisection: their times grow with their numbers. */
export function firstEventSince(db: Db, at: number): number {
  let [first, end] = [1, latestEvent(db) + 1];
  while (first < end) {
    const middle = Math.floor((first + end) / 2);
    const event = statements.atOrAfter(db).get(middle);
    if (event && event.createdAt < at) first = event.seq + 1;
    else end = middle;
  }
  return first;
}

/** An event of the outbox. `createdAt`: epoch ms; `data`: JSON text. */
export interface StoredEvent {
  seq: number;
  workspaceId: string;
  eventId: string;
  event: EventName;
  createdAt: number;
  data: string;
}

/** Lists up to `limit` events after the event `seq`, in the order of their commits. */
export const eventsSince = (db: Db, seq: number, limit: number): StoredEvent[] => statements.since(db).all(seq, limit);

/** A message that arrived. `seq`: the number of its event, which grows with every event. */
export interface Arrival {
  seq: number;
  emailId: string;
}

/**
 * Lists up to `limit` messages that arrived in a workspace after the event `seq`, in the order of their arrival. The
 * sender chooses a message's date; this server numbers the message's event when it commits it.
 */
export const arrivalsSince = (db: Db, workspaceId: string, seq: number, limit: number): Arrival[] =>
  queries(db).arrivals.all({ workspaceId, seq, limit });

/** Builds the body of a delivery (rules: Event envelope). `createdAt`: epoch ms; `data`: JSON text. */
export function buildEventEnvelope({
  eventId,
  event,
  createdAt,
  data,
}: {
  eventId: string;
  event: string;
  createdAt: number;
  data: string;
}): string {
  return `{"id":"${eventId}","event":"${event}","createdAt":"${toIsoTime(createdAt)}","data":${data}}`;
}
