/**
 * Signs people in, and slows down guessing (rules: Sign-in failures). slowdown.ts delays the reply to a failure; a
 * guesser who does not wait, but opens other connections, finds all slots of their source occupied until then.
 *
 * Every failure gets the same reply. Asking for a code reveals that the password was right, so codes have a pace of
 * their own, at which trying a million takes months. A signed-in person is asked for both at once, and if either is
 * wrong, the pace of codes applies.
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
  /** The sign-in address as the person typed it. */
  username: string;
  secret: string;
  /** As sourceOfAddress gives it. */
  source: string;
}

/**
 * Each resolves with the person, or with undefined for any failure. Rejects with AppError rate_limited if too many
 * attempts of that source, or codes of that person, are in progress.
 */
export interface SignIn {
  /**
   * For a mail app, limited to `scope`: an app password, an API key with the scope, or the password of a person without
   * a second factor.
   */
  inApp(attempt: Attempt & { scope: Scope }): Promise<SignedIn | undefined>;
  /**
   * For a browser, without limits: the password, and a code if there is a second factor; if it is missing, the result
   * asks for it.
   */
  inBrowser(attempt: Attempt & { code?: string | undefined }): Promise<SignedIn | "code" | undefined>;
  /** For a signed-in person: their password again, and a code if they have a second factor. */
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

/** Attempts per source: few in parallel for a guesser, enough for the mail apps of an office. */
const BY_SOURCE = { atOnce: 4, mostWaiting: 100 };
/** Codes per person: one at a time. */
const BY_PERSON = { atOnce: 1, mostWaiting: 4 };
/**
 * RFC 4226 §7.3. At any moment three of a million codes are valid: at two a minute, a guess succeeds about once in 80
 * days.
 */
const CODES: Pace = { freeFailures: 5, firstDelayMs: 1_000, longestDelayMs: 30_000, forgottenAfterMs: 3_600_000 };

export function createSignIn(parts: SignInParts): SignIn {
  const { slowdown, secondFactors, touchKey, touchAppPassword, runtime } = parts;
  const { db } = parts.store;
  const sources = createSlots(BY_SOURCE);
  const people = createSlots(BY_PERSON);
  // Separate slots: the holder of a stolen session must not be able to block the person's sign-in.
  const confirming = createSlots(BY_PERSON);
  const codes = createSlowdown(runtime, CODES);

  function attempt<T>({ username, source }: Attempt, prove: (email: string) => Promise<T | undefined>) {
    const email = normalizeAddress(username);
    return sources.within(source, async () => {
      const found = await prove(email ?? "");
      if (!found) await slowdown.failed(source, ...(email === undefined ? [] : [email]));
      return found;
    });
  }

  /** Adds the proof by code to that by password. */
  async function withCode(proved: SignedIn, code: string, source: string): Promise<SignedIn | undefined> {
    const { userId, email } = proved.caller;
    return people.within(userId, async () => {
      const counts = parts.store.transact((tx) => secondFactors.useCode(tx, userId, code));
      if (counts) return proved;
      await Promise.all([codes.failed(userId), slowdown.failed(source, email)]);
      return undefined;
    });
  }

  /** The person may add a second factor before this proof is used, which then is not enough. */
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
        // In either case: the time must not reveal that the password was right.
        if (!proved && hasSecondFactor(db, userId)) await codes.failed(userId);
        return proved;
      }),
  };
}

/* Slots by name (a source, an account): a limited number in use, and a limited number of waiting calls. */

export interface Slots {
  /** Runs `work` once a slot is free. @throws AppError rate_limited if too many calls already wait */
  within<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export function createSlots({ atOnce, mostWaiting }: { atOnce: number; mostWaiting: number }): Slots {
  /** By name: slots in use, and waiting calls. */
  const taken = new Map<string, { running: number; waiting: (() => void)[] }>();

  async function acquire(name: string): Promise<void> {
    const slots = taken.get(name) ?? { running: 0, waiting: [] };
    taken.set(name, slots);
    if (slots.running < atOnce) {
      slots.running++;
      return;
    }
    if (slots.waiting.length >= mostWaiting) {
      throw new AppError("rate_limited", "Too many sign-ins at once: try again in a moment", { retryAfter: 5 });
    }
    await new Promise<void>((resolve) => slots.waiting.push(resolve));
  }

  /** Passes the slot to the next waiting call. */
  function release(name: string): void {
    const slots = taken.get(name);
    if (!slots) return;
    const next = slots.waiting.shift();
    if (next) next();
    else if (--slots.running === 0) taken.delete(name);
  }

  return {
    async within(name, work) {
      await acquire(name);
      try {
        return await work();
      } finally {
        release(name);
      }
    },
  };
}
