/** When keys and app passwords were last used: kept to the minute, since a write at every use would cost more than it tells. */
import type { Log } from "../base/log.ts";
import type { Store, Tx } from "../store/store.ts";

const GRANULARITY_MS = 60_000;
/** Those remembered as just used; more are forgotten together and written once too often. */
const MOST_REMEMBERED = 10_000;

/** Notes that what has that id was used at `now` (epoch ms). */
export type Touch = (id: string, now: number) => void;

/**
 * A use costs a look into memory, and at most once a minute a `write` that shares its commit with whatever else is written.
 * A write that fails is logged; nothing fails by it. `what`: for the log.
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
