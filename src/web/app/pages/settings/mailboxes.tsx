/** Mailboxes: use and quota, aliases, shares, and whether anything may be sent from them. */
import { useQuery } from "@tanstack/react-query";
import { sizeOf } from "../../lib/people.ts";
import { useChange } from "../../lib/settings.ts";
import { mailboxesSettingsQuery, WORKSPACE, workspaceApi } from "../../lib/settings-workspace.ts";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { MailboxSettings } from "../../parts/mailbox-settings.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Panel, SettingsPage } from "../../parts/settings.tsx";

export function MailboxesPage() {
  const list = useQuery(mailboxesSettingsQuery);
  const add = useChange(workspaceApi.addMailbox, { key: WORKSPACE, told: "Mailbox added" });
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="mailboxes" />;
  const { mailboxes, defaultQuotaBytes } = list.data;
  const used = mailboxes.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  return (
    <SettingsPage title="Mailboxes" intro={`Together they use ${sizeOf(used)}.`}>
      <Panel title="New mailbox">
        <LineForm
          action="Add mailbox"
          primary
          busy={add.isPending}
          submit={(text, empty) =>
            add.mutate(
              {
                ...{ address: text("address"), name: text("name") },
                ...(text("owner") !== "" && { owner: text("owner") }),
              },
              { onSuccess: empty },
            )
          }
        >
          <Field label="Address" name="address" type="email" autoComplete="off" required />
          <Field label="Name" name="name" autoComplete="off" required />
          <Field label="Owner's address, if one person's" name="owner" type="email" autoComplete="off" />
        </LineForm>
      </Panel>
      {mailboxes.map((mailbox) => (
        <MailboxSettings key={mailbox.id} mailbox={mailbox} defaultQuotaBytes={defaultQuotaBytes} />
      ))}
    </SettingsPage>
  );
}
