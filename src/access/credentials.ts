/**
 * What people prove themselves with: API keys (rules: API keys, Acting person) and passwords. The only writer of
 * api_keys. Of a key only its SHA-256 is kept: it has 256 bits of its own, so a slow hash would add nothing. Of a
 * password only its argon2id.
 */
import { createHash } from "node:crypto";
import { and, desc, eq, isNull, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { newId, type Runtime, randomToken } from "../base/runtime.ts";
import { apiKeys, type Role, type Scope, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { type Caller, findPerson } from "./caller.ts";

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
 * @throws AppError unauthorized when it was revoked, or its creator left, meanwhile (rules: API keys)
 */
export function requireLiveKey(db: Db, { keyId }: Caller): void {
  if (keyId === undefined || liveKey(db).get({ id: keyId })) return;
  throw new AppError("unauthorized", "This API key was revoked, or its creator left, before the request was done");
}

/**
 * The caller as they are now, for what their request does in `db`, a transaction: the key that they came with still acts
 * for them, and their role is today's. A session is left to who admitted it.
 * @throws AppError unauthorized when the key was revoked, or the person left, meanwhile
 */
export function presentCaller(db: Db, caller: Caller): Caller {
  requireLiveKey(db, caller);
  const person = findPerson(db, caller.userId);
  if (!person) throw new AppError("unauthorized", "The person who asks has left the workspace");
  return { ...caller, role: person.role, email: person.email };
}

const keyHolder = prepared((db) =>
  db
    .select({ key: apiKeys.name, person: users.name })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(eq(apiKeys.id, sql.placeholder("id")))
    .prepare(),
);

/** The names of the key that a caller came with and of its creator; undefined for who came without one. */
export const holderOf = (db: Db, { keyId }: Caller): { key: string; person: string } | undefined =>
  keyId === undefined ? undefined : keyHolder(db).get({ id: keyId });

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

export function setKeyName(tx: Tx, id: string, name: string): void {
  tx.update(apiKeys).set({ name }).where(eq(apiKeys.id, id)).run();
}

/** Revokes all of somebody's keys; how many there were. */
export function revokeKeysOf(tx: Tx, userId: string, now: number): number {
  const live = and(eq(apiKeys.userId, userId), isNull(apiKeys.revokedAt));
  return tx.update(apiKeys).set({ revokedAt: now }).where(live).returning({ id: apiKeys.id }).all().length;
}

/** A key as settings list it: everything but the key. */
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
}

/** The keys of a workspace, newest first, revoked ones too. */
export function listKeys(db: Db, workspaceId: string): KeyRecord[] {
  return db
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
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(eq(users.workspaceId, workspaceId))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .all();
}

/** For createLastUse. */
export function noteKeyUse(tx: Tx, id: string, now: number): void {
  tx.update(apiKeys).set({ lastUsedAt: now }).where(eq(apiKeys.id, id)).run();
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
