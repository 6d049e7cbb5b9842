/** Limits and the other settings of the server: each with its meaning and default. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../lib/settings.ts";
import { type SettingView, serverQuery, WORKSPACE, workspaceApi } from "../../lib/settings-workspace.ts";
import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Panel, SettingsPage } from "../../parts/settings.tsx";

/** What stands before the dot of a setting's name, as a heading. */
const TITLES: Record<string, string> = {
  api: "API",
  sending: "Sending",
  smtp: "SMTP",
  mx: "Incoming mail",
  webhooks: "Webhooks",
  storage: "Storage",
  spam: "Spam",
  retention: "Retention",
  search: "Search",
};

export function ServerPage() {
  const list = useQuery(serverQuery);
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="limits" />;
  const groups = new Map<string, SettingView[]>();
  for (const setting of list.data.settings) {
    const [group = ""] = setting.name.split(".");
    groups.set(group, [...(groups.get(group) ?? []), setting]);
  }
  return (
    <SettingsPage title="Limits and server" intro="They hold for every workspace of this server, at once.">
      {[...groups].map(([group, settings]) => (
        <Panel key={group} title={TITLES[group] ?? group}>
          <ul className="divide-y divide-line">
            {settings.map((setting) => (
              // Another value makes it another field, which shows it.
              <Setting key={`${setting.name}=${setting.value}`} setting={setting} />
            ))}
          </ul>
        </Panel>
      ))}
    </SettingsPage>
  );
}

function Setting({ setting: { name, value, default: preset, description } }: { setting: SettingView }) {
  const set = useChange(workspaceApi.set, { key: WORKSPACE, told: `${name} changed` });
  const reset = useChange(workspaceApi.reset, { key: WORKSPACE, told: `${name} is at its default` });
  return (
    <li className="space-y-2 py-4 first:pt-0 last:pb-0">
      <p className="text-sm text-soft">{description}</p>
      <div className="flex flex-wrap items-end gap-3">
        <LineForm action="Save" busy={set.isPending} submit={(text) => set.mutate({ name, value: text("value") })}>
          <Field label={name} name="value" defaultValue={value} autoComplete="off" required />
        </LineForm>
        {value === preset ? (
          <span className="pb-2 text-xs text-muted">the default</span>
        ) : (
          <Button kind="quiet" className="h-9" disabled={reset.isPending} onClick={() => reset.mutate(name)}>
            Back to {preset === "" ? "the default" : preset}
          </Button>
        )}
      </div>
    </li>
  );
}
