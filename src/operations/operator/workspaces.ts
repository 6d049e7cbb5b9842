/** All workspaces of the server: their use, their pauses, and adding one with its owner. */
import { makeDkimKeys } from "../../admin/domains.ts";
import { hashPassword, type Workspace } from "../../admin/people.ts";
import { nullable, t } from "../../base/json-schema.ts";
import { isoOf } from "../../base/time.ts";
import { type Administration, appOperation } from "../operation.ts";
import { BY_ID, strictBody } from "../schemas.ts";

function shown(
  { people, domains }: Administration,
  { id, name, pausedReason, createdAt, mostMailboxes, mostBytes }: Workspace,
) {
  return {
    id,
    name,
    pausedReason,
    createdAt: isoOf(createdAt),
    people: people.listUsers(id).length,
    ...people.useOf(id),
    mostMailboxes,
    mostBytes,
    domains: domains.listDomains(id).map((domain) => domain.name),
  };
}

export const listWorkspaces = appOperation({
  name: "listWorkspaces",
  audience: "operator",
  method: "GET",
  path: "/workspaces",
  run: (context) => ({
    workspaces: context.people.listWorkspaces().map((workspace) => shown(context, workspace)),
  }),
});

/** Adds a workspace with its domain and its owner, who gets a mailbox there. */
export const addWorkspace = appOperation({
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
    const [keys, passwordHash] = await Promise.all([makeDkimKeys(), hashPassword(password)]);
    const { act, people, domains, requireConfirmed } = context;
    return act((tx) => {
      requireConfirmed(tx);
      const workspace = people.addWorkspace(tx, name);
      domains.addDomain(tx, workspace.id, domain, keys);
      people.addUser(tx, {
        workspaceId: workspace.id,
        email,
        name: owner,
        role: "owner",
        passwordHash,
        ownMailbox: true,
      });
      return shown(context, workspace);
    });
  },
});

/** The operator alone pauses and resumes a workspace, their own included. */
export const pauseWorkspace = appOperation({
  name: "pauseWorkspace",
  audience: "operator",
  method: "PATCH",
  path: "/workspaces/:id",
  params: BY_ID,
  body: strictBody({ pausedReason: nullable(t.String(), { description: "null: it may send again" }) }),
  run(context, { params: { id }, body: { pausedReason } }) {
    const { act, people } = context;
    return act((tx) => {
      people.workspaceOf(id);
      if (pausedReason === null) people.resumeWorkspace(tx, id);
      else people.pauseWorkspace(tx, id, pausedReason);
      return shown(context, people.workspaceOf(id));
    });
  },
});
