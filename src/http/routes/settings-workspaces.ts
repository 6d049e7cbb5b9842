/** The person's workspace, and for the operator all workspaces: names, pauses, use, and adding one with its owner. */

import { type Domains, makeDkimKeys } from "../../admin/domains.ts";
import { hashPassword, type People, type Workspace } from "../../admin/people.ts";
import { isoOf } from "../../operations/admin/common.ts";
import { t } from "../../operations/json-schema.ts";
import { nullable } from "../../operations/schemas.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { WorkspaceEntryView, WorkspaceView } from "../admin-views.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf, workspaceOf } from "./asked.ts";

export interface WorkspacesParts {
  store: Pick<Store, "transact">;
  people: People;
  domains: Domains;
}

const readName = bodyOf(t.Object({ name: t.String() }));
const readPause = bodyOf(t.Object({ pausedReason: nullable(t.String(), { description: "Null: it goes on" }) }));
const readNew = bodyOf(
  t.Object({ name: t.String(), domain: t.String(), email: t.String(), owner: t.String(), password: t.String() }),
);

export function workspacesRoutes({ store, people, domains }: WorkspacesParts): Route[] {
  const viewOf = ({ id, name, pausedReason, createdAt }: Workspace): WorkspaceView => ({
    ...{ id, name, pausedReason, operator: people.isOperator(id) },
    createdAt: isoOf(createdAt),
  });

  function entryOf({ id, name, pausedReason, createdAt }: Workspace): WorkspaceEntryView {
    const mailboxes = people.listMailboxes(id);
    return {
      ...{ id, name, pausedReason, createdAt: isoOf(createdAt) },
      ...{ people: people.listUsers(id).length, mailboxes: mailboxes.length },
      domains: domains.listDomains(id).map((domain) => domain.name),
      usedBytes: mailboxes.reduce((sum, { usedBytes }) => sum + usedBytes, 0),
    };
  }

  const requireOperator = (asked: Asked): void => people.requireOperator(workspaceOf(asked));

  return [
    { method: "GET", path: "/workspace", run: (asked) => viewOf(people.workspaceOf(workspaceOf(asked))) },
    {
      // Body {name}.
      method: "PATCH",
      path: "/workspace",
      async run(asked) {
        const { name } = await readName(asked);
        const id = workspaceOf(asked);
        store.transact((tx) => people.renameWorkspace(tx, id, name));
        return viewOf(people.workspaceOf(id));
      },
    },
    {
      method: "GET",
      path: "/workspaces",
      run(asked): { workspaces: WorkspaceEntryView[] } {
        requireOperator(asked);
        return { workspaces: people.listWorkspaces().map(entryOf) };
      },
    },
    {
      // Adds a workspace with its domain and its owner, who gets a mailbox there.
      method: "POST",
      path: "/workspaces",
      async run(asked): Promise<WorkspaceEntryView> {
        requireOperator(asked);
        const { name, domain, email, owner, password } = await readNew(asked);
        const [keys, passwordHash] = await Promise.all([makeDkimKeys(), hashPassword(password)]);
        const made = store.transact((tx: Tx) => {
          asked.requireConfirmed(tx);
          const workspace = people.addWorkspace(tx, name);
          const workspaceId = workspace.id;
          domains.addDomain(tx, workspaceId, domain, keys);
          people.addUser(tx, { workspaceId, email, name: owner, role: "owner", passwordHash, ownMailbox: true });
          return workspace;
        });
        return entryOf(made);
      },
    },
    {
      // Body {pausedReason}. Only the operator may pause and resume workspaces, their own included.
      method: "PATCH",
      path: "/workspaces/:id",
      async run(asked): Promise<WorkspaceEntryView> {
        requireOperator(asked);
        const { pausedReason } = await readPause(asked);
        const { id } = people.workspaceOf(asked.params.id ?? "");
        store.transact((tx) => {
          if (pausedReason === null) people.resumeWorkspace(tx, id);
          else people.pauseWorkspace(tx, id, pausedReason);
        });
        return entryOf(people.workspaceOf(id));
      },
    },
  ];
}
