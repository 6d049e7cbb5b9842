/**
 * Sends drafts: at once, or at a time that the store keeps; until then the sending can be undone. All checks run when a
 * person presses Send, so that they learn of a refusal at once, and again when the draft is due, with the person's
 * access by then.
 *
 *   Send ─► guardrails ─► draft saved and due, one transaction ─► the time comes ─► outbound/accept.ts
 *
 * Invariant: the draft is removed in the transaction that accepts the message. After a crash before the commit, the
 * draft is still due and is sent at the next start; after a crash behind it, no draft is left to be sent again.
 */

import { eq, sql } from "drizzle-orm";
import { type Caller, findPerson } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { isoOf } from "../base/time.ts";
import { noteDeed } from "../journal/entries.ts";
import type { Draft, Due } from "../mailbox/drafts.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { refusalForReaders } from "../outbound/bcc.ts";
import { recipientsOf } from "../outbound/guardrails.ts";
import { judge } from "../outbound/judgement.ts";
import { users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store, Tx } from "../store/store.ts";
import { type createDrafts, type Described, requireUnchanged } from "./drafts.ts";
import { type Outgoing, requireBodySize } from "./outgoing.ts";
import type { DraftRequest } from "./requests.ts";
import type { SendView } from "./views.ts";

export interface SendDraftRequest extends DraftRequest {
  revision: number;
  /** Ids of the attachments that the sending person sees. */
  attachments: readonly string[];
  /** Epoch ms. Default: as soon as it can no longer be undone. */
  at?: number | undefined;
}

/** The time at which it is sent, absolute and from now, because the client's clock may differ. */
export interface DueDraft {
  draftId: string;
  at: string;
  inMs: number;
}

/** The message was accepted for sending, or the draft is scheduled. */
export type SentDraft = { sent: SendView; due?: never } | { sent?: never; due: DueDraft };

const undoTime = prepared((db) =>
  db
    .select({ seconds: users.undoSeconds })
    .from(users)
    .where(eq(users.id, sql.placeholder("id")))
    .prepare(),
);

