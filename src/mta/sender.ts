/** Whom a message may be from: an address of a mailbox that the caller reaches and may send from (contract: Sending). */
import { and, eq, ne, sql } from "drizzle-orm";
import { type Caller, type Reach, reachTo, requireAccess } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import { normalizeAddress } from "../message/address.ts";
import { quoteGiven } from "../message/recipients.ts";
import { prepared } from "../store/prepared.ts";
import { addresses } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

export interface Sender {
  reach: Reach;
  /** Normalized. */
  address: string;
}

const statements = prepared((db) => ({
  // A catch-all is no address that anybody writes from.
  mailboxAt: db
    .select({ mailboxId: addresses.mailboxId, kind: addresses.kind })
    .from(addresses)
    .where(and(eq(addresses.address, sql.placeholder("address")), ne(addresses.kind, "catch-all")))
    .prepare(),
}));

/**
 * The mailbox that `address` (in any case) belongs to. `alias`: whether an alias will do as well.
 * @throws AppError unprocessable for an address that the caller cannot send from, whoever has it; forbidden for one in a
 * mailbox that is shared with them for viewing only
 */
export function senderFor(db: Db, caller: Caller, address: string, { alias }: { alias: boolean }): Sender {
  const normalized = normalizeAddress(address);
  const found = normalized === undefined ? undefined : statements(db).mailboxAt.get({ address: normalized });
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
