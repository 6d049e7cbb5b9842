/**
 * What a mailbox has learned of senders (contract: Spam): one trained as spam is filed to spam from then on, until
 * forgiven. Mail that names no sender teaches nothing and is judged by nothing learned. The only writer of
 * sender_verdicts.
 */
import { and, eq, sql } from "drizzle-orm";
import { isAnonymous } from "../message/address.ts";
import { prepared } from "../store/prepared.ts";
import { senderVerdicts } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

const statements = prepared((db) => ({
  verdict: db
    .select({ verdict: senderVerdicts.verdict })
    .from(senderVerdicts)
    .where(
      and(
        eq(senderVerdicts.mailboxId, sql.placeholder("mailboxId")),
        eq(senderVerdicts.sender, sql.placeholder("sender")),
      ),
    )
    .prepare(),
}));

const keyOf = (sender: string): string => sender.toLowerCase();

/** `sender`: an address in any case, here and below. */
export function isTrainedAsSpam(tx: Tx, mailboxId: string, sender: string): boolean {
  if (isAnonymous(sender)) return false;
  return statements(tx).verdict.get({ mailboxId, sender: keyOf(sender) })?.verdict === "spam";
}

/** `now`: epoch ms, here and below. */
export function trainAsSpam(tx: Tx, mailboxId: string, sender: string, now: number): void {
  if (isAnonymous(sender)) return;
  tx.insert(senderVerdicts)
    .values({ mailboxId, sender: keyOf(sender), verdict: "spam", trainedAt: now })
    .onConflictDoUpdate({
      target: [senderVerdicts.mailboxId, senderVerdicts.sender],
      set: { verdict: "spam", trainedAt: now },
    })
    .run();
}

/** Forgives a sender who was trained as spam; of others nothing is learned. */
export function forgive(tx: Tx, mailboxId: string, sender: string, now: number): void {
  tx.update(senderVerdicts)
    .set({ verdict: "forgiven", trainedAt: now })
    .where(
      and(
        eq(senderVerdicts.mailboxId, mailboxId),
        eq(senderVerdicts.sender, keyOf(sender)),
        eq(senderVerdicts.verdict, "spam"),
      ),
    )
    .run();
}
