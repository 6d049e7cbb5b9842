/** When a sent message first reached somebody (rules: Message fields). */
import { and, eq, isNull, sql } from "drizzle-orm";
import { prepared } from "../store/prepared.ts";
import { messages } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

const statements = prepared((db) => ({
  setDelivered: db
    .update(messages)
    .set({ deliveredAt: sql`${sql.placeholder("now")}` })
    .where(and(eq(messages.id, sql.placeholder("emailId")), eq(messages.kind, "sent"), isNull(messages.deliveredAt)))
    .prepare(),
}));

/** The server of a recipient has accepted it at `now` (epoch ms); the first time counts. */
export function markDelivered(tx: Tx, emailId: string, now: number): void {
  statements(tx).setDelivered.run({ emailId, now });
}
