/**
 * Signs people in, and slows down guessing (rules: Sign-in failures). slowdown.ts delays the reply to a failure; a
 * guesser who does not wait, but opens other connections, finds all slots of their source occupied until then, and those
 * of the account if they have many sources. Sources from which a person has signed in need no slot of the account, so
 * that guessing does not keep the person out.
 *
 * Every failure gets the same reply. Asking for a code reveals that the password was right, so codes have a pace of
 * their own, at which trying a million takes months. A signed-in person is asked for both at once, and if either is
 * wrong, the pace of codes applies.
 */
import { eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { normalizeAddress } from "../message/address.ts";
import type { Core } from "../store/core.ts";
import { SCOPES, type Scope, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import { findAppPassword } from "./app-passwords.ts";
import { type Caller, PERSON } from "./caller.ts";
import {
  findCaller,
  findCallerByCredential,
  hashPassword,
  replaceImportedPasswordHash,
  type Touch,
  verifyPassword,
} from "./credentials.ts";
import { isImportedPasswordHash } from "./imported-hash.ts";
import { isKeyPolicyExpired, policyAllowsClientAddress } from "./policy.ts";
import { hasSecondFactor, type SecondFactors } from "./second-factor.ts";
import { isKnownSignInSource, noteSignInSource } from "./sign-in-sources.ts";
import { createConcurrencyLimits, createSlowdown, type Pace, type Slowdown } from "./slowdown.ts";

export interface Attempt {
  /** The sign-in address as the person typed it. */
  username: string;
  secret: string;
  /** Source of the attempt, as ipAddressSource gives it. */
  source: string;
  /** Address of the client, as canonicalIpAddress gives it, where keys may be used. */
  address?: string | undefined;
  /** How the person came, for the log. */
  over: "app" | "imap" | "submission";
  /** Trace of the connection, for the log. */
  trace?: string | undefined;
}

/** The scope that an app needs, and those that it can make use of. */
export type Scopes = readonly [Scope, ...Scope[]];

/** Attempts per source: few in parallel for a guesser, enough for the mail apps of an office. */
const BY_SOURCE = { atOnce: 4, mostWaiting: 100 };
/** Attempts per account from sources that are not known to be its person's. */
const BY_ACCOUNT = { atOnce: 8, mostWaiting: 100 };
/** Known sources in memory; beyond it those of the longest ago are dropped. */
const MOST_KNOWN = 10_000;
/** Codes per person: one at a time. */
const BY_PERSON = { atOnce: 1, mostWaiting: 4 };
/**
 * RFC 4226 §7.3. At any moment three of a million codes are valid: at two a minute, a guess succeeds about once in 80
 * days.
 */
const CODES: Pace = { freeFailures: 5, firstDelayMs: 1_000, longestDelayMs: 30_000, forgottenAfterMs: 3_600_000 };

export type SignIn = ReturnType<typeof createSignIn>;

/**
 * Each method resolves with the person, or with undefined for any failure. It rejects with AppError rate_limited if too
 * many attempts of that source, or codes of that person, are in progress.
 */
export function createSignIn(
  core: Core,
  {
    slowdown,
    secondFactors,
    touchKey,
    touchAppPassword,
  }: {
    slowdown: Slowdown;
    secondFactors: Pick<SecondFactors, "useCode">;
    touchKey: Touch;
    touchAppPassword: Touch;
  },
) {
  const { db, now, store, runtime, log } = core;
  const sources = createConcurrencyLimits(BY_SOURCE);
  const accounts = createConcurrencyLimits(BY_ACCOUNT);
  /** Accounts with sources of a successful attempt, the latest last. */
  const known = new Set<string>();
  const people = createConcurrencyLimits(BY_PERSON);
  // Separate slots: the holder of a stolen session must not be able to block the person's sign-in.
  const confirming = createConcurrencyLimits(BY_PERSON);
  const codes = createSlowdown(runtime, CODES);

  function attempt<T>({ username, source }: Attempt, prove: (email: string) => Promise<T | undefined>) {
    const email = normalizeAddress(username) ?? "";
    const attemptKey = `${email} ${source}`;
    const tryOnce = async () => {
      const found = await prove(email);
      if (found) remember(attemptKey);
      else await slowdown.failed(source, ...(email === "" ? [] : [email]));
      return found;
    };
    return sources.within(source, () => (known.has(attemptKey) ? tryOnce() : accounts.within(email, tryOnce)));
  }

  function remember(attemptKey: string): void {
    known.delete(attemptKey);
    known.add(attemptKey);
    for (const oldest of known) {
      if (known.size <= MOST_KNOWN) break;
      known.delete(oldest);
    }
  }

  /** Notes where a sign-in came from. */
  function ended<T extends SignedIn | undefined>(given: Attempt, proved: T): T {
    if (proved) noteSignInSource(core, given.source);
    tell(proved ? "signed in" : "sign-in failed", given, proved);
    return proved;
  }

  /**
   * Logs how an attempt ended. The account is told only if there is one: a person may type their password in place of
   * their address.
   */
  function tell(message: string, { username, over, trace, source }: Attempt, proved: SignedIn | undefined): void {
    const email = proved?.caller.email ?? normalizeAddress(username) ?? "";
    const account = personByEmail(db).get({ email })?.email ?? null;
    log.info(message, { over, account, source, userId: proved?.caller.userId, trace });
  }

  const password = (
    email: string,
    { secret, source }: Pick<Attempt, "secret" | "source">,
    how: { alone: boolean; scopes?: readonly Scope[] },
  ) => byPassword(core, email, secret, { ...how, isKnown: isKnownSignInSource(core, source) });

  /** Adds the proof by code to that by password. */
  async function withCode(proved: SignedIn, code: string, source: string): Promise<SignedIn | undefined> {
    const { userId, email } = proved.caller;
    return people.within(userId, async () => {
      const counts = store.transact((tx) => secondFactors.useCode(tx, userId, code));
      if (counts) return proved;
      await Promise.all([codes.failed(userId), slowdown.failed(source, email)]);
      return undefined;
    });
  }

  const usable =
    (address: string | undefined) =>
    ({ paused, policy = {} }: Caller): boolean =>
      !paused && !isKeyPolicyExpired(policy, now()) && policyAllowsClientAddress(policy, address);

  /** The person may add a second factor before this proof is used, which then is not enough. */
  const whileUnguarded = (proved: SignedIn): SignedIn => ({
    ...proved,
    present: () => (hasSecondFactor(db, proved.caller.userId) ? undefined : proved.present()),
  });

  return {
    /**
     * For a mail app, which needs the first of `scopes` and makes use of the others: an app password or an API key with that
     * scope, or the password of a person without a second factor. All but keys are limited to `scopes`.
     */
    async inApp(given: Attempt & { scopes: Scopes }): Promise<SignedIn | undefined> {
      const proved = await attempt(given, async (email) => {
        const { secret, scopes, address } = given;
        return (
          byKey({
            db,
            email,
            find: () => findCaller(db, secret),
            scope: scopes[0],
            touch: touchKey,
            isUsable: usable(address),
          }) ??
          byAppPassword(db, email, secret, scopes, touchAppPassword) ??
          (await password(email, given, { alone: true, scopes }))
        );
      });
      return ended(given, proved);
    },

    /**
     * For a mail app: an access token of a grant, or an API key, with the scope. `username`: empty for whoever it belongs to.
     */
    async withToken(given: Attempt & { scope: Scope }): Promise<SignedIn | undefined> {
      const { secret, scope, address } = given;
      const find = () => findCallerByCredential(db, secret, now());
      const username = given.username || (find()?.email ?? "");
      const proved = await attempt({ ...given, username }, async (email) =>
        byKey({ db, email, find, scope, touch: touchKey, isUsable: usable(address) }),
      );
      return ended({ ...given, username }, proved);
    },

    /**
     * For a browser, without limits: the password, and a code if there is a second factor; if it is missing, the result
     * asks for it.
     */
    async inBrowser(given: Attempt & { code?: string | undefined }): Promise<SignedIn | "code" | undefined> {
      const proved = await attempt(given, (email) => password(email, given, { alone: false }));
      if (!proved) return ended(given, undefined);
      const { userId } = proved.caller;
      if (hasSecondFactor(db, userId)) {
        if (given.code === undefined) return "code";
        return ended(given, await withCode(proved, given.code, given.source));
      }
      return ended(given, whileUnguarded(proved));
    },

    /** For a signed-in person: their password again, and a code if they have a second factor. */
    again: ({
      caller: { userId, email: username },
      code = "",
      ...rest
    }: Omit<Attempt, "username"> & { caller: Caller; code?: string | undefined }): Promise<SignedIn | undefined> =>
      confirming.within(userId, async () => {
        const given = { username, ...rest };
        const proved = await attempt(given, async (email) => {
          const known = await password(email, given, { alone: false });
          if (!known || !hasSecondFactor(db, userId)) return known && whileUnguarded(known);
          return store.transact((tx) => secondFactors.useCode(tx, userId, code)) ? known : undefined;
        });
        // In either case: the time must not reveal that the password was right.
        if (!proved && hasSecondFactor(db, userId)) await codes.failed(userId);
        tell(proved ? "confirmed" : "confirmation failed", given, proved);
        return proved;
      }),
  };
}

/*
 * Proofs of identity: an API key, an app password, or the person's own password. A connection can outlive its proof, so
 * a proof can be checked again later: whether it is still valid, and for whom.
 */

/** A person who has proved who they are. */
export interface SignedIn {
  caller: Caller;
  /** The person in their current state; undefined once the proof is invalid or they left. */
  present(): Caller | undefined;
  /** Records a use at `now` (epoch ms). */
  touch(now: number): void;
}

/** @throws AppError server_error 503, at once and by `present`, while the workspace moves to another server */
function signedIn(
  db: Db,
  find: () => Caller | undefined,
  touch: (now: number) => void = () => {},
): SignedIn | undefined {
  const present = () => {
    const caller = find();
    if (caller) requireWorkspaceServed(db, caller.workspaceId);
    return caller;
  };
  const caller = present();
  return caller && { caller, present, touch };
}

/**
 * Signs in by an API key, which `find` looks up: its person has the address `email`, and it has the scope. The caller has all
 * scopes of the key.
 */
function byKey({
  db,
  email,
  find,
  scope,
  touch,
  isUsable,
}: {
  db: Db;
  email: string;
  find(): Caller | undefined;
  scope: Scope;
  touch: Touch;
  isUsable(caller: Caller): boolean;
}): SignedIn | undefined {
  const present = () => {
    const caller = find();
    return caller?.email === email && caller.scopes.has(scope) && isUsable(caller) ? caller : undefined;
  };
  const id = present()?.keyId;
  return id === undefined ? undefined : signedIn(db, present, (now) => touch(id, now));
}

/**
 * Signs in by an app password of the person with that address, which has the first of `scopes`. The caller has those scopes at
 * most.
 */
function byAppPassword(db: Db, email: string, password: string, scopes: Scopes, touch: Touch) {
  const id = findAppPassword(db, password)?.appPasswordId;
  if (id === undefined) return undefined;
  return signedIn(
    db,
    () => {
      const found = findAppPassword(db, password);
      if (found?.email !== email || !found.scopes.has(scopes[0])) return undefined;
      const { appPasswordId: _, ...person } = found;
      return { ...person, scopes: new Set(scopes.filter((scope) => found.scopes.has(scope))) };
    },
    (now) => touch(id, now),
  );
}

const personByEmail = prepared((db) =>
  db
    .select({
      ...PERSON,
      // Of somebody who is locked, as of somebody without one.
      passwordHash: sql<string | null>`iif(${users.lockedAt} IS NULL, ${users.passwordHash}, NULL)`,
    })
    .from(users)
    .where(eq(users.email, sql.placeholder("email")))
    .prepare(),
);

/**
 * Signs in by the password of the person with that address. `alone`: no code comes with it, so it is invalid for a person with
 * a second factor. Every failure takes as long as a wrong password.
 */
async function byPassword(
  core: Core,
  email: string,
  password: string,
  how: { alone: boolean; scopes?: readonly Scope[]; isKnown: boolean },
): Promise<SignedIn | undefined> {
  const { db } = core;
  const { alone, scopes = SCOPES, isKnown } = how;
  const found = personByEmail(db).get({ email });
  let hash = found?.passwordHash ?? null;
  if (!(await verifyPassword(password, hash, isKnown))) return undefined;
  if (found && hash !== null && isImportedPasswordHash(hash)) {
    const own = await replaceImportedHash(core, found.userId, hash, password);
    // Another sign-in replaced it meanwhile, or its person has a new password.
    if (own === "outdated") return byPassword(core, email, password, how);
    hash = own;
  }
  return signedIn(db, () => {
    const row = personByEmail(db).get({ email });
    if (row?.passwordHash !== hash) return undefined;
    const { passwordHash: _, ...person } = row;
    if (alone && hasSecondFactor(db, person.userId)) return undefined;
    return { ...person, scopes: new Set(scopes) };
  });
}

/** The hash that the person has in place of the imported one: ours, or the imported one while the store takes no change. */
async function replaceImportedHash(
  { store }: Core,
  userId: string,
  imported: string,
  password: string,
): Promise<string | "outdated"> {
  try {
    const own = await hashPassword(password);
    return store.transact((tx) => replaceImportedPasswordHash(tx, userId, imported, own)) ? own : "outdated";
  } catch (error) {
    if (error instanceof AppError) return imported;
    throw error;
  }
}
