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
import { prepared } from "../store/prepared.ts";
import type { DeliveryState } from "../store/schema.ts";
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

/** By their ends. */
type Range = readonly [first: number, last: number];

/** Of one of a run. */
const SEQ = "w.seq + e.seq - w.event_seq";
const EVENTS_OF_RUN = "e.seq BETWEEN w.event_seq AND w.event_seq + w.length - 1";

// As text: drizzle's part is half of what a row costs.
const statements = prepared(({ $client: client }) => ({
  draw: client.prepare<{ last: number }, [number]>(
    "UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'webhook_deliveries' RETURNING seq AS last",
  ),
  insert: client.prepare(
    "INSERT INTO webhook_waiting (endpoint_seq, seq, event_seq, length, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
  ),
  due: client.prepare<Row, [number, number]>(
    `SELECT coalesce(${SEQ}, w.seq) AS seq, e.seq AS eventSeq, e.id AS eventId, e.event, e.created_at AS createdAt, e.data
     FROM webhook_waiting w LEFT JOIN events e ON ${EVENTS_OF_RUN}
     WHERE w.endpoint_seq = ?1 AND (w.leased_until IS NULL OR w.leased_until <= ?2)
     ORDER BY w.seq, e.seq`,
  ),
  /** Of the run that a number is of and does not begin, what follows from there. */
  copyRest: client.prepare(
    `INSERT INTO webhook_waiting (endpoint_seq, seq, event_seq, length, created_at, leased_until)
     SELECT endpoint_seq, ?2, event_seq + ?2 - seq, length + seq - ?2, created_at, leased_until
     FROM (SELECT * FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 1)
     WHERE seq + length > ?2`,
  ),
  shorten: client.prepare(
    `UPDATE webhook_waiting SET length = ?2 - seq
     WHERE endpoint_seq = ?1 AND seq = (SELECT max(seq) FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq < ?2)`,
  ),
  lease: client.prepare(
    `UPDATE webhook_waiting SET leased_until = ?4
     WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3 AND (leased_until IS NULL OR leased_until <= ?5)`,
  ),
  log: client.prepare(
    `INSERT INTO webhook_deliveries (seq, endpoint_seq, event_seq, created_at, state, attempts, due_at, status, response,
       error, finished_at)
     SELECT ${SEQ}, w.endpoint_seq, e.seq, w.created_at, ?4, ?5, ?6, ?7, ?8, ?9, ?10
     FROM webhook_waiting w CROSS JOIN events e ON ${EVENTS_OF_RUN}
     WHERE w.endpoint_seq = ?1 AND w.seq BETWEEN ?2 AND ?3`,
  ),
  remove: client.prepare("DELETE FROM webhook_waiting WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3"),
  release: client.prepare(
    "UPDATE webhook_waiting SET leased_until = NULL WHERE endpoint_seq = ?1 AND seq BETWEEN ?2 AND ?3",
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

/** Of these events (events.seq, ascending) for one endpoint, at `now` (epoch ms). */
export function putWaiting(tx: Tx, endpointSeq: number, events: readonly number[], now: number): void {
  let seq = drawNumbers(tx, events.length) + 1;
  for (const [first, last] of runsOf(events)) {
    const length = last - first + 1;
    statements(tx).insert.run(endpointSeq, seq, first, length, now);
    seq += length;
  }
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
export function leaseWaiting(tx: Tx, endpointSeq: number, range: Range, until: number, now: number): void {
  cutOut(tx, endpointSeq, range);
  statements(tx).lease.run(endpointSeq, ...range, until, now);
}

/** Gives leases back, without an attempt counted. */
export function releaseWaiting(tx: Tx, endpointSeq: number, seqs: readonly number[]): void {
  for (const range of runsOf(seqs)) {
    cutOut(tx, endpointSeq, range);
    statements(tx).release.run(endpointSeq, ...range);
  }
}

/** Gives all leases back; returns the runs that had one, by their first numbers. Reads all runs. */
export const releaseAllWaiting = ({ $client: client }: Tx): { endpointSeq: number; seq: number; length: number }[] =>
  client
    .query<{ endpointSeq: number; seq: number; length: number }, []>(
      `UPDATE webhook_waiting SET leased_until = NULL WHERE leased_until IS NOT NULL
       RETURNING endpoint_seq AS endpointSeq, seq, length`,
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
  for (const range of runsOf(seqs)) {
    cutOut(tx, endpointSeq, range);
    statements(tx).log.run(endpointSeq, ...range, ...outcome);
    statements(tx).remove.run(endpointSeq, ...range);
  }
}

/** Makes what is waiting of the range runs of its own. */
function cutOut(tx: Tx, endpointSeq: number, [first, last]: Range): void {
  for (const at of [first, last + 1]) {
    const { changes } = statements(tx).copyRest.run(endpointSeq, at);
    if (changes > 0) statements(tx).shorten.run(endpointSeq, at);
  }
}

/** Runs of numbers that follow each other. */
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

/** Deletes the first `count` runs of the endpoint's; returns how many there were. */
export const removeFirstWaiting = (tx: Tx, endpointSeq: number, count: number): number =>
  statements(tx).removeFirst.all(endpointSeq, count).length;

/** Of the events that something waits for, the first (events.seq); null when nothing does. */
export const firstWaitedFor = (db: Db): number | null => statements(db).firstEvent.get()?.seq ?? null;
