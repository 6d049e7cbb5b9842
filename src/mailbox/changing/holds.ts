/**
 * Messages of API keys that wait for a person (rules: Held for approval): each a conversation of its own in the drafts
 * of its mailbox, which nobody changes, beside the bytes that go out. Once the message is sent, the row tells who
 * approved it. The only writer of holds.
 */
import { and, asc, desc, eq, inArray, isNotNull, lte, min, sql } from "drizzle-orm";
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { toIsoTime } from "../../base/time.ts";
import type { Reader } from "../../store/core.ts";
import { type HeldRecipient, type HoldState, holds, messages, threads, users } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { UNSERVED_MAILBOXES } from "../../store/unserved-workspaces.ts";
import { heldHeader, heldTextDiffers } from "../reading/held-content.ts";
import { reachedMailbox } from "../state/mailboxes.ts";
import type { HeldView } from "../state/views.ts";
import { deleteConversations } from "./removal.ts";

/** The bytes that go out, or the blob that holds them. */
export type HeldContent = { bytes: Uint8Array } | { blob: string; size: number };

export interface Hold {
  /** messages.seq and messages.id */
  seq: number;
  emailId: string;
  /** threads.seq and threads.id of its conversation in drafts. */
  threadSeq: number;
  threadId: string;
  mailboxId: string;
  keyId: string;
  /** The person that the key acts for. */
  userId: string;
  state: HoldState;
  reason: string;
  /** Epoch ms, as are the other times. */
  since: number;
  sendAt: number | null;
  /** Id of the conversation that it answers. */
  answers: string | null;
  recipients: HeldRecipient[];
  subject: string;
  snippet: string;
  dsn: typeof holds.$inferSelect.dsn;
  decidedBy: string | null;
  /** The name of that person, while they are here. */
  decider: string | null;
  decidedAt: number | null;
  /** When people were told by mail that it and those before it wait. */
  notifiedAt: number | null;
}

/** Rows that a job reads at once. */
const PORTION = 100;
/** Messages marked in a list of drafts. */
const MOST_MARKED = 500;

const COLUMNS = {
  seq: holds.messageSeq,
  emailId: holds.messageId,
  threadSeq: messages.threadSeq,
  threadId: threads.id,
  mailboxId: holds.mailboxId,
  keyId: holds.keyId,
  userId: holds.userId,
  state: holds.state,
  reason: holds.reason,
  since: holds.since,
  sendAt: holds.sendAt,
  answers: holds.answers,
  recipients: holds.recipients,
  subject: messages.subject,
  snippet: messages.snippet,
  dsn: holds.dsn,
  decidedBy: holds.decidedBy,
  decider: users.name,
  decidedAt: holds.decidedAt,
  notifiedAt: holds.notifiedAt,
};

