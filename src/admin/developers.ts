/**
 * Administers what developers set up: API keys (rules: API keys; access/credentials.ts stores them) and webhook
 * endpoints with their deliveries (rules: Events). The server makes the deliveries that are asked for here: at once
 * when it is this process, else when it notices them or starts.
 */
import { and, eq } from "drizzle-orm";
import { addAccessNotice } from "../access/access-notices.ts";
import { type Caller, findPersonAsCaller } from "../access/caller.ts";
import {
  createApiKey as createCredential,
  getAllKeysPausedSince,
  type KeyRecord,
  keysMadeBy,
  listApiKeys as listOf,
  revokeApiKey as revoke,
  setAllKeysPaused,
  updateApiKey,
} from "../access/credentials.ts";
import {
  findWiderPolicyField,
  narrowKeyPolicy,
  PolicyRefusal,
  policyAllowsMailbox,
  normalizeKeyPolicy as readPolicyBy,
} from "../access/policy.ts";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import { makeSampleEventData } from "../events/catalogue.ts";
import { describeWebhookRefusal, newWebhookSecret } from "../events/delivery.ts";
import { listEndpointDeliveries as deliveriesOf, resendEndpointDelivery } from "../events/delivery-log.ts";
import { addWebhookTest, type Delivery } from "../events/delivery-queue.ts";
import {
  type Endpoint,
  listEndpoints,
  putEndpoint,
  requireEndpoint,
  rotateEndpointSecret,
  setEndpointDisabled,
  setEndpointEnabled,
  setEndpointMailboxes,
  setEndpointRemoved,
  setEndpointTarget,
} from "../events/endpoints.ts";
import { EVENT_NAMES, type EventName } from "../events/kinds.ts";
import { buildEventEnvelope } from "../events/outbox.ts";
import { resolveMailboxId } from "../mailbox/state/mailboxes.ts";
import { RefusedDestination, readDestination } from "../net/destination.ts";
import type { Core } from "../store/core.ts";
import { type DeliveryState, mailboxes, type Policy, type Scope } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { readDisplayName, readTypedReason } from "./typed-names.ts";

export { EVENT_NAMES } from "../events/kinds.ts";
export { DELIVERY_STATES, SCOPES } from "../store/schema.ts";
export type { Delivery, Endpoint, KeyRecord, Policy };

export interface NewKey {
  userId: string;
  name: string;
  scopes: readonly Scope[];
  /** Policy in the form that normalizeKeyPolicy returns; by default there is none. */
  policy?: Policy;
  /** Id of the API key that makes this key. */
  madeBy?: string | undefined;
}

export interface NewWebhook {
  workspaceId: string;
  url: string;
  /** Names of events; at least one. */
  events: readonly string[];
  /** For people, one line; none by default. */
  description?: string;
  /** The API key that adds it. */
  madeBy?: string | undefined;
}

/** A key or webhook that another key made and that works on without it. `name`: for a webhook, its URL. */
export interface MadeByKey {
  kind: "key" | "webhook";
  id: string;
  name: string;
}

const HOUR_MS = 3_600_000;
export const LONGEST_OVERLAP_HOURS = 24 * 30;
export const DEFAULT_OVERLAP_HOURS = 24;
/** Most deliveries that one transaction sends again, so that it stays under 100 ms. */
const RECOVERED_AT_ONCE = 500;

/** Has the deliverer look, since the transaction under way makes a delivery due. */
const deliverSoon = ({ wake }: Core): void => wake("webhooks");

/** Checks a URL without asking DNS; every attempt checks it again. @throws AppError unprocessable */
function refuseDestination({ options }: Core, url: string): void {
  const allowed = options.get("webhooks.allowNetworks");
  try {
    readDestination(url, allowed === "none" ? [] : allowed);
  } catch (error) {
    throw error instanceof RefusedDestination ? new AppError("unprocessable", describeWebhookRefusal(error)) : error;
  }
}

/** Finds a key of the workspace, even a revoked one. @throws AppError not_found */
export function getKeyRecord(db: Db, id: string, workspaceId: string): KeyRecord {
  const key = listOf(db, workspaceId).find((known) => known.id === id);
  if (!key) throw new AppError("not_found", `there is no key ${id}`);
  return key;
}

