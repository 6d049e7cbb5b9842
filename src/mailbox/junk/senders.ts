/**
 * The verdicts of a mailbox on senders (rules: Spam): mail from a sender trained as spam is filed to spam until the
 * sender is forgiven. Anonymous mail teaches nothing and is not affected. The only writer of sender_verdicts.
 *
 * A From that fails DMARC is kept apart from the real sender: a verdict on it neither harms that sender nor gains their
 * trust.
 */
import { and, eq, sql } from "drizzle-orm";
import { type EmailAddress, isPlaceholderAddress, normalizeAddress } from "../../message/address.ts";
import { type AuthVerdicts, type SENDER_VERDICTS, senderVerdicts } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Tx } from "../../store/store.ts";

/** The author that a message shows, and the evidence of DMARC. */
export interface Sender {
  /** Normalized, so that every spelling is one sender; in lower case if it is not an address. */
  address: string;
  spoofed: boolean;
  /** DMARC could not be evaluated: there is no evidence for or against the sender. */
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

/** `auth` is absent for mail that was not authenticated, such as local mail. */
export function readJunkSender(from: EmailAddress, auth: AuthVerdicts | null | undefined): Sender {
  const dmarc = auth?.dmarc;
  return {
    address: normalizeAddress(from.email) ?? from.email.toLowerCase(),
    spoofed: dmarc === "fail",
    unknown: dmarc === "temperror" || dmarc === "permerror",
  };
}

/**
 * The learned verdict on a sender; undefined if nothing was learned. A spoofed sender also gets the verdict spam of the address
 * it shows.
 */
export function findSenderVerdict(tx: Tx, mailboxId: string, { address, spoofed }: Sender): SenderVerdict | undefined {
  if (isPlaceholderAddress(address)) return undefined;
  const learned = statements(tx).verdicts.all({ mailboxId, sender: address });
  const own = learned.find((one) => one.spoofed === spoofed)?.verdict;
  if (own !== undefined || !spoofed) return own;
  return learned.some(({ verdict }) => verdict === "spam") ? "spam" : undefined;
}

/** True if the verdict on a sender exempts their mail from the junk filter. */
export const isExemptFromJunkFilter = ({ spoofed, unknown }: Sender, verdict: SenderVerdict | undefined): boolean =>
  !spoofed && !unknown && (verdict === "forgiven" || verdict === "answered");

interface Learned {
  verdict: SenderVerdict;
  trainedAt: number;
}

/** A new verdict on a sender, and the one before. */
export interface Relearned {
  sender: Sender;
  before: Learned | undefined;
  after: Learned;
}

/** Learns nothing about an anonymous sender. `now`: epoch ms, here and below. */
export const trainAsSpam = (tx: Tx, mailboxId: string, sender: Sender, now: number): Relearned[] =>
  learn(tx, mailboxId, sender, { verdict: "spam", trainedAt: now });

export const forgiveSender = (tx: Tx, mailboxId: string, sender: Sender, now: number): Relearned[] =>
  learn(tx, mailboxId, sender, { verdict: "forgiven", trainedAt: now });

function learn(tx: Tx, mailboxId: string, sender: Sender, after: Learned): Relearned[] {
  const { address, spoofed } = sender;
  if (isPlaceholderAddress(address)) return [];
  const before = findLearnedVerdict(tx, mailboxId, sender);
  statements(tx).set.run({ mailboxId, sender: address, spoofed, verdict: after.verdict, now: after.trainedAt });
  return [{ sender, before, after }];
}

function findLearnedVerdict(tx: Tx, mailboxId: string, { address, spoofed }: Sender): Learned | undefined {
  const found = statements(tx)
    .verdicts.all({ mailboxId, sender: address })
    .find((one) => one.spoofed === spoofed);
  return found && { verdict: found.verdict, trainedAt: found.trainedAt };
}

/** Restores the verdict before, unless another was learned since. */
export function unlearnSender(tx: Tx, mailboxId: string, { sender, before, after }: Relearned): void {
  const { address, spoofed } = sender;
  const present = findLearnedVerdict(tx, mailboxId, sender);
  if (present?.verdict !== after.verdict || present.trainedAt !== after.trainedAt) return;
  if (before)
    statements(tx).set.run({ mailboxId, sender: address, spoofed, verdict: before.verdict, now: before.trainedAt });
  else statements(tx).forget.run({ mailboxId, sender: address, spoofed });
}

/** Records that somebody replied to the sender. An explicit verdict stands. */
export function noteSenderAnswered(tx: Tx, mailboxId: string, { address, spoofed }: Sender, now: number): void {
  if (isPlaceholderAddress(address)) return;
  statements(tx).setIfNone.run({ mailboxId, sender: address, spoofed, verdict: "answered", now });
}
