/** Search (rules: Search operation). */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { DEFAULT_LIMIT, parameter, ThreadList } from "../schemas.ts";
import { maxChars, NEXT, READS_MAIL, TOTAL } from "../tool.ts";

/** The query language, for a model. */
const SYNTAX =
  'Words and "phrases", all must match; from: to: subject: label: has:attachment is:unread is:starred before:YYYY-MM-DD after:YYYY-MM-DD; - excludes';

export const searchMail = operation({
  name: "searchMail",
  group: "Threads",
  audience: "key",
  method: "GET",
  path: "/search",
  scope: "read",
  summary: "Search conversations, newest or best match first",
  query: t.Object({
    q: parameter.query(
      'Terms and "quoted phrases", all of which must match, with from:, to:, subject:, label:, has:attachment, is:unread, is:starred, before:YYYY-MM-DD, after:YYYY-MM-DD; a leading - excludes',
    ),
    mailbox: parameter.mailbox,
    folder: parameter.listFolder("Without it, every folder except trash and spam is searched"),
    sort: parameter.sort,
    cursor: parameter.cursor,
    limit: parameter.limit,
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
    result: { threads: "array", nextCursor: "string|null", unread: "integer", suggestion: "string" },
  },
  success: 200,
  response: ThreadList,
  errors: [400, 401, 403, 404, 429],
  run: ({ caller, mailbox }, { query: { limit = DEFAULT_LIMIT, ...filters } }) =>
    mailbox.search(caller, { ...filters, limit }),
});
