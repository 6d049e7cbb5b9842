/**
 * Removes a mailbox with all its mail: its addresses at once, so that no more mail arrives, then the mail in short
 * transactions. A caller asks for it, or the mailbox expired 30 days ago (rules: Mailbox expiry).
 *
 * Invariant: the server finishes a removal that was cut short, soon after its start or within the hour. It does not
 * finish one that is part of an erasure: that must delete the events about the mail first, so it waits until it is
 * asked for again (erasure.ts). A plain removal takes the mailbox's owner away at once; an erasure leaves the owner,
 * which tells them apart.
 */
import { and, eq, exists, inArray, isNull, lte, notExists, sql } from "drizzle-orm";
import { pause } from "../base/pause.ts";
import type { Job } from "../base/scheduler.ts";
import { forgetMailboxKeyChanges } from "../journal/key-changes.ts";
import { deleteMailboxMailPortion } from "../mailbox/changing/removal.ts";
import { forgetAutomaticMailRequests } from "../mailbox/filing/automatic-requests.ts";
import { deleteLabelFolderPortion } from "../mailbox/imap/label-folders.ts";
import type { Core } from "../store/core.ts";
import * as schema from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { UNSERVED } from "../store/unserved-workspaces.ts";
import { getMailboxRow } from "./mailbox-admin.ts";

/** Messages deleted in one transaction: some 20 ms, so that other processes do not wait long for the lock. */
const DELETED_AT_ONCE = 200;
/** Pause between two transactions, ms: a process that waits for the lock retries within this time. */
const PAUSE_MS = 25;
/** Time between two looks for expired mailboxes, and for removals that a killed command left. */
const LOOK_MS = 3_600_000;
/** The mail of an expired mailbox stays readable this long, ms. */
const READABLE_MS = 30 * 24 * 3_600_000;

const ownAddresses = (db: Db) =>
  db.select().from(schema.addresses).where(eq(schema.addresses.mailboxId, schema.mailboxes.id));

// An import makes mailboxes before they have addresses.
const isServed = sql`${schema.mailboxes.workspaceId} NOT IN ${sql.raw(UNSERVED)}`;

/** Deletes a portion of the mail, or the mailbox when none is left; returns whether the mailbox still exists. */
const removeSome = ({ store }: Core, mailboxId: string): boolean =>
  store.transact((tx) => {
    if (deleteMailboxMailPortion(tx, mailboxId, DELETED_AT_ONCE)) return true;
    if (forgetMailboxKeyChanges(tx, mailboxId, DELETED_AT_ONCE) > 0) return true;
    if (deleteLabelFolderPortion(tx, mailboxId, DELETED_AT_ONCE) > 0) return true;
    tx.delete(schema.mailboxes).where(eq(schema.mailboxes.id, mailboxId)).run();
    return false;
  });

/**
 * Removes a mailbox. `forget`: work of an erasure, done after the addresses are gone and before the mail is deleted.
 * After a removal that was cut short, the mailbox has no addresses; the job finishes it, but one with `forget` must
 * be asked for again.
 * @throws AppError not_found
 */
export async function removeMailbox(core: Core, mailboxId: string, forget?: () => Promise<void>): Promise<void> {
  core.store.transact((tx) => {
    if (!forget) return beginMailboxRemoval(tx, mailboxId);
    getMailboxRow(tx, mailboxId);
    tx.delete(schema.addresses).where(eq(schema.addresses.mailboxId, mailboxId)).run();
    forgetAutomaticMailRequests(tx, mailboxId);
  });
  if (forget) await forget();
  await finishMailboxRemoval(core, mailboxId);
}

/** Takes addresses and owner from a mailbox; the job then removes it with its mail. @throws AppError not_found */
export function beginMailboxRemoval(tx: Tx, mailboxId: string): void {
  getMailboxRow(tx, mailboxId);
  begin(tx, [mailboxId]);
}

/** Finishes a removal that has begun, without waiting for the job. */
export async function finishMailboxRemoval(core: Core, mailboxId: string): Promise<void> {
  while (removeSome(core, mailboxId)) await pause(core.runtime, PAUSE_MS);
}

/** Takes addresses and owner from mailboxes, so that only their mail is left to delete. */
function begin(tx: Tx, mailboxIds: string[]): void {
  tx.delete(schema.addresses).where(inArray(schema.addresses.mailboxId, mailboxIds)).run();
  for (const mailboxId of mailboxIds) forgetAutomaticMailRequests(tx, mailboxId);
  tx.update(schema.mailboxes).set({ ownerId: null }).where(inArray(schema.mailboxes.id, mailboxIds)).run();
}

/**
 * Begins the removal of mailboxes that expired by `before` (epoch ms). One without addresses is being removed
 * already.
 */
function beginExpired({ store }: Core, before: number): void {
  store.transact((tx) => {
    const expired = tx
      .select({ id: schema.mailboxes.id })
      .from(schema.mailboxes)
      .where(and(lte(schema.mailboxes.expiresAt, before), exists(ownAddresses(tx)), isServed))
      .all();
    begin(
      tx,
      expired.map(({ id }) => id),
    );
  });
}

/** Finds a mailbox without owner and addresses. Another process may be removing it, too, which does no harm. */
const next = ({ store }: Core): string | undefined =>
  store.db
    .select({ id: schema.mailboxes.id })
    .from(schema.mailboxes)
    .where(and(isNull(schema.mailboxes.ownerId), notExists(ownAddresses(store.db)), isServed))
    .limit(1)
    .get()?.id;

/** Deletes a portion. Returns when to run again, epoch ms. */
function finishSome(core: Core, now: number): number {
  const mailboxId = next(core);
  if (mailboxId === undefined) return now + LOOK_MS;
  removeSome(core, mailboxId);
  return now + PAUSE_MS;
}

/** Job: finishes removals that were cut short. */
export const finishMailboxRemovals = (core: Core): Job => ({
  name: "finish-removals",
  runDue: (now) => finishSome(core, now),
});

/** Job: removes the mailboxes that expired 30 days ago. */
export const removeExpiredMailboxes = (core: Core): Job => ({
  name: "remove-expired-mailboxes",
  deletes: true,
  runDue(now) {
    beginExpired(core, now - READABLE_MS);
    return finishSome(core, now);
  },
});