/** A mailbox that a policy names, in the spelling to keep: its id, or its own address also for an alias. */
function mailboxNamed(db: Db, workspaceId: string, named: string, bounds: Policy): string | undefined {
  const [mailbox] = db
    .select({ id: mailboxes.id, address: mailboxes.address })
    .from(mailboxes)
    .where(and(eq(mailboxes.id, resolveMailboxId(db, { workspaceId }, named)), eq(mailboxes.workspaceId, workspaceId)))
    .all();
  if (!mailbox || !policyAllowsMailbox(bounds, mailbox)) return undefined;
  return named === mailbox.id ? mailbox.id : mailbox.address;
}

const wider = (db: Db, workspaceId: string, policy: Policy, bounds: Policy) =>
  findWiderPolicyField(policy, bounds, (named) => resolveMailboxId(db, { workspaceId }, named));

/** The addresses of the mailboxes that a policy restricts a key to. */
const listPolicyAddresses = (db: Db, workspaceId: string, policy: Policy = {}): string[] | undefined =>
  policy.mailboxes &&
  db
    .select({ id: mailboxes.id, address: mailboxes.address })
    .from(mailboxes)
    .where(eq(mailboxes.workspaceId, workspaceId))
    .all()
    .flatMap((mailbox) => (policyAllowsMailbox(policy, mailbox) ? mailbox.address : []));

/** True if a key with that policy may know of all that an endpoint is told. */
function isLeft({ store }: Core, policy: Policy | undefined, { workspaceId, mailboxes: only }: Endpoint): boolean {
  const left = listPolicyAddresses(store.db, workspaceId, policy);
  return left === undefined || (only?.every((address) => left.includes(address)) ?? false);
}

/** True if a policy is at least as narrow as another. */
export const isPolicyWithin = (db: Db, workspaceId: string, policy: Policy, bounds: Policy): boolean =>
  wider(db, workspaceId, policy, bounds) === undefined;

/** The keys that a key made, and so on, as far as they work, and the webhooks that it or any of these made. */
function findKeyDescendants({ runtime }: Core, db: Db, id: string, workspaceId?: string) {
  const keys = keysMadeBy(db, id, runtime.now());
  const makers = new Set([id, ...keys.map((key) => key.id)]);
  const endpoints = listEndpoints(db, workspaceId).filter(({ madeBy }) => madeBy !== null && makers.has(madeBy));
  return { keys: keys.filter(({ works }) => works), endpoints };
}

/** Limits what a key made as the key is limited by now. */
function limitMade(core: Core, tx: Tx, id: string, workspaceId: string, bounds: Policy): void {
  const { keys, endpoints } = findKeyDescendants(core, tx, id, workspaceId);
  const policies = new Map(listOf(tx, workspaceId).map((key) => [key.id, key.policy]));
  for (const key of keys) {
    const policy = policies.get(key.id) ?? {};
    const narrowed = narrowKeyPolicy(policy, bounds, (named) => resolveMailboxId(tx, { workspaceId }, named));
    if (narrowed !== policy) updateApiKey(tx, key.id, { policy: narrowed });
  }
  const left = listPolicyAddresses(tx, workspaceId, bounds);
  for (const endpoint of endpoints) {
    // Who reads no codes has no webhooks.
    if (bounds.codes === false) setEndpointDisabled(tx, endpoint, core.runtime.now(), false);
    if (left) setEndpointMailboxes(tx, endpoint, endpoint.mailboxes?.filter((one) => left.includes(one)) ?? left);
  }
  if (endpoints.length > 0) deliverSoon(core);
}

/**
 * Creates a key. Only this result shows it. `byAdmin`: an admin makes it for somebody else, who is told by mail.
 * @throws AppError bad_request; unprocessable for the scope admin of a member
 */
