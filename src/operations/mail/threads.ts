/**
 * Conversations (rules: List of conversations, One conversation, Changing a conversation). Reading never marks anything
 * read.
 */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { DEFAULT_LIMIT, parameter, Thread, ThreadDetail, ThreadList, ThreadPatch } from "../schemas.ts";

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
  success: 200,
  response: t.Object({ thread: Thread }),
  errors: [400, 401, 403, 404, 409, 422, 429],
  run: ({ caller, mailbox }, { params, body }) => ({ thread: mailbox.update(caller, params.id, body) }),
});
