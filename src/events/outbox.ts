/**
 * The outbox keeps events. Each is written in the transaction of its cause, so an event exists exactly when its mail does
 * (rules: Events, Webhook delivery states). The only writer of events. An event never contains a body or Bcc.
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
    /** The message was filed to spam on arrival. */
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
    /** The failure is permanent and due to the address, which is now suppressed (rules: Hard failure). */
    hard: boolean;
    /** The reply of the recipient's server, for people. */
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

/** `id`: a new `evt_` id; retries and resends of its deliveries repeat it. `now`: epoch ms. */
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

/** Writes an event in the transaction `tx`. */
export function emit<E extends EventName>(tx: Tx, event: NewEvent<E>): void {
  insertEvent(tx).run({ ...event, emailId: event.data.emailId });
}

/** Deletes the events of these messages (messages.id), with their deliveries; returns how many events. */
export function deleteEventsOf(tx: Tx, emailIds: readonly string[]): number {
  if (emailIds.length === 0) return 0;
  return tx
    .delete(events)
    .where(inArray(events.emailId, [...emailIds]))
    .returning({ seq: events.seq })
    .all().length;
}
