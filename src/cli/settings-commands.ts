/** `mailroom settings …` */
import { defineCommand } from "./command.ts";

const SETTING = { name: "NAME" } as const;

export const settingsCommands = [
  defineCommand({
    name: "settings list",
    lists: true,
    summary: "List the settings, their values and what they mean",
    columns: ["name", "value", "default", "description"],
    run: ({ opened }) => opened.core.options.list(),
  }),
  defineCommand({
    name: "settings get",
    lists: true,
    summary: "Print the value of a setting",
    arguments: SETTING,
    text: (document) => `${(document as { value: string }).value}\n`,
    run: ({ opened }, { arguments: { name } }) => opened.core.options.find(name),
  }),
  defineCommand({
    name: "settings set",
    summary: "Change a setting; a running server follows within 2 seconds. VALUE -: read it from standard input",
    arguments: { ...SETTING, value: "VALUE" },
    async run({ opened, io, readSecret }, { arguments: { name, value } }) {
      const { store, options } = opened.core;
      const isRead = value === "-";
      const given = isRead ? await readSecret() : value;
      store.transact((tx) => options.set(tx, name, given));
      // A value as listed has its secret masked.
      if (!isRead && value !== options.find(name).value && options.hides(name, value)) {
        io.writeStderr(
          "mailroom: ps and the shell's history show the secret in it: give - for the value, and the value on standard input\n",
        );
      }
      return options.find(name);
    },
  }),
  defineCommand({
    name: "settings reset",
    summary: "Bring a setting back to its default",
    arguments: SETTING,
    run({ opened }, { arguments: { name } }) {
      const { store, options } = opened.core;
      store.transact((tx) => options.reset(tx, name));
      return options.find(name);
    },
  }),
];
