/**
 * People decide about messages of API keys that wait for them (rules: Held for approval).
 *
 *   approve ─► parser: parse the frozen bytes ─► one transaction {guardrails, the held copy becomes the Sent copy, queue, events}
 *
 * Invariant: what is sent are the bytes that were held, under the ids that they were held with; once.
 */

import { eq } from "drizzle-orm";
import {
  type Caller,
  findReach,
  findReachableMailboxes,
  outOfReachError,
  type Reach,
  requireAccess,
} from "../access/caller.ts";
import { mayDescendFromKey } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { emitEvent } from "../events/outbox.ts";
import { addJournalDecision, addJournalEntry } from "../journal/entries.ts";
import {
  contentOfHold,
  dueHolds,
  findHold,
  type Hold,
  holdsAmong,
  nextDueHold,
  noteSentCopyWasHeld,
  overdueHolds,
  recordHoldDecision,
  rejectedHolds,
  removeHold,
  returnHoldToWaiting,
} from "../mailbox/changing/holds.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import { readMailboxUsage } from "../mailbox/state/mailboxes.ts";
import { normalizeAddress } from "../message/address.ts";
import type { Core, Reader } from "../store/core.ts";
import { type Face, mailboxes } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { asUnparseableRefusal, fileAndQueueMessage, requireQueueTakesMail, type Sent, writeBccLine } from "./accept.ts";
import { hideBccInRefusal } from "./bcc.ts";
import { requireMailboxSpace, requireSendingAllowed } from "./guardrails.ts";
import type { SendCore } from "./send-core.ts";

const DAY_MS = 86_400_000;
/** How long a rejected message is kept. */
const REJECTED_DAYS = 30;
const CHECK_MS = 60_000;
const HELD_MESSAGES = "held-messages";

/** A held message that a person may decide about. */
export interface HeldMessage extends Hold {
  mailbox: Reach["mailbox"];
}

/**
 * A held message that was not sent, for somebody who may decide about it.
 * @throws AppError not_found; forbidden for who may not send from its mailbox, and for the key that sent it
 */
export function getHeld({ db }: Reader, caller: Caller, emailId: string): HeldMessage {
  const hold = findHold(db, emailId);
  const reach = hold && findReach(db, caller, hold.mailboxId);
  if (!hold || hold.state === "sent" || !reach) throw outOfReachError("message");
  requireAccess(reach, "send");
  if (caller.keyId !== undefined && mayDescendFromKey(db, hold.keyId, caller.keyId)) {
    throw new AppError(
      "forbidden",
      "A key cannot approve or reject what it sent itself, or what a key that it made sent",
    );
  }
  return { ...hold, mailbox: reach.mailbox };
}

/** @throws AppError not_found, forbidden; conflict for a message in none of these states */
function heldIn(reader: Reader, states: readonly Hold["state"][], caller: Caller, emailId: string): HeldMessage {
  const hold = getHeld(reader, caller, emailId);
  if (states.includes(hold.state)) return hold;
  throw new AppError("conflict", `This message is already ${hold.state}`);
}

/** Parses the frozen bytes. @throws AppError unprocessable, server_error 503 */
async function parseHeldMessage({ db, blobs, parser, log }: SendCore, hold: Hold): Promise<PreparedMessage> {
  const content = contentOfHold(db, hold);
  const bytes = "bytes" in content ? content.bytes : await blobs.read(content.blob);
  try {
    const top = writeBccLine(hold.recipients);
    return await parser.prepare({ kind: "interactive", source: hold.mailboxId }, bytes, { top });
  } catch (error) {
    throw asUnparseableRefusal(error, log);
  }
}

/**
 * Sends a held message. `face`: how that came about. `also` runs first in the transaction, and returns its hold.
 * @throws AppError as submitMessage
 */
