/** Notifications in this browser, and installing the app. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { subscribeBrowser, unsubscribeBrowser, whyNoPush } from "../../lib/notifications.ts";
import { mailboxesQuery, pushQuery, useChange } from "../../lib/queries.ts";
import { forgetInstallOffer, useInstallOffer } from "../../lib/service-worker.ts";
import { Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { Checkbox } from "../../parts/ui/fields.tsx";
import { Form } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";

export function NotificationsPage() {
  const push = useQuery(pushQuery);
  const mailboxes = useQuery(mailboxesQuery);
  const loaded = push.data && mailboxes.data;
  return (
    <SettingsPage
      title="Notifications"
      intro="For this browser, until you sign out of it: new mail in the inbox, messages that wait for approval, and mail that could not be delivered."
    >
      {loaded ? <Choice /> : <NotLoaded query={push.data ? mailboxes : push} what="notifications" />}
      <Install />
    </SettingsPage>
  );
}

function Choice() {
  const { data: push } = useQuery(pushQuery);
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const publicKey = push?.publicKey ?? "";
  const choice = push?.choice;
  const key = pushQuery.queryKey;
  const save = useChange(
    async (given: { mailboxes: string[]; details: boolean }) =>
      api.setPush({ ...(await subscribeBrowser(publicKey)), ...given }),
    { key, success: "This browser will be notified", atForm: true },
  );
  const end = useChange(
    async () => {
      await api.endPush();
      await unsubscribeBrowser();
    },
    { key, success: "This browser is no longer notified" },
  );
  const why = whyNoPush();
  if (why !== undefined && !choice) return <p className="text-sm text-soft">{why}</p>;
  return (
    <Panel title="Of which mailboxes">
      <Form
        key={String(choice !== null)}
        sending={save}
        submit={({ text }) =>
          save.mutate({
            mailboxes: mailboxes.filter(({ id }) => text(id) !== "").map(({ id }) => id),
            details: text("details") !== "",
          })
        }
        className="space-y-4"
      >
        <fieldset className="space-y-1">
          <legend className="sr-only">Mailboxes</legend>
          {mailboxes.map(({ id, address, source }) => (
            <Checkbox
              key={id}
              label={address}
              name={id}
              defaultChecked={choice ? choice.mailboxes.includes(id) : source === "owner"}
            />
          ))}
        </fieldset>
        <div>
          <Checkbox label="Show sender and subject" name="details" defaultChecked={choice?.details ?? false} />
          <p className="mt-1 text-sm text-muted">
            Whoever sees the screen sees them, too, also while it is locked. Without, a notification names the mailbox.
            The maker of your browser passes notifications on and learns when they come; what they say is encrypted.
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button kind="primary" type="submit" disabled={save.isPending}>
            {choice ? "Save" : "Turn on"}
          </Button>
          {choice && (
            <Button disabled={end.isPending} onClick={() => end.mutate(undefined)}>
              Turn off
            </Button>
          )}
        </div>
      </Form>
    </Panel>
  );
}

function Install() {
  const offer = useInstallOffer();
  return (
    <Panel
      title="As an app"
      about="Installed, Mailroom has a window and an icon of its own, and opens without a connection. Your browser’s menu has it as “Install” or “Add to Home Screen”."
    >
      {offer && (
        <Button
          onClick={() => {
            forgetInstallOffer();
            void offer.prompt();
          }}
        >
          Install Mailroom
        </Button>
      )}
    </Panel>
  );
}
