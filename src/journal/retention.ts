/**
 * Deletes old entries of the journal, and what would take old changes back (rules: Journal); the oldest also where there are
 * very many, since a key may make thousands a minute, and a full disk would stop the mail of all.
 */
import type { Job } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { statement } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import { forgetKeyChanges, forgetKeyChangesBefore } from "./key-changes.ts";

const DAY_MS = 86_400_000;
const LOOK_MS = 10 * 60_000;
/** Rows that are kept at most, counting from the latest: of either table some 1.7 GB. */
const MOST = 5_000_000;
/** The oldest row that is left may be gone with its mailbox. */
const NEARLY = 0.99;
/** Rows that one transaction deletes. */
const PORTION = 500;

const remove = (condition: string) =>
  statement<unknown, [before: number]>(
    `DELETE FROM journal_entries WHERE seq IN
       (SELECT seq FROM journal_entries WHERE at < ? AND ${condition} ORDER BY at LIMIT ${PORTION})`,
  );
const excess = (table: string) =>
  statement<unknown, [most: number]>(
    `DELETE FROM ${table} WHERE seq IN (SELECT seq FROM ${table}
       WHERE seq <= (SELECT max(seq) FROM ${table}) - ? ORDER BY seq LIMIT ${PORTION})`,
  );

const statements = {
  reads: remove("reads IS NOT NULL"),
  others: remove("reads IS NULL"),
  excessEntries: excess("journal_entries"),
  excessChanges: excess("key_changes"),
  oldest: statement<{ at: number; span: number }, []>(
    `SELECT at, (SELECT max(seq) FROM key_changes) - seq + 1 AS span FROM key_changes ORDER BY seq LIMIT 1`,
  ),
  ofKey: statement<unknown, [workspace: string, key: string]>(
    `DELETE FROM journal_entries WHERE seq IN
       (SELECT seq FROM journal_entries WHERE workspace_id = ? AND key_id = ? LIMIT ${PORTION})`,
  ),
};

/** `most`: rows of either table. */
export function forgetOldJournalEntries({ store, options }: Core, most = MOST): Job {
  return {
    name: "forget-journal",
    deletes: true,
    async runDue(now) {
      const before = (days: number): number => now - days * DAY_MS;
      const cutoff = before(options.get("retention.journalDays"));
      const readsCutoff = before(options.get("retention.journalReadDays"));
      while ((await store.enqueue((tx) => statements.reads(tx).run(readsCutoff).changes)) > 0);
      while ((await store.enqueue((tx) => statements.others(tx).run(cutoff).changes)) > 0);
      while ((await store.enqueue((tx) => forgetKeyChangesBefore(tx, cutoff, PORTION))) > 0);
      while ((await store.enqueue((tx) => statements.excessEntries(tx).run(most).changes)) > 0);
      while ((await store.enqueue((tx) => statements.excessChanges(tx).run(most).changes)) > 0);
      return now + LOOK_MS;
    },
  };
}

/** Since when all changes of keys are kept, epoch ms. */
export function getKeyChangesKeptSince({ db, now, options }: Core, most = MOST): number {
  const byAge = now() - options.get("retention.journalDays") * DAY_MS;
  const oldest = statements.oldest(db).get();
  // Others were deleted for their number only if what is left reaches to that limit.
  return oldest && oldest.span >= most * NEARLY ? Math.max(byAge, oldest.at) : byAge;
}

/** Deletes a portion of all that the journal has of a key. False if nothing was left. */
export const forgetKeyJournal = (tx: Tx, workspaceId: string, keyId: string): boolean =>
  statements.ofKey(tx).run(workspaceId, keyId).changes > 0 || forgetKeyChanges(tx, workspaceId, keyId, PORTION) > 0;
