/** Messages and their attachments (rules: List of messages, One message, Raw messages, Attachments). */
import { dateTimeSchema, filledStringSchema, stringEnum, t } from "../../base/json-schema.ts";
import { arrivalsAfter, latestArrival, readArrivalPosition } from "../../mailbox/reading/arrivals.ts";
import * as mail from "../../mailbox/reading/messages.ts";
import * as originals from "../../mailbox/reading/served-octets.ts";
import { renewSanitizedHtml } from "../../mailbox/reading/stored-html.ts";
import { MessageFilters, MessageSummaryView, MessageView } from "../../mailbox/state/views.ts";
import { findDeliveryView, listRecipientProgress } from "../../outbound/progress.ts";
import { QUEUE_STATES, RECIPIENT_FIELDS } from "../../store/schema.ts";
import { defineOperation } from "../operation.ts";
import { DEFAULT_LIMIT, parameter } from "../shared-schemas.ts";
import { GO_ON, LONGEST_WAIT_SECONDS, maxChars, newTextOnly, offset, READS_MAIL, TOTAL } from "../tool.ts";

export const listMessages = defineOperation({
  name: "listMessages",
  group: "Messages",
  audience: "key",
  method: "GET",
  path: "/messages",
  scope: "read",
  summary: "List recent messages, newest first, or follow those that arrive",
  description:
    "With after or waitSeconds, the messages that arrived since then, in pages in the order of their arrival. Pass each nextAfter on, and you get every message once.",
  query: t.Object({
    ...MessageFilters.properties,
    after: t.Optional(
      filledStringSchema({
        maxLength: 100,
        description: "nextAfter of an earlier answer, or a time: only what arrived since",
      }),
    ),
    waitSeconds: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: LONGEST_WAIT_SECONDS,
        description: "Wait so long for mail that arrives after `after`, or from now on",
      }),
    ),
    limit: parameter.limit,
  }),
  example: { query: { direction: "inbound", limit: 10 } },
  tool: {
    description: "Single messages, newest first, as snippets; or, with waitSeconds, wait for new mail.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Address",
      from: "Sender's address",
      after: "nextAfter of an earlier result, or a time: only mail that arrived since",
      waitSeconds: "Wait for mail arriving after `after`, default now",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({ offset, maxChars }),
    result: { text: "string", messages: "array", count: "integer", nextAfter: "string", nextOffset: "integer" },
  },
  shows: (_, { messages }) => messages.map(({ id }) => id),
  success: 200,
  response: t.Object({
    messages: t.Array(MessageSummaryView),
    count: t.Integer(),
    nextAfter: t.String({ description: "Position after these in the order of arrival, to pass on as after" }),
  }),
  errors: [400, 401, 403, 404, 429],
  async run({ caller, core, wait }, { query: { limit = DEFAULT_LIMIT, after, waitSeconds = 0, ...filters } }) {
    const asked = { ...filters, limit };
    // Before the list is read, so that a message that arrives meanwhile is not missed.
    let nextAfter = latestArrival(core);
    if (after === undefined && waitSeconds === 0) {
      const messages = mail.listMessages(core, caller, asked);
      return { messages, count: messages.length, nextAfter };
    }
    if (after !== undefined) nextAfter = readArrivalPosition(core, after);
    const messages = await wait(waitSeconds, (present) => {
      const { messages, next } = arrivalsAfter(core, present, nextAfter, asked);
      nextAfter = next;
      return messages;
    });
    return { messages: messages ?? [], count: messages?.length ?? 0, nextAfter };
  },
});

