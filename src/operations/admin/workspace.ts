/** The caller's workspace, for its admins. All workspaces are for the operator (operator/workspaces.ts). */
import type { People, Workspace } from "../../admin/people.ts";
import { t } from "../../base/json-schema.ts";
import { isoOf } from "../../base/time.ts";
import { appOperation } from "../operation.ts";
import { strictBody } from "../schemas.ts";

/** `operator`: its admins administer the server, and the other workspaces. */
const shown = (people: People, { id, name, pausedReason, createdAt, mostMailboxes, mostBytes }: Workspace) => ({
  id,
  name,
  pausedReason,
  ...people.useOf(id),
  /** null: as many as it likes; the operator limits them. */
  mostMailboxes,
  mostBytes,
  operator: people.isOperator(id),
  createdAt: isoOf(createdAt),
});

export const getWorkspace = appOperation({
  name: "getWorkspace",
  audience: "admin",
  method: "GET",
  path: "/workspace",
  run: ({ caller: { workspaceId }, people, options }) => ({
    ...shown(people, people.workspaceOf(workspaceId)),
    /** Quota of a mailbox without one of its own. */
    defaultQuotaBytes: options.get("storage.mailboxBytes"),
  }),
});

export const renameWorkspace = appOperation({
  name: "renameWorkspace",
  audience: "admin",
  method: "PATCH",
  path: "/workspace",
  body: strictBody({ name: t.String() }),
  run: ({ act, people }, { body: { name } }) =>
    act((tx, { workspaceId }) => {
      people.renameWorkspace(tx, workspaceId, name);
      return shown(people, people.workspaceOf(workspaceId));
    }),
});
