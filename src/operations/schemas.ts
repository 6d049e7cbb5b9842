/** Requests and answers of sending as JSON Schema, and what several operations have in common. */
import { AppError } from "../base/errors.ts";
import { dateTime, email, filled, filledList, nullable, oneOf, t } from "../base/json-schema.ts";
import { MOST_ATTACHMENTS } from "../compose/files.ts";
import { AttachmentView, Direction, LIST_FOLDERS, SEARCH_ORDERS } from "../mailbox/views.ts";
import { LONGEST_SUBJECT } from "../message/compose.ts";
import { EmailAddress } from "../message/schemas.ts";
import { FOLDERS } from "../store/schema.ts";
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

export const Signature = t.String({ maxLength: 10_000, description: "Plain text; empty for none" });

export const Template = t.Object(
  {
    name: filled({ maxLength: 100, description: "Unlike the others of the mailbox, in any case" }),
    subject: t.Optional(t.String({ maxLength: LONGEST_SUBJECT })),
    text: t.String({ maxLength: 20_000, description: "Plain text" }),
  },
  { additionalProperties: false, $id: "Template" },
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
    attachments: t.Array(AttachmentView),
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
  messageFolder: t.Optional(oneOf(FOLDERS)),
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
