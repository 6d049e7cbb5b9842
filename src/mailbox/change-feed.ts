/**
 * The feed of changed conversations in commit order, for any cause and process: arriving mail, moves, labels, read
 * state, drafts, delivery outcomes, deletions. Triggers write it (0009_reading.sql).
 */
import { gt, max, sql } from "drizzle-orm";
import { threadChanges } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

/** A conversation that was changed or deleted. Its number grows with every change. */
export interface ThreadChanged {
  seq: number;
  threadSeq: number;
  threadId: string;
  mailboxId: string;
}

/** Number of changes kept. A client that is further behind must fetch everything again. */
const KEPT = 20_000;

const statements = prepared((db) => ({
  latest: db
    .select({ seq: max(threadChanges.seq) })
    .from(threadChanges)
    .prepare(),
  since: db
    .select()
    .from(threadChanges)
    .where(gt(threadChanges.seq, sql.placeholder("seq")))
    .orderBy(threadChanges.seq)
    .limit(sql.placeholder("limit"))
    .prepare(),
}));

/** The number of the latest change; 0 before the first. */
export const latestChange = (db: Db): number => statements(db).latest.get()?.seq ?? 0;

/**
 * The conversations in all mailboxes that changed after the change `seq`, oldest first, at most `limit`; undefined if
 * the feed no longer reaches back that far.
 */
export function changesSince(db: Db, seq: number, limit: number): ThreadChanged[] | undefined {
  const behind = latestChange(db) - seq;
  if (behind === 0) return [];
  return behind > KEPT ? undefined : statements(db).since.all({ seq, limit });
}
