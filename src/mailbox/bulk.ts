/**
 * What somebody does with several conversations at once, and undoing it. Each is changed or refused by itself, and all
 * that are changed commit together.
 *
 * What can be undone is remembered in memory, for a while and up to a number: it is for second thoughts, and a restart
 * forgets it.
 */
import { type Caller, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { newId, type Runtime } from "../base/runtime.ts";
import type { Store, Tx } from "../store/store.ts";
import { type Changed, changeThread, reachedThread, type ThreadChange, takeBack } from "./change.ts";
import { labelsOf, requireLabels } from "./labels.ts";
import { deleteConversations, requireDeletable } from "./removal.ts";
import { threadView } from "./thread-view.ts";
import type { ThreadView } from "./views.ts";

/** Why one of several was left as it is. */
export interface Refused {
  id: string;
  /** As in rules: Errors. */
  code: string;
  /** For people. */
  error: string;
}

export interface BulkResult {
  /** As they are now. */
  threads: ThreadView[];
  refused: Refused[];
  /** Names the change for `undoChange`; absent when nothing was changed. */
  undo?: string;
}

/** Remembered so long, ms, and of so many conversations by person and in all: some hundred bytes each. */
const REMEMBERED_MS = 30 * 60_000;
const MOST_BY_PERSON = 10_000;
const MOST = 50_000;
/** Messages deleted in one transaction: as long as it takes, nothing else is done. */
const DELETED_AT_ONCE = 200;

interface Remembered {
  userId: string;
  until: number;
  changes: readonly Changed[];
}

export function createBulk({ store, runtime }: { store: Store; runtime: Pick<Runtime, "now" | "randomBytes"> }) {
  /** Oldest first. */
  const remembered = new Map<string, Remembered>();

  function remember(userId: string, changes: readonly Changed[]): string {
    const now = runtime.now();
    const forget = (most: number, isMeant: (one: Remembered) => boolean) => {
      const meant = [...remembered].filter(([, one]) => isMeant(one));
      let count = meant.reduce((sum, [, one]) => sum + one.changes.length, changes.length);
      for (const [id, one] of meant) {
        if (count <= most && one.until > now) break;
        remembered.delete(id);
        count -= one.changes.length;
      }
    };
    forget(MOST_BY_PERSON, (one) => one.userId === userId);
    forget(MOST, () => true);
    const id = newId(runtime, "und");
    remembered.set(id, { userId, until: now + REMEMBERED_MS, changes });
    return id;
  }

  const viewOf = (tx: Tx, caller: Caller, id: string): ThreadView => {
    const { thread, reach } = reachedThread(tx, caller, id);
    return threadView(thread, reach, labelsOf(tx, [thread.seq]).get(thread.seq) ?? []);
  };

  return {
    /** `ids`: no one twice. @throws AppError bad_request for a label of nothing */
    changeThreads(caller: Caller, ids: readonly string[], change: ThreadChange): BulkResult {
      requireLabels(change);
      const { changes, ...result } = store.transact((tx) => {
        const { done, refused } = eachOf(ids, (id) => changeThread(tx, caller, id, change, runtime.now()));
        return { changes: done, refused, threads: done.map(({ threadId }) => viewOf(tx, caller, threadId)) };
      });
      return { ...result, ...(changes.length > 0 && { undo: remember(caller.userId, changes) }) };
    },

    /** @throws AppError not_found when it is not remembered, or is another person's */
    undoChange(caller: Caller, undo: string): Omit<BulkResult, "undo"> {
      const found = remembered.get(undo);
      if (found?.userId !== caller.userId || found.until <= runtime.now()) {
        throw new AppError("not_found", "This can no longer be undone");
      }
      const result = store.transact((tx) => {
        // The last first: they may have taught the mailbox of one sender.
        const { done, refused } = eachOf(found.changes.toReversed(), (changed) => {
          takeBack(tx, caller, changed);
          return changed.threadId;
        });
        return { refused, threads: done.map((id) => viewOf(tx, caller, id)) };
      });
      remembered.delete(undo);
      return result;
    },

    /** For good: drafts, and what is in trash or spam; in portions. */
    async deleteThreads(caller: Caller, ids: readonly string[]): Promise<{ deleted: string[]; refused: Refused[] }> {
      const deleted: string[] = [];
      const refused: Refused[] = [];
      for (let next = 0; next < ids.length; ) {
        const from = next;
        const portion = await store.enqueue((tx) => {
          let count = 0;
          next = from;
          return eachOf(
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
    },
  };
}

/** How many messages went. @throws AppError not_found, forbidden, conflict */
function deleteThread(tx: Tx, caller: Caller, id: string): number {
  const { thread, reach } = reachedThread(tx, caller, id);
  requireAccess(reach, "manage");
  requireDeletable(tx, thread);
  deleteConversations(tx, thread.mailboxId, [thread.seq]);
  return thread.messageCount;
}

/** Does it with each; one that is refused leaves the others alone. Any other failure is everybody's. */
function eachOf<T extends string | Changed, R>(
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
