/** Messages of API keys that wait for a person (rules: Held for approval). */
import { requireAdmin } from "../../access/caller.ts";
import { readTypedReason } from "../../admin/typed-names.ts";
import {
  dateTimeSchema,
  emailSchema,
  filledStringSchema,
  nullable,
  type Static,
  stringEnum,
  t,
} from "../../base/json-schema.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { heldHeader } from "../../mailbox/reading/held-content.ts";
import { HeldHeader } from "../../mailbox/state/views.ts";
import { EmailAddress } from "../../message/message-schemas.ts";
import type { HeldMessage } from "../../outbound/approval.ts";
import * as approvals from "../../outbound/approval.ts";
import { HOLD_STATES, RECIPIENT_FIELDS } from "../../store/schema.ts";
import type { Db } from "../../store/store.ts";
import { defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

/** States of messages that were not sent. */
const UNSENT = HOLD_STATES.filter((state) => state !== "sent");
const LONGEST_REASON = 500;

const Hold = t.Object(
  {
    id: t.String({ description: "Of the message: GET /messages/{id} of the mail API shows it whole" }),
    threadId: t.String({ description: "For a reply, the conversation that it answers; else its own" }),
    mailboxId: t.String(),
    mailbox: emailSchema({ description: "The address that it comes from" }),
    keyId: t.String(),
    userId: t.String({ description: "The person that the key acts for" }),
    state: stringEnum(UNSENT, { description: "`approved`: it is sent when its time comes" }),
    reason: t.String({ description: "For people: why it was held, or rejected" }),
    since: dateTimeSchema(),
    sendAt: nullable(dateTimeSchema(), { description: "It is not sent before" }),
    decidedBy: nullable(t.String(), { description: "Id of the person who approved or rejected it" }),
    decidedAt: nullable(dateTimeSchema(), { description: "When they did" }),
    recipients: t.Array(
      t.Object({ field: stringEnum(RECIPIENT_FIELDS), email: t.String(), name: EmailAddress.properties.name }),
      { description: "Bcc only for a key with the scope approve, which decides in place of a person" },
    ),
    ...HeldHeader.properties,
  },
  { $id: "Hold" },
);

export type HoldView = Static<typeof Hold>;

/** Limits of the header in a row; GET /messages/{id} has the whole header. */
const MOST_FIELDS = 50;
const LONGEST_VALUE = 1_000;

/** `decides`: the caller may approve it, and so sees its Bcc (rules: Bcc). */
const holdView = (db: Db, held: HeldMessage, decides: boolean): HoldView => {
  const { emailId, threadId, answers, mailbox, keyId, userId, state, reason, recipients, ...times } = held;
  if (state === "sent") throw new Error(`the message ${emailId} was sent`);
  const { headers, namedOnly } = heldHeader(db, emailId);
  return {
    id: emailId,
    threadId: answers ?? threadId,
    mailboxId: mailbox.id,
    mailbox: mailbox.address,
    keyId,
    userId,
    state,
    reason,
    since: toIsoTime(times.since),
    sendAt: toIsoTimeOrNull(times.sendAt),
    decidedBy: times.decidedBy,
    decidedAt: toIsoTimeOrNull(times.decidedAt),
    recipients: recipients
      .filter(({ field }) => decides || field !== "bcc")
      .map(({ field, email: address, name }) => ({ field, email: address, ...(name !== undefined && { name }) })),
    headers: headers
      .slice(0, MOST_FIELDS)
      .map(({ value, ...field }) => ({ ...field, value: value.slice(0, LONGEST_VALUE).toWellFormed() })),
    namedOnly: namedOnly.slice(0, MOST_FIELDS),
  };
};

const common = { group: "Holds", audience: "key" } as const;

export const listHolds = defineOperation({
  ...common,
  name: "listHolds",
  method: "GET",
  path: "/holds",
  scope: ["admin", "approve"],
  summary: "List messages of API keys that wait for a person, the longest waiting first",
  query: t.Object({
    ...PAGE_QUERY,
    state: t.Optional(stringEnum(UNSENT, { description: "`waiting` when left out" })),
  }),
  success: 200,
  response: t.Object({ holds: t.Array(Hold), nextCursor }),
  errors: READ_ERRORS,
  run({ core, caller }, { query: { state = "waiting", ...query } }) {
    const decides = caller.scopes.has("approve");
    if (!decides) requireAdmin(caller);
    const list = {
      query: `holds ${state}`,
      rowPosition: ({ since, seq }: HeldMessage) => ({ at: since, id: String(seq) }),
      read: (after: { at: number; id: string } | undefined, limit: number) =>
        approvals.list(core, caller, {
          state,
          after: after && { since: after.at, seq: Number(after.id) },
          most: limit,
        }),
    };
    const { page, nextCursor: next } = readListPage(list, query);
    return { holds: page.map((held) => holdView(core.db, held, decides)), nextCursor: next };
  },
});

export const approveHold = defineOperation({
  ...common,
  name: "approveHold",
  method: "POST",
  path: "/holds/:id/approve",
  scope: "approve",
  summary: "Approve a message: it is sent as it was held, now or when its time comes",
  description:
    "It passes every check of sending again. When one refuses, the message waits on. A key never approves what it sent itself.",
  params: BY_ID,
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 200,
  response: t.Object({
    ok: t.Boolean({ description: "Always true" }),
    emailId: t.String(),
    threadId: t.String(),
    sendAt: t.Optional(dateTimeSchema({ description: "It is sent then" })),
  }),
  errors: [...WRITE_ERRORS, 423, 502, 507],
  async run({ core, caller, record }, { params: { id } }) {
    const toSentView = ({ sendAt, ...sent }: { emailId: string; threadId: string; sendAt?: number }) => ({
      ok: true,
      ...sent,
      ...(sendAt !== undefined && { sendAt: toIsoTime(sendAt) }),
    });
    return toSentView(await approvals.approve(core, caller, id, (tx, approved) => record(tx, toSentView(approved))));
  },
});

export const rejectHold = defineOperation({
  ...common,
  name: "rejectHold",
  method: "POST",
  path: "/holds/:id/reject",
  scope: "approve",
  summary: "Reject a message: it is not sent, and deleted after 30 days",
  params: BY_ID,
  body: strictBody({
    reason: t.Optional(filledStringSchema({ maxLength: LONGEST_REASON, description: "For people" })),
  }),
  bodyOptional: true,
  example: { body: { reason: "The price is wrong" } },
  idempotent: true,
  success: 200,
  response: Done,
  errors: WRITE_ERRORS,
  run: ({ core, caller, record }, { params: { id }, body: { reason } }) =>
    core.store.transact((tx) => {
      approvals.reject(core, tx, caller, id, reason === undefined ? "rejected" : readTypedReason(reason));
      record(tx, DONE);
      return DONE;
    }),
});
