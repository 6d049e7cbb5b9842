/** Waiting: on the runtime's timers, of which none outlives the wait, and for other work. */
import type { Runtime } from "./runtime.ts";

type Timers = Pick<Runtime, "setTimer">;

/** Resolves as `awaited` does, or with undefined after `ms`. */
export async function awaitAtMost<T>({ setTimer }: Timers, ms: number, awaited: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const cancelTimer = setTimer(() => late.resolve(undefined), ms);
  try {
    return await Promise.race([awaited, late.promise]);
  } finally {
    cancelTimer();
  }
}

/** Resolves once everything else that is ready has run: long work awaits it now and then. */
export const letOthersRun = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

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
