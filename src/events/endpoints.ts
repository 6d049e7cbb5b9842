/**
 * Webhook endpoints: who is to be told of what, and whether they are (rules: Webhook delivery states). With
 * queue.ts the only writer of webhook_endpoints.
 *
 *   active ──15 exhausted in a row, or an admin──► disabled ──an admin──► active        removed: from either, at once
 *
 * Invariants: an endpoint is told of no event from before it was added, or from the time it was disabled. What was
 * waiting when it was disabled is not attempted again, even after it is enabled; failing it, or deleting what belonged to
 * a removed endpoint, is the deliverer's work, in portions.
 */
import { and, asc, eq, ne, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { type Health, webhookEndpoints } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import type { EventName } from "./outbox.ts";

export type Endpoint = typeof webhookEndpoints.$inferSelect;

/** `now`: epoch ms. */
export interface NewEndpoint {
  id: string;
  workspaceId: string;
  url: string;
  /** For people; empty when it is left out. */
  description?: string;
  events: readonly EventName[];
  secret: string;
  now: number;
}

/** Each event of a workspace makes a delivery for each of them: no more than this in one workspace. */
const MOST_ENDPOINTS = 100;

const isThere = ne(webhookEndpoints.state, "removed");
/** What has happened so far. */
const newestEvent = sql<number>`(SELECT coalesce(max(seq), 0) FROM events)`;
const newestDelivery = sql<number>`(SELECT seq FROM sqlite_sequence WHERE name = 'webhook_deliveries')`;

/** @throws AppError conflict when the workspace has as many as it may */
export function putEndpoint(
  tx: Tx,
  { id, workspaceId, url, description = "", events, secret, now }: NewEndpoint,
): void {
  if (listEndpoints(tx, workspaceId).length >= MOST_ENDPOINTS) {
    throw new AppError("conflict", `a workspace has at most ${MOST_ENDPOINTS} webhook endpoints: remove one first`);
  }
  tx.insert(webhookEndpoints)
    .values({
      ...{ id, workspaceId, url, description, secret, createdAt: now },
      events: [...events],
      state: "active",
      health: "unproven",
      afterEvent: newestEvent,
    })
    .run();
}

/** Of one workspace, or of all; the oldest first. */
export function listEndpoints(db: Db, workspaceId?: string): Endpoint[] {
  const ofWorkspace = workspaceId === undefined ? undefined : eq(webhookEndpoints.workspaceId, workspaceId);
  return db.select().from(webhookEndpoints).where(and(isThere, ofWorkspace)).orderBy(asc(webhookEndpoints.seq)).all();
}

/** `workspaceId`: only one of that workspace. @throws AppError not_found */
export function requireEndpoint(db: Db, id: string, workspaceId?: string): Endpoint {
  const endpoint = db
    .select()
    .from(webhookEndpoints)
    .where(and(eq(webhookEndpoints.id, id), isThere))
    .get();
  if (!endpoint || (workspaceId !== undefined && endpoint.workspaceId !== workspaceId)) {
    throw new AppError("not_found", `there is no webhook endpoint ${id}`);
  }
  return endpoint;
}

/** Counts from nought again. One that is active stays as it is. */
export function setEnabled(tx: Tx, { seq }: Endpoint): void {
  tx.update(webhookEndpoints)
    .set({ state: "active", disabledAt: null, exhausted: 0, afterEvent: newestEvent })
    .where(and(eq(webhookEndpoints.seq, seq), eq(webhookEndpoints.state, "disabled")))
    .run();
}

/** At `now` (epoch ms); `telling`: its admins are to be told. Returns whether it was active. */
export function setDisabled(tx: Tx, { seq }: Pick<Endpoint, "seq">, now: number, telling: boolean): boolean {
  const changed = tx
    .update(webhookEndpoints)
    .set({ state: "disabled", disabledAt: now, voidThrough: newestDelivery, sweeping: true, telling })
    .where(and(eq(webhookEndpoints.seq, seq), eq(webhookEndpoints.state, "active")))
    .returning({ seq: webhookEndpoints.seq })
    .all();
  return changed.length > 0;
}

/** What waits goes there as well. At another address nothing has failed or succeeded yet. */
export function setTarget(tx: Tx, { seq, url: before }: Endpoint, url: string, events: readonly EventName[]): void {
  tx.update(webhookEndpoints)
    .set({ url, events: [...events], ...(url !== before && { exhausted: 0, health: "unproven" as const }) })
    .where(eq(webhookEndpoints.seq, seq))
    .run();
}

/** Its secrets go at once. */
export function setRemoved(tx: Tx, { seq }: Endpoint): void {
  tx.update(webhookEndpoints)
    .set({ state: "removed", secret: "", previousSecret: null, dueAt: null, sweeping: true, telling: false })
    .where(eq(webhookEndpoints.seq, seq))
    .run();
}

/**
 * Puts `secret` in place; until `overlapUntil` (epoch ms) the one before is good as well. Without it, the new one alone.
 * @throws AppError conflict while an earlier rotation is under way: three secrets cannot be good
 */
export function rotateSecret(tx: Tx, endpoint: Endpoint, secret: string, now: number, overlapUntil?: number): void {
  const { seq, id, previousUntil } = endpoint;
  if (overlapUntil !== undefined && previousUntil !== null && previousUntil > now) {
    const until = new Date(previousUntil).toISOString();
    throw new AppError(
      "conflict",
      `the secret of ${id} is being rotated until ${until}; without an overlap it can be now`,
    );
  }
  const before = overlapUntil === undefined ? null : endpoint.secret;
  tx.update(webhookEndpoints)
    .set({ secret, previousSecret: before, previousUntil: overlapUntil ?? null })
    .where(eq(webhookEndpoints.seq, seq))
    .run();
}

/** How many deliveries in a row came to nothing, and what its answers have been like. */
export function setRecord(tx: Tx, { seq }: Endpoint, record: { exhausted: number; health: Health }): void {
  tx.update(webhookEndpoints).set(record).where(eq(webhookEndpoints.seq, seq)).run();
}

/** Endpoints whose admins have not been mailed yet that it is disabled. */
export function untold(db: Db): Endpoint[] {
  return db.select().from(webhookEndpoints).where(sql`telling = 1`).orderBy(asc(webhookEndpoints.seq)).all();
}

export function setTold(tx: Tx, { seq }: Endpoint): void {
  tx.update(webhookEndpoints).set({ telling: false }).where(eq(webhookEndpoints.seq, seq)).run();
}