export function createKey(
  { runtime }: Core,
  tx: Tx,
  { userId, name, ...given }: NewKey,
  { byAdmin = false } = {},
): { id: string; key: string } {
  const person = findPersonAsCaller(tx, userId);
  if (byAdmin) {
    const ended = { appPasswords: 0, keys: 0 };
    addAccessNotice(tx, { userId, change: "key", doneBy: "admin", ...ended, createdAt: runtime.now() });
  }
  if (given.scopes.includes("admin") && person?.role === "member") {
    throw new AppError("unprocessable", `the scope admin is for owners and admins: ${person.email} is a member`);
  }
  return createCredential(tx, runtime, { ...given, userId, name: readDisplayName("the key", name) });
}

/** Lists the keys of a workspace, newest first, including revoked ones. */
export function listKeys({ store }: Core, workspaceId: string): KeyRecord[] {
  return listOf(store.db, workspaceId);
}

/**
 * Brings a policy into its one spelling, for a caller. @throws AppError bad_request for a mailbox that does not exist
 * for them, and other values that make no sense
 */
export const readPolicy = (
  db: Db,
  { workspaceId, policy: bounds = {} }: Pick<Caller, "workspaceId" | "policy">,
  policy: Policy,
): Policy => readPolicyBy(policy, (named) => mailboxNamed(db, workspaceId, named, bounds));

/** A key as a caller sees it: mailboxes that their own policy does not leave do not exist for them. */
export function showKeyToCaller(
  db: Db,
  { workspaceId, policy: bounds = {} }: Pick<Caller, "workspaceId" | "policy">,
  key: KeyRecord,
): KeyRecord {
  const { mailboxes: named } = key.policy;
  if (!named || bounds.mailboxes === undefined) return key;
  const left = named.filter((mailbox) => mailboxNamed(db, workspaceId, mailbox, bounds) !== undefined);
  return { ...key, policy: { ...key.policy, mailboxes: left } };
}

/** @throws AppError forbidden for a policy that allows more than `bounds` */
export function requirePolicyWithin(db: Db, workspaceId: string, policy: Policy, bounds: Policy): void {
  const field = wider(db, workspaceId, policy, bounds);
  if (field === undefined) return;
  throw new PolicyRefusal("forbidden", `policy.${field} would allow more than the policy of the key that asks`);
}

/**
 * Changes a key that is not revoked: `policy` as normalizeKeyPolicy gives it; what the key made is limited as well.
 * @throws AppError not_found, bad_request for the name
 */
export function changeKey(
  core: Core,
  tx: Tx,
  id: string,
  workspaceId: string,
  { name, policy, paused }: { name?: string; policy?: Policy; paused?: boolean },
): void {
  const { revokedAt, pausedAt } = getKeyRecord(tx, id, workspaceId);
  if (revokedAt !== null) throw new AppError("not_found", `the key ${id} is revoked`);
  updateApiKey(tx, id, {
    ...(name !== undefined && { name: readDisplayName("the key", name) }),
    ...(policy && { policy }),
    ...(paused !== undefined && { pausedAt: paused ? (pausedAt ?? core.runtime.now()) : null }),
  });
  if (policy) limitMade(core, tx, id, workspaceId, policy);
}

/** Pauses all keys of a workspace, also later ones; resuming leaves those paused that are by themselves. */
export function pauseAllKeys({ runtime }: Core, tx: Tx, workspaceId: string, paused: boolean): void {
  setAllKeysPaused(tx, workspaceId, paused ? (getAllKeysPausedSince(tx, workspaceId) ?? runtime.now()) : null);
}

/** Revokes a key, with `workspaceId` of that workspace only. @throws AppError not_found, also for a revoked key */
export function revokeKey({ runtime }: Core, tx: Tx, id: string, workspaceId?: string): void {
  const known = workspaceId === undefined || listOf(tx, workspaceId).some((key) => key.id === id);
  if (!known || !revoke(tx, id, runtime.now())) {
    throw new AppError("not_found", `there is no key ${id}, or it was revoked before`);
  }
}

