/** Changes in the mail of the caller's reach (rules: Changes). */
import { filledStringSchema, t } from "../../base/json-schema.ts";
import { ChangesView, readChanges } from "../../mailbox/changing/change-feed.ts";
import { MailboxName } from "../../mailbox/state/views.ts";
import { defineOperation } from "../operation.ts";
import { LONGEST_WAIT_SECONDS } from "../tool.ts";

export const listChanges = defineOperation({
  name: "listChanges",
  group: "Changes",
  audience: "key",
  method: "GET",
  path: "/changes",
  scope: "read",
  summary: "Follow what changes, oldest first",
  description:
    "Without after, nothing but the present cursor: list what you need, then pass each next on as after. A conversation is listed with its latest change. One that comes into the key's reach is upserted, and one that leaves it is gone. A cursor is good for 30 days; after that the answer is 400, and you begin anew.",
  query: t.Object({
    after: t.Optional(filledStringSchema({ maxLength: 100, description: "next of an earlier answer" })),
    waitSeconds: t.Optional(
      t.Integer({ minimum: 0, maximum: LONGEST_WAIT_SECONDS, description: "Wait so long for a change" }),
    ),
    mailbox: t.Optional(MailboxName),
  }),
  success: 200,
  response: ChangesView,
  errors: [400, 401, 403, 404, 429],
  async run({ caller, core, wait }, { query: { after, waitSeconds = 0, mailbox: of } }) {
    let answer = readChanges(core, caller, { after, mailbox: of });
    const hasNews = () => answer.changes.length > 0 || answer.more;
    if (waitSeconds === 0 || hasNews()) return answer;
    await wait(waitSeconds, (present) => {
      answer = readChanges(core, present, { after: answer.next, mailbox: of });
      return hasNews() || undefined;
    });
    return answer;
  },
});
