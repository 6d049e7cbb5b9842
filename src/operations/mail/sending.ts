/** Sending and drafting (rules: Reply request, Drafts, Send request). */
import { AppError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import type { Runtime } from "../../base/runtime.ts";
import { requireWellFormedAttachments } from "../../compose/attached-files.ts";
import { ADDED_FIELD } from "../../compose/outgoing.ts";
import {
  type DraftFields,
  DraftReplyArguments,
  DraftReplyRequest,
  ReplyArguments,
  ReplyRequest,
  SendRequest,
} from "../../compose/requests.ts";
import { createReplyDraft, sendMessage, sendReply } from "../../compose/send.ts";
import { DraftView, SendView } from "../../compose/sending-views.ts";
import { defineOperation } from "../operation.ts";
import { parameter, readTimeInComingYear, withIdempotencyKey } from "../shared-schemas.ts";

/**
 * Text and HTML have at most 1 MiB together, which JSON may write in six times as many bytes (RFC 8259 §7). The rest is
 * for addresses. Content within the limit always fits, and larger content gets the refusal that names the limit.
 */
export const LARGEST_BODY = 8 * 1_048_576;

export const REFUSALS = [400, 401, 403, 404, 409, 413, 422, 423, 429, 502, 507] as const;

type Content = Pick<DraftFields, "text" | "html" | "attachments" | "headers">;

/**
 * Fields that other mail APIs have, under the names that they have here, if any. Left out, they would change what is sent: they
 * are refused, and other unknown fields ignored.
 */
const ELSEWHERE: Record<string, string | undefined> = {
  reply_to: "replyTo",
  attachment: "attachments",
  files: "attachments",
  send_at: "sendAt",
  template: undefined,
};

/** @throws AppError bad_request for a field of `elsewhere` */
export function refuseForeignFields(body: object, elsewhere: Record<string, string | undefined>): void {
  for (const [name, ours] of Object.entries(elsewhere)) {
    if (!Object.hasOwn(body, name)) continue;
    const instead = ours === undefined ? "there is nothing like it" : `it is called ${ours}`;
    throw new AppError("bad_request", `${name} is not a field of this request: ${instead}`);
  }
}

/** Checks what any message may have, also an unfinished one. @throws AppError bad_request */
export function checkMessageFields(body: Content): void {
  const { attachments = [], headers = {} } = body;
  refuseForeignFields(body, ELSEWHERE);
  for (const [name, value] of Object.entries(headers)) {
    if (!ADDED_FIELD.test(name)) {
      throw new AppError("bad_request", "headers takes fields called X-… and List-…, of letters, digits, - and _");
    }
    if (/\p{Cc}/u.test(value)) throw new AppError("bad_request", `headers: ${name} must be one line of text`);
  }
  requireWellFormedAttachments(attachments);
}

/** @throws AppError bad_request */
function checkContent(body: Content, isForward = false): void {
  const { text = "", html = "" } = body;
  checkMessageFields(body);
  if (text === "" && html === "" && !isForward) {
    throw new AppError("bad_request", "text or html is required, and must not be empty");
  }
}

/** Checks a reply that may forward a message. @throws AppError bad_request */
function checkForwarding(body: DraftReplyArguments): void {
  checkContent(body, body.forward !== undefined);
  if (body.forward !== undefined && body.quote) {
    throw new AppError("bad_request", "quote does not go with forward: both would stand below the text");
  }
}

/** Reads when a message is to be sent, as epoch ms. @throws AppError bad_request */
export const readSendTime = ({ sendAt }: { sendAt?: string }, { now }: Pick<Runtime, "now">): { at?: number } =>
  sendAt === undefined ? {} : { at: readTimeInComingYear("sendAt", sendAt, now()) };

/** @throws AppError bad_request for a field without an address */
function requireAddress(name: "from" | "to", given: string | string[]): void {
  if ([given].flat().every((list) => /^[\s,;]*$/.test(list))) {
    throw new AppError("bad_request", `${name} is empty: give an address`);
  }
}

/** Hints of a tool that sends: sent mail cannot be recalled, and a repeated call sends again. */
const SENDS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };
const ONCE = "Repeat with the same key to retry without sending twice";
const LATER = "ISO date-time; a draft until then";
const SENT = { emailId: "string|null", messageId: "string", threadId: "string", from: "string", sendAt: "string" };
const FORWARD = "Message to show below, with its attachments";
const FILES = "Each {attachmentId} or {emailId}, or {filename, text}";
const REPLY_ABOUT = {
  id: "Thread",
  attachments: FILES,
  forward: FORWARD,
  to: "Instead of the computed recipients",
  cc: "Added to the computed",
  from: "Mailbox or alias; default: where the mail arrived",
  quote: "Append the previous message",
};

