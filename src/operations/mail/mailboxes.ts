/** Mailboxes (rules: List of mailboxes). */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { Mailbox } from "../schemas.ts";

export const listMailboxes = operation({
  name: "listMailboxes",
  group: "Mailboxes",
  audience: "key",
  method: "GET",
  path: "/mailboxes",
  scope: "read",
  summary: "List the mailboxes the key can read",
  success: 200,
  response: t.Object({ mailboxes: t.Array(Mailbox) }),
  errors: [401, 403, 404, 429],
  run: ({ caller, mailbox }) => ({ mailboxes: mailbox.listMailboxes(caller) }),
});
