/** `mailroom settings …` */
import { command } from "./command.ts";

const SETTING = { name: "NAME" } as const;

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
    run: ({ appliance }, { arguments: { name } }) => appliance.options.find(name),
  }),
  command({
    name: "settings set",
    summary: "Change a setting; a running server follows within 2 seconds",
    arguments: { ...SETTING, value: "VALUE" },
    run({ appliance }, { arguments: { name, value } }) {
      const { store, options } = appliance;
      store.transact((tx) => options.set(tx, name, value));
      return options.find(name);
    },
  }),
  command({
    name: "settings reset",
    summary: "Bring a setting back to its default",
    arguments: SETTING,
    run({ appliance }, { arguments: { name } }) {
      const { store, options } = appliance;
      store.transact((tx) => options.reset(tx, name));
      return options.find(name);
    },
  }),
];
