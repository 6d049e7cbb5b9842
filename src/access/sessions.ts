/**
 * Sessions of the web app: browsers in which a person signed in with their password. The only writer of sessions. Only
 * the SHA-256 of the cookie's token is stored.
 *
 * Invariant: a session acts for its person in their current state. It ends when they leave (by foreign key), when their
 * password changes, after two idle weeks, and after three months in any case. One that is not kept ends with the
 * browser, and after half an idle day. Changes that outlast the session (keys, passwords, other people's access) need a
 * recent proof of identity. Each proof changes the token, which invalidates a copied cookie.
 */
import { createHash } from "node:crypto";
import { and, desc, eq, gt, lte, ne, type SQL, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { newId, type Runtime, randomToken } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { SCOPES, sessions, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import { type Caller, PERSON } from "./caller.ts";
import { revokeSessionKeys } from "./credentials.ts";
import { hasSecondFactor } from "./second-factor.ts";

/** 256 bits. */
const TOKEN_LENGTH = 43;
const DAY_MS = 86_400_000;
const LONGEST_IDLE_MS = 14 * DAY_MS;
/** For a session that is not kept. */
const LONGEST_UNKEPT_IDLE_MS = DAY_MS / 2;
/** Longest lifetime of a session, ms, and of its cookie. */
export const LONGEST_SESSION_MS = 90 * DAY_MS;
/** How long a proof of identity is valid. */
const CONFIRMED_MS = 5 * 60_000;
const LONGEST_USER_AGENT = 300;
/** Precision of the time of last use, ms: a write for every request would cost more than it is worth. */
const USE_GRANULARITY_MS = 300_000;

export interface BrowserSession {
  id: string;
  /** The person's name. */
  name: string;
  caller: Caller;
  /** Epoch ms; to within some minutes. */
  lastUsedAt: number;
  createdAt: number;
  /** True if it survives closing the browser. */
  persistent: boolean;
  /** When the person last proved their identity again; null if not since signing in. */
  confirmedAt: number | null;
  /** Hash of the token that the request used. */
  hash: string;
}

const hashSessionToken = (token: string): string => createHash("sha256").update(token).digest("hex");

const sessionExpiry = (createdAt: number, lastUsedAt: number, persistent: boolean): number =>
  Math.min(createdAt + LONGEST_SESSION_MS, lastUsedAt + (persistent ? LONGEST_IDLE_MS : LONGEST_UNKEPT_IDLE_MS));

/** Starts a session for a person who has just proved their identity. `token` is returned only here. */
export function startSession(
  tx: Tx,
  runtime: Pick<Runtime, "now" | "randomBytes">,
  given: { userId: string; userAgent: string; source: string; persistent: boolean },
): { id: string; token: string } {
  const id = newId(runtime, "ses");
  const token = randomToken(runtime, TOKEN_LENGTH);
  const now = runtime.now();
  tx.insert(sessions)
    .values({
      id,
      ...given,
      hash: hashSessionToken(token),
      userAgent: given.userAgent.slice(0, LONGEST_USER_AGENT),
      createdAt: now,
      lastUsedAt: now,
      expiresAt: sessionExpiry(now, now, given.persistent),
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
      persistent: sessions.persistent,
      confirmedAt: sessions.confirmedAt,
      hash: sessions.hash,
      name: users.name,
      ...PERSON,
    })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.userId))
    .where(and(eq(sessions.hash, sql.placeholder("hash")), gt(sessions.expiresAt, sql.placeholder("now"))))
    .prepare(),
}));

/** The session of a token, if it is valid; an invalid token takes the same time. */
export const findSession = (db: Db, token: string, now: number): BrowserSession | undefined =>
  sessionByHash(db, hashSessionToken(token), now);

function sessionByHash(db: Db, hash: string, now: number): BrowserSession | undefined {
  const row = statements(db).byHash.get({ hash, now });
  if (!row) return undefined;
  const { userId, workspaceId, role, email, ...session } = row;
  return { ...session, caller: { userId, workspaceId, role, email, scopes: new Set(SCOPES) } };
}

