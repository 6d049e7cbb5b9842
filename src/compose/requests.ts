/**
 * Requests that write mail, each a schema and its type (rules: Send request, Reply request, Drafts over the API, Attached
 * files, Added fields). The files that `attachments` names are read beforehand (attached-files.ts), and given beside the request.
 */
import {
  dateTimeSchema,
  emailSchema,
  filledListSchema,
  filledStringSchema,
  type Given,
  t,
} from "../base/json-schema.ts";
import { LONGEST_SUBJECT } from "../message/compose.ts";

export const MOST_ATTACHMENTS = 50;
/** Fields that a program adds to a header, and characters of each. */
const MOST_FIELDS = 50;
const LONGEST_FIELD = 2_000;
/** Characters of a field of recipients in the app. */
const LONGEST_RECIPIENTS = 100_000;

/** Characters of a Content-Type. */
const LONGEST_TYPE = 1_000;

const addressList = (description: string) => t.Union([t.String(), t.Array(t.String())], { description });
const LIST = "addresses, as text with commas between them or as a list";

/** A file to attach. Once the request was read, `content` is the name of a file that came with it (uploadName). */
export const AttachmentRequest = t.Object(
  {
    attachmentId: t.Optional(filledStringSchema({ description: "An attachment that the key can read" })),
    emailId: t.Optional(
      filledStringSchema({ description: "A message that the key can read: attached as a file, without Bcc" }),
    ),
    filename: t.Optional(
      t.String({
        minLength: 1,
        maxLength: 255,
        description: "Required with text and content, but not for an alternative, which has none; renames the others",
      }),
    ),
    contentType: t.Optional(
      t.String({
        maxLength: LONGEST_TYPE,
        description:
          "With text and content: a media type, perhaps with parameters, which are sent along, as in text/calendar; method=REQUEST",
      }),
    ),
    text: t.Optional(t.String({ description: "The content of a text file, in UTF-8" })),
    content: t.Optional(
      t.String({
        description: "The content of a file, in base64. As multipart/form-data, send the file itself instead",
      }),
    ),
    inline: t.Optional(t.Boolean({ description: "Shown in the HTML, by cid:" })),
    contentId: t.Optional(t.String({ minLength: 1, maxLength: 200, description: "What cid: in the HTML names" })),
    alternative: t.Optional(
      t.Boolean({
        description: "Without a name beside text and HTML, as programs expect invitations, in text/calendar",
      }),
    ),
  },
  {
    $id: "OutgoingAttachment",
    description: "One of attachmentId, emailId, text and content. The first two need the scope read",
  },
);
export type AttachmentRequest = Given<typeof AttachmentRequest>;

/** Fields that a program may add to the header of a message. */
const AddedFields = t.Object({
  replyTo: t.Optional(addressList(`Where replies go: ${LIST}`)),
  headers: t.Optional(
    t.Unsafe<Record<string, string>>(
      t.Object(
        {},
        {
          additionalProperties: t.String({ maxLength: LONGEST_FIELD }),
          maxProperties: MOST_FIELDS,
          description: "Fields of the header called X-… and List-…, each a line of text",
        },
      ),
    ),
  ),
});
export type AddedFields = Given<typeof AddedFields>;

const Content = t.Object({
  text: t.Optional(t.String({ description: "Plain-text body. text or html is required; together at most 1 MB" })),
  html: t.Optional(
    t.String({ description: "HTML body. Scripts, event handlers and javascript: URLs are taken out of it" }),
  ),
  attachments: t.Optional(
    t.Array(AttachmentRequest, {
      maxItems: MOST_ATTACHMENTS,
      description: "In order. The composed message has at most 25 MB, which some 18 MB of files reach",
    }),
  ),
});

/** A message that is shown below another. */
const Forwarding = t.Object({
  forward: t.Optional(
    filledStringSchema({
      description:
        "Id of a message that is shown below, with its attachments. text and html may both be missing then. Needs the scope read",
    }),
  ),
  forwardAttachments: t.Optional(t.Boolean({ description: "false leaves its attachments out" })),
});
export type Forwarding = Given<typeof Forwarding>;

const sendAt = t.Optional(
  dateTimeSchema({
    description:
      "When to send it, within the year to come. Until then it is a draft: discard that, and nothing is sent",
  }),
);

