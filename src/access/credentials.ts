/**
 * What people prove themselves with: API keys (spec: Authentication 1 to 4) and passwords. The only writer of api_keys.
 * Of a key only its SHA-256 is kept: it has 256 bits of its own, so a slow hash would add nothing. Of a password only
 * its argon2id.
 */
import { createHash } from "node:crypto";
import { and, desc, eq, isNull, sql } from "drizzle-orm";
import { AppError } from "../errors.ts";
import type { Log } from "../log.ts";
import { newId, type Runtime, randomToken } from "../runtime.ts";
import { prepared } from "../store/prepared.ts";
import { apiKeys, SCOPES, type Scope, users } from "../store/schema.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import type { Caller } from "./caller.ts";

const KEY_LENGTH = 43;
const KEY = new RegExp(`^mr_[A-Za-z0-9]{${KEY_LENGTH}}$`);
/** As much of a key as is kept readable, so that people can tell theirs apart: 24 bits of 256. */
const HINT_LENGTH = 7;

const hashOf = (key: string): string => createHash("sha256").update(key).digest("hex");

/** A new key that acts for `userId`. `key` is seen here and never again. */
export function createKey(
  tx: Tx,
  runtime: Pick<Runtime, "now" | "randomBytes">,
  given: { userId: string; name: string; scopes: readonly Scope[] },
): { id: string; key: string } {
  const id = newId(runtime, "key");
  const key = `mr_${randomToken(runtime, KEY_LENGTH)}`;
  tx.insert(apiKeys)
    .values({
      id,
      userId: given.userId,
      name: given.name,
      hash: hashOf(key),
      hint: key.slice(0, HINT_LENGTH),
      scopes: [...new Set(given.scopes)],
      createdAt: runtime.now(),
    })
    .run();
  return { id, key };
}

const callerByHash = prepared((db) =>
  db
    .select({
      keyId: apiKeys.id,
      scopes: apiKeys.scopes,
      userId: users.id,
      workspaceId: users.workspaceId,
      role: users.role,
      email: users.email,
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(and(eq(apiKeys.hash, sql.placeholder("hash")), isNull(apiKeys.revokedAt)))
    .prepare(),
);

/**
 * The person a key acts for, with their present role; undefined for a wrong or revoked key, or one whose creator left.
 * A wrong key costs what a right one does: its hash is looked up, so time tells nothing of how near a guess came.
 */
export function findCaller(db: Db, key: string): Caller | undefined {
  const row = callerByHash(db).get({ hash: hashOf(key) });
  if (!row || !KEY.test(key)) return undefined;
  return { ...row, scopes: new Set(row.scopes) };
}

const liveKey = prepared((db) =>
  db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, sql.placeholder("id")), isNull(apiKeys.revokedAt)))
    .prepare(),
);

/**
 * For what takes its time and then happens at once: that the key a caller came with, if it was one, still acts for them.
 * @throws AppError unauthorized when it was revoked, or its creator left, meanwhile (spec: Authentication 2, 4)
 */
export function requireLiveKey(db: Db, { keyId }: Caller): void {
  if (keyId === undefined || liveKey(db).get({ id: keyId })) return;
  throw new AppError("unauthorized", "This API key was revoked, or its creator left, before the request was done");
}

/** Revokes a key at once and for good. False when no live key has that id. */
export function revokeKey(tx: Tx, id: string, now: number): boolean {
  const revoked = tx
    .update(apiKeys)
    .set({ revokedAt: now })
    .where(and(eq(apiKeys.id, id), isNull(apiKeys.revokedAt)))
    .returning({ id: apiKeys.id })
    .all();
  return revoked.length > 0;
}

/** A key as settings list it: everything but the key. */
export interface KeyRecord {
  id: string;
  name: string;
  userId: string;
  userEmail: string;
  hint: string;
  scopes: Scope[];
  createdAt: number;
  lastUsedAt: number | null;
  revokedAt: number | null;
}

