/** `mailroom settings …` */
import { ConfigError } from "../errors.ts";
import { command } from "./command.ts";
import type { Session } from "./session.ts";

const SETTING = { name: "NAME" } as const;

function find({ appliance }: Session, name: string) {
  const setting = appliance.options.list().find((known) => known.name === name);
  if (!setting) throw new ConfigError(`there is no setting "${name}"; see: mailroom settings list`);
  return setting;
}

export const settingsCommands = [
  command({
    name: "settings list",
    summary: "List the settings, their values and what they mean",
    columns: ["name", "value", "default", "description"],
    run: ({ appliance }) => appliance.options.list(),
  }),
  command({
    name: "settings get",
    summary: "Print the value of a setting",
    arguments: SETTING,
    text: (document) => `${(document as { value: string }).value}\n`,
    run: (session, { arguments: { name } }) => find(session, name),
  }),
  command({
    name: "settings set",
    summary: "Change a setting; a running server follows within 2 seconds",
    arguments: { ...SETTING, value: "VALUE" },
    run(session, { arguments: { name, value } }) {
      const { store, options } = session.appliance;
      store.transact((tx) => options.set(tx, name, value));
      return find(session, name);
    },
  }),
  command({
    name: "settings reset",
    summary: "Bring a setting back to its default",
    arguments: SETTING,
    run(session, { arguments: { name } }) {
      const { store, options } = session.appliance;
      store.transact((tx) => options.reset(tx, name));
      return find(session, name);
    },
  }),
];
