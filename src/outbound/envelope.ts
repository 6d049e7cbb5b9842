/** The envelope of a message that is being sent: the mailbox it may be from (rules: Sender), and its recipients. */
import { type Caller, type Reach, reachTo, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { mailboxAt } from "../mailbox/mailboxes.ts";
import { type EmailAddress, normalizeAddress } from "../message/address.ts";
import { quoteGiven } from "../message/recipients.ts";
import { RECIPIENT_FIELDS, type RecipientField } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

export interface Sender {
  reach: Reach;
  /** Normalized. */
  address: string;
}

/**
 * The mailbox that `address` (in any case) belongs to. `alias`: whether an alias will do as well.
 * @throws AppError unprocessable for an address that the caller cannot send from, whoever has it; forbidden for one in a
 * mailbox that is shared with them for viewing only
 */
export function senderFor(db: Db, caller: Caller, address: string, { alias }: { alias: boolean }): Sender {
  const normalized = normalizeAddress(address);
  const { workspaceId } = caller;
  const found = normalized === undefined ? undefined : mailboxAt(db, workspaceId, normalized);
  const reach = found && reachTo(db, caller, found.mailboxId);
  if (normalized === undefined || !found || !reach) {
    throw new AppError("unprocessable", `You cannot send from ${quoteGiven(address)}: it is no mailbox that you reach`);
  }
  if (found.kind === "alias" && !alias) {
    throw new AppError("unprocessable", `${normalized} is an alias: send from ${reach.mailbox.address} instead`);
  }
  requireAccess(reach, "send");
  return { reach, address: normalized };
}

/** A recipient, with the header field it stands in. `email`: the local part as typed, the domain in A-labels. */
export type Recipient = EmailAddress & { field: RecipientField };

/** Each address once, however it is spelled: of those who stand in several fields the first of To, Cc, Bcc counts. */
export function recipientsOf(fields: Readonly<Record<RecipientField, readonly EmailAddress[]>>): Recipient[] {
  const byAddress = new Map<string, Recipient>();
  for (const field of RECIPIENT_FIELDS) {
    for (const address of fields[field]) {
      const key = normalizeAddress(address.email) ?? address.email;
      if (!byAddress.has(key)) byAddress.set(key, { ...address, field });
    }
  }
  return [...byAddress.values()];
}
