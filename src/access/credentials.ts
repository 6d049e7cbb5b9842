/**
 * API keys (rules: API keys, Acting person), passwords, secrets that people type, and when a key was last used. The
 * only writer of api_keys. A key is stored as its SHA-256, since 256 random bits need no slow hash, and a password as
 * its argon2id.
 */
import { createHash } from "node:crypto";
import { and, desc, eq, gt, inArray, isNull, sql } from "drizzle-orm";
import { AppError, unavailable } from "../base/errors.ts";
import { BASE32, base32, newId, type Runtime, randomToken } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { toIsoTime } from "../base/time.ts";
import type { Core } from "../store/core.ts";
import {
  apiKeys,
  oauthGrants,
  oauthTokens,
  type Policy,
  type Role,
  type Scope,
  users,
  workspaces,
} from "../store/schema.ts";
import { prepared, statement } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import { type Caller, findPersonAsCaller, isPersonLocked, PERSON } from "./caller.ts";
import { isAffordablePasswordHash, isImportedPasswordHash, verifyPasswordHash } from "./imported-hash.ts";
import { createConcurrencyLimits } from "./slowdown.ts";

const KEY_LENGTH = 43;
/** Readable characters of a key that are stored, so that people can tell their keys apart: 24 bits of 256. */
const HINT_LENGTH = 7;

/** SHA-256, hex, of a credential that is random enough for a fast hash. */
export const hashCredential = (key: string): string => createHash("sha256").update(key).digest("hex");

/** How access tokens begin (oauth/grants.ts). */
export const ACCESS_TOKEN_PREFIX = "mro_";

/**
 * Creates a key that acts for `userId`. `key` is returned only here; one that is given is public, as the demo's is.
 * `hint`: shown instead of its first characters, for a grant, whose key nobody gets.
 * @throws AppError conflict for a person who is locked
 */
export function createApiKey(
  tx: Tx,
  runtime: Pick<Runtime, "now" | "randomBytes">,
  given: {
    userId: string;
    name: string;
    scopes: readonly Scope[];
    policy?: Policy;
    madeBy?: string | undefined;
    key?: string;
    hint?: string;
  },
): { id: string; key: string } {
  if (isPersonLocked(tx, given.userId)) {
    throw new AppError("conflict", "This person is locked: unlock them before they get an API key");
  }
  const id = newId(runtime, "key");
  const key = given.key ?? `mr_${randomToken(runtime, KEY_LENGTH)}`;
  tx.insert(apiKeys)
    .values({
      id,
      userId: given.userId,
      name: given.name,
      hash: hashCredential(key),
      hint: given.hint ?? key.slice(0, HINT_LENGTH),
      scopes: [...new Set(given.scopes)],
      policy: given.policy ?? {},
      madeBy: given.madeBy,
      createdAt: runtime.now(),
    })
    .run();
  return { id, key };
}

/** The columns that restrict a key; workspaces must be joined. */
const RESTRICTIONS = {
  policy: apiKeys.policy,
  // By itself, with all keys of the workspace, or with a key that made it.
  paused: sql<number>`${apiKeys.pausedAt} IS NOT NULL OR ${workspaces.keysPausedAt} IS NOT NULL
    OR (${apiKeys.madeBy} IS NOT NULL AND EXISTS (
      WITH RECURSIVE line(id) AS (
        SELECT ${apiKeys.madeBy} UNION SELECT k.made_by FROM api_keys k JOIN line ON k.id = line.id WHERE k.made_by IS NOT NULL)
      SELECT 1 FROM line JOIN api_keys k ON k.id = line.id WHERE k.paused_at IS NOT NULL))`,
};

type Restrictions = Pick<Caller, "policy" | "paused">;

/** Absent for a key that is neither restricted nor paused, as most are. */
const restrictionsIn = ({ policy, paused }: { policy: Policy; paused: number }): Restrictions => ({
  ...(Object.keys(policy).length > 0 && { policy }),
  ...(paused !== 0 && { paused: true }),
});

/** The columns of a key's caller. */
const CALLER = { keyId: apiKeys.id, scopes: apiKeys.scopes, ...RESTRICTIONS, ...PERSON };

