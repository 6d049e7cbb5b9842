/**
 * Conversations for a caller: shown whole, changed one by one or several at once, undone, and deleted for good (rules:
 * One conversation, Changing a conversation, Folders, Spam).
 *
 * Several conversations are changed or refused one by one, and all changes commit together. Undo is kept in memory, for
 * a limited time and number of conversations; a restart forgets it.
 */
import { type Caller, outOfReachError, requireAccess } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { type Static, t } from "../../base/json-schema.ts";
import { newId } from "../../base/runtime.ts";
import { addJournalEntry } from "../../journal/entries.ts";
import type { Core, Reader } from "../../store/core.ts";
import { perDatabase } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { messagesOfThread } from "../reading/messages.ts";
import { listThreadLabels, requireNonEmptyLabels } from "../state/labels.ts";
import { mailboxesInReach, resolveMailboxId } from "../state/mailboxes.ts";
import { type ThreadDetailView, type ThreadPatch, ThreadView, threadView } from "../state/views.ts";
import {
  type AppliedChange,
  changeThread,
  isEffectiveThreadChange,
  reachedThread,
  revertChange,
  type ThreadChange,
} from "./change.ts";
import { requireNotHeld } from "./holds.ts";
import { deleteApart, deleteConversationPortion, deleteConversations, requireDeletable } from "./removal.ts";

const readThreadView = (db: Db, caller: Caller, id: string): ThreadView => {
  const { thread, reach } = reachedThread(db, caller, id);
  return threadView(thread, reach, listThreadLabels(db, [thread.seq]).get(thread.seq) ?? []);
};

/** @throws AppError not_found */
export function getThread({ db }: Reader, caller: Caller, id: string, options: { html: boolean }): ThreadDetailView {
  const { thread, reach } = reachedThread(db, caller, id);
  return {
    thread: threadView(thread, reach, listThreadLabels(db, [thread.seq]).get(thread.seq) ?? []),
    messages: messagesOfThread(db, caller, thread.seq, options),
    permissions: { send: reach.access.send, manage: reach.access.manage },
  };
}

/** @throws AppError bad_request, not_found, forbidden, conflict, unprocessable; then nothing has changed */
export function updateThread(
  { store, now }: Core,
  caller: Caller,
  id: string,
  { read, ...patch }: ThreadPatch,
): ThreadView {
  const unread = readUnreadPatch({ read, unread: patch.unread });
  requireNonEmptyLabels(patch);
  return store.transact((tx) => {
    note(tx, caller, [changeThread(tx, caller, id, { ...patch, unread }, now())], now());
    return readThreadView(tx, caller, id);
  });
}

/** Changes or refuses each of several conversations; `ids` are distinct. @throws AppError bad_request */
export function updateThreads(
  core: Core,
  caller: Caller,
  ids: readonly string[],
  { read, ...patch }: ThreadPatch,
): ChangedThreads {
  const unread = readUnreadPatch({ read, unread: patch.unread });
  const { changes: _, ...result } = changeEach(core, caller, ids, { ...patch, unread });
  return result;
}

/** Snoozes a conversation until `until` (epoch ms), or ends that. @throws AppError not_found, forbidden, conflict */
export function snoozeThread({ store, now }: Core, caller: Caller, id: string, until: number | null): ThreadView {
  return store.transact((tx) => {
    note(tx, caller, [changeThread(tx, caller, id, { snoozedUntil: until }, now())], now());
    return readThreadView(tx, caller, id);
  });
}

export type LabelChange = Pick<ThreadPatch, "labels" | "addLabels" | "removeLabels">;

/** Changes the labels of conversations; `ids` are distinct, `now` is epoch ms. @throws AppError; then nothing has changed */
export function labelThreads(tx: Tx, caller: Caller, ids: readonly string[], labels: LabelChange, now: number): void {
  requireNonEmptyLabels(labels);
  note(
    tx,
    caller,
    ids.map((id) => changeThread(tx, caller, id, labels, now)),
    now,
  );
}

/** Notes the changes of a key that changed anything. */
function note(tx: Tx, caller: Caller, changes: readonly AppliedChange[], now: number): void {
  const ids = changes.filter(isEffectiveThreadChange).map(({ threadId }) => threadId);
  if (ids.length > 0) addJournalEntry(tx, caller, { ids, changes: ids.length }, now);
}

/** @throws AppError bad_request if `read` and `unread` contradict each other */
function readUnreadPatch({ read, unread }: Pick<ThreadPatch, "read" | "unread">): boolean | undefined {
  if (read !== undefined && read === unread) {
    throw new AppError("bad_request", `read and unread cannot both be ${read}: give one of them`);
  }
  return unread ?? (read === undefined ? undefined : !read);
}

/** Messages deleted in one transaction, which blocks everything else while it runs. */
const DELETED_AT_ONCE = 200;

/**
 * Deletes everything in trash or spam of a mailbox (id or address) for good, in portions; returns the number of conversations.
 * @throws AppError not_found, forbidden
 */
export async function emptyFolder(
  { store }: Core,
  caller: Caller,
  mailbox: string,
  folder: "trash" | "spam",
): Promise<number> {
  let deleted = 0;
  for (;;) {
    const portion = await store.enqueue((tx) => {
      // Checked for each portion: the caller's share of the mailbox may end meanwhile.
      const [reach] = mailboxesInReach(tx, caller, resolveMailboxId(tx, caller, mailbox)).values();
      if (!reach) throw outOfReachError("mailbox");
      requireAccess(reach, "manage");
      const conversations = deleteConversationPortion(tx, reach.mailbox.id, DELETED_AT_ONCE, folder);
      return { conversations, isDone: conversations === 0 && deleteApart(tx, reach.mailbox.id, folder) === 0 };
    });
    if (portion.isDone) return deleted;
    deleted += portion.conversations;
  }
}

