/** The person's own name, undo time and password. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { imageSendersQuery, meQuery, queryClient, sendingQuery, useChange } from "../../lib/queries.ts";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { SecondFactorCode } from "../../parts/settings/second-factor-code.tsx";
import { Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { Checkbox, Field, NewPassword } from "../../parts/ui/fields.tsx";
import { Form } from "../../parts/ui/form.tsx";
import { secondFactorQuery } from "./settings-identity.ts";

export function ProfilePage() {
  const { data: me } = useQuery(meQuery);
  const { data: factor } = useQuery(secondFactorQuery);
  const guarded = factor !== undefined && factor.since !== null;
  const rename = useChange(api.changeName, { key: meQuery.queryKey, success: "Name changed", atForm: true });
  const changePassword = useChange(api.changePassword, {
    key: ["settings"],
    success: "Password changed. You are signed out everywhere else.",
    atForm: true,
  });

  if (!me) return null;
  return (
    <SettingsPage title="Profile" intro={`You sign in as ${me.email}. Your role in the workspace is ${me.role}.`}>
      <Panel title="Name">
        <Form
          sending={rename}
          submit={({ text }) => rename.mutate({ name: text("name") })}
          className="max-w-96 space-y-3"
        >
          <Field label="Name shown to others here" name="name" defaultValue={me.name} autoComplete="name" required />
          <SaveRow action="Save name" sending={rename} />
        </Form>
      </Panel>
      <UndoSetting />
      <ImageSenders />
      <Panel title="Password">
        <Form
          sending={changePassword}
          submit={({ text, empty }) =>
            changePassword.mutate(
              {
                present: text("present"),
                next: text("next"),
                endAppsAndKeys: text("endAppsAndKeys") !== "",
                ...(guarded && { code: text("code") }),
              },
              {
                onSuccess: () => {
                  empty();
                  void queryClient.invalidateQueries({ queryKey: meQuery.queryKey });
                },
              },
            )
          }
          className="max-w-96 space-y-3"
        >
          <input type="hidden" autoComplete="username" value={me.email} />
          <Field label="Current password" name="present" type="password" autoComplete="current-password" required />
          {guarded && <SecondFactorCode />}
          <NewPassword label="New password" name="next" />
          <Checkbox label="End my app passwords and API keys as well" name="endAppsAndKeys" />
          <SaveRow action="Change password" sending={changePassword} />
        </Form>
      </Panel>
    </SettingsPage>
  );
}

/** Senders whose remote images are shown by themselves; each can be taken back. */
function ImageSenders() {
  const senders = useQuery(imageSendersQuery).data?.senders ?? [];
  const hide = useChange(api.hideImagesOf, { key: imageSendersQuery.queryKey });
  if (senders.length === 0) return null;
  return (
    <Panel title="Images that are always shown">
      <ul className="max-w-120 space-y-1 text-sm">
        {senders.map((sender) => (
          <li key={sender} className="flex items-center justify-between gap-3">
            <span className="min-w-0 break-all">{sender}</span>
            <Button aria-label={`Stop showing images of ${sender}`} onClick={() => hide.mutate({ sender })}>
              Stop
            </Button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const CHOICES = [
  [0, "Not at all"],
  [5, "5 seconds"],
  [10, "10 seconds"],
  [20, "20 seconds"],
  [30, "30 seconds"],
] as const;

/** The setting for how long sending can be undone. */
function UndoSetting() {
  const { data } = useQuery(sendingQuery);
  const change = useChange(api.setSendingPreferences, { key: sendingQuery.queryKey, success: "Changed" });
  if (!data) return null;
  return (
    <Panel title="Sending">
      <label className="block">
        <span className="field-label">Sending can be undone for</span>
        <select
          value={data.undoSeconds}
          disabled={change.isPending}
          onChange={(event) => change.mutate({ undoSeconds: Number(event.target.value) })}
          className="control"
        >
          {CHOICES.map(([seconds, label]) => (
            <option key={seconds} value={seconds}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </Panel>
  );
}