export const replyToThread = defineOperation({
  name: "replyToThread",
  group: "Sending",
  audience: "key",
  method: "POST",
  path: "/threads/:id/reply",
  scope: "send",
  summary: "Reply to a conversation",
  description:
    "Goes to Reply-To, else From, of the newest message that came in, threaded with In-Reply-To and References. Accepted means durably queued: message.delivered or message.bounced follows for the recipients. Nothing is sent when it is refused.",
  params: t.Object({ id: parameter.id }),
  body: withIdempotencyKey(ReplyRequest),
  largestBody: LARGEST_BODY,
  checkBody: (body) => checkContent(body),
  takesFiles: true,
  example: { body: { text: "Thanks, Tuesday at ten works for us.", replyAll: true } },
  idempotent: true,
  tool: {
    description:
      "Send a reply to the newest sender, or all; subject and threading headers are set. text, html or forward is required.",
    annotations: SENDS,
    about: { ...REPLY_ABOUT, sendAt: LATER, idempotencyKey: ONCE },
    instead: { body: withIdempotencyKey(ReplyArguments), checkBody: checkForwarding },
    result: SENT,
  },
  success: 202,
  response: SendView,
  errors: REFUSALS,
  run: ({ core, caller, record }, { params, body, files }) =>
    sendReply(core, caller, params.id, { ...body, ...readSendTime(body, core.runtime) }, record, files),
});

export const draftReply = defineOperation({
  name: "draftReply",
  group: "Sending",
  audience: "key",
  method: "POST",
  path: "/threads/:id/draft",
  scope: "write",
  summary: "Draft a reply for a person to review",
  description:
    "Saves what a reply would be as a conversation of its own in drafts, in the same mailbox, for a person to review and send. Nothing is sent.",
  params: t.Object({ id: parameter.id }),
  body: DraftReplyRequest,
  largestBody: LARGEST_BODY,
  checkBody(body) {
    refuseForeignFields(body, { sendAt: undefined });
    checkContent(body);
  },
  takesFiles: true,
  example: { body: { text: "Thanks for asking. The invoice goes out on Monday.", quote: true } },
  tool: {
    description:
      "Save a reply as a draft for a person to review; sends nothing. Without id and with to: a new message.",
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    about: REPLY_ABOUT,
    instead: {
      body: DraftReplyArguments,
      checkBody(body: DraftReplyArguments) {
        refuseForeignFields(body, { sendAt: undefined });
        checkForwarding(body);
      },
    },
    result: { text: "string", draftId: "string", from: "string" },
  },
  success: 201,
  response: DraftView,
  errors: [400, 401, 403, 404, 413, 422, 429],
  run: ({ core, caller }, { params, body, files }) => createReplyDraft(core, caller, params.id, body, files),
});

export const sendEmail = defineOperation({
  name: "sendEmail",
  group: "Sending",
  audience: "key",
  method: "POST",
  path: "/send",
  scope: "send",
  summary: "Send a message",
  description:
    "Accepted means durably queued: message.delivered or message.bounced follows for the recipients. Nothing is sent when it is refused: one recipient that is malformed or suppressed refuses the whole request.",
  body: withIdempotencyKey(SendRequest),
  largestBody: LARGEST_BODY,
  checkBody(body) {
    requireAddress("from", body.from);
    requireAddress("to", body.to);
    checkContent(body, body.forward !== undefined);
  },
  takesFiles: true,
  example: {
    body: {
      from: "ada@example.com",
      to: ["Ben Okafor <ben@example.net>"],
      subject: "Contract for signature",
      text: "Hello Ben,\n\nthe contract is ready for you to sign.\n\nAda",
    },
  },
  idempotent: true,
  tool: {
    description: "Send a new message. text, html or forward is required. Accepted means queued, delivery follows.",
    annotations: SENDS,
    about: {
      from: "Address of a mailbox with send access",
      attachments: FILES,
      forward: FORWARD,
      sendAt: LATER,
      idempotencyKey: ONCE,
    },
    result: SENT,
  },
  success: 202,
  response: SendView,
  errors: REFUSALS,
  run: ({ core, caller, record }, { body, files }) =>
    sendMessage(core, caller, { ...body, ...readSendTime(body, core.runtime) }, record, files),
});
