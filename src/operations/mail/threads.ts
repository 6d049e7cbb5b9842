/**
 * Conversations (rules: List of conversations, One conversation, Changing a conversation). Reading never marks anything
 * read.
 */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { DEFAULT_LIMIT, parameter, Thread, ThreadDetail, ThreadList, ThreadPatch } from "../schemas.ts";
import { maxChars, NEXT, newTextOnly, READS_MAIL, TOTAL } from "../tool.ts";

export const listThreads = operation({
  name: "listThreads",
  group: "Threads",
  audience: "key",
  method: "GET",
  path: "/threads",
  scope: "read",
  summary: "List conversations, newest first",
  query: t.Object({
    mailbox: parameter.mailbox,
    folder: parameter.listFolder("all is everything except trash and spam, and so is q without a folder", {
      default: "inbox",
    }),
    unread: t.Optional(t.Boolean({ description: "true lists only unread conversations" })),
    label: t.Optional(t.String()),
    hasAttachments: t.Optional(t.Boolean()),
    q: t.Optional(parameter.query("Search query, as in /search")),
    sort: parameter.sort,
    cursor: parameter.cursor,
    limit: parameter.limit,
  }),
  example: { query: { folder: "inbox", unread: true, limit: 10 } },
  tool: {
    description: "Conversations, newest first, as snippets.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Id or address",
      folder: "Default inbox; all: without trash and spam",
      q: "As in search_mail",
      sort: "Of q; default newest",
      cursor: NEXT,
      maxChars: TOTAL,
    },
    shaping: t.Object({ maxChars }),
    result: { threads: "array", nextCursor: "string|null", unread: "integer", suggestion: "string" },
  },
  success: 200,
  response: ThreadList,
  errors: [400, 401, 403, 404, 429],
  run: ({ caller, mailbox }, { query: { limit = DEFAULT_LIMIT, ...filters } }) =>
    mailbox.listThreads(caller, { ...filters, limit }),
});

export const getThread = operation({
  name: "getThread",
  group: "Threads",
  audience: "key",
  method: "GET",
  path: "/threads/:id",
  scope: "read",
  summary: "Get a conversation with its messages",
  params: t.Object({ id: parameter.id }),
  query: t.Object({ html: parameter.html }),
  tool: {
    description: "A conversation: its newest messages as text, as many as fit. Marks nothing read.",
    annotations: READS_MAIL,
    about: {
      before: "nextBefore of the cut result: older messages",
      newTextOnly: "Without quoted history; default true",
      maxChars: TOTAL,
    },
    shaping: t.Object({ before: t.Optional(t.String()), newTextOnly, maxChars }),
    without: ["html"],
    result: { thread: "object", messages: "array", permissions: "object", older: "integer", nextBefore: "string" },
  },
  success: 200,
  response: ThreadDetail,
  errors: [400, 401, 403, 404, 429],
  run: async ({ caller, mailbox }, { params, query: { html = true } }) => {
    if (html) await mailbox.renewHtml(params.id);
    return mailbox.getThread(caller, params.id, { html });
  },
});

export const updateThread = operation({
  name: "updateThread",
  group: "Threads",
  audience: "key",
  method: "PATCH",
  path: "/threads/:id",
  scope: "write",
  summary: "Move, star, label or mark a conversation",
  description: "unread and read need read access; the rest needs manage access.",
  params: t.Object({ id: parameter.id }),
  body: ThreadPatch,
  example: { body: { unread: false, starred: true, addLabels: ["Billing"] } },
  tool: {
    description: "Mark, star, move or label a conversation.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    about: { labels: "Replaces all" },
    result: { thread: "object" },
  },
  success: 200,
  response: t.Object({ thread: Thread }),
  errors: [400, 401, 403, 404, 409, 422, 429],
  run: ({ caller, mailbox }, { params, body }) => ({ thread: mailbox.update(caller, params.id, body) }),
});