export const getMessage = defineOperation({
  name: "getMessage",
  group: "Messages",
  audience: "key",
  method: "GET",
  path: "/messages/:id",
  scope: "read",
  summary: "Get a message",
  description: "The id is the emailId of webhooks.",
  params: t.Object({ id: parameter.id }),
  query: t.Object({ html: parameter.html }),
  tool: {
    description: "One message as text. Marks nothing read.",
    annotations: READS_MAIL,
    about: {
      html: "The HTML instead; default false",
      newTextOnly: "Without quoted history; default false",
      list: "All of these instead of the text",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({
      html: t.Optional(t.Boolean()),
      newTextOnly,
      list: t.Optional(stringEnum(["recipients", "attachments"])),
      offset,
      maxChars,
    }),
    without: ["html"],
    result: { text: "string", message: "object", nextOffset: "integer" },
  },
  shows: ({ params }) => [params.id],
  success: 200,
  response: t.Object({ message: MessageView }),
  errors: [400, 401, 403, 404, 429],
  run: async ({ caller, core }, { params, query: { html = true } }) => {
    if (html) await renewSanitizedHtml(core, params.id);
    const message = mail.getMessage(core, caller, params.id, { html });
    const delivery = findDeliveryView(core.db, caller, params.id);
    // The same object, by which renderers for models know its source.
    return {
      message: Object.assign(message, mail.getMessageDetails(core, caller, params.id), delivery && { delivery }),
    };
  },
});

export const getRawMessage = defineOperation({
  name: "getRawMessage",
  group: "Messages",
  audience: "key",
  method: "GET",
  path: "/messages/:id/raw",
  scope: "read",
  summary: "Download a message as an RFC 5322 file",
  description:
    "Rebuilt from stored headers, bodies and attachments: not byte for byte the original, whose transport headers and signatures are not kept.",
  params: t.Object({ id: parameter.id }),
  tool: {
    description: "A message as an RFC 5322 file: all headers and MIME parts.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: { text: "string", size: "integer", url: "string", nextOffset: "integer" },
  },
  shows: ({ params }) => [params.id],
  success: 200,
  response: { mediaType: "message/rfc822", description: "The message as a file" },
  errors: [401, 403, 404, 429],
  run: async ({ caller, core }, { params }) => ({
    filename: `${params.id}.eml`,
    contentType: "message/rfc822",
    content: await mail.getRawMessage(core, caller, params.id),
  }),
});

export const getOriginal = defineOperation({
  name: "getOriginal",
  group: "Messages",
  audience: "key",
  method: "GET",
  path: "/messages/:id/original",
  scope: "read",
  summary: "Download the original of a message, byte for byte",
  description:
    "What came, was handed in, or was signed and sent, below this server's own fields, as mail apps get it over IMAP. The answer has an ETag. With Range it is 206 and a part, with If-None-Match 304 if nothing changed. A key that reads no one-time codes is refused.",
  params: t.Object({ id: parameter.id }),
  shows: ({ params }) => [params.id],
  success: 200,
  response: { mediaType: "message/rfc822", description: "The message as a file" },
  errors: [401, 403, 404, 429],
  run: ({ caller, core }, { params }) => originals.getOriginal(core, caller, params.id),
});

export const getAttachment = defineOperation({
  name: "getAttachment",
  group: "Attachments",
  audience: "key",
  method: "GET",
  path: "/attachments/:id",
  scope: "read",
  summary: "Download an attachment",
  params: t.Object({ id: parameter.id }),
  tool: {
    description:
      "An attachment: text, also of PDF, Office, RTF and calendar files; other small files embedded, else a URL to GET with your API key.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: { text: "string", size: "integer", url: "string", nextOffset: "integer" },
  },
  shows: ({ params }) => [params.id],
  success: 200,
  response: { mediaType: "*/*", description: "The bytes, with the attachment's own content type, as a download" },
  errors: [401, 403, 404, 429],
  run: ({ caller, core }, { params }) => mail.getAttachment(core, caller, params.id),
});

const Delivery = t.Object(
  {
    recipient: t.String({ description: "Address, as it was sent to" }),
    field: stringEnum(RECIPIENT_FIELDS),
    state: stringEnum(QUEUE_STATES, {
      description:
        "waiting for its next attempt; held, by an admin or in the demo; delivered: its server accepted it; bounced: it was refused, or could not be delivered in time; cancelled by an admin",
    }),
    attempts: t.Integer({ description: "Attempts that have ended" }),
    reply: t.Optional(t.String({ description: "Last reply of its server, or failure, for people to read" })),
    nextAttemptAt: t.Optional(dateTimeSchema()),
    settledAt: t.Optional(dateTimeSchema({ description: "When it was delivered, bounced or cancelled" })),
    complained: t.Boolean({ description: "The recipient reported it as spam" }),
  },
  { $id: "Delivery" },
);

export const listDeliveries = defineOperation({
  name: "listDeliveries",
  group: "Messages",
  audience: "key",
  method: "GET",
  path: "/messages/:id/deliveries",
  scope: "read",
  summary: "Follow a sent message to each recipient",
  description:
    "Bcc recipients, and replies that name one, are for the person who sent it. The list is empty for a message that was not sent from here.",
  params: t.Object({ id: parameter.id }),
  success: 200,
  response: t.Object({ deliveries: t.Array(Delivery) }),
  errors: [401, 403, 404, 429],
  run: ({ core, caller }, { params }) => ({
    deliveries: listRecipientProgress(core.db, caller, params.id).map(
      ({ email, reply, nextAt, settledAt, ...progress }) => ({
        recipient: email,
        ...progress,
        ...(reply !== null && { reply }),
        ...(nextAt !== null && { nextAttemptAt: nextAt }),
        ...(settledAt !== null && { settledAt }),
      }),
    ),
  }),
});
