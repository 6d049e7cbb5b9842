/** The outbound queue: whether it moves, and how long mail has been waiting. */
import type { Check } from "../check.ts";

interface Row {
  waiting: number;
  held: number;
  dueAt: number | null;
  acceptedAt: number | null;
}

/** An attempt that is due starts at once, but at servers that are slow; a lease ends by itself. */
const LATE_MS = 30 * 60_000;
const OLD_MS = 24 * 3_600_000;

export const checkQueue: Check = ({ store, runtime, serving }) => {
  const base = { id: "queue", name: "Outbound queue" } as const;
  const row = store.db.$client
    .query<Row, []>(
      `SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'held') AS held,
         min(due_at) FILTER (WHERE state = 'waiting' AND leased = 0 AND queue_entries.domain NOT IN
           (SELECT domain FROM queue_domains WHERE line = 'slow')) AS dueAt, min(accepted_at) AS acceptedAt
       FROM queue_entries JOIN outbound_messages ON outbound_messages.seq = queue_entries.message_seq
       WHERE state IN ('waiting', 'held')`,
    )
    .get();
  const { waiting = 0, held = 0, dueAt = null, acceptedAt = null } = row ?? {};
  const now = runtime.now();
  const hours = acceptedAt === null ? 0 : Math.floor((now - acceptedAt) / 3_600_000);
  const detail = `${waiting} recipients wait${held > 0 ? `, ${held} are held` : ""}${hours > 0 ? `, the oldest for ${hours} hours` : ""}`;
  const seen =
    "See why with mailroom queue list; mailroom queue retry ID attempts one again, mailroom queue cancel ID gives it up.";
  if (serving && dueAt !== null && now - dueAt > LATE_MS) {
    const todo = "The queue does not move: look into the server's log (journalctl -u mailroom), and restart it.";
    return [
      {
        ...base,
        state: "bad",
        detail: `an attempt is ${Math.floor((now - dueAt) / 60_000)} minutes late; ${detail}`,
        todo,
      },
    ];
  }
  if (acceptedAt !== null && now - acceptedAt > OLD_MS) return [{ ...base, state: "warning", detail, todo: seen }];
  return [{ ...base, state: "ok", detail }];
};
