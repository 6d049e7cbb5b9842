/** Browsers that asked for Web Push, and this server's key for it. The only writer of push_keys and push_subscriptions. */
import { and, asc, count, eq, gt, or } from "drizzle-orm";
import { type Caller, PERSON } from "../access/caller.ts";
import { pushKeys, pushSubscriptions, SCOPES, sessions, users } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { type KeyPair, makePushKeys, type PushTarget } from "./encryption.ts";

/** Choice of what a browser is told. */
export interface PushChoice {
  /** Ids of mailboxes. */
  mailboxes: string[];
  /** True if sender and subject are told. */
  details: boolean;
}

export interface Subscription extends PushTarget, PushChoice {
  sessionId: string;
  caller: Caller;
  failures: number;
  restsUntil: number;
}

/** Browsers of one person; one more ends the oldest. */
const MOST_OF_PERSON = 20;

/** The server's key pair; undefined before it has pushed anything. */
export const findStoredPushKeys = (db: Db): KeyPair | undefined =>
  db.select({ publicKey: pushKeys.publicKey, privateKey: pushKeys.privateKey }).from(pushKeys).get();

/** This server's key pair, made at the first call. */
export function getPushKeys(tx: Tx): KeyPair {
  const known = findStoredPushKeys(tx);
  if (known) return known;
  const made = makePushKeys();
  tx.insert(pushKeys)
    .values({ id: 1, ...made })
    .run();
  return made;
}

/** Subscribes a session, in place of what it or that browser had. */
export function subscribeToPush(
  tx: Tx,
  { userId, ...given }: PushTarget & PushChoice & { sessionId: string; userId: string; createdAt: number },
): void {
  const { sessionId, endpoint } = given;
  tx.delete(pushSubscriptions)
    .where(or(eq(pushSubscriptions.sessionId, sessionId), eq(pushSubscriptions.endpoint, endpoint)))
    .run();
  const had = tx
    .select({ sessionId: pushSubscriptions.sessionId })
    .from(pushSubscriptions)
    .innerJoin(sessions, eq(sessions.id, pushSubscriptions.sessionId))
    .where(eq(sessions.userId, userId))
    .orderBy(asc(pushSubscriptions.createdAt))
    .all();
  for (const { sessionId } of had.slice(0, Math.max(0, had.length + 1 - MOST_OF_PERSON)))
    unsubscribeFromPush(tx, sessionId);
  tx.insert(pushSubscriptions)
    .values({ ...given, failures: 0, restsUntil: 0 })
    .run();
}

export function unsubscribeFromPush(tx: Tx, sessionId: string): void {
  tx.delete(pushSubscriptions).where(eq(pushSubscriptions.sessionId, sessionId)).run();
}

export const findPushChoice = (db: Db, sessionId: string): PushChoice | undefined =>
  db
    .select({ mailboxes: pushSubscriptions.mailboxes, details: pushSubscriptions.details })
    .from(pushSubscriptions)
    .where(eq(pushSubscriptions.sessionId, sessionId))
    .get();

export const countPushSubscriptions = (db: Db): number =>
  db.select({ count: count() }).from(pushSubscriptions).get()?.count ?? 0;

/** Subscriptions of all sessions that are valid at `now`, or of one of them. */
export const listPushSubscriptions = (db: Db, now: number, sessionId?: string): Subscription[] =>
  db
    .select({ subscription: pushSubscriptions, ...PERSON })
    .from(pushSubscriptions)
    .innerJoin(sessions, eq(sessions.id, pushSubscriptions.sessionId))
    .innerJoin(users, eq(users.id, sessions.userId))
    .where(and(gt(sessions.expiresAt, now), sessionId === undefined ? undefined : eq(sessions.id, sessionId)))
    .all()
    .map(({ subscription, ...person }) => ({ ...subscription, caller: { ...person, scopes: new Set(SCOPES) } }));

/** Records how a request to `endpoint` went; that of another one by now does not count. */
export function notePushOutcome(
  tx: Tx,
  { sessionId, endpoint }: Pick<Subscription, "sessionId" | "endpoint">,
  state: { failures: number; restsUntil: number },
): void {
  tx.update(pushSubscriptions)
    .set(state)
    .where(and(eq(pushSubscriptions.sessionId, sessionId), eq(pushSubscriptions.endpoint, endpoint)))
    .run();
}
