/**
 * Mail that the server is to write by itself about mail that arrived: what rules forward, and replies of those who are
 * absent. Filing asks for it in its transaction; compose/send-automatic.ts writes and sends it soon after. The only writer of
 * automatic_mail.
 */
import { and, asc, count, eq, lte, sql } from "drizzle-orm";
import { normalizeAddress } from "../../message/address.ts";
import { isAutomaticReply, isAutoSubmitted } from "../../message/is-automatic.ts";
import { automaticMail } from "../../store/schema.ts";
import type { Options } from "../../store/settings.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { UNSERVED_MAILBOXES } from "../../store/unserved-workspaces.ts";
import { isOwnAddress, ownAddresses } from "../state/addresses.ts";
import { type Answerable, absenceReplyTo } from "./absences.ts";
import type { PreparedMessage } from "./prepare.ts";
import { mayForwardTo, type RulesOutcome } from "./rules.ts";

export type AutomaticMail = typeof automaticMail.$inferSelect;

/** Requests of a mailbox that wait; further ones are dropped. */
const MOST_WAITING = 1_000;
/** Requests that are read at once. */
const PORTION = 20;

/**
 * SQL condition: this server serves the mailbox. Requests in a workspace that moves to another server are that server's to
 * write.
 */
const isServed = sql`${automaticMail.mailboxId} NOT IN ${sql.raw(UNSERVED_MAILBOXES)}`;

const statements = {
  postpone: statement<unknown, [dueAt: number, seq: number]>("UPDATE automatic_mail SET due_at = ? WHERE seq = ?"),
  forwarded: statement<object, [messageId: string]>(
    "SELECT 1 FROM outbound_messages WHERE message_id = ? AND automatic = 'forward'",
  ),
  forwardedBy: statement<object, [messageIds: string, mailboxId: string]>(
    `SELECT 1 FROM outbound_messages WHERE message_id IN (SELECT value FROM json_each(?)) AND mailbox_id = ?
     AND automatic = 'forward'`,
  ),
  forget: statement<unknown, [mailboxId: string]>("DELETE FROM automatic_mail WHERE mailbox_id = ?"),
  forgetForwards: statement<unknown, [mailboxId: string]>(
    "DELETE FROM automatic_mail WHERE mailbox_id = ? AND kind = 'forward'",
  ),
  finish: statement<unknown, [seq: number]>("DELETE FROM automatic_mail WHERE seq = ?"),
};

const queries = prepared((db) => ({
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
}));

/** A message that was filed outside spam, and what its mailbox's rules say. */
export interface AutomaticCause extends Answerable {
  workspaceId: string;
  /** messages.seq */
  seq: number;
  message: Pick<
    PreparedMessage,
    "headers" | "messageId" | "inReplyTo" | "references" | "from" | "to" | "cc" | "deliveredTo" | "report"
  >;
  ruled: Pick<RulesOutcome, "folder" | "forwards"> | undefined;
}

/** Mailboxes that pass a message on, one after the other. */
const MOST_PASSED = 10;

/** Asks for what is to be written about a message. */
export function requestAutomaticMail(tx: Tx, options: Pick<Options, "get">, filed: AutomaticCause): void {
  const { mailboxId, workspaceId, seq: messageSeq, ruled, now } = filed;
  const { recipients, passed } = planForwards(tx, filed);
  for (const recipient of recipients) {
    if (!mayForwardTo(tx, options, workspaceId, recipient)) continue;
    askForMail(tx, { mailboxId, messageSeq, kind: "forward", recipient, passed }, now);
  }
  // Nobody answers what is thrown away.
  const recipient = ruled?.folder === "trash" ? undefined : absenceReplyTo(tx, filed);
  if (recipient !== undefined) askForMail(tx, { mailboxId, messageSeq, kind: "absence", recipient, passed: [] }, now);
}

/**
 * Recipients to whom rules send the message on, and the mailboxes that passed it. There are none if the message would go round
 * in circles (rules: Forwarding). Anybody can write Delivered-To, so the field counts only in messages that this server has
 * forwarded. A message that comes back from elsewhere names a Message-ID under which the mailbox forwarded it, and strangers do
 * not know that.
 */
function planForwards(
  tx: Tx,
  { mailboxId, message, reversePath, ruled }: AutomaticCause,
): { recipients: string[]; passed: string[] } {
  const none = { recipients: [], passed: [] };
  if (!ruled || ruled.forwards.length === 0) return none;
  const { headers, messageId = "", inReplyTo = "", references, report } = message;
  if (reversePath === "" || report !== undefined || isAutomaticReply(headers)) return none;
  // A person's answer to what was forwarded names it as well.
  const named = isAutoSubmitted(headers) ? [messageId, inReplyTo, ...references] : [messageId];
  if (statements.forwardedBy(tx).get(JSON.stringify(named), mailboxId) !== null) return none;
  const passed = statements.forwarded(tx).get(messageId) === null ? [] : message.deliveredTo;
  const own = ownAddresses(tx, mailboxId);
  if (passed.length >= MOST_PASSED || passed.some((address) => isOwnAddress(own, address))) return none;
  return { recipients: ruled.forwards.filter((address) => !passed.includes(normalizeAddress(address) ?? "")), passed };
}

/** Asks for mail, due at once, unless too much waits. */
function askForMail(
  tx: Tx,
  request: Pick<AutomaticMail, "mailboxId" | "messageSeq" | "kind" | "recipient" | "passed">,
  now: number,
): void {
  if ((queries(tx).waiting.get({ mailboxId: request.mailboxId })?.n ?? 0) < MOST_WAITING)
    queries(tx).ask.run({ ...request, now });
}

/** Some of the mail that is due by `now` (epoch ms), earliest first. */
export const listDueAutomaticMail = (db: Db, now: number): AutomaticMail[] => queries(db).due.all({ now });

/** Time when the next automatic mail is due, epoch ms; null if none waits. */
export const findNextAutomaticMailTime = (db: Db): number | null => queries(db).next.get()?.at ?? null;

export const postponeAutomaticMail = (tx: Tx, seq: number, dueAt: number): void =>
  void statements.postpone(tx).run(dueAt, seq);

/** Ends a request. False if it had ended before. */
export const finishAutomaticMail = (tx: Tx, seq: number): boolean => statements.finish(tx).run(seq).changes > 0;

/** Ends all requests of a mailbox that is removed: nothing more is sent from it. */
export const forgetAutomaticMailRequests = (tx: Tx, mailboxId: string): void =>
  void statements.forget(tx).run(mailboxId);

/** Ends the requests of a mailbox to forward mail. */
export const forgetForwardRequests = (tx: Tx, mailboxId: string): void =>
  void statements.forgetForwards(tx).run(mailboxId);