const statements = prepared((db) => {
  const select = () =>
    db
      .select(COLUMNS)
      .from(holds)
      .innerJoin(messages, eq(messages.seq, holds.messageSeq))
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .leftJoin(users, eq(users.id, holds.decidedBy));
  const before = sql.placeholder("before");
  // SQLite uses the partial indexes only where their own condition stands in the query.
  const inState = (state: HoldState) => and(eq(holds.state, sql.raw(`'${state}'`)), sql`${holds.state} <> 'sent'`);
  const isServed = sql`${holds.mailboxId} NOT IN ${sql.raw(UNSERVED_MAILBOXES)}`;
  const portion = (state: HoldState, ...more: Parameters<typeof and>) =>
    select()
      .where(and(inState(state), isServed, ...more))
      .orderBy(asc(holds.since))
      .limit(PORTION)
      .prepare();
  return {
    one: select()
      .where(eq(holds.messageId, sql.placeholder("emailId")))
      .prepare(),
    ofMessage: db
      .select({ state: holds.state, reason: holds.reason, since: holds.since, decidedBy: holds.decidedBy })
      .from(holds)
      .where(eq(holds.messageId, sql.placeholder("emailId")))
      .prepare(),
    approver: db
      .select({ name: users.name })
      .from(holds)
      .leftJoin(users, eq(users.id, holds.decidedBy))
      .where(and(eq(holds.messageId, sql.placeholder("emailId")), eq(holds.state, "sent")))
      .prepare(),
    marked: db
      .select({ draftId: threads.id, emailId: holds.messageId, state: holds.state, answers: holds.answers })
      .from(holds)
      .innerJoin(messages, eq(messages.seq, holds.messageSeq))
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .where(and(eq(holds.mailboxId, sql.placeholder("mailboxId")), sql`${holds.state} <> 'sent'`))
      .orderBy(desc(holds.since), desc(holds.messageSeq))
      .limit(MOST_MARKED)
      .prepare(),
    open: db
      .select({ seq: holds.messageSeq })
      .from(holds)
      .innerJoin(messages, eq(messages.seq, holds.messageSeq))
      .where(
        and(
          eq(messages.threadSeq, sql.placeholder("threadSeq")),
          inArray(holds.state, ["waiting", "approved"]),
          // Its own conversation has no other message.
          eq(messages.kind, "draft"),
        ),
      )
      .prepare(),
    content: db
      .select({ bytes: holds.bytes, blob: holds.blob, size: holds.size })
      .from(holds)
      .where(eq(holds.messageSeq, sql.placeholder("seq")))
      .prepare(),
    among: select()
      .where(
        and(
          inArray(holds.mailboxId, sql`(select value from json_each(${sql.placeholder("mailboxIds")}))`),
          eq(holds.state, sql.placeholder("state")),
          sql`${holds.state} <> 'sent'`,
          sql`(${holds.since}, ${holds.messageSeq}) > (${sql.placeholder("at")}, ${sql.placeholder("seq")})`,
        ),
      )
      .orderBy(asc(holds.since), asc(holds.messageSeq))
      .limit(sql.placeholder("most"))
      .prepare(),
    overdue: portion("waiting", lte(holds.since, before)),
    decided: portion("rejected", lte(holds.decidedAt, before)),
    due: portion("approved", lte(holds.sendAt, before)),
    mailboxes: db
      .selectDistinct({ mailboxId: holds.mailboxId })
      .from(holds)
      .where(and(inState("waiting"), isServed))
      .prepare(),
    notified: db
      .select({ at: sql<number>`${holds.notifiedAt}`, since: holds.since, seq: holds.messageSeq })
      .from(holds)
      .where(
        and(
          eq(holds.mailboxId, sql.placeholder("mailboxId")),
          isNotNull(holds.notifiedAt),
          // A time to come is of a clock that was ahead.
          lte(holds.notifiedAt, sql.placeholder("now")),
        ),
      )
      .orderBy(desc(holds.notifiedAt))
      .limit(1)
      .prepare(),
    unnotified: db
      .select({ seq: holds.messageSeq, count: sql<number>`count(*) OVER ()` })
      .from(holds)
      .where(
        and(
          eq(holds.mailboxId, sql.placeholder("mailboxId")),
          inState("waiting"),
          sql`(${holds.since}, ${holds.messageSeq}) > (${sql.placeholder("since")}, ${sql.placeholder("seq")})`,
        ),
      )
      .orderBy(desc(holds.since), desc(holds.messageSeq))
      .limit(1)
      .prepare(),
    nextDue: db
      .select({ at: min(holds.sendAt) })
      .from(holds)
      .where(and(inState("approved"), isServed))
      .prepare(),
    copies: db
      .select({ emailId: holds.messageId, recipients: holds.recipients, fingerprint: messages.fingerprint })
      .from(messages)
      .innerJoin(holds, eq(holds.messageSeq, messages.seq))
      .where(
        and(
          eq(messages.mailboxId, sql.placeholder("mailboxId")),
          eq(messages.messageId, sql.placeholder("messageId")),
          sql`${holds.since} > ${sql.placeholder("since")}`,
        ),
      )
      .prepare(),
  };
});

/** Notes that a filed message waits for a person. */
export function putHold(
  tx: Tx,
  {
    seq,
    emailId,
    content,
    ...hold
  }: Pick<
    Hold,
    | "seq"
    | "emailId"
    | "mailboxId"
    | "keyId"
    | "userId"
    | "reason"
    | "since"
    | "sendAt"
    | "answers"
    | "recipients"
    | "dsn"
  > & {
    content: HeldContent;
  },
): void {
  tx.insert(holds)
    .values({
      ...hold,
      messageSeq: seq,
      messageId: emailId,
      state: "waiting",
      ...("bytes" in content
        ? { bytes: Buffer.from(content.bytes), size: content.bytes.byteLength }
        : { blob: content.blob, size: content.size }),
    })
    .run();
}

/** The hold of a message, whatever became of it. */
export const findHold = (db: Db, emailId: string): Hold | undefined => statements(db).one.get({ emailId });

/** The content that goes out. @throws Error for a message that was sent */
export function contentOfHold(db: Db, { seq }: Pick<Hold, "seq">): HeldContent {
  const row = statements(db).content.get({ seq });
  if (row?.bytes) return { bytes: row.bytes };
  if (!row?.blob) throw new Error(`the held message ${seq} has no content`);
  return { blob: row.blob, size: row.size ?? 0 };
}

/** Reads the hold of a message for its readers: its state while it waits, and its approver once it is sent. */
export function readHeldView(db: Db, emailId: string): { held?: HeldView; approvedBy?: string } {
  const row = statements(db).ofMessage.get({ emailId });
  if (!row) return {};
  const { state, reason, since, decidedBy } = row;
  if (state !== "sent") {
    const [header, textDiffers] = [heldHeader(db, emailId), heldTextDiffers(db, emailId)];
    return { held: { state, reason, since: toIsoTime(since), ...header, textDiffers } };
  }
  return decidedBy === null ? {} : { approvedBy: decidedBy };
}

/**
 * The person who approved a sent message, with the name null once they have left. Undefined for a message that was not held.
 */
export const findApprover = (db: Db, emailId: string): { name: string | null } | undefined =>
  statements(db).approver.get({ emailId });

