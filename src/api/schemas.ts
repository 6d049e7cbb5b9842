/**
 * The resources of the specification (spec: Resources and their fields) as TypeBox, which is JSON Schema: types, checks
 * and the OpenAPI document come from these. A schema with `$id` is a component of the document, under that name.
 */
import { LIST_FOLDERS } from "../mailbox/views.ts";
import { FOLDERS } from "../store/schema.ts";
import { oneOf, type Schema, t } from "./json-schema.ts";

const email = (options: { description?: string } = {}) => t.String({ format: "email", ...options });
const dateTime = (options: { description?: string } = {}) => t.String({ format: "date-time", ...options });
const nullable = <T extends Schema>(schema: T, options: { description: string }) =>
  t.Union([schema, t.Null()], options);

export const Failure = t.Object(
  {
    error: t.String({ description: "For people; may change" }),
    code: t.String({ description: "Stable: branch on it" }),
  },
  { $id: "Error" },
);

const EmailAddress = t.Object({ email: email(), name: t.Optional(t.String()) }, { $id: "EmailAddress" });

export const Mailbox = t.Object(
  {
    id: t.String(),
    address: email(),
    displayName: t.String(),
    aliases: t.Array(email(), { description: "Deliver into this mailbox; replies may be sent from them" }),
    source: oneOf(["owner", "admin", "grant"], {
      description: "How the key reaches it: its user's own, as workspace admin, or shared with them",
    }),
    access: t.Object({
      read: t.Boolean(),
      send: t.Boolean(),
      manage: t.Boolean({ description: "May move, star and label" }),
    }),
    unread: t.Integer({ description: "Unread conversations in the inbox" }),
  },
  { $id: "Mailbox" },
);

const Folder = oneOf(FOLDERS);

export const Thread = t.Object(
  {
    id: t.String(),
    mailboxId: t.String(),
    mailbox: email({ description: "The mailbox's address" }),
    receivedOn: email({
      description: "Where the conversation arrived, an alias if so, or the address it was sent from",
    }),
    subject: t.String(),
    snippet: t.String(),
    from: EmailAddress,
    participants: t.Array(EmailAddress, { description: "From, To and Cc of every message; never Bcc" }),
    folder: Folder,
    unread: t.Boolean(),
    starred: t.Boolean(),
    labels: t.Array(t.String()),
    lastMessageAt: dateTime(),
    snoozedUntil: t.Optional(dateTime()),
    hasAttachments: t.Boolean(),
    messageCount: t.Integer(),
  },
  { $id: "Thread" },
);

export const ThreadList = t.Object(
  {
    threads: t.Array(Thread),
    nextCursor: nullable(t.String(), { description: "null on the last page" }),
    unread: t.Integer({ description: "Unread conversations matching the filters, across all pages" }),
  },
  { $id: "ThreadList" },
);

const Attachment = t.Object(
  {
    id: t.String(),
    filename: t.String(),
    contentType: t.String(),
    size: t.Integer({ description: "Bytes" }),
    inline: t.Boolean({ description: "Embedded in the HTML body by cid:" }),
    contentId: t.Optional(t.String({ description: "What cid: references in the HTML name" })),
    url: t.String({ description: "Download path: GET with the same key" }),
  },
  { $id: "Attachment" },
);

const Direction = oneOf(["inbound", "outbound"]);

export const Message = t.Object(
  {
    id: t.String({ description: "The emailId of webhooks" }),
    threadId: t.String(),
    mailboxId: t.String(),
    direction: Direction,
    messageId: t.Optional(t.String({ description: "RFC 5322 Message-ID" })),
    from: EmailAddress,
    to: t.Array(EmailAddress),
    cc: t.Array(EmailAddress),
    bcc: t.Optional(t.Array(EmailAddress, { description: "Only when the key's user sent the message or was Bcc'd" })),
    subject: t.String(),
    date: dateTime(),
    read: t.Boolean(),
    text: t.String(),
    truncated: t.Optional(
      t.Boolean({
        description:
          "True in a conversation too large to be given whole: text is the beginning and html is left out; get the message by itself for the rest",
      }),
    ),
    html: t.Optional(t.String({ description: "Without scripts and event handlers; left out with html=false" })),
    attachments: t.Array(Attachment),
    auth: t.Optional(
      t.Object({ spf: t.String(), dkim: t.String(), dmarc: t.String() }, { description: "Inbound verdicts" }),
    ),
    deliveredAt: t.Optional(dateTime({ description: "When the recipient's server accepted an outbound message" })),
  },
  { $id: "Message" },
);

export const MessageSummary = t.Object(
  {
    id: t.String(),
    threadId: t.String(),
    mailbox: email(),
    folder: Folder,
    direction: Direction,
    from: EmailAddress,
    to: t.Array(EmailAddress),
    cc: t.Optional(t.Array(EmailAddress)),
    subject: t.String(),
    snippet: t.String(),
    bodyText: t.String(),
    date: dateTime(),
    read: t.Boolean(),
    headerMessageId: t.Optional(t.String({ description: "RFC 5322 Message-ID" })),
  },
  { $id: "MessageSummary" },
);

export const ThreadDetail = t.Object(
  {
    thread: Thread,
    messages: t.Array(Message, { description: "Oldest first" }),
    permissions: t.Object({ send: t.Boolean(), manage: t.Boolean() }),
  },
  { $id: "ThreadDetail" },
);

const label = t.String({ maxLength: 60 });

/** Body of PATCH /threads/{id}. */
export const ThreadPatch = t.Object(
  {
    unread: t.Optional(t.Boolean({ description: "Needs read access" })),
    read: t.Optional(t.Boolean({ description: "Not unread" })),
    starred: t.Optional(t.Boolean()),
    folder: t.Optional(oneOf(["inbox", "archive", "trash", "spam"], { description: "Moves the conversation" })),
    labels: t.Optional(t.Array(label, { maxItems: 20, description: "Replaces every label" })),
    addLabels: t.Optional(t.Array(label)),
    removeLabels: t.Optional(t.Array(t.String(), { description: "Case-insensitive" })),
  },
  { $id: "ThreadPatch", additionalProperties: false, minProperties: 1 },
);

export const DEFAULT_LIMIT = 25;

/** What several operations take in the path or the query. */
export const parameter = {
  id: t.String(),
  mailbox: t.Optional(t.String({ description: "Mailbox id, address or alias address" })),
  mailboxAddress: t.Optional(email({ description: "Address or alias address of a mailbox" })),
  listFolder: (description: string, preset: { default?: "inbox" } = {}) =>
    t.Optional(oneOf(LIST_FOLDERS, { description, ...preset })),
  messageFolder: t.Optional(Folder),
  direction: t.Optional(Direction),
  html: t.Optional(t.Boolean({ default: true, description: "false leaves HTML bodies out" })),
  query: (description: string) => t.String({ maxLength: 500, description }),
  cursor: t.Optional(t.String({ description: "nextCursor of the previous page, with the filters that made it" })),
  limit: t.Optional(
    t.Integer({ minimum: 1, maximum: 100, default: DEFAULT_LIMIT, description: "Most items on a page" }),
  ),
} as const;
