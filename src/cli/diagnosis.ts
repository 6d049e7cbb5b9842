/** `mailroom doctor` runs all checks of this server; `mailroom trace` follows one message. */
import { toIsoTimeOrNull } from "../base/time.ts";
import { DOMAIN, findDemo } from "../demo/demo-folder.ts";
import type { Finding } from "../doctor/check.ts";
import { type Step, type Traced, traceMessage } from "../monitoring/trace.ts";
import { type Document, defineCommand, FailedCheck } from "./command.ts";

const MARKS: Record<Finding["state"], string> = {
  ok: "ok     ",
  warning: "warning",
  bad: "BAD    ",
  unknown: "unknown",
};

const describeFindings = (document: Document): string =>
  (document as Finding[])
    .map(({ state, name, detail, todo }) => `${MARKS[state]}  ${name}: ${detail}\n${todo ? `         ${todo}\n` : ""}`)
    .join("");

const OF_MAIL_OUTSIDE = ["dns", "outbound", "hostname", "backup"];

/** True for a finding that is not good, and need not be in a demo: no mail from outside comes there, and none leaves. */
const isSparedDemo = ({ id, state }: Finding): boolean =>
  state !== "ok" && (OF_MAIL_OUTSIDE.includes(id) || id.endsWith(`:${DOMAIN}`));

export const doctor = defineCommand({
  name: "doctor",
  summary: "Check this server and say what to do; exit 1 if something is bad",
  text: describeFindings,
  async run({ opened }) {
    const findings = await opened.doctor.examine();
    const bad = findings.filter(({ state }) => state === "bad").length;
    if (bad === 0) return findings;
    const spared = findDemo(opened.core) ? findings.filter(isSparedDemo).map(({ name }) => name) : [];
    throw new FailedCheck(
      `${bad} ${bad === 1 ? "thing needs" : "things need"} attention${spared.length > 0 ? `, but in a demo not: ${spared.join(", ")}` : ""}`,
      findings,
    );
  },
});

/** `name=value` for each field; lists and objects as JSON, so that they are complete. */
function formatStepFields({ at: _, step: __, ...fields }: Step): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("  ");
}

function describeTrace(document: Document): string {
  const { messageId, emailIds, steps } = document as Omit<Traced, "steps"> & { steps: (Step & { at: unknown })[] };
  const lines = steps.map((step) => `${step.at}  ${step.step.padEnd(9)}  ${formatStepFields(step)}\n`);
  return `${messageId ?? "without a Message-ID"}  ${emailIds.join(" ")}\n\n${lines.join("")}`;
}

export const trace = defineCommand({
  name: "trace",
  summary: "Print every step of a message: arrival, filing, attempts to deliver, events, webhooks",
  arguments: { message: "MESSAGE-ID" },
  text: describeTrace,
  run(
    {
      opened: {
        core: { store },
      },
    },
    { arguments: { message } },
  ) {
    const { messageId, emailIds, steps } = traceMessage(store.db, message);
    return {
      id: messageId ?? emailIds[0],
      messageId,
      emailIds,
      steps: steps.map((step) => ({ ...step, at: toIsoTimeOrNull(step.at) })),
    };
  },
});