/** A message among the drafts of a mailbox that was held, and not sent. `draftId`: id of its conversation there. */
export interface HeldMark {
  draftId: string;
  emailId: string;
  state: HoldState;
  /** Id of the conversation that it answers. */
  answers: string | null;
}

/** The latest such messages of a mailbox (id, address or alias address). @throws AppError not_found */
export const heldMarks = ({ db }: Reader, caller: Caller, mailbox: string): HeldMark[] =>
  statements(db).marked.all({ mailboxId: reachedMailbox(db, caller, mailbox) });

/** @throws AppError conflict for a conversation that is a message which waits for a person or for its time */
export function requireNotHeld(db: Db, { seq: threadSeq }: { seq: number }): void {
  if (!statements(db).open.get({ threadSeq })) return;
  throw new AppError("conflict", "This message waits for approval: somebody has to approve or reject it first");
}

/** The holds of these mailboxes in a state, the longest waiting first, after one of them. */
export const holdsAmong = (
  db: Db,
  mailboxIds: readonly string[],
  state: Exclude<HoldState, "sent">,
  { after, most }: { after: { since: number; seq: number } | undefined; most: number },
): Hold[] => {
  const { since: at, seq } = after ?? { since: -1, seq: 0 };
  return statements(db).among.all({ mailboxIds: JSON.stringify(mailboxIds), state, at, seq, most });
};

/** The messages of that Message-ID that were held since a time (epoch ms), as submission.ts compares them. */
export const heldCopies = (db: Db, mailboxId: string, messageId: string, since: number) =>
  statements(db).copies.all({ mailboxId, messageId, since });

/* For jobs: portions, the longest waiting first. Times are epoch ms. */

export const overdueHolds = (db: Db, before: number): Hold[] => statements(db).overdue.all({ before });
export const rejectedHolds = (db: Db, before: number): Hold[] => statements(db).decided.all({ before });
export const dueHolds = (db: Db, now: number): Hold[] => statements(db).due.all({ before: now });
export const nextDueHold = (db: Db): number | null => statements(db).nextDue.get()?.at ?? null;
/** The mailboxes in which messages wait. */
export const listMailboxesWithWaitingHolds = (db: Db): string[] =>
  statements(db)
    .mailboxes.all()
    .map(({ mailboxId }) => mailboxId);

/**
 * When the people of a mailbox were last told by mail that messages wait, how many wait since, and the newest of these. Only
 * that one is marked as told, since a row is written whole.
 */
export function countUnnotifiedHolds(
  db: Db,
  mailboxId: string,
  now: number,
): { notifiedAt?: number; count: number; newest: number } {
  const notified = statements(db).notified.get({ mailboxId, now });
  const after = notified ?? { since: -1, seq: 0 };
  const { count = 0, seq: newest = 0 } =
    statements(db).unnotified.get({ mailboxId, since: after.since, seq: after.seq }) ?? {};
  return { ...(notified && { notifiedAt: notified.at }), count, newest };
}

export function markHoldNotified(tx: Tx, newest: number, now: number): void {
  tx.update(holds).set({ notifiedAt: now }).where(eq(holds.messageSeq, newest)).run();
}

/** Records a decision. `reason` replaces the one for holding it. */
export function recordHoldDecision(
  tx: Tx,
  { seq }: Pick<Hold, "seq">,
  set: { state: Exclude<HoldState, "sent" | "waiting">; reason?: string; decidedBy: string | null; decidedAt: number },
): void {
  tx.update(holds).set(set).where(eq(holds.messageSeq, seq)).run();
}

/** Columns of an approved message that waits again: its time to be approved begins anew, and people are told again. */
const anew = (reason: string, now: number) =>
  ({ state: "waiting", reason, since: now, decidedBy: null, decidedAt: null, notifiedAt: null }) as const;

/** Has an approved message wait again. */
export function returnHoldToWaiting(tx: Tx, { seq }: Pick<Hold, "seq">, reason: string, now: number): void {
  tx.update(holds).set(anew(reason, now)).where(eq(holds.messageSeq, seq)).run();
}

/** Has all approved messages wait again; returns their number. */
export const unapproveAllHolds = (tx: Tx, reason: string, now: number): number =>
  tx.update(holds).set(anew(reason, now)).where(eq(holds.state, "approved")).returning({ seq: holds.messageSeq }).all()
    .length;

/** Deletes a held message with its conversation, for good or before it is filed as sent. */
export function removeHold(tx: Tx, { mailboxId, threadSeq }: Pick<Hold, "mailboxId" | "threadSeq">): void {
  deleteConversations(tx, mailboxId, [threadSeq]);
}

/** Notes of a Sent copy that it was held, and who approved it. */
export function noteSentCopyWasHeld(tx: Tx, seq: number, { emailId, ...hold }: Hold): void {
  const { mailboxId, keyId, userId, reason, since, sendAt, answers, decidedBy, decidedAt, notifiedAt } = hold;
  tx.insert(holds)
    .values({
      ...{ messageSeq: seq, messageId: emailId, mailboxId, keyId, userId, reason, since, sendAt, answers },
      ...{ state: "sent", recipients: [], dsn: {}, decidedBy, decidedAt, notifiedAt },
    })
    .run();
}
