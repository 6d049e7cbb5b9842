/** One mailbox: name, owner, quota, aliases, shares, pause, expiry, and removal. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { api } from "../../lib/api-client.ts";
import { formatByteSize } from "../../lib/format.ts";
import { useChange, WORKSPACE } from "../../lib/queries.ts";
import { fullTime, msUntil, toLocalTimeInput } from "../../lib/time-format.ts";
import { ItemPage } from "../../parts/settings/item-page.tsx";
import { RowList } from "../../parts/settings/row-list.tsx";
import { Badge, Nothing, Panel } from "../../parts/settings/settings-blocks.tsx";
import { Button, IconButton } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Field, Select } from "../../parts/ui/fields.tsx";
import { LineForm } from "../../parts/ui/form.tsx";
import { UseBar } from "../../parts/ui/graphics.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import {
  mailboxesSettingsQuery,
  peopleQuery,
  SHARES,
  type WorkspaceMailboxView,
  workspaceQuery,
} from "./settings-workspace.ts";

const GB = 1_000_000_000;

interface Shown {
  mailbox: WorkspaceMailboxView;
}

export function MailboxPage() {
  const { id = "" } = useParams({ strict: false });
  const list = useQuery(mailboxesSettingsQuery);
  const workspace = useQuery(workspaceQuery);
  if (!list.data) return <NotLoaded query={list} what="the mailbox" />;
  if (!workspace.data) return <NotLoaded query={workspace} what="the mailbox" />;
  const mailbox = list.data.find((known) => known.id === id);
  const up = { list: "/settings/mailboxes", all: "All mailboxes" } as const;
  if (mailbox === undefined) {
    return (
      <ItemPage {...up} title="Mailbox not found" intro="It may have been removed.">
        {null}
      </ItemPage>
    );
  }
  return (
    <ItemPage {...up} title={mailbox.address}>
      {mailbox.removing ? (
        <Removing mailbox={mailbox} />
      ) : (
        <>
          {mailbox.lost && (
            <p className="rounded-lg bg-notice px-4 py-3 text-sm">
              Another workspace verified the domain of this address: no mail comes to it, and none can be sent from it.
              Its mail can still be read.
            </p>
          )}
          <General mailbox={mailbox} />
          <Storage mailbox={mailbox} defaultQuotaBytes={workspace.data.defaultQuotaBytes} />
          <Aliases mailbox={mailbox} />
          <Shares mailbox={mailbox} />
          <Sending mailbox={mailbox} />
          <Expiry mailbox={mailbox} />
          <Removal mailbox={mailbox} />
        </>
      )}
    </ItemPage>
  );
}

function General({ mailbox: { id, name, owner, ownerId } }: Shown) {
  const rename = useChange(api.changeMailbox, { key: WORKSPACE, success: "Name changed", atForm: true });
  const assign = useChange(api.changeMailbox, { key: WORKSPACE, success: "Owner changed" });
  const { data } = useQuery(peopleQuery);
  // Until the people are loaded, the owner is the only choice, so that the field shows who it is.
  const people = data
    ? data.map((person) => ({ value: person.id, text: `${person.name}, ${person.email}` }))
    : [{ value: ownerId ?? "", text: owner ?? "" }].filter(({ value }) => value !== "");
  return (
    <Panel title="Name and owner">
      <div className="space-y-4">
        <LineForm action="Save name" sending={rename} submit={({ text }) => rename.mutate({ id, name: text("name") })}>
          <Field label="Name" name="name" defaultValue={name} autoComplete="off" required />
        </LineForm>
        <Select
          label="Owner"
          choices={[{ value: "", text: "No owner (for a team)" }, ...people]}
          value={ownerId ?? ""}
          disabled={assign.isPending}
          onChange={({ target: { value } }) => assign.mutate({ id, owner: value === "" ? null : value })}
        />
      </div>
    </Panel>
  );
}

function Storage({ mailbox, defaultQuotaBytes }: Shown & { defaultQuotaBytes: number }) {
  const { id, address, usedBytes, quotaBytes } = mailbox;
  const quota = quotaBytes ?? defaultQuotaBytes;
  const change = useChange(api.changeMailbox, { key: WORKSPACE, success: "Quota changed", atForm: true });
  return (
    <Panel title="Storage" about="Mail to a full mailbox is deferred: senders try again for some days.">
      <p className="mb-1.5">
        {formatByteSize(usedBytes)} of {formatByteSize(quota)} used
      </p>
      <UseBar label={`Use of ${address}`} used={usedBytes} of={quota} />
      <div className="mt-4">
        <LineForm
          action="Save quota"
          sending={change}
          submit={({ text }) =>
            change.mutate({ id, quotaBytes: text("quota") === "" ? null : Math.round(Number(text("quota")) * GB) })
          }
        >
          <Field
            label="Quota in GB"
            hint={`Empty for the server's ${formatByteSize(defaultQuotaBytes)}.`}
            name="quota"
            type="number"
            min={0}
            step="any"
            defaultValue={quotaBytes === null ? "" : quotaBytes / GB}
          />
        </LineForm>
      </div>
    </Panel>
  );
}

function Sending({ mailbox: { id, address, pausedReason } }: Shown) {
  const pause = useChange(api.changeMailbox, {
    key: WORKSPACE,
    success: "Sending paused",
    atForm: true,
  });
  const resume = useChange(api.changeMailbox, { key: WORKSPACE, success: "Sending resumed" });
  if (pausedReason !== null) {
    return (
      <Panel title="Sending is paused" about={pausedReason} action={<Badge tone="bad">paused</Badge>}>
        <Button disabled={resume.isPending} onClick={() => resume.mutate({ id, pausedReason: null })}>
          Resume sending
        </Button>
      </Panel>
    );
  }
  return (
    <Panel
      title="Pause sending"
      about={`No more mail is accepted for sending from ${address}. Mail accepted before still goes out, and mail still arrives.`}
    >
      <LineForm
        action="Pause sending"
        sending={pause}
        submit={({ text }) => pause.mutate({ id, pausedReason: text("reason") })}
      >
        <Field label="Reason, shown to people who try to send" name="reason" maxLength={500} required />
      </LineForm>
    </Panel>
  );
}

function Expiry({ mailbox: { id, expiresAt } }: Shown) {
  const change = useChange(api.changeMailbox, { key: WORKSPACE, success: "Expiry changed", atForm: true });
  const expired = expiresAt !== null && msUntil(expiresAt) <= 0;
  return (
    <Panel
      title="Expiry"
      about={
        expired
          ? `It expired on ${fullTime(expiresAt)}: it takes no mail and sends none, and is removed with its mail 30 days after that.`
          : "From then on it takes no mail and sends none; its mail can be read for 30 days more, then it is removed."
      }
      {...(expired && { action: <Badge tone="warn">expired</Badge> })}
    >
      <LineForm
        action="Save expiry"
        sending={change}
        submit={({ text }) =>
          change.mutate({ id, expiresAt: text("expiresAt") === "" ? null : new Date(text("expiresAt")).toISOString() })
        }
      >
        <Field
          label="Expires at"
          hint="Empty for never."
          name="expiresAt"
          type="datetime-local"
          defaultValue={expiresAt === null ? "" : toLocalTimeInput(expiresAt)}
        />
      </LineForm>
    </Panel>
  );
}

function Removable({ label, remove, children }: { label: string; remove(): void; children: ReactNode }) {
  return (
    <li className="flex items-center justify-between gap-2">
      <span className="min-w-0 break-all">{children}</span>
      <IconButton icon={X} label={label} onClick={remove} />
    </li>
  );
}

function Aliases({ mailbox: { id, aliases, catchAlls } }: Shown) {
  const add = useChange(api.addAlias, { key: WORKSPACE, success: "Alias added", atForm: true });
  const remove = useChange(api.removeAlias, { key: WORKSPACE, success: "Alias removed" });
  return (
    <Panel title="Aliases" about="Mail to these addresses comes here too, and may be answered from them.">
      <div className="mb-4">
        <LineForm
          action="Add alias"
          sending={add}
          submit={({ text, empty }) => add.mutate({ id, alias: text("alias") }, { onSuccess: empty })}
        >
          <Field
            label="Alias"
            hint="*@your.domain takes mail to every address that nobody has."
            name="alias"
            autoComplete="off"
            required
          />
        </LineForm>
      </div>
      <RowList of={[...aliases, ...catchAlls]} label="Aliases">
        {(alias) => (
          <Removable key={alias} label={`Remove alias ${alias}`} remove={() => remove.mutate({ id, alias })}>
            {alias}
          </Removable>
        )}
      </RowList>
    </Panel>
  );
}

function Shares({ mailbox: { id, grants, ownerId } }: Shown) {
  const add = useChange(api.addGrant, { key: WORKSPACE, success: "Shared", atForm: true });
  const remove = useChange(api.removeGrant, { key: WORKSPACE, success: "No longer shared" });
  const { data } = useQuery(peopleQuery);
  const people = (data ?? [])
    .filter((person) => person.id !== ownerId)
    .map(({ email, name }) => ({ value: email, text: `${name}, ${email}` }));
  return (
    <Panel title="Shared with" about="Owners and admins can always open every mailbox.">
      {data && people.length === 0 && <Nothing>There is no one else to share it with.</Nothing>}
      {people.length > 0 && (
        <div className="mb-4">
          <LineForm
            action="Share"
            sending={add}
            submit={({ text }) => add.mutate({ id, user: text("user"), access: text("access") })}
          >
            <Select label="Share with" name="user" choices={people} />
            <Select label="Access" name="access" choices={SHARES} />
          </LineForm>
        </div>
      )}
      <RowList of={grants} label="Shared with">
        {({ user, userId, access }) => (
          <Removable key={user} label={`Stop sharing with ${user}`} remove={() => remove.mutate({ id, userId })}>
            {user} <Badge tone="quiet">{access}</Badge>
          </Removable>
        )}
      </RowList>
    </Panel>
  );
}

function Removal({ mailbox: { id, address, usedBytes, aliases, catchAlls } }: Shown) {
  const navigate = useNavigate();
  const remove = useChange(api.removeMailbox, { key: WORKSPACE, success: `${address} is being removed` });
  const also = [...aliases, ...catchAlls];
  /** Ignores the failure, which useChange tells. */
  const ignore = (): void => {};
  return (
    <Panel title="Remove this mailbox" about="With all its mail. It cannot be brought back.">
      <ConfirmButton
        question={`Remove ${address}?`}
        action="Remove mailbox and mail"
        consequences={
          <>
            <p>All its mail, {formatByteSize(usedBytes)}, is deleted for good. There is no undo but a backup.</p>
            <p>
              Mail to {address}
              {also.length > 0 && ` and to its aliases ${also.join(", ")}`} is refused from now on, as for an address
              that does not exist.
            </p>
            <p>The people it was shared with lose it. People and their API keys stay.</p>
          </>
        }
        phrase={address}
        disabled={remove.isPending}
        // The page unmounts before the end, so callbacks given to `mutate` would not be called.
        run={() => void remove.mutateAsync({ id }).then(() => navigate({ to: "/settings/mailboxes" }), ignore)}
      >
        {remove.isPending ? "Removing its mail…" : "Remove mailbox…"}
      </ConfirmButton>
    </Panel>
  );
}

/** A mailbox whose removal has begun. The server continues by itself, unless it is stopped. */
function Removing({ mailbox: { id, usedBytes } }: Shown) {
  const remove = useChange(api.removeMailbox, { key: WORKSPACE, success: "Removal resumed" });
  return (
    <Panel
      title="This mailbox is being removed"
      about={`It no longer receives mail. ${formatByteSize(usedBytes)} of its mail are still to be deleted.`}
    >
      <p className="mb-3 text-sm text-muted">
        If this number does not change, the server was stopped during the removal.
      </p>
      <Button disabled={remove.isPending} onClick={() => remove.mutate({ id })}>
        Continue removal
      </Button>
    </Panel>
  );
}
