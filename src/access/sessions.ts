/**
 * Sessions of the web app: a browser in which somebody signed in with their password. The only writer of sessions. Of the
 * token in the cookie only its SHA-256 is kept.
 *
 * Invariant: a session acts for its person as they are now. It ends when they leave (by foreign key), when their password
 * changes, when it has been idle for two weeks, and after three months whatever is done in it. One that is not to be kept ends
 * with the browser, and when it has been idle for half a day. What would outlast it (keys, passwords, other people's access)
 * takes a proof that is minutes old; with each proof the token changes, so that a copy of the cookie ends by it.
 */
import { createHash } from "node:crypto";
import { and, desc, eq, gt, lte, ne, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { newId, type Runtime, randomToken } from "../base/runtime.ts";
import { SCOPES, sessions, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import type { Caller } from "./caller.ts";
import { hasSecondFactor } from "./second-factor.ts";

/** 256 bits. */
const TOKEN_LENGTH = 43;
const DAY_MS = 86_400_000;
const LONGEST_IDLE_MS = 14 * DAY_MS;
/** Of a session that is not kept. */
const LONGEST_UNKEPT_IDLE_MS = DAY_MS / 2;
/** How long a session lasts at most, ms: what its cookie says. */
export const LONGEST_SESSION_MS = 90 * DAY_MS;
/** How long a proof that it is still them counts. */
const CONFIRMED_MS = 5 * 60_000;
const LONGEST_USER_AGENT = 300;
/** The time of last use is kept to so many ms: writing it at every request would cost more than it tells. */
const USE_GRANULARITY_MS = 300_000;

export interface Session {
  id: string;
  /** The person's name. */
  name: string;
  caller: Caller;
  /** Epoch ms; kept to some minutes. */
  lastUsedAt: number;
  createdAt: number;
  /** Whether it outlives the browser being closed. */
  kept: boolean;
  /** When its person last proved that it is still them; null for who has not since signing in. */
  confirmedAt: number | null;
  /** Of the token that the request came with. */
  hash: string;
}

const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");

const expiryOf = (createdAt: number, lastUsedAt: number, kept: boolean): number =>
  Math.min(createdAt + LONGEST_SESSION_MS, lastUsedAt + (kept ? LONGEST_IDLE_MS : LONGEST_UNKEPT_IDLE_MS));

/** A new session for somebody who has just proved who they are. `token` is seen here and never again. */
export function startSession(
  tx: Tx,
  runtime: Pick<Runtime, "now" | "randomBytes">,
  given: { userId: string; userAgent: string; source: string; kept: boolean },
): { id: string; token: string } {
  const id = newId(runtime, "ses");
  const token = randomToken(runtime, TOKEN_LENGTH);
  const now = runtime.now();
  tx.insert(sessions)
    .values({
      id,
      ...given,
      hash: hashOf(token),
      userAgent: given.userAgent.slice(0, LONGEST_USER_AGENT),
      createdAt: now,
      lastUsedAt: now,
      expiresAt: expiryOf(now, now, given.kept),
    })
    .run();
  return { id, token };
}

const statements = prepared((db) => ({
  byHash: db
    .select({
      id: sessions.id,
      createdAt: sessions.createdAt,
      lastUsedAt: sessions.lastUsedAt,
      kept: sessions.kept,
      confirmedAt: sessions.confirmedAt,
      hash: sessions.hash,
      name: users.name,
      userId: users.id,
      workspaceId: users.workspaceId,
      role: users.role,
      email: users.email,
    })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.userId))
    .where(and(eq(sessions.hash, sql.placeholder("hash")), gt(sessions.expiresAt, sql.placeholder("now"))))
    .prepare(),
}));

/** The session of that token, if it goes on; a wrong token costs what a right one does. */
export const findSession = (db: Db, token: string, now: number): Session | undefined =>
  sessionByHash(db, hashOf(token), now);

function sessionByHash(db: Db, byHash: string, now: number): Session | undefined {
  const row = statements(db).byHash.get({ hash: byHash, now });
  if (!row) return undefined;
  const { id, name, createdAt, lastUsedAt, kept, confirmedAt, hash, ...person } = row;
  return {
    ...{ id, name, createdAt, lastUsedAt, kept, confirmedAt, hash },
    caller: { ...person, scopes: new Set(SCOPES) },
  };
}