const callerByHash = prepared((db) =>
  db
    .select(CALLER)
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .innerJoin(workspaces, eq(workspaces.id, users.workspaceId))
    .where(and(eq(apiKeys.hash, sql.placeholder("hash")), isNull(apiKeys.revokedAt)))
    .prepare(),
);

/**
 * The person for whom a key acts, with their current role; undefined for an unknown or revoked key, or one whose
 * creator left. Keys are looked up by hash, so the time reveals nothing about a guess.
 */
export const findCaller = (db: Db, key: string): Caller | undefined =>
  callerIn(callerByHash(db).get({ hash: hashCredential(key) }));

type CallerRow = ReturnType<ReturnType<typeof callerByHash>["get"]>;

function callerIn(row: CallerRow): Caller | undefined {
  if (!row) return undefined;
  const { policy: _, paused: __, ...caller } = row;
  return { ...caller, scopes: new Set(row.scopes), ...restrictionsIn(row) };
}

const callerByToken = prepared((db) =>
  db
    .select(CALLER)
    .from(oauthTokens)
    .innerJoin(apiKeys, eq(apiKeys.id, oauthTokens.keyId))
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .innerJoin(workspaces, eq(workspaces.id, users.workspaceId))
    .where(
      and(
        eq(oauthTokens.hash, sql.placeholder("hash")),
        eq(oauthTokens.kind, "access"),
        gt(oauthTokens.expiresAt, sql.placeholder("now")),
        isNull(apiKeys.revokedAt),
      ),
    )
    .prepare(),
);

/** The person for whom an API key or an access token acts at `now`, epoch ms; undefined as for findCaller. */
export const findCallerByCredential = (db: Db, credential: string, now: number): Caller | undefined =>
  credential.startsWith(ACCESS_TOKEN_PREFIX)
    ? callerIn(callerByToken(db).get({ hash: hashCredential(credential), now }))
    : findCaller(db, credential);

const restrictions = prepared((db) =>
  db
    .select(RESTRICTIONS)
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .innerJoin(workspaces, eq(workspaces.id, users.workspaceId))
    .where(and(eq(apiKeys.id, sql.placeholder("id")), isNull(apiKeys.revokedAt)))
    .prepare(),
);

/** How a key is restricted now; undefined for one that is not valid: it was revoked, or its creator left. */
export function findKeyRestrictions(db: Db, keyId: string): Restrictions | undefined {
  const row = restrictions(db).get({ id: keyId });
  return row && restrictionsIn(row);
}

const stopped = statement<{ ids: string }, []>(
  `SELECT (SELECT count(revoked_at) || ':' || coalesce(group_concat(iif(paused_at IS NULL, NULL, id)), '') FROM api_keys)
     || ':' || (SELECT coalesce(group_concat(id), '') FROM workspaces WHERE keys_paused_at IS NOT NULL) AS ids`,
);

/** A text that is another whenever keys were revoked or paused: requests that wait are then to look again. */
export const getStoppedKeysVersion = (db: Db): string => stopped(db).get()?.ids ?? "";

const makers = statement<{ id: string }, [id: string]>(
  `WITH RECURSIVE line(id, made_by) AS (
     SELECT id, made_by FROM api_keys WHERE id = ?
     UNION SELECT k.id, k.made_by FROM api_keys k JOIN line ON k.id = line.made_by)
   SELECT id FROM line UNION SELECT made_by FROM line WHERE made_by IS NOT NULL`,
);

/**
 * True if the key is `maker`, or was made by it, or by a key that it made, and so on; also if that is no longer known, since
 * the key is gone with its person.
 */
export function mayDescendFromKey(db: Db, keyId: string, maker: string): boolean {
  const line = makers(db).all(keyId);
  return line.length === 0 || line.some(({ id }) => id === maker);
}

const made = statement<{ id: string; name: string; works: number }, [id: string, now: string]>(
  `WITH RECURSIVE family(id) AS (
     SELECT ?1 UNION SELECT k.id FROM api_keys k JOIN family ON k.made_by = family.id)
   SELECT k.id, k.name, k.revoked_at IS NULL AND coalesce(k.policy ->> 'expiresAt' > ?2, 1) AS works
   FROM family JOIN api_keys k ON k.id = family.id JOIN users ON users.id = k.user_id WHERE k.id <> ?1`,
);

