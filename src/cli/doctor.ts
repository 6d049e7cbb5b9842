/** `mailroom doctor`: runs all checks of this server. */
import type { Finding } from "../doctor/check.ts";
import { command, type Document, FailedCheck } from "./command.ts";

const MARKS: Record<Finding["state"], string> = {
  ok: "ok     ",
  warning: "warning",
  bad: "BAD    ",
  unknown: "unknown",
};

const describe = (document: Document): string =>
  (document as Finding[])
    .map(({ state, name, detail, todo }) => `${MARKS[state]}  ${name}: ${detail}\n${todo ? `         ${todo}\n` : ""}`)
    .join("");

export const doctor = command({
  name: "doctor",
  summary: "Check this server and say what to do; exit 1 if something is bad",
  text: describe,
  async run({ appliance }) {
    const findings = await appliance.doctor.examine();
    const bad = findings.filter(({ state }) => state === "bad").length;
    if (bad > 0) throw new FailedCheck(`${bad} ${bad === 1 ? "thing needs" : "things need"} attention`, findings);
    return findings;
  },
});
