/** The server's limits and other settings, with meanings and defaults. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { useChange, WORKSPACE } from "../../lib/queries.ts";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { Field } from "../../parts/ui/fields.tsx";
import { Form } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { SETTING_HEADINGS } from "./setting-headings.ts";
import { type ServerView, type SettingView, serverQuery } from "./settings-workspace.ts";

export function ServerPage() {
  const list = useQuery(serverQuery);
  if (!list.data) return <NotLoaded query={list} what="limits" />;
  const groups = new Map<string, SettingView[]>();
  for (const setting of list.data.settings) {
    const [group = ""] = setting.name.split(".");
    groups.set(group, [...(groups.get(group) ?? []), setting]);
  }
  return (
    <SettingsPage
      title="Limits and server"
      intro="Changes apply at once, to every workspace of this server. The command mailroom settings changes them, too."
    >
      {[...groups].map(([group, settings]) => (
        <ListPanel
          key={group}
          of={settings}
          title={SETTING_HEADINGS[group] ?? group}
          {...(group === "search" && { about: answeredBy(list.data.search) })}
        >
          {/* A new value changes the key, so that the field mounts again and shows it. */}
          {(setting) => <Setting key={`${setting.name}=${setting.value}`} setting={setting} />}
        </ListPanel>
      ))}
    </SettingsPage>
  );
}

const ENGINES = { fts5: "the embedded index", meilisearch: "Meilisearch" };

const answeredBy = ({ engine, reason }: ServerView["search"]): string =>
  `Searches are answered by ${ENGINES[engine]}${reason === undefined ? "" : `: ${reason}`}.`;

function Setting({ setting: { name, value, default: preset, description, commandLine } }: { setting: SettingView }) {
  const set = useChange(api.setSetting, { key: WORKSPACE, success: `${name} changed`, atForm: true });
  const reset = useChange(api.resetSetting, { key: WORKSPACE, success: `${name} reset to its default` });
  return (
    <li className="grid gap-x-6 gap-y-2 md:grid-cols-[minmax(0,1fr)_20rem]">
      <div className="min-w-0">
        <p>{description}</p>
        <code className="text-xs break-all text-muted">{name}</code>
      </div>
      {commandLine ? (
        <div className="min-w-0">
          <p className="break-all">{value}</p>
          <p className="mt-1 text-xs text-muted">Set at the command line: mailroom settings set {name}</p>
        </div>
      ) : (
        <div>
          <Form
            sending={set}
            submit={({ text }) => set.mutate({ name, value: text("value") })}
            className="flex items-start gap-2 *:first:grow"
          >
            <Field
              label={name}
              hidden
              name="value"
              defaultValue={value}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              hint={value === preset ? "The default." : `The default is ${preset === "" ? "empty" : preset}.`}
              required
            />
            <Button type="submit" disabled={set.isPending} className="h-9 shrink-0 max-md:h-11">
              Save
            </Button>
          </Form>
          {value !== preset && (
            <button
              type="button"
              aria-label={`Back to the default: ${name}`}
              className="mt-1 text-sm text-accent underline underline-offset-2 max-md:min-h-8"
              disabled={reset.isPending}
              onClick={() => reset.mutate({ name })}
            >
              Back to the default
            </button>
          )}
        </div>
      )}
    </li>
  );
}