/** Keys and webhooks that a key made, or a key that it made, as far as a key with that policy may know them. */
export function listMadeByKey(core: Core, db: Db, id: string, workspaceId?: string, policy?: Policy): MadeByKey[] {
  const { keys, endpoints } = findKeyDescendants(core, db, id, workspaceId);
  const known = endpoints.filter((endpoint) => endpoint.state === "active" && isLeft(core, policy, endpoint));
  return [
    ...keys.map(({ id, name }) => ({ kind: "key" as const, id, name })),
    ...known.map(({ id, url }) => ({ kind: "webhook" as const, id, name: url })),
  ];
}

/**
 * Adds an endpoint; one that a key adds (`madeBy`) is told of the mailboxes alone that its `policy` leaves.
 * @throws AppError unprocessable for a refused destination, bad_request for the events, conflict
 */
export function addWebhook(
  core: Core,
  tx: Tx,
  { workspaceId, url, events, description = "", madeBy }: NewWebhook,
  policy?: Policy,
): Endpoint {
  const { runtime } = core;
  refuseDestination(core, url);
  const id = newId(runtime, "whk");
  const chosen = parseEventNames(events);
  const [secret, now] = [newWebhookSecret(runtime), runtime.now()];
  const purpose = description.trim() === "" ? "" : readTypedReason(description);
  const mailboxes = listPolicyAddresses(tx, workspaceId, policy);
  putEndpoint(tx, { id, workspaceId, url, secret, now, description: purpose, events: chosen, mailboxes, madeBy });
  return requireEndpoint(tx, id);
}

/** Lists the endpoints of one workspace or of all, oldest first; `policy`: those that a key with it may know. */
export function listWebhooks(core: Core, workspaceId?: string, policy?: Policy): Endpoint[] {
  return listEndpoints(core.store.db, workspaceId).filter((endpoint) => isLeft(core, policy, endpoint));
}

/**
 * Finds an endpoint, with `by` in their workspace only, and for a key that is restricted to mailboxes only one that
 * is told of no others. @throws AppError not_found
 */
export function getWebhookEndpoint(core: Core, id: string, by?: { workspaceId: string; policy?: Policy }): Endpoint {
  const endpoint = requireEndpoint(core.store.db, id, by?.workspaceId);
  if (by && !isLeft(core, by.policy, endpoint)) throw new AppError("not_found", `there is no webhook endpoint ${id}`);
  return endpoint;
}

/**
 * Sends a signed sample once, even to a disabled endpoint. `event`: by default the endpoint's first. Returns the
 * delivery's id. @throws AppError not_found, bad_request
 */
export function testWebhook(
  core: Core,
  tx: Tx,
  id: string,
  event?: string,
): { id: string; eventId: string; event: EventName } {
  const { runtime } = core;
  const endpoint = requireEndpoint(tx, id);
  const [name = "message.inbound"] = parseEventNames(event === undefined ? endpoint.events : [event]);
  const [now, eventId, deliveryId] = [runtime.now(), newId(runtime, "evt"), newId(runtime, "whd")];
  const data = JSON.stringify(makeSampleEventData(name, now));
  const sample = buildEventEnvelope({ eventId, event: name, createdAt: now, data });
  addWebhookTest(tx, { id: deliveryId, endpointSeq: endpoint.seq, eventId, event: name, sample }, now);
  deliverSoon(core);
  return { id: deliveryId, eventId, event: name };
}

/** Changes the fields that are given. `by`: the API key. @throws AppError not_found, and as addWebhook for url and events */
export function changeWebhook(
  core: Core,
  tx: Tx,
  id: string,
  { url, events, by }: { url?: string; events?: readonly string[]; by?: string | undefined },
): Endpoint {
  const endpoint = requireEndpoint(tx, id);
  if (url !== undefined) refuseDestination(core, url);
  setEndpointTarget(tx, endpoint, { url: url ?? endpoint.url, events: parseEventNames(events ?? endpoint.events), by });
  return requireEndpoint(tx, id);
}

/**
 * Disables an endpoint: it gets no events until it is enabled, and its waiting deliveries fail.
 * @throws AppError not_found
 */
export function disableWebhook(core: Core, tx: Tx, id: string): Endpoint {
  setEndpointDisabled(tx, requireEndpoint(tx, id), core.runtime.now(), false);
  deliverSoon(core);
  return requireEndpoint(tx, id);
}

