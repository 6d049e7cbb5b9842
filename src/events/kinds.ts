/** Kinds of events, and when each happens (rules: Events). The web app runs this file. */

/** The pages of docs/, the OpenAPI document and the web app say when an event happens in these words. */
export const EVENTS = {
  "message.inbound": "new mail was filed into a mailbox",
  "message.outbound": "a message was sent from a mailbox",
  "message.delivered": "the recipient's server accepted a sent message",
  "message.bounced": "a recipient's server refused a sent message",
  "message.complaint": "a recipient reported a sent message as spam",
  "message.held": "a message of an API key waits for a person to approve it",
  "message.approved": "a person approved a held message",
  "message.rejected": "a held message was rejected, or not approved in time",
} as const;

export type EventName = keyof typeof EVENTS;
export const EVENT_NAMES = Object.keys(EVENTS) as EventName[];
