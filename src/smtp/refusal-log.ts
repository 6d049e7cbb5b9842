/**
 * Log lines of what clients are refused, so that an operator sees which manners were asked of whom. A flood of refusals
 * is no flood of lines: one a minute of each kind, which says how many there were since the last.
 */
import type { Log, LogFields } from "../base/log.ts";
import type { RefusalName } from "./refusal.ts";

const ONE_LINE_IN_MS = 60_000;

export type NoteRefusal = (reason: RefusalName, fields: LogFields) => void;

/** `now` gives epoch ms. */
export function createRefusalLog(log: Log, now: () => number): NoteRefusal {
  const lines = new Map<RefusalName, { loggedAt: number; unlogged: number }>();
  return (reason, fields) => {
    const last = lines.get(reason);
    const at = now();
    if (last && at >= last.loggedAt && at < last.loggedAt + ONE_LINE_IN_MS) {
      last.unlogged++;
      return;
    }
    lines.set(reason, { loggedAt: at, unlogged: 0 });
    log.info("refused", { reason, ...fields, ...(last && last.unlogged > 0 ? { unlogged: last.unlogged } : {}) });
  };
}