const from = emailSchema({ description: "Address of a mailbox, not an alias, that the key may send from" });
const copies = {
  cc: t.Optional(addressList(`Recipients of a copy: ${LIST}`)),
  bcc: t.Optional(addressList(`Recipients whom no other recipient sees: ${LIST}`)),
};
const subject = t.Optional(
  t.String({ maxLength: LONGEST_SUBJECT, description: "Fwd: and its subject when a message is forwarded" }),
);

/** A request whose `sendAt` was read: `at` is the time in epoch ms, and without it the message is sent at once. */
export type Timed<R> = Omit<R, "sendAt"> & { at?: number | undefined };

/** Body of POST /send. */
export const SendRequest = t.Object(
  {
    from,
    to: t.Union([filledStringSchema(), filledListSchema(t.String())], { description: `Recipients: ${LIST}` }),
    ...copies,
    subject,
    ...Content.properties,
    ...Forwarding.properties,
    ...AddedFields.properties,
    sendAt,
  },
  { $id: "SendRequest" },
);
export type SendRequest = Given<typeof SendRequest>;

const DraftFields = t.Object({
  from: t.Optional(from),
  to: t.Optional(addressList(`Recipients: ${LIST}`)),
  ...copies,
  subject,
  ...Content.properties,
  ...AddedFields.properties,
});
export type DraftFields = Given<typeof DraftFields>;

/** Body of POST /drafts. */
export const NewDraftRequest = t.Object({ ...DraftFields.properties, ...Forwarding.properties }, { $id: "NewDraft" });
export type NewDraftRequest = Given<typeof NewDraftRequest>;

/** Body of PATCH /drafts/{id}. */
export const DraftPatch = t.Object(
  {
    revision: t.Integer({ minimum: 0, maximum: 1e9, description: "Of the draft that you have read" }),
    ...DraftFields.properties,
  },
  { $id: "DraftPatch" },
);
export type DraftPatch = Given<typeof DraftPatch>;

/** Body of POST /drafts/{id}/send. */
export const DraftSendRequest = t.Object(
  {
    revision: t.Optional(
      t.Integer({ minimum: 0, maximum: 1e9, description: "Send only what you have read: 409 if it changed since" }),
    ),
    sendAt,
  },
  { $id: "DraftSendRequest" },
);
export type DraftSendRequest = Given<typeof DraftSendRequest>;

/** Body of POST /threads/{id}/draft. */
export const DraftReplyRequest = t.Object(
  {
    ...Content.properties,
    replyAll: t.Optional(t.Boolean({ description: "true replies to everyone on the last message, To and Cc too" })),
    from: t.Optional(
      emailSchema({
        description:
          "The conversation's mailbox or one of its aliases; the address the mail arrived on when it is left out",
      }),
    ),
    to: t.Optional(addressList(`Instead of the computed recipients: ${LIST}`)),
    cc: t.Optional(addressList(`Added to the computed Cc: ${LIST}`)),
    bcc: copies.bcc,
    subject: t.Optional(
      t.String({ maxLength: LONGEST_SUBJECT, description: "Re: and the conversation's subject when it is left out" }),
    ),
    quote: t.Optional(
      t.Boolean({ description: "true appends the previous message, quoted; needs the scope `read`, too" }),
    ),
    ...AddedFields.properties,
  },
  { $id: "DraftRequest" },
);

/** Body of POST /threads/{id}/reply. */
export const ReplyRequest = t.Object({ ...DraftReplyRequest.properties, sendAt }, { $id: "ReplyRequest" });

/** Arguments of the tools that do the same, which may show a message below as POST /send does. */
export const DraftReplyArguments = t.Object({ ...DraftReplyRequest.properties, ...Forwarding.properties });
export const ReplyArguments = t.Object({ ...DraftReplyArguments.properties, sendAt });
export type DraftReplyArguments = Given<typeof DraftReplyArguments>;
export type ReplyArguments = Given<typeof ReplyArguments>;

const recipients = () => t.String({ maxLength: LONGEST_RECIPIENTS });

/** A draft as the app saves it: text that is no address yet may stand in the fields of recipients. */
export const DraftRequest = t.Object({
  from: t.String(),
  to: recipients(),
  cc: t.Optional(recipients()),
  bcc: t.Optional(recipients()),
  subject,
  text: t.Optional(t.String({ description: "Replaces text and HTML; a text that is unchanged keeps the HTML" })),
  html: t.Optional(t.String({ description: "Replaces both; the text is derived from it" })),
});
export type DraftRequest = Given<typeof DraftRequest>;