/** The same session now. @throws AppError unauthorized when it ended, or got another token, since the request came. */
export function presentSession(db: Db, { hash }: Session, now: number): Session {
  const present = sessionByHash(db, hash, now);
  if (!present) throw new AppError("unauthorized", "Sign in to go on");
  return present;
}

/** A refusal that ends once its person has proved that it is them; with `code`, by a code of their second factor too. */
export class Unconfirmed extends AppError {
  readonly confirm: { code: boolean };

  constructor(code: boolean) {
    super("forbidden", "This takes a proof, some minutes old at most, that it is still you");
    this.confirm = { code };
  }
}

/**
 * For what outlasts a session. To be called in the transaction that does it: the request may have taken its time.
 * @throws Unconfirmed unless its person proved in the last minutes that it is them; AppError unauthorized when it ended
 */
export function requireConfirmed(db: Db, session: Session, now: number): void {
  const { confirmedAt, caller } = presentSession(db, session, now);
  // A clock that was set back confirms nothing.
  if (confirmedAt !== null && now >= confirmedAt && now - confirmedAt < CONFIRMED_MS) return;
  throw new Unconfirmed(hasSecondFactor(db, caller.userId));
}

/** Notes that its person has just proved that it is them. The session goes on with the token returned and no other. */
export function confirmSession(tx: Tx, runtime: Pick<Runtime, "now" | "randomBytes">, session: Session): string {
  const now = runtime.now();
  const { id } = presentSession(tx, session, now);
  const token = randomToken(runtime, TOKEN_LENGTH);
  tx.update(sessions)
    .set({ hash: hashOf(token), confirmedAt: now })
    .where(eq(sessions.id, id))
    .run();
  return token;
}

/** A session as its person sees it in a list. */
export interface SessionRecord {
  id: string;
  userAgent: string;
  /** Where they signed in, as sourceOfAddress gives it; empty for one of an older version. */
  source: string;
  createdAt: number;
  lastUsedAt: number;
}

/** Somebody's sessions that go on, the latest used first. */
export function listSessions(db: Db, userId: string, now: number): SessionRecord[] {
  return db
    .select({
      id: sessions.id,
      userAgent: sessions.userAgent,
      source: sessions.source,
      createdAt: sessions.createdAt,
      lastUsedAt: sessions.lastUsedAt,
    })
    .from(sessions)
    .where(and(eq(sessions.userId, userId), gt(sessions.expiresAt, now)))
    .orderBy(desc(sessions.lastUsedAt), desc(sessions.id))
    .all();
}

/** Ends one session of somebody's. False when they have none of that id. */
export function endSession(tx: Tx, userId: string, id: string): boolean {
  const ended = tx
    .delete(sessions)
    .where(and(eq(sessions.id, id), eq(sessions.userId, userId)))
    .returning({ id: sessions.id })
    .all();
  return ended.length > 0;
}

/** Ends all of somebody's sessions, but for the one they keep. */
export function endSessions(tx: Tx, userId: string, keep?: string): void {
  tx.delete(sessions)
    .where(and(eq(sessions.userId, userId), keep === undefined ? undefined : ne(sessions.id, keep)))
    .run();
}

/** Notes that a session is in use, and so goes on. A write that fails is logged; no request fails by it. */
export function createSessionUse(store: Pick<Store, "enqueue">, log: Log) {
  return (session: Session, now: number): void => {
    // A clock that was ahead may have noted a time that has not come.
    if (Math.abs(now - session.lastUsedAt) < USE_GRANULARITY_MS) return;
    store
      .enqueue((tx) => {
        tx.update(sessions)
          .set({ lastUsedAt: now, expiresAt: expiryOf(session.createdAt, now, session.kept) })
          .where(eq(sessions.id, session.id))
          .run();
      })
      .catch((error) => log.warn("the last use of a session was not recorded", { sessionId: session.id, error }));
  };
}

/** For the scheduler: removes sessions that have ended, once a day; none of them is found meanwhile. */
export function createSessionSweep(store: Pick<Store, "transact">) {
  return {
    name: "sweep-sessions",
    deletes: true,
    runDue(now: number): number {
      store.transact((tx) => {
        tx.delete(sessions).where(lte(sessions.expiresAt, now)).run();
      });
      return now + DAY_MS;
    },
  };
}
