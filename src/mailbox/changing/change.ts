/**
 * Changes one conversation for a caller (move, snooze, star, label, mark read), and takes a change back to the exact
 * state before, including what its move taught the mailbox (rules: Folders, Spam).
 *
 * Invariant: a refusal comes before the first write, so that the rest of the transaction can continue.
 */
import { isDeepStrictEqual } from "node:util";
import { and, asc, desc, eq, isNotNull, lte, min, sql } from "drizzle-orm";
import { type Caller, findReach, outOfReachError, type Reach, requireAccess } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import type { Job } from "../../base/scheduler.ts";
import {
  noteFieldsSetInThread,
  settleKeyChanges,
  settleThreadLabelChanges,
  type Touch,
} from "../../journal/key-changes.ts";
import type { Core } from "../../store/core.ts";
import { CHANGED_FIELDS, type Folder, messages, threads } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { isDraft, type ThreadRow } from "../filing/threading.ts";
import {
  forgiveSender,
  type Relearned,
  readJunkSender,
  type Sender,
  trainAsSpam,
  unlearnSender,
} from "../junk/senders.ts";
import { revertTraining, type Taught, trainJunkByConversation } from "../junk/training.ts";
import { labelKey, labelTouches, listThreadLabels, patchedLabels, writeLabels } from "../state/labels.ts";
import {
  type Apart,
  listApartMessages,
  loadReadState,
  markRead,
  markUnread,
  moveWholeThread,
  putBackMessageFolders,
  putBackReadState,
  type ReadState,
  setThreadStarred,
} from "../state/message-state.ts";
import type { ThreadPatch } from "../state/views.ts";
import { requireNotHeld } from "./holds.ts";

/** The requested change; `read` is given as `unread`. */
export interface ThreadChange extends Omit<ThreadPatch, "read"> {
  /** Epoch ms; null ends it. Excludes `folder`. */
  snoozedUntil?: number | null | undefined;
}

/** Every change except the read state (rules: Changing a conversation). */
const NEEDS_MANAGE = ["starred", "folder", "labels", "addLabels", "removeLabels", "snoozedUntil"] as const;

/** The part of a conversation's state that a change touched. */
interface State {
  folder?: Folder;
  snoozedUntil?: number | null;
  /** Present with `folder`. */
  apart?: readonly Apart[];
  starred?: boolean;
  labels?: readonly string[];
  unread?: boolean;
}

/** A change that was made, with the data to take it back. */
export interface AppliedChange {
  threadId: string;
  before: State;
  after: State;
  /** The state before, if it was changed. */
  readState?: ReadState;
  relearned: readonly Relearned[];
  taught: readonly Taught[];
}

const statements = {
  putInto: statement<unknown, [folder: Folder, snoozedUntil: number | null, seq: number]>(
    "UPDATE threads SET folder = ?, snoozed_until = ? WHERE seq = ?",
  ),
  /** A draft in trash is not sent, even after it is brought back. */
  unscheduleDrafts: statement<unknown, [threadSeq: number]>(
    `UPDATE drafts SET due_at = NULL, due_by = NULL, due_key = NULL
     WHERE due_at IS NOT NULL AND message_seq IN (SELECT seq FROM messages WHERE thread_seq = ? AND kind = 'draft')`,
  ),
};

const queries = prepared((db) => ({
  byId: db
    .select()
    .from(threads)
    .where(eq(threads.id, sql.placeholder("id")))
    .prepare(),
  senders: db
    .select({ seq: messages.seq, from: messages.from, auth: messages.auth })
    .from(messages)
    .where(
      and(
        eq(messages.threadSeq, sql.placeholder("threadSeq")),
        eq(messages.kind, "received"),
        isNotNull(messages.receivedOn),
      ),
    )
    .orderBy(desc(messages.date), desc(messages.seq))
    .prepare(),
}));

/** @throws AppError not_found, also for a conversation out of reach */
export function reachedThread(db: Db, caller: Caller, id: string): { thread: ThreadRow; reach: Reach } {
  const thread = queries(db).byId.get({ id });
  const reach = thread && findReach(db, caller, thread.mailboxId);
  if (!thread || !reach) throw outOfReachError("thread");
  return { thread, reach };
}

