/**
 * Deliveries whose first attempt has not ended: a row for each run of them, with numbers and events that follow each
 * other, so that fanning out a backlog and claiming it write little. The only writer of webhook_waiting.
 *
 *   ─ 41 ───────────────── 56 ─       ─ 41 ─ 48 ─   ─ 49 ── 52 ─   ─ 53 ─ 56 ─
 *     what waits since then    ──►      leased         recorded       leased      a run is cut where a part goes its own way
 *
 * Invariants: a delivery is of a run or a row of webhook_deliveries, never both, and keeps its number; an endpoint's are in
 * the order of their events. One whose event is gone is nobody's to attempt, and goes when its turn comes.
 */

import type { DeliveryState } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

/** One that is due, with its event. */
export interface Waiting {
  seq: number;
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

/** Of runs whose events are gone, how many one look passes over: it stays short. */
const MOST_GONE = 1_000;

type Row = { [name in keyof Waiting]: name extends "eventId" ? string | null : Waiting[name] };

/** Deliveries whose numbers and events follow each other. Times are epoch ms. */
interface Run {
  endpointSeq: number;
  /** The first number. */
  seq: number;
  /** The first event. */
  eventSeq: number;
  length: number;
  createdAt: number;
  leasedUntil: number | null;
}

/** By their ends. */
type Range = readonly [first: number, last: number];

/** Of one of a run. */
const SEQ = "w.seq + e.seq - w.event_seq";
const EVENTS_OF_RUN = "e.seq BETWEEN w.event_seq AND w.event_seq + w.length - 1";

/** Of the endpoint `?1`, where the last run begins that begins no later than there. */
const runAt = (seq: string): string =>
  `(SELECT coalesce(max(seq), ${seq}) FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq <= ${seq})`;

// As text: drizzle's part is half of what a row costs.
const statements = prepared(({ $client: client }) => ({
  draw: client.prepare<{ last: number }, [number]>(
    "UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'webhook_deliveries' RETURNING seq AS last",
  ),
  insert: client.prepare(
    `INSERT INTO webhook_waiting (endpoint_seq, seq, event_seq, length, created_at, leased_until)
     SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(?1)`,
  ),
  due: client.prepare<Row, [number, number]>(
    `SELECT coalesce(${SEQ}, w.seq) AS seq, e.seq AS eventSeq, e.id AS eventId, e.event, e.created_at AS createdAt, e.data
     FROM webhook_waiting w LEFT JOIN events e ON ${EVENTS_OF_RUN}
     WHERE w.endpoint_seq = ?1 AND (w.leased_until IS NULL OR w.leased_until <= ?2)
     ORDER BY w.seq, e.seq`,
  ),
  overlapping: client.prepare<Run, [number, number, number]>(
    `SELECT endpoint_seq AS endpointSeq, seq, event_seq AS eventSeq, length, created_at AS createdAt,
       leased_until AS leasedUntil
     FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq <= ?3 AND seq >= ${runAt("?2")} ORDER BY seq`,
  ),
  log: client.prepare(
    `WITH outcomes AS MATERIALIZED (
       SELECT value ->> 0 AS first, value ->> 1 AS last, value ->> 2 AS attempts, value ->> 3 AS state, value ->> 4 AS due_at,
         value ->> 5 AS status, value ->> 6 AS response, value ->> 7 AS error, value ->> 8 AS finished_at
       FROM json_each(?2))
     INSERT INTO webhook_deliveries (seq, endpoint_seq, event_seq, created_at, attempts, state, due_at, status, response,
       error, finished_at)
     SELECT ${SEQ}, w.endpoint_seq, e.seq, w.created_at, o.attempts, o.state, o.due_at, o.status, o.response, o.error,
       o.finished_at
     FROM outcomes o CROSS JOIN webhook_waiting w CROSS JOIN events e
       ON e.seq BETWEEN w.event_seq + max(o.first - w.seq, 0) AND w.event_seq + min(o.last - w.seq, w.length - 1)
     WHERE w.endpoint_seq = ?1 AND w.seq <= o.last AND w.seq >= ${runAt("o.first")}
     ON CONFLICT (seq) DO NOTHING`,
  ),
  remove: client.prepare("DELETE FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3"),
  removeGone: client.prepare(
    `DELETE FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3 AND NOT EXISTS
       (SELECT 1 FROM events e WHERE e.seq BETWEEN event_seq AND event_seq + length - 1)`,
  ),
  first: client.prepare<{ createdAt: number }, [number]>(
    `SELECT created_at AS createdAt FROM webhook_waiting
     WHERE endpoint_seq = ?1 AND leased_until IS NULL ORDER BY seq LIMIT 1`,
  ),
  firstLease: client.prepare<{ dueAt: number | null }, [number]>(
    "SELECT min(leased_until) AS dueAt FROM webhook_waiting WHERE endpoint_seq = ?1",
  ),
  idle: client.prepare<{ seq: number; length: number }, [number, number]>(
    `SELECT seq, length FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq <= ?2 AND leased_until IS NULL ORDER BY seq`,
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

/** Of these events (events.seq, ascending), by endpoint, at `now` (epoch ms). */
export function putWaiting(tx: Tx, wanted: ReadonlyMap<number, readonly number[]>, now: number): void {
  let count = 0;
  for (const events of wanted.values()) count += events.length;
  let seq = drawNumbers(tx, count) + 1;
  const runs: Run[] = [];
  for (const [endpointSeq, events] of wanted) {
    for (const [eventSeq, last] of runsOf(events)) {
      const length = last - eventSeq + 1;
      runs.push({ endpointSeq, seq, eventSeq, length, createdAt: now, leasedUntil: null });
      seq += length;
    }
  }
  insert(tx, runs);
}

function insert(tx: Tx, runs: readonly Run[]): void {
  const rows = runs.map(({ endpointSeq, seq, eventSeq, createdAt, leasedUntil, length }) => [
    ...[endpointSeq, seq, eventSeq, length, createdAt, leasedUntil],
  ]);
  statements(tx).insert.run(JSON.stringify(rows));
}

/** The endpoint's that are due at `now` (epoch ms), the first first; read as they are asked for. */
export function* dueWaiting(tx: Tx, endpointSeq: number, now: number): Generator<Waiting> {
  /** The runs that nothing is left of, by their first numbers. */
  const gone: number[] = [];
  try {
    for (const row of statements(tx).due.iterate(endpointSeq, now)) {
      if (row.eventId !== null) yield row as Waiting;
      else if (gone.push(row.seq) === MOST_GONE) break;
    }
  } finally {
    for (const seq of gone) statements(tx).remove.run(endpointSeq, seq, seq);
  }
}

/** Until `until` nobody else attempts those of the range that are due at `now`. Epoch ms. */
export const leaseWaiting = (tx: Tx, endpointSeq: number, range: Range, until: number, now: number): void =>
  change(tx, endpointSeq, [range], (run) =>
    run.leasedUntil === null || run.leasedUntil <= now ? { ...run, leasedUntil: until } : run,
  );

/** Gives leases back, without an attempt counted. */
export const releaseWaiting = (tx: Tx, endpointSeq: number, seqs: readonly number[]): void =>
  change(tx, endpointSeq, runsOf(seqs), (run) => ({ ...run, leasedUntil: null }));

/** Gives all leases back; returns the runs that had one, by their first numbers. Reads all runs. */
export const releaseAllWaiting = ({ $client: client }: Tx): { endpointSeq: number; seq: number; length: number }[] =>
  client
    .query<{ endpointSeq: number; seq: number; length: number }, []>(
      `UPDATE webhook_waiting SET leased_until = NULL WHERE leased_until IS NOT NULL
       RETURNING endpoint_seq AS endpointSeq, seq, length`,
    )
    .all();

/** What a clock that was ahead has made at times that have not come (`now`: epoch ms) is due now. Reads all runs. */
export const recallWaiting = ({ $client: client }: Tx, now: number): void =>
  void client.query("UPDATE webhook_waiting SET created_at = ?1 WHERE created_at > ?1").run(now);

/** When the endpoint's first is due, epoch ms; null when none waits. */
export const firstDueWaiting = (db: Db, endpointSeq: number): number | null =>
  statements(db).first.get(endpointSeq)?.createdAt ?? statements(db).firstLease.get(endpointSeq)?.dueAt ?? null;

/** Deliveries that came to the same, after so many attempts. */
export interface Outcome {
  seqs: readonly number[];
  attempts: number;
  settled: Settled;
}

/**
 * They become rows of webhook_deliveries. Of what is gone meanwhile nothing is written; of one that is there twice, having
 * been claimed again, what it came to first.
 */
export function logWaiting(tx: Tx, endpointSeq: number, outcomes: readonly Outcome[]): void {
  const rows = outcomes.flatMap(({ seqs, attempts, settled }) => {
    const { state, dueAt, status, response, error, finishedAt } = settled;
    return runsOf(seqs).map((range) => [...range, attempts, state, dueAt, status, response, error, finishedAt]);
  });
  const ranges = runsOf(outcomes.flatMap(({ seqs }) => seqs));
  const [first, last] = [ranges[0], ranges.at(-1)];
  if (!first || !last) return;
  statements(tx).log.run(endpointSeq, JSON.stringify(rows));
  change(tx, endpointSeq, ranges, () => undefined);
  statements(tx).removeGone.run(endpointSeq, first[0], last[1]);
}

/** What is waiting of the ranges, which ascend, is cut out of its runs and becomes what `become` says; or goes. */
function change(tx: Tx, endpointSeq: number, ranges: readonly Range[], become: (part: Run) => Run | undefined): void {
  const [from, to] = [ranges[0]?.[0] ?? 0, ranges.at(-1)?.[1] ?? 0];
  const runs = statements(tx).overlapping.all(endpointSeq, from, to);
  const parts: Run[] = [];
  let next = 0;
  for (const run of runs) {
    const end = run.seq + run.length;
    for (let seq = run.seq; seq < end; ) {
      while ((ranges[next]?.[1] ?? end) < seq) next++;
      const [first, last] = ranges[next] ?? [end, end];
      const isWithin = first <= seq;
      const until = Math.min(isWithin ? last + 1 : first, end);
      const part = { ...run, seq, eventSeq: run.eventSeq + seq - run.seq, length: until - seq };
      const changed = isWithin ? become(part) : part;
      if (changed) parts.push(changed);
      seq = until;
    }
  }
  statements(tx).remove.run(endpointSeq, runs[0]?.seq ?? 0, runs.at(-1)?.seq ?? 0);
  insert(tx, parts);
}

/** Runs of numbers that follow each other, ascending. */
function runsOf(numbers: readonly number[]): Range[] {
  const runs: [number, number][] = [];
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const run = runs.at(-1);
    if (run?.[1] === number - 1) run[1] = number;
    else runs.push([number, number]);
  }
  return runs;
}

/** The first `count` that no attempt is under way of, of what was fanned out until the delivery `through` was made. */
export function idleWaiting(db: Db, endpointSeq: number, through: number, count: number): number[] {
  const seqs: number[] = [];
  for (const { seq, length } of statements(db).idle.iterate(endpointSeq, through)) {
    for (let i = 0; i < length && seqs.length < count; i++) seqs.push(seq + i);
    if (seqs.length === count) break;
  }
  return seqs;
}

/** Deletes the endpoint's first `runs`; returns how many there were. */
export const removeFirstWaiting = (tx: Tx, endpointSeq: number, runs: number): number =>
  statements(tx).removeFirst.all(endpointSeq, runs).length;

/** Of the events that something waits for, the first (events.seq); null when nothing does. */
export const firstWaitedFor = (db: Db): number | null => statements(db).firstEvent.get()?.seq ?? null;
