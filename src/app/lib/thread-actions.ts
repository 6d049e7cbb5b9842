/**
 * Changes of one or many conversations. The page shows a change at once and sends it to the server in portions, after
 * the server is back if it is away. A toast then tells the result, refusals included, with an undo that restores the exact former state.
 */
import type { InfiniteData } from "@tanstack/react-query";
import { api } from "./api-client.ts";
import { formatCount } from "./format.ts";
import type {
  ListFilters,
  RefusedThread,
  ThreadChange,
  ThreadDetailView,
  ThreadListView,
  ThreadView,
} from "./mail-views.ts";
import { queryClient, refreshMail } from "./queries.ts";
import { sendInLine } from "./server-away.ts";
import { fullTime } from "./time-format.ts";
import { toast, toastFailure } from "./toast.ts";

/** Conversations in a request. Requests that train the junk filter have fewer, since training blocks the server. */
const AT_ONCE = 100;
const TRAINED_AT_ONCE = 25;

export type Target = NonNullable<ThreadChange["folder"]>;
type Lists = InfiniteData<ThreadListView, string | undefined>;

/** True if a conversation stays in the list after the change. */
function staysIn(
  { folder: list, label }: ListFilters,
  { folder, snoozedUntil, removeLabels = [] }: ThreadChange,
): boolean {
  if (label !== undefined && removeLabels.includes(label)) return false;
  if (snoozedUntil !== undefined) return list === undefined || ["all", "starred", "snoozed"].includes(list);
  if (folder === undefined || folder === list) return true;
  return (list === undefined || list === "all" || list === "starred") && folder !== "trash" && folder !== "spam";
}

function shownAs(thread: ThreadView, change: ThreadChange): ThreadView {
  const { folder, snoozedUntil, unread, starred, addLabels = [], removeLabels = [] } = change;
  const { snoozedUntil: before, ...rest } = thread;
  const until = snoozedUntil ?? (folder === undefined ? before : undefined);
  return {
    ...rest,
    ...(until !== undefined && { snoozedUntil: until }),
    ...(folder !== undefined && { folder }),
    ...(unread !== undefined && { unread }),
    ...(starred !== undefined && { starred }),
    labels: [...new Set([...thread.labels, ...addLabels])].filter((label) => !removeLabels.includes(label)),
  };
}

/** Replaces conversations in all cached lists and details by `shown` of them; undefined removes them from the list. */
function show(
  ids: ReadonlySet<string>,
  toShownThread: (thread: ThreadView, list?: ListFilters) => ThreadView | undefined,
): void {
  for (const [key, lists] of queryClient.getQueriesData<Lists>({ queryKey: ["threads"] })) {
    if (!lists) continue;
    const filters = key[1] as ListFilters;
    const inList = (thread: ThreadView) => (ids.has(thread.id) ? (toShownThread(thread, filters) ?? []) : thread);
    const pages = lists.pages.map((page) => ({ ...page, threads: page.threads.flatMap(inList) }));
    queryClient.setQueryData<Lists>(key, { ...lists, pages });
  }
  for (const id of ids) {
    queryClient.setQueryData<ThreadDetailView>(["thread", id], (detail) => {
      const thread = detail && toShownThread(detail.thread);
      return thread && { ...detail, thread };
    });
  }
}

/** `done`, with the count if it is not 1. */
const formatDoneCount = (done: string, count: number): string =>
  count === 1 ? done : `${done}: ${formatCount(count, "conversation")}`;

function tellRefused(refused: readonly RefusedThread[], done: string, count: number): string {
  const [first] = refused;
  const why = `${first?.error}${refused.length > 1 ? `, and ${refused.length - 1} more` : ""}`;
  return count === 0 ? why : `${formatDoneCount(done, count)}. Not done: ${why}`;
}

/** Works through `all` in portions, and shows the progress if there are several. */
async function inPortions<T>(
  all: readonly T[],
  doing: string,
  work: (portion: readonly T[]) => Promise<void>,
  atOnce = AT_ONCE,
): Promise<void> {
  for (let from = 0; from < all.length; from += atOnce) {
    if (all.length > AT_ONCE)
      toast({ text: `${doing}: ${from.toLocaleString()} of ${formatCount(all.length, "conversation")}…` });
    await work(all.slice(from, from + atOnce));
  }
}

