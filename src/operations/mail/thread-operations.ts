/**
 * Mailboxes and their conversations (rules: List of mailboxes, List of conversations, Search operation, One
 * conversation, Changing a conversation). Reading marks nothing read.
 */
import { AppError } from "../../base/errors.ts";
import { dateTimeSchema, nullable, t } from "../../base/json-schema.ts";
import * as conversations from "../../mailbox/changing/threads.ts";
import * as listing from "../../mailbox/reading/listing.ts";
import { renewSanitizedHtml } from "../../mailbox/reading/stored-html.ts";
import * as mailboxes from "../../mailbox/state/mailboxes.ts";
import {
  listFolderSchema,
  MailboxName,
  MailboxView,
  searchQuerySchema,
  ThreadDetailView,
  ThreadFilters,
  ThreadListView,
  ThreadPatch,
  ThreadView,
} from "../../mailbox/state/views.ts";
import { TERMS } from "../../search/operators.ts";
import { defineOperation } from "../operation.ts";
import { PAGE_QUERY } from "../paging.ts";
import { DEFAULT_LIMIT, parameter, readTimeInComingYear } from "../shared-schemas.ts";
import { GO_ON, maxChars, NEXT, newTextOnly, offset, READS_MAIL, TOTAL } from "../tool.ts";

export const listMailboxes = defineOperation({
  name: "listMailboxes",
  group: "Mailboxes",
  audience: "key",
  method: "GET",
  path: "/mailboxes",
  scope: "read",
  summary: "List the mailboxes the key can read",
  tool: {
    description: "Mailboxes you can read, with your access to each.",
    annotations: { readOnlyHint: true, openWorldHint: false },
    about: { offset: GO_ON },
    shaping: t.Object({ offset }),
    result: { mailboxes: "array", nextOffset: "integer" },
  },
  success: 200,
  response: t.Object({ mailboxes: t.Array(MailboxView) }),
  errors: [401, 403, 404, 429],
  run: ({ caller, core }) => ({ mailboxes: mailboxes.listMailboxes(core, caller) }),
});

/** The fields of list_threads and search_mail. */
const LIST_RESULT = { text: "string", threads: "array", nextCursor: "string|null", unread: "integer" };

export const listThreads = defineOperation({
  name: "listThreads",
  group: "Threads",
  audience: "key",
  method: "GET",
  path: "/threads",
  scope: "read",
  summary: "List conversations, newest first",
  query: t.Object({ ...ThreadFilters.properties, ...PAGE_QUERY }),
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
    trueOnly: ["unread", "hasAttachments"],
    result: LIST_RESULT,
  },
  shows: (_, { threads }) => threads.map(({ id }) => id),
  success: 200,
  response: ThreadListView,
  errors: [400, 401, 403, 404, 429],
  run: ({ caller, core }, { query: { limit = DEFAULT_LIMIT, ...filters } }) =>
    listing.listThreads(core, caller, { ...filters, limit }),
});

/** The query language, for programs and models. */
const SYNTAX = `Words and "phrases", all must match; ${TERMS.map(({ term, example }) => term + example).join(" ")}; - excludes`;

export const searchMail = defineOperation({
  name: "searchMail",
  group: "Threads",
  audience: "key",
  method: "GET",
  path: "/search",
  scope: "read",
  summary: "Search conversations, newest or best match first",
  query: t.Object({
    q: searchQuerySchema(`${SYNTAX}. Ages are in d, w, m or y`),
    mailbox: t.Optional(MailboxName),
    folder: listFolderSchema("Without it and in:, every folder except trash and spam is searched"),
    sort: ThreadFilters.properties.sort,
    ...PAGE_QUERY,
  }),
  example: { query: { q: "from:priya has:attachment after:2026-01-01" } },
  tool: {
    description: "Search conversations, newest or best match first, as snippets.",
    annotations: READS_MAIL,
    about: {
      q: SYNTAX,
      mailbox: "Id or address",
      folder: "Default: all but trash and spam",
      sort: "Default newest",
      cursor: NEXT,
      maxChars: TOTAL,
    },
    shaping: t.Object({ maxChars }),
    result: LIST_RESULT,
  },
  shows: (_, { threads }) => threads.map(({ id }) => id),
  success: 200,
  response: ThreadListView,
  errors: [400, 401, 403, 404, 429],
  run: ({ caller, core }, { query: { limit = DEFAULT_LIMIT, ...filters } }) =>
    listing.searchThreads(core, caller, { ...filters, limit }),
});

