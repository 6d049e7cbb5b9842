/** The queries for TanStack Query: keys, functions and cache times. thread-actions.ts changes their data. */
import { infiniteQueryOptions, QueryClient, queryOptions } from "@tanstack/react-query";
import { api, type ListFilters, type ThreadListView } from "./api.ts";
import { Refusal } from "./ask.ts";

/** A small first page loads quickly; large later ones keep their number low, since a change of mail reloads all of them. */
const FIRST_PAGE = 40;
const PAGE = 100;

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

export const threadsQuery = (filters: Pick<ListFilters, "mailbox" | "folder" | "q" | "label" | "sort">) =>
  infiniteQueryOptions({
    queryKey: ["threads", filters],
    queryFn: ({ pageParam }) =>
      api.threads({ ...filters, limit: pageParam === undefined ? FIRST_PAGE : PAGE, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: ThreadListView) => page.nextCursor ?? undefined,
  });

/** Number of unread conversations in a folder. */
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

/** The marks on drafts of a mailbox, for a list. */
export const draftMarksQuery = (mailboxId: string) =>
  queryOptions({ queryKey: ["marks", mailboxId], queryFn: () => api.draftMarks(mailboxId) });

/** Drafts that reply to a conversation. */
export const answeringQuery = (threadId: string) =>
  queryOptions({ queryKey: ["answering", threadId], queryFn: () => api.draftsAnswering(threadId) });

export const sendingQuery = queryOptions({ queryKey: ["me", "sending"], queryFn: api.sendingPreferences });

/** Correspondents of a mailbox, by the beginning of a name or address. `mailbox`: one of its addresses. */
export const correspondentsQuery = (mailbox: string, q: string) =>
  queryOptions({ queryKey: ["people", mailbox, q], queryFn: () => api.people(mailbox, q), staleTime: 300_000 });

/** Recipients and quotation of a reply. Never cached, since mail may have arrived meanwhile. */
export const answerQuery = (id: string, all: boolean) =>
  queryOptions({ queryKey: ["answer", id, all], queryFn: () => api.answerTo(id, all), staleTime: 0, gcTime: 0 });

/** Reloads everything that depends on mail. `threadIds`: the changed conversations; absent: all. */
export function refreshMail(threadIds?: readonly string[]): void {
  for (const key of ["threads", "mailboxes", "unread", "labels", "usage", "answering", "marks"])
    void queryClient.invalidateQueries({ queryKey: [key] });
  if (threadIds === undefined) void queryClient.invalidateQueries({ queryKey: ["thread"] });
  for (const id of threadIds ?? []) void queryClient.invalidateQueries({ queryKey: ["thread", id] });
}
