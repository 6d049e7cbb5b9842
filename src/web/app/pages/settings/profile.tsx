/** Who one is here: the name one is shown by, and one's password. */
import { useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { meQuery } from "../../lib/queries.ts";
import { useChange } from "../../lib/settings.ts";
import { profileApi } from "../../lib/settings-profile.ts";
import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { Panel, SettingsPage } from "../../parts/settings.tsx";

export function ProfilePage() {
  const { data: me } = useQuery(meQuery);
  const rename = useChange(profileApi.rename, { key: meQuery.queryKey, told: "Name changed" });
  const changePassword = useChange(profileApi.changePassword, {
    key: meQuery.queryKey,
    told: "Password changed. You are signed out everywhere else.",
  });

  function saveName(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    rename.mutate(String(new FormData(event.currentTarget).get("name")));
  }
  function savePassword(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    changePassword.mutate(
      { present: String(given.get("present")), next: String(given.get("next")) },
      { onSuccess: () => form.reset() },
    );
  }

  if (!me) return null;
  return (
    <SettingsPage title="Profile" intro={`You sign in as ${me.email}. Your role in the workspace is ${me.role}.`}>
      <Panel title="Name">
        <form onSubmit={saveName} className="max-w-96 space-y-3">
          <Field label="Name shown to others here" name="name" defaultValue={me.name} autoComplete="name" required />
          <Button kind="primary" type="submit" disabled={rename.isPending}>
            Save name
          </Button>
        </form>
      </Panel>
      <Panel title="Password">
        <form onSubmit={savePassword} className="max-w-96 space-y-3">
          <input type="hidden" autoComplete="username" value={me.email} />
          <Field label="Present password" name="present" type="password" autoComplete="current-password" required />
          <Field label="New password" name="next" type="password" autoComplete="new-password" required />
          <Button kind="primary" type="submit" disabled={changePassword.isPending}>
            Change password
          </Button>
        </form>
      </Panel>
    </SettingsPage>
  );
}
