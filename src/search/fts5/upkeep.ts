/**
 * Completes and merges the embedded index in the background, in short steps that yield to mail.
 *
 * The backlog is the stored mail that the index lacks: all of it after an upgrade that changed the index, or after it
 * was emptied. It is indexed newest first. A row records the progress in the transaction of the entries, so the work
 * resumes after any interruption. Mail filed meanwhile is indexed as usual; a message reached twice is replaced. Single
 * messages wait in rows of their own, and come first: copies of a long message that filing could not index at once, and
 * what an upgrade indexes differently.
 */
import type { Job } from "../../base/scheduler.ts";
import type { Core } from "../../store/core.ts";
import { statement } from "../../store/statement.ts";
import type { Db, Store, Tx } from "../../store/store.ts";
import type { SearchEngine } from "../engine.ts";
import { countDocumentCharacters } from "../fold.ts";
import {
  readStoredMessages,
  readStoredMessagesAfter,
  readStoredMessagesBefore,
  type StoredMessage,
} from "../stored.ts";

interface Backlog {
  /** Messages below this messages.seq are still to be indexed. */
  belowSeq: number;
  /** Their approximate number. */
  messages: number;
}

const statements = {
  read: statement<Backlog, []>("SELECT below_seq AS belowSeq, messages FROM search_backlog"),
  begin: statement(
    `INSERT OR REPLACE INTO search_backlog (id, below_seq, messages)
     SELECT 1, max(seq) + 1, count(*) FROM messages HAVING count(*) > 0`,
  ),
  advance: statement<unknown, [number, number]>("UPDATE search_backlog SET below_seq = ?, messages = ?"),
  end: statement("DELETE FROM search_backlog"),
  putOff: statement<unknown, [number]>("INSERT OR IGNORE INTO search_waiting (message_seq) VALUES (?)"),
  nextWaiting: statement<{ seq: number }, []>(
    "DELETE FROM search_waiting WHERE message_seq = (SELECT max(message_seq) FROM search_waiting) RETURNING message_seq AS seq",
  ),
  countWaiting: statement<{ messages: number }, []>("SELECT count(*) AS messages FROM search_waiting"),
};

/** Approximate number of messages that the index lacks; 0 if it is complete. */
export const countIndexBacklog = (db: Db): number =>
  (statements.read(db).get()?.messages ?? 0) + (statements.countWaiting(db).get()?.messages ?? 0);

/** Records that the index lacks a stored message. */
export function postponeIndexing(tx: Tx, messageSeq: number): void {
  statements.putOff(tx).run(messageSeq);
}

/** Records that the index lacks all stored mail. */
export function beginIndexBacklog(tx: Tx): void {
  statements.begin(tx).run();
}

/** Records that the index lacks only messages that were put off. */
export function endIndexBacklog(tx: Tx): void {
  statements.end(tx).run();
}

/** Messages read at once, and the number of characters at which a portion ends whatever its `limit`. */
const SLICE = 10;
const CHARACTERS_OF_A_PORTION = 400_000;

/**
 * Rewrites the entries of `limit` messages after the one numbered `after` (0 for the first). `last`: the number to continue
 * from, undefined at the end. An old entry is found until its message is reached.
 */
export function reindexPortion(
  tx: Tx,
  engine: Pick<SearchEngine, "rewrite">,
  after: number,
  limit: number,
): { messages: number; last: number | undefined } {
  const portion = readStoredMessagesAfter(tx, after, limit);
  for (const { seq, workspaceId, mailboxId, fold } of portion) {
    engine.rewrite(tx, seq, { workspaceId, mailboxId }, fold());
  }
  return { messages: portion.length, last: portion.at(-1)?.seq };
}

/** Indexes up to `limit` missing messages, or fewer if they are long: those put off, then the newest of the backlog. */
export function indexMissingMessages(tx: Tx, engine: Pick<SearchEngine, "rewrite">, limit: number): void {
  let [taken, characters] = [0, 0];
  const isFull = () => taken === limit || characters >= CHARACTERS_OF_A_PORTION;
  const index = ({ seq, workspaceId, mailboxId, fold }: StoredMessage): void => {
    const document = fold();
    engine.rewrite(tx, seq, { workspaceId, mailboxId }, document);
    characters += countDocumentCharacters(document);
    taken++;
  };

  for (let next = statements.nextWaiting(tx).get(); next; next = isFull() ? null : statements.nextWaiting(tx).get()) {
    readStoredMessages(tx, [next.seq]).forEach(index);
  }

  const backlog = statements.read(tx).get();
  if (!backlog) return;
  let { belowSeq, messages } = backlog;
  let more = true;
  while (more && !isFull()) {
    const slice = readStoredMessagesBefore(tx, belowSeq, SLICE);
    more = slice.length === SLICE;
    for (const message of slice) {
      if (isFull()) {
        more = true;
        break;
      }
      index(message);
      belowSeq = message.seq;
      messages--;
    }
  }
  // At least one message is left. The count is approximate, because messages were deleted and added since.
  if (more) statements.advance(tx).run(belowSeq, Math.max(1, messages));
  else endIndexBacklog(tx);
}

/** Commits per second above which the jobs pause, because mail comes first, and for how long. */
const YIELDS_TO = 20;
const YIELD_MS = 1_000;

/** Measures how often the store commits. */
function createCommitRate(store: Store) {
  let committed = 0;
  let since = 0;
  store.onCommit((works) => {
    committed += works;
  });
  return {
    isHigh: (now: number): boolean => (committed * 1_000) / Math.max(1, now - since) > YIELDS_TO,
    /** Forgets all commits, and counts anew as of `now`. */
    restart(now: number): void {
      committed = 0;
      since = now;
    },
  };
}

/** Longest portion in ms, and its size in messages: first, minimum, maximum. */
const PORTION_MS = 10;
const FIRST = 64;
const FEWEST = 4;
const MOST = 200;

/** The job that indexes the backlog. Its first portion runs as the server starts, and completes a small mailbox. */
export function indexBacklog({ store, db, now: clock }: Core, engine: Pick<SearchEngine, "rewrite">): Job {
  const commits = createCommitRate(store);
  let room = FIRST;
  return {
    name: "search-backlog",
    async runDue(now) {
      if (countIndexBacklog(db) === 0) return null;
      const busy = commits.isHigh(now);
      // Does not block the event loop while another process writes.
      await store.enqueue((tx) => indexMissingMessages(tx, engine, room));
      const took = clock() - now;
      room = Math.min(MOST, Math.max(FEWEST, Math.min(2 * room, Math.floor((room * PORTION_MS) / Math.max(1, took)))));
      // Its own commit does not count.
      commits.restart(now);
      if (countIndexBacklog(db) === 0) return null;
      // Pauses for as long as the portion took.
      return clock() + (busy ? YIELD_MS : Math.max(1, took));
    },
  };
}

/** Time between two steps while there is something to merge, and between checks otherwise. */
const MERGE_STEP_MS = 50;
const MERGE_LOOK_MS = 10_000;

/** The job that merges the index in short steps. While it pauses, filing merges what it must (fts5.ts). */
export function maintainIndex({ store }: Core, engine: Pick<SearchEngine, "maintain">): Job {
  const commits = createCommitRate(store);
  return {
    name: "index-upkeep",
    runDue(now) {
      const busy = commits.isHigh(now);
      commits.restart(now);
      if (busy) return now + YIELD_MS;
      return now + (engine.maintain() ? MERGE_STEP_MS : MERGE_LOOK_MS);
    },
  };
}
