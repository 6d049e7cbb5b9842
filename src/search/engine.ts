/**
 * The contract of a search engine. The engine of fts5.ts is inside the database. That of search.ts may ask an external
 * server instead, so `match` may be asynchronous.
 *
 * Access is a condition of the engine's own query, never a filter on its results. Bcc is not in the index.
 */
import type { Tx } from "../store/store.ts";
import type { IndexDocument } from "./fold.ts";
import type { Query } from "./query.ts";
import type { SeqSet } from "./sets.ts";

/** The workspace and mailbox of a message. */
export interface DocumentScope {
  workspaceId: string;
  mailboxId: string;
}

/**
 * The mailboxes to search. `workspaceId` is set if they are all of a workspace: a query then needs one word for all.
 */
export interface SearchScope {
  mailboxIds: readonly string[];
  workspaceId?: string | undefined;
}

/** The result of a search for similar words. */
export interface Loose {
  /** threads.seq, ascending, distinct. */
  threads: number[];
  /** Folded words found in some of these conversations in place of similar words of the query. */
  wordsIn(threads: readonly number[]): Promise<string[]>;
}

/** A conversation (threads.seq) with the score of its best message; higher is better. */
export interface Ranked {
  thread: number;
  score: number;
}

/** Messages (messages.seq) whose body may have a text. */
export interface InBodies {
  messages: number[];
  /**
   * The text is a word, or its beginning, and these have one that begins so. Else it is longer: these may have it, and no
   * others do.
   */
  isWord: boolean;
}

/** Asking an index. Code that needs no more of the engine can run in a process that cannot write. */
export interface SearchIndex {
  /**
   * The conversations in scope with a message that satisfies every message-level condition of the query. The caller
   * checks thread-level conditions. The set is shared: do not modify it.
   */
  match(query: Query, scope: SearchScope): SeqSet | Promise<SeqSet>;
  /**
   * The messages of a mailbox whose body, as far as it is indexed, has a text in any case, also within words. Undefined if
   * the index cannot tell: of a part of few letters, of one with nothing else before it, while it lacks mail.
   */
  inBodies(text: string, mailboxId: string): InBodies | undefined;
  /**
   * For a query without a match: the result if typos are forgiven. Undefined for an engine that forgives none, for a
   * query with quotes or exclusions, and for an empty result.
   */
  matchLoosely?(query: Query, scope: SearchScope): Promise<Loose | undefined>;
  /**
   * Scores conversations for a query that contains words. `found`: some or all of the conversations from `match`, or
   * from `matchLoosely` if `isLoose`, ascending. Examines a bounded number of them. Undefined if the engine cannot
   * rank; the embedded index then does (fts5/hits.ts).
   */
  rank?(
    query: Query,
    scope: SearchScope,
    found: readonly number[],
    isLoose: boolean,
  ): Promise<readonly Ranked[] | undefined>;
}

export interface SearchEngine extends SearchIndex {
  /** True if the settings have an external server answer searches, which only this process asks. */
  isExternal(): boolean;
  /**
   * Indexes a stored message once, in the transaction that stores it. Deleting the message removes it from the index.
   */
  add(tx: Tx, messageSeq: number, scope: DocumentScope, document: IndexDocument): void;
  /**
   * Indexes like `add`, but soon after the commit (fts5/upkeep.ts), for a message whose words would take the transaction too
   * long. It is done even after a crash.
   */
  addLater(tx: Tx, messageSeq: number): void;
  /** Indexes, like `add`, an indexed message whose content has changed. */
  replace(tx: Tx, messageSeq: number, scope: DocumentScope, document: IndexDocument): void;
  /** Indexes a message with unchanged content again; an external index keeps what it has. */
  rewrite(tx: Tx, messageSeq: number, scope: DocumentScope, document: IndexDocument): void;
  /** Makes the running server refill the external index, too. */
  refill(tx: Tx): void;
  /** Messages still to be sent to the external index; undefined without one. */
  pending(): number | undefined;
  /** Removes the entries of messages that are no longer stored. */
  prune(tx: Tx): void;
  /** True if the stored index is unreadable. Reads all of it. */
  isDamaged(): boolean;
  /** Removes everything. The server then indexes stored mail again, unless `complete` is called first. */
  empty(tx: Tx): void;
  /** Records that everything stored is indexed. */
  complete(tx: Tx): void;
  /**
   * Does a piece of upkeep of some milliseconds, and returns true if there is more. Called when the process is idle
   * after filing. Commits on its own, so never inside a transaction.
   */
  maintain(): boolean;
  /**
   * Does a step of removing all traces of deleted mail, and returns true if there are more. `begin`: the first step.
   */
  purge(begin: boolean): boolean;
}
