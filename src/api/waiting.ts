/**
 * Lets requests wait until a commit brings what they look for.
 *
 * Invariants: each waiting request has a place (pools.ts). Whatever the rate of commits, each looks at most about four times a
 * second. No request waits beyond `stop`.
 */
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Sharer, Shares } from "../base/shares.ts";
import type { Wait } from "../operations/operation.ts";
import { LONGEST_WAIT_SECONDS } from "../operations/tool.ts";
import type { Core } from "../store/core.ts";

const LOOK_MS = 250;

export type Waiting = ReturnType<typeof createLongPolling>;

/** `latest` changes when there is something new to look for. `places`: those of requests that wait. */
export function createLongPolling(
  { store, runtime }: Core,
  { latest, places }: { latest(): string; places: Pick<Shares, "take"> },
) {
  const waiting = new Set<{ look(): void; end(): void }>();
  let seen = latest();
  let rests = false;
  let stopped = false;

  function lookAll(): void {
    seen = latest();
    for (const { look } of waiting) look();
  }

  function committed(): void {
    if (waiting.size === 0 || rests || latest() === seen) return;
    rests = true;
    runtime.setTimer(() => {
      rests = false;
      committed();
    }, LOOK_MS);
    // Not during the commit, because a look reads the store and may fail.
    queueMicrotask(lookAll);
  }

  store.onCommit(committed);

  /**
   * Returns what `look` finds, at once or after a commit. Returns undefined when nothing came within `ms`, when the
   * client has gone (`signal`), or when the server stops.
   * @throws AppError rate_limited when too many requests wait, and errors of `look`
   */
  async function wait<T>(
    look: () => T | undefined,
    { ms, who, signal }: { ms: number; who: Sharer; signal: AbortSignal },
  ): Promise<T | undefined> {
    const found = look();
    if (found !== undefined || ms === 0 || stopped || signal.aborted) return found;
    const place = places.take(who, 1);
    if (typeof place === "string") {
      throw new AppError(
        "rate_limited",
        place === "yours"
          ? "Too many calls with this key, or of its person, wait already: end one, or ask without waitSeconds"
          : "Too many calls wait already: ask without waitSeconds",
        { retryAfter: LONGEST_WAIT_SECONDS },
      );
    }
    if (waiting.size === 0) seen = latest();
    const { promise, resolve, reject } = Promise.withResolvers<T | undefined>();
    const waiter = {
      look() {
        try {
          const value = look();
          if (value !== undefined) resolve(value);
        } catch (error) {
          reject(error);
        }
      },
      end: () => resolve(undefined),
    };
    waiting.add(waiter);
    const cancel = runtime.setTimer(waiter.end, ms);
    signal.addEventListener("abort", waiter.end);
    try {
      return await promise;
    } finally {
      waiting.delete(waiter);
      place.release();
      cancel();
      signal.removeEventListener("abort", waiter.end);
    }
  }

  return {
    wait,
    /** Makes the wait of an operation for one request. `readmit` returns the caller as they are by now, or throws. */
    of({ caller, signal, readmit }: { caller: Caller; signal: AbortSignal; readmit(): Caller }): Wait {
      return (seconds, look) => {
        let isFirst = true;
        const lookAsCaller = () => {
          // After the first look, the caller has waited, and may have lost the key or the role by now.
          const found = look(isFirst ? caller : readmit());
          isFirst = false;
          return found;
        };
        return wait(lookAsCaller, { ms: seconds * 1_000, who: caller, signal });
      };
    },
    /** Ends the requests that wait. */
    stop(): void {
      stopped = true;
      for (const { end } of waiting) end();
    },
  };
}
