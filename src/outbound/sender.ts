/** Whom a message may be from: an address of a mailbox that the caller reaches and may send from (rules: Sender). */
import { type Caller, type Reach, reachTo, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { mailboxAt } from "../mailbox/mailboxes.ts";
import { normalizeAddress } from "../message/address.ts";
import { quoteGiven } from "../message/recipients.ts";
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
