/** Writing mail in the app: drafts, their attachments, and sending them now or later. */
import { dateTimeSchema, t } from "../../base/json-schema.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import * as draftSending from "../../compose/draft-sending.ts";
import { DraftRequest } from "../../compose/requests.ts";
import { replyDefaults } from "../../compose/send.ts";
import * as drafts from "../../compose/write-drafts.ts";
import { markedDrafts, readDraft, removeDraft, scheduledDrafts } from "../../mailbox/changing/drafts.ts";
import { heldMarks } from "../../mailbox/changing/holds.ts";
import * as approvals from "../../outbound/approval.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID, readTimeInComingYear } from "../shared-schemas.ts";

/** Text and HTML of 1 MiB, which JSON may write in six times as many bytes (RFC 8259 §7), and addresses. */
const LARGEST_DRAFT = 8 * 1_048_576;
const MOST_APPROVED = 500;

/** `answers`: id of the conversation that it replies to. */
export const beginDraft = defineAppOperation({
  name: "beginDraft",
  audience: "person",
  method: "POST",
  path: "/drafts",
  body: t.Object({ ...DraftRequest.properties, answers: t.Optional(t.String()) }),
  largestBody: LARGEST_DRAFT,
  success: 201,
  run: ({ core, caller }, { body }) => drafts.saveDraft(core, caller, body),
});

/** Lists the latest drafts of a mailbox with what lists show of them, and the messages that were held. */
export const listMarkedDrafts = defineAppOperation({
  name: "listMarkedDrafts",
  audience: "person",
  method: "GET",
  path: "/drafts",
  query: t.Object({ mailbox: t.String() }),
  run: ({ caller, core }, { query }) => ({
    drafts: markedDrafts(core, caller, query.mailbox).map(({ id, agent, dueAt, refusal, ...draft }) => ({
      ...draft,
      draftId: id,
      /** Name of the API key that it was made with. */
      agent: agent?.key ?? null,
      /** When it is sent. */
      dueAt: toIsoTimeOrNull(dueAt),
      /** True if the draft was not sent when it was due. */
      refused: refusal !== null,
    })),
    held: heldMarks(core, caller, query.mailbox),
  }),
});

/** Lists what a mailbox sends later, the next first: its scheduled drafts, and messages that were approved for later. */
export const listScheduled = defineAppOperation({
  name: "listScheduled",
  audience: "person",
  method: "GET",
  path: "/scheduled",
  /** `mailbox`: its id. */
  query: t.Object({ mailbox: t.String() }),
  run({ core, caller }, { query }) {
    const written = scheduledDrafts(core, caller, query.mailbox).map((draft) => ({ ...draft, emailId: null }));
    const approved = approvals
      .list(core, caller, { state: "approved", most: MOST_APPROVED })
      .flatMap(({ threadId: id, sendAt: dueAt, mailbox: { id: mailboxId }, recipients, ...held }) => {
        if (dueAt === null || mailboxId !== query.mailbox) return [];
        const { subject, snippet, emailId } = held;
        const field = (name: "to" | "cc") => recipients.filter((recipient) => recipient.field === name);
        return { id, subject, snippet, to: field("to"), cc: field("cc"), dueAt, emailId };
      });
    const scheduled = [...written, ...approved].sort((a, b) => a.dueAt - b.dueAt);
    /** `emailId`: of a message that was approved. */
    return { scheduled: scheduled.map(({ dueAt, ...one }) => ({ ...one, dueAt: toIsoTime(dueAt) })) };
  },
});

/** Has every recipient, Bcc included, if the person may send it. */
export const openDraft = defineAppOperation({
  name: "openDraft",
  audience: "person",
  method: "GET",
  path: "/drafts/:id",
  params: BY_ID,
  run: ({ core, caller }, { params }) => drafts.openDraft(core, caller, params.id),
});

/** `revision`: the one that was opened. */
export const saveDraft = defineAppOperation({
  name: "saveDraft",
  audience: "person",
  method: "PATCH",
  path: "/drafts/:id",
  params: BY_ID,
  body: t.Object({ ...DraftRequest.properties, revision: t.Integer() }),
  largestBody: LARGEST_DRAFT,
  run: ({ core, caller }, { params, body }) => drafts.saveDraft(core, caller, body, { draftId: params.id }),
});

export const discardDraft = defineAppOperation({
  name: "discardDraft",
  audience: "person",
  method: "DELETE",
  path: "/drafts/:id",
  params: BY_ID,
  run({ core, caller }, { params }) {
    core.store.transact((tx) => removeDraft(tx, readDraft(tx, caller, params.id)));
  },
});

/** `attachments`: the ids that the page shows. `at`: when to send it if not now. */
export const sendOpenedDraft = defineAppOperation({
  name: "sendOpenedDraft",
  audience: "person",
  method: "POST",
  path: "/drafts/:id/send",
  params: BY_ID,
  body: t.Object({
    ...DraftRequest.properties,
    revision: t.Integer(),
    attachments: t.Array(t.String()),
    at: t.Optional(dateTimeSchema()),
  }),
  largestBody: LARGEST_DRAFT,
  run: ({ core, caller }, { params, body: { at, ...request } }) =>
    draftSending.sendDraft(core, caller, params.id, {
      ...request,
      ...(at !== undefined && { at: readTimeInComingYear("at", at, core.now()) }),
    }),
});

export const undoSend = defineAppOperation({
  name: "undoSend",
  audience: "person",
  method: "POST",
  path: "/drafts/:id/undo",
  params: BY_ID,
  run: ({ core, caller }, { params }) => draftSending.undoSend(core, caller, params.id),
});

export const detachFile = defineAppOperation({
  name: "detachFile",
  audience: "person",
  method: "DELETE",
  path: "/drafts/:id/attachments/:attachmentId",
  params: t.Object({ id: t.String(), attachmentId: t.String() }),
  run: ({ core, caller }, { params }) => drafts.detachFromDraft(core, caller, params.id, params.attachmentId),
});

/** Recipients and quotation of a reply. `all`: to everybody. */
export const getReplyDefaults = defineAppOperation({
  name: "getReplyDefaults",
  audience: "person",
  method: "GET",
  path: "/threads/:id/answer",
  params: BY_ID,
  query: t.Object({ all: t.Optional(t.Boolean()) }),
  run: ({ core, caller }, { params, query: { all = false } }) => replyDefaults(core, caller, params.id, { all }),
});

/** Drafts that reply to the conversation. */
export const listDraftsAnswering = defineAppOperation({
  name: "listDraftsAnswering",
  audience: "person",
  method: "GET",
  path: "/threads/:id/drafts",
  params: BY_ID,
  run: ({ core, caller }, { params }) => ({ drafts: drafts.listReplyDrafts(core, caller, params.id) }),
});

export const forwardMessage = defineAppOperation({
  name: "forwardMessage",
  audience: "person",
  method: "POST",
  path: "/messages/:id/forward",
  params: BY_ID,
  success: 201,
  run: ({ core, caller }, { params }) => drafts.createForwardDraft(core, caller, params.id),
});
