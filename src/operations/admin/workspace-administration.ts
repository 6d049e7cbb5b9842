/** The caller's workspace, for its admins. All workspaces are for the operator (operator/all-workspaces.ts). */
import type { Workspace } from "../../admin/workspace-admin.ts";
import * as workspaceAdmin from "../../admin/workspace-admin.ts";
import { t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import type { Core } from "../../store/core.ts";
import { defineAppOperation } from "../operation.ts";
import { strictBody } from "../shared-schemas.ts";

/** `operator`: its admins administer the server, and the other workspaces. */
const toWorkspaceView = (core: Core, { id, name, pausedReason, createdAt, mostMailboxes, mostBytes }: Workspace) => ({
  id,
  name,
  pausedReason,
  ...workspaceAdmin.getWorkspaceUse(core, id),
  /** null: as many as it likes; the operator limits them. */
  mostMailboxes,
  mostBytes,
  operator: workspaceAdmin.isOperatorWorkspace(core, id),
  createdAt: toIsoTime(createdAt),
});

export const getWorkspace = defineAppOperation({
  name: "getWorkspace",
  audience: "admin",
  method: "GET",
  path: "/workspace",
  run: ({ caller: { workspaceId }, core }) => ({
    ...toWorkspaceView(core, workspaceAdmin.getWorkspaceById(core, workspaceId)),
    /** Quota of a mailbox without one of its own. */
    defaultQuotaBytes: core.options.get("storage.mailboxBytes"),
  }),
});

export const renameWorkspace = defineAppOperation({
  name: "renameWorkspace",
  audience: "admin",
  method: "PATCH",
  path: "/workspace",
  body: strictBody({ name: t.String() }),
  run: ({ act, core }, { body: { name } }) =>
    act((tx, { workspaceId }) => {
      workspaceAdmin.renameWorkspace(core, tx, workspaceId, name);
      return toWorkspaceView(core, workspaceAdmin.getWorkspaceById(core, workspaceId));
    }),
});
