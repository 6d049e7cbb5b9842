/**
 * Rows for everything still to be sent to Meilisearch: written in the transaction of the mail, deleted once sent.
 * Without Meilisearch nothing is written.
 */
import type { Runtime } from "../../base/runtime.ts";
import { MESSAGES_PER_THREAD } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
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

const statements = {
  active: statement<{ active: number }, []>("SELECT active FROM search_feed WHERE active"),
  feed: statement<Omit<FeedRow, "active"> & { active: number }, []>(
    `SELECT active, index_uid AS indexUid, replaced_uid AS replacedUid, settings_version AS settingsVersion,
       filled_through AS filledThrough, mark, previous_mark AS previousMark FROM search_feed`,
  ),
  begin: statement<unknown, [string, number, string]>(
    `INSERT INTO search_feed (id, active, index_uid, settings_version, filled_through, mark)
     VALUES (1, 1, ?1, ?2, ${NOT_MADE}, ?3)
     ON CONFLICT (id) DO UPDATE SET active = 1,
       replaced_uid = CASE WHEN filled_through = ${NOT_MADE} THEN replaced_uid ELSE index_uid END,
       index_uid = CASE WHEN filled_through = ${NOT_MADE} THEN index_uid ELSE ?1 END,
       settings_version = ?2, filled_through = ${NOT_MADE}, mark = ?3, previous_mark = NULL`,
  ),
  end: statement("UPDATE search_feed SET active = 0"),
  clear: statement("DELETE FROM search_changes"),
  made: statement<unknown, [number | null]>("UPDATE search_feed SET replaced_uid = NULL, filled_through = ?"),
  filled: statement<unknown, [number | null]>("UPDATE search_feed SET filled_through = ?"),
  marked: statement<unknown, [string, string | null]>("UPDATE search_feed SET mark = ?, previous_mark = ?"),
  add: statement<unknown, [number]>("INSERT INTO search_changes (message_seq) VALUES (?)"),
  next: statement<Change, [number]>(
    "SELECT seq, message_seq AS messageSeq FROM search_changes WHERE refused = 0 ORDER BY seq LIMIT ?",
  ),
  waits: statement<{ n: number }, []>("SELECT 1 AS n FROM search_changes WHERE refused = 0 LIMIT 1"),
  behind: statement<{ n: number }, []>("SELECT count(*) AS n FROM search_changes WHERE refused = 0"),
  refused: statement<{ n: number }, []>(
    "SELECT count(DISTINCT message_seq) AS n FROM search_changes WHERE refused = 1",
  ),
  sent: statement<unknown, [number, string]>(
    `DELETE FROM search_changes WHERE seq <= ? AND refused = 0 AND message_seq IN (SELECT value FROM json_each(?))`,
  ),
  forgive: statement<unknown, [string]>(
    "DELETE FROM search_changes WHERE refused = 1 AND message_seq IN (SELECT value FROM json_each(?))",
  ),
  refuse: statement<unknown, [number]>("INSERT INTO search_changes (message_seq, refused) VALUES (?, 1)"),
  left: statement<{ n: number }, [number]>(
    `SELECT count(*) AS n FROM messages INDEXED BY messages_by_thread
     WHERE thread_seq >= ?1 / ${MESSAGES_PER_THREAD} AND seq > ?1`,
  ),
};

/** Undefined if Meilisearch never was the engine. */
export function readMeilisearchFeed(db: Db): FeedRow | undefined {
  const row = statements.feed(db).get();
  return row ? { ...row, active: row.active === 1 } : undefined;
}

/** Starts recording changes; all stored mail goes into a new index. */
export function beginMeilisearchFeed(tx: Tx, settingsVersion: number, runtime: Pick<Runtime, "randomBytes">): void {
  statements.begin(tx).run(`mailroom-${drawRandomName(runtime)}`, settingsVersion, drawRandomName(runtime));
  statements.clear(tx).run();
}

/** A random name for an index or a mark. */
export const drawRandomName = (runtime: Pick<Runtime, "randomBytes">): string =>
  Buffer.from(runtime.randomBytes(8)).toString("hex");

/** Stops recording changes. */
export function endMeilisearchFeed(tx: Tx): void {
  statements.end(tx).run();
  statements.clear(tx).run();
}

/** Records that a message was added or changed. A trigger records deletions. */
export function noteSearchChange(tx: Tx, messageSeq: number): void {
  if (statements.active(tx).get()) statements.add(tx).run(messageSeq);
}

/** Records that the index was created and the previous one deleted. */
export const noteIndexCreated = (tx: Tx): void => void statements.made(tx).run(0);
export const setIndexFilledThrough = (tx: Tx, seq: number | null): void => void statements.filled(tx).run(seq);
/** `mark` is about to become the index's mark; `present` is the current one. */
export const setIndexMark = (tx: Tx, mark: string, present: string | null): void =>
  void statements.marked(tx).run(mark, present);

/** The oldest changes, up to `limit`. */
export const listNextSearchChanges = (db: Db, limit: number): Change[] => statements.next(db).all(limit);

/** Deletes changes up to `through` (search_changes.seq) of these messages, except the `refused` ones. */
export function removeSentSearchChanges(
  tx: Tx,
  through: number,
  messageSeqs: readonly number[],
  refused: readonly number[],
): void {
  const seqs = JSON.stringify(messageSeqs);
  statements.sent(tx).run(through, seqs);
  statements.forgive(tx).run(seqs);
  for (const seq of refused) statements.refuse(tx).run(seq);
}

export const hasSearchChanges = (db: Db): boolean => statements.waits(db).get() !== null;
export const countSearchChanges = (db: Db): number => statements.behind(db).get()?.n ?? 0;
/** Number of messages that the server refused. */
export const countRefusedByIndex = (db: Db): number => statements.refused(db).get()?.n ?? 0;
/** Number of messages stored after that one. */
export const countMessagesLeftToFill = (db: Db, filledThrough: number): number =>
  statements.left(db).get(filledThrough)?.n ?? 0;
/** Number of messages still to be sent. */
export const countMessagesToIndex = (db: Db, { filledThrough }: FeedRow): number =>
  countSearchChanges(db) + (filledThrough === null ? 0 : countMessagesLeftToFill(db, filledThrough));
