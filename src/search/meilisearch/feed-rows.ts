/**
 * Rows for everything still to be sent to Meilisearch: written in the transaction of the mail, deleted once sent.
 * Without Meilisearch nothing is written.
 */
import type { Runtime } from "../../base/runtime.ts";
import { MESSAGES_PER_THREAD } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";

export interface FeedRow {
  active: boolean;
  indexUid: string;
  replacedUid: string | null;
  settingsVersion: number;
  /** -1 before the index is created; null once all earlier mail is in it. */
  filledThrough: number | null;
  mark: string;
  previousMark: string | null;
}

export interface Change {
  seq: number;
  messageSeq: number;
}

/** Value of filled_through while the index is still to be created. */
export const NOT_MADE = -1;

const statements = prepared(({ $client: client }) => ({
  active: client.prepare<{ active: number }, []>("SELECT active FROM search_feed WHERE active"),
  feed: client.prepare<Omit<FeedRow, "active"> & { active: number }, []>(
    `SELECT active, index_uid AS indexUid, replaced_uid AS replacedUid, settings_version AS settingsVersion,
       filled_through AS filledThrough, mark, previous_mark AS previousMark FROM search_feed`,
  ),
  begin: client.prepare<unknown, [string, number, string]>(
    `INSERT INTO search_feed (id, active, index_uid, settings_version, filled_through, mark)
     VALUES (1, 1, ?1, ?2, ${NOT_MADE}, ?3)
     ON CONFLICT (id) DO UPDATE SET active = 1,
       replaced_uid = CASE WHEN filled_through = ${NOT_MADE} THEN replaced_uid ELSE index_uid END,
       index_uid = CASE WHEN filled_through = ${NOT_MADE} THEN index_uid ELSE ?1 END,
       settings_version = ?2, filled_through = ${NOT_MADE}, mark = ?3, previous_mark = NULL`,
  ),
  end: client.prepare("UPDATE search_feed SET active = 0"),
  clear: client.prepare("DELETE FROM search_changes"),
  made: client.prepare<unknown, [number | null]>("UPDATE search_feed SET replaced_uid = NULL, filled_through = ?"),
  filled: client.prepare<unknown, [number | null]>("UPDATE search_feed SET filled_through = ?"),
  marked: client.prepare<unknown, [string, string | null]>("UPDATE search_feed SET mark = ?, previous_mark = ?"),
  add: client.prepare<unknown, [number]>("INSERT INTO search_changes (message_seq) VALUES (?)"),
  next: client.prepare<Change, [number]>(
    "SELECT seq, message_seq AS messageSeq FROM search_changes WHERE refused = 0 ORDER BY seq LIMIT ?",
  ),
  waits: client.prepare<{ n: number }, []>("SELECT 1 AS n FROM search_changes WHERE refused = 0 LIMIT 1"),
  behind: client.prepare<{ n: number }, []>("SELECT count(*) AS n FROM search_changes WHERE refused = 0"),
  refused: client.prepare<{ n: number }, []>(
    "SELECT count(DISTINCT message_seq) AS n FROM search_changes WHERE refused = 1",
  ),
  sent: client.prepare<unknown, [number, string]>(
    `DELETE FROM search_changes WHERE seq <= ? AND refused = 0 AND message_seq IN (SELECT value FROM json_each(?))`,
  ),
  forgive: client.prepare<unknown, [string]>(
    "DELETE FROM search_changes WHERE refused = 1 AND message_seq IN (SELECT value FROM json_each(?))",
  ),
  refuse: client.prepare<unknown, [number]>("INSERT INTO search_changes (message_seq, refused) VALUES (?, 1)"),
  left: client.prepare<{ n: number }, [number]>(
    `SELECT count(*) AS n FROM messages INDEXED BY messages_by_thread
     WHERE thread_seq >= ?1 / ${MESSAGES_PER_THREAD} AND seq > ?1`,
  ),
}));

/** Undefined if Meilisearch never was the engine. */
export function readFeed(db: Db): FeedRow | undefined {
  const row = statements(db).feed.get();
  return row ? { ...row, active: row.active === 1 } : undefined;
}

/** Starts recording changes; all stored mail goes into a new index. */
export function beginFeed(tx: Tx, settingsVersion: number, runtime: Pick<Runtime, "randomBytes">): void {
  statements(tx).begin.run(`mailroom-${drawName(runtime)}`, settingsVersion, drawName(runtime));
  statements(tx).clear.run();
}

/** A random name for an index or a mark. */
export const drawName = (runtime: Pick<Runtime, "randomBytes">): string =>
  Buffer.from(runtime.randomBytes(8)).toString("hex");

/** Stops recording changes. */
export function endFeed(tx: Tx): void {
  statements(tx).end.run();
  statements(tx).clear.run();
}

/** Records that a message was added or changed. A trigger records deletions. */
export function noteChange(tx: Tx, messageSeq: number): void {
  if (statements(tx).active.get()) statements(tx).add.run(messageSeq);
}

/** Records that the index was created and the previous one deleted. */
export const setMade = (tx: Tx): void => void statements(tx).made.run(0);
export const setFilledThrough = (tx: Tx, seq: number | null): void => void statements(tx).filled.run(seq);
/** `mark` is about to become the index's mark; `present` is the current one. */
export const setMark = (tx: Tx, mark: string, present: string | null): void =>
  void statements(tx).marked.run(mark, present);

/** The oldest changes, up to `limit`. */
export const nextChanges = (db: Db, limit: number): Change[] => statements(db).next.all(limit);

/** Deletes changes up to `through` (search_changes.seq) of these messages, except the `refused` ones. */
export function setSent(tx: Tx, through: number, messageSeqs: readonly number[], refused: readonly number[]): void {
  const seqs = JSON.stringify(messageSeqs);
  statements(tx).sent.run(through, seqs);
  statements(tx).forgive.run(seqs);
  for (const seq of refused) statements(tx).refuse.run(seq);
}

export const hasChanges = (db: Db): boolean => statements(db).waits.get() !== null;
export const countChanges = (db: Db): number => statements(db).behind.get()?.n ?? 0;
/** Number of messages that the server refused. */
export const countRefused = (db: Db): number => statements(db).refused.get()?.n ?? 0;
/** Number of messages stored after that one. */
export const countUnfilled = (db: Db, filledThrough: number): number => statements(db).left.get(filledThrough)?.n ?? 0;
/** Number of messages still to be sent. */
export const countPending = (db: Db, { filledThrough }: FeedRow): number =>
  countChanges(db) + (filledThrough === null ? 0 : countUnfilled(db, filledThrough));
