/**
 * Mail that the server is to write by itself about mail that arrived: what rules forward, and replies of those who are
 * absent. Filing asks for it in its transaction; compose/automatic.ts writes and sends it soon after. The only writer of
 * automatic_mail.
 */
import { and, asc, count, eq, lte, sql } from "drizzle-orm";
import { normalizeAddress } from "../message/address.ts";
import { isAutomaticReply } from "../message/automatic.ts";
import { UNSERVED_MAILBOXES } from "../store/moving.ts";
import { automaticMail } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { type Answerable, absenceReplyTo } from "./absences.ts";
import { isOwnAddress, ownAddresses } from "./addresses.ts";
import type { PreparedMessage } from "./prepare.ts";
import { mayForwardTo, type RulesOutcome } from "./rules.ts";

export type AutomaticMail = typeof automaticMail.$inferSelect;

/** Requests of a mailbox that wait; further ones are dropped. */
const MOST_WAITING = 1_000;
/** Requests that are read at once. */
const PORTION = 20;

/** What waits in a workspace that moves, the other server writes. */
const isServed = sql`${automaticMail.mailboxId} NOT IN ${sql.raw(UNSERVED_MAILBOXES)}`;

const statements = prepared((db) => ({
  waiting: db
    .select({ n: count() })
    .from(automaticMail)
    .where(eq(automaticMail.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
  ask: db
    .insert(automaticMail)
    .values({
      mailboxId: sql.placeholder("mailboxId"),
      messageSeq: sql.placeholder("messageSeq"),
      kind: sql.placeholder("kind"),
      recipient: sql.placeholder("recipient"),
      passed: sql.placeholder("passed"),
      askedAt: sql.placeholder("now"),
      dueAt: sql.placeholder("now"),
    })
    .prepare(),
  due: db
    .select()
    .from(automaticMail)
    .where(and(lte(automaticMail.dueAt, sql.placeholder("now")), isServed))
    .orderBy(asc(automaticMail.dueAt), asc(automaticMail.seq))
    .limit(PORTION)
    .prepare(),
  next: db
    .select({ at: automaticMail.dueAt })
    .from(automaticMail)
    .where(isServed)
    .orderBy(asc(automaticMail.dueAt))
    .limit(1)
    .prepare(),
  postpone: db.$client.prepare<unknown, [dueAt: number, seq: number]>(
    "UPDATE automatic_mail SET due_at = ? WHERE seq = ?",
  ),
  forget: db.$client.prepare<unknown, [mailboxId: string]>("DELETE FROM automatic_mail WHERE mailbox_id = ?"),
  settle: db.$client.prepare<unknown, [seq: number]>("DELETE FROM automatic_mail WHERE seq = ?"),
}));

/** A message that was filed outside spam, and what its mailbox's rules say. */
export interface Filed extends Answerable {
  workspaceId: string;
  /** messages.seq */
  seq: number;
  message: Pick<PreparedMessage, "headers" | "from" | "to" | "cc" | "deliveredTo" | "report">;
  ruled: Pick<RulesOutcome, "folder" | "forwards"> | undefined;
}

/** Mailboxes that pass a message on, one after the other. */
const MOST_PASSED = 10;

/** Asks for what is to be written about a message. */
export function askForMailAbout(tx: Tx, options: Pick<Options, "get">, filed: Filed): void {
  const { mailboxId, workspaceId, seq: messageSeq, message, ruled, now } = filed;
  for (const recipient of forwardsOf(tx, filed)) {
    if (!mayForwardTo(tx, options, workspaceId, recipient)) continue;
    askForMail(tx, { mailboxId, messageSeq, kind: "forward", recipient, passed: message.deliveredTo }, now);
  }
  // Nobody answers what is thrown away.
  const recipient = ruled?.folder === "trash" ? undefined : absenceReplyTo(tx, filed);
  if (recipient !== undefined) askForMail(tx, { mailboxId, messageSeq, kind: "absence", recipient, passed: [] }, now);
}

/** Where rules send the message on: nowhere if that may go round in circles (rules: Forwarding). */
function forwardsOf(tx: Tx, { mailboxId, message, reversePath, ruled }: Filed): string[] {
  if (!ruled || ruled.forwards.length === 0) return [];
  const { headers, deliveredTo, report } = message;
  if (reversePath === "" || report !== undefined || isAutomaticReply(headers)) return [];
  const own = ownAddresses(tx, mailboxId);
  if (deliveredTo.length >= MOST_PASSED || deliveredTo.some((address) => isOwnAddress(own, address))) return [];
  return ruled.forwards.filter((address) => !deliveredTo.includes(normalizeAddress(address) ?? ""));
}

/** Asks for mail, due at once, unless too much waits. */
function askForMail(
  tx: Tx,
  request: Pick<AutomaticMail, "mailboxId" | "messageSeq" | "kind" | "recipient" | "passed">,
  now: number,
): void {
  const { waiting, ask } = statements(tx);
  if ((waiting.get({ mailboxId: request.mailboxId })?.n ?? 0) < MOST_WAITING) ask.run({ ...request, now });
}

/** What is due by `now` (epoch ms), earliest first: some of it. */
export const dueMail = (db: Db, now: number): AutomaticMail[] => statements(db).due.all({ now });

/** When the next is due, epoch ms. */
export const nextMailDue = (db: Db): number | null => statements(db).next.get()?.at ?? null;

export const postponeMail = (tx: Tx, seq: number, dueAt: number): void => void statements(tx).postpone.run(dueAt, seq);

/** Ends a request. False if it had ended before. */
export const settleMail = (tx: Tx, seq: number): boolean => statements(tx).settle.run(seq).changes > 0;

/** Ends all requests of a mailbox that is removed: nothing more is sent from it. */
export const forgetMailOf = (tx: Tx, mailboxId: string): void => void statements(tx).forget.run(mailboxId);
