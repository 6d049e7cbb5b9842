/** Deletes old entries of the journal, and what would take old changes back (rules: Journal). */
import type { Job } from "../base/scheduler.ts";
import type { Options } from "../store/settings.ts";
import { prepared } from "../store/statement.ts";
import type { Store, Tx } from "../store/store.ts";
import { forgetChangesBefore, forgetChangesOf } from "./key-changes.ts";

const DAY_MS = 86_400_000;
const LOOK_MS = 3_600_000;
/** Rows that one transaction deletes. */
const PORTION = 500;

const statements = prepared(({ $client: sqlite }) => {
  const remove = (condition: string) =>
    sqlite.prepare<unknown, [before: number]>(
      `DELETE FROM journal_entries WHERE seq IN
         (SELECT seq FROM journal_entries WHERE at < ? AND ${condition} ORDER BY at LIMIT ${PORTION})`,
    );
  return {
    reads: remove("reads IS NOT NULL"),
    others: remove("reads IS NULL"),
    ofKey: sqlite.prepare<unknown, [workspace: string, key: string]>(
      `DELETE FROM journal_entries WHERE seq IN
         (SELECT seq FROM journal_entries WHERE workspace_id = ? AND key_id = ? LIMIT ${PORTION})`,
    ),
  };
});

export function forgetJournal(store: Pick<Store, "enqueue">, options: Pick<Options, "get">): Job {
  return {
    name: "forget-journal",
    deletes: true,
    async runDue(now) {
      const before = (days: number): number => now - days * DAY_MS;
      const kept = before(options.get("retention.journalDays"));
      const keptReads = before(options.get("retention.journalReadDays"));
      while ((await store.enqueue((tx) => statements(tx).reads.run(keptReads).changes)) > 0);
      while ((await store.enqueue((tx) => statements(tx).others.run(kept).changes)) > 0);
      while ((await store.enqueue((tx) => forgetChangesBefore(tx, kept, PORTION))) > 0);
      return now + LOOK_MS;
    },
  };
}

/** Deletes a portion of all that the journal has of a key. False if nothing was left. */
export const forgetKey = (tx: Tx, workspaceId: string, keyId: string): boolean =>
  statements(tx).ofKey.run(workspaceId, keyId).changes > 0 || forgetChangesOf(tx, workspaceId, keyId, PORTION) > 0;
