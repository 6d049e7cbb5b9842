/** `mailroom queue …` */
import type { Unsettled } from "../admin/outbound.ts";
import { command } from "./command.ts";
import { isoOf } from "./output.ts";
import type { Session } from "./session.ts";
import { WORKSPACE, workspaceIdOf, workspaceNames } from "./workspace.ts";

function presenter(session: Session) {
  const names = workspaceNames(session);
  return ({ id, recipient, field, state, attempting, attempts, reply, mailbox, ...rest }: Unsettled) => ({
    id,
    recipient,
    // Shows the operator that the recipient is a Bcc, which must stay secret.
    field,
    state,
    attempting,
    attempts,
    nextAttemptAt: isoOf(rest.nextAttemptAt),
    reply,
    mailbox,
    emailId: rest.emailId,
    messageId: rest.messageId,
    workspace: names.get(rest.workspaceId),
    acceptedAt: isoOf(rest.acceptedAt),
  });
}

const ENTRY = { id: "ID" } as const;

export const queueCommands = [
  command({
    name: "queue list",
    summary: "List the recipients of outbound mail that are not settled yet",
    options: WORKSPACE,
    columns: ["id", "recipient", "field", "state", "attempts", "nextAttemptAt", "mailbox", "reply"],
    run: (session, { options }) =>
      Array.from(session.appliance.outbound.listQueue(workspaceIdOf(session, options.workspace)), presenter(session)),
  }),
  command({
    name: "queue retry",
    summary: "Attempt a recipient again now, or let one go that is held",
    arguments: ENTRY,
    run({ appliance: { store, outbound } }, { arguments: { id } }) {
      store.transact((tx) => outbound.retry(tx, id));
      return { id, state: "waiting" };
    },
  }),
  command({
    name: "queue release",
    summary: "Let all go that is held, as after a restore",
    options: WORKSPACE,
    run(session, { options }) {
      const { store, outbound } = session.appliance;
      const workspaceId = workspaceIdOf(session, options.workspace);
      return { released: store.transact((tx) => outbound.releaseHeld(tx, workspaceId)) };
    },
  }),
  command({
    name: "queue cancel",
    summary: "Give a recipient up, without a bounce",
    arguments: ENTRY,
    run({ appliance: { store, outbound } }, { arguments: { id } }) {
      store.transact((tx) => outbound.cancel(tx, id));
      return { id, state: "cancelled" };
    },
  }),
];