async function send(
  core: SendCore,
  held: HeldMessage,
  { decidedBy, face }: { decidedBy: string | null; face: Face },
  also: (tx: Tx) => Hold,
  record: (tx: Tx, sent: Sent) => void,
): Promise<Sent> {
  const { store, log } = core;
  const { mailbox } = held;
  await requireQueueTakesMail(core, held);
  const message = await store.preparing(() => parseHeldMessage(core, held));
  const sent = await store.enqueue((tx) => {
    const now = core.now();
    const hold = { ...also(tx), decidedBy, decidedAt: now };
    const from = normalizeAddress(message.from?.email ?? "") ?? mailbox.address;
    const content = contentOfHold(tx, hold);
    removeHold(tx, hold);
    requireSendingAllowed(
      core,
      tx,
      { mailboxId: mailbox.id, workspaceId: mailbox.workspaceId, from, recipients: hold.recipients },
      now,
    );
    requireMailboxSpace(readMailboxUsage(core, mailbox.id), message.size, mailbox.address);
    const filed = fileAndQueueMessage(core, tx, {
      mailbox,
      from,
      recipients: hold.recipients,
      messageId: message.messageId ?? "",
      dsn: hold.dsn,
      threadId: hold.answers ?? undefined,
      sentBy: hold.userId,
      message,
      content,
      now,
      ids: { message: hold.emailId, thread: hold.threadId },
    });
    noteSentCopyWasHeld(tx, filed.seq, hold);
    addJournalDecision(
      tx,
      { workspaceId: mailbox.workspaceId, keyId: hold.keyId },
      {
        operation: "approve",
        face,
        by: decidedBy === null ? undefined : { userId: decidedBy },
        ids: [filed.sent.emailId, filed.sent.threadId],
        sent: hold.recipients.length,
      },
      now,
    );
    record(tx, filed.sent);
    return filed.sent;
  });
  log.info("held message sent", { emailId: sent.emailId, decidedBy, recipients: held.recipients.length });
  return sent;
}

/** Announces a decision. */
function announce(
  { runtime }: Core,
  tx: Tx,
  { emailId, answers, threadId, mailboxId, keyId, mailbox }: HeldMessage,
  decision:
    | { event: "message.approved"; approvedBy: string; reason: string }
    | { event: "message.rejected"; rejectedBy: string | null; reason: string },
): void {
  const { event, ...more } = decision;
  const data = { emailId, threadId: answers ?? threadId, mailboxId, mailbox: mailbox.address, keyId, ...more };
  const { workspaceId } = mailbox;
  emitEvent(tx, { id: newId(runtime, "evt"), workspaceId, event, now: runtime.now(), data: data as never });
}

function rejectIn(core: Core, tx: Tx, held: HeldMessage, reason: string, rejectedBy: string | null): void {
  recordHoldDecision(tx, held, { state: "rejected", reason, decidedBy: rejectedBy, decidedAt: core.now() });
  announce(core, tx, held, { event: "message.rejected", rejectedBy, reason });
}

/** @throws AppError conflict */
function stillIn(tx: Tx, { emailId }: Hold, state: Hold["state"]): Hold {
  const present = findHold(tx, emailId);
  if (present?.state === state) return present;
  throw new AppError("conflict", "Somebody else has already decided about this message");
}

const findHoldMailbox = (db: Db, id: string): Reach["mailbox"] | undefined =>
  db
    .select({
      id: mailboxes.id,
      address: mailboxes.address,
      name: mailboxes.name,
      ownerId: mailboxes.ownerId,
      workspaceId: mailboxes.workspaceId,
    })
    .from(mailboxes)
    .where(eq(mailboxes.id, id))
    .get();

/** The messages that the caller may decide about, or could have, the longest waiting first, after one of them. */
export function list(
  { db }: Reader,
  caller: Caller,
  {
    state = "waiting",
    after,
    most,
  }: { state?: Exclude<Hold["state"], "sent">; after?: { since: number; seq: number } | undefined; most: number },
): HeldMessage[] {
  const reached = findReachableMailboxes(db, caller);
  const sending = [...reached.values()].filter(({ access }) => access.send).map(({ mailbox }) => mailbox);
  const byId = new Map(sending.map((mailbox) => [mailbox.id, mailbox]));
  return holdsAmong(db, [...byId.keys()], state, { after, most }).flatMap((hold) => {
    const mailbox = byId.get(hold.mailboxId);
    return mailbox ? [{ ...hold, mailbox }] : [];
  });
}

