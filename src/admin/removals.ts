/**
 * Removing a mailbox with all its mail: its addresses at once, so that nothing more arrives, then the mail in short
 * transactions. Somebody asks for it, or the mailbox expired 30 days ago (rules: Mailbox expiry).
 *
 * Invariant: a removal that was cut short is finished by the server, soon after its start or within the hour. One that is
 * part of an erasure is not: what was told of the mail goes before the mail, so it waits to be asked for again
 * (erasure.ts). They are told apart by the owner, whom a mailbox has no more once it is merely being removed.
 */
import { and, eq, exists, inArray, isNull, lte, notExists } from "drizzle-orm";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { deleteMail } from "../mailbox/removal.ts";
import * as schema from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";

/** Messages deleted in one transaction: some 20 ms, so that a server beside us does not wait long for the lock. */
const DELETED_AT_ONCE = 200;
/** Between two of them, ms: a process that waits for the lock asks again within this time. */
const PAUSE_MS = 25;
/** Between two looks for what a command left that was killed, and for what has expired. */
const LOOK_MS = 3_600_000;
/** The mail of an expired mailbox stays readable this long, ms. */
const READABLE_MS = 30 * 24 * 3_600_000;

export interface RemovalsParts {
  store: Pick<Store, "db" | "transact">;
  runtime: Pick<Runtime, "setTimer">;
  /** @throws AppError not_found */
  requireMailbox(tx: Tx, id: string): unknown;
}

export function createRemovals({ store, runtime, requireMailbox }: RemovalsParts) {
  /** Deletes the next of its mail, or the mailbox when none is left; whether it is still there. */
  const removeSome = (mailboxId: string): boolean =>
    store.transact((tx) => {
      if (deleteMail(tx, mailboxId, DELETED_AT_ONCE)) return true;
      tx.delete(schema.mailboxes).where(eq(schema.mailboxes.id, mailboxId)).run();
      return false;
    });

  /**
   * `forget`: of an erasure; done while the mail is still there, and nothing more arrives. Cut short, the mailbox stays
   * without addresses until it is removed again, or without `forget` by the job. @throws AppError not_found
   */
  async function removeMailbox(mailboxId: string, forget?: () => Promise<void>): Promise<void> {
    store.transact((tx) => {
      if (!forget) return beginRemoval(tx, mailboxId);
      requireMailbox(tx, mailboxId);
      tx.delete(schema.addresses).where(eq(schema.addresses.mailboxId, mailboxId)).run();
    });
    if (forget) await forget();
    await finishRemoval(mailboxId);
  }

  /** Takes a mailbox from its addresses and its owner; the job then removes it with its mail. @throws AppError not_found */
  function beginRemoval(tx: Tx, mailboxId: string): void {
    requireMailbox(tx, mailboxId);
    begin(tx, [mailboxId]);
  }

  /** Finishes a removal that has begun, without waiting for the job. */
  async function finishRemoval(mailboxId: string): Promise<void> {
    while (removeSome(mailboxId)) await pause(runtime, PAUSE_MS);
  }

  const ownAddresses = store.db
    .select()
    .from(schema.addresses)
    .where(eq(schema.addresses.mailboxId, schema.mailboxes.id));

  /** Takes addresses and owner from mailboxes, so that only their mail is left to delete. */
  function begin(tx: Tx, mailboxIds: string[]): void {
    tx.delete(schema.addresses).where(inArray(schema.addresses.mailboxId, mailboxIds)).run();
    tx.update(schema.mailboxes).set({ ownerId: null }).where(inArray(schema.mailboxes.id, mailboxIds)).run();
  }

  /** Begins the removal of mailboxes that expired by `before` (epoch ms). One without addresses is being removed already. */
  function beginExpired(before: number): void {
    store.transact((tx) => {
      const expired = tx
        .select({ id: schema.mailboxes.id })
        .from(schema.mailboxes)
        .where(and(lte(schema.mailboxes.expiresAt, before), exists(ownAddresses)))
        .all();
      begin(
        tx,
        expired.map(({ id }) => id),
      );
    });
  }

  /** A mailbox that nobody has and no mail comes to; what is being removed by somebody else takes no harm. */
  const next = (): string | undefined =>
    store.db
      .select({ id: schema.mailboxes.id })
      .from(schema.mailboxes)
      .where(and(isNull(schema.mailboxes.ownerId), notExists(ownAddresses)))
      .limit(1)
      .get()?.id;

  /** Deletes a portion. Returns when there may be more, epoch ms. */
  function finishSome(now: number): number {
    const mailboxId = next();
    if (mailboxId === undefined) return now + LOOK_MS;
    removeSome(mailboxId);
    return now + PAUSE_MS;
  }

  return {
    removeMailbox,
    beginRemoval,
    finishRemoval,
    /** Of the scheduler. */
    finishRemovals: { name: "finish-removals", runDue: finishSome },
    /** Of the scheduler: removes the mailboxes that expired 30 days ago. */
    removeExpired: {
      name: "remove-expired-mailboxes",
      deletes: true,
      runDue(now: number): number {
        beginExpired(now - READABLE_MS);
        return finishSome(now);
      },
    },
  };
}
