/** Administration of mailboxes in the app: the API's operations, and a list of all mailboxes at once. */
import type { People } from "../../admin/people.ts";
import type { Serving } from "../../api/rest.ts";
import {
  addAlias,
  addGrant,
  addMailbox,
  changeMailbox,
  mailboxView,
  removeAlias,
  removeGrant,
  removeMailbox,
} from "../../operations/admin/mailboxes.ts";
import type { Options } from "../../store/settings.ts";
import type { MailboxesView } from "../admin-views.ts";
import type { Route } from "../route.ts";
import { workspaceOf } from "./asked.ts";
import { settingsRoute } from "./operation-route.ts";

export interface MailboxesParts extends Serving {
  people: People;
  options: Pick<Options, "get">;
}

export function mailboxesRoutes(parts: MailboxesParts): Route[] {
  const { people, options } = parts;
  return [
    {
      method: "GET",
      path: "/mailboxes",
      run: (asked): MailboxesView => ({
        mailboxes: people.listMailboxes(workspaceOf(asked)).map(mailboxView),
        defaultQuotaBytes: options.get("storage.mailboxBytes"),
      }),
    },
    ...[addMailbox, changeMailbox, addAlias, removeAlias, addGrant, removeGrant].map((operation) =>
      settingsRoute(operation, parts),
    ),
    // 202, since the mail is deleted after the response. Until then the mailbox is listed as `removing`.
    settingsRoute(removeMailbox, parts, { respond: () => new Response(null, { status: 202 }) }),
  ];
}
