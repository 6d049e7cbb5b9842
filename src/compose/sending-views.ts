/** Answers about mail that was written, each a schema and its type (rules: Resources). */
import { alwaysTrue, dateTimeSchema, emailSchema, nullable, type Static, t } from "../base/json-schema.ts";
import { AttachmentView } from "../mailbox/state/views.ts";
import { EmailAddress } from "../message/message-schemas.ts";

/** rules: Send response. */
export const SendView = t.Object(
  {
    ok: alwaysTrue({ description: "Always true" }),
    id: t.String({ description: "The same as messageId; kept for compatibility" }),
    messageId: t.String({ description: "RFC 5322 Message-ID" }),
    emailId: nullable(t.String(), { description: "Id of the stored Sent copy, as in GET /messages/{id}" }),
    threadId: t.String(),
    mailboxId: t.String(),
    from: emailSchema(),
    held: t.Optional(
      alwaysTrue({
        description:
          "true: nothing is sent until a person approves it, by the policy of the key. emailId is its id before and after",
      }),
    ),
    scheduled: t.Optional(
      alwaysTrue({ description: "true with sendAt: it is a draft until then, and emailId is null" }),
    ),
    sendAt: t.Optional(dateTimeSchema()),
    draftId: t.Optional(t.String({ description: "With sendAt: the draft, whose discarding cancels it" })),
  },
  { $id: "SendResponse" },
);
export type SendView = Static<typeof SendView>;

/** A draft over the further API (rules: Drafts over the API). */
export const ProgramDraftView = t.Object(
  {
    id: t.String({ description: "Id of its conversation. A draft that moves to another mailbox gets another" }),
    draftId: t.String({ description: "The same as id" }),
    emailId: t.String({ description: "Id of its message, as in GET /messages/{id}" }),
    revision: t.Integer({ description: "Grows with each change" }),
    mailboxId: t.String(),
    from: emailSchema(),
    to: t.Array(EmailAddress),
    cc: t.Array(EmailAddress),
    bcc: t.Optional(t.Array(EmailAddress, { description: "For the person who wrote it last" })),
    replyTo: t.Optional(t.Array(EmailAddress)),
    headers: t.Optional(t.Unsafe<Record<string, string>>(t.Object({}, { additionalProperties: t.String() }))),
    subject: t.String(),
    text: t.String(),
    html: t.Optional(t.String({ description: "Without scripts and event handlers" })),
    attachments: t.Array(AttachmentView),
    replyToThreadId: nullable(t.String(), { description: "The conversation that it replies to" }),
    savedAt: dateTimeSchema(),
    sendAt: t.Optional(dateTimeSchema({ description: "When it is sent" })),
    refusal: t.Optional(t.String({ description: "For people: why it could not be sent when it was due" })),
  },
  { $id: "Draft" },
);
export type ProgramDraftView = Static<typeof ProgramDraftView>;

/** rules: Draft response. `to` is empty if there is nobody to reply to: the person who opens the draft fills it in. */
export const DraftView = t.Object(
  {
    ok: alwaysTrue({ description: "Always true" }),
    draftId: t.String({ description: "Id of the draft's conversation, in the folder drafts" }),
    replyToThreadId: t.String(),
    from: t.String(),
    to: t.String({ description: "As in a To header" }),
    cc: t.Optional(nullable(t.String(), { description: "As in a Cc header" })),
    subject: t.String(),
  },
  { $id: "DraftResponse" },
);
export type DraftView = Static<typeof DraftView>;
