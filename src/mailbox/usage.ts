/** The used bytes and the quota of a mailbox, counted in messages as received. */
import { eq, sql } from "drizzle-orm";
import { mailboxes, mailboxUsage } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

export interface Usage {
  bytes: number;
  quotaBytes: number;
}

const statements = prepared((db) => ({
  read: db
    .select({ bytes: mailboxUsage.bytes, quota: mailboxes.quotaBytes })
    .from(mailboxes)
    .leftJoin(mailboxUsage, eq(mailboxUsage.mailboxId, mailboxes.id))
    .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
    .prepare(),
  add: db
    .insert(mailboxUsage)
    .values({ mailboxId: sql.placeholder("mailboxId"), bytes: sql.placeholder("bytes") })
    .onConflictDoUpdate({ target: mailboxUsage.mailboxId, set: { bytes: sql`${mailboxUsage.bytes} + excluded.bytes` } })
    .prepare(),
}));

/** The mailbox's own quota, else the setting storage.mailboxBytes. */
export function usageOf(db: Db, options: Options, mailboxId: string): Usage {
  const row = statements(db).read.get({ mailboxId });
  return { bytes: row?.bytes ?? 0, quotaBytes: row?.quota ?? options.get("storage.mailboxBytes") };
}

/** `bytes` is negative for removed mail. */
export function addUsage(tx: Tx, mailboxId: string, bytes: number): void {
  statements(tx).add.run({ mailboxId, bytes });
}