/**
 * The session in its present state. @throws AppError unauthorized if it ended, or got another token, since the request arrived
 */
export function requireLiveSession(db: Db, { hash }: BrowserSession, now: number): BrowserSession {
  const present = sessionByHash(db, hash, now);
  if (!present) throw new AppError("unauthorized", "Sign in to continue");
  requireWorkspaceServed(db, present.caller.workspaceId);
  return present;
}

/** A refusal until the person proves their identity; with `code`, a code of their second factor is needed, too. */
export class Unconfirmed extends AppError {
  readonly confirm: { code: boolean };

  constructor(code: boolean) {
    super("forbidden", "Confirm with your password that it is still you");
    this.confirm = { code };
  }
}

/**
 * For changes that outlast a session. Called in the transaction of the change, because the request may have taken a
 * while.
 * @throws Unconfirmed without a proof of identity in the last minutes; AppError unauthorized if the session ended
 */
export function requireConfirmedSession(db: Db, session: BrowserSession, now: number): void {
  const { confirmedAt, caller } = requireLiveSession(db, session, now);
  // A clock that was set back does not extend a proof.
  if (confirmedAt !== null && now >= confirmedAt && now - confirmedAt < CONFIRMED_MS) return;
  throw new Unconfirmed(hasSecondFactor(db, caller.userId));
}

/** Records that the person has just proved their identity. From now on only the returned token is valid. */
export function confirmSession(tx: Tx, runtime: Pick<Runtime, "now" | "randomBytes">, session: BrowserSession): string {
  const now = runtime.now();
  const { id } = requireLiveSession(tx, session, now);
  const token = randomToken(runtime, TOKEN_LENGTH);
  tx.update(sessions)
    .set({ hash: hashSessionToken(token), confirmedAt: now })
    .where(eq(sessions.id, id))
    .run();
  return token;
}

/** A session as shown to its person. */
export interface SessionRecord {
  id: string;
  userAgent: string;
  /** The address of sign-in, as ipAddressSource gives it; empty for a session from an older version. */
  source: string;
  createdAt: number;
  lastUsedAt: number;
}

/** A person's valid sessions, most recently used first. */
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

/** Ends sessions, with the keys that they made; returns their number. */
function end(tx: Tx, which: SQL | undefined, now: number): number {
  const ended = tx.delete(sessions).where(which).returning({ id: sessions.id }).all();
  revokeSessionKeys(
    tx,
    ended.map(({ id }) => id),
    now,
  );
  return ended.length;
}

/** Ends one of a person's sessions. False if they have none with that id. `now`: epoch ms. */
export const endSession = (tx: Tx, userId: string, id: string, now: number): boolean =>
  end(tx, and(eq(sessions.id, id), eq(sessions.userId, userId)), now) > 0;

/** Ends all sessions of a person, except `keep`. `now`: epoch ms. */
export function endSessions(tx: Tx, userId: string, now: number, keep?: string): void {
  end(tx, and(eq(sessions.userId, userId), keep === undefined ? undefined : ne(sessions.id, keep)), now);
}

/** Records that a session is in use at `now` (epoch ms), which extends it. A failed write is logged; the request continues. */
export function touchSession({ store, log }: Core, session: BrowserSession, now: number): void {
  // A clock that was ahead may have stored a future time.
  if (Math.abs(now - session.lastUsedAt) < USE_GRANULARITY_MS) return;
  store
    .note((tx) => {
      tx.update(sessions)
        .set({ lastUsedAt: now, expiresAt: sessionExpiry(session.createdAt, now, session.persistent) })
        .where(eq(sessions.id, session.id))
        .run();
    })
    .catch((error) => log.warn("the last use of a session was not recorded", { sessionId: session.id, error }));
}

/** Removes ended sessions once a day; they are invalid in any case. */
export const sweepSessions = ({ store }: Core): Job => ({
  name: "sweep-sessions",
  deletes: true,
  runDue(now) {
    store.transact((tx) => {
      end(tx, lte(sessions.expiresAt, now), now);
    });
    return now + DAY_MS;
  },
});
