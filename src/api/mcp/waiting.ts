/**
 * Calls that wait for mail (list_messages with `waitSeconds`): woken by commits, answered at the latest when their time
 * is up.
 *
 * Invariants: the number of waiting calls is bounded, in all and by key; whatever the rate of commits, each looks no more
 * than about four times a second; none outlives `stop`.
 */
import { AppError } from "../../base/errors.ts";
import type { Runtime } from "../../base/runtime.ts";
import { LONGEST_WAIT_SECONDS } from "../../operations/tool.ts";
import type { Store } from "../../store/store.ts";

const MOST_WAITING = 100;
const MOST_WAITING_BY_KEY = 4;
const LOOK_MS = 250;

export interface Waiting {
  /**
   * What `look` finds, at once or after a commit; undefined when nothing came within `ms`, nobody waits any longer
   * (`signal`), or the server stops. Rejects with what `look` throws. @throws AppError rate_limited when too many wait
   */
  wait<T>(look: () => T | undefined, how: { ms: number; key: string; signal: AbortSignal }): Promise<T | undefined>;
  /** Answers all that wait. */
  stop(): void;
}

/** `latest` grows when there is something new to look for. */
export function createWaiting(parts: {
  store: Pick<Store, "onCommit">;
  runtime: Pick<Runtime, "setTimer">;
  latest(): number;
  /** HTTP connections that there may be: those that wait leave three in four to others. */
  mostConnections: number;
}): Waiting {
  const { store, runtime, latest, mostConnections } = parts;
  const mostWaiting = Math.min(MOST_WAITING, Math.floor(mostConnections / 4));
  const waiting = new Map<{ look(): void; end(): void }, string>();
  let seen = latest();
  let rests = false;
  let stopped = false;

  function lookAll(): void {
    seen = latest();
    for (const { look } of waiting.keys()) look();
  }

  function committed(): void {
    if (waiting.size === 0 || rests || latest() === seen) return;
    rests = true;
    runtime.setTimer(() => {
      rests = false;
      committed();
    }, LOOK_MS);
    // Not within the commit: what waits reads, and may fail.
    queueMicrotask(lookAll);
  }

  store.onCommit(committed);

  return {
    async wait(look, { ms, key, signal }) {
      const found = look();
      if (found !== undefined || stopped || signal.aborted) return found;
      const byKey = [...waiting.values()].filter((other) => other === key).length;
      if (byKey >= MOST_WAITING_BY_KEY || waiting.size >= mostWaiting) {
        throw new AppError(
          "rate_limited",
          byKey >= MOST_WAITING_BY_KEY
            ? `${byKey} calls with this key wait for mail already: end one, or ask without waitSeconds`
            : "Too many calls wait for mail already: ask without waitSeconds",
          { retryAfter: LONGEST_WAIT_SECONDS },
        );
      }
      if (waiting.size === 0) seen = latest();
      const { promise, resolve, reject } = Promise.withResolvers<ReturnType<typeof look>>();
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
      waiting.set(waiter, key);
      const cancel = runtime.setTimer(waiter.end, ms);
      signal.addEventListener("abort", waiter.end);
      try {
        return await promise;
      } finally {
        waiting.delete(waiter);
        cancel();
        signal.removeEventListener("abort", waiter.end);
      }
    },
    stop() {
      stopped = true;
      for (const { end } of waiting.keys()) end();
    },
  };
}
