/**
 * API keys (rules: API keys, Acting person), passwords, secrets that people type, and when a key was last used. The
 * only writer of api_keys. A key is stored as its SHA-256, since 256 random bits need no slow hash, and a password as
 * its argon2id.
 */
import { createHash } from "node:crypto";
import { and, desc, eq, isNull, sql } from "drizzle-orm";
import { AppError, unavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { BASE32, base32, newId, type Runtime, randomToken } from "../base/runtime.ts";
import { apiKeys, type Role, type Scope, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { type Caller, findPerson, PERSON } from "./caller.ts";
import { createSlots } from "./slowdown.ts";

const KEY_LENGTH = 43;
/** Readable characters of a key that are stored, so that people can tell their keys apart: 24 bits of 256. */
const HINT_LENGTH = 7;

const hashOf = (key: string): string => createHash("sha256").update(key).digest("hex");

/** Creates a key that acts for `userId`. `key` is returned only here. */
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
      ...PERSON,
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(and(eq(apiKeys.hash, sql.placeholder("hash")), isNull(apiKeys.revokedAt)))
    .prepare(),
);

/**
 * The person for whom a key acts, with their current role; undefined for an unknown or revoked key, or one whose
 * creator left. Keys are looked up by hash, so the time reveals nothing about a guess.
 */
export function findCaller(db: Db, key: string): Caller | undefined {
  const row = callerByHash(db).get({ hash: hashOf(key) });
  return row && { ...row, scopes: new Set(row.scopes) };
}

const liveKey = prepared((db) =>
  db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, sql.placeholder("id")), isNull(apiKeys.revokedAt)))
    .prepare(),
);

/** True for a key that is valid: it was not revoked, and its creator did not leave. */
export const isLiveKey = (db: Db, id: string): boolean => Boolean(liveKey(db).get({ id }));

/**
 * Checks at the end of a slow request, before it takes effect, that the caller's key, if they used one, is still valid.
 * @throws AppError unauthorized if it was revoked, or its creator left, meanwhile (rules: API keys)
 */
export function requireLiveKey(db: Db, { keyId }: Caller): void {
  if (keyId === undefined || isLiveKey(db, keyId)) return;
  throw new AppError("unauthorized", "This API key was revoked, or its creator left, before the request was done");
}

/**
 * The caller in their current state, for a request's work in the transaction `db`: their key is still valid, and their
 * role is current. Sessions are checked where they are admitted.
 * @throws AppError unauthorized if the key was revoked, or the person left, meanwhile
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

/** The names of a caller's key and of its creator; undefined for a caller without a key. */
export const holderOf = (db: Db, { keyId }: Caller): { key: string; person: string } | undefined =>
  keyId === undefined ? undefined : keyHolder(db).get({ id: keyId });

/** Revokes a key immediately and permanently. False if no valid key has that id. */
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

/** Revokes all keys of a person; returns their number. */
export function revokeKeysOf(tx: Tx, userId: string, now: number): number {
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
}

/** The keys of a workspace, newest first, including revoked ones. */
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
export function createLastUse(
  store: Pick<Store, "enqueue">,
  log: Log,
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
      .enqueue((tx) => write(tx, id, now))
      .catch((error) => log.warn(`the last use of ${what} was not recorded`, { id, error }));
  };
}

/** RFC 9106 §4, second recommended option with half the memory, for small machines: about 50 ms. */
const ARGON2ID = { algorithm: "argon2id", memoryCost: 32_768, timeCost: 3 } as const;

/**
 * Hashes computed at once in the process, each with 32 MiB, and calls that wait for one, for two seconds at most on a
 * small machine. Limits by source (sign-in.ts) do not bound what many sources cost together.
 */
const hashing = createSlots({
  atOnce: 4,
  mostWaiting: 60,
  refusal: () => unavailable("Too many passwords are being checked: try again in a moment"),
});

/** @throws AppError server_error 503 while too many passwords are hashed or checked */
export const hashPassword = (password: string): Promise<string> =>
  hashing.within("", () => Bun.password.hash(password, ARGON2ID));

let nobodysHash: Promise<string> | undefined;

/**
 * True if the password is right. A person without one (null), or an unknown one, takes as long as a wrong password, so
 * that the time does not reveal whether an account exists. @throws AppError server_error 503, as hashPassword
 */
export const verifyPassword = (password: string, hash: string | null): Promise<boolean> =>
  hashing.within("", async () => {
    if (hash !== null) return Bun.password.verify(password, hash);
    nobodysHash ??= Bun.password.hash("nobody's", ARGON2ID);
    await Bun.password.verify(password, await nobodysHash);
    return false;
  });

/*
 * Secrets that people copy by hand: recovery codes and app passwords. Groups of four unambiguous letters and digits,
 * five bits each; case and grouping of the input are ignored. They are fully random, so a fast hash suffices.
 */

/** A new secret of that many characters, as it is shown. */
export function newTypedSecret(runtime: Pick<Runtime, "randomBytes">, length: number): string {
  const text = base32(runtime.randomBytes(length));
  return (text.match(/.{1,4}/g) ?? []).join("-");
}

/** SHA-256, hex, of the typed secret; undefined for another length. */
export function hashOfTyped(text: string, length: number): string | undefined {
  const plain = text.toLowerCase().replace(/[\s-]/g, "").replace(/o/g, "0").replace(/[il]/g, "1");
  if (plain.length !== length || [...plain].some((letter) => !BASE32.includes(letter))) return undefined;
  return createHash("sha256").update(plain).digest("hex");
}
