/**
 * The search index made anew from the mail that is stored, in portions: what is not reached yet is still found by its old
 * entry, and mail that is filed meanwhile has its entry already.
 */
import type { SearchEngine } from "../search/engine.ts";
import { readStoredAfter } from "../search/stored.ts";
import type { Tx } from "../store/store.ts";

export interface Reindexing {
  /**
   * Makes the entries of `limit` messages after the one numbered `after`, 0 before the first; `last`, the number to go on
   * after, is undefined when there are no more.
   */
  portion(tx: Tx, after: number, limit: number): { messages: number; last: number | undefined };
  /** Takes out the entries of messages that are gone. */
  prune(tx: Tx): void;
  /** Whether the index cannot be read, so that it has to be emptied first. */
  isDamaged(): boolean;
  /** Takes out all entries; the server goes on when this process does not. */
  empty(tx: Tx): void;
  /** All portions are made. */
  complete(tx: Tx): void;
  /** Has the index beside the database, if there is one, made anew by the server that runs. */
  refill(tx: Tx): void;
  /** Messages that it still lacks; undefined where there is none. */
  untold(): number | undefined;
}

export const createReindexing = (
  engine: Pick<SearchEngine, "rewrite" | "prune" | "isDamaged" | "empty" | "complete" | "refill" | "untold">,
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
  untold: engine.untold,
});
