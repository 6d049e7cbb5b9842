/**
 * The resources of the API as JSON Schema (rules: Resources). Types, checks and the OpenAPI document come from them. A
 * schema with `$id` is a component of the document, under that name.
 */
import { AppError } from "../base/errors.ts";
import { dateTime, email, filled, filledList, nullable, oneOf, t } from "../base/json-schema.ts";
import { MOST_ATTACHMENTS } from "../compose/files.ts";
import { HIGHLIGHT_FIELDS, LONGEST_SNIPPET } from "../mailbox/highlights.ts";
import { LIST_FOLDERS, SEARCH_ORDERS } from "../mailbox/views.ts";
import { LONGEST_SUBJECT } from "../message/compose.ts";
import { EmailAddress } from "../message/schemas.ts";
import { DELIVERY_STATES } from "../outbound/progress.ts";
import { FOLDERS, QUEUE_STATES, RECIPIENT_FIELDS } from "../store/schema.ts";
import { LONGEST_KEY } from "./idempotency.ts";

/** The schema of a body whose unknown fields are refused, since nothing would come of them (rules: Parameters). */
export const strictBody = <P extends Parameters<typeof t.Object>[0]>(
  fields: P,
  options: { minProperties?: number } = {},
) => t.Object(fields, { additionalProperties: false, ...options });

/** Schema and value of the answer of an operation that has nothing to tell. */
export const Done = t.Object({ ok: t.Boolean({ description: "Always true" }) });
export const DONE = { ok: true };

/** Path parameters of a resource. */
export const BY_ID = t.Object({ id: filled() });

/** A time in epoch ms as the text of a `dateTime`; null stays null. */
export const isoOf = (ms: number): string => new Date(ms).toISOString();
export const maybeIsoOf = (ms: number | null): string | null => (ms === null ? null : isoOf(ms));

const YEAR_MS = 366 * 86_400_000;
/** RFC 3339 §5.6: a time without an offset would be read as the server's. */
const DATE_TIME = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:\d\d)$/;

/** Reads a `dateTime` as epoch ms. @throws AppError bad_request */
export function readDateTime(field: string, text: string): number {
  const day = text.slice(0, 10);
  // A day that its month lacks would roll over into the next.
  const exists = DATE_TIME.test(text) && new Date(day).toJSON()?.startsWith(day);
  const at = exists ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw new AppError("bad_request", `${field} must be a time as in 2030-01-07T08:00:00Z`);
  return at;
}

/** Reads a time in the year to come, as epoch ms. @throws AppError bad_request */
export function readUntil(field: string, text: string, now: number): number {
  const until = readDateTime(field, text);
  if (until > now && until < now + YEAR_MS) return until;
  throw new AppError("bad_request", `${field} must be a time within the year to come`);
}

export const Failure = t.Object(
  {
    error: t.String({ description: "For people; may change" }),
    code: t.String({ description: "Stable: branch on it" }),
  },
  { $id: "Error" },
);

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

const Highlight = t.Object(
  {
    emailId: t.String({ description: "Id of the message, as in GET /messages/{id}" }),
    field: oneOf(HIGHLIGHT_FIELDS),
    snippet: t.String({
      description: `A piece of that field on one line, at most ${LONGEST_SNIPPET} UTF-16 code units; an ellipsis stands where it was cut`,
    }),
    ranges: t.Array(t.Array(t.Integer({ minimum: 0 }), { minItems: 2, maxItems: 2 }), {
      description:
        "What was found in the snippet: pairs of start (inclusive) and end (exclusive) in UTF-16 code units, ascending, not overlapping",
    }),
  },
  { $id: "Highlight" },
);

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
    highlights: t.Optional(
      t.Array(Highlight, {
        description:
          "In lists asked for with q, and there always: where its messages match, of up to three of them, the latest first; empty when only operators match. In very large messages some may be left out",
      }),
    ),
  },
  { $id: "Thread" },
);

