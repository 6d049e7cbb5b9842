/** Mail apps: their settings, and their app passwords. */
import { useQuery } from "@tanstack/react-query";
import { api, urlTo } from "../../lib/api-client.ts";
import { meQuery, useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { Facts, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { ShownOnce } from "../../parts/settings/shown-once.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Checkbox, Field, Select } from "../../parts/ui/fields.tsx";
import { LineForm } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { APP_PASSWORDS, type AppPasswordView, appPasswordsQuery, type MailAppsView } from "./settings-identity.ts";

export function AppPasswordsPage() {
  const list = useQuery(appPasswordsQuery);
  const me = useQuery(meQuery);
  if (!list.data) return <NotLoaded query={list} what="app passwords" />;
  if (!me.data) return <NotLoaded query={me} what="app passwords" />;
  const { appPasswords, labelFolders, mailApps } = list.data;
  return (
    <SettingsPage
      title="Mail apps"
      intro="A mail app on a phone or a computer works with a password of its own, which does no more than you choose."
    >
      <NewAppPassword />
      <ListPanel of={appPasswords} title="App passwords" empty="None yet.">
        {(one) => <AppPasswordRow key={one.id} of={one} />}
      </ListPanel>
      {(mailApps.imap !== null || mailApps.imaps !== null) && <LabelSetting on={labelFolders} />}
      <Instructions of={mailApps} email={me.data.email} />
    </SettingsPage>
  );
}

const ACCESS: { value: AppPasswordView["access"]; text: string }[] = [
  { value: "all", text: "read, change and send mail" },
  { value: "read", text: "only read mail" },
  { value: "send", text: "only send mail" },
];

function NewAppPassword() {
  const create = useChange(api.createAppPassword, { key: APP_PASSWORDS, atForm: true });
  return (
    <Panel title="Connect an app" about="Give each app its own password, so that you can revoke them one by one.">
      <LineForm
        action="Create app password"
        primary
        sending={create}
        submit={({ text, empty }) =>
          create.mutate({ name: text("name"), access: text("access") }, { onSuccess: empty })
        }
      >
        <Field label="Name" name="name" placeholder="Mail on my phone" autoComplete="off" required />
        <Select label="It may" name="access" choices={ACCESS} />
      </LineForm>
      {create.data && (
        <div role="status" className="mt-4">
          <ShownOnce
            title="Type or paste this into the mail app now: it is not shown again."
            label="New app password"
            value={create.data.password}
          >
            Hyphens, spaces and capitals do not matter.
          </ShownOnce>
        </div>
      )}
    </Panel>
  );
}

function AppPasswordRow({ of: { id, name, access, createdAt, lastUsedAt } }: { of: AppPasswordView }) {
  const revoke = useChange(api.revokeAppPassword, { key: APP_PASSWORDS, success: "App password revoked" });
  return (
    <li>
      <Facts
        title={name}
        facts={
          <>
            May {ACCESS.find(({ value }) => value === access)?.text}. Created {fullTime(createdAt)},{" "}
            {lastUsedAt === null ? "never used" : `last used ${fullTime(lastUsedAt)}`}
          </>
        }
      >
        <ConfirmButton
          question={`Revoke ${name}?`}
          action="Revoke app password"
          consequences={<p>The app that uses it can no longer sign in.</p>}
          aria-label={`Revoke ${name}…`}
          disabled={revoke.isPending}
          run={() => revoke.mutate({ id })}
        >
          Revoke…
        </ConfirmButton>
      </Facts>
    </li>
  );
}

/** Whether mail apps see labels as mailboxes. */
function LabelSetting({ on }: { on: boolean }) {
  const change = useChange(api.setMailAppPreferences, { key: APP_PASSWORDS, success: "Changed" });
  return (
    <Panel title="Labels">
      <Checkbox
        label="Show labels as folders"
        checked={on}
        disabled={change.isPending}
        onChange={(event) => change.mutate({ labelFolders: event.target.checked })}
      />
      <p className="mt-1 max-w-prose text-sm text-muted">
        Each label is then a folder below Labels, beside the folders that mail is in. Most apps show it after they look
        for folders again.
      </p>
    </Panel>
  );
}

function Instructions({ of, email }: { of: MailAppsView; email: string }) {
  const { host, imap, imaps, submission, submissions, profile } = of;
  const isRead = imap !== null || imaps !== null;
  const isSent = submission !== null || submissions !== null;
  if (!isRead && !isSent) {
    return (
      <Panel title="Settings for the app">
        <p className="text-sm">Mail apps cannot use this server: its operator has not turned that on.</p>
      </Panel>
    );
  }
  const server = (name: string, implicit: number | null, explicit: number | null) => [
    [name, host],
    ...(implicit === null ? [] : [["Port, with SSL/TLS", String(implicit)]]),
    ...(explicit === null ? [] : [["Port, with STARTTLS", String(explicit)]]),
  ];
  const facts = [
    ...(isRead ? server("Incoming server (IMAP)", imaps, imap) : []),
    ...(isSent ? server("Outgoing server (SMTP)", submissions, submission) : []),
    ["User name", email],
    ["Password", "an app password"],
  ];
  return (
    <>
      {profile && (
        <Panel title="iPhone, iPad and Mac" about="A profile sets up Mail, which then asks for an app password.">
          <a
            href={urlTo("getMailProfile", {})}
            className="inline-flex h-8 items-center rounded-md border border-line bg-raised px-3 text-sm text-ink hover:bg-hover max-md:h-10"
          >
            Download the profile
          </a>
          <p className="mt-3 max-w-prose text-sm text-muted">
            Open it on the device, then install it in Settings.
            {!profile.signed && " It is not signed, since this server has no certificate that devices know."}
          </p>
        </Panel>
      )}
      <Panel title="Settings for the app">
        <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 text-sm">
          {facts.map(([name, value], i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the ports of both servers have the same names
            <div key={i} className="contents">
              <dt className="text-muted">{name}</dt>
              <dd className="font-mono break-all">{value}</dd>
            </div>
          ))}
        </dl>
        <p className="mt-3 max-w-prose text-sm text-muted">
          {isRead
            ? "Many apps find all of this by your address alone. Where there are two ports, use either. "
            : "Mail is read here only, since this server has IMAP turned off. "}
          The app sends from the addresses that you may send as; sent mail is filed in Sent here.
        </p>
      </Panel>
    </>
  );
}
