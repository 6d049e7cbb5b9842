/** The data of each event (rules: Event data): its schema, which is its type, and a sample. */
import { dateTimeSchema, emailSchema, nullable, type Schema, type Static, t } from "../base/json-schema.ts";
import { toIsoTime } from "../base/time.ts";
import { EmailAddress } from "../message/message-schemas.ts";
import type { EventName } from "./kinds.ts";

/** The fields that name a message. */
const named = {
  emailId: t.String({ description: "As in GET /messages/{id}" }),
  threadId: t.String(),
  messageId: t.String({ description: "RFC 5322 Message-ID" }),
  mailbox: emailSchema({ description: "The mailbox's address" }),
};
/** The fields of a message of an API key that waits, or waited, for a person. */
const held = {
  emailId: t.String(),
  threadId: t.String({ description: "For a reply, the conversation that it answers" }),
  mailboxId: t.String(),
  mailbox: named.mailbox,
  keyId: t.String(),
  reason: t.String({ description: "For people: why it was held, or rejected" }),
};
const addresses = t.Array(EmailAddress);

export const EVENT_DATA = {
  "message.inbound": t.Object({
    ...named,
    messageId: t.String({ description: "RFC 5322 Message-ID; empty for mail that came without one" }),
    mailboxId: t.String(),
    inReplyTo: nullable(t.String(), { description: "RFC 5322 In-Reply-To" }),
    from: EmailAddress,
    to: addresses,
    cc: addresses,
    subject: t.String(),
    snippet: t.String(),
    hasAttachments: t.Boolean(),
    attachmentCount: t.Integer({ minimum: 0 }),
    isSpam: t.Boolean({ description: "Filed to spam on arrival" }),
    receivedAt: dateTimeSchema(),
  }),
  "message.outbound": t.Object({ ...named, from: EmailAddress, to: addresses, subject: t.String() }),
  "message.delivered": t.Object({
    ...named,
    to: t.Array(EmailAddress, { description: "The To and Cc recipients that the server accepted" }),
    subject: t.String(),
    deliveredAt: dateTimeSchema(),
  }),
  "message.bounced": t.Object({
    ...named,
    recipient: emailSchema(),
    hard: t.Boolean({ description: "Permanent, and because of the address, which is suppressed from now on" }),
    detail: t.String({ description: "For people: what the recipient's server said" }),
  }),
  "message.complaint": t.Object({ ...named, recipient: emailSchema() }),
  "message.held": t.Object(held),
  "message.approved": t.Object({ ...held, approvedBy: t.String({ description: "Id of the person" }) }),
  "message.rejected": t.Object({
    ...held,
    rejectedBy: nullable(t.String(), { description: "Id of the person; null if it was not approved in time" }),
  }),
} satisfies Record<EventName, Schema>;

export type EventData = { [E in EventName]: Static<(typeof EVENT_DATA)[E]> };

/** Returns the data that a test sends, in the shape of a real event; its ids are made up. `now`: epoch ms. */
export function makeSampleEventData(event: EventName, now: number): EventData[EventName] {
  const at = toIsoTime(now);
  const mailbox = "you@example.com";
  const other = { email: "ada@example.net", name: "Ada Example" };
  const named = {
    emailId: "msg_sample",
    threadId: "thr_sample",
    messageId: "<sample@example.com>",
    mailbox,
  };
  const subject = "A test from Mailroom";
  const held = {
    emailId: named.emailId,
    threadId: named.threadId,
    mailboxId: "mbx_sample",
    mailbox,
    keyId: "key_sample",
    reason: "A person approves everything that this key sends",
  };
  const samples: EventData = {
    "message.inbound": {
      ...named,
      mailboxId: "mbx_sample",
      inReplyTo: null,
      from: other,
      to: [{ email: mailbox }],
      cc: [],
      subject,
      snippet: "This is a sample event: your receiver works.",
      hasAttachments: false,
      attachmentCount: 0,
      isSpam: false,
      receivedAt: at,
    },
    "message.outbound": { ...named, from: { email: mailbox }, to: [other], subject },
    "message.delivered": { ...named, to: [other], subject, deliveredAt: at },
    "message.bounced": { ...named, recipient: other.email, hard: true, detail: "550 5.1.1 No such user" },
    "message.complaint": { ...named, recipient: other.email },
    "message.held": held,
    "message.approved": { ...held, approvedBy: "usr_sample" },
    "message.rejected": { ...held, rejectedBy: "usr_sample" },
  };
  return samples[event];
}
