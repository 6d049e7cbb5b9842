/**
 * The progress of sent mail: each recipient of a message, for the app to show beside the address, and the unsettled recipients
 * of a workspace, for its admins. Only the sender of a message sees its Bcc recipients, and any server's reply that might name
 * one (rules: Bcc).
 */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import { type Caller, findReach, outOfReachError } from "../access/caller.ts";
import { toIsoTimeOrNull } from "../base/time.ts";
import type { DeliveryView } from "../mailbox/state/views.ts";
import { messages, outboundMessages, type QueueState, queueEntries, type RecipientField } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { bccDetector } from "./bcc.ts";
import type { OutboundMessage, QueueEntry } from "./queue.ts";

export interface RecipientProgress {
  email: string;
  field: RecipientField;
  state: QueueState;
  /** Attempts that have ended. */
  attempts: number;
  /** Last reply or failure, for people. */
  reply: string | null;
  /** Time of the next attempt, while it waits: ISO 8601. */
  nextAt: string | null;
  /** Time of the result: ISO 8601. */
  settledAt: string | null;
  /** The recipient reported it as spam. */
  complained: boolean;
}

const statements = prepared((db) => ({
  message: db
    .select({ mailboxId: messages.mailboxId, sentBy: messages.sentBy })
    .from(messages)
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
  entries: db
    .select({ entry: queueEntries, from: outboundMessages.domain })
    .from(outboundMessages)
    .innerJoin(queueEntries, eq(queueEntries.messageSeq, outboundMessages.seq))
    .where(eq(outboundMessages.id, sql.placeholder("id")))
    .orderBy(asc(queueEntries.seq))
    .prepare(),
}));

/** Reads the recipients of a message, and tells which of them and of their replies the caller may see. */
function openRecipientReader(db: Db, { userId }: Caller, emailId: string) {
  const isSender = statements(db).message.get({ id: emailId })?.sentBy === userId;
  const rows = statements(db).entries.all({ id: emailId });
  const namesBcc = bccDetector(
    rows.map(({ entry }) => entry),
    rows[0]?.from ?? "",
  );
  return {
    rows,
    maySee: (field: RecipientField): boolean => isSender || field !== "bcc",
    readable: (reply: string | null): string | null => (reply !== null && !isSender && namesBcc(reply) ? null : reply),
  };
}

/**
 * Lists the recipients in the order of the message; empty for a message that was not sent from here. @throws AppError not_found
 */
export function listRecipientProgress(db: Db, caller: Caller, emailId: string): RecipientProgress[] {
  const message = statements(db).message.get({ id: emailId });
  if (!message || !findReach(db, caller, message.mailboxId)) throw outOfReachError("message");
  const { rows, maySee, readable } = openRecipientReader(db, caller, emailId);
  return rows
    .filter(({ entry }) => maySee(entry.field))
    .map(({ entry: { recipient, field, state, attempts, reply, dueAt, settledAt, complainedAt } }) => ({
      email: recipient,
      field,
      state,
      attempts,
      reply: readable(reply),
      nextAt: state === "waiting" ? toIsoTimeOrNull(dueAt) : null,
      settledAt: toIsoTimeOrNull(settledAt),
      complained: complainedAt !== null,
    }));
}

/** Sums up the delivery of a message; undefined for a message that was not sent from here. @throws AppError not_found */
export function findDeliveryView(db: Db, caller: Caller, emailId: string): DeliveryView | undefined {
  const progress = listRecipientProgress(db, caller, emailId);
  if (progress.length === 0) return undefined;
  const some = (...states: QueueState[]): boolean => progress.some(({ state }) => states.includes(state));
  const state = some("waiting", "held")
    ? "waiting"
    : !some("delivered")
      ? "failed"
      : some("bounced", "cancelled")
        ? "partly"
        : "delivered";
  return {
    state,
    recipients: progress.map(({ email: recipient, field, state: each }) => ({ recipient, field, state: each })),
  };
}

/** A recipient that is waiting or held, as the operator sees it. Times are epoch ms. */
export interface Unsettled {
  /** Position of the entry among those in its state: later entries have higher numbers. */
  seq: number;
  id: string;
  workspaceId: string;
  emailId: string;
  messageId: string;
  /** The address it was sent from. */
  mailbox: string;
  recipient: string;
  field: QueueEntry["field"];
  state: QueueState;
  attempts: number;
  /** An attempt is under way. */
  attempting: boolean;
  /** Null while an attempt is under way, and for a held recipient. */
  nextAttemptAt: number | null;
  reply: string | null;
  acceptedAt: number;
}

const LIST_PAGE = 500;

/** The position of an entry in listUnsettled. */
export interface QueuePosition {
  state: (typeof UNSETTLED)[number];
  seq: number;
}

const UNSETTLED = ["waiting", "held"] as const;

/**
 * Lists the unsettled recipients of a workspace, or of all: those that wait, then those that are held, each the oldest first.
 * `from`: only those after this position.
 */
export function* listUnsettled(db: Db, workspaceId?: string, from?: QueuePosition): Generator<Unsettled> {
  for (const state of UNSETTLED.slice(from && UNSETTLED.indexOf(from.state))) {
    let after = from?.state === state ? from.seq : 0;
    for (;;) {
      const rows = db
        .select({ entry: queueEntries, message: outboundMessages })
        .from(queueEntries)
        .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
        .where(
          and(
            sql`${queueEntries.state} = ${sql.raw(`'${state}'`)}`,
            gt(queueEntries.seq, after),
            workspaceId === undefined ? undefined : eq(outboundMessages.workspaceId, workspaceId),
          ),
        )
        .orderBy(asc(queueEntries.seq))
        .limit(LIST_PAGE)
        .all();
      for (const { entry, message } of rows) yield unsettledView(entry, message);
      const last = rows.at(-1);
      if (last === undefined || rows.length < LIST_PAGE) break;
      after = last.entry.seq;
    }
  }
}

function unsettledView(entry: QueueEntry, message: OutboundMessage): Unsettled {
  const { id, seq, recipient, field, state, attempts, reply, leased } = entry;
  const { workspaceId, id: emailId, messageId, mailbox, acceptedAt } = message;
  const nextAttemptAt = leased ? null : entry.dueAt;
  return {
    id,
    seq,
    workspaceId,
    emailId,
    messageId,
    mailbox,
    acceptedAt,
    recipient,
    field,
    state,
    attempts,
    attempting: leased,
    nextAttemptAt,
    reply,
  };
}

/** An Unsettled recipient as an admin sees it; `recipient` is null for a Bcc recipient of another person's message. */
export type UnsettledView = Omit<Unsettled, "recipient"> & { recipient: string | null };

/**
 * Lists the unsettled recipients of the caller's workspace, as the caller may see them; reads them as they are asked for.
 * `after`: only those after this position.
 */
export function* unsettledFor(db: Db, caller: Caller, after?: QueuePosition): Generator<UnsettledView> {
  const readers = new Map<string, ReturnType<typeof openRecipientReader>>();
  for (const entry of listUnsettled(db, caller.workspaceId, after)) {
    const reader = readers.get(entry.emailId) ?? openRecipientReader(db, caller, entry.emailId);
    readers.set(entry.emailId, reader);
    const recipient = reader.maySee(entry.field) ? entry.recipient : null;
    yield { ...entry, recipient, reply: recipient === null ? null : reader.readable(entry.reply) };
  }
}
