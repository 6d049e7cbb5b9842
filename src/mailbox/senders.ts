/**
 * What a mailbox has learned of senders (rules: Spam): one trained as spam is filed to spam from then on, until
 * forgiven. Mail that names no sender teaches nothing and is judged by nothing learned. The only writer of
 * sender_verdicts.
 *
 * A From that fails DMARC is not that sender's: what is learned of it neither harms the sender nor gains their trust.
 */
import { and, eq, sql } from "drizzle-orm";
import { type EmailAddress, isAnonymous, normalizeAddress } from "../message/address.ts";
import { type AuthVerdicts, type SENDER_VERDICTS, senderVerdicts } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

/** Whom a message shows as its author, and whether that is known to be untrue. */
export interface Sender {
  /** Normalized, so that it is one sender in any spelling; in lower case where it is no address. */
  address: string;
  spoofed: boolean;
  /** DMARC could not be evaluated: nothing speaks against the sender, and nothing for them. */
  unknown: boolean;
}

export type SenderVerdict = (typeof SENDER_VERDICTS)[number];

const statements = prepared((db) => {
  const values = {
    mailboxId: sql.placeholder("mailboxId"),
    sender: sql.placeholder("sender"),
    spoofed: sql.placeholder("spoofed"),
    verdict: sql.placeholder("verdict"),
    trainedAt: sql.placeholder("now"),
  };
  return {
    verdicts: db
      .select({
        spoofed: senderVerdicts.spoofed,
        verdict: senderVerdicts.verdict,
        trainedAt: senderVerdicts.trainedAt,
      })
      .from(senderVerdicts)
      .where(
        and(
          eq(senderVerdicts.mailboxId, sql.placeholder("mailboxId")),
          eq(senderVerdicts.sender, sql.placeholder("sender")),
        ),
      )
      .prepare(),
    set: db
      .insert(senderVerdicts)
      .values(values)
      .onConflictDoUpdate({
        target: [senderVerdicts.mailboxId, senderVerdicts.sender, senderVerdicts.spoofed],
        set: { verdict: sql`excluded.verdict`, trainedAt: sql`excluded.trained_at` },
      })
      .prepare(),
    forget: db
      .delete(senderVerdicts)
      .where(
        and(
          eq(senderVerdicts.mailboxId, sql.placeholder("mailboxId")),
          eq(senderVerdicts.sender, sql.placeholder("sender")),
          eq(senderVerdicts.spoofed, sql.placeholder("spoofed")),
        ),
      )
      .prepare(),
    setIfNone: db.insert(senderVerdicts).values(values).onConflictDoNothing().prepare(),
  };
});

/** `auth`: absent for mail that nobody authenticated, such as that of the server's own people. */
export function senderOf(from: EmailAddress, auth: AuthVerdicts | null | undefined): Sender {
  const dmarc = auth?.dmarc;
  return {
    address: normalizeAddress(from.email) ?? from.email.toLowerCase(),
    spoofed: dmarc === "fail",
    unknown: dmarc === "temperror" || dmarc === "permerror",
  };
}

/** Undefined when nothing was learned. Who shows another's address is also judged by what is known against the other. */
export function verdictOn(tx: Tx, mailboxId: string, { address, spoofed }: Sender): SenderVerdict | undefined {
  if (isAnonymous(address)) return undefined;
  const learned = statements(tx).verdicts.all({ mailboxId, sender: address });
  const own = learned.find((one) => one.spoofed === spoofed)?.verdict;
  if (own !== undefined || !spoofed) return own;
  return learned.some(({ verdict }) => verdict === "spam") ? "spam" : undefined;
}

/** Whether the verdict on a sender keeps their mail from being taken for junk. */
export const isTrusted = ({ spoofed, unknown }: Sender, verdict: SenderVerdict | undefined): boolean =>
  !spoofed && !unknown && (verdict === "forgiven" || verdict === "answered");

interface Learned {
  verdict: SenderVerdict;
  trainedAt: number;
}

/** What was learned of a sender, and what was known before. */
export interface Relearned {
  sender: Sender;
  before: Learned | undefined;
  after: Learned;
}

/** What was learned: nothing of who names no sender. `now`: epoch ms, here and below. */
export const trainAsSpam = (tx: Tx, mailboxId: string, sender: Sender, now: number): Relearned[] =>
  learn(tx, mailboxId, sender, { verdict: "spam", trainedAt: now });

export const forgive = (tx: Tx, mailboxId: string, sender: Sender, now: number): Relearned[] =>
  learn(tx, mailboxId, sender, { verdict: "forgiven", trainedAt: now });

function learn(tx: Tx, mailboxId: string, sender: Sender, after: Learned): Relearned[] {
  const { address, spoofed } = sender;
  if (isAnonymous(address)) return [];
  const before = learnedOf(tx, mailboxId, sender);
  statements(tx).set.run({ mailboxId, sender: address, spoofed, verdict: after.verdict, now: after.trainedAt });
  return [{ sender, before, after }];
}

function learnedOf(tx: Tx, mailboxId: string, { address, spoofed }: Sender): Learned | undefined {
  const found = statements(tx)
    .verdicts.all({ mailboxId, sender: address })
    .find((one) => one.spoofed === spoofed);
  return found && { verdict: found.verdict, trainedAt: found.trainedAt };
}

/** Knows of a sender what was known before, unless something else was learned since. */
export function unlearnSender(tx: Tx, mailboxId: string, { sender, before, after }: Relearned): void {
  const { address, spoofed } = sender;
  const present = learnedOf(tx, mailboxId, sender);
  if (present?.verdict !== after.verdict || present.trainedAt !== after.trainedAt) return;
  if (before)
    statements(tx).set.run({ mailboxId, sender: address, spoofed, verdict: before.verdict, now: before.trainedAt });
  else statements(tx).forget.run({ mailboxId, sender: address, spoofed });
}

/** Somebody wrote back to the sender. What was said of them in so many words stands. */
export function noteAnswered(tx: Tx, mailboxId: string, { address, spoofed }: Sender, now: number): void {
  if (isAnonymous(address)) return;
  statements(tx).setIfNone.run({ mailboxId, sender: address, spoofed, verdict: "answered", now });
}
