/**
 * Commits that must eventually succeed, because something outside, such as a reply from another server, cannot be
 * undone.
 */
import { isUnavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Store } from "./store.ts";

export interface PatienceParts {
  store: Pick<Store, "enqueue">;
  runtime: Pick<Runtime, "setTimer">;
  log: Log;
  /** Logged while it waits. */
  warning: string;
  /** True if the result is no longer needed. */
  isOver?(): boolean;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

/** Like `store.enqueue`, but waits for as long as the store is unavailable. */
export function createPatientCommit({ store, runtime, log, warning, isOver }: PatienceParts): Store["enqueue"] {
  return async (work) => {
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      try {
        return await store.enqueue(work);
      } catch (error) {
        if (!isUnavailable(error) || isOver?.()) throw error;
        log.warn(warning, { retryInMs: wait, error });
        await pause(runtime, wait);
      }
    }
  };
}