/** Enables an endpoint for events from now on. @throws AppError not_found */
export function enableWebhook(tx: Tx, id: string): Endpoint {
  setEndpointEnabled(tx, requireEndpoint(tx, id));
  return requireEndpoint(tx, id);
}

/** Removes an endpoint with the log of its deliveries. @throws AppError not_found */
export function removeWebhook(core: Core, tx: Tx, id: string): void {
  setEndpointRemoved(tx, requireEndpoint(tx, id));
  deliverSoon(core);
}

/**
 * Makes a new secret. The previous one stays valid for `overlapHours`; with 0 it ends at once.
 * @throws AppError not_found, bad_request; conflict while an earlier rotation is under way
 */
export function rotateWebhookSecret({ runtime }: Core, tx: Tx, id: string, overlapHours: number): Endpoint {
  if (!(overlapHours >= 0 && overlapHours <= LONGEST_OVERLAP_HOURS)) {
    throw new AppError("bad_request", `give an overlap of 0 to ${LONGEST_OVERLAP_HOURS} hours`);
  }
  const now = runtime.now();
  const until = overlapHours === 0 ? undefined : now + Math.round(overlapHours * HOUR_MS);
  rotateEndpointSecret(tx, requireEndpoint(tx, id), newWebhookSecret(runtime), now, until);
  return requireEndpoint(tx, id);
}

/**
 * Lists an endpoint's deliveries, newest first. `before`: only those with a lower `seq`.
 * @throws AppError not_found
 */
export function listDeliveries(
  { store }: Core,
  id: string,
  filter: { state?: DeliveryState; before?: number | undefined; limit?: number },
): Delivery[] {
  return deliveriesOf(store.db, requireEndpoint(store.db, id), filter);
}

/**
 * Attempts a delivery once more, now, with the same payload and event id. `workspaceId`: only to an endpoint of
 * that workspace.
 * @throws AppError not_found, conflict
 */
export function resendDelivery(core: Core, tx: Tx, id: string, workspaceId?: string): Delivery {
  deliverSoon(core);
  return resendEndpointDelivery(tx, id, core.runtime.now(), workspaceId);
}

/**
 * Attempts again, as resendDelivery does, each delivery that failed at `since` (epoch ms) or later; returns their
 * number. Works through the log in portions, each a transaction of its own that begins with `check`, which
 * throws to end it.
 * @throws AppError not_found, and what `check` throws
 */
export async function recoverWebhook(
  core: Core,
  id: string,
  since: number,
  check: (tx: Tx) => unknown = () => {},
): Promise<number> {
  const { store, runtime } = core;
  let resent = 0;
  let before: number | undefined;
  for (;;) {
    const filter = { state: "failed", before, limit: RECOVERED_AT_ONCE } as const;
    // Read where it is resent: a delivery may be deleted, or resent by another, before the transaction begins.
    const { failed, wanted } = await store.enqueue((tx) => {
      check(tx);
      const failed = deliveriesOf(tx, requireEndpoint(tx, id), filter);
      const wanted = failed.filter(
        ({ dueAt, finishedAt }) => dueAt === null && finishedAt !== null && finishedAt >= since,
      );
      for (const { id: delivery } of wanted) resendEndpointDelivery(tx, delivery, runtime.now());
      deliverSoon(core);
      return { failed, wanted };
    });
    resent += wanted.length;
    before = failed.at(-1)?.seq;
    if (failed.length < RECOVERED_AT_ONCE) return resent;
  }
}

/** Returns the named events, each once, in the order of EVENT_NAMES. @throws AppError bad_request */
function parseEventNames(names: readonly string[]): EventName[] {
  const unknown = names.find((name) => !EVENT_NAMES.some((known) => known === name));
  if (unknown !== undefined || names.length === 0) {
    const problem = unknown === undefined ? "no event is chosen" : `there is no event "${unknown}"`;
    throw new AppError("bad_request", `${problem}: choose among ${EVENT_NAMES.join(", ")}`);
  }
  return EVENT_NAMES.filter((known) => names.includes(known));
}
