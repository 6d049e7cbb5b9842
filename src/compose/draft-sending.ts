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
import { type Caller, findPersonAsCaller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import { toIsoTime } from "../base/time.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { trashDraft } from "../mailbox/changing/change.ts";
import {
  type Draft,
  type Due,
  dueDrafts,
  findNextDraftDueTime,
  fixDraftTimesAfterClockJump,
  readDraft,
  refuseDraft,
  removeDraft,
  scheduleDraft,
} from "../mailbox/changing/drafts.ts";
import { requireAcceptableForSending } from "../outbound/accept.ts";
import { hideBccInRefusal } from "../outbound/bcc.ts";
import { mergeRecipients } from "../outbound/guardrails.ts";
import { judgeOutgoingMessage } from "../outbound/judgement.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Core } from "../store/core.ts";
import { users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { type OutgoingFile, storeFiles } from "./attached-files.ts";
import { type OutgoingMessage, requireBodySize } from "./outgoing.ts";
import type { DraftRequest } from "./requests.ts";
import type { SendView } from "./sending-views.ts";
import { type RecordResponse, submitOutgoing, sumFileSizes, toSendView } from "./submit.ts";
import { type Described, messageOfDraft, readDraftRequest, requireDraftUnchanged, storeDraft } from "./write-drafts.ts";

const SEND_DUE_DRAFTS = "send-due-drafts";

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

async function sendDue(core: SendCore, { id, at, userId, keyId }: Due & { id: string }): Promise<void> {
  const { db, now } = core;
  const person = findPersonAsCaller(db, userId);
  if (!person) throw new AppError("forbidden", "The person who pressed Send has left");
  // What the key may do by now is judged with the message, which waits for a person if that is less than before.
  const origin = { face: "schedule", operation: "sendDraft", isCounted: true } as const;
  const caller = { ...person, ...(keyId !== undefined && { keyId, origin }) };
  const draft = readDraft(db, person, id);
  const message = { ...messageOfDraft(core, person, draft), isDue: true };
  await submitOutgoing(core, caller, message, draft.answers, (tx, { held }) => {
    const present = readDraft(tx, person, id);
    if (present.due?.at !== at) throw new AppError("conflict", "The sending was undone");
    // As where it is held at once (program-drafts.ts).
    if (held && present.writtenBy === undefined) {
      scheduleDraft(tx, present, undefined);
      trashDraft(tx, caller, id, now());
    } else removeDraft(tx, present);
  });
}

/**
 * Keeps a message, in place of a draft that must still have the revision or as a new one, to be sent at `due.at`.
 * `also` runs in the transaction; its result is the result.
 */
async function schedule<T>(
  core: ParsingCore,
  caller: Caller,
  described: Described,
  { at, also, ...saving }: Parameters<typeof storeDraft<T>>[3] & { at: number },
): Promise<T> {
  const due = { at, userId: caller.userId, keyId: caller.keyId };
  const saved = await storeDraft(core, caller, described, {
    ...saving,
    // A key sends what is stored.
    asWritten: caller.keyId !== undefined,
    also(tx, draft) {
      scheduleDraft(tx, draft, due);
      const { message, answers: threadId } = described;
      const { recipients } = message;
      // Messages that were judged at the same time may exceed a limit together; what makes this one wait does so when it is due.
      judgeOutgoingMessage(tx, caller, { ...message, threadId }, { now: core.now() });
      addJournalEntry(tx, caller, { ids: [draft.id], recipients: recipients.length }, core.now());
      return also(tx, draft);
    },
  });
  core.wake(SEND_DUE_DRAFTS);
  return saved;
}

/**
 * Keeps a message as a draft that is sent at a time, instead of `draft` or as a new one; one that has to wait for a
 * person is held until then. @throws AppError as submitMessage
 */
export async function sendLater(
  core: SendCore,
  caller: Caller,
  message: OutgoingMessage,
  {
    at,
    draft,
    remove,
    answers,
    files,
  }: {
    at: number;
    draft?: Draft;
    /** Takes the draft away when the message is held instead. */
    remove?: (tx: Tx, sent: SendView) => void;
    answers?: string;
    files?: readonly OutgoingFile[];
  },
  record?: RecordResponse,
): Promise<SendView> {
  const threadId = draft?.answers ?? answers;
  const size = draft?.size ?? sumFileSizes(files ?? []);
  const held = await requireAcceptableForSending(core, { caller, ...message, threadId }, size);
  if (held !== undefined) {
    return submitOutgoing(
      core,
      caller,
      { ...message, heldUntil: at },
      threadId,
      (tx, view) => {
        remove?.(tx, view);
        record?.(tx, view);
      },
      files,
    );
  }
  const { mailbox: box, from, messageId } = message;
  return schedule(
    core,
    caller,
    { message, answers: draft?.answers ?? answers, unfinished: { to: "", cc: "", bcc: "" } },
    {
      at,
      draft,
      revision: draft?.revision,
      files: files && (await storeFiles(files)),
      also(tx, { id }) {
        const threadId = draft?.answers ?? answers ?? id;
        const view: SendView = {
          ...toSendView({ messageId, emailId: null, threadId, mailboxId: box.id, from }),
          scheduled: true,
          sendAt: toIsoTime(at),
          draftId: id,
        };
        record?.(tx, view);
        return view;
      },
    },
  );
}

/** Sends a draft, or schedules that. @throws AppError as sendMessage, conflict */
export async function sendDraft(
  core: SendCore,
  caller: Caller,
  draftId: string,
  { attachments, at, ...request }: SendDraftRequest,
): Promise<SentDraft> {
  const { db, now } = core;
  requireBodySize(request);
  const draft = readDraft(db, caller, draftId);
  requireDraftUnchanged(draft, request.revision);
  requireSeen(draft, attachments);
  const described = readDraftRequest(core, caller, request, { draft, strict: true });
  const { message } = described;
  if (message.recipients.length === 0) {
    throw new AppError("unprocessable", "There is no recipient: add an address");
  }
  const undoMs = (undoTime(db).get({ id: caller.userId })?.seconds ?? 0) * 1_000;
  if (at === undefined && undoMs === 0) {
    const sent = await submitOutgoing(core, caller, message, draft.answers, (tx) => {
      const present = readDraft(tx, caller, draftId);
      requireDraftUnchanged(present, request.revision);
      requireSeen(present, attachments);
      removeDraft(tx, present);
    });
    return { sent };
  }
  await requireAcceptableForSending(core, { caller, ...message }, draft.size);
  const dueAt = at ?? now() + undoMs;
  const scheduledId = await schedule(core, caller, described, {
    at: dueAt,
    draft,
    revision: request.revision,
    check: (present) => requireSeen(present, attachments),
    also: (_, saved) => saved.id,
  });
  return { due: { draftId: scheduledId, at: toIsoTime(dueAt), inMs: dueAt - now() } };
}

/** Makes it a draft again. @throws AppError not_found (it was sent), forbidden, conflict (it is not scheduled) */
export async function undoSend({ store }: Core, caller: Caller, draftId: string): Promise<void> {
  await store.enqueue((tx) => {
    const draft = readDraft(tx, caller, draftId);
    if (!draft.due) throw new AppError("conflict", "This draft is not waiting to be sent");
    scheduleDraft(tx, draft, undefined);
  });
}

/** The job that sends drafts that are due. */
export const dueDraftSending = (core: SendCore): Job => ({
  name: SEND_DUE_DRAFTS,
  async runDue(now, wasAhead) {
    const { db, store, log } = core;
    if (wasAhead) await store.enqueue((tx) => fixDraftTimesAfterClockJump(tx, now));
    let failure: unknown;
    for (const due of dueDrafts(db, now)) {
      try {
        await sendDue(core, due);
      } catch (error) {
        if (error instanceof AppError && error.code !== "server_error") {
          const reason = (draft: Pick<Draft, "from" | "to" | "cc" | "bcc">) =>
            hideBccInRefusal(error.message, mergeRecipients(draft), draft.from.email);
          log.info("a draft was not sent when it was due", { draftId: due.id, reason: error.code });
          await store.enqueue((tx) => refuseDraft(tx, due.id, due.at, reason));
        } else failure ??= error;
      }
    }
    // The scheduler tries again, with growing waits.
    if (failure !== undefined) throw failure;
    return findNextDraftDueTime(db);
  },
});

/** @throws AppError conflict */
function requireSeen(draft: Draft, attachments: readonly string[]): void {
  const seen = new Set(attachments);
  if (draft.attachments.length === seen.size && draft.attachments.every(({ id }) => seen.has(id))) return;
  throw new AppError("conflict", "The attachments of this draft were changed elsewhere since you opened it");
}