export const ThreadList = t.Object(
  {
    threads: t.Array(Thread),
    nextCursor: nullable(t.String(), { description: "null on the last page" }),
    unread: t.Integer({ description: "Unread conversations matching the filters, across all pages" }),
    sort: t.Optional(oneOf(SEARCH_ORDERS, { description: "The order they are in, when sort was given" })),
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

/** What the header of a message that waits for a person has, beside what each message has. */
export const heldHeader = {
  headers: t.Array(
    t.Object({
      name: t.String(),
      value: t.String(),
      redirects: t.Boolean({ description: "Answers or receipts go where it says: Reply-To and its kin" }),
    }),
    { description: "Other fields of its header, those that redirect first" },
  ),
  namedOnly: t.Array(EmailAddress, { description: "In To or Cc of its header, but none of its recipients" }),
};

/** What a message has by itself, not in its conversation. */
const MESSAGE_ALONE = {
  folder: t.Optional(oneOf(FOLDERS, { description: "This and what follows: of GET /messages/{id} alone" })),
  mailbox: t.Optional(email({ description: "The mailbox's address" })),
  inReplyTo: t.Optional(t.String({ description: "RFC 5322 In-Reply-To" })),
  references: t.Optional(t.Array(t.String(), { description: "RFC 5322 References, oldest first" })),
  replyTo: t.Optional(t.Array(EmailAddress)),
  listUnsubscribe: t.Optional(
    t.Object(
      {
        urls: t.Array(t.String(), { description: "https: and mailto: URLs of List-Unsubscribe (RFC 2369)" }),
        oneClick: t.Boolean({ description: "Its https: URL takes a POST by itself (RFC 8058)" }),
      },
      { description: "How to leave the list that it came by, as its sender says. For a person to press" },
    ),
  ),
  held: t.Optional(
    t.Object(
      {
        state: oneOf(["waiting", "approved", "rejected"], {
          description: "`approved`: it is sent when its time comes",
        }),
        reason: t.String({ description: "For people: why it waits, or was rejected" }),
        since: dateTime(),
        ...heldHeader,
        textDiffers: t.Boolean({ description: "`text` says something else than `html`; both go out" }),
      },
      { description: "A message of an API key that waits for a person to approve it" },
    ),
  ),
  approvedBy: t.Optional(t.String({ description: "Id of the person who approved a message that was held" })),
  delivery: t.Optional(
    t.Object(
      {
        state: oneOf(DELIVERY_STATES, {
          description:
            "Of all recipients together: waiting while any waits or is held, delivered and failed if all are, else partly",
        }),
        recipients: t.Array(
          t.Object({ recipient: t.String(), field: oneOf(RECIPIENT_FIELDS), state: oneOf(QUEUE_STATES) }),
          {
            description: "Of Bcc, for the person who sent it. /api/ext/v1/messages/{id}/deliveries has more",
          },
        ),
      },
      { description: "Of a message that was sent from here" },
    ),
  ),
};

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
          "True in a conversation too large to be given whole: text is the beginning; html, long lists of addresses and attachments after the first ten are left out. Get the message by itself for all of it",
      }),
    ),
    html: t.Optional(t.String({ description: "Without scripts and event handlers; left out with html=false" })),
    attachments: t.Array(Attachment),
    auth: t.Optional(
      t.Object({ spf: t.String(), dkim: t.String(), dmarc: t.String() }, { description: "Inbound verdicts" }),
    ),
    deliveredAt: t.Optional(dateTime({ description: "When the recipient's server accepted an outbound message" })),
    ...MESSAGE_ALONE,
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
    truncated: t.Optional(
      t.Boolean({
        description:
          "True in a list too large to be given whole: bodyText is the snippet, long lists of addresses are left out. Get the message by itself for all of it",
      }),
    ),
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

export const label = filled({ maxLength: 60 });

export const Signature = t.String({ maxLength: 10_000, description: "Plain text; empty for none" });

export const Template = t.Object(
  {
    name: filled({ maxLength: 100, description: "Unlike the others of the mailbox, in any case" }),
    subject: t.Optional(t.String({ maxLength: LONGEST_SUBJECT })),
    text: t.String({ maxLength: 20_000, description: "Plain text" }),
  },
  { additionalProperties: false, $id: "Template" },
);

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

const addressList = (description: string) => t.Union([t.String(), t.Array(t.String())], { description });
const LIST = "addresses, as text with commas between them or as a list";
/** Fields that a program adds to a header, and characters of each. */
const MOST_FIELDS = 50;
const LONGEST_FIELD = 2_000;

const OutgoingAttachment = t.Object(
  {
    attachmentId: t.Optional(filled({ description: "An attachment that the key can read" })),
    emailId: t.Optional(filled({ description: "A message that the key can read: attached as a file, without Bcc" })),
    filename: t.Optional(
      t.String({ minLength: 1, maxLength: 255, description: "Required with text and content; renames the others" }),
    ),
    contentType: t.Optional(t.String({ maxLength: 200, description: "With text and content" })),
    text: t.Optional(t.String({ description: "The content of a text file, in UTF-8" })),
    content: t.Optional(
      t.String({
        description: "The content of a file, in base64. As multipart/form-data, send the file itself instead",
      }),
    ),
    inline: t.Optional(t.Boolean({ description: "Shown in the HTML, by cid:" })),
    contentId: t.Optional(t.String({ minLength: 1, maxLength: 200, description: "What cid: in the HTML names" })),
  },
  {
    $id: "OutgoingAttachment",
    description: "One of attachmentId, emailId, text and content. The first two need the scope read",
  },
);

