/** Administration of mailboxes: aliases, shares, quota, pauses. */

import { timeOf } from "../../admin/names.ts";
import { GRANT_ACCESS, type MailboxEntry, type People } from "../../admin/people.ts";
import type { Log } from "../../base/log.ts";
import { oneOf, t } from "../../operations/json-schema.ts";
import { dateTime, nullable } from "../../operations/schemas.ts";
import type { Options } from "../../store/settings.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { MailboxAdminView, MailboxesView } from "../admin-views.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf, done, isoOf, workspaceOf } from "./asked.ts";

export interface MailboxesParts {
  store: Pick<Store, "transact">;
  people: People;
  options: Pick<Options, "get">;
  log: Pick<Log, "warn">;
}

const readMailbox = bodyOf(t.Object({ address: t.String(), name: t.String(), owner: t.Optional(t.String()) }));
const readChange = bodyOf(
  t.Object({
    name: t.Optional(t.String()),
    owner: t.Optional(nullable(t.String(), { description: "Id of a person; null: nobody's" })),
    quotaBytes: t.Optional(nullable(t.Number(), { description: "Null: the setting storage.mailboxBytes" })),
    pausedReason: t.Optional(nullable(t.String(), { description: "Null: it goes on" })),
    expiresAt: t.Optional(nullable(dateTime(), { description: "Null: it does not expire" })),
  }),
);
const readAlias = bodyOf(t.Object({ alias: t.String() }));
const readGrant = bodyOf(t.Object({ user: t.String(), access: oneOf(GRANT_ACCESS) }));

const viewOf = ({ workspaceId, createdAt, expiresAt, ...shown }: MailboxEntry): MailboxAdminView => ({
  ...shown,
  expiresAt: expiresAt === null ? null : isoOf(expiresAt),
});

export function mailboxesRoutes({ store, people, options, log }: MailboxesParts): Route[] {
  const mailboxOf = (asked: Asked): MailboxEntry => people.mailboxIn(workspaceOf(asked), asked.params.id ?? "");

  /** Does it to the mailbox that the path names. */
  function change(asked: Asked, work: (tx: Tx, id: string) => void): MailboxAdminView {
    const { id } = mailboxOf(asked);
    store.transact((tx) => {
      work(tx, id);
    });
    return viewOf(mailboxOf(asked));
  }

  return [
    {
      method: "GET",
      path: "/mailboxes",
      run: (asked): MailboxesView => ({
        mailboxes: people.listMailboxes(workspaceOf(asked)).map(viewOf),
        defaultQuotaBytes: options.get("storage.mailboxBytes"),
      }),
    },
    {
      // `owner`: the address of a person of the workspace; nobody's without.
      method: "POST",
      path: "/mailboxes",
      async run(asked): Promise<MailboxAdminView> {
        const { address, name, owner } = await readMailbox(asked);
        const workspaceId = workspaceOf(asked);
        const ownerId = owner === undefined ? undefined : people.userAt(owner, workspaceId).id;
        const id = store.transact((tx) => people.addMailbox(tx, { workspaceId, address, name, ownerId }));
        return viewOf(people.mailboxIn(workspaceId, id));
      },
    },
    {
      method: "PATCH",
      path: "/mailboxes/:id",
      async run(asked) {
        const { name, owner, quotaBytes, pausedReason, expiresAt } = await readChange(asked);
        return change(asked, (tx, id) => {
          if (name !== undefined) people.renameMailbox(tx, id, name);
          if (owner !== undefined) {
            asked.requireConfirmed(tx);
            people.assignMailbox(tx, id, owner);
          }
          if (quotaBytes !== undefined) people.setQuota(tx, id, quotaBytes);
          if (expiresAt !== undefined)
            people.setExpiry(tx, id, expiresAt === null ? null : timeOf("expiresAt", expiresAt));
          if (pausedReason === null) people.resumeMailbox(tx, id);
          else if (pausedReason !== undefined) people.pauseMailbox(tx, id, pausedReason);
        });
      },
    },
    {
      // With all its mail, which may take longer than a connection lasts: it is `removing` until the last of it is gone.
      method: "DELETE",
      path: "/mailboxes/:id",
      run(asked) {
        const { id } = mailboxOf(asked);
        people
          .removeMailbox(id)
          .catch((error) => log.warn("the removal of a mailbox was cut short", { mailboxId: id, error }));
        return new Response(null, { status: 202 });
      },
    },
    {
      method: "POST",
      path: "/mailboxes/:id/aliases",
      async run(asked) {
        const { alias } = await readAlias(asked);
        return change(asked, (tx, id) => people.addAlias(tx, id, alias));
      },
    },
    {
      method: "DELETE",
      path: "/mailboxes/:id/aliases/:alias",
      run(asked) {
        change(asked, (tx, id) => people.removeAlias(tx, id, asked.params.alias ?? ""));
        return done();
      },
    },
    {
      // `user`: their address.
      method: "POST",
      path: "/mailboxes/:id/grants",
      async run(asked) {
        const { user, access } = await readGrant(asked);
        const userId = people.userAt(user, workspaceOf(asked)).id;
        return change(asked, (tx, id) => {
          asked.requireConfirmed(tx);
          people.grant(tx, id, userId, access);
        });
      },
    },
    {
      method: "DELETE",
      path: "/mailboxes/:id/grants/:user",
      run(asked) {
        const userId = people.userAt(asked.params.user ?? "", workspaceOf(asked)).id;
        change(asked, (tx, id) => people.revokeGrant(tx, id, userId));
        return done();
      },
    },
  ];
}
