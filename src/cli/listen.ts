/** `mailroom listen`: events as they come, for who develops a receiver of webhooks (rules: Listening). */
import { EVENT_NAMES } from "../admin/developers.ts";
import { createEventForwarder, followEvents, type HeardEvent } from "../admin/listening.ts";
import { awaitAtMost } from "../base/pause.ts";
import { toIsoTime } from "../base/time.ts";
import { defineCommand } from "./command.ts";
import { withoutTerminalControls } from "./output.ts";
import { findWorkspaceId, WORKSPACE } from "./workspace-commands.ts";

const POLL_MS = 250;

type Outcome = Awaited<ReturnType<ReturnType<typeof createEventForwarder>["forward"]>>;

/** The event and its outcome on one line. A terminal obeys control characters, and strangers choose subjects. */
function describe({ createdAt, event, data }: HeardEvent, outcome: Outcome | undefined): string {
  const { mailbox, emailId, subject, recipient, reason } = JSON.parse(data) as Record<string, string | undefined>;
  const about = subject ?? recipient ?? reason ?? "";
  const answered = outcome && `-> ${outcome.error ?? outcome.status} (${outcome.ms} ms)`;
  const parts = [toIsoTime(createdAt), event, mailbox, emailId, about, answered];
  return withoutTerminalControls(parts.filter((part) => part !== undefined && part !== "").join("  ")).replace(
    /[\n\t]/g,
    "\ufffd",
  );
}

/** Formats an event for --json: the body of its delivery, with the outcome of forwarding it. */
function formatHeardEvent({ body }: HeardEvent, outcome: Outcome | undefined): string {
  if (!outcome) return body;
  const { ok, status, error, ms } = outcome;
  return JSON.stringify({ ...JSON.parse(body), forwarded: { ok, status, error, ms } });
}

export const listen = defineCommand({
  name: "listen",
  summary: "Print events as they come, and post them to a receiver that you develop; without an endpoint, until Ctrl-C",
  options: {
    forward: { value: "URL", summary: "Post each there, once, signed with a secret that is printed" },
    events: { value: EVENT_NAMES, list: true, summary: "Only these" },
    ...WORKSPACE,
  },
  async run(context, { options }) {
    const { io, runtime, opened } = context;
    const json = (options as { json?: boolean }).json === true;
    let isOver = false;
    const interrupted = io.interrupted().then(() => {
      isOver = true;
    });
    const workspaceId = findWorkspaceId(context, options.workspace);
    const forwarder = options.forward === undefined ? undefined : createEventForwarder(opened.core, options.forward);
    const next = followEvents(opened.core.store, { workspaceId, events: options.events });
    if (forwarder) io.writeStderr(`Forwarding to ${options.forward}, signed with the secret ${forwarder.secret}\n`);
    io.writeStderr("Listening for events; Ctrl-C ends it\n");
    try {
      for (; !isOver; await awaitAtMost(runtime, POLL_MS, interrupted)) {
        for (let heard = next(); heard; heard = next()) {
          for (const event of heard) {
            if (isOver) return undefined;
            const outcome = await forwarder?.forward(event);
            await io.writeStdout(`${json ? formatHeardEvent(event, outcome) : describe(event, outcome)}\n`);
          }
        }
      }
    } finally {
      forwarder?.close();
    }
    return undefined;
  },
});