const added = {
  replyTo: t.Optional(addressList(`Where replies go: ${LIST}`)),
  headers: t.Optional(
    t.Object(
      {},
      {
        additionalProperties: t.String({ maxLength: LONGEST_FIELD }),
        maxProperties: MOST_FIELDS,
        description: "Fields of the header called X-… and List-…, each a line of text",
      },
    ),
  ),
};

const content = {
  text: t.Optional(t.String({ description: "Plain-text body. text or html is required; together at most 1 MB" })),
  html: t.Optional(
    t.String({ description: "HTML body. Scripts, event handlers and javascript: URLs are taken out of it" }),
  ),
  attachments: t.Optional(
    t.Array(OutgoingAttachment, {
      maxItems: MOST_ATTACHMENTS,
      description: "In order. The composed message has at most 25 MB, which some 18 MB of files reach",
    }),
  ),
};

const sendAt = t.Optional(
  dateTime({
    description:
      "When to send it, within the year to come. Until then it is a draft: discard that, and nothing is sent",
  }),
);

/** An idempotency key, in the header or in the body (rules: Idempotency). */
export const IdempotencyKey = t.String({
  minLength: 1,
  maxLength: LONGEST_KEY,
  description:
    "Printable ASCII, of your choosing, one for each message: a request that is repeated with the same key is answered as the first time, and nothing is sent again. Kept for 24 hours after success; a refused request leaves the key unused",
});

const idempotencyKey = t.Optional(
  t.String({ minLength: 1, maxLength: LONGEST_KEY, description: "Alternative to the header Idempotency-Key" }),
);

const from = email({ description: "Address of a mailbox, not an alias, that the key may send from" });
const copies = {
  cc: t.Optional(addressList(`Recipients of a copy: ${LIST}`)),
  bcc: t.Optional(addressList(`Recipients whom no other recipient sees: ${LIST}`)),
};
const subject = t.Optional(
  t.String({ maxLength: LONGEST_SUBJECT, description: "Fwd: and its subject when a message is forwarded" }),
);
const forwarding = {
  forward: t.Optional(
    filled({
      description:
        "Id of a message that is shown below, with its attachments. text and html may both be missing then. Needs the scope read",
    }),
  ),
  forwardAttachments: t.Optional(t.Boolean({ description: "false leaves its attachments out" })),
};

/** Body of POST /send. */
export const SendRequest = t.Object(
  {
    from,
    to: t.Union([filled(), filledList(t.String())], { description: `Recipients: ${LIST}` }),
    ...copies,
    subject,
    ...content,
    ...forwarding,
    ...added,
    sendAt,
    idempotencyKey,
  },
  { $id: "SendRequest" },
);

const fieldsOfDraft = {
  from: t.Optional(from),
  to: t.Optional(addressList(`Recipients: ${LIST}`)),
  ...copies,
  subject,
  ...content,
  ...added,
};

/** Body of POST /drafts. */
export const NewDraft = t.Object({ ...fieldsOfDraft, ...forwarding, idempotencyKey }, { $id: "NewDraft" });

/** Body of PATCH /drafts/{id}. */
export const DraftPatch = t.Object(
  {
    revision: t.Integer({ minimum: 0, maximum: 1e9, description: "Of the draft that you have read" }),
    ...fieldsOfDraft,
  },
  { $id: "DraftPatch" },
);

/** Body of POST /drafts/{id}/send. */
export const DraftSendRequest = t.Object(
  {
    revision: t.Optional(
      t.Integer({ minimum: 0, maximum: 1e9, description: "Send only what you have read: 409 if it changed since" }),
    ),
    sendAt,
    idempotencyKey,
  },
  { $id: "DraftSendRequest" },
);

const reply = {
  ...content,
  replyAll: t.Optional(t.Boolean({ description: "true replies to everyone on the last message, To and Cc too" })),
  from: t.Optional(
    email({
      description:
        "The conversation's mailbox or one of its aliases; the address the mail arrived on when it is left out",
    }),
  ),
  to: t.Optional(addressList(`Instead of the computed recipients: ${LIST}`)),
  cc: t.Optional(addressList(`Added to the computed Cc: ${LIST}`)),
  bcc: t.Optional(addressList(`Recipients whom no other recipient sees: ${LIST}`)),
  subject: t.Optional(
    t.String({ maxLength: LONGEST_SUBJECT, description: "Re: and the conversation's subject when it is left out" }),
  ),
  quote: t.Optional(
    t.Boolean({ description: "true appends the previous message, quoted; needs the scope `read`, too" }),
  ),
  ...added,
};

