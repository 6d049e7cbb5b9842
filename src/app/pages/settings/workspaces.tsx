/** All workspaces of the server, for its operator: contents, storage use, pauses, and adding one. */
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { sizeOf } from "../../lib/people.ts";
import { useChange } from "../../lib/settings.ts";
import { WORKSPACE, type WorkspaceEntryView, workspaceApi, workspacesQuery } from "../../lib/settings-workspace.ts";
import { Field } from "../../parts/field.tsx";
import { Filtered } from "../../parts/filter.tsx";
import { FormDialog } from "../../parts/form-dialog.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, Facts, Panel, Rows, SettingsPage } from "../../parts/settings.tsx";
import { WorkspacePause } from "../../parts/workspace-pause.tsx";

const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

export function WorkspacesPage() {
  const list = useQuery(workspacesQuery);
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="workspaces" />;
  const { workspaces } = list.data;
  const used = workspaces.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  return (
    <SettingsPage
      title="Workspaces"
      intro={`Each has people, domains and mail of its own, and sees nothing of the others. Together they use ${sizeOf(used)}.`}
      action={<NewWorkspace />}
    >
      <Panel title={counted(workspaces.length, "workspace", "workspaces")}>
        <Filtered of={workspaces} label="Find a workspace" textOf={({ name, domains }) => [name, ...domains].join(" ")}>
          {(shown) => (
            <Rows label="Workspaces">
              {shown.map((workspace) => (
                <Entry key={workspace.id} workspace={workspace} />
              ))}
            </Rows>
          )}
        </Filtered>
      </Panel>
    </SettingsPage>
  );
}

function Entry({ workspace }: { workspace: WorkspaceEntryView }) {
  const { name, pausedReason, people, mailboxes, domains, usedBytes } = workspace;
  const facts = [
    domains.length === 0 ? "no domain" : domains.join(", "),
    counted(people, "person", "people"),
    counted(mailboxes, "mailbox", "mailboxes"),
    sizeOf(usedBytes),
  ];
  return (
    <li>
      <Facts
        title={
          <>
            <span>{name}</span>
            {pausedReason !== null && <Badge tone="bad">paused: {pausedReason}</Badge>}
          </>
        }
        facts={facts.join(" · ")}
      />
      <details className="mt-2 text-sm">
        <summary className="inline-block text-accent">Sending from {name}</summary>
        <div className="mt-2">
          <WorkspacePause {...workspace} />
        </div>
      </details>
    </li>
  );
}

function NewWorkspace() {
  const add = useChange(workspaceApi.addWorkspace, { key: WORKSPACE, told: "Workspace added", atForm: true });
  return (
    <FormDialog
      label={
        <>
          <Plus size={16} aria-hidden /> Add a workspace
        </>
      }
      title="Add a workspace"
      action="Add workspace"
      sending={add}
      submit={({ text }, done) =>
        add.mutate(
          {
            ...{ name: text("name"), domain: text("domain"), email: text("email") },
            ...{ owner: text("owner"), password: text("password") },
          },
          { onSuccess: done },
        )
      }
    >
      <Field label="Name of the workspace" name="name" autoComplete="off" required />
      <Field label="Domain" name="domain" placeholder="example.com" autoComplete="off" spellCheck={false} required />
      <Field label="Owner's name" name="owner" autoComplete="off" required />
      <Field
        label="Owner's address, at that domain"
        name="email"
        type="email"
        autoComplete="off"
        hint="They sign in with it, and get a mailbox there."
        required
      />
      <Field label="Their first password" name="password" type="password" autoComplete="new-password" required />
    </FormDialog>
  );
}
