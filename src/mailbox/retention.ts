/**
 * Deletes for good what has been in trash or spam for retention.trashDays (rules: Spam retention). Triggers record the
 * conversations (0013_discarded.sql); this job records the time at its next run, even while the setting is off.
 */
import { asc, eq, isNull, lte } from "drizzle-orm";
import type { Job } from "../base/scheduler.ts";
import { discardedThreads, threads } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { deleteConversations } from "./removal.ts";

const DAY_MS = 24 * 60 * 60_000;
/** Time between two runs: such a delay does not matter for a period of days. */
const SELDOM_MS = 60 * 60_000;
const OFTEN_MS = 1_000;
const LOOKS = 24;
/** Conversations deleted in one transaction; each may be long. */
const PORTION = 20;

/** Deletes a portion of what was discarded by `before` (epoch ms); returns the number of conversations. */
function deleteExpired(tx: Tx, before: number): number {
  const expired = tx
    .select({ seq: threads.seq, mailboxId: threads.mailboxId })
    .from(discardedThreads)
    .innerJoin(threads, eq(threads.seq, discardedThreads.threadSeq))
    .where(lte(discardedThreads.since, before))
    .orderBy(asc(discardedThreads.since))
    .limit(PORTION)
    .all();
  for (const [mailboxId, rows] of Map.groupBy(expired, (row) => row.mailboxId)) {
    deleteConversations(
      tx,
      mailboxId,
      rows.map(({ seq }) => seq),
    );
  }
  return expired.length;
}

export function deleteDiscarded(store: Pick<Store, "enqueue">, options: Pick<Options, "get">): Job {
  return {
    name: "delete-discarded",
    deletes: true,
    async runDue(now) {
      await store.enqueue(
        (tx) => void tx.update(discardedThreads).set({ since: now }).where(isNull(discardedThreads.since)).run(),
      );
      const days = options.get("retention.trashDays");
      if (days === "off") return now + SELDOM_MS;
      const kept = days * DAY_MS;
      while ((await store.enqueue((tx) => deleteExpired(tx, now - kept))) > 0);
      return now + Math.max(OFTEN_MS, Math.min(kept / LOOKS, SELDOM_MS));
    },
  };
}