/** `now`: epoch ms. @throws AppError not_found, forbidden, conflict, unprocessable; then nothing has changed */
export function changeThread(tx: Tx, caller: Caller, id: string, change: ThreadChange, now: number): AppliedChange {
  const { folder, snoozedUntil, starred, unread } = change;
  const { thread, reach } = reachedThread(tx, caller, id);
  if (NEEDS_MANAGE.some((name) => change[name] !== undefined)) requireAccess(reach, "manage");
  if (folder !== undefined) requireNotHeld(tx, thread);
  if (folder !== undefined && folder !== "trash" && isDraft(tx, thread.seq)) {
    throw new AppError("conflict", "A draft can only be moved to trash");
  }
  if (typeof snoozedUntil === "number") requireSnoozable(thread);
  const labels = listThreadLabels(tx, [thread.seq]).get(thread.seq) ?? [];
  const patched = patchedLabels(labels, change);

  const { seq } = thread;
  const made: Pick<AppliedChange, "relearned" | "taught" | "readState"> = { relearned: [], taught: [] };
  const touched: (keyof State)[] = [];
  if (folder !== undefined || snoozedUntil !== undefined) touched.push("folder", "snoozedUntil", "apart");
  const apart = touched.includes("apart") ? listApartMessages(tx, seq) : [];
  if (folder !== undefined) Object.assign(made, move(tx, thread, folder, now));
  if (typeof snoozedUntil === "number" || (snoozedUntil === null && thread.snoozedUntil !== null)) {
    snoozeUntil(tx, thread, snoozedUntil);
  }
  if (starred !== undefined) {
    touched.push("starred");
    setThreadStarred(tx, seq, starred);
  }
  if (!isDeepStrictEqual(patched, labels)) {
    touched.push("labels");
    writeLabels(tx, seq, patched);
  }
  if (unread !== undefined && unread !== thread.unread) {
    touched.push("unread");
    made.readState = loadReadState(tx, seq);
    if (unread) markUnread(tx, seq);
    else markRead(tx, seq);
  }
  const applied = {
    threadId: id,
    before: pick({ ...thread, labels, apart }, touched),
    after: readThreadState(tx, id, touched),
    ...made,
  };
  // Changes go before confirmations, so that they settle what they can open again.
  noteFieldsSetInThread(
    tx,
    caller,
    thread,
    [...labelTouches(labels, patched), ...listFieldTouches(change, applied)],
    now,
  );
  if (change.labels !== undefined) settleThreadLabelChanges(tx, caller, seq);
  return applied;
}

/**
 * Moves a draft to trash for a caller who may send it, which needs no right to move mail. `now`: epoch ms. @throws AppError
 * not_found
 */
export function trashDraft(tx: Tx, caller: Caller, draftId: string, now: number): void {
  const { thread } = reachedThread(tx, caller, draftId);
  const before = { ...thread, apart: listApartMessages(tx, thread.seq) };
  move(tx, thread, "trash", now);
  const after = readThreadState(tx, draftId, ["folder", "snoozedUntil", "apart"]);
  noteFieldsSetInThread(tx, caller, thread, [folderTouch(before, after)], now);
}

/** Lists the fields that a change set, without its labels (labelTouches lists those). */
function listFieldTouches(
  change: ThreadChange,
  { before, after, readState, relearned, taught }: AppliedChange,
): Touch[] {
  const { folder, snoozedUntil, starred, unread, addLabels = [], removeLabels = [] } = change;
  const touches: Touch[] = [];
  if (folder !== undefined || snoozedUntil !== undefined) touches.push(folderTouch(before, after));
  if (folder !== undefined && folder !== "trash") touches.push(trainingTouch(folder, { relearned, taught }));
  if (starred !== undefined) {
    touches.push({ field: "starred", ...(before.starred !== starred && { before: before.starred }) });
  }
  if (unread !== undefined) touches.push({ field: "unread", ...(readState && { before: readState }) });
  for (const label of [...addLabels, ...removeLabels]) touches.push({ field: "label", labelKey: labelKey(label) });
  return touches;
}

/** The place of a conversation as key_changes keeps it, without `apart` where no message is. */
export const folderState = ({
  folder,
  snoozedUntil,
  apart = [],
}: State): Pick<State, "folder" | "snoozedUntil" | "apart"> => ({
  ...(folder !== undefined && { folder }),
  ...(snoozedUntil !== undefined && { snoozedUntil }),
  ...(apart.length > 0 && { apart }),
});

export function folderTouch(before: State, after: State): Touch {
  const was = folderState(before);
  return { field: "folder", ...(!isDeepStrictEqual(was, folderState(after)) && { before: was }) };
}

