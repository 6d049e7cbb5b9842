/**
 * The outbox: what happened, written in the transaction of its cause, so that an event exists exactly when its mail does
 * (spec: Events; contract: Webhook delivery states). The only writer of events. Never a body, never Bcc.
 */
import { sql } from "drizzle-orm";
import type { EmailAddress } from "../message/address.ts";
import { prepared } from "../store/prepared.ts";
import { events } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

/** spec: data per event. Date-times are ISO 8601. */
interface EventData {
  "message.inbound": {
    emailId: string;
    threadId: string;
    mailboxId: string;
    mailbox: string;
    /** The RFC 5322 Message-ID; empty for mail that came without one. */
    messageId: string;
    inReplyTo: string | null;
    from: EmailAddress;
    to: EmailAddress[];
    cc: EmailAddress[];
    subject: string;
    snippet: string;
    hasAttachments: boolean;
    attachmentCount: number;
    /** Filed to spam on arrival. */
    isSpam: boolean;
    receivedAt: string;
  };
}

export type EventName = keyof EventData;

/** `id`: a new `evt_` id, which retries and resends repeat. `now`: epoch ms. */
export interface NewEvent<E extends EventName> {
  id: string;
  workspaceId: string;
  event: E;
  data: EventData[E];
  now: number;
}

const insertEvent = prepared((db) =>
  db
    .insert(events)
    .values({
      id: sql.placeholder("id"),
      workspaceId: sql.placeholder("workspaceId"),
      event: sql.placeholder("event"),
      createdAt: sql.placeholder("now"),
      data: sql.placeholder("data"),
    })
    .prepare(),
);

/** Puts an event into the outbox; it is there once the transaction has committed. */
export function emit<E extends EventName>(tx: Tx, event: NewEvent<E>): void {
  insertEvent(tx).run({ ...event });
}