/**
 * Approves a message: it is sent now, or when its time comes. `record` is called in the transaction.
 * @throws AppError as submitMessage, not_found, forbidden, conflict; then it waits on
 */
export async function approve(
  core: SendCore,
  caller: Caller,
  emailId: string,
  record: (tx: Tx, approved: { emailId: string; threadId: string; sendAt?: number }) => void = () => {},
): Promise<{ emailId: string; threadId: string; sendAt?: number }> {
  const { store, now } = core;
  const held = heldIn(core, ["waiting"], caller, emailId);
  const { reason, sendAt } = held;
  const approvedBy = caller.userId;
  const approvedIn = (tx: Tx) => {
    const hold = stillIn(tx, held, "waiting");
    announce(core, tx, held, { event: "message.approved", approvedBy, reason });
    addJournalEntry(tx, caller, { ids: [emailId] }, now());
    return hold;
  };
  if (sendAt !== null && sendAt > now()) {
    const approved = { emailId, threadId: held.answers ?? held.threadId, sendAt };
    await store.enqueue((tx) => {
      approvedIn(tx);
      recordHoldDecision(tx, held, { state: "approved", decidedBy: approvedBy, decidedAt: now() });
      record(tx, approved);
    });
    core.wake(HELD_MESSAGES);
    return approved;
  }
  const by = { decidedBy: approvedBy, face: caller.origin?.face ?? "app" } as const;
  const { threadId } = await send(core, held, by, approvedIn, (tx, sent) =>
    record(tx, { emailId, threadId: sent.threadId }),
  );
  return { emailId, threadId };
}

/** Rejects a message, also one that was approved and waits for its time. @throws AppError not_found, forbidden, conflict */
export function reject(core: Core, tx: Tx, caller: Caller, emailId: string, reason: string): void {
  addJournalEntry(tx, caller, { ids: [emailId] }, core.now());
  rejectIn(core, tx, heldIn(core, ["waiting", "approved"], caller, emailId), reason, caller.userId);
}

/** Rejects what waited too long, forgets what was rejected long ago, and sends what was approved for a time. */
export const processHeldMessages = (core: SendCore): Job => ({
  name: HELD_MESSAGES,
  async runDue(now) {
    const { db, store, options, log } = core;
    const before = now - options.get("holds.days") * DAY_MS;
    for (const hold of overdueHolds(db, before)) {
      await store.enqueue((tx) => {
        const present = findHold(tx, hold.emailId);
        const mailbox = present?.state === "waiting" ? findHoldMailbox(tx, hold.mailboxId) : undefined;
        if (present && mailbox) rejectIn(core, tx, { ...present, mailbox }, NOT_IN_TIME, null);
      });
    }
    for (const hold of rejectedHolds(db, now - REJECTED_DAYS * DAY_MS)) {
      await store.enqueue((tx) => removeHold(tx, hold));
    }
    let failure: unknown;
    for (const hold of dueHolds(db, now)) {
      const mailbox = findHoldMailbox(db, hold.mailboxId);
      if (!mailbox) continue;
      try {
        await send(
          core,
          { ...hold, mailbox },
          { decidedBy: hold.decidedBy, face: "schedule" },
          (tx) => stillIn(tx, hold, "approved"),
          () => {},
        );
      } catch (error) {
        if (!(error instanceof AppError) || error.code === "server_error") {
          // It delays no other, and is tried again.
          failure ??= error;
          continue;
        }
        // It waits for a person again, who learns why when they approve it.
        log.info("an approved message was not sent when it was due", { emailId: hold.emailId, reason: error.code });
        await store.enqueue((tx) => {
          if (findHold(tx, hold.emailId)?.state !== "approved") return;
          const reason = hideBccInRefusal(error.message, hold.recipients, mailbox.address);
          returnHoldToWaiting(tx, hold, reason, core.now());
        });
      }
    }
    if (failure !== undefined) throw failure;
    return Math.min(now + CHECK_MS, nextDueHold(db) ?? Number.POSITIVE_INFINITY);
  },
});

const NOT_IN_TIME = "not approved in time";
