/** Mailboxes (rules: List of mailboxes). */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { Mailbox } from "../schemas.ts";
import { GO_ON, offset } from "../tool.ts";

export const listMailboxes = operation({
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
  response: t.Object({ mailboxes: t.Array(Mailbox) }),
  errors: [401, 403, 404, 429],
  run: ({ caller, mailbox }) => ({ mailboxes: mailbox.listMailboxes(caller) }),
});
