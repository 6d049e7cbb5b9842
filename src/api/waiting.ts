/**
 * Lets requests wait until a commit brings what they look for.
 *
 * Invariants: the number of waiting requests is bounded, in all and for each key. Whatever the rate of commits, each
 * looks at most about four times a second. None waits beyond `stop`.
 */
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Wait } from "../operations/operation.ts";
import { LONGEST_WAIT_SECONDS } from "../operations/tool.ts";
import type { Store } from "../store/store.ts";

const MOST_WAITING = 100;
const MOST_WAITING_BY_KEY = 4;
const LOOK_MS = 250;

export type Waiting = ReturnType<typeof createWaiting>;

/**
 * `latest` changes when there is something new to look for. `mostConnections`: limit of HTTP connections, of which
 * waiting requests take at most a quarter.
 */
export function createWaiting(parts: {
  store: Pick<Store, "onCommit">;
  runtime: Pick<Runtime, "setTimer">;
  latest(): string;
  mostConnections: number;
}) {
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
    // Not during the commit, because a look reads the store and may fail.
    queueMicrotask(lookAll);
  }

  store.onCommit(committed);

  /**
   * Returns what `look` finds, at once or after a commit. Returns undefined when nothing came within `ms`, when the
   * client has gone (`signal`), or when the server stops. `key`: the requests of one key are limited.
   * @throws AppError rate_limited when too many requests wait, and errors of `look`
   */
  async function wait<T>(
    look: () => T | undefined,
    { ms, key, signal }: { ms: number; key: string; signal: AbortSignal },
  ): Promise<T | undefined> {
    const found = look();
    if (found !== undefined || ms === 0 || stopped || signal.aborted) return found;
    const byKey = [...waiting.values()].filter((other) => other === key).length;
    if (byKey >= MOST_WAITING_BY_KEY || waiting.size >= mostWaiting) {
      throw new AppError(
        "rate_limited",
        byKey >= MOST_WAITING_BY_KEY
          ? `${byKey} calls with this key wait already: end one, or ask without waitSeconds`
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
        return wait(lookAsCaller, { ms: seconds * 1_000, key: caller.keyId ?? caller.userId, signal });
      };
    },
    /** Ends the requests that wait. */
    stop(): void {
      stopped = true;
      for (const { end } of waiting.keys()) end();
    },
  };
}