/** Body of POST /threads/{id}/reply. */
export const ReplyRequest = t.Object({ ...reply, sendAt, idempotencyKey }, { $id: "ReplyRequest" });

/** Body of POST /threads/{id}/draft. */
export const DraftRequest = t.Object(reply, { $id: "DraftRequest" });

/** What the tools of both take, which may show a message below as /send does. */
export const ReplyArguments = t.Object({ ...reply, ...forwarding, sendAt, idempotencyKey });
export const DraftArguments = t.Object({ ...reply, ...forwarding });

export const SendResponse = t.Object(
  {
    ok: t.Boolean({ description: "Always true" }),
    id: t.String({ description: "The same as messageId; kept for compatibility" }),
    messageId: t.String({ description: "RFC 5322 Message-ID" }),
    emailId: nullable(t.String(), { description: "Id of the stored Sent copy, as in GET /messages/{id}" }),
    threadId: t.String(),
    mailboxId: t.String(),
    from: email(),
    held: t.Optional(
      t.Boolean({
        description:
          "true: nothing is sent until a person approves it, by the policy of the key. emailId is its id before and after",
      }),
    ),
    scheduled: t.Optional(
      t.Boolean({ description: "true with sendAt: it is a draft until then, and emailId is null" }),
    ),
    sendAt: t.Optional(dateTime()),
    draftId: t.Optional(t.String({ description: "With sendAt: the draft, whose discarding cancels it" })),
  },
  { $id: "SendResponse" },
);

/** A draft over the further API. */
export const Draft = t.Object(
  {
    id: t.String({ description: "Id of its conversation. A draft that moves to another mailbox gets another" }),
    draftId: t.String({ description: "The same as id" }),
    emailId: t.String({ description: "Id of its message, as in GET /messages/{id}" }),
    revision: t.Integer({ description: "Grows with each change" }),
    mailboxId: t.String(),
    from: email(),
    to: t.Array(EmailAddress),
    cc: t.Array(EmailAddress),
    bcc: t.Optional(t.Array(EmailAddress, { description: "For the person who wrote it last" })),
    replyTo: t.Optional(t.Array(EmailAddress)),
    headers: t.Optional(t.Object({}, { additionalProperties: t.String() })),
    subject: t.String(),
    text: t.String(),
    html: t.Optional(t.String({ description: "Without scripts and event handlers" })),
    attachments: t.Array(Attachment),
    replyToThreadId: nullable(t.String(), { description: "The conversation that it replies to" }),
    savedAt: dateTime(),
    sendAt: t.Optional(dateTime({ description: "When it is sent" })),
    refusal: t.Optional(t.String({ description: "For people: why it could not be sent when it was due" })),
  },
  { $id: "Draft" },
);

export const DraftResponse = t.Object(
  {
    ok: t.Boolean({ description: "Always true" }),
    draftId: t.String({ description: "Id of the draft's conversation, in the folder drafts" }),
    replyToThreadId: t.String(),
    from: t.String(),
    to: t.String({ description: "As in a To header" }),
    cc: t.Optional(nullable(t.String(), { description: "As in a Cc header" })),
    subject: t.String(),
  },
  { $id: "DraftResponse" },
);

export const DEFAULT_LIMIT = 25;

/** Parameters of several operations, in the path or the query. */
export const parameter = {
  id: filled(),
  mailbox: t.Optional(filled({ description: "Mailbox id, address or alias address" })),
  mailboxAddress: t.Optional(email({ description: "Address or alias address of a mailbox" })),
  listFolder: (description: string) => t.Optional(oneOf(LIST_FOLDERS, { description })),
  messageFolder: t.Optional(Folder),
  direction: t.Optional(Direction),
  html: t.Optional(t.Boolean({ default: true, description: "false leaves HTML bodies out" })),
  query: (description: string) => t.String({ maxLength: 500, description }),
  sort: t.Optional(
    oneOf(SEARCH_ORDERS, {
      default: "newest",
      description:
        "relevance puts the conversations that answer the words of q best first, at most a thousand of them, before the others, which stay newest first. Without words in q it is newest",
    }),
  ),
  cursor: t.Optional(filled({ description: "nextCursor of the previous page, with the filters that made it" })),
  limit: t.Optional(
    t.Integer({ minimum: 1, maximum: 100, default: DEFAULT_LIMIT, description: "Most items on a page" }),
  ),
} as const;
