/** The person's workspace, and all workspaces of the server, for its operator. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { formatByteSize, formatCount } from "../../lib/format.ts";
import { useChange, WORKSPACE } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { AddDialog } from "../../parts/settings/add-dialog.tsx";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { Badge, Facts, More, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { Field, NewPassword } from "../../parts/ui/fields.tsx";
import { LineForm } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { type WorkspaceEntryView, workspaceQuery, workspacesQuery } from "./settings-workspace.ts";

/** The person's workspace: its name, and the pause of sending. */
export function WorkspacePage() {
  const workspace = useQuery(workspaceQuery);
  const rename = useChange(api.renameWorkspace, { key: WORKSPACE, success: "Name changed", atForm: true });
  if (!workspace.data) return <NotLoaded query={workspace} what="the workspace" />;
  const { name, pausedReason, createdAt, operator } = workspace.data;
  return (
    <SettingsPage title="Workspace" intro={`Since ${fullTime(createdAt)}.`}>
      <Panel title="Name">
        <LineForm action="Save name" sending={rename} submit={({ text }) => rename.mutate({ name: text("name") })}>
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
          <p className="text-sm text-muted">The operator of this server pauses workspaces and lets them send again.</p>
        )}
      </Panel>
    </SettingsPage>
  );
}

/** All workspaces, for the operator: contents, storage use, pauses, and adding one. */
export function WorkspacesPage() {
  const list = useQuery(workspacesQuery);
  if (!list.data) return <NotLoaded query={list} what="workspaces" />;
  const { workspaces } = list.data;
  const used = workspaces.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  return (
    <SettingsPage
      title="Workspaces"
      intro={`Each has its own people, domains and mail, separate from the others. Together they use ${formatByteSize(used)}.`}
      action={<NewWorkspace />}
    >
      <ListPanel
        of={workspaces}
        title={formatCount(workspaces.length, "workspace")}
        label="Workspaces"
        search={{ label: "Find a workspace", text: ({ name, domains }) => [name, ...domains].join(" ") }}
      >
        {(workspace) => <Entry key={workspace.id} workspace={workspace} />}
      </ListPanel>
    </SettingsPage>
  );
}

function Entry({ workspace }: { workspace: WorkspaceEntryView }) {
  const { name, pausedReason, people, mailboxes, mostMailboxes, domains, usedBytes, mostBytes } = workspace;
  const facts = [
    domains.length === 0 ? "no domain" : domains.join(", "),
    formatCount(people, "person", "people"),
    mostMailboxes === null
      ? formatCount(mailboxes, "mailbox", "mailboxes")
      : `${mailboxes} of ${formatCount(mostMailboxes, "mailbox", "mailboxes")}`,
    mostBytes === null ? formatByteSize(usedBytes) : `${formatByteSize(usedBytes)} of ${formatByteSize(mostBytes)}`,
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
      <More title={`Sending from ${name}`}>
        <div className="mt-2">
          <WorkspacePause {...workspace} />
        </div>
      </More>
    </li>
  );
}

function NewWorkspace() {
  const add = useChange(api.addWorkspace, { key: WORKSPACE, success: "Workspace added", atForm: true });
  return (
    <AddDialog
      title="Add a workspace"
      action="Add workspace"
      sending={add}
      submit={({ text }, done) =>
        add.mutate(
          {
            name: text("name"),
            domain: text("domain"),
            email: text("email"),
            owner: text("owner"),
            password: text("password"),
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
      <NewPassword label="Their first password" />
    </AddDialog>
  );
}

/** Pauses sending from a workspace, and resumes it. */
function WorkspacePause({ id, name, pausedReason }: { id: string; name: string; pausedReason: string | null }) {
  const pause = useChange(api.pauseWorkspace, {
    key: WORKSPACE,
    success: `Sending paused for ${name}`,
    atForm: true,
  });
  const resume = useChange(api.pauseWorkspace, { key: WORKSPACE, success: `Sending resumed for ${name}` });
  if (pausedReason !== null) {
    return (
      <Button disabled={resume.isPending} onClick={() => resume.mutate({ id, pausedReason: null })}>
        Let {name} send again
      </Button>
    );
  }
  return (
    <LineForm
      action="Pause sending"
      sending={pause}
      submit={({ text }) => pause.mutate({ id, pausedReason: text("reason") })}
    >
      <Field
        label={`Reason to pause ${name}, shown to people who try to send`}
        name="reason"
        maxLength={500}
        required
      />
    </LineForm>
  );
}