/** The keys that a key made, and those that they made, and so on. `works`: neither revoked nor expired at `now`, epoch ms. */
export const keysMadeBy = (db: Db, keyId: string, now: number): { id: string; name: string; works: boolean }[] =>
  made(db)
    .all(keyId, toIsoTime(now))
    .map((key) => ({ ...key, works: key.works !== 0 }));

/** @throws AppError forbidden for a caller whose key is paused */
export function requireKeyNotPaused({ paused }: Pick<Caller, "paused">): void {
  if (paused) throw new AppError("forbidden", "This API key is paused: somebody in the workspace has to resume it");
}

/**
 * Checks at the end of a slow request, before it takes effect, that the caller's key, if they used one, may still be
 * used. Returns the caller as the key is restricted by now.
 * @throws AppError unauthorized if it was revoked, or its creator left, meanwhile (rules: API keys); forbidden if it was
 * paused; server_error 503 if the workspace moves away
 */
export function requireLiveKey(db: Db, caller: Caller): Caller {
  requireWorkspaceServed(db, caller.workspaceId);
  if (caller.keyId === undefined) return caller;
  const restricted = findKeyRestrictions(db, caller.keyId);
  if (!restricted) {
    throw new AppError("unauthorized", "This API key was revoked, or its creator left, before the request was done");
  }
  requireKeyNotPaused(restricted);
  const { policy: _, ...rest } = caller;
  return { ...rest, ...restricted };
}

/**
 * The caller in their current state, for a request's work in the transaction `db`: their key is still valid, and their
 * role is current. Sessions are checked where they are admitted.
 * @throws AppError unauthorized if the key was revoked, or the person left, meanwhile
 */
export function reloadCaller(db: Db, caller: Caller): Caller {
  const present = requireLiveKey(db, caller);
  const person = findPersonAsCaller(db, caller.userId);
  if (!person) throw new AppError("unauthorized", "The person of this request has left the workspace");
  return { ...present, role: person.role, email: person.email };
}

const keyHolder = prepared((db) =>
  db
    .select({ key: apiKeys.name, person: users.name })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(eq(apiKeys.id, sql.placeholder("id")))
    .prepare(),
);

/** The names of a caller's key and of its creator; undefined for a caller without a key. */
export const findKeyHolder = (db: Db, { keyId }: Caller): { key: string; person: string } | undefined =>
  keyId === undefined ? undefined : keyHolder(db).get({ id: keyId });

/** Revokes a key immediately and permanently. False if no valid key has that id. */
export function revokeApiKey(tx: Tx, id: string, now: number): boolean {
  const revoked = tx
    .update(apiKeys)
    .set({ revokedAt: now })
    .where(and(eq(apiKeys.id, id), isNull(apiKeys.revokedAt)))
    .returning({ id: apiKeys.id })
    .all();
  return revoked.length > 0;
}

/** Deletes a key that was never used. */
export function deleteApiKey(tx: Tx, id: string): void {
  tx.delete(apiKeys).where(eq(apiKeys.id, id)).run();
}

/** Changes fields of a key. */
export function updateApiKey(
  tx: Tx,
  id: string,
  set: { name?: string; policy?: Policy; pausedAt?: number | null },
): void {
  tx.update(apiKeys).set(set).where(eq(apiKeys.id, id)).run();
}

/** Since when all keys of a workspace are paused, epoch ms. */
export const getAllKeysPausedSince = (db: Db, workspaceId: string): number | null =>
  db.select({ at: workspaces.keysPausedAt }).from(workspaces).where(eq(workspaces.id, workspaceId)).get()?.at ?? null;

/** Pauses all keys of a workspace from `at` (epoch ms) on, also later ones; null resumes those that are not paused by themselves. */
export function setAllKeysPaused(tx: Tx, workspaceId: string, at: number | null): void {
  tx.update(workspaces).set({ keysPausedAt: at }).where(eq(workspaces.id, workspaceId)).run();
}

/** Makes a key valid again that was revoked, or whose person has left, for `userId`. False if it was never created. */
export function reviveApiKey(tx: Tx, key: string, userId: string): boolean {
  const revived = tx
    .update(apiKeys)
    .set({ userId, revokedAt: null })
    .where(eq(apiKeys.hash, hashCredential(key)))
    .returning({ id: apiKeys.id })
    .all();
  return revived.length > 0;
}

