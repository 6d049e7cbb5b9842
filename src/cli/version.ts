/** `mailroom version` */
import { version as number } from "../../package.json" with { type: "json" };
import { command } from "./command.ts";

export const version = command({
  name: "version",
  summary: "Print the version",
  text: () => `${number}\n`,
  run: () => ({ id: "mailroom", version: number }),
});
