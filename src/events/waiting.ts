/**
 * Deliveries whose first attempt has not ended: a narrow row each, so that fanning out a backlog and claiming it write
 * little. The only writer of webhook_waiting.
 *
 * Invariants: a delivery is a row of webhook_waiting or of webhook_deliveries, never of both, and keeps its number; an
 * endpoint's are in the order of their events. One whose event is gone is nobody's to attempt, and goes when its turn
 * comes.
 */
import { prepared } from "../store/prepared.ts";
import type { DeliveryState } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";

/** One that is due, with its event. */
export interface Waiting {
  seq: number;
  id: string;
  endpointSeq: number;
  eventSeq: number;
  eventId: string;
  event: string;
  /** Of the event, epoch ms. */
  createdAt: number;
  /** JSON text. */
  data: string;
}

/** What attempts came to. Times are epoch ms. */
export interface Settled {
  state: DeliveryState;
  /** When it is attempted again; null when it is finished. */
  dueAt: number | null;
  status: number | null;
  response: string | null;
  error: string | null;
  finishedAt: number | null;
}

/** Of those whose event is gone, how many one look passes over: it stays short. */
const MOST_GONE = 1_000;

type Row = { [name in keyof Waiting]: name extends "eventId" ? string | null : Waiting[name] };

/** As in webhook_pending: an event goes to an endpoint once. */
const ID = "'whd_' || substr(e.id, 5) || '_' || w.endpoint_seq";

// As text: drizzle's part is half of what a row costs.
const statements = prepared(({ $client: client }) => ({
  draw: client.prepare<{ last: number }, [number]>(
    "UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'webhook_deliveries' RETURNING seq AS last",
  ),
  insert: client.prepare(
    `INSERT INTO webhook_waiting (endpoint_seq, seq, event_seq, created_at)
     SELECT ?2, ?3 + key + 1, value, ?4 FROM json_each(?1)`,
  ),
  due: client.prepare<Row, [number, number]>(
    `SELECT w.seq, ${ID} AS id, w.endpoint_seq AS endpointSeq, w.event_seq AS eventSeq, e.id AS eventId, e.event,
       e.created_at AS createdAt, e.data
     FROM webhook_waiting w LEFT JOIN events e ON e.seq = w.event_seq
     WHERE w.endpoint_seq = ?1 AND (w.leased_until IS NULL OR w.leased_until <= ?2)
     ORDER BY w.seq`,
  ),
  lease: client.prepare(
    `UPDATE webhook_waiting SET leased_until = ?4
     WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3 AND (leased_until IS NULL OR leased_until <= ?5)`,
  ),
  log: client.prepare(
    `INSERT INTO webhook_deliveries (seq, id, endpoint_seq, event_seq, event_id, event, created_at, state, attempts, due_at,
       status, response, error, finished_at)
     SELECT w.seq, ${ID}, w.endpoint_seq, e.seq, e.id, e.event, w.created_at, ?4, ?5, ?6, ?7, ?8, ?9, ?10
     FROM webhook_waiting w CROSS JOIN events e ON e.seq = w.event_seq
     WHERE w.endpoint_seq = ?1 AND w.seq BETWEEN ?2 AND ?3`,
  ),
  remove: client.prepare("DELETE FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3"),
  release: client.prepare("UPDATE webhook_waiting SET leased_until = NULL WHERE endpoint_seq = ?1 AND seq = ?2"),
  first: client.prepare<{ createdAt: number }, [number]>(
    `SELECT created_at AS createdAt FROM webhook_waiting
     WHERE endpoint_seq = ?1 AND leased_until IS NULL ORDER BY seq LIMIT 1`,
  ),
  firstLease: client.prepare<{ dueAt: number | null }, [number]>(
    "SELECT min(leased_until) AS dueAt FROM webhook_waiting WHERE endpoint_seq = ?1",
  ),
  idle: client.prepare<{ seq: number }, [number, number, number]>(
    "SELECT seq FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq <= ?2 AND leased_until IS NULL ORDER BY seq LIMIT ?3",
  ),
  removeFirst: client.prepare<{ seq: number }, [number, number]>(
    `DELETE FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq IN
       (SELECT seq FROM webhook_waiting WHERE endpoint_seq = ?1 ORDER BY seq LIMIT ?2) RETURNING seq`,
  ),
  firstEvent: client.prepare<{ seq: number | null }, []>(
    `SELECT min((SELECT event_seq FROM webhook_waiting WHERE endpoint_seq = p.seq ORDER BY seq LIMIT 1)) AS seq
     FROM webhook_endpoints p`,
  ),
}));

