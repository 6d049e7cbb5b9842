/**
 * Snoozing: a conversation leaves the inbox until a time, and returns to it unread, on that time or on new mail
 * (rules: Snooze; the latter is filing.ts).
 */
import { and, asc, eq, isNotNull, lte, min } from "drizzle-orm";
import { notFound } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import { threads } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { moveMessages } from "./folders.ts";
import { markUnread } from "./read-state.ts";
import type { ThreadRow } from "./threading.ts";

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
