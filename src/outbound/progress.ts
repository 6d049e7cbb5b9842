/**
 * What became of a sent message, recipient by recipient, for the app to show beside each address, and what waits of all
 * mail of a workspace, for its admins. Who a Bcc recipient is, only who sent it learns, and no server's reply that might
 * name one is shown to anybody else (rules: Bcc).
 */
import { asc, eq, sql } from "drizzle-orm";
import { type Caller, notFound, reachTo } from "../access/caller.ts";
import { messages, outboundMessages, type QueueState, queueEntries, type RecipientField } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { bccDetector } from "./bcc.ts";
import { listUnsettled, type QueuePosition, type Unsettled } from "./outbound.ts";

export interface RecipientProgress {
  email: string;
  field: RecipientField;
  state: QueueState;
  /** Attempts that have ended. */
  attempts: number;
  /** Last reply or failure, for people. */
  reply: string | null;
  /** ISO 8601: of the next attempt, while it waits. */
  nextAt: string | null;
  /** ISO 8601: of the result. */
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

const isoOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/** The parts of a message's recipients and replies that a caller may read. */
function readerOf(db: Db, { userId }: Caller, emailId: string) {
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

/** In the order of the message; empty for what was never sent from here. @throws AppError not_found */
export function progressOf(db: Db, caller: Caller, emailId: string): RecipientProgress[] {
  const message = statements(db).message.get({ id: emailId });
  if (!message || !reachTo(db, caller, message.mailboxId)) throw notFound("message");
  const { rows, maySee, readable } = readerOf(db, caller, emailId);
  return rows
    .filter(({ entry }) => maySee(entry.field))
    .map(({ entry: { recipient, field, state, attempts, reply, dueAt, settledAt, complainedAt } }) => ({
      email: recipient,
      field,
      state,
      attempts,
      reply: readable(reply),
      nextAt: state === "waiting" ? isoOf(dueAt) : null,
      settledAt: isoOf(settledAt),
      complained: complainedAt !== null,
    }));
}

/** As Unsettled; `recipient` is null for a Bcc recipient of what another person sent. */
export type UnsettledView = Omit<Unsettled, "recipient"> & { recipient: string | null };

/** What waits in the workspace of an admin, as they may see it; read as it is asked for. `after`: as in listUnsettled. */
export function* unsettledFor(db: Db, caller: Caller, after?: QueuePosition): Generator<UnsettledView> {
  const readers = new Map<string, ReturnType<typeof readerOf>>();
  for (const entry of listUnsettled(db, caller.workspaceId, after)) {
    const reader = readers.get(entry.emailId) ?? readerOf(db, caller, entry.emailId);
    readers.set(entry.emailId, reader);
    const recipient = reader.maySee(entry.field) ? entry.recipient : null;
    yield { ...entry, recipient, reply: recipient === null ? null : reader.readable(entry.reply) };
  }
}
