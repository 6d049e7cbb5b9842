/**
 * What a search engine does for the mailbox. fts5.ts is inside the database; what a server beside the appliance adds is
 * joined to it in search.ts. That may be asked, so `match` may take its time.
 *
 * Who may read what is a condition of the engine's own query, never a filter on its answer. Bcc is not in the index.
 */
import type { Tx } from "../store/store.ts";
import type { IndexDocument } from "./fold.ts";
import type { Query } from "./query.ts";
import type { SeqSet } from "./sets.ts";

/** Where a message lies. */
export interface DocumentScope {
  workspaceId: string;
  mailboxId: string;
}

/** The mailboxes to look in. `workspaceId` is set when they are all that the workspace has: one word instead of many. */
export interface SearchScope {
  mailboxIds: readonly string[];
  workspaceId?: string | undefined;
}

/** What was found by words that are not quite those asked for. */
export interface Loose {
  /** threads.seq, ascending, each once. */
  threads: number[];
  /** Folded words that stand in what was found in some of these, near those asked for that do not. */
  wordsIn(threads: readonly number[]): Promise<string[]>;
}

/** A conversation (threads.seq), and how well that message of it answers which does so best: more is better. */
export interface Ranked {
  thread: number;
  score: number;
}

export interface SearchEngine {
  /** Indexes a stored message, once, in the transaction that stores it. Deleting the message takes it out again. */
  add(tx: Tx, messageSeq: number, scope: DocumentScope, document: IndexDocument): void;
  /** The same for a message that is indexed already and says something else from now on. */
  replace(tx: Tx, messageSeq: number, scope: DocumentScope, document: IndexDocument): void;
  /** Indexes anew a message that says what it said before. */
  rewrite(tx: Tx, messageSeq: number, scope: DocumentScope, document: IndexDocument): void;
  /** Has what is kept beside the database made anew, too, by the server that runs. */
  refill(tx: Tx): void;
  /** Messages that are still to be told to what is beside the database; undefined where nothing is. */
  untold(): number | undefined;
  /** Takes out what is indexed of messages that are no longer stored. */
  prune(tx: Tx): void;
  /** Whether what is kept of the index can be read as one. Reads all of it. */
  isDamaged(): boolean;
  /** Takes out everything; the server takes in again what is stored, unless somebody else does before it. */
  empty(tx: Tx): void;
  /** All that is stored is indexed. */
  complete(tx: Tx): void;
  /**
   * The conversations in scope with a message that satisfies every message-level condition of the query. Thread-level
   * conditions are the caller's. The set may be given again: it is not to be changed.
   */
  match(query: Query, scope: SearchScope): SeqSet | Promise<SeqSet>;
  /**
   * For a query that `match` finds nothing for: what it finds if typos are forgiven. Undefined for an engine that forgives
   * none, for a query with quotes or exclusions, and when there is nothing then either.
   */
  matchLoosely?(query: Query, scope: SearchScope): Promise<Loose | undefined>;
  /**
   * How well conversations answer a query that wants words. `found`: the conversations that `match`, or when `isLoose`
   * `matchLoosely`, gave for it, or some of them, ascending. It looks at a bounded number of them. Undefined for an engine
   * that cannot tell: then the embedded index does (ranking.ts).
   */
  rank?(
    query: Query,
    scope: SearchScope,
    found: readonly number[],
    isLoose: boolean,
  ): Promise<readonly Ranked[] | undefined>;
  /**
   * Does a short piece of upkeep, some milliseconds, and says whether there is more: for whenever nothing else is to be
   * done after mail was filed. Commits by itself, so never inside a transaction.
   */
  maintain(): boolean;
  /**
   * The same, until nothing is left of what was deleted: `begin` is true for the first step, and its answer says whether
   * there are more.
   */
  purge(begin: boolean): boolean;
}
