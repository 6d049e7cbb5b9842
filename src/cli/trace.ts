/** `mailroom trace` */
import { type Step, type Traced, traceMessage } from "../monitoring/trace.ts";
import { command, type Document } from "./command.ts";
import { isoOf } from "./output.ts";

/** `name=value` for each field; lists and objects as JSON, so that they are complete. */
function fieldsOf({ at: _, step: __, ...fields }: Step): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("  ");
}

function describe(document: Document): string {
  const { messageId, emailIds, steps } = document as Omit<Traced, "steps"> & { steps: (Step & { at: unknown })[] };
  const lines = steps.map((step) => `${step.at}  ${step.step.padEnd(9)}  ${fieldsOf(step)}\n`);
  return `${messageId ?? "without a Message-ID"}  ${emailIds.join(" ")}\n\n${lines.join("")}`;
}

export const trace = command({
  name: "trace",
  summary: "Print every step of a message: arrival, filing, attempts to deliver, events, webhooks",
  arguments: { message: "MESSAGE-ID" },
  text: describe,
  run({ appliance: { store } }, { arguments: { message } }) {
    const { messageId, emailIds, steps } = traceMessage(store.db, message);
    return {
      id: messageId ?? emailIds[0],
      messageId,
      emailIds,
      steps: steps.map((step) => ({ ...step, at: isoOf(step.at) })),
    };
  },
});
