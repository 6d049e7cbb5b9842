/**
 * Removes blobs that neither a message nor the outbound queue names. A blob may be older than its row, which commits
 * afterwards, so blobs of the last hour stay.
 */
import { and, inArray, isNotNull, sql } from "drizzle-orm";
import type { Log } from "../base/log.ts";
import type { Job } from "../base/scheduler.ts";
import { attachments, outboundContents } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store } from "../store/store.ts";

const HOUR_MS = 3_600_000;
/** First run after a start, when the server is less busy; then once a day. */
const FIRST_MS = HOUR_MS;
const INTERVAL_MS = 24 * HOUR_MS;

const named = prepared((db) => {
  const among = sql`(select value from json_each(${sql.placeholder("names")}))`;
  return db
    .select({ blob: attachments.blob })
    .from(attachments)
    .where(inArray(attachments.blob, among))
    .union(
      db
        .select({ blob: sql<string>`${outboundContents.blob}` })
        .from(outboundContents)
        .where(and(isNotNull(outboundContents.blob), inArray(outboundContents.blob, among))),
    )
    .prepare();
});

/**
 * Removes unnamed blobs written an hour before `now` (epoch ms); returns their number, or undefined during a backup.
 */
export const sweepUnnamed = (store: Pick<Store, "db" | "blobs">, now: number): Promise<number | undefined> =>
  store.blobs.sweep(
    now - HOUR_MS,
    (names) =>
      new Set(
        named(store.db)
          .all({ names: JSON.stringify(names) })
          .map(({ blob }) => blob),
      ),
  );

export function sweepBlobs(store: Store, log: Log): Job {
  let next: number | undefined;
  return {
    name: "sweep-blobs",
    deletes: true,
    async runDue(now, wasAhead) {
      if (wasAhead) next = undefined;
      next ??= now + FIRST_MS;
      if (now < next) return next;
      const removed = await sweepUnnamed(store, now);
      // A running backup's database names blobs of messages that existed when it began.
      if (removed === undefined) {
        next = now + HOUR_MS;
        return next;
      }
      if (removed > 0) log.info("removed files that nothing names", { removed });
      next = now + INTERVAL_MS;
      return next;
    },
  };
}
