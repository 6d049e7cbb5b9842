/** Recipients of outbound mail that are not settled yet (rules: Queue over the API). */
import type { UnsettledView } from "../../admin/outbound.ts";
import * as outbound from "../../admin/outbound.ts";
import { dateTimeSchema, emailSchema, nullable, type Static, stringEnum, t } from "../../base/json-schema.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { defineOperationCommand } from "../command-line.ts";
import { defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { BY_ID, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

/** Stands for an address that only the sender may know. */
const A_BCC_RECIPIENT = "a Bcc recipient";

const QueueEntry = t.Object(
  {
    id: t.String(),
    recipient: t.String({
      description: `The address; "${A_BCC_RECIPIENT}" when somebody else sent the message and blind-copied them`,
    }),
    field: stringEnum(["to", "cc", "bcc"], { description: "The header that names the recipient" }),
    state: stringEnum(["waiting", "held"]),
    attempting: t.Boolean({ description: "An attempt is under way" }),
    attempts: t.Integer({ description: "Attempts that have ended" }),
    nextAttemptAt: nullable(dateTimeSchema(), { description: "null during an attempt, and while held" }),
    reply: nullable(t.String(), { description: "The last reply of the other server" }),
    mailbox: emailSchema({ description: "The address it was sent from" }),
    emailId: t.String({ description: "As in GET /messages/{id} of the mail API" }),
    messageId: t.String({ description: "RFC 5322 Message-ID" }),
    acceptedAt: dateTimeSchema(),
  },
  { $id: "QueueEntry" },
);

export type QueueEntryView = Static<typeof QueueEntry>;

/** Presents a recipient. */
export const queueEntryView = ({
  recipient,
  state,
  nextAttemptAt,
  acceptedAt,
  ...entry
}: UnsettledView): QueueEntryView => {
  const { id, field, attempting, attempts, reply, mailbox, emailId, messageId } = entry;
  return {
    id,
    recipient: recipient ?? A_BCC_RECIPIENT,
    field,
    state: state === "held" ? "held" : "waiting",
    attempting,
    attempts,
    nextAttemptAt: toIsoTimeOrNull(nextAttemptAt),
    reply,
    mailbox,
    emailId,
    messageId,
    acceptedAt: toIsoTime(acceptedAt),
  };
};

const common = { group: "Queue", audience: "admin", scope: "admin", whole: ["mailboxes"] } as const;

export const listQueue = defineOperation({
  ...common,
  name: "listQueue",
  method: "GET",
  path: "/queue",
  summary: "List the recipients of outbound mail that are not settled yet",
  description: "Waiting recipients, then held ones; each oldest first.",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ queue: t.Array(QueueEntry), nextCursor }),
  errors: READ_ERRORS,
  run({ person, core }, { query }) {
    const caller = person(core.db);
    const list = {
      query: "queue",
      rowPosition: ({ state, seq }: UnsettledView) => ({ at: state === "waiting" ? 0 : 1, id: String(seq) }),
      read: (after: { at: number; id: string } | undefined) =>
        outbound.listQueueFor(
          core,
          caller,
          after && { state: after.at === 0 ? "waiting" : "held", seq: Number(after.id) },
        ),
    };
    const { page, nextCursor: next } = readListPage(list, query);
    return { queue: page.map(queueEntryView), nextCursor: next };
  },
});

const changed = (state: "waiting" | "cancelled") => t.Object({ id: t.String(), state: stringEnum([state]) });

export const retryDelivery = defineOperation({
  ...common,
  name: "retryDelivery",
  method: "POST",
  path: "/queue/:id/retry",
  summary: "Attempt a recipient again now, or release one that is held",
  params: BY_ID,
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 200,
  response: changed("waiting"),
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "queue retry",
      arguments: { id: "ID" },
      target: "recipient",
      document: (entry: object) => entry,
    }),
  ],
  run: ({ act, core }, { params: { id } }) =>
    act((tx, { workspaceId }) => {
      outbound.retryQueueEntry(core, tx, id, workspaceId);
      return { id, state: "waiting" as const };
    }),
});

export const cancelDelivery = defineOperation({
  ...common,
  name: "cancelDelivery",
  method: "POST",
  path: "/queue/:id/cancel",
  summary: "Give a recipient up, without a bounce",
  params: BY_ID,
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 200,
  response: changed("cancelled"),
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "queue cancel",
      arguments: { id: "ID" },
      target: "recipient",
      document: (entry: object) => entry,
    }),
  ],
  run: ({ act, core }, { params: { id } }) =>
    act((tx, { workspaceId }) => {
      outbound.cancelQueueEntry(core, tx, id, workspaceId);
      return { id, state: "cancelled" as const };
    }),
});
