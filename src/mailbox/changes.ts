/**
 * What changed, in the order in which it was committed, by whatever way and process: mail that came, moves, labels, read
 * state, drafts, outcomes of what was sent, deletions. Written by triggers (0009_reading.sql).
 */
import { and, asc, eq, gt, isNotNull, lte, max, min, sql } from "drizzle-orm";
import { notFound } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import { threadChanges, threads } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { moveMessages } from "./folders.ts";
import { markUnread } from "./read-state.ts";
import type { ThreadRow } from "./threading.ts";

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

/*
 * Snoozing: a conversation leaves the inbox until a time, and returns to it unread, on that time or on new mail
 * (rules: Snooze; the latter is filing.ts).
 */

/** Conversations woken in one transaction. */
const PORTION = 100;

/** @throws AppError conflict for one of drafts, spam or trash */
export function requireSnoozable({ folder }: Pick<ThreadRow, "folder">): void {
  if (folder === "drafts" || folder === "spam" || folder === "trash") {
    throw new AppError("conflict", `A conversation in ${folder} cannot be snoozed`);
  }
}

/** Takes a conversation that requireSnoozable lets pass out of where it is until `until` (epoch ms). */
export function snoozeThread(tx: Tx, { seq, folder }: Pick<ThreadRow, "seq" | "folder">, until: number): void {
  tx.update(threads).set({ folder: "inbox", snoozedUntil: until }).where(eq(threads.seq, seq)).run();
  if (folder !== "inbox") moveMessages(tx, seq, "inbox");
}

/** Takes a conversation of the inbox, archive or sent mail out until `until` (epoch ms). @throws AppError not_found, conflict */
export function snooze(tx: Tx, threadId: string, until: number): void {
  const thread = tx.select().from(threads).where(eq(threads.id, threadId)).get();
  if (!thread) throw notFound("thread");
  requireSnoozable(thread);
  snoozeThread(tx, thread, until);
}

/** Brings back what is due. */
export function wakeSnoozed(store: Store): Job {
  return {
    name: "wake-snoozed",
    runDue(now) {
      const due = store.db
        .select({ seq: threads.seq })
        .from(threads)
        .where(and(isNotNull(threads.snoozedUntil), lte(threads.snoozedUntil, now)))
        .orderBy(asc(threads.snoozedUntil))
        .limit(PORTION)
        .all();
      if (due.length > 0) {
        store.transact((tx) => {
          for (const { seq } of due) {
            tx.update(threads).set({ snoozedUntil: null }).where(eq(threads.seq, seq)).run();
            markUnread(tx, seq);
          }
        });
      }
      const next = store.db
        .select({ at: min(threads.snoozedUntil) })
        .from(threads)
        .where(isNotNull(threads.snoozedUntil))
        .get();
      return next?.at ?? null;
    },
  };
}