/** The answer to a change of several conversations, in their new state (rules: Errors). */
export const ChangedThreads = t.Object({
  threads: t.Array(ThreadView, { description: "Those that were changed" }),
  refused: t.Array(t.Object({ id: t.String(), code: t.String(), error: t.String() })),
});
export type ChangedThreads = Static<typeof ChangedThreads>;
type Refused = ChangedThreads["refused"][number];

/** `undo`: names the change for `undoChange`; absent if nothing was changed. */
export interface BulkResult extends ChangedThreads {
  undo?: string;
}

/**
 * How long a change can be undone (ms), and limits on the conversations kept for it, per person and in all; each takes
 * some hundred bytes.
 */
const REMEMBERED_MS = 30 * 60_000;
const MOST_BY_PERSON = 10_000;
const MOST = 50_000;

/** Changes or refuses each of `ids`, which are distinct; all changes commit together. @throws AppError bad_request */
function changeEach({ store, now }: Core, caller: Caller, ids: readonly string[], change: ThreadChange) {
  requireNonEmptyLabels(change);
  return store.transact((tx) => {
    const { done, refused } = applyToEach(ids, (id) => changeThread(tx, caller, id, change, now()));
    note(tx, caller, done, now());
    return { changes: done, refused, threads: done.map(({ threadId }) => readThreadView(tx, caller, threadId)) };
  });
}

interface Remembered {
  userId: string;
  until: number;
  changes: readonly AppliedChange[];
}

/** Changes that can be undone, oldest first. */
const rememberedChanges = perDatabase(() => new Map<string, Remembered>());

function remember({ db, runtime }: Core, userId: string, changes: readonly AppliedChange[]): string {
  const remembered = rememberedChanges(db);
  const now = runtime.now();
  /** Forgets the oldest and the expired of `entries`, so that with the new changes at most `most` are kept. */
  const makeRoom = (most: number, entries: [id: string, Remembered][]) => {
    let count = entries.reduce((sum, [, one]) => sum + one.changes.length, changes.length);
    for (const [id, one] of entries) {
      if (count <= most && one.until > now) break;
      remembered.delete(id);
      count -= one.changes.length;
    }
  };
  const ofPerson = [...remembered].filter(([, one]) => one.userId === userId);
  makeRoom(MOST_BY_PERSON, ofPerson);
  makeRoom(MOST, [...remembered]);
  const id = newId(runtime, "und");
  remembered.set(id, { userId, until: now + REMEMBERED_MS, changes });
  return id;
}

/** `ids` are distinct. @throws AppError bad_request for an empty label */
export function changeThreads(core: Core, caller: Caller, ids: readonly string[], change: ThreadChange): BulkResult {
  const { changes, ...result } = changeEach(core, caller, ids, change);
  return { ...result, ...(changes.length > 0 && { undo: remember(core, caller.userId, changes) }) };
}

/** @throws AppError not_found for a change that is forgotten or was made by another person */
export function undoChange({ db, store, now }: Core, caller: Caller, undo: string): ChangedThreads {
  const remembered = rememberedChanges(db);
  const found = remembered.get(undo);
  if (found?.userId !== caller.userId || found.until <= now()) {
    throw new AppError("not_found", "This can no longer be undone");
  }
  const result = store.transact((tx) => {
    // In reverse order, because several changes may have taught the mailbox about one sender.
    const { done, refused } = applyToEach(found.changes.toReversed(), (changed) => {
      revertChange(tx, caller, changed);
      return changed.threadId;
    });
    return { refused, threads: done.map((id) => readThreadView(tx, caller, id)) };
  });
  remembered.delete(undo);
  return result;
}

/** Deletes drafts and conversations in trash or spam for good, in portions. */
export async function deleteThreads(
  { store }: Core,
  caller: Caller,
  ids: readonly string[],
): Promise<{ deleted: string[]; refused: Refused[] }> {
  const deleted: string[] = [];
  const refused: Refused[] = [];
  for (let next = 0; next < ids.length; ) {
    const from = next;
    const portion = await store.enqueue((tx) => {
      let count = 0;
      next = from;
      return applyToEach(
        (function* () {
          while (next < ids.length && count < DELETED_AT_ONCE) yield ids[next++] as string;
        })(),
        (id) => {
          count += deleteThread(tx, caller, id);
          return id;
        },
      );
    });
    deleted.push(...portion.done);
    refused.push(...portion.refused);
  }
  return { deleted, refused };
}

/** Returns the number of deleted messages. @throws AppError not_found, forbidden, conflict */
function deleteThread(tx: Tx, caller: Caller, id: string): number {
  const { thread, reach } = reachedThread(tx, caller, id);
  requireAccess(reach, "manage");
  requireDeletable(tx, thread);
  requireNotHeld(tx, thread);
  deleteConversations(tx, thread.mailboxId, [thread.seq]);
  return thread.messageCount;
}

/** Applies `work` to each. A refusal affects only its own item; any other failure ends the whole. */
function applyToEach<T extends string | AppliedChange, R>(
  given: Iterable<T>,
  work: (one: T) => R,
): { done: R[]; refused: Refused[] } {
  const done: R[] = [];
  const refused: Refused[] = [];
  for (const one of given) {
    try {
      done.push(work(one));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      refused.push({ id: typeof one === "string" ? one : one.threadId, code: error.code, error: error.message });
    }
  }
  return { done, refused };
}
