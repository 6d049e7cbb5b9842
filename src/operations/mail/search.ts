/** Search (rules: Search operation). */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { DEFAULT_LIMIT, parameter, ThreadList } from "../schemas.ts";

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
  success: 200,
  response: ThreadList,
  errors: [400, 401, 403, 404, 429],
  run: ({ caller, mailbox }, { query: { limit = DEFAULT_LIMIT, ...filters } }) =>
    mailbox.search(caller, { ...filters, limit }),
});