export const trainingTouch = (folder: Folder, { relearned, taught }: Lessons): Touch => ({
  field: "training",
  labelKey: folder === "spam" ? "spam" : "ham",
  ...(relearned.length + taught.length > 0 && { before: { relearned, taught } }),
});

/** True unless everything was as asked before, and the mailbox learned nothing new from it. */
export const isEffectiveThreadChange = ({ before, after, relearned, taught }: AppliedChange): boolean =>
  !isDeepStrictEqual(before, after) ||
  taught.length > 0 ||
  relearned.some((learned) => learned.before?.verdict !== learned.after.verdict);

/**
 * Takes a person's change back. @throws AppError conflict if the same was changed again since, otherwise as changeThread;
 * then nothing has changed
 */
export function revertChange(tx: Tx, caller: Caller, changed: AppliedChange): void {
  const { thread, reach } = reachedThread(tx, caller, changed.threadId);
  const { before, after } = changed;
  const touched = Object.keys(after) as (keyof State)[];
  if (touched.some((name) => name !== "unread")) requireAccess(reach, "manage");
  if (!isDeepStrictEqual(readThreadState(tx, thread.id, touched), after)) {
    throw new AppError("conflict", "The conversation has changed since then");
  }
  restoreThreadFields(tx, thread, before, changed.readState);
  undoTrainingByMove(tx, thread.mailboxId, changed);
  for (const name of CHANGED_FIELDS) {
    if (Object.hasOwn(after, name)) settleKeyChanges(tx, thread.seq, name, "person");
  }
  for (const { labelKey: label } of labelTouches(after.labels ?? [], before.labels ?? [])) {
    settleKeyChanges(tx, thread.seq, "label", "person", label);
  }
}

/** Gives fields of a conversation back the values that they had. */
export function restoreThreadFields(
  tx: Tx,
  thread: ThreadRow,
  before: Omit<State, "unread">,
  readState?: ReadState,
): void {
  const { folder, snoozedUntil, apart, starred, labels } = before;
  if (folder !== undefined) {
    statements.putInto(tx).run(folder, snoozedUntil ?? null, thread.seq);
    putBackMessageFolders(tx, thread.seq, folder, apart ?? []);
  }
  if (starred !== undefined) setThreadStarred(tx, thread.seq, starred);
  if (labels !== undefined) writeLabels(tx, thread.seq, labels);
  if (readState) putBackReadState(tx, thread.seq, readState);
}

/** The fields of a conversation but for its labels, each as key_changes keeps it. */
export interface KeptFields {
  folder: ReturnType<typeof folderState>;
  starred: boolean;
  unread: ReadState;
}

export const readUndoableFields = (tx: Tx, thread: ThreadRow): KeptFields => ({
  folder: folderState({ ...thread, apart: listApartMessages(tx, thread.seq) }),
  starred: thread.starred,
  unread: loadReadState(tx, thread.seq),
});

/** Takes back what a move taught a mailbox, except what it was taught otherwise since. */
export function undoTrainingByMove(
  tx: Tx,
  mailboxId: string,
  { relearned, taught }: Pick<AppliedChange, "relearned" | "taught">,
): void {
  for (const one of relearned.toReversed()) unlearnSender(tx, mailboxId, one);
  revertTraining(tx, mailboxId, taught);
}

function readThreadState(tx: Tx, id: string, names: readonly (keyof State)[]): State {
  const thread = queries(tx).byId.get({ id });
  if (!thread) throw new Error(`the conversation ${id} is gone within its own change`);
  const labels = listThreadLabels(tx, [thread.seq]).get(thread.seq) ?? [];
  return pick({ ...thread, labels, apart: names.includes("apart") ? listApartMessages(tx, thread.seq) : [] }, names);
}

const pick = (state: Required<State>, names: readonly (keyof State)[]): State =>
  Object.fromEntries(names.map((name) => [name, state[name]]));

/** Moves the conversation as a whole. Returns the messages.seq of those that moved. */
function putInto(tx: Tx, { seq, folder: from }: ThreadRow, folder: Folder, snoozedUntil: number | null): number[] {
  statements.putInto(tx).run(folder, snoozedUntil, seq);
  return moveWholeThread(tx, seq, from, folder);
}

const snoozeUntil = (tx: Tx, thread: ThreadRow, until: number | null): void => void putInto(tx, thread, "inbox", until);

