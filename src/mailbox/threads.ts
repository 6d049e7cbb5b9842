/** One conversation: shown whole, and changed (rules: One conversation, Changing a conversation, Folders, Spam). */
import { type Caller, notFound, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Store, Tx } from "../store/store.ts";
import { changeThread, reachedThread } from "./change.ts";
import { labelsOf, requireLabels } from "./labels.ts";
import { mailboxesToList, mailboxIdOf } from "./mailboxes.ts";
import { messagesOfThread } from "./messages.ts";
import { deletePortion } from "./removal.ts";
import { threadView } from "./thread-view.ts";
import type { ThreadDetailView, ThreadPatch, ThreadView } from "./views.ts";

export function createThreads(store: Store, runtime: Pick<Runtime, "now">) {
  const { db } = store;

  const shown = (tx: Tx, caller: Caller, id: string): ThreadView => {
    const { thread, reach } = reachedThread(tx, caller, id);
    return threadView(thread, reach, labelsOf(tx, [thread.seq]).get(thread.seq) ?? []);
  };

  return {
    getThread(caller: Caller, id: string, options: { html: boolean }): ThreadDetailView {
      const { thread, reach } = reachedThread(db, caller, id);
      return {
        thread: threadView(thread, reach, labelsOf(db, [thread.seq]).get(thread.seq) ?? []),
        messages: messagesOfThread(store, caller, thread.seq, options),
        permissions: { send: reach.access.send, manage: reach.access.manage },
      };
    },

    update(caller: Caller, id: string, { read, ...patch }: ThreadPatch): ThreadView {
      const unread = unreadOf({ read, unread: patch.unread });
      requireLabels(patch);
      return store.transact((tx) => {
        changeThread(tx, caller, id, { ...patch, unread }, runtime.now());
        return shown(tx, caller, id);
      });
    },

    async emptyFolder(caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number> {
      let deleted = 0;
      for (;;) {
        const portion = await store.enqueue((tx) => {
          // Each time: the share of the mailbox may end meanwhile.
          const [reach] = mailboxesToList(tx, caller, mailboxIdOf(tx, caller, mailbox)).values();
          if (!reach) throw notFound("mailbox");
          requireAccess(reach, "manage");
          return deletePortion(tx, reach.mailbox.id, EMPTIED_AT_ONCE, folder);
        });
        if (portion === 0) return deleted;
        deleted += portion;
      }
    },
  };
}

/** Messages deleted in one transaction. */
const EMPTIED_AT_ONCE = 200;

/** @throws AppError bad_request when `read` and `unread` contradict each other */
function unreadOf({ read, unread }: Pick<ThreadPatch, "read" | "unread">): boolean | undefined {
  if (read !== undefined && read === unread) {
    throw new AppError("bad_request", `read and unread cannot both be ${read}: give one of them`);
  }
  return unread ?? (read === undefined ? undefined : !read);
}
