/**
 * People decide about messages of API keys that wait for them (rules: Held for approval).
 *
 *   approve ─► parser: parse the frozen bytes ─► one transaction {guardrails, the held copy becomes the Sent copy, queue, events}
 *
 * Invariant: what is sent are the bytes that were held, under the ids that they were held with; once.
 */

import { eq } from "drizzle-orm";
import { type Caller, notFound, type Reach, reachOf, reachTo, requireAccess } from "../access/caller.ts";
import { mayBeMadeBy } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { emit } from "../events/outbox.ts";
import { noteDecision, noteDeed } from "../journal/entries.ts";
import {
  contentOfHold,
  decide,
  dueHolds,
  findHold,
  type Hold,
  holdsAmong,
  nextDueHold,
  overdueHolds,
  putSent,
  rejectedHolds,
  removeHold,
  waitAgain,
} from "../mailbox/holds.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { normalizeAddress } from "../message/address.ts";
import { type Face, mailboxes } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import type { ParserPool } from "../workers/parser-pool.ts";
import { asRefusal, fileSent, requireQueue, type Sent, type SubmitParts } from "./accept.ts";
import { refusalForReaders } from "./bcc.ts";
import { requireAllowed, requireRoom } from "./guardrails.ts";

const DAY_MS = 86_400_000;
/** How long a rejected message is kept. */
const REJECTED_DAYS = 30;
const CHECK_MS = 60_000;

/** A held message that a person may decide about. */
export interface HeldMessage extends Hold {
  mailbox: Reach["mailbox"];
}

export type ApprovalParts = Omit<SubmitParts, "parser"> & {
  parser: Pick<ParserPool, "prepare">;
  /** Wakes the relay. */
  wakeRelay(): void;
  /** Wakes a job that has work sooner than it expects. */
  wake(job: string): void;
};

export type Approvals = ReturnType<typeof createApprovals>;

