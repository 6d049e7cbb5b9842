/** One mailbox in settings. */
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { sizeOf } from "../lib/people.ts";
import { useChange } from "../lib/settings.ts";
import { type MailboxAdminView, SHARES, WORKSPACE, workspaceApi } from "../lib/settings-workspace.ts";
import { Button, IconButton } from "./button.tsx";
import { Field } from "./field.tsx";
import { LineForm } from "./line-form.tsx";
import { Select } from "./select.tsx";
import { Badge, Panel } from "./settings.tsx";

const GB = 1_000_000_000;

interface Shown {
  mailbox: MailboxAdminView;
  defaultQuotaBytes: number;
}

export function MailboxSettings({ mailbox, defaultQuotaBytes }: Shown) {
  const { address, name, owner, usedBytes, quotaBytes, pausedReason } = mailbox;
  const quota = quotaBytes ?? defaultQuotaBytes;
  return (
    <Panel title={address}>
      <p className="flex flex-wrap items-center gap-2 text-sm text-soft">
        {name}, {owner === null ? "nobody's own" : `owned by ${owner}`}
        {pausedReason !== null && <Badge tone="bad">paused: {pausedReason}</Badge>}
      </p>
      <p className="mt-3 mb-1 text-sm">
        {sizeOf(usedBytes)} of {sizeOf(quota)} used
      </p>
      <meter
        aria-label={`Use of ${address}`}
        className="h-2 w-full [&::-webkit-meter-bar]:border-0 [&::-webkit-meter-bar]:bg-line [&::-webkit-meter-optimum-value]:bg-accent"
        min={0}
        max={Math.max(quota, 1)}
        value={usedBytes}
      />
      <details className="mt-3">
        <summary className="text-sm text-accent">Change {address}</summary>
        <div className="mt-4 space-y-5">
          <Quota mailbox={mailbox} defaultQuotaBytes={defaultQuotaBytes} />
          <Pause mailbox={mailbox} />
          <Aliases mailbox={mailbox} />
          <Shares mailbox={mailbox} />
        </div>
      </details>
    </Panel>
  );
}

function Quota({ mailbox: { id, quotaBytes }, defaultQuotaBytes }: Shown) {
  const change = useChange(workspaceApi.changeMailbox, { key: WORKSPACE, told: "Quota changed" });
  return (
    <LineForm
      action="Save quota"
      busy={change.isPending}
      submit={(text) =>
        change.mutate({ id, quotaBytes: text("quota") === "" ? null : Math.round(Number(text("quota")) * GB) })
      }
    >
      <Field
        label={`Quota in GB; empty for ${sizeOf(defaultQuotaBytes)}`}
        name="quota"
        type="number"
        min={0}
        step="any"
        defaultValue={quotaBytes === null ? "" : quotaBytes / GB}
      />
    </LineForm>
  );
}

function Pause({ mailbox: { id, pausedReason } }: Pick<Shown, "mailbox">) {
  const pause = useChange(workspaceApi.changeMailbox, { key: WORKSPACE, told: "Nothing more is sent from it" });
  const resume = useChange(workspaceApi.changeMailbox, { key: WORKSPACE, told: "Mail may be sent from it again" });
  if (pausedReason !== null) {
    return (
      <Button disabled={resume.isPending} onClick={() => resume.mutate({ id, pausedReason: null })}>
        Let it send again
      </Button>
    );
  }
  return (
    <LineForm
      action="Pause sending"
      busy={pause.isPending}
      submit={(text) => pause.mutate({ id, pausedReason: text("reason") })}
    >
      <Field label="Why nothing may be sent from it" name="reason" maxLength={500} required />
    </LineForm>
  );
}

function Removable({ label, remove, children }: { label: string; remove(): void; children: ReactNode }) {
  return (
    <li className="flex items-center gap-2 text-sm">
      <span className="min-w-0 break-all">{children}</span>
      <IconButton icon={X} label={label} onClick={remove} />
    </li>
  );
}

function Aliases({ mailbox: { id, aliases, catchAlls } }: Pick<Shown, "mailbox">) {
  const add = useChange(workspaceApi.addAlias, { key: WORKSPACE, told: "Alias added" });
  const remove = useChange(workspaceApi.removeAlias, { key: WORKSPACE, told: "Alias removed" });
  return (
    <div>
      <ul aria-label="Aliases">
        {[...aliases, ...catchAlls].map((alias) => (
          <Removable key={alias} label={`Remove alias ${alias}`} remove={() => remove.mutate({ id, alias })}>
            {alias}
          </Removable>
        ))}
      </ul>
      <LineForm
        action="Add alias"
        busy={add.isPending}
        submit={(text, empty) => add.mutate({ id, alias: text("alias") }, { onSuccess: empty })}
      >
        <Field label="Alias; *@domain takes what no other address does" name="alias" autoComplete="off" required />
      </LineForm>
    </div>
  );
}

function Shares({ mailbox: { id, grants } }: Pick<Shown, "mailbox">) {
  const add = useChange(workspaceApi.share, { key: WORKSPACE, told: "Shared" });
  const remove = useChange(workspaceApi.unshare, { key: WORKSPACE, told: "No longer shared" });
  return (
    <div>
      <ul aria-label="Shared with">
        {grants.map(({ user, access }) => (
          <Removable key={user} label={`Stop sharing with ${user}`} remove={() => remove.mutate({ id, user })}>
            {user} <Badge tone="quiet">{access}</Badge>
          </Removable>
        ))}
      </ul>
      <LineForm
        action="Share"
        busy={add.isPending}
        submit={(text, empty) => add.mutate({ id, user: text("user"), access: text("access") }, { onSuccess: empty })}
      >
        <Field label="Share with (address of a person here)" name="user" type="email" autoComplete="off" required />
        <Select label="They may" name="access" choices={SHARES} />
      </LineForm>
    </div>
  );
}
