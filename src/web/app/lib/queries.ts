/** What the app knows of the server's state, how long it believes it, and how it changes it: one place for TanStack Query. */
import {
  type InfiniteData,
  infiniteQueryOptions,
  QueryClient,
  queryOptions,
  useMutation,
  useQueryClient,
} from "@tanstack/react-query";
import {
  api,
  type ListFilters,
  type ThreadDetailView,
  type ThreadListView,
  type ThreadPatch,
  type ThreadView,
} from "./api.ts";
import { Refusal } from "./ask.ts";
import { type Toast, toast } from "./toast.ts";

const PAGE = 40;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 20_000,
      retry: (failures, error) =>
        failures < 2 && !(error instanceof Refusal && error.status >= 400 && error.status < 500),
    },
  },
});

export const meQuery = queryOptions({ queryKey: ["me"], queryFn: api.me, staleTime: 300_000 });

export const mailboxesQuery = queryOptions({
  queryKey: ["mailboxes"],
  queryFn: async () => (await api.mailboxes()).mailboxes,
});

export const threadsQuery = (filters: Pick<ListFilters, "mailbox" | "folder" | "q">) =>
  infiniteQueryOptions({
    queryKey: ["threads", filters],
    queryFn: ({ pageParam }) => api.threads({ ...filters, limit: PAGE, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: ThreadListView) => page.nextCursor ?? undefined,
  });

/** How many conversations are unread in a folder. */
export const unreadQuery = (mailbox: string, folder: string) =>
  queryOptions({
    queryKey: ["unread", mailbox, folder],
    queryFn: async () => (await api.threads({ mailbox, folder, limit: 1 })).unread,
  });

export const threadQuery = (id: string) => queryOptions({ queryKey: ["thread", id], queryFn: () => api.thread(id) });

export const draftQuery = (id: string) =>
  queryOptions({
    queryKey: ["draft", id],
    queryFn: () => api.draft(id),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });

/** Whom an answer would go to. Asked anew each time: mail may have come meanwhile. */
export const answerQuery = (id: string, all: boolean) =>
  queryOptions({ queryKey: ["answer", id, all], queryFn: () => api.answerTo(id, all), staleTime: 0, gcTime: 0 });

/** Everything that new mail, or a change of any, makes doubtful. */
export function refreshMail(threadIds?: readonly string[]): void {
  for (const key of ["threads", "mailboxes", "unread"]) void queryClient.invalidateQueries({ queryKey: [key] });
  if (threadIds === undefined) void queryClient.invalidateQueries({ queryKey: ["thread"] });
  for (const id of threadIds ?? []) void queryClient.invalidateQueries({ queryKey: ["thread", id] });
}

type Lists = InfiniteData<ThreadListView, string | undefined>;

/** Shows a change at once, wherever the conversation is shown; `undefined` takes it out of the lists. */
function show(id: string, change: ((thread: ThreadView) => ThreadView) | undefined): void {
  const inList = (thread: ThreadView): ThreadView[] => {
    if (thread.id !== id) return [thread];
    return change ? [change(thread)] : [];
  };
  queryClient.setQueriesData<Lists>(
    { queryKey: ["threads"] },
    (lists) =>
      lists && { ...lists, pages: lists.pages.map((page) => ({ ...page, threads: page.threads.flatMap(inList) })) },
  );
  if (!change) return;
  queryClient.setQueryData<ThreadDetailView>(
    ["thread", id],
    (detail) => detail && { ...detail, thread: change(detail.thread) },
  );
}

const shownAs = (thread: ThreadView, { unread, starred }: ThreadPatch): ThreadView => ({
  ...thread,
  ...(unread !== undefined && { unread }),
  ...(starred !== undefined && { starred }),
});

export type Target = "inbox" | "archive" | "trash" | "spam";
const TOLD: Record<Target, string> = {
  inbox: "Moved to inbox",
  archive: "Archived",
  trash: "Moved to trash",
  spam: "Marked as spam",
};
const isTarget = (folder: string): folder is Target => folder in TOLD;

interface Change {
  thread: ThreadView;
  change: ThreadPatch;
  /** What to say once it is done. */
  told?: Toast;
}

/** What somebody does with a conversation. Each is shown at once; one that fails is taken back and told. */
export function useThreadActions() {
  const client = useQueryClient();
  // Of the mutation, not of its call: the page that began it may be gone when it ends.
  const callbacks = {
    onSuccess: (_: unknown, { told }: { told?: Toast }) => {
      if (told) toast(told);
    },
    onError: (error: Error) => toast({ text: error.message, tone: "danger" as const }),
    onSettled: () => refreshMail(),
  };

  const patch = useMutation({
    mutationFn: ({ thread, change }: Change) => api.update(thread.id, change),
    onMutate: async ({ thread, change }) => {
      await client.cancelQueries({ queryKey: ["threads"] });
      show(thread.id, change.folder === undefined ? (shown) => shownAs(shown, change) : undefined);
    },
    ...callbacks,
  });
  const snooze = useMutation({
    mutationFn: ({ thread, until }: { thread: ThreadView; until: Date; told: Toast }) =>
      api.snooze(thread.id, until.toISOString()),
    onMutate: ({ thread }) => show(thread.id, undefined),
    ...callbacks,
  });
  const remove = useMutation({
    mutationFn: ({ thread }: { thread: ThreadView; told: Toast }) => api.deleteThread(thread.id),
    onMutate: ({ thread }) => show(thread.id, undefined),
    ...callbacks,
  });

  /** Puts it back where it was, as far as conversations can be moved there. */
  const undoOf = (thread: ThreadView): Pick<Toast, "undo"> => {
    if (!isTarget(thread.folder) || thread.snoozedUntil !== undefined) return {};
    const { folder } = thread;
    return { undo: () => patch.mutate({ thread, change: { folder } }) };
  };

  return {
    move: (thread: ThreadView, folder: Target) =>
      patch.mutate({ thread, change: { folder }, told: { text: TOLD[folder], ...undoOf(thread) } }),
    star: (thread: ThreadView, starred: boolean) => patch.mutate({ thread, change: { starred } }),
    markUnread: (thread: ThreadView, unread: boolean) => patch.mutate({ thread, change: { unread } }),
    snooze: (thread: ThreadView, until: Date, label: string) =>
      snooze.mutate({ thread, until, told: { text: `Snoozed: ${label}`, ...undoOf(thread) } }),
    deleteForGood: (thread: ThreadView) => remove.mutate({ thread, told: { text: "Deleted for good" } }),
  };
}
