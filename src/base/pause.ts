/** Waiting on the runtime's timers. No timer outlives the wait. */
import type { Runtime } from "./runtime.ts";

type Timers = Pick<Runtime, "setTimer">;

/** Resolves as `awaited` does, or with undefined after `ms`. */
export async function atMost<T>({ setTimer }: Timers, ms: number, awaited: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const cancelTimer = setTimer(() => late.resolve(undefined), ms);
  try {
    return await Promise.race([awaited, late.promise]);
  } finally {
    cancelTimer();
  }
}

/** Resolves after `ms`, or when the signal is aborted. */
export function pause({ setTimer }: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const wake = () => {
    cancelTimer();
    signal?.removeEventListener("abort", wake);
    resolve();
  };
  const cancelTimer = setTimer(wake, ms);
  signal?.addEventListener("abort", wake);
  return promise;
}
