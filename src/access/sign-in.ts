/**
 * Signing in, made slow for who guesses (contract: Sign-in failures). slowdown.ts delays the answer to a failure; who
 * does not wait for it, but guesses again on other connections, finds the places of their source taken until it is given.
 */
import { AppError } from "../errors.ts";
import { normalizeAddress } from "../message/address.ts";
import type { Scope } from "../store/schema.ts";
import type { Db } from "../store/store.ts";
import { type SignedIn, signIn } from "./credentials.ts";
import type { Slowdown } from "./slowdown.ts";

export interface SignInAttempt {
  /** The person's sign-in address, as they give it. */
  username: string;
  /** Their password, or an API key of theirs. */
  secret: string;
  /** What they are going to do; absent where only their password counts, and lets them do everything. */
  scope?: Scope;
  /** As sourceOfAddress gives it. */
  source: string;
}

/**
 * Resolves with who it is, or with undefined, which says no more than that it failed.
 * @throws AppError rate_limited when too many attempts from that source are under way
 */
export type TrySignIn = (attempt: SignInAttempt) => Promise<SignedIn | undefined>;

/** Attempts of one source at once: few for who guesses, enough for the mail apps of an office. */
const AT_ONCE = 4;
/** Attempts of one source that wait their turn. */
const MOST_WAITING = 100;

export function createSignIn({ db, slowdown }: { db: Db; slowdown: Slowdown }): TrySignIn {
  /** Sources with attempts under way: how many, and who waits. */
  const sources = new Map<string, { running: number; waiting: (() => void)[] }>();

  async function enter(source: string): Promise<void> {
    const places = sources.get(source) ?? { running: 0, waiting: [] };
    sources.set(source, places);
    if (places.running < AT_ONCE) {
      places.running++;
      return;
    }
    if (places.waiting.length >= MOST_WAITING) {
      throw new AppError("rate_limited", "Too many sign-ins at once: try again in a moment", { retryAfter: 5 });
    }
    await new Promise<void>((resolve) => places.waiting.push(resolve));
  }

  /** Whoever waits next takes the place. */
  function leave(source: string): void {
    const places = sources.get(source);
    if (!places) return;
    const next = places.waiting.shift();
    if (next) next();
    else if (--places.running === 0) sources.delete(source);
  }

  return async ({ username, secret, scope, source }) => {
    const email = normalizeAddress(username);
    await enter(source);
    try {
      const found = await signIn(db, email ?? "", secret, scope);
      if (!found) await slowdown.failed(source, ...(email === undefined ? [] : [email]));
      return found;
    } finally {
      leave(source);
    }
  };
}