export function createDraftSending({
  store,
  mailbox,
  writing,
  requireAcceptable,
  submitOutgoing,
  runtime,
  log,
  onScheduled,
}: {
  store: Pick<Store, "db" | "enqueue">;
  mailbox: Pick<Mailbox, "drafts">;
  writing: ReturnType<typeof createDrafts>["writing"];
  /** @throws AppError as Submit, if the message would not be accepted now with so many bytes */
  requireAcceptable(message: Outgoing & { caller: Caller }, bytes: number): Promise<unknown>;
  submitOutgoing(
    caller: Caller,
    message: Outgoing & { isDue?: boolean },
    threadId: string | undefined,
    record: (tx: Tx, sent: SendView) => void,
  ): Promise<SendView>;
  runtime: Pick<Runtime, "now">;
  log: Log;
  /** Called when a draft is scheduled, which may be due sooner than the job expects. */
  onScheduled(): void;
}) {
  async function sendDue({ id, at, userId, keyId }: Due & { id: string }): Promise<void> {
    const person = findPerson(store.db, userId);
    if (!person) throw new AppError("forbidden", "The person who pressed Send has left");
    // What the key may do by now is judged with the message, which waits for a person if that is less than before.
    const origin = { face: "schedule", operation: "sendDraft", isCounted: true } as const;
    const caller = { ...person, ...(keyId !== undefined && { keyId, origin }) };
    const draft = mailbox.drafts.read(person, id);
    await submitOutgoing(caller, { ...writing.stored(person, draft), isDue: true }, draft.answers, (tx, { held }) => {
      const present = mailbox.drafts.read(person, id);
      if (present.due?.at !== at) throw new AppError("conflict", "The sending was undone");
      // As where it is held at once (program-drafts.ts).
      if (held && present.writtenBy === undefined) {
        mailbox.drafts.schedule(tx, present, undefined);
        mailbox.drafts.trash(tx, caller, id);
      } else mailbox.drafts.remove(tx, present);
    });
  }

  const job: Job = {
    name: "send-due-drafts",
    async runDue(now, wasAhead) {
      if (wasAhead) await store.enqueue((tx) => mailbox.drafts.recall(tx, now));
      let failure: unknown;
      for (const due of mailbox.drafts.due(now)) {
        try {
          await sendDue(due);
        } catch (error) {
          if (error instanceof AppError && error.code !== "server_error") {
            const reason = (draft: Pick<Draft, "from" | "to" | "cc" | "bcc">) =>
              refusalForReaders(error.message, recipientsOf(draft), draft.from.email);
            log.info("a draft was not sent when it was due", { draftId: due.id, reason: error.code });
            await store.enqueue((tx) => mailbox.drafts.refuse(tx, due.id, due.at, reason));
          } else failure ??= error;
        }
      }
      // The scheduler tries again, with growing waits.
      if (failure !== undefined) throw failure;
      return mailbox.drafts.nextDue();
    },
  };

  /**
   * Keeps a message, in place of a draft that must still have the revision or as a new one, to be sent at `due.at`.
   * `also` runs in the transaction; its result is the result.
   */
  async function schedule<T>(
    caller: Caller,
    described: Described,
    { at, also, ...saving }: Parameters<typeof writing.save<T>>[2] & { at: number },
  ): Promise<T> {
    const due = { at, userId: caller.userId, keyId: caller.keyId };
    const saved = await writing.save(caller, described, {
      ...saving,
      // A key sends what is stored.
      asWritten: caller.keyId !== undefined,
      also(tx, draft) {
        mailbox.drafts.schedule(tx, draft, due);
        const { message, answers: threadId } = described;
        const { recipients } = message;
        // Messages that were judged at the same time may exceed a limit together; what makes this one wait does so when it is due.
        judge(tx, caller, { ...message, threadId }, { now: runtime.now() });
        noteDeed(tx, caller, { ids: [draft.id], recipients: recipients.length }, runtime.now());
        return also(tx, draft);
      },
    });
    onScheduled();
    return saved;
  }

  return {
    schedule,

    /** @throws AppError as Sending.send, conflict */
    async sendDraft(
      caller: Caller,
      draftId: string,
      { attachments, at, ...request }: SendDraftRequest,
    ): Promise<SentDraft> {
      requireBodySize(request);
      const draft = mailbox.drafts.read(caller, draftId);
      requireUnchanged(draft, request.revision);
      requireSeen(draft, attachments);
      const described = writing.describe(caller, request, { draft, strict: true });
      const { message } = described;
      if (message.recipients.length === 0) {
        throw new AppError("unprocessable", "There is no recipient: add an address");
      }
      const undoMs = (undoTime(store.db).get({ id: caller.userId })?.seconds ?? 0) * 1_000;
      if (at === undefined && undoMs === 0) {
        const sent = await submitOutgoing(caller, message, draft.answers, (tx) => {
          const present = mailbox.drafts.read(caller, draftId);
          requireUnchanged(present, request.revision);
          requireSeen(present, attachments);
          mailbox.drafts.remove(tx, present);
        });
        return { sent };
      }
      await requireAcceptable({ caller, ...message }, draft.size);
      const dueAt = at ?? runtime.now() + undoMs;
      const scheduledId = await schedule(caller, described, {
        at: dueAt,
        draft,
        revision: request.revision,
        check: (present) => requireSeen(present, attachments),
        also: (_, saved) => saved.id,
      });
      return { due: { draftId: scheduledId, at: isoOf(dueAt), inMs: dueAt - runtime.now() } };
    },

    /** Makes it a draft again. @throws AppError not_found (it was sent), forbidden, conflict (it is not scheduled) */
    async undoSend(caller: Caller, draftId: string): Promise<void> {
      await store.enqueue((tx) => {
        const draft = mailbox.drafts.read(caller, draftId);
        if (!draft.due) throw new AppError("conflict", "This draft is not waiting to be sent");
        mailbox.drafts.schedule(tx, draft, undefined);
      });
    },

    /** Sends drafts that are due. */
    job,
  };
}

/** @throws AppError conflict */
function requireSeen(draft: Draft, attachments: readonly string[]): void {
  const seen = new Set(attachments);
  if (draft.attachments.length === seen.size && draft.attachments.every(({ id }) => seen.has(id))) return;
  throw new AppError("conflict", "The attachments of this draft were changed elsewhere since you opened it");
}
