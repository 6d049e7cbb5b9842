/**
 * Slows down guessing (rules: Sign-in failures; recipients, inbound/rcpt.ts): the more attempts of one source, or
 * on one account, have recently failed, the later the next failure is reported. A success is never delayed. Slots limit
 * how many attempts run at once.
 */
import { AppError } from "../base/errors.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";

export interface Pace {
  /** Failures reported immediately. */
  freeFailures: number;
  /** Delay of the first one that is delayed; each further one doubles it. */
  firstDelayMs: number;
  longestDelayMs: number;
  /** Quiet time after which failures are forgotten. */
  forgottenAfterMs: number;
}

/** For sign-in. Some failures are free, since everybody has them: a mistyped password, a program with an old key. */
const SIGN_IN: Pace = { freeFailures: 20, firstDelayMs: 100, longestDelayMs: 2_000, forgottenAfterMs: 60_000 };
/** Names in memory; beyond it those quiet for longest are dropped. */
const MOST_REMEMBERED = 10_000;

export type Slowdown = ReturnType<typeof createSlowdown>;

export function createSlowdown(runtime: Pick<Runtime, "now" | "setTimer">, pace = SIGN_IN) {
  const { freeFailures, firstDelayMs, longestDelayMs, forgottenAfterMs } = pace;
  // Ordered by last failure.
  const failures = new Map<string, { count: number; lastAt: number }>();

  /** The delay of this failure in ms. */
  function note(name: string): number {
    const now = runtime.now();
    const known = failures.get(name);
    const quiet = known !== undefined && Math.abs(now - known.lastAt) >= forgottenAfterMs;
    const count = known === undefined || quiet ? 1 : known.count + 1;
    failures.delete(name);
    failures.set(name, { count, lastAt: now });
    for (const [oldest] of failures) {
      if (failures.size <= MOST_REMEMBERED) break;
      failures.delete(oldest);
    }
    if (count <= freeFailures) return 0;
    return Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(count - freeFailures - 1, 10));
  }

  return {
    /**
     * Records a failed attempt for each of `names` (a source, an account). Resolves when the failure may be reported.
     */
    failed(...names: string[]): Promise<void> {
      const delay = Math.max(0, ...names.map(note));
      return delay === 0 ? Promise.resolve() : pause(runtime, delay);
    },
  };
}

const tooMany = (): AppError =>
  new AppError("rate_limited", "Too many sign-ins at once: try again in a moment", { retryAfter: 5 });

/**
 * Slots by name (a source, an account): a limited number in use, and a limited number of waiting calls. Of these,
 * `reserved` are for known callers, who also go first. `refusal`: the error for a call beyond them.
 */
export function createConcurrencyLimits({
  atOnce,
  mostWaiting,
  reserved = 0,
  refusal = tooMany,
}: {
  atOnce: number;
  mostWaiting: number;
  reserved?: number;
  refusal?: () => AppError;
}) {
  /** Slots in use and waiting calls, by name. */
  const taken = new Map<string, { running: number; known: (() => void)[]; strangers: (() => void)[] }>();

  async function acquire(name: string, isKnown: boolean): Promise<void> {
    const slots = taken.get(name) ?? { running: 0, known: [], strangers: [] };
    taken.set(name, slots);
    if (slots.running < atOnce) {
      slots.running++;
      return;
    }
    const { known, strangers } = slots;
    const isFull = known.length + strangers.length >= mostWaiting;
    if (isFull || (!isKnown && strangers.length >= mostWaiting - reserved)) throw refusal();
    await new Promise<void>((resolve) => (isKnown ? known : strangers).push(resolve));
  }

  /** Passes the slot to the next waiting call. */
  function release(name: string): void {
    const slots = taken.get(name);
    if (!slots) return;
    const next = slots.known.shift() ?? slots.strangers.shift();
    if (next) next();
    else if (--slots.running === 0) taken.delete(name);
  }

  return {
    /** Runs `work` once a slot is free. @throws AppError, by default rate_limited, if too many calls already wait */
    async within<T>(name: string, work: () => Promise<T>, isKnown = false): Promise<T> {
      await acquire(name, isKnown);
      try {
        return await work();
      } finally {
        release(name);
      }
    },
  };
}
