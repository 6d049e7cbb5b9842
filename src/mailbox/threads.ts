/** One conversation: shown whole, and changed (spec: GET and PATCH /threads/{id}; contract: Folders, Spam). */
import { isDeepStrictEqual } from "node:util";
import { and, desc, eq, isNotNull, sql } from "drizzle-orm";
import { type Caller, notFound, type Reach, reachTo, requireAccess } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { prepared } from "../store/prepared.ts";
import { type Folder, messages, threads } from "../store/schema.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { moveMessages } from "./folders.ts";
import { teachConversation } from "./junk/training.ts";
import { labelsOf, patchedLabels, requireLabels, writeLabels } from "./labels.ts";
import { mailboxesToList, mailboxIdOf } from "./mailboxes.ts";
import { messagesOfThread } from "./messages.ts";
import { markRead, markUnread } from "./read-state.ts";
import { deleteConversations, deletePortion } from "./removal.ts";
import { forgive, type Sender, senderOf, trainAsSpam } from "./senders.ts";
import { snooze } from "./snooze.ts";
import { threadView } from "./thread-view.ts";
import { isDraft, type ThreadRow } from "./threading.ts";
import type { ThreadDetailView, ThreadPatch, ThreadView } from "./views.ts";

const threadById = prepared((db) =>
  db
    .select()
    .from(threads)
    .where(eq(threads.id, sql.placeholder("id")))
    .prepare(),
);

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

    update(caller: Caller, id: string, patch: ThreadPatch): ThreadView {
      const unread = unreadOf(patch);
      requireLabels(patch);
      return store.transact((tx) => {
        const { thread, reach } = reachedThread(tx, caller, id);
        if (Object.entries(patch).some(([name, value]) => value !== undefined && NEEDS_MANAGE.has(name))) {
          requireAccess(reach, "manage");
        }
        if (patch.folder !== undefined) move(tx, thread, patch.folder, runtime.now());
        if (patch.starred !== undefined) {
          tx.update(threads).set({ starred: patch.starred }).where(eq(threads.seq, thread.seq)).run();
        }
        const labels = labelsOf(tx, [thread.seq]).get(thread.seq) ?? [];
        const patched = patchedLabels(labels, patch);
        if (!isDeepStrictEqual(patched, labels)) writeLabels(tx, thread.seq, patched);
        if (unread === true && !thread.unread) markUnread(tx, thread.seq);
        if (unread === false) markRead(tx, thread.seq);
        return shown(tx, caller, id);
      });
    },

    snoozeFor(caller: Caller, id: string, until: number): ThreadView {
      return store.transact((tx) => {
        requireAccess(reachedThread(tx, caller, id).reach, "manage");
        snooze(tx, id, until);
        return shown(tx, caller, id);
      });
    },

    deleteThread(caller: Caller, id: string): void {
      store.transact((tx) => {
        const { thread, reach } = reachedThread(tx, caller, id);
        requireAccess(reach, "manage");
        if (thread.folder !== "trash" && thread.folder !== "spam" && !isDraft(tx, thread.seq)) {
          throw new AppError(
            "conflict",
            "Only drafts, and what is in trash or spam, can be deleted: move it there first",
          );
        }
        deleteConversations(tx, thread.mailboxId, [thread.seq]);
      });
    },

    async emptyFolder(caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number> {
      let deleted = 0;
      for (;;) {
        const portion = await store.enqueue((tx) => {
          // Each time: the share of the mailbox may end meanwhile.
          const [reach] = mailboxesToList(tx, caller, mailboxIdOf(tx, mailbox)).values();
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

/** Everything but the read state (spec: PATCH /threads/{id}). */
const NEEDS_MANAGE: ReadonlySet<string> = new Set(["starred", "folder", "labels", "addLabels", "removeLabels"]);

/** @throws AppError bad_request when `read` and `unread` contradict each other */
function unreadOf({ read, unread }: ThreadPatch): boolean | undefined {
  if (read !== undefined && read === unread) {
    throw new AppError("bad_request", `read and unread cannot both be ${read}: give one of them`);
  }
  return unread ?? (read === undefined ? undefined : !read);
}

/** @throws AppError not_found, the same when it does not exist and when it is not reached */
export function reachedThread(db: Db, caller: Caller, id: string): { thread: ThreadRow; reach: Reach } {
  const thread = threadById(db).get({ id });
  const reach = thread && reachTo(db, caller, thread.mailboxId);
  if (!thread || !reach) throw notFound("thread");
  return { thread, reach };
}

/** @throws AppError conflict for a draft that would go anywhere but to trash */
function move(tx: Tx, thread: ThreadRow, folder: Folder, now: number): void {
  if (folder !== "trash" && isDraft(tx, thread.seq)) {
    throw new AppError("conflict", "A draft can only be moved to trash");
  }
  if (folder === "spam") {
    const [sender] = inboundSenders(tx, thread);
    if (sender !== undefined) trainAsSpam(tx, thread.mailboxId, sender, now);
    teachConversation(tx, thread, "spam");
  } else if (folder === "inbox" && thread.folder === "spam") {
    for (const sender of inboundSenders(tx, thread)) forgive(tx, thread.mailboxId, sender, now);
    teachConversation(tx, thread, "ham");
  } else if (folder === "archive" && thread.folder !== "archive") {
    // Out of spam it is less than forgiven: what was learned is taken back, and nothing else learned.
    teachConversation(tx, thread, thread.folder === "spam" ? undefined : "ham");
  }
  tx.update(threads).set({ folder, snoozedUntil: null }).where(eq(threads.seq, thread.seq)).run();
  if (folder !== thread.folder) moveMessages(tx, thread.seq, folder);
}

/** Who wrote to us in it, the latest first; without our own notices. */
function inboundSenders(tx: Tx, thread: ThreadRow): Sender[] {
  const rows = tx
    .select({ from: messages.from, auth: messages.auth })
    .from(messages)
    .where(and(eq(messages.threadSeq, thread.seq), eq(messages.kind, "received"), isNotNull(messages.receivedOn)))
    .orderBy(desc(messages.date), desc(messages.seq))
    .all();
  const senders = new Map<string, Sender>();
  for (const { from, auth } of rows) {
    const sender = senderOf(from, auth);
    const key = `${sender.address} ${sender.spoofed}`;
    if (!senders.has(key)) senders.set(key, sender);
  }
  return [...senders.values()];
}
