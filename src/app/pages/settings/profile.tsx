/** The person's own name, undo time and password. */
import { useQuery } from "@tanstack/react-query";
import { meQuery } from "../../lib/queries.ts";
import { useChange } from "../../lib/settings.ts";
import { identityApi, secondFactorQuery } from "../../lib/settings-identity.ts";
import { Button } from "../../parts/button.tsx";
import { Field, Tick } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { Panel, SettingsPage } from "../../parts/settings.tsx";
import { UndoSetting } from "../../parts/undo-setting.tsx";

export function ProfilePage() {
  const { data: me } = useQuery(meQuery);
  const { data: factor } = useQuery(secondFactorQuery);
  const guarded = factor !== undefined && factor.since !== null;
  const rename = useChange(identityApi.rename, { key: meQuery.queryKey, told: "Name changed", atForm: true });
  const changePassword = useChange(identityApi.changePassword, {
    key: ["settings"],
    told: "Password changed. You are signed out everywhere else.",
    atForm: true,
  });

  if (!me) return null;
  return (
    <SettingsPage title="Profile" intro={`You sign in as ${me.email}. Your role in the workspace is ${me.role}.`}>
      <Panel title="Name">
        <Form sending={rename} submit={({ text }) => rename.mutate(text("name"))} className="max-w-96 space-y-3">
          <Field label="Name shown to others here" name="name" defaultValue={me.name} autoComplete="name" required />
          <Button kind="primary" type="submit" disabled={rename.isPending}>
            Save name
          </Button>
        </Form>
      </Panel>
      <UndoSetting />
      <Panel title="Password">
        <Form
          sending={changePassword}
          submit={({ text, empty }) =>
            changePassword.mutate(
              {
                ...{ present: text("present"), next: text("next"), endAppsAndKeys: text("endAppsAndKeys") !== "" },
                ...(guarded && { code: text("code") }),
              },
              { onSuccess: empty },
            )
          }
          className="max-w-96 space-y-3"
        >
          <input type="hidden" autoComplete="username" value={me.email} />
          <Field label="Present password" name="present" type="password" autoComplete="current-password" required />
          {guarded && (
            <Field label="Code from the app, or a recovery code" name="code" autoComplete="one-time-code" required />
          )}
          <Field label="New password" name="next" type="password" autoComplete="new-password" required />
          <Tick label="End my app passwords and API keys as well" name="endAppsAndKeys" />
          <Button kind="primary" type="submit" disabled={changePassword.isPending}>
            Change password
          </Button>
        </Form>
      </Panel>
    </SettingsPage>
  );
}