function move(tx: Tx, thread: ThreadRow, folder: Folder, now: number): Lessons {
  const moved = putInto(tx, thread, folder, null);
  // To move a conversation to spam again teaches again.
  const among = folder === "spam" ? undefined : moved;
  const lessons = trainJunkFilterByMove(tx, thread, { from: thread.folder, to: folder }, now, among);
  if (folder === "trash") unscheduleThreadDrafts(tx, thread.seq);
  return lessons;
}

export const unscheduleThreadDrafts = (tx: Tx, threadSeq: number): void =>
  void statements.unscheduleDrafts(tx).run(threadSeq);

/** Lessons about spam that the mailbox learned from a move. */
type Lessons = Pick<AppliedChange, "relearned" | "taught">;

/** Teaches the mailbox by the move of a conversation, or of its messages `among` (messages.seq). */
export function trainJunkFilterByMove(
  tx: Tx,
  thread: ThreadRow,
  { from, to }: { from: Folder; to: Folder },
  now: number,
  among?: readonly number[],
): Lessons {
  const { mailboxId } = thread;
  const relearned: Relearned[] = [];
  let taught: Taught[] = [];
  if (to === "spam") {
    const [sender] = inboundSenders(tx, thread, among);
    if (sender !== undefined) relearned.push(...trainAsSpam(tx, mailboxId, sender, now));
    taught = trainJunkByConversation(tx, thread, "spam", among);
  } else if (to === "inbox" && from === "spam") {
    for (const sender of inboundSenders(tx, thread, among))
      relearned.push(...forgiveSender(tx, mailboxId, sender, now));
    taught = trainJunkByConversation(tx, thread, "ham", among);
  } else if (to === "archive" && from !== "archive") {
    // Archiving from spam says less than moving to the inbox: the filter forgets the conversation and learns nothing
    // else.
    taught = trainJunkByConversation(tx, thread, from === "spam" ? undefined : "ham", among);
  }
  return { relearned, taught };
}

/** The authors of received mail in a conversation, latest first, without this server's own notices. */
function inboundSenders(tx: Tx, thread: ThreadRow, among?: readonly number[]): Sender[] {
  const senders = new Map<string, Sender>();
  for (const { seq, from, auth } of queries(tx).senders.all({ threadSeq: thread.seq })) {
    if (among && !among.includes(seq)) continue;
    const sender = readJunkSender(from, auth);
    const key = `${sender.address} ${sender.spoofed}`;
    if (!senders.has(key)) senders.set(key, sender);
  }
  return [...senders.values()];
}

/*
 * Snoozing: a conversation leaves the inbox until a time and returns unread, at that time or with new mail (rules:
 * Snooze; threading.ts handles new mail).
 */

/** Conversations woken in one transaction. */
const PORTION = 100;

/** @throws AppError conflict for a conversation in drafts, spam or trash */
function requireSnoozable({ folder }: Pick<ThreadRow, "folder">): void {
  if (folder === "drafts" || folder === "spam" || folder === "trash") {
    throw new AppError("conflict", `A conversation in ${folder} cannot be snoozed`);
  }
}

/**
 * Snoozes a conversation of the inbox, archive or sent mail until `until` (epoch ms). @throws AppError not_found,
 * conflict
 */
export function setThreadSnooze(tx: Tx, threadId: string, until: number): void {
  const thread = queries(tx).byId.get({ id: threadId });
  if (!thread) throw outOfReachError("thread");
  requireSnoozable(thread);
  snoozeUntil(tx, thread, until);
}

/** Wakes the conversations that are due. */
export function wakeSnoozed({ db, store }: Core): Job {
  return {
    name: "wake-snoozed",
    runDue(now) {
      const due = db
        .select({ seq: threads.seq })
        .from(threads)
        .where(and(isNotNull(threads.snoozedUntil), lte(threads.snoozedUntil, now)))
        .orderBy(asc(threads.snoozedUntil))
        .limit(PORTION)
        .all();
      if (due.length > 0) {
        store.transact((tx) => {
          for (const { seq } of due) {
            tx.update(threads).set({ snoozedUntil: null }).where(eq(threads.seq, seq)).run();
            markUnread(tx, seq);
          }
        });
      }
      const next = db
        .select({ at: min(threads.snoozedUntil) })
        .from(threads)
        .where(isNotNull(threads.snoozedUntil))
        .get();
      return next?.at ?? null;
    },
  };
}
