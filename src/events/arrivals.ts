/**
 * Reads mail from the outbox in the order in which it arrived. The sender chooses a message's date; this server numbers the
 * message's event when it commits it.
 */
import { eq, gt, max, sql } from "drizzle-orm";
import { events } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

/** A message that arrived: its number grows with every event. */
export interface Arrival {
  seq: number;
  emailId: string;
}

const statements = prepared((db) => ({
  latest: db
    .select({ seq: max(events.seq) })
    .from(events)
    .prepare(),
  since: db
    .select({ seq: events.seq, emailId: sql<string>`${events.data} ->> 'emailId'` })
    .from(events)
    .where(
      sql`${gt(events.seq, sql.placeholder("seq"))}
        and ${eq(events.workspaceId, sql.placeholder("workspaceId"))}
        and ${events.event} = 'message.inbound'`,
    )
    .orderBy(events.seq)
    .limit(sql.placeholder("limit"))
    .prepare(),
}));

/** Returns the number of the latest event of any kind; 0 before the first. */
export const latestEvent = (db: Db): number => statements(db).latest.get()?.seq ?? 0;

/** Lists the mail that arrived in a workspace after the event `seq`, oldest first. */
export const arrivalsSince = (db: Db, workspaceId: string, seq: number, limit: number): Arrival[] =>
  statements(db).since.all({ workspaceId, seq, limit });
