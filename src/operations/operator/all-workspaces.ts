/** All workspaces of the server: their use, their pauses, and adding one with its owner. */
import * as domains from "../../admin/domains.ts";
import { makeDkimKeys } from "../../admin/domains.ts";
import * as people from "../../admin/people.ts";
import { hashNewPassword, type Workspace } from "../../admin/people.ts";
import * as workspaceAdmin from "../../admin/workspace-admin.ts";
import { nullable, t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import type { MailCore } from "../../mailbox/state/mail-core.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID, strictBody } from "../shared-schemas.ts";

function toWorkspaceListing(
  core: MailCore,
  { id, name, pausedReason, createdAt, mostMailboxes, mostBytes }: Workspace,
) {
  return {
    id,
    name,
    pausedReason,
    createdAt: toIsoTime(createdAt),
    people: people.listUsers(core, id).length,
    ...workspaceAdmin.getWorkspaceUse(core, id),
    mostMailboxes,
    mostBytes,
    domains: domains.listDomains(core, id).map((domain) => domain.name),
  };
}

export const listWorkspaces = defineAppOperation({
  name: "listWorkspaces",
  audience: "operator",
  method: "GET",
  path: "/workspaces",
  run: ({ core }) => ({
    workspaces: workspaceAdmin.listWorkspaces(core).map((workspace) => toWorkspaceListing(core, workspace)),
  }),
});

/** Adds a workspace with its domain and its owner, who gets a mailbox there. */
export const addWorkspace = defineAppOperation({
  name: "addWorkspace",
  audience: "operator",
  method: "POST",
  path: "/workspaces",
  body: strictBody({
    name: t.String(),
    domain: t.String(),
    email: t.String(),
    owner: t.String(),
    password: t.String(),
  }),
  success: 201,
  async run(context, { body: { name, domain, email, owner, password } }) {
    const [keys, passwordHash] = await Promise.all([makeDkimKeys(), hashNewPassword(password)]);
    const { act, core, requireConfirmed } = context;
    return act((tx) => {
      requireConfirmed(tx);
      const workspace = workspaceAdmin.addWorkspace(core, tx, name);
      domains.addDomain(core, tx, workspace.id, domain, keys);
      people.addUser(core, tx, {
        workspaceId: workspace.id,
        email,
        name: owner,
        role: "owner",
        passwordHash,
        ownMailbox: true,
      });
      return toWorkspaceListing(core, workspace);
    });
  },
});

/** The operator alone pauses and resumes a workspace, their own included. */
export const pauseWorkspace = defineAppOperation({
  name: "pauseWorkspace",
  audience: "operator",
  method: "PATCH",
  path: "/workspaces/:id",
  params: BY_ID,
  body: strictBody({ pausedReason: nullable(t.String(), { description: "null: it may send again" }) }),
  run(context, { params: { id }, body: { pausedReason } }) {
    const { act, core } = context;
    return act((tx) => {
      workspaceAdmin.getWorkspaceById(core, id);
      if (pausedReason === null) workspaceAdmin.resumeWorkspace(tx, id);
      else workspaceAdmin.pauseWorkspace(tx, id, pausedReason);
      return toWorkspaceListing(core, workspaceAdmin.getWorkspaceById(core, id));
    });
  },
});
