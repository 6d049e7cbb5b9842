/**
 * App passwords: a mail app signs in with one in place of its person's password, and can do no more with it than its
 * access says. The only writer of app_passwords. Each is shown once, stored as a hash, and deleted to revoke it.
 */
import { and, count, desc, eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { newId, type Runtime } from "../base/runtime.ts";
import { type AppPasswordAccess, appPasswords, type Scope, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { type Caller, PERSON } from "./caller.ts";
import { generateTypeableSecret, hashTypeableSecret } from "./credentials.ts";

/** 100 bits. */
const LENGTH = 20;
const MOST = 50;
const SCOPES_OF: Record<AppPasswordAccess, readonly Scope[]> = {
  all: ["read", "write", "send"],
  read: ["read"],
  send: ["send"],
};

/** Creates one for that person. `password` is returned only here. @throws AppError conflict if they have too many */
export function createAppPassword(
  tx: Tx,
  runtime: Pick<Runtime, "now" | "randomBytes">,
  { userId, name, access }: { userId: string; name: string; access: AppPasswordAccess },
): { id: string; password: string } {
  const had = tx.select({ count: count() }).from(appPasswords).where(eq(appPasswords.userId, userId)).get();
  if ((had?.count ?? 0) >= MOST) {
    throw new AppError("conflict", `You have ${MOST} app passwords already: revoke the ones that you no longer use`);
  }
  const id = newId(runtime, "apw");
  const password = generateTypeableSecret(runtime, LENGTH);
  const hash = hashTypeableSecret(password, LENGTH) ?? "";
  tx.insert(appPasswords).values({ id, userId, name, hash, createdAt: runtime.now(), access }).run();
  return { id, password };
}

const byHash = prepared((db) =>
  db
    .select({
      appPasswordId: appPasswords.id,
      access: appPasswords.access,
      ...PERSON,
    })
    .from(appPasswords)
    .innerJoin(users, eq(users.id, appPasswords.userId))
    .where(eq(appPasswords.hash, sql.placeholder("hash")))
    .prepare(),
);

/** The owner of an app password in any spelling; undefined for an unknown or revoked one. */
export function findAppPassword(db: Db, password: string): (Caller & { appPasswordId: string }) | undefined {
  const hash = hashTypeableSecret(password, LENGTH);
  const found = hash === undefined ? undefined : byHash(db).get({ hash });
  if (!found) return undefined;
  const { access, ...person } = found;
  return { ...person, scopes: new Set(SCOPES_OF[access]) };
}

/** An app password as shown to its owner. */
export interface AppPasswordRecord {
  id: string;
  name: string;
  createdAt: number;
  /** Time of the last use, to the minute; null if it was never used. */
  lastUsedAt: number | null;
  access: AppPasswordAccess;
}

/** A person's app passwords, newest first. */
export function listAppPasswords(db: Db, userId: string): AppPasswordRecord[] {
  return db
    .select({
      id: appPasswords.id,
      name: appPasswords.name,
      createdAt: appPasswords.createdAt,
      lastUsedAt: appPasswords.lastUsedAt,
      access: appPasswords.access,
    })
    .from(appPasswords)
    .where(eq(appPasswords.userId, userId))
    .orderBy(desc(appPasswords.createdAt), desc(appPasswords.id))
    .all();
}

/** Revokes one of a person's app passwords immediately and permanently. False if they have none with that id. */
export function revokeAppPassword(tx: Tx, userId: string, id: string): boolean {
  const its = and(eq(appPasswords.id, id), eq(appPasswords.userId, userId));
  return tx.delete(appPasswords).where(its).returning({ id: appPasswords.id }).all().length > 0;
}

/** Revokes all app passwords of a person; returns their number. */
export function revokeAppPasswords(tx: Tx, userId: string): number {
  return tx.delete(appPasswords).where(eq(appPasswords.userId, userId)).returning({ id: appPasswords.id }).all().length;
}

/** For createLastUseRecorder. */
export function noteAppPasswordUse(tx: Tx, id: string, now: number): void {
  tx.update(appPasswords).set({ lastUsedAt: now }).where(eq(appPasswords.id, id)).run();
}
