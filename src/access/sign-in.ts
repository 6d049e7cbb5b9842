/**
 * Signing in, made slow for who guesses (rules: Sign-in failures). slowdown.ts delays the answer to a failure; who
 * does not wait for it, but guesses again on other connections, finds the places of their source taken until it is given.
 *
 * Whatever is wrong with an attempt, the answer is the same. That a code is asked for tells that the password was right:
 * so codes have a pace of their own, at which a million of them take months. Of who is signed in already both are asked at
 * once, and either being wrong takes the pace of codes.
 */

import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { normalizeAddress } from "../message/address.ts";
import type { Scope } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import type { Caller } from "./caller.ts";
import type { Touch } from "./last-use.ts";
import { byAppPassword, byKey, byPassword, type SignedIn } from "./proofs.ts";
import { hasSecondFactor, type SecondFactors } from "./second-factor.ts";
import { createSlowdown, type Pace, type Slowdown } from "./slowdown.ts";

export interface Attempt {
  /** The person's sign-in address, as they give it. */
  username: string;
  secret: string;
  /** As sourceOfAddress gives it. */
  source: string;
}

/**
 * Each resolves with who it is, or with undefined, which says no more than that it failed.
 * Rejects with AppError rate_limited when too many attempts of that source, or codes of that person, are under way
 */
export interface SignIn {
  /** In a mail app, to do what `scope` lets: an app password, an API key with the scope, or the password of who has no second factor. */
  inApp(attempt: Attempt & { scope: Scope }): Promise<SignedIn | undefined>;
  /** In a browser, to do everything: the password, and a code of the second factor if there is one; without it `code` is asked for. */
  inBrowser(attempt: Attempt & { code?: string | undefined }): Promise<SignedIn | "code" | undefined>;
  /** Of somebody signed in: that it is still them. Their password, and a code if they have a second factor. */
  again(attempt: {
    caller: Caller;
    secret: string;
    code?: string | undefined;
    source: string;
  }): Promise<SignedIn | undefined>;
}

export interface SignInParts {
  store: Pick<Store, "db" | "transact">;
  slowdown: Slowdown;
  secondFactors: Pick<SecondFactors, "useCode">;
  touchKey: Touch;
  touchAppPassword: Touch;
  runtime: Pick<Runtime, "now" | "setTimer">;
}

/** Attempts of one source: few at once for who guesses, enough for the mail apps of an office. */
const BY_SOURCE = { atOnce: 4, mostWaiting: 100 };
/** Codes of one person: one after the other. */
const BY_PERSON = { atOnce: 1, mostWaiting: 4 };
/** RFC 4226 §7.3. Of a million codes three count at any moment: at two a minute a guess is right once in some 80 days. */
const CODES: Pace = { freeFailures: 5, firstDelayMs: 1_000, longestDelayMs: 30_000, forgottenAfterMs: 3_600_000 };

export function createSignIn(parts: SignInParts): SignIn {
  const { slowdown, secondFactors, touchKey, touchAppPassword, runtime } = parts;
  const { db } = parts.store;
  const sources = createPlaces(BY_SOURCE);
  const people = createPlaces(BY_PERSON);
  // Of their own: who has a stolen session must not keep its person from signing in.
  const confirming = createPlaces(BY_PERSON);
  const codes = createSlowdown(runtime, CODES);

  function attempt<T>({ username, source }: Attempt, prove: (email: string) => Promise<T | undefined>) {
    const email = normalizeAddress(username);
    return sources.within(source, async () => {
      const found = await prove(email ?? "");
      if (!found) await slowdown.failed(source, ...(email === undefined ? [] : [email]));
      return found;
    });
  }

  /** What the password proved, once a code has proved the rest. */
  async function withCode(proved: SignedIn, code: string, source: string): Promise<SignedIn | undefined> {
    const { userId, email } = proved.caller;
    return people.within(userId, async () => {
      const counts = parts.store.transact((tx) => secondFactors.useCode(tx, userId, code));
      if (counts) return proved;
      await Promise.all([codes.failed(userId), slowdown.failed(source, email)]);
      return undefined;
    });
  }

  /** They may get a second factor before this is made use of, which then is not proved. */
  const whileUnguarded = (proved: SignedIn): SignedIn => ({
    ...proved,
    present: () => (hasSecondFactor(db, proved.caller.userId) ? undefined : proved.present()),
  });

  return {
    inApp: (given) =>
      attempt(given, async (email) => {
        const { secret, scope } = given;
        return (
          byKey(db, email, secret, scope, touchKey) ??
          byAppPassword(db, email, secret, scope, touchAppPassword) ??
          (await byPassword(db, email, secret, { alone: true, scopes: [scope] }))
        );
      }),

    async inBrowser(given) {
      const proved = await attempt(given, (email) => byPassword(db, email, given.secret, { alone: false }));
      if (!proved) return undefined;
      const { userId } = proved.caller;
      if (hasSecondFactor(db, userId)) {
        return given.code === undefined ? "code" : withCode(proved, given.code, given.source);
      }
      return whileUnguarded(proved);
    },

    again: ({ caller: { userId, email }, secret, code = "", source }) =>
      confirming.within(userId, async () => {
        const proved = await attempt({ username: email, secret, source }, async (email) => {
          const proved = await byPassword(db, email, secret, { alone: false });
          if (!proved || !hasSecondFactor(db, userId)) return proved && whileUnguarded(proved);
          return parts.store.transact((tx) => secondFactors.useCode(tx, userId, code)) ? proved : undefined;
        });
        // Whichever was wrong: the time must not tell that the password was right.
        if (!proved && hasSecondFactor(db, userId)) await codes.failed(userId);
        return proved;
      }),
  };
}

/* So many at once by name (a source, an account), and so many who wait their turn. */

export interface Places {
  /** Runs `work` once there is a place. @throws AppError rate_limited when too many wait already */
  within<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export function createPlaces({ atOnce, mostWaiting }: { atOnce: number; mostWaiting: number }): Places {
  /** How many are under way, and who waits. */
  const taken = new Map<string, { running: number; waiting: (() => void)[] }>();

  async function enter(name: string): Promise<void> {
    const places = taken.get(name) ?? { running: 0, waiting: [] };
    taken.set(name, places);
    if (places.running < atOnce) {
      places.running++;
      return;
    }
    if (places.waiting.length >= mostWaiting) {
      throw new AppError("rate_limited", "Too many sign-ins at once: try again in a moment", { retryAfter: 5 });
    }
    await new Promise<void>((resolve) => places.waiting.push(resolve));
  }

  /** Whoever waits next takes the place. */
  function leave(name: string): void {
    const places = taken.get(name);
    if (!places) return;
    const next = places.waiting.shift();
    if (next) next();
    else if (--places.running === 0) taken.delete(name);
  }

  return {
    async within(name, work) {
      await enter(name);
      try {
        return await work();
      } finally {
        leave(name);
      }
    },
  };
}
