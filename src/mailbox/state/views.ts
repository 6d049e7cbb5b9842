/**
 * The resources of the API, each a schema and its type: field by field, with dates in ISO 8601 and without inapplicable
 * fields (rules: Resources).
 */
import type { Reach } from "../../access/caller.ts";
import {
  alwaysTrue,
  dateTimeSchema,
  emailSchema,
  filledStringSchema,
  type Given,
  nullable,
  type Static,
  stringEnum,
  t,
} from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import type { TypeParameters } from "../../message/content-type.ts";
import { EmailAddress, ListUnsubscribe } from "../../message/message-schemas.ts";
import { Highlight } from "../../search/highlight.ts";
import { LIST_FOLDERS } from "../../search/operators.ts";
import { FOLDERS, QUEUE_STATES, RECIPIENT_FIELDS, type threads } from "../../store/schema.ts";

/** rules: Mailbox fields. */
export const MailboxView = t.Object(
  {
    id: t.String(),
    address: emailSchema(),
    displayName: t.String(),
    aliases: t.Array(emailSchema(), { description: "Deliver into this mailbox; replies may be sent from them" }),
    source: stringEnum(["owner", "admin", "grant"], {
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
export type MailboxView = Static<typeof MailboxView>;

/** rules: Search additions. */
export const HighlightView = t.Object(
  { emailId: t.String({ description: "Id of the message, as in GET /messages/{id}" }), ...Highlight.properties },
  { $id: "Highlight" },
);
export type HighlightView = Static<typeof HighlightView>;

/** rules: Thread fields. */
export const ThreadView = t.Object(
  {
    id: t.String(),
    mailboxId: t.String(),
    mailbox: emailSchema({ description: "The mailbox's address" }),
    receivedOn: emailSchema({
      description: "Where the conversation arrived, an alias if so, or the address it was sent from",
    }),
    subject: t.String(),
    snippet: t.String(),
    from: EmailAddress,
    participants: t.Array(EmailAddress, { description: "From, To and Cc of every message; never Bcc" }),
    folder: stringEnum(FOLDERS),
    unread: t.Boolean(),
    starred: t.Boolean(),
    labels: t.Array(t.String()),
    lastMessageAt: dateTimeSchema(),
    snoozedUntil: t.Optional(dateTimeSchema()),
    hasAttachments: t.Boolean(),
    messageCount: t.Integer(),
    highlights: t.Optional(
      t.Array(HighlightView, {
        description:
          "In lists asked for with q, and there always: where its messages match, of up to three of them, the latest first; empty when only operators match. In very large messages some may be left out",
      }),
    ),
  },
  { $id: "Thread" },
);
export type ThreadView = Static<typeof ThreadView>;

/** The view of a conversation's row. */
export const threadView = (row: typeof threads.$inferSelect, { mailbox }: Reach, labels: string[]): ThreadView => ({
  id: row.id,
  mailboxId: row.mailboxId,
  mailbox: mailbox.address,
  receivedOn: row.receivedOn,
  subject: row.subject,
  snippet: row.snippet,
  from: row.counterpart,
  participants: row.participants,
  folder: row.folder,
  unread: row.unread,
  starred: row.starred,
  labels,
  lastMessageAt: toIsoTime(row.lastMessageAt),
  ...(row.snoozedUntil === null ? {} : { snoozedUntil: toIsoTime(row.snoozedUntil) }),
  hasAttachments: row.hasAttachments,
  messageCount: row.messageCount,
});

/** Orders of a search: latest message first, or best match first. */
const SEARCH_ORDERS = ["newest", "relevance"] as const;
export type SearchOrder = (typeof SEARCH_ORDERS)[number];

/** rules: Thread list fields. */
export const ThreadListView = t.Object(
  {
    threads: t.Array(ThreadView),
    nextCursor: nullable(t.String(), { description: "null on the last page" }),
    unread: t.Integer({ description: "Unread conversations matching the filters, across all pages" }),
    sort: t.Optional(stringEnum(SEARCH_ORDERS, { description: "The order they are in, when sort was given" })),
    suggestion: t.Optional(
      t.String({
        description: "When q finds nothing: what may have been meant, a q that finds something with the same filters",
      }),
    ),
    notes: t.Optional(
      t.Array(t.String(), {
        description:
          "Terms of q that look like operators and were searched as text, or that were not searched, and why; at most five",
      }),
    ),
    nearWords: t.Optional(
      t.Array(t.String(), {
        description:
          "When nothing has the words of q and the search engine forgives typos: the words, near them, that were found instead",
      }),
    ),
  },
  { $id: "ThreadList" },
);
export type ThreadListView = Static<typeof ThreadListView>;

/** rules: Attachment fields. */
export const AttachmentView = t.Object(
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
export type AttachmentView = Static<typeof AttachmentView>;

export const Direction = stringEnum(["inbound", "outbound"]);
export type Direction = Static<typeof Direction>;

/** The header of a message that waits for a person, beside the fields that each message has. */
export const HeldHeader = t.Object({
  headers: t.Array(
    t.Object({
      name: t.String(),
      value: t.String(),
      redirects: t.Boolean({ description: "Answers or receipts go where it says: Reply-To and its kin" }),
    }),
    { description: "Other fields of its header, those that redirect first" },
  ),
  namedOnly: t.Array(EmailAddress, { description: "In To or Cc of its header, but none of its recipients" }),
});
export type HeldHeader = Static<typeof HeldHeader>;

/** rules: Held for approval. */
export const HeldView = t.Object(
  {
    state: stringEnum(["waiting", "approved", "rejected"], {
      description: "`approved`: it is sent when its time comes",
    }),
    reason: t.String({ description: "For people: why it waits, or was rejected" }),
    since: dateTimeSchema(),
    ...HeldHeader.properties,
    textDiffers: t.Boolean({ description: "`text` says something else than `html`; both go out" }),
  },
  { description: "A message of an API key that waits for a person to approve it" },
);
export type HeldView = Static<typeof HeldView>;

/** A sent message's delivery, to the recipients whom the caller may see. */
export const DeliveryView = t.Object(
  {
    state: stringEnum(["waiting", "delivered", "partly", "failed"], {
      description:
        "Of all recipients together: waiting while any waits or is held, delivered and failed if all are, else partly",
    }),
    recipients: t.Array(
      t.Object({ recipient: t.String(), field: stringEnum(RECIPIENT_FIELDS), state: stringEnum(QUEUE_STATES) }),
      {
        description: "Of Bcc, for the person who sent it. /api/ext/v1/messages/{id}/deliveries has more",
      },
    ),
  },
  { description: "Of a message that was sent from here" },
);
export type DeliveryView = Static<typeof DeliveryView>;

/** Fields of a message by itself, which it does not have in its conversation (rules: Message fields). */
export const MessageDetailsView = t.Object({
  folder: stringEnum(FOLDERS, { description: "This and what follows: of GET /messages/{id} alone" }),
  mailbox: emailSchema({ description: "The mailbox's address" }),
  inReplyTo: t.Optional(t.String({ description: "RFC 5322 In-Reply-To" })),
  references: t.Optional(t.Array(t.String(), { description: "RFC 5322 References, oldest first" })),
  replyTo: t.Optional(t.Array(EmailAddress)),
  listUnsubscribe: t.Optional(ListUnsubscribe),
  held: t.Optional(HeldView),
  approvedBy: t.Optional(t.String({ description: "Id of the person who approved a message that was held" })),
  delivery: t.Optional(DeliveryView),
});
export type MessageDetailsView = Static<typeof MessageDetailsView>;

/** rules: Message fields. */
export const MessageView = t.Object(
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
    date: dateTimeSchema(),
    read: t.Boolean(),
    text: t.String(),
    truncated: t.Optional(
      alwaysTrue({
        description:
          "True in a conversation too large to be given whole: text is the beginning; html, long lists of addresses and attachments after the first ten are left out. Get the message by itself for all of it",
      }),
    ),
    html: t.Optional(t.String({ description: "Without scripts and event handlers; left out with html=false" })),
    attachments: t.Array(AttachmentView),
    auth: t.Optional(
      t.Object({ spf: t.String(), dkim: t.String(), dmarc: t.String() }, { description: "Inbound verdicts" }),
    ),
    deliveredAt: t.Optional(
      dateTimeSchema({ description: "When the recipient's server accepted an outbound message" }),
    ),
    ...t.Partial(MessageDetailsView).properties,
  },
  { $id: "Message" },
);
export type MessageView = Static<typeof MessageView>;

/** rules: Message summary fields. */
export const MessageSummaryView = t.Object(
  {
    id: t.String(),
    threadId: t.String(),
    mailbox: emailSchema(),
    folder: stringEnum(FOLDERS),
    direction: Direction,
    from: EmailAddress,
    to: t.Array(EmailAddress),
    cc: t.Optional(t.Array(EmailAddress)),
    subject: t.String(),
    snippet: t.String(),
    bodyText: t.String(),
    truncated: t.Optional(
      alwaysTrue({
        description:
          "True in a list too large to be given whole: bodyText is the snippet, long lists of addresses are left out. Get the message by itself for all of it",
      }),
    ),
    date: dateTimeSchema(),
    read: t.Boolean(),
    headerMessageId: t.Optional(t.String({ description: "RFC 5322 Message-ID" })),
  },
  { $id: "MessageSummary" },
);
export type MessageSummaryView = Static<typeof MessageSummaryView>;

/** rules: Thread detail fields. */
export const ThreadDetailView = t.Object(
  {
    thread: ThreadView,
    messages: t.Array(MessageView, { description: "Oldest first" }),
    permissions: t.Object({ send: t.Boolean(), manage: t.Boolean() }),
  },
  { $id: "ThreadDetail" },
);
export type ThreadDetailView = Static<typeof ThreadDetailView>;

/** The bytes of an attachment, for a download. */
export interface AttachmentContent {
  /** Id of its message. */
  emailId: string;
  filename: string;
  contentType: string;
  parameters: TypeParameters;
  size: number;
  content: Bun.BunFile;
}

/** The id, the address or an alias address of a mailbox. */
export const MailboxName = filledStringSchema({ description: "Mailbox id, address or alias address" });
export const listFolderSchema = (description: string) => t.Optional(stringEnum(LIST_FOLDERS, { description }));
export const searchQuerySchema = (description: string) => t.String({ maxLength: 500, description });

/** Which conversations to list, and in which order (rules: List of conversations, List filters). */
export const ThreadFilters = t.Object({
  mailbox: t.Optional(MailboxName),
  folder: listFolderSchema("inbox when it is left out, and with q all; all is everything except trash and spam"),
  unread: t.Optional(t.Boolean({ description: "true lists only unread conversations" })),
  label: t.Optional(t.String({ description: "Case-insensitive" })),
  hasAttachments: t.Optional(t.Boolean()),
  q: t.Optional(searchQuerySchema("Search query, as in /search")),
  sort: t.Optional(
    stringEnum(SEARCH_ORDERS, {
      default: "newest",
      description:
        "relevance puts the conversations that answer the words of q best first, at most a thousand of them, before the others, which stay newest first. Without words in q it is newest",
    }),
  ),
});
/** `cursor`: of the page before; `limit`: 1 to 100. */
export type ThreadFilters = Given<typeof ThreadFilters> & { cursor?: string | undefined; limit: number };

/** Which messages to list (rules: List of messages). */
export const MessageFilters = t.Object({
  mailbox: t.Optional(emailSchema({ description: "Address or alias address of a mailbox" })),
  folder: t.Optional(stringEnum(FOLDERS)),
  direction: t.Optional(Direction),
  messageId: t.Optional(t.String({ maxLength: 1_000, description: "RFC 5322 Message-ID" })),
  threadId: t.Optional(t.String({ maxLength: 100, description: "Only of this conversation" })),
  from: t.Optional(
    t.String({ maxLength: 320, description: "Only from this address; of the latest messages. Search finds others" }),
  ),
});
/** `among`: ids of messages; `limit`: 1 to 100. Without `among`, `messageId` or `threadId`, some thousands are looked at. */
export type MessageFilters = Given<typeof MessageFilters> & { among?: readonly string[] | undefined; limit: number };

export const LabelName = filledStringSchema({ maxLength: 60 });

/** Body of PATCH /threads/{id}. */
export const ThreadPatch = t.Object(
  {
    unread: t.Optional(t.Boolean({ description: "Needs read access" })),
    read: t.Optional(t.Boolean({ description: "Not unread" })),
    starred: t.Optional(t.Boolean()),
    folder: t.Optional(stringEnum(["inbox", "archive", "trash", "spam"], { description: "Moves the conversation" })),
    labels: t.Optional(t.Array(LabelName, { maxItems: 20, description: "Replaces every label" })),
    addLabels: t.Optional(t.Array(LabelName)),
    removeLabels: t.Optional(t.Array(t.String(), { description: "Case-insensitive" })),
  },
  { $id: "ThreadPatch", additionalProperties: false, minProperties: 1 },
);
export type ThreadPatch = Given<typeof ThreadPatch>;
