/**
 * Proofs of identity: an API key, an app password, or the person's own password. A proof may be checked again later,
 * because a connection can outlive it: whether it is still valid, and for whom.
 */
import { eq, sql } from "drizzle-orm";
import { SCOPES, type Scope, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { findAppPassword } from "./app-passwords.ts";
import type { Caller } from "./caller.ts";
import { findCaller, verifyPassword } from "./credentials.ts";
import type { Touch } from "./last-use.ts";
import { hasSecondFactor } from "./second-factor.ts";

/** A person who has proved who they are. */
export interface SignedIn {
  caller: Caller;
  /** The same person in their current state; undefined once the proof is invalid or they left. */
  present(): Caller | undefined;
  /** Records a use at `now` (epoch ms). */
  touch(now: number): void;
}

function signedIn(present: () => Caller | undefined, touch: (now: number) => void = () => {}): SignedIn | undefined {
  const caller = present();
  return caller && { caller, present, touch };
}

/** By an API key with the scope, of the person with that address. The caller has all scopes of the key. */
export function byKey(db: Db, email: string, key: string, scope: Scope, touch: Touch): SignedIn | undefined {
  const present = () => {
    const caller = findCaller(db, key);
    return caller?.email === email && caller.scopes.has(scope) ? caller : undefined;
  };
  const id = present()?.keyId;
  return id === undefined ? undefined : signedIn(present, (now) => touch(id, now));
}

/** By an app password of the person with that address. The caller has only that scope. */
export function byAppPassword(db: Db, email: string, password: string, scope: Scope, touch: Touch) {
  const id = findAppPassword(db, password)?.appPasswordId;
  if (id === undefined) return undefined;
  return signedIn(
    () => {
      const found = findAppPassword(db, password);
      if (found?.email !== email) return undefined;
      const { appPasswordId: _, ...person } = found;
      return { ...person, scopes: new Set([scope]) };
    },
    (now) => touch(id, now),
  );
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
 * By the password of the person with that address. `alone`: without a code, so it is invalid for a person with a second
 * factor. Every failure takes as long as a wrong password.
 */
export async function byPassword(
  db: Db,
  email: string,
  password: string,
  { alone, scopes = SCOPES }: { alone: boolean; scopes?: readonly Scope[] },
): Promise<SignedIn | undefined> {
  const hash = personByEmail(db).get({ email })?.passwordHash ?? null;
  if (!(await verifyPassword(password, hash))) return undefined;
  return signedIn(() => {
    const row = personByEmail(db).get({ email });
    if (row?.passwordHash !== hash) return undefined;
    const { passwordHash: _, ...person } = row;
    if (alone && hasSecondFactor(db, person.userId)) return undefined;
    return { ...person, scopes: new Set(scopes) };
  });
}
