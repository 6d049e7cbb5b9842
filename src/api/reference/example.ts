/** Examples of answers: a value for each schema. */
import { type ApiDocument, resolveSchemaRef, type Schema, schemaNameInRef } from "./openapi-document.ts";

const AT = "2026-03-02T09:30:00.000Z";
const BEN = { email: "ben@example.net", name: "Ben Okafor" };
const ADA = { email: "ada@example.com", name: "Ada Example" };
const MESSAGE_ID = "<4f0c1d2e@example.com>";

/** Ids by the schema of which they are the `id`. */
const IDS: Record<string, string> = {
  Mailbox: "mbx_01jn9x3k7qc2m4",
  Thread: "thr_01jn9x5w0fz8p1",
  Message: "msg_01jn9x5w0hq3r6",
  MessageSummary: "msg_01jn9x5w0hq3r6",
  Attachment: "att_01jn9x5w1t7d9a",
  SendResponse: MESSAGE_ID,
  Suppression: "sup_01jn9xc3b5d7f9",
  ApiKey: "key_01jn9xe5h7k9l2",
  NewApiKey: "key_01jn9xe5h7k9l2",
  Webhook: "whk_01jn9xf6j8m1n3",
  NewWebhook: "whk_01jn9xf6j8m1n3",
  WebhookDelivery: "whd_01jn9xg7k9n2p4",
  QueueEntry: "que_01jn9xd4g6h8j1",
  Hold: "msg_01jn9xh8m1p4q6",
};

/** An id of what the first part of a path names, if examples have one: `threads` in `/threads/{id}`. */
export const exampleIdAt = (path: string): string | undefined => {
  const [, group = ""] = path.split("/");
  return IDS[group.charAt(0).toUpperCase() + group.slice(1, -1)];
};

/** Values by the name of the field. They tell of the same conversation everywhere. */
const VALUES: Record<string, unknown> = {
  threadId: IDS.Thread,
  replyToThreadId: IDS.Thread,
  mailboxId: IDS.Mailbox,
  emailId: IDS.Message,
  draftId: "thr_01jn9xb2m5v4e8",
  messageId: MESSAGE_ID,
  headerMessageId: MESSAGE_ID,
  address: ADA.email,
  mailbox: ADA.email,
  receivedOn: ADA.email,
  displayName: ADA.name,
  aliases: ["hello@example.com"],
  from: BEN,
  to: [ADA],
  cc: [],
  participants: [BEN, ADA],
  subject: "Contract for signature",
  snippet: "Hello Ada, the signed contract is attached.",
  text: "Hello Ada,\n\nthe signed contract is attached.\n\nBen",
  bodyText: "Hello Ada,\n\nthe signed contract is attached.\n\nBen",
  html: "<p>Hello Ada,</p><p>the signed contract is attached.</p>",
  labels: ["Contracts"],
  folder: "inbox",
  nextCursor: null,
  unread: 1,
  count: 1,
  messageCount: 2,
  hasAttachments: true,
  filename: "contract.pdf",
  contentType: "application/pdf",
  size: 48_213,
  url: `/api/v1/attachments/${IDS.Attachment}`,
  spf: "pass",
  dkim: "pass",
  dmarc: "pass",
  policy: { recipients: ["thread", "@example.net"], otherwise: "hold" },
  keyId: IDS.ApiKey,
  reason: "The key needs approval to write to ben@example.net",
  error: "There is no such conversation",
  code: "not_found",
};

/** Fields that examples leave out, as most responses do. */
const SELDOM = new Set([
  "bcc",
  "contentId",
  "truncated",
  "snoozedUntil",
  "deliveredAt",
  "held",
  "approvedBy",
  // Only in answers to a search.
  "highlights",
  "suggestion",
  "notes",
  "nearWords",
]);

const fits = ({ type, anyOf, items, enum: words }: Schema, value: unknown): boolean => {
  if (words) return words.some((word) => word === value);
  if (anyOf) return anyOf.some((one) => fits(one, value));
  if (value === null) return type === "null";
  if (Array.isArray(value)) return type === "array" && value.every((one) => items !== undefined && fits(items, one));
  return type === (typeof value === "number" ? "integer" : typeof value);
};

/**
 * Makes a value that the schema allows. `name` is the name of the field, `within` that of the schema that has the
 * field.
 */
export function makeExampleValue(document: ApiDocument, schema: Schema, name = "", within = ""): unknown {
  if (name === "id" && IDS[within] !== undefined) return IDS[within];
  const itself = resolveSchemaRef(document, schema);
  const known = VALUES[name];
  if (known !== undefined && fits(itself, known)) return known;
  const owner = schema.$ref === undefined ? within : schemaNameInRef(schema.$ref);
  const { type, format, properties, items, anyOf = [] } = itself;
  if (properties) {
    return Object.fromEntries(
      Object.entries(properties)
        .filter(([field]) => !SELDOM.has(field))
        .map(([field, part]) => [field, makeExampleValue(document, part, field, owner)]),
    );
  }
  if (itself.enum) return itself.enum[0];
  if (items) return [makeExampleValue(document, items, "", owner)];
  if (anyOf[0]) return makeExampleValue(document, anyOf[0], name, owner);
  if (type === "boolean") return /^(ok|read|send|manage|unread)$/.test(name);
  if (type === "integer") return 1;
  if (format === "date-time") return AT;
  return format === "email" ? ADA.email : name;
}
