/**
 * Records when keys and app passwords were last used: to the minute, because a write for every use would cost more than
 * it is worth.
 */
import type { Log } from "../base/log.ts";
import type { Store, Tx } from "../store/store.ts";

const GRANULARITY_MS = 60_000;
/** Most recent uses kept in memory; beyond it all are dropped, which costs one extra write each. */
const MOST_REMEMBERED = 10_000;

/** Records a use of that id at `now` (epoch ms). */
export type Touch = (id: string, now: number) => void;

/**
 * A use costs a look-up in memory, and at most once a minute a `write` that shares its commit with other writes. A
 * failed write is logged and affects nothing else. `what`: for the log.
 */
export function createLastUse(
  store: Pick<Store, "enqueue">,
  log: Log,
  what: string,
  write: (tx: Tx, id: string, now: number) => void,
): Touch {
  const written = new Map<string, number>();
  return (id, now) => {
    const last = written.get(id);
    if (last !== undefined && Math.abs(now - last) < GRANULARITY_MS) return;
    if (written.size >= MOST_REMEMBERED) written.clear();
    written.set(id, now);
    store
      .enqueue((tx) => write(tx, id, now))
      .catch((error) => log.warn(`the last use of ${what} was not recorded`, { id, error }));
  };
}
