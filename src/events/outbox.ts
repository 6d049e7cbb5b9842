/**
 * The outbox: what happened, written in the transaction of its cause, so that an event exists exactly when its mail does
 * (rules: Events, Webhook delivery states). The only writer of events. Never a body, never Bcc.
 */
import { inArray, sql } from "drizzle-orm";
import type { EmailAddress } from "../message/address.ts";
import { events } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

/** rules: Event data. Date-times are ISO 8601. */
export interface EventData {
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
  "message.outbound": {
    emailId: string;
    threadId: string;
    messageId: string;
    mailbox: string;
    from: EmailAddress;
    to: EmailAddress[];
    subject: string;
  };
  "message.delivered": {
    emailId: string;
    threadId: string;
    messageId: string;
    mailbox: string;
    /** The To and Cc recipients that the server accepted. */
    to: EmailAddress[];
    subject: string;
    deliveredAt: string;
  };
  "message.bounced": {
    emailId: string;
    threadId: string;
    messageId: string;
    mailbox: string;
    recipient: string;
    /** Permanent, and because of the address, which is now suppressed (rules: Hard failure). */
    hard: boolean;
    /** For people: what the recipient's server said. */
    detail: string;
  };
  "message.complaint": {
    emailId: string;
    threadId: string;
    messageId: string;
    mailbox: string;
    recipient: string;
  };
}

export type EventName = keyof EventData;

/** rules: Events. */
export const EVENT_NAMES = [
  "message.inbound",
  "message.outbound",
  "message.delivered",
  "message.bounced",
  "message.complaint",
] as const satisfies readonly EventName[];

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
      emailId: sql.placeholder("emailId"),
    })
    .prepare(),
);

/** Puts an event into the outbox; it is there once the transaction has committed. */
export function emit<E extends EventName>(tx: Tx, event: NewEvent<E>): void {
  insertEvent(tx).run({ ...event, emailId: event.data.emailId });
}

/** Deletes the events of these messages (messages.id), with their deliveries; how many. */
export function deleteEventsOf(tx: Tx, emailIds: readonly string[]): number {
  if (emailIds.length === 0) return 0;
  return tx
    .delete(events)
    .where(inArray(events.emailId, [...emailIds]))
    .returning({ seq: events.seq })
    .all().length;
}
