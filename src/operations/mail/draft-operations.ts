/** Drafts of programs: new messages for a person, or the program itself, to send later (rules: Drafts over the API). */
import { t } from "../../base/json-schema.ts";
import {
  changeProgramDraft,
  discardProgramDraft,
  getProgramDraft,
  sendProgramDraft,
} from "../../compose/program-drafts.ts";
import { DraftPatch, DraftSendRequest, NewDraftRequest } from "../../compose/requests.ts";
import { newDraft } from "../../compose/send.ts";
import { ProgramDraftView, SendView } from "../../compose/sending-views.ts";
import { defineOperation } from "../operation.ts";
import { DONE, Done, parameter, withIdempotencyKey } from "../shared-schemas.ts";
import { checkMessageFields, LARGEST_BODY, REFUSALS, readSendTime, refuseForeignFields } from "./sending.ts";

const common = { group: "Drafts", audience: "key" } as const;
const byId = t.Object({ id: parameter.id });

/** Fields of other mail APIs that sending a draft does not take: what is sent stands in the draft. */
const ELSEWHERE = {
  send_at: "sendAt",
  reply_to: undefined,
  attachment: undefined,
  files: undefined,
  template: undefined,
};

export const createDraft = defineOperation({
  ...common,
  name: "createDraft",
  method: "POST",
  path: "/drafts",
  scope: "write",
  summary: "Draft a new message",
  description:
    "Any field may be missing. It comes from the key's own mailbox unless from says otherwise. Nothing is sent.",
  body: withIdempotencyKey(NewDraftRequest),
  bodyOptional: true,
  largestBody: LARGEST_BODY,
  checkBody(body) {
    refuseForeignFields(body, { sendAt: undefined });
    checkMessageFields(body);
  },
  takesFiles: true,
  example: { body: { to: ["Ben Okafor <ben@example.net>"], subject: "Contract", text: "Hello Ben,\n\nthe contract" } },
  idempotent: true,
  success: 201,
  response: ProgramDraftView,
  errors: [400, 401, 403, 404, 409, 413, 422, 429],
  run: ({ core, caller, record }, { body, files }) => newDraft(core, caller, body, record, files),
});

export const getDraft = defineOperation({
  ...common,
  name: "getDraft",
  method: "GET",
  path: "/drafts/:id",
  scope: "read",
  summary: "Get a draft",
  description: "Drafts of people and of POST /threads/{id}/draft, too. GET /threads?folder=drafts lists them.",
  params: byId,
  shows: ({ params }) => [params.id],
  success: 200,
  response: ProgramDraftView,
  errors: [401, 403, 404, 409, 429],
  run: ({ core, caller }, { params }) => getProgramDraft(core, caller, params.id),
});

export const updateDraft = defineOperation({
  ...common,
  name: "updateDraft",
  method: "PATCH",
  path: "/drafts/:id",
  scope: "write",
  summary: "Change a draft",
  description:
    "Fields that are left out stay as they are; text without html leaves no HTML, and html alone makes the text. attachments replaces all of them: name those to keep by their attachmentId. 409 if the draft changed since the revision, or is about to be sent. One that somebody else wrote last needs the scope `read`, too.",
  params: byId,
  body: DraftPatch,
  largestBody: LARGEST_BODY,
  checkBody(body) {
    refuseForeignFields(body, { sendAt: undefined, forward: undefined, forwardAttachments: undefined });
    checkMessageFields(body);
  },
  takesFiles: true,
  example: { body: { revision: 1, subject: "Contract for signature" } },
  success: 200,
  response: ProgramDraftView,
  errors: [400, 401, 403, 404, 409, 413, 422, 429, 507],
  run: ({ core, caller, record }, { params, body, files }) =>
    changeProgramDraft(core, caller, params.id, body, record, body.attachments && files),
});

export const deleteDraft = defineOperation({
  ...common,
  name: "deleteDraft",
  method: "DELETE",
  path: "/drafts/:id",
  scope: "write",
  summary: "Discard a draft",
  description:
    "It goes to trash, where a person finds it, and undo brings it back. One that was to be sent at a time is not sent.",
  params: byId,
  success: 200,
  response: Done,
  errors: [401, 403, 404, 409, 429],
  run({ core, caller }, { params }) {
    core.store.transact((tx) => discardProgramDraft(core, tx, caller, params.id));
    return DONE;
  },
});

export const sendDraft = defineOperation({
  ...common,
  name: "sendDraft",
  method: "POST",
  path: "/drafts/:id/send",
  scope: "send",
  summary: "Send a draft",
  description: "As it is stored, as POST /send does, or at a time. The draft is gone once it is accepted.",
  params: byId,
  body: withIdempotencyKey(DraftSendRequest),
  bodyOptional: true,
  checkBody: (body) => refuseForeignFields(body, ELSEWHERE),
  example: { body: { revision: 1 } },
  idempotent: true,
  success: 202,
  response: SendView,
  errors: REFUSALS,
  run: ({ core, caller, record }, { params, body }) =>
    sendProgramDraft(core, caller, params.id, { revision: body.revision, ...readSendTime(body, core.runtime) }, record),
});
