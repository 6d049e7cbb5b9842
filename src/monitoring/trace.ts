/**
 * The trace of a message (`mailroom trace`): every step from the SMTP reply to the webhook, collected from several
 * tables. Only the operator sees it, so it names Bcc recipients, as the queue does.
 *
 * Steps are kept for retention.traceDays, webhooks for retention.deliveryLogDays, the rest as long as the mail itself.
 */
import { and, eq, inArray, type SQL } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import { listOutboundByMessageId, listQueueEntries, type OutboundMessage } from "../outbound/queue.ts";
import { type ArrivalDetail, type AttemptDetail, listTraceSteps, type StoredStep } from "../outbound/trace-log.ts";
import {
  events,
  mailboxes,
  messageJudgements,
  messages,
  outboundMessages,
  threads,
  users,
  webhookDeliveries,
  webhookEndpoints,
} from "../store/schema.ts";
import type { Db } from "../store/store.ts";

/** One step; `at` is epoch ms, the other fields depend on the step. */
export interface Step {
  at: number;
  step:
    | ("received" | "refused" | "filed" | "accepted" | "attempted" | "delivered" | "bounced" | "cancelled")
    | ("waiting" | "held" | "complaint" | "event" | "webhook");
  [field: string]: unknown;
}

export interface Traced {
  /** Header value with its angle brackets; null for a message without. */
  messageId: string | null;
  /** Ids of its present and former copies here. */
  emailIds: string[];
  /** The oldest first. */
  steps: Step[];
}

const withBrackets = (text: string): string => (text.startsWith("<") ? text : `<${text}>`);

/**
 * Traces a message by its Message-ID, with or without angle brackets, or by its id here (`msg_…`).
 * @throws AppError not_found for an unknown message
 */
export function traceMessage(db: Db, reference: string): Traced {
  const text = reference.trim();
  const known = text.startsWith("msg_") ? knownById(db, text) : { messageId: withBrackets(text), emailId: undefined };
  const { messageId, emailId } = known;
  const copies = listMessageCopies(
    db,
    messageId === undefined ? eq(messages.id, text) : eq(messages.messageId, messageId),
  );
  const outbound = messageId === undefined ? [] : listOutboundByMessageId(db, messageId);
  const keys = [messageId, emailId].filter((key) => key !== undefined);
  const stored = listTraceSteps(db, keys);
  const ids = [
    ...copies.map(({ id }) => id),
    ...outbound.filter(({ notice }) => !notice).map(({ id }) => id),
    ...stored.flatMap(({ detail }) => (detail as Partial<ArrivalDetail>).emailIds ?? []),
  ];
  const emailIds = [...new Set(emailId === undefined ? ids : [...ids, emailId])];
  const steps = [
    ...stored.map(storedStep),
    ...copies.map(filedStep),
    ...outbound.flatMap((message) => outboundSteps(db, message)),
    ...eventSteps(db, emailIds),
  ];
  if (steps.length === 0) throw new AppError("not_found", `nothing is known of a message ${reference}`);
  // Steps of one transaction keep the order of the lists above.
  steps.sort((a, b) => a.at - b.at);
  return { messageId: messageId ?? null, emailIds, steps };
}

/** @throws AppError not_found */
function knownById(db: Db, id: string): { messageId: string | undefined; emailId: string } {
  const message =
    db.select({ messageId: messages.messageId }).from(messages).where(eq(messages.id, id)).get() ??
    db
      .select({ messageId: outboundMessages.messageId })
      .from(outboundMessages)
      .where(eq(outboundMessages.id, id))
      .get();
  if (message) return { messageId: message.messageId ?? undefined, emailId: id };
  if (listTraceSteps(db, [id]).length > 0) return { messageId: undefined, emailId: id };
  throw new AppError("not_found", `there is no message ${id}; one that was deleted is known by its Message-ID`);
}

const copyFields = {
  id: messages.id,
  at: messages.filedAt,
  kind: messages.kind,
  mailbox: mailboxes.address,
  folder: messages.folder,
  threadId: threads.id,
  receivedOn: messages.receivedOn,
  size: messages.size,
  auth: messages.auth,
  sentBy: users.email,
  filedFor: messageJudgements.filedFor,
  score: messageJudgements.score,
};

