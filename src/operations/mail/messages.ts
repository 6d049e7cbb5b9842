/** Messages and their attachments (rules: List of messages, One message, Raw messages, Attachments). */
import { oneOf, t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { DEFAULT_LIMIT, Message, MessageSummary, parameter } from "../schemas.ts";
import { GO_ON, LONGEST_WAIT_SECONDS, maxChars, newTextOnly, offset, READS_MAIL, TOTAL } from "../tool.ts";

export const listMessages = operation({
  name: "listMessages",
  group: "Messages",
  audience: "key",
  method: "GET",
  path: "/messages",
  scope: "read",
  summary: "List recent messages, newest first",
  query: t.Object({
    mailbox: parameter.mailboxAddress,
    folder: parameter.messageFolder,
    direction: parameter.direction,
    limit: parameter.limit,
  }),
  example: { query: { direction: "inbound", limit: 10 } },
  tool: {
    description: "Single messages, newest first, as snippets; or, with waitSeconds, wait for new mail.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Address",
      after: "nextAfter of an earlier result: only mail that arrived since",
      waitSeconds: "Wait for mail arriving after `after`, default now",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({
      after: t.Optional(t.String()),
      waitSeconds: t.Optional(t.Integer({ minimum: 0, maximum: LONGEST_WAIT_SECONDS })),
      offset,
      maxChars,
    }),
    result: { messages: "array", count: "integer", nextAfter: "string", nextOffset: "integer" },
  },
  success: 200,
  response: t.Object({ messages: t.Array(MessageSummary), count: t.Integer() }),
  errors: [400, 401, 403, 404, 429],
  run: ({ caller, mailbox }, { query: { limit = DEFAULT_LIMIT, ...filters } }) => {
    const messages = mailbox.listMessages(caller, { ...filters, limit });
    return { messages, count: messages.length };
  },
});

export const getMessage = operation({
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
      list: t.Optional(oneOf(["recipients", "attachments"])),
      offset,
      maxChars,
    }),
    without: ["html"],
    result: { message: "object" },
  },
  success: 200,
  response: t.Object({ message: Message }),
  errors: [400, 401, 403, 404, 429],
  run: async ({ caller, mailbox }, { params, query: { html = true } }) => {
    if (html) await mailbox.renewHtml(params.id);
    return { message: mailbox.getMessage(caller, params.id, { html }) };
  },
});

export const getRawMessage = operation({
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
  success: 200,
  response: { mediaType: "message/rfc822", description: "The message as a file" },
  errors: [401, 403, 404, 429],
  run: async ({ caller, mailbox }, { params }) => ({
    filename: `${params.id}.eml`,
    contentType: "message/rfc822",
    content: await mailbox.getRawMessage(caller, params.id),
  }),
});

export const getAttachment = operation({
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
    result: {
      filename: "string",
      contentType: "string",
      size: "integer",
      url: "string",
      text: "string",
      nextOffset: "integer",
    },
  },
  success: 200,
  response: { mediaType: "*/*", description: "The bytes, with the attachment's own content type, as a download" },
  errors: [401, 403, 404, 429],
  run: ({ caller, mailbox }, { params }) => mailbox.getAttachment(caller, params.id),
});
