/**
 * Builds the body of a delivery (rules: Event envelope), and the sample that a test sends.
 *
 * Invariant: the body is built from the JSON text that the outbox keeps, so every attempt and every resend of an event sends
 * the same bytes, even from a later version of the program.
 */
import type { EventData, EventName } from "./outbox.ts";

/** `createdAt`: epoch ms; `data`: JSON text. */
export interface Envelope {
  eventId: string;
  event: string;
  createdAt: number;
  data: string;
}

export function envelope({ eventId, event, createdAt, data }: Envelope): string {
  return `{"id":"${eventId}","event":"${event}","createdAt":"${new Date(createdAt).toISOString()}","data":${data}}`;
}

/** Returns sample data in the shape of a real event; its ids are made up. `now`: epoch ms. */
export function sampleOf(event: EventName, now: number): EventData[EventName] {
  const at = new Date(now).toISOString();
  const mailbox = "you@example.com";
  const other = { email: "ada@example.net", name: "Ada Example" };
  const named = {
    emailId: "msg_sample",
    threadId: "thr_sample",
    messageId: "<sample@example.com>",
    mailbox,
  };
  const subject = "A test from Mailroom";
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
  };
  return samples[event];
}