/**
 * Starts from mailboxes, because the index by Message-ID begins with the mailbox: SQLite keeps the order of a cross
 * join.
 */
const listMessageCopies = (db: Db, isCopy: SQL) =>
  db
    .select(copyFields)
    .from(mailboxes)
    .crossJoin(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .leftJoin(users, eq(users.id, messages.sentBy))
    .leftJoin(messageJudgements, eq(messageJudgements.messageSeq, messages.seq))
    .where(and(eq(messages.mailboxId, mailboxes.id), isCopy))
    .all();

function storedStep({ at, step, trace, detail }: StoredStep): Step {
  if (step !== "attempted") return { at, step, trace, ...(detail as unknown as ArrivalDetail) };
  return { at, step, ...(detail as unknown as AttemptDetail) };
}

/** The step of filing: its present folder, and the reason if it is spam. */
function filedStep({ id, at, filedFor, sentBy, ...copy }: ReturnType<typeof listMessageCopies>[number]): Step {
  const known = Object.entries({ ...copy, sentBy, spamFor: filedFor }).filter(([, value]) => value !== null);
  return { at, step: "filed", emailId: id, ...Object.fromEntries(known) };
}

/** The steps of sending: its acceptance, and the state of each recipient. */
function outboundSteps(db: Db, message: OutboundMessage): Step[] {
  const { id: emailId, mailbox, returnPath, acceptedAt, notice, automatic } = message;
  const entries = listQueueEntries(db, message.seq);
  const accepted: Step = {
    at: acceptedAt,
    step: "accepted",
    emailId,
    mailbox,
    returnPath,
    notice,
    ...(automatic !== null && { automatic }),
    recipients: entries.map(({ recipient, field }) => ({ recipient, field })),
  };
  const standing = entries.flatMap((entry): Step[] => {
    const { id: queueId, recipient, field, state, attempts, reply, settledAt, complainedAt, leased } = entry;
    const of = { emailId, queueId, recipient, field };
    const nextAttemptAt = leased || entry.dueAt === null ? undefined : toIsoTime(entry.dueAt);
    const steps: Step[] = [{ at: settledAt ?? acceptedAt, step: state, ...of, attempts, reply, nextAttemptAt }];
    if (complainedAt !== null) steps.push({ at: complainedAt, step: "complaint", ...of });
    return steps;
  });
  return [accepted, ...standing];
}

const listEventDeliveries = (db: Db, eventSeq: number) =>
  db
    .select({
      deliveryId: webhookDeliveries.id,
      url: webhookEndpoints.url,
      state: webhookDeliveries.state,
      attempts: webhookDeliveries.attempts,
      status: webhookDeliveries.status,
      error: webhookDeliveries.error,
      createdAt: webhookDeliveries.createdAt,
      finishedAt: webhookDeliveries.finishedAt,
      dueAt: webhookDeliveries.dueAt,
    })
    .from(webhookDeliveries)
    .innerJoin(webhookEndpoints, eq(webhookEndpoints.seq, webhookDeliveries.endpointSeq))
    .where(eq(webhookDeliveries.eventSeq, eventSeq))
    .orderBy(webhookDeliveries.seq)
    .all();

/** The message's events and their webhook deliveries. */
function eventSteps(db: Db, emailIds: readonly string[]): Step[] {
  const written = db
    .select({ seq: events.seq, id: events.id, at: events.createdAt, event: events.event, emailId: events.emailId })
    .from(events)
    .where(inArray(events.emailId, [...emailIds]))
    .orderBy(events.seq)
    .all();
  return written.flatMap(({ seq, id: eventId, at, event, emailId }): Step[] => [
    { at, step: "event", emailId, eventId, event },
    ...listEventDeliveries(db, seq).map(({ createdAt, finishedAt, dueAt, ...delivery }): Step => {
      const nextAttemptAt = dueAt === null ? undefined : toIsoTime(dueAt);
      return { at: finishedAt ?? createdAt, step: "webhook", eventId, event, ...delivery, nextAttemptAt };
    }),
  ]);
}