export const getThread = defineOperation({
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
    result: {
      text: "string",
      messages: "array",
      permissions: "object",
      older: "integer",
      nextBefore: "string",
    },
  },
  shows: ({ params }) => [params.id],
  success: 200,
  response: ThreadDetailView,
  errors: [400, 401, 403, 404, 429],
  run: async ({ caller, core }, { params, query: { html = true } }) => {
    if (html) await renewSanitizedHtml(core, params.id);
    return conversations.getThread(core, caller, params.id, { html });
  },
});

export const updateThread = defineOperation({
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
    description: "Mark, star, move or label a conversation, or several by ids.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    about: { ids: "Instead of id, at most 100", labels: "Replaces all" },
    result: { text: "string", thread: "object", changed: "integer", refused: "array" },
  },
  success: 200,
  response: t.Object({ thread: ThreadView }),
  errors: [400, 401, 403, 404, 409, 422, 429],
  run: ({ caller, core }, { params, body }) => ({ thread: conversations.updateThread(core, caller, params.id, body) }),
});

/** Conversations in one request, whose transaction makes all other work wait. */
export const MOST_AT_ONCE = 100;
const CHANGES = Object.keys(ThreadPatch.properties);

export const updateThreads = defineOperation({
  name: "updateThreads",
  group: "Threads",
  audience: "key",
  method: "PATCH",
  path: "/threads",
  scope: "write",
  summary: "Move, star, label or mark many conversations",
  description:
    "Changes each conversation as PATCH /threads/{id} does, all in one transaction. Those that cannot be changed are in refused, with the reason, and the others are changed all the same.",
  body: t.Object(
    {
      ids: t.Array(t.String({ maxLength: 100 }), {
        minItems: 1,
        maxItems: MOST_AT_ONCE,
        uniqueItems: true,
        description: "Ids of conversations, each once",
      }),
      ...ThreadPatch.properties,
    },
    { additionalProperties: false },
  ),
  checkBody(body) {
    if (CHANGES.every((name) => !Object.hasOwn(body, name))) {
      throw new AppError("bad_request", `The body needs at least one of ${CHANGES.join(", ")}`);
    }
  },
  example: { body: { ids: ["thr_1", "thr_2"], folder: "archive" } },
  success: 200,
  response: conversations.ChangedThreads,
  errors: [400, 401, 403, 404, 413, 429],
  run: ({ caller, core }, { body: { ids, ...patch } }) => conversations.updateThreads(core, caller, ids, patch),
});

export const snoozeThread = defineOperation({
  name: "snoozeThread",
  group: "Threads",
  audience: "key",
  method: "PATCH",
  path: "/threads/:id/snooze",
  scope: "write",
  summary: "Snooze a conversation, or end that",
  description:
    "A snoozed conversation leaves the inbox, and returns there unread at that time, or with new mail. It needs manage access, and is refused (409) in drafts, spam and trash.",
  params: t.Object({ id: parameter.id }),
  body: t.Object(
    { until: nullable(dateTimeSchema(), { description: "Within the year to come; null returns it to the inbox now" }) },
    { additionalProperties: false },
  ),
  example: { body: { until: null } },
  success: 200,
  response: t.Object({ thread: ThreadView }),
  errors: [400, 401, 403, 404, 409, 413, 429],
  run({ caller, core }, { params, body: { until } }) {
    const at = until === null ? null : readTimeInComingYear("until", until, core.now());
    const thread = conversations.snoozeThread(core, caller, params.id, at);
    core.wake("wake-snoozed");
    return { thread };
  },
});