/** Revokes the keys that sessions made. Where there are none it writes nothing, so that a standby can end its own sessions. */
export function revokeSessionKeys(tx: Tx, sessionIds: readonly string[], now: number): void {
  const live = tx
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(inArray(apiKeys.madeBy, [...sessionIds]), isNull(apiKeys.revokedAt)))
    .all();
  for (const { id } of live) revokeApiKey(tx, id, now);
}

const SWEEP_MS = 10 * 60_000;
/** How long the list shows keys of sessions after their end: as long as the journal, by default. */
const ENDED_KEYS_KEPT_MS = 90 * 86_400_000;

const ofSession = "made_by GLOB 'ses_*'";

const sweeps = {
  expired: statement<unknown, [now: number, at: string]>(
    `UPDATE api_keys SET revoked_at = ? WHERE ${ofSession} AND revoked_at IS NULL AND policy ->> 'expiresAt' <= ?`,
  ),
  old: statement<unknown, [before: number]>(
    `DELETE FROM api_keys WHERE ${ofSession} AND (revoked_at <= ? OR (revoked_at IS NOT NULL AND last_used_at IS NULL))`,
  ),
};

/**
 * Revokes keys of sessions once they have expired, and deletes those that were never used and those
 * that ended long ago, of which a person may make many.
 */
export const sweepSessionKeys = ({ store }: Core): Job => ({
  name: "sweep-session-keys",
  deletes: true,
  runDue(now) {
    store.transact((tx) => {
      sweeps.expired(tx).run(now, toIsoTime(now));
      sweeps.old(tx).run(now - ENDED_KEYS_KEPT_MS);
    });
    return now + SWEEP_MS;
  },
});

/** Revokes all keys of a person; returns their number. */
export function revokePersonKeys(tx: Tx, userId: string, now: number): number {
  const live = and(eq(apiKeys.userId, userId), isNull(apiKeys.revokedAt));
  return tx.update(apiKeys).set({ revokedAt: now }).where(live).returning({ id: apiKeys.id }).all().length;
}

/** A key as settings list it, without the key itself. */
export interface KeyRecord {
  id: string;
  name: string;
  userId: string;
  userEmail: string;
  userRole: Role;
  hint: string;
  scopes: Scope[];
  createdAt: number;
  lastUsedAt: number | null;
  revokedAt: number | null;
  policy: Policy;
  /** Time since which the key itself is paused. */
  pausedAt: number | null;
  /** The program, of a grant. */
  client: { id: string; name: string; host: string } | null;
}

