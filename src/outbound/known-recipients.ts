/** Whom a mailbox has sent to, for policies of keys. The only writer of known_recipients. */
import { and, eq, sql } from "drizzle-orm";
import { comparableAddress } from "../access/policy.ts";
import { knownRecipients } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

const statements = prepared((db) => {
  const values = { mailboxId: sql.placeholder("mailboxId"), address: sql.placeholder("address") };
  const isThis = and(eq(knownRecipients.mailboxId, values.mailboxId), eq(knownRecipients.address, values.address));
  return {
    // Mail may outlive its mailbox.
    add: db.$client.prepare<unknown, [mailboxId: string, address: string]>(
      "INSERT OR IGNORE INTO known_recipients (mailbox_id, address) SELECT id, ?2 FROM mailboxes WHERE id = ?1",
    ),
    remove: db.delete(knownRecipients).where(isThis).prepare(),
    find: db.select({ address: knownRecipients.address }).from(knownRecipients).where(isThis).prepare(),
  };
});

/** Notes recipients whose server has accepted a message of the mailbox; not for Bcc. */
export function noteKnown(tx: Tx, mailboxId: string, recipients: readonly string[]): void {
  for (const recipient of recipients) {
    const address = comparableAddress(recipient);
    if (address !== undefined) statements(tx).add.run(mailboxId, address);
  }
}

/** Forgets a recipient of whom it was reported later that the message failed. */
export function forgetKnown(tx: Tx, mailboxId: string, recipient: string): void {
  const address = comparableAddress(recipient);
  if (address !== undefined) statements(tx).remove.run({ mailboxId, address });
}

/** `address`: as comparableAddress gives it. */
export const isKnown = (db: Db, mailboxId: string, address: string): boolean =>
  statements(db).find.get({ mailboxId, address }) !== undefined;
