/**
 * Rebuilds the search index from stored mail, in portions: messages not reached yet are found by their old entry, and
 * mail filed meanwhile already has its entry.
 */
import type { SearchEngine } from "../search/engine.ts";
import { readStoredAfter } from "../search/stored.ts";
import type { Tx } from "../store/store.ts";

export interface Reindexing {
  /**
   * Rewrites the entries of `limit` messages after the one numbered `after` (0 for the first). `last` is the number to
   * continue from, undefined at the end.
   */
  portion(tx: Tx, after: number, limit: number): { messages: number; last: number | undefined };
  /** Removes the entries of deleted messages. */
  prune(tx: Tx): void;
  /** True if the index cannot be read and must be emptied first. */
  isDamaged(): boolean;
  /** Removes all entries. If this process stops, the server continues. */
  empty(tx: Tx): void;
  /** Records that all portions are done. */
  complete(tx: Tx): void;
  /** Makes the running server refill the external index, if there is one. */
  refill(tx: Tx): void;
  /** Messages that the external index still lacks; undefined without one. */
  pending(): number | undefined;
}

export const createReindexing = (
  engine: Pick<SearchEngine, "rewrite" | "prune" | "isDamaged" | "empty" | "complete" | "refill" | "pending">,
): Reindexing => ({
  portion(tx, after, limit) {
    const portion = readStoredAfter(tx, after, limit);
    for (const { seq, workspaceId, mailboxId, fold } of portion) {
      engine.rewrite(tx, seq, { workspaceId, mailboxId }, fold());
    }
    return { messages: portion.length, last: portion.at(-1)?.seq };
  },
  prune: engine.prune,
  isDamaged: engine.isDamaged,
  empty: engine.empty,
  complete: engine.complete,
  refill: engine.refill,
  pending: engine.pending,
});
