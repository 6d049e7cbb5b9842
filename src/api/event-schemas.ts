/**
 * What webhooks deliver (rules: Events), as schemas: the envelope with the data of each kind, under `webhooks` of the
 * OpenAPI document. That what is emitted has this shape is tested with events of real mail.
 */
import type { EventName } from "../events/outbox.ts";
import { type Schema, t } from "../operations/json-schema.ts";
import { dateTime, EmailAddress, email, nullable } from "../operations/schemas.ts";

/** What names the message; an addition in some kinds, which may gain fields (rules: Versions). */
const named = {
  emailId: t.String({ description: "As in GET /messages/{id}" }),
  threadId: t.String(),
  messageId: t.String({ description: "RFC 5322 Message-ID" }),
  mailbox: email({ description: "The mailbox's address" }),
};
const to = t.Array(EmailAddress);
const recipient = email();

const DATA: Record<EventName, Schema> = {
  "message.inbound": t.Object({
    ...named,
    messageId: t.String({ description: "RFC 5322 Message-ID; empty for mail that came without one" }),
    mailboxId: t.String(),
    inReplyTo: nullable(t.String(), { description: "RFC 5322 In-Reply-To" }),
    from: EmailAddress,
    to,
    cc: t.Array(EmailAddress),
    subject: t.String(),
    snippet: t.String(),
    hasAttachments: t.Boolean(),
    attachmentCount: t.Integer({ minimum: 0 }),
    isSpam: t.Boolean({ description: "Filed to spam on arrival" }),
    receivedAt: dateTime(),
  }),
  "message.outbound": t.Object({ ...named, from: EmailAddress, to, subject: t.String() }),
  "message.delivered": t.Object({
    ...named,
    to: t.Array(EmailAddress, { description: "The To and Cc recipients that the server accepted" }),
    subject: t.String(),
    deliveredAt: dateTime(),
  }),
  "message.bounced": t.Object({
    ...named,
    recipient,
    hard: t.Boolean({ description: "Permanent, and because of the address, which is suppressed from now on" }),
    detail: t.String({ description: "For people: what the recipient's server said" }),
  }),
  "message.complaint": t.Object({ ...named, recipient }),
};

export const EVENT_SUMMARIES: Record<EventName, string> = {
  "message.inbound": "New mail was filed into a mailbox",
  "message.outbound": "A message was sent from a mailbox",
  "message.delivered": "The recipient's server accepted a sent message",
  "message.bounced": "A recipient's server refused a sent message",
  "message.complaint": "A recipient reported a sent message as spam",
};

/** `MessageInbound` of `message.inbound`: names its schema. */
export const schemaNameOf = (event: EventName): string =>
  event
    .split(".")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");

/** The body of a delivery of the event. */
export const eventSchema = (event: EventName): Schema =>
  t.Object(
    {
      id: t.String({ description: "Of the event: retries and resends repeat it. Act on each id once" }),
      event: t.Unsafe<EventName>({ type: "string", enum: [event] }),
      createdAt: dateTime(),
      data: DATA[event],
    },
    { $id: `${schemaNameOf(event)}Event` },
  );
