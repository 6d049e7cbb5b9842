/**
 * Out-of-office: the time in which a mailbox answers that nobody reads it, and whom it has told (rules: Out of office). The
 * only writer of absences and absence_replies.
 */
import { count, eq, sql } from "drizzle-orm";
import { comparableAddress } from "../../access/policy.ts";
import { AppError } from "../../base/errors.ts";
import type { Job } from "../../base/scheduler.ts";
import { type EmailAddress, envelopeAddress, isAddressLiteral, splitAddress } from "../../message/address.ts";
import { mayBeAnswered } from "../../message/is-automatic.ts";
import type { Core } from "../../store/core.ts";
import { type AuthVerdicts, absenceReplies, absences } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { isOwnAddress, ownAddresses } from "../state/addresses.ts";
import type { PreparedMessage } from "./prepare.ts";

/** Epoch ms. */
export type Absence = Pick<typeof absences.$inferSelect, "startsAt" | "endsAt" | "subject" | "text">;

export const LONGEST_ABSENCE_SUBJECT = 200;
export const LONGEST_ABSENCE_TEXT = 10_000;

/** How long somebody who was told is not told again (RFC 3834 §2). */
const ONCE_IN_MS = 7 * 86_400_000;
/** Senders that a mailbox remembers; while it remembers so many, it tells nobody else. */
const MOST_TOLD = 10_000;
/** Rows deleted in one transaction. */
const PORTION = 1_000;
const HOUR_MS = 3_600_000;

const statements = {
  // A row is written only where none is younger.
  tell: statement<unknown, [mailboxId: string, recipient: string, now: number, before: number]>(
    `INSERT INTO absence_replies (mailbox_id, recipient, replied_at) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET replied_at = excluded.replied_at WHERE replied_at <= ?`,
  ),
  forget: statement<unknown, [before: number, limit: number]>(
    `DELETE FROM absence_replies WHERE (mailbox_id, recipient) IN
       (SELECT mailbox_id, recipient FROM absence_replies WHERE replied_at <= ? LIMIT ?)`,
  ),
};

const queries = prepared((db) => ({
  find: db
    .select({
      startsAt: absences.startsAt,
      endsAt: absences.endsAt,
      subject: absences.subject,
      text: absences.text,
    })
    .from(absences)
    .where(eq(absences.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
  put: db
    .insert(absences)
    .values({
      mailboxId: sql.placeholder("mailboxId"),
      startsAt: sql.placeholder("startsAt"),
      endsAt: sql.placeholder("endsAt"),
      subject: sql.placeholder("subject"),
      text: sql.placeholder("text"),
    })
    .onConflictDoUpdate({
      target: absences.mailboxId,
      set: {
        startsAt: sql`excluded.starts_at`,
        endsAt: sql`excluded.ends_at`,
        subject: sql`excluded.subject`,
        text: sql`excluded.text`,
      },
    })
    .prepare(),
  remove: db
    .delete(absences)
    .where(eq(absences.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
  forgetReplies: db
    .delete(absenceReplies)
    .where(eq(absenceReplies.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
  replies: db
    .select({ n: count() })
    .from(absenceReplies)
    .where(eq(absenceReplies.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
}));

export const findAbsence = (db: Db, mailboxId: string): Absence | undefined => queries(db).find.get({ mailboxId });

/**
 * Sets or ends the absence of a mailbox. Of a new one, everybody is told anew. `now`: epoch ms. @throws AppError bad_request
 */
export function putAbsence(tx: Tx, mailboxId: string, given: Absence | undefined, now: number): void {
  const absence = given && readAbsence(given, now);
  if (Bun.deepEquals(absence, findAbsence(tx, mailboxId))) return;
  queries(tx).forgetReplies.run({ mailboxId });
  if (absence) queries(tx).put.run({ mailboxId, ...absence });
  else queries(tx).remove.run({ mailboxId });
}

function readAbsence({ startsAt, endsAt, subject, text }: Absence, now: number): Absence {
  if (endsAt <= startsAt) throw new AppError("bad_request", "until must be later than from");
  if (endsAt <= now) throw new AppError("bad_request", "until must be a time to come");
  if (text.trim() === "") throw new AppError("bad_request", "text needs at least one character");
  const line = subject?.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return { startsAt, endsAt, subject: line || null, text: text.trim() };
}

/** A message that was filed outside spam. */
export interface Answerable {
  mailboxId: string;
  message: Pick<PreparedMessage, "headers" | "from" | "to" | "cc">;
  /** Empty for a bounce. */
  reversePath: string;
  /** Absent for mail of this server. */
  auth: AuthVerdicts | undefined;
  now: number;
}

/**
 * Whom the mailbox answers that nobody reads it: the return path of a message (RFC 3834 §4); undefined for nobody. Somebody
 * who is named counts as told.
 */
export function absenceReplyTo(tx: Tx, { mailboxId, message, reversePath, auth, now }: Answerable): string | undefined {
  const absence = findAbsence(tx, mailboxId);
  if (!absence || now < absence.startsAt || now >= absence.endsAt) return undefined;
  const recipient = envelopeAddress(reversePath);
  const sender = message.from && comparableAddress(message.from.email);
  if (recipient === undefined || sender === undefined || isAddressLiteral(recipient)) return undefined;
  const own = ownAddresses(tx, mailboxId);
  const isOwn = ({ email }: EmailAddress): boolean => isOwnAddress(own, email);
  if (isOwn({ email: recipient }) || isOwn({ email: sender })) return undefined;
  if (![...message.to, ...message.cc].some(isOwn)) return undefined;
  if (!mayBeAnswered(message.headers, [recipient, sender])) return undefined;
  if (auth && !isTrue(auth, recipient, sender)) return undefined;
  if ((queries(tx).replies.get({ mailboxId })?.n ?? 0) >= MOST_TOLD) return undefined;
  const replies = statements.tell(tx).run(mailboxId, sender, now, now - ONCE_IN_MS);
  return replies.changes > 0 ? recipient : undefined;
}

/**
 * True if the return path is no invention: its domain let the message be sent, or the author's did, which is the same. A
 * reply to somebody who wrote nothing is spam.
 */
function isTrue({ spf, dmarc }: AuthVerdicts, recipient: string, sender: string): boolean {
  if (dmarc !== "pass" && dmarc !== "none") return false;
  const [domain, author] = [recipient, sender].map((address) => splitAddress(address).domain);
  return spf === "pass" || (dmarc === "pass" && domain === author);
}

/** Forgets who was told, once that is long ago. */
export function forgetAbsenceReplies({ store }: Core): Job {
  return {
    name: "forget-absence-replies",
    async runDue(now) {
      const forget = (tx: Tx): number => statements.forget(tx).run(now - ONCE_IN_MS, PORTION).changes;
      while ((await store.enqueue(forget)) >= PORTION);
      return now + HOUR_MS;
    },
  };
}
