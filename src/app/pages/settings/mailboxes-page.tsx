/** Mailboxes: owner, storage use, and links to their settings. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { api } from "../../lib/api-client.ts";
import { formatByteSize, formatCount } from "../../lib/format.ts";
import { useChange, WORKSPACE } from "../../lib/queries.ts";
import { msUntil, shortTime } from "../../lib/time-format.ts";
import { AddDialog } from "../../parts/settings/add-dialog.tsx";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { Badge, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Field, Select } from "../../parts/ui/fields.tsx";
import { UseBar } from "../../parts/ui/graphics.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import {
  mailboxesSettingsQuery,
  peopleQuery,
  type WorkspaceMailboxView,
  workspaceQuery,
} from "./settings-workspace.ts";

export function MailboxesPage() {
  const list = useQuery(mailboxesSettingsQuery);
  const workspace = useQuery(workspaceQuery);
  if (!list.data) return <NotLoaded query={list} what="mailboxes" />;
  if (!workspace.data) return <NotLoaded query={workspace} what="mailboxes" />;
  const mailboxes = list.data;
  const { defaultQuotaBytes } = workspace.data;
  const used = mailboxes.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  return (
    <SettingsPage title="Mailboxes" intro={`Together they use ${formatByteSize(used)}.`} action={<NewMailbox />}>
      <ListPanel
        of={mailboxes}
        title={formatCount(mailboxes.length, "mailbox", "mailboxes")}
        label="Mailboxes"
        empty="No mailboxes yet. A mailbox has an address at one of your domains."
        search={{
          label: "Find a mailbox",
          text: ({ address, name, owner, aliases }) => [address, name, owner, ...aliases].join(" "),
        }}
      >
        {(mailbox) => <Row key={mailbox.id} mailbox={mailbox} quota={mailbox.quotaBytes ?? defaultQuotaBytes} />}
      </ListPanel>
    </SettingsPage>
  );
}

function Row({ mailbox, quota }: { mailbox: WorkspaceMailboxView; quota: number }) {
  const { id, address, name, owner, aliases, catchAlls, grants, usedBytes, pausedReason, expiresAt, removing, lost } =
    mailbox;
  const also = aliases.length + catchAlls.length;
  const facts = [
    owner === null ? "without an owner" : owner === address ? undefined : `owned by ${owner}`,
    also === 0 ? undefined : formatCount(also, "alias", "aliases"),
    grants.length === 0 ? undefined : `shared with ${grants.length}`,
  ].filter((fact) => fact !== undefined);
  return (
    <li className="relative flex items-center gap-4 hover:bg-hover">
      <div className="min-w-0 grow">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <Link
            to="/settings/mailboxes/$id"
            params={{ id }}
            className="font-medium wrap-anywhere after:absolute after:inset-0"
          >
            {address}
          </Link>
          {pausedReason !== null && <Badge tone="bad">paused</Badge>}
          {expiresAt !== null && !removing && (
            <Badge tone="warn">{msUntil(expiresAt) > 0 ? `expires ${shortTime(expiresAt)}` : "expired"}</Badge>
          )}
          {removing && <Badge tone="quiet">being removed</Badge>}
          {lost && <Badge tone="warn">read-only</Badge>}
        </p>
        <p className="text-sm text-muted wrap-anywhere">{[name, ...facts].join(", ")}</p>
      </div>
      <div className="w-36 shrink-0 text-right text-xs text-muted max-sm:hidden">
        <p className="mb-1">
          {formatByteSize(usedBytes)} of {formatByteSize(quota)}
        </p>
        <UseBar label={`Use of ${address}`} used={usedBytes} of={quota} />
      </div>
      <ChevronRight size={16} className="shrink-0 text-muted" aria-hidden />
    </li>
  );
}

function NewMailbox() {
  const add = useChange(api.addMailbox, { key: WORKSPACE, success: "Mailbox added", atForm: true });
  const { data } = useQuery(peopleQuery);
  const people = (data ?? []).map(({ email, name }) => ({ value: email, text: `${name}, ${email}` }));
  return (
    <AddDialog
      title="Add a mailbox"
      action="Add mailbox"
      sending={add}
      submit={({ text }, done) =>
        add.mutate(
          {
            address: text("address"),
            name: text("name"),
            ...(text("owner") !== "" && { owner: text("owner") }),
          },
          { onSuccess: done },
        )
      }
    >
      <Field label="Address" name="address" type="email" autoComplete="off" required />
      <Field label="Name" name="name" autoComplete="off" hint="Shown as the sender of its mail." required />
      <Select label="Owner" name="owner" choices={[{ value: "", text: "No owner (for a team)" }, ...people]} />
    </AddDialog>
  );
}