export function createApprovals(parts: ApprovalParts) {
  const { store, mailbox: mail, parser, options, runtime, log, wakeRelay, wake } = parts;

  /**
   * The message, for somebody who may decide about it.
   * @throws AppError not_found; forbidden for who may not send from its mailbox, and for the key that sent it
   */
  function reached(caller: Caller, emailId: string): HeldMessage {
    const hold = findHold(store.db, emailId);
    const reach = hold && reachTo(store.db, caller, hold.mailboxId);
    if (!hold || hold.state === "sent" || !reach) throw notFound("message");
    requireAccess(reach, "send");
    if (caller.keyId !== undefined && mayBeMadeBy(store.db, hold.keyId, caller.keyId)) {
      throw new AppError(
        "forbidden",
        "A key cannot approve or reject what it sent itself, or what a key that it made sent",
      );
    }
    return { ...hold, mailbox: reach.mailbox };
  }

  /** @throws AppError not_found, forbidden; conflict for a message in none of these states */
  function heldIn(states: readonly Hold["state"][], caller: Caller, emailId: string): HeldMessage {
    const hold = reached(caller, emailId);
    if (states.includes(hold.state)) return hold;
    throw new AppError("conflict", `This message is already ${hold.state}`);
  }

  /** Parses the frozen bytes. @throws AppError unprocessable, server_error 503 */
  async function messageOf(hold: Hold): Promise<PreparedMessage> {
    const content = contentOfHold(store.db, hold);
    const bytes = "bytes" in content ? content.bytes : await store.blobs.read(content.blob);
    try {
      return await parser.prepare({ kind: "interactive", source: hold.mailboxId }, bytes);
    } catch (error) {
      throw asRefusal(error, log);
    }
  }

  /**
   * Sends a held message. `face`: how that came about. `also` runs first in the transaction, and returns its hold.
   * @throws AppError as Submit
   */
  async function send(
    held: HeldMessage,
    { decidedBy, face }: { decidedBy: string | null; face: Face },
    also: (tx: Tx) => Hold,
    record: (tx: Tx, sent: Sent) => void,
  ): Promise<Sent> {
    const { mailbox } = held;
    await requireQueue(parts, held);
    const message = await store.preparing(() => messageOf(held));
    const sent = await store.enqueue((tx) => {
      const now = runtime.now();
      const hold = { ...also(tx), decidedBy, decidedAt: now };
      const from = normalizeAddress(message.from?.email ?? "") ?? mailbox.address;
      const content = contentOfHold(tx, hold);
      removeHold(tx, hold);
      requireAllowed(
        parts,
        tx,
        { mailboxId: mailbox.id, workspaceId: mailbox.workspaceId, from, recipients: hold.recipients },
        now,
      );
      requireRoom(mail.usage(mailbox.id), message.size, mailbox.address);
      const filed = fileSent(parts, tx, {
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
      putSent(tx, filed.seq, hold);
      noteDecision(
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
    wakeRelay();
    log.info("held message sent", { emailId: sent.emailId, decidedBy, recipients: held.recipients.length });
    return sent;
  }

  /** Announces a decision. */
  function announce(
    tx: Tx,
    { emailId, answers, threadId, mailboxId, keyId, mailbox }: HeldMessage,
    decision:
      | { event: "message.approved"; approvedBy: string; reason: string }
      | { event: "message.rejected"; rejectedBy: string | null; reason: string },
  ): void {
    const { event, ...more } = decision;
    const data = { emailId, threadId: answers ?? threadId, mailboxId, mailbox: mailbox.address, keyId, ...more };
    const { workspaceId } = mailbox;
    emit(tx, { id: newId(runtime, "evt"), workspaceId, event, now: runtime.now(), data: data as never });
  }

  function rejectIn(tx: Tx, held: HeldMessage, reason: string, rejectedBy: string | null): void {
    decide(tx, held, { state: "rejected", reason, decidedBy: rejectedBy, decidedAt: runtime.now() });
    announce(tx, held, { event: "message.rejected", rejectedBy, reason });
  }

  const job: Job = {
    name: "held-messages",
    async runDue(now) {
      const before = now - options.get("holds.days") * DAY_MS;
      for (const hold of overdueHolds(store.db, before)) {
        await store.enqueue((tx) => {
          const present = findHold(tx, hold.emailId);
          const mailbox = present?.state === "waiting" ? mailboxOf(tx, hold.mailboxId) : undefined;
          if (present && mailbox) rejectIn(tx, { ...present, mailbox }, NOT_IN_TIME, null);
        });
      }
      for (const hold of rejectedHolds(store.db, now - REJECTED_DAYS * DAY_MS)) {
        await store.enqueue((tx) => removeHold(tx, hold));
      }
      let failure: unknown;
      for (const hold of dueHolds(store.db, now)) {
        const mailbox = mailboxOf(store.db, hold.mailboxId);
        if (!mailbox) continue;
        try {
          await send(
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
            const reason = refusalForReaders(error.message, hold.recipients, mailbox.address);
            waitAgain(tx, hold, reason, runtime.now());
          });
        }
      }
      if (failure !== undefined) throw failure;
      return Math.min(now + CHECK_MS, nextDueHold(store.db) ?? Number.POSITIVE_INFINITY);
    },
  };

  /** @throws AppError conflict */
  function stillIn(tx: Tx, { emailId }: Hold, state: Hold["state"]): Hold {
    const present = findHold(tx, emailId);
    if (present?.state === state) return present;
    throw new AppError("conflict", "Somebody else has already decided about this message");
  }

  const mailboxOf = (db: Db, id: string): Reach["mailbox"] | undefined =>
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

  return {
    /** The messages that the caller may decide about, or could have, the longest waiting first, after one of them. */
    list(
      caller: Caller,
      {
        state = "waiting",
        after,
        most,
      }: { state?: Exclude<Hold["state"], "sent">; after?: { since: number; seq: number } | undefined; most: number },
    ): HeldMessage[] {
      const reached = reachOf(store.db, caller);
      const sending = [...reached.values()].filter(({ access }) => access.send).map(({ mailbox }) => mailbox);
      const byId = new Map(sending.map((mailbox) => [mailbox.id, mailbox]));
      return holdsAmong(store.db, [...byId.keys()], state, { after, most }).flatMap((hold) => {
        const mailbox = byId.get(hold.mailboxId);
        return mailbox ? [{ ...hold, mailbox }] : [];
      });
    },

    /** One that was not sent. @throws AppError not_found, forbidden */
    held: reached,

    /**
     * Approves a message: it is sent now, or when its time comes. `record` is called in the transaction.
     * @throws AppError as Submit, not_found, forbidden, conflict; then it waits on
     */
    async approve(
      caller: Caller,
      emailId: string,
      record: (tx: Tx, approved: { emailId: string; threadId: string; sendAt?: number }) => void = () => {},
    ): Promise<{ emailId: string; threadId: string; sendAt?: number }> {
      const held = heldIn(["waiting"], caller, emailId);
      const { reason, sendAt } = held;
      const approvedBy = caller.userId;
      const approvedIn = (tx: Tx) => {
        const hold = stillIn(tx, held, "waiting");
        announce(tx, held, { event: "message.approved", approvedBy, reason });
        noteDeed(tx, caller, { ids: [emailId] }, runtime.now());
        return hold;
      };
      if (sendAt !== null && sendAt > runtime.now()) {
        const approved = { emailId, threadId: held.answers ?? held.threadId, sendAt };
        await store.enqueue((tx) => {
          approvedIn(tx);
          decide(tx, held, { state: "approved", decidedBy: approvedBy, decidedAt: runtime.now() });
          record(tx, approved);
        });
        wake(job.name);
        return approved;
      }
      const by = { decidedBy: approvedBy, face: caller.origin?.face ?? "app" } as const;
      const { threadId } = await send(held, by, approvedIn, (tx, sent) =>
        record(tx, { emailId, threadId: sent.threadId }),
      );
      return { emailId, threadId };
    },

    /** Rejects a message, also one that was approved and waits for its time. @throws AppError not_found, forbidden, conflict */
    reject(tx: Tx, caller: Caller, emailId: string, reason: string): void {
      noteDeed(tx, caller, { ids: [emailId] }, runtime.now());
      rejectIn(tx, heldIn(["waiting", "approved"], caller, emailId), reason, caller.userId);
    },

    job,
  };
}

const NOT_IN_TIME = "not approved in time";