async function undoAll(undos: readonly string[]): Promise<void> {
  const refused: RefusedThread[] = [];
  let count = 0;
  try {
    for (const undo of undos.toReversed()) {
      const result = await sendInLine(() => api.undoChange({ undo }));
      refused.push(...result.refused);
      count += result.threads.length;
    }
    if (refused.length === 0) toast({ text: formatDoneCount("Undone", count) });
    else toast({ text: tellRefused(refused, "Undone", count), tone: "danger" });
  } catch (error) {
    toastFailure(error);
  } finally {
    refreshMail();
  }
}

/** Changes conversations, and returns their undo. `done`: text for success; undefined: only failures are told. */
async function change(
  threads: readonly ThreadView[],
  what: ThreadChange,
  done: string | undefined,
): Promise<() => void> {
  const undos: string[] = [];
  const undo = () => void undoAll(undos);
  if (threads.length === 0) return undo;
  await queryClient.cancelQueries({ queryKey: ["threads"] });
  const ids = threads.map(({ id }) => id);
  show(new Set(ids), (thread, list) => (list && !staysIn(list, what) ? undefined : shownAs(thread, what)));
  const refused: RefusedThread[] = [];
  let count = 0;
  try {
    const portion = async (some: readonly string[]) => {
      const result = await sendInLine(() => api.changeThreads({ ids: [...some], ...what }));
      if (result.undo !== undefined) undos.push(result.undo);
      refused.push(...result.refused);
      count += result.threads.length;
      const now = new Map(result.threads.map((thread) => [thread.id, thread]));
      show(new Set(now.keys()), (thread) => now.get(thread.id));
    };
    const trains = what.folder !== undefined && what.folder !== "trash";
    await inPortions(ids, done ?? "Changed", portion, trains ? TRAINED_AT_ONCE : AT_ONCE);
    if (refused.length > 0) {
      const text = tellRefused(refused, done ?? "Changed", count);
      toast({ text, tone: "danger", ...(count > 0 && { undo, lasting: true }) });
    } else if (done !== undefined) toast({ text: formatDoneCount(done, count), undo, lasting: true });
  } catch (error) {
    const text =
      count === 0
        ? (error as Error).message
        : `${formatDoneCount(done ?? "Changed", count)}. ${(error as Error).message}`;
    toast({ text, tone: "danger", ...(count > 0 && { undo, lasting: true }) });
  } finally {
    refreshMail();
  }
  return undo;
}

async function deleteForGood(threads: readonly ThreadView[]): Promise<void> {
  const ids = threads.map(({ id }) => id);
  show(new Set(ids), (thread, list) => (list ? undefined : thread));
  const refused: RefusedThread[] = [];
  let count = 0;
  try {
    await inPortions(ids, "Deleted", async (portion) => {
      const result = await sendInLine(() => api.deleteThreads({ ids: [...portion] }));
      count += result.deleted.length;
      refused.push(...result.refused);
    });
    if (refused.length === 0) toast({ text: formatDoneCount("Deleted for good", count) });
    else toast({ text: tellRefused(refused, "Deleted for good", count), tone: "danger" });
  } catch (error) {
    toastFailure(error);
  } finally {
    refreshMail();
  }
}

const MOVED: Record<Target, string> = {
  inbox: "Moved to inbox",
  archive: "Archived",
  trash: "Moved to trash",
  spam: "Marked as spam",
};

export const threadActions = {
  move: (threads: readonly ThreadView[], folder: Target) => {
    const fromSpam = folder === "inbox" && threads.some((thread) => thread.folder === "spam");
    return change(threads, { folder }, fromSpam ? "Not spam" : MOVED[folder]);
  },
  /** Beside the sending of a reply, which is told instead. */
  archiveQuietly: (threads: readonly ThreadView[]) => change(threads, { folder: "archive" }, undefined),
  star: (threads: readonly ThreadView[], starred: boolean) =>
    change(threads, { starred }, threads.length === 1 ? undefined : starred ? "Starred" : "Star removed"),
  /** `isAnnounced`: false when opening the conversation marks it as read. */
  markUnread: (threads: readonly ThreadView[], unread: boolean, isAnnounced = true) =>
    change(threads, { unread }, isAnnounced ? (unread ? "Marked as unread" : "Marked as read") : undefined),
  snooze: (threads: readonly ThreadView[], until: Date) =>
    change(threads, { snoozedUntil: until.toISOString() }, `Snoozed until ${fullTime(until.toISOString())}`),
  addLabel: (threads: readonly ThreadView[], label: string) =>
    change(threads, { addLabels: [label] }, `Labelled ${label}`),
  removeLabel: (threads: readonly ThreadView[], label: string) =>
    change(threads, { removeLabels: [label] }, `Label ${label} removed`),
  deleteForGood,
};
