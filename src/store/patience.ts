/** Commits that are worth waiting for: what has happened outside, such as another server's word, cannot be undone. */
import { isUnavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Store } from "./store.ts";

export interface PatienceParts {
  store: Pick<Store, "enqueue">;
  runtime: Pick<Runtime, "setTimer">;
  log: Log;
  /** For the log, while it waits. */
  warning: string;
  /** Whether nobody waits any more. */
  isOver?(): boolean;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

/** Like `store.enqueue`, however long the store takes to become available. */
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
