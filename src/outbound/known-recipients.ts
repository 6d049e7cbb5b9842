/** Whom a mailbox has sent to, for policies of keys. The only writer of known_recipients. */
import { comparableAddress } from "../access/policy.ts";
import { statement } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

const of = (text: string) => statement<object, [mailboxId: string, address: string]>(text);

const statements = {
  // Mail may outlive its mailbox.
  add: of("INSERT OR IGNORE INTO known_recipients (mailbox_id, address) SELECT id, ?2 FROM mailboxes WHERE id = ?1"),
  remove: of("DELETE FROM known_recipients WHERE mailbox_id = ? AND address = ?"),
  find: of("SELECT 1 FROM known_recipients WHERE mailbox_id = ? AND address = ?"),
};

/** Notes recipients whose server has accepted a message of the mailbox; not for Bcc. */
export function noteKnownRecipients(tx: Tx, mailboxId: string, recipients: readonly string[]): void {
  for (const recipient of recipients) {
    const address = comparableAddress(recipient);
    if (address !== undefined) statements.add(tx).run(mailboxId, address);
  }
}

/** Forgets a recipient of whom it was reported later that the message failed. */
export function forgetKnownRecipient(tx: Tx, mailboxId: string, recipient: string): void {
  const address = comparableAddress(recipient);
  if (address !== undefined) statements.remove(tx).run(mailboxId, address);
}

/** `address`: as comparableAddress gives it. */
export const isKnownRecipient = (db: Db, mailboxId: string, address: string): boolean =>
  statements.find(db).get(mailboxId, address) !== null;
