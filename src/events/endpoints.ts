/**
 * Webhook endpoints: their URLs, the events they are told of, their states, and the notice to the admins when the
 * server disables one (rules: Webhook delivery states). This file, delivery-queue.ts and delivery-log.ts alone write webhook_endpoints.
 *
 *   active ──15 exhausted in a row, or an admin──► disabled ──an admin──► active        removed: from either, at once
 *
 * Invariants: an endpoint is told only of events that happened after it was added and while it was enabled. Deliveries
 * that were waiting when it was disabled are not attempted again, even after it is enabled. The deliverer fails those,
 * and deletes the deliveries of a removed endpoint, in portions. A notice is neither lost nor repeated in a crash: the
 * transaction that disables the endpoint marks it as due, and the transaction that files it clears the mark.
 */
import { and, asc, eq, ne, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { type Job, workOnEach } from "../base/scheduler.ts";
import { toIsoTime } from "../base/time.ts";
import type { Core } from "../store/core.ts";
import { type Health, webhookEndpoints } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import type { EventName } from "./kinds.ts";

export type Endpoint = typeof webhookEndpoints.$inferSelect;

/** `now`: epoch ms. */
export interface NewEndpoint {
  id: string;
  workspaceId: string;
  url: string;
  /** Description for people; empty by default. */
  description?: string;
  events: readonly EventName[];
  /** Addresses of the mailboxes that it is told of; all by default. */
  mailboxes?: readonly string[] | undefined;
  secret: string;
  /** The API key that adds it. */
  madeBy?: string | undefined;
  now: number;
}

/** Most endpoints of one workspace: each event may make a delivery for each of them. */
const MOST_ENDPOINTS = 100;

const isThere = ne(webhookEndpoints.state, "removed");
/** `seq` of the latest event, and of the latest delivery. */
const newestEvent = sql<number>`(SELECT coalesce(max(seq), 0) FROM events)`;
const newestDelivery = sql<number>`(SELECT seq FROM sqlite_sequence WHERE name = 'webhook_deliveries')`;

/** Adds an endpoint. @throws AppError conflict when the workspace has MOST_ENDPOINTS already */
export function putEndpoint(
  tx: Tx,
  { id, workspaceId, url, description = "", events, mailboxes, secret, madeBy, now }: NewEndpoint,
): void {
  if (listEndpoints(tx, workspaceId).length >= MOST_ENDPOINTS) {
    throw new AppError("conflict", `a workspace has at most ${MOST_ENDPOINTS} webhook endpoints: remove one first`);
  }
  tx.insert(webhookEndpoints)
    .values({
      id,
      workspaceId,
      url,
      description,
      secret,
      createdAt: now,
      events: [...events],
      mailboxes: mailboxes && [...mailboxes],
      madeBy,
      state: "active",
      health: "unproven",
      afterEvent: newestEvent,
    })
    .run();
}

/** Lists the endpoints of one workspace, or of all, oldest first. */
export function listEndpoints(db: Db, workspaceId?: string): Endpoint[] {
  const ofWorkspace = workspaceId === undefined ? undefined : eq(webhookEndpoints.workspaceId, workspaceId);
  return db.select().from(webhookEndpoints).where(and(isThere, ofWorkspace)).orderBy(asc(webhookEndpoints.seq)).all();
}

/** Finds an endpoint, with `workspaceId` in that workspace only. @throws AppError not_found */
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

/** Enables a disabled endpoint, and resets its count of exhausted deliveries. */
export function setEndpointEnabled(tx: Tx, { seq }: Endpoint): void {
  tx.update(webhookEndpoints)
    .set({ state: "active", disabledAt: null, exhausted: 0, afterEvent: newestEvent })
    .where(and(eq(webhookEndpoints.seq, seq), eq(webhookEndpoints.state, "disabled")))
    .run();
}

/**
 * Disables an active endpoint at `now` (epoch ms); returns false if it was not active. `telling`: its admins get a
 * notice.
 */
export function setEndpointDisabled(tx: Tx, { seq }: Pick<Endpoint, "seq">, now: number, telling: boolean): boolean {
  const changed = tx
    .update(webhookEndpoints)
    .set({ state: "disabled", disabledAt: now, voidThrough: newestDelivery, sweeping: true, telling })
    .where(and(eq(webhookEndpoints.seq, seq), eq(webhookEndpoints.state, "active")))
    .returning({ seq: webhookEndpoints.seq })
    .all();
  return changed.length > 0;
}

/**
 * Changes URL and events. Waiting deliveries go to the new URL, too, which starts with no failures and unproven health.
 * `by`: the API key that does it.
 */
export function setEndpointTarget(
  tx: Tx,
  { seq, url: before }: Endpoint,
  { url, events, by = null }: { url: string; events: readonly EventName[]; by?: string | null | undefined },
): void {
  const elsewhere = { url, exhausted: 0, health: "unproven" as const, madeBy: by };
  tx.update(webhookEndpoints)
    .set({ events: [...events], ...(url !== before && elsewhere) })
    .where(eq(webhookEndpoints.seq, seq))
    .run();
}

/** Sets which mailboxes an endpoint is told of, by their addresses. */
export function setEndpointMailboxes(tx: Tx, { seq }: Endpoint, addresses: readonly string[]): void {
  tx.update(webhookEndpoints)
    .set({ mailboxes: [...addresses] })
    .where(eq(webhookEndpoints.seq, seq))
    .run();
}

/** Removes an endpoint: its secrets at once, its deliveries by the sweep. */
export function setEndpointRemoved(tx: Tx, { seq }: Endpoint): void {
  tx.update(webhookEndpoints)
    .set({ state: "removed", secret: "", previousSecret: null, dueAt: null, sweeping: true, telling: false })
    .where(eq(webhookEndpoints.seq, seq))
    .run();
}

/**
 * Replaces the secret. Until `overlapUntil` (epoch ms) the previous secret stays valid, too; without it, it ends at
 * once.
 * @throws AppError conflict when an earlier overlap has not ended: at most two secrets are valid at a time
 */
export function rotateEndpointSecret(
  tx: Tx,
  endpoint: Endpoint,
  secret: string,
  now: number,
  overlapUntil?: number,
): void {
  const { seq, id, previousUntil } = endpoint;
  if (overlapUntil !== undefined && previousUntil !== null && previousUntil > now) {
    const until = toIsoTime(previousUntil);
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

/** Records how many deliveries in a row were exhausted, and the endpoint's health. */
export function setEndpointHealth(tx: Tx, { seq }: Endpoint, record: { exhausted: number; health: Health }): void {
  tx.update(webhookEndpoints).set(record).where(eq(webhookEndpoints.seq, seq)).run();
}

/** Lists the disabled endpoints whose notice to the admins is due. */
export function endpointsToTell(db: Db): Endpoint[] {
  return db.select().from(webhookEndpoints).where(sql`telling = 1`).orderBy(asc(webhookEndpoints.seq)).all();
}

function setNotified(tx: Tx, { seq }: Endpoint): void {
  tx.update(webhookEndpoints).set({ telling: false }).where(eq(webhookEndpoints.seq, seq)).run();
}

/** Mails the owners and admins of a workspace. `record` runs in the same transaction, and may run twice. */
export type TellAdmins = (
  notice: { workspaceId: string; subject: string; text: string },
  record: (tx: Tx) => void,
) => Promise<void>;

/** Job: mails the admins once about each endpoint that the server disabled. */
export function tellDisabledEndpoints({ db, site: { baseUrl } }: Core, notifyAdmins: TellAdmins): Job {
  return {
    name: "webhook-notices",
    async runDue() {
      await workOnEach(endpointsToTell(db), (endpoint) => {
        const { workspaceId, url } = endpoint;
        const subject = `Webhook switched off: ${new URL(url).host}`;
        const notice = { workspaceId, subject, text: writeEndpointNotice(endpoint, baseUrl) };
        return notifyAdmins(notice, (tx) => setNotified(tx, endpoint));
      });
      return null;
    },
  };
}

/** Each paragraph is one line: the reader's mail program wraps it. */
const writeEndpointNotice = ({ id, url, events, disabledAt, exhausted }: Endpoint, baseUrl: string): string =>
  [
    disabledAt === null
      ? `The webhook endpoint ${url} (${id}) was switched off: too many deliveries in a row failed all their attempts. It has been switched on again since.`
      : `The webhook endpoint ${url} (${id}) was switched off on ${new Date(disabledAt).toUTCString()}: ${exhausted} deliveries in a row failed all their attempts.`,
    `It was told of ${events.join(", ")}. While it is off, nothing is sent to it and nothing is kept for it; mail itself comes and goes as ever.`,
    "When the receiver works again, send it a test and switch the endpoint on:",
    `    mailroom webhook test ${id}\n    mailroom webhook enable ${id}`,
    `What was not delivered can be sent again one by one (mailroom webhook deliveries ${id}, then resend), or read over the API at ${baseUrl}.`,
  ].join("\n\n");
