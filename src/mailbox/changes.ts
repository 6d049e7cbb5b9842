/**
 * What changed, in the order in which it was committed, by whatever way and process: mail that came, moves, labels, read
 * state, drafts, outcomes of what was sent, deletions. Written by triggers (0009_reading.sql).
 */
import { gt, max, sql } from "drizzle-orm";
import { prepared } from "../store/prepared.ts";
import { threadChanges } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

/** A conversation that changed, or is gone. Its number grows with every change. */
export interface ThreadChanged {
  seq: number;
  threadSeq: number;
  threadId: string;
  mailboxId: string;
}

/** Changes that are kept: who has seen none of them has to ask for everything again. */
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
 * The conversations of all mailboxes that changed after the change `seq`, oldest first, at most `limit`; undefined when
 * that is longer ago than is remembered.
 */
export function changesSince(db: Db, seq: number, limit: number): ThreadChanged[] | undefined {
  return latestChange(db) - seq > KEPT ? undefined : statements(db).since.all({ seq, limit });
}
