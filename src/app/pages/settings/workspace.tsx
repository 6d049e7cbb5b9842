/** The person's workspace: its name, and the pause of sending. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../lib/settings.ts";
import { WORKSPACE, workspaceApi, workspaceQuery } from "../../lib/settings-workspace.ts";
import { fullTime } from "../../lib/time.ts";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, Panel, SettingsPage } from "../../parts/settings.tsx";
import { WorkspacePause } from "../../parts/workspace-pause.tsx";

export function WorkspacePage() {
  const workspace = useQuery(workspaceQuery);
  const rename = useChange(workspaceApi.renameWorkspace, { key: WORKSPACE, told: "Name changed", atForm: true });
  if (workspace.isError) return <Failed error={workspace.error} retry={() => workspace.refetch()} />;
  if (!workspace.data) return <Skeleton what="the workspace" />;
  const { name, pausedReason, createdAt, operator } = workspace.data;
  return (
    <SettingsPage title="Workspace" intro={`Since ${fullTime(createdAt)}.`}>
      <Panel title="Name">
        <LineForm action="Save name" sending={rename} submit={({ text }) => rename.mutate(text("name"))}>
          <Field label="Name of the workspace" name="name" defaultValue={name} autoComplete="off" required />
        </LineForm>
      </Panel>
      <Panel
        title="Sending"
        about={
          pausedReason ??
          "While it is paused, nothing more is accepted for sending from any of its mailboxes; mail goes on arriving."
        }
        action={pausedReason === null ? <Badge tone="good">on</Badge> : <Badge tone="bad">paused</Badge>}
      >
        {operator ? (
          <WorkspacePause {...workspace.data} />
        ) : (
          <p className="text-sm text-muted">Who runs this server pauses workspaces, and lets them send again.</p>
        )}
      </Panel>
    </SettingsPage>
  );
}
