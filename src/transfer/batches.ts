/**
 * Transactions of as many messages as fit a time: short beside a running server, whose event loop waits for the store
 * while another process writes (architecture: bulk commands write in batches under 50 ms), longer without one, since each
 * costs an fsync. How many fit is learned from the last ones.
 */
import type { Runtime } from "../base/runtime.ts";
import { isClaimed } from "../store/claim.ts";

const BESIDE_SERVER_MS = 20;
const ALONE_MS = 600;
/** Even if they take longer: on a slow disk it is the commit that does. */
const FEWEST = 8;
const MOST = 400;
/** How long a look at whether a server runs is good for. */
const LOOK_MS = 500;

export interface Pacing {
  /** Messages that the next transaction may have. */
  room(): number;
  /** Runs a transaction of `count` messages, which says when it has `begun`, and then leaves the store to others. */
  run<T>(count: number, transaction: (begun: () => void) => T): Promise<T>;
  /** Whether a server runs on the folder. */
  isServed(): boolean;
}

/** `folder`: the data folder. */
export function createPacing({
  folder,
  runtime,
}: {
  folder: string;
  runtime: Pick<Runtime, "now" | "setTimer">;
}): Pacing {
  let room = FEWEST;
  let served = isClaimed(folder);
  let lookedAt = runtime.now();
  return {
    room: () => room,
    isServed: () => isClaimed(folder),
    async run(count, transaction) {
      let startedAt = runtime.now();
      if (startedAt - lookedAt >= LOOK_MS) {
        served = isClaimed(folder);
        lookedAt = startedAt;
      }
      const result = transaction(() => {
        startedAt = runtime.now();
      });
      const took = Math.max(1, runtime.now() - startedAt);
      const fitting = Math.floor((count * (served ? BESIDE_SERVER_MS : ALONE_MS)) / took);
      room = Math.min(MOST, Math.max(FEWEST, Math.min(fitting, 2 * room)));
      // SQLite's locks are not fair: who asks again at once would keep the others waiting.
      if (served) await new Promise<void>((resolve) => runtime.setTimer(resolve, Math.min(took, BESIDE_SERVER_MS)));
      return result;
    },
  };
}