/** Draws `count` numbers of deliveries that follow each other; returns the one before the first. */
export function drawNumbers(tx: Tx, count: number): number {
  const drawn = statements(tx).draw.get(count);
  if (!drawn) throw new Error("webhook_deliveries has no sequence");
  return drawn.last - count;
}

/** Of these events (events.seq) for one endpoint, at `now` (epoch ms). */
export const putWaiting = (tx: Tx, endpointSeq: number, events: readonly number[], now: number): void =>
  void statements(tx).insert.run(JSON.stringify(events), endpointSeq, drawNumbers(tx, events.length), now);

/** The endpoint's that are due at `now` (epoch ms), the first first; read as they are asked for. */
export function* dueWaiting(tx: Tx, endpointSeq: number, now: number): Generator<Waiting> {
  const gone: number[] = [];
  try {
    for (const row of statements(tx).due.iterate(endpointSeq, now)) {
      if (row.eventId !== null) yield row as Waiting;
      else if (gone.push(row.seq) === MOST_GONE) break;
    }
  } finally {
    if (gone.length > 0) removeWaiting(tx, endpointSeq, gone);
  }
}

/** Until `until` nobody else attempts those from `first` to `last` that are due at `now`. */
export const leaseWaiting = (
  tx: Tx,
  endpointSeq: number,
  [first, last]: [number, number],
  until: number,
  now: number,
) => void statements(tx).lease.run(endpointSeq, first, last, until, now);

/** Gives leases back, without an attempt counted. */
export const releaseWaiting = (tx: Tx, endpointSeq: number, seq: number): void =>
  void statements(tx).release.run(endpointSeq, seq);

/** All that are leased. Reads all that waits. */
export const leasedWaiting = ({ $client: client }: Db): { endpointSeq: number; seq: number }[] =>
  client
    .query<{ endpointSeq: number; seq: number }, []>(
      "SELECT endpoint_seq AS endpointSeq, seq FROM webhook_waiting WHERE leased_until IS NOT NULL",
    )
    .all();

/** When the endpoint's first is due, epoch ms; null when none waits. */
export const firstDueWaiting = (db: Db, endpointSeq: number): number | null =>
  statements(db).first.get(endpointSeq)?.createdAt ?? statements(db).firstLease.get(endpointSeq)?.dueAt ?? null;

/** They become rows of webhook_deliveries, after so many attempts. Of what is gone meanwhile nothing is written. */
export function logWaiting(
  tx: Tx,
  endpointSeq: number,
  seqs: readonly number[],
  attempts: number,
  { state, dueAt, status, response, error, finishedAt }: Settled,
): void {
  const outcome = [state, attempts, dueAt, status, response, error, finishedAt] as const;
  for (const [first, last] of runsOf(seqs)) {
    statements(tx).log.run(endpointSeq, first, last, ...outcome);
    statements(tx).remove.run(endpointSeq, first, last);
  }
}

function removeWaiting(tx: Tx, endpointSeq: number, seqs: readonly number[]): void {
  for (const [first, last] of runsOf(seqs)) statements(tx).remove.run(endpointSeq, first, last);
}

/** Runs of numbers that follow each other, by their ends: a range costs less than a list. */
function runsOf(seqs: readonly number[]): [first: number, last: number][] {
  const runs: [number, number][] = [];
  for (const seq of seqs.toSorted((a, b) => a - b)) {
    const run = runs.at(-1);
    if (run?.[1] === seq - 1) run[1] = seq;
    else runs.push([seq, seq]);
  }
  return runs;
}

/** The first `count` that no attempt is under way of, up to the delivery `through`. */
export const idleWaiting = (db: Db, endpointSeq: number, through: number, count: number): number[] =>
  statements(db)
    .idle.all(endpointSeq, through, count)
    .map(({ seq }) => seq);

/** Deletes the first `count` of the endpoint's; returns how many there were. */
export const removeFirstWaiting = (tx: Tx, endpointSeq: number, count: number): number =>
  statements(tx).removeFirst.all(endpointSeq, count).length;

/** Of the events that something waits for, the first (events.seq); null when nothing does. */
export const firstWaitedFor = (db: Db): number | null => statements(db).firstEvent.get()?.seq ?? null;