/** The keys of a workspace, newest first, revoked ones too. */
export function listKeys(db: Db, workspaceId: string): KeyRecord[] {
  return db
    .select({
      id: apiKeys.id,
      name: apiKeys.name,
      userId: users.id,
      userEmail: users.email,
      hint: apiKeys.hint,
      scopes: apiKeys.scopes,
      createdAt: apiKeys.createdAt,
      lastUsedAt: apiKeys.lastUsedAt,
      revokedAt: apiKeys.revokedAt,
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(eq(users.workspaceId, workspaceId))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .all();
}

/** The time of a key's last use is kept to the minute: writing it at every request would cost more than it tells. */
const USE_GRANULARITY_MS = 60_000;
/** Keys remembered as just used; more are forgotten together and written once too often. */
const MOST_REMEMBERED = 10_000;

/**
 * Keeps api_keys.last_used_at: `touchKey(id, now)` costs a look into memory, and at most once a minute and key a write
 * that shares its commit with whatever else is written. A write that fails is logged; no request fails by it.
 */
export function createKeyUse(store: Store, log: Log): { touchKey(keyId: string, now: number): void } {
  const written = new Map<string, number>();
  return {
    touchKey(keyId, now) {
      const last = written.get(keyId);
      if (last !== undefined && now - last < USE_GRANULARITY_MS) return;
      if (written.size >= MOST_REMEMBERED) written.clear();
      written.set(keyId, now);
      store
        .enqueue((tx) => {
          tx.update(apiKeys).set({ lastUsedAt: now }).where(eq(apiKeys.id, keyId)).run();
        })
        .catch((error) => log.warn("the last use of an API key was not recorded", { keyId, error }));
    },
  };
}

/** RFC 9106 §4, second recommended option, halved in memory for small machines: about 50 ms. */
const ARGON2ID = { algorithm: "argon2id", memoryCost: 32_768, timeCost: 3 } as const;

export const hashPassword = (password: string): Promise<string> => Bun.password.hash(password, ARGON2ID);

let nobodysHash: Promise<string> | undefined;

/**
 * Whether it is the password. A person without one (null), or nobody at all, costs the same time as a wrong password,
 * so that time does not tell whether an account exists.
 */
export async function verifyPassword(password: string, hash: string | null): Promise<boolean> {
  if (hash !== null) return Bun.password.verify(password, hash);
  nobodysHash ??= hashPassword("nobody's");
  await Bun.password.verify(password, await nobodysHash);
  return false;
}

/** Somebody who has proved who they are. */
export interface SignedIn {
  caller: Caller;
  /** The same person as they are now; undefined once what they proved it with counts no more, or they left. */
  present(): Caller | undefined;
}

const personByEmail = prepared((db) =>
  db
    .select({
      userId: users.id,
      workspaceId: users.workspaceId,
      role: users.role,
      email: users.email,
      passwordHash: users.passwordHash,
    })
    .from(users)
    .where(eq(users.email, sql.placeholder("email")))
    .prepare(),
);

/**
 * Who signs in as `email` (normalized) with that secret: their password, or an API key of theirs that has the scope. The
 * caller has the scope; a key's has all of its own. Without a scope no key counts, and the caller has every scope.
 * Whatever fails takes the time of a wrong password.
 */
export async function signIn(db: Db, email: string, secret: string, scope?: Scope): Promise<SignedIn | undefined> {
  const byKey = signedIn(() => {
    const caller = scope && findCaller(db, secret);
    return scope && caller?.email === email && caller.scopes.has(scope) ? caller : undefined;
  });
  if (byKey) return byKey;
  const hash = personByEmail(db).get({ email })?.passwordHash ?? null;
  if (!(await verifyPassword(secret, hash))) return undefined;
  return signedIn(() => {
    const row = personByEmail(db).get({ email });
    if (row?.passwordHash !== hash) return undefined;
    const { passwordHash: _, ...person } = row;
    return { ...person, scopes: new Set(scope === undefined ? SCOPES : [scope]) };
  });
}

function signedIn(present: () => Caller | undefined): SignedIn | undefined {
  const caller = present();
  return caller && { caller, present };
}
