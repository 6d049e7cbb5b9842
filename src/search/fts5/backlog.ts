/**
 * Stored mail that the embedded index has yet to take in: all of it after an upgrade that changed the index, or once it was
 * emptied. The server does it beside its work, the newest first. A row says how far it came, written with the entries
 * themselves, so whatever ends the process, it goes on from there. Mail that is filed meanwhile is indexed as ever; what is
 * reached a second time is replaced.
 */
import type { Runtime } from "../../base/runtime.ts";
import type { Job } from "../../base/scheduler.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Store, Tx } from "../../store/store.ts";
import type { SearchEngine } from "../engine.ts";
import type { IndexDocument } from "../fold.ts";
import { readStoredBefore } from "../stored.ts";

interface Backlog {
  /** The messages below this messages.seq are still to be looked at. */
  belowSeq: number;
  /** About how many they are. */
  messages: number;
}

const statements = prepared(({ $client: client }) => ({
  read: client.prepare<Backlog, []>("SELECT below_seq AS belowSeq, messages FROM search_backlog"),
  begin: client.prepare(
    `INSERT OR REPLACE INTO search_backlog (id, below_seq, messages)
     SELECT 1, max(seq) + 1, count(*) FROM messages HAVING count(*) > 0`,
  ),
  advance: client.prepare<unknown, [number, number]>("UPDATE search_backlog SET below_seq = ?, messages = ?"),
  end: client.prepare("DELETE FROM search_backlog"),
}));

/** About how many messages the index lacks; 0 when it has all. */
export const countBacklog = (db: Db): number => statements(db).read.get()?.messages ?? 0;

/** From now on the index lacks all mail that is stored. */
export function beginBacklog(tx: Tx): void {
  statements(tx).begin.run();
}

/** It lacks none. */
export function endBacklog(tx: Tx): void {
  statements(tx).end.run();
}

/** Messages read at once, and characters of their words from which a portion has no more, whatever its `limit`. */
const SLICE = 10;
const CHARACTERS_OF_A_PORTION = 400_000;

const charactersOf = (document: IndexDocument): number =>
  Object.values(document).reduce((sum: number, field: string) => sum + field.length, 0);

/** Indexes the newest `limit` of what is lacking, or fewer if they are long; false when nothing is. */
function takeIn(tx: Tx, engine: Pick<SearchEngine, "rewrite">, limit: number): boolean {
  const backlog = statements(tx).read.get();
  if (!backlog) return false;
  let { belowSeq } = backlog;
  let [taken, characters, more] = [0, 0, true];
  while (more && taken < limit && characters < CHARACTERS_OF_A_PORTION) {
    const slice = readStoredBefore(tx, belowSeq, SLICE);
    more = slice.length === SLICE;
    for (const { seq, workspaceId, mailboxId, fold } of slice) {
      if (taken === limit || characters >= CHARACTERS_OF_A_PORTION) {
        more = true;
        break;
      }
      const document = fold();
      engine.rewrite(tx, seq, { workspaceId, mailboxId }, document);
      characters += charactersOf(document);
      belowSeq = seq;
      taken++;
    }
  }
  // There is a message at least: of those counted, some may be deleted, and others were not there to be counted.
  if (more) statements(tx).advance.run(belowSeq, Math.max(1, backlog.messages - taken));
  else endBacklog(tx);
  return more;
}

/** How long the event loop may wait for a portion, ms, and how many messages it has: of the first, at least, at most. */
const PORTION_MS = 10;
const FIRST = 64;
const FEWEST = 4;
const MOST = 200;
/** Works committed a second above which it stands back, to a portion each second. */
const YIELDS_TO = 20;
const YIELD_MS = 1_000;

/** The job that catches up. The first portion is done as the server starts: a small mailbox is complete by then. */
export function createBacklogJob(
  store: Pick<Store, "db" | "onCommit" | "enqueue">,
  engine: Pick<SearchEngine, "rewrite" | "maintain">,
  runtime: Pick<Runtime, "now">,
): Job {
  let committed = 0;
  let lookedAt = 0;
  let room = FIRST;
  store.onCommit((works) => {
    committed += works;
  });
  return {
    name: "search-backlog",
    async runDue(now) {
      if (countBacklog(store.db) === 0) return null;
      const works = committed;
      // The event loop turns while another process writes.
      const more = await store.enqueue((tx) => takeIn(tx, engine, room));
      // So many small portions would have FTS5 merge them all at once.
      engine.maintain();
      const took = runtime.now() - now;
      room = Math.min(MOST, Math.max(FEWEST, Math.min(2 * room, Math.floor((room * PORTION_MS) / Math.max(1, took)))));
      const busy = (works * 1_000) / Math.max(1, now - lookedAt) > YIELDS_TO;
      committed = 0;
      lookedAt = now;
      if (!more) return null;
      // As long as it took, the others have their turn.
      return runtime.now() + (busy ? YIELD_MS : Math.max(1, took));
    },
  };
}