const selectKeys = (db: Db) =>
  db
    .select({
      id: apiKeys.id,
      name: apiKeys.name,
      userId: users.id,
      userEmail: users.email,
      userRole: users.role,
      hint: apiKeys.hint,
      scopes: apiKeys.scopes,
      createdAt: apiKeys.createdAt,
      lastUsedAt: apiKeys.lastUsedAt,
      revokedAt: apiKeys.revokedAt,
      policy: apiKeys.policy,
      pausedAt: apiKeys.pausedAt,
      client: { id: oauthGrants.clientId, name: oauthGrants.clientName, host: oauthGrants.clientHost },
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .leftJoin(oauthGrants, eq(oauthGrants.keyId, apiKeys.id));

/** The keys of a workspace, newest first, including revoked ones. */
export const listApiKeys = (db: Db, workspaceId: string): KeyRecord[] =>
  selectKeys(db).where(eq(users.workspaceId, workspaceId)).orderBy(desc(apiKeys.createdAt), desc(apiKeys.id)).all();

/** Those of the given keys that exist, even revoked ones, by id. */
export const keysById = (db: Db, ids: readonly string[]): ReadonlyMap<string, KeyRecord> =>
  new Map(
    selectKeys(db)
      .where(inArray(apiKeys.id, [...new Set(ids)]))
      .all()
      .map((key) => [key.id, key]),
  );

/** For createLastUseRecorder. */
export function noteKeyUse(tx: Tx, id: string, now: number): void {
  tx.update(apiKeys).set({ lastUsedAt: now }).where(eq(apiKeys.id, id)).run();
}

/* The last use of keys and app passwords: to the minute, because a write for every use would cost more than it is worth. */

const USE_GRANULARITY_MS = 60_000;
/** Most recent uses kept in memory; beyond it all are dropped, which costs one extra write each. */
const MOST_REMEMBERED = 10_000;

/** Records a use of that id at `now` (epoch ms). */
export type Touch = (id: string, now: number) => void;

/**
 * A use costs a look-up in memory, and at most once a minute a `write` that shares its commit with other writes. A
 * failed write is logged and affects nothing else. `what`: for the log.
 */
export function createLastUseRecorder(
  { store, log }: Core,
  what: string,
  write: (tx: Tx, id: string, now: number) => void,
): Touch {
  const written = new Map<string, number>();
  return (id, now) => {
    const last = written.get(id);
    if (last !== undefined && Math.abs(now - last) < USE_GRANULARITY_MS) return;
    if (written.size >= MOST_REMEMBERED) written.clear();
    written.set(id, now);
    store
      .note((tx) => write(tx, id, now))
      .catch((error) => log.warn(`the last use of ${what} was not recorded`, { id, error }));
  };
}

/** RFC 9106 §4, second recommended option with half the memory, for small machines: about 50 ms. */
const ARGON2ID = { algorithm: "argon2id", memoryCost: 32_768, timeCost: 3 } as const;

/**
 * Hashes computed at once in the process, each with 32 MiB, and calls that wait for one, for two seconds at most on a
 * small machine. A quarter of these is kept for sources from which somebody signed in lately. Limits by source (sign-in.ts) do not bound what many sources cost together.
 */
const hashing = createConcurrencyLimits({
  atOnce: 4,
  mostWaiting: 60,
  reserved: 15,
  refusal: () => unavailable("Too many passwords are being checked: try again in a moment"),
});

/** @throws AppError server_error 503 while too many passwords are hashed or checked */
export const hashPassword = (password: string): Promise<string> =>
  hashing.within("", () => Bun.password.hash(password, ARGON2ID), true);

let nobodysHash: Promise<string> | undefined;

/**
 * True if the password is right. A person without one (null), or an unknown one, takes as long as a wrong password, so
 * that the time does not reveal whether an account exists; an imported hash takes no less. `isKnown`: somebody signed in
 * from the source lately.
 * @throws AppError server_error 503, as hashNewPassword
 */
export const verifyPassword = (password: string, hash: string | null, isKnown = true): Promise<boolean> =>
  hashing.within(
    "",
    async () => {
      if (hash !== null && !isImportedPasswordHash(hash))
        return isAffordablePasswordHash(hash) && verifyPasswordHash(password, hash);
      nobodysHash ??= Bun.password.hash("nobody's", ARGON2ID);
      const [isRight] = await Promise.all([
        hash !== null && isAffordablePasswordHash(hash) && verifyPasswordHash(password, hash),
        Bun.password.verify(password, await nobodysHash),
      ]);
      return isRight;
    },
    isKnown,
  );

/** Puts our own hash of a person's password in the place of the imported one. False if that is no longer theirs. */
export function replaceImportedPasswordHash(tx: Tx, userId: string, imported: string, passwordHash: string): boolean {
  const isTheirs = and(eq(users.id, userId), eq(users.passwordHash, imported));
  return tx.update(users).set({ passwordHash }).where(isTheirs).returning({ id: users.id }).all().length > 0;
}

/*
 * Secrets that people copy by hand: recovery codes and app passwords. Groups of four unambiguous letters and digits,
 * five bits each; case and grouping of the input are ignored. They are fully random, so a fast hash suffices.
 */

/** A new secret of that many characters, as it is shown. */
export function generateTypeableSecret(runtime: Pick<Runtime, "randomBytes">, length: number): string {
  const text = base32(runtime.randomBytes(length));
  return (text.match(/.{1,4}/g) ?? []).join("-");
}

/** SHA-256, hex, of the typed secret; undefined for another length. */
export function hashTypeableSecret(text: string, length: number): string | undefined {
  const plain = text.toLowerCase().replace(/[\s-]/g, "").replace(/o/g, "0").replace(/[il]/g, "1");
  if (plain.length !== length || [...plain].some((letter) => !BASE32.includes(letter))) return undefined;
  return createHash("sha256").update(plain).digest("hex");
}
