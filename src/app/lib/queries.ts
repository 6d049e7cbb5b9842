/**
 * The queries of mail for TanStack Query: keys, functions and cache times; and the hook for changes. thread-actions.ts
 * changes the data of the queries.
 */
import {
  infiniteQueryOptions,
  QueryClient,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { type Answer, api, fetchAllPages, MOST_OF_A_PAGE, Refusal } from "./api-client.ts";
import type { ListFilters, Person, ThreadListView } from "./mail-views.ts";
import { isServerAway, onServerReturn } from "./server-away.ts";
import { toast, toastFailure } from "./toast.ts";

/**
 * A small first page loads quickly; large later ones keep their number low, since a change of mail reloads all of them.
 */
const FIRST_PAGE = 40;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 20_000,
      retry: (failures, error) =>
        isServerAway() || (failures < 2 && !(error instanceof Refusal && error.status >= 400 && error.status < 500)),
    },
    // What a person does is refused at once while the server is away.
    mutations: { networkMode: "always" },
  },
});

onServerReturn(
  () => void queryClient.refetchQueries({ type: "active", predicate: ({ state }) => state.status === "error" }),
);

export const meQuery = queryOptions({ queryKey: ["me"], queryFn: () => api.getMe(), staleTime: 300_000 });

/** Null on a server; on a standby, what it knows of the server. */
export const standbyQuery = queryOptions({
  queryKey: ["standby"],
  queryFn: async () => (await api.getStandby()).standby,
  staleTime: 300_000,
  refetchInterval: ({ state }) => (state.data ? 5_000 : false),
});

/** True: show the pages for owners and admins. The server enforces it (http/app-api.ts). */
export const isOwnerOrAdmin = ({ role }: Person): boolean => role !== "member";

export const mailboxesQuery = queryOptions({
  queryKey: ["mailboxes"],
  queryFn: async () => (await api.listMailboxes()).mailboxes,
});

export const threadsQuery = (filters: Pick<ListFilters, "mailbox" | "folder" | "q" | "label" | "sort">) =>
  infiniteQueryOptions({
    queryKey: ["threads", filters],
    queryFn: ({ pageParam }) =>
      api.listThreads({ ...filters, limit: pageParam === undefined ? FIRST_PAGE : MOST_OF_A_PAGE, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: ThreadListView) => page.nextCursor ?? undefined,
  });

/** Number of unread conversations in a folder. */
export const unreadQuery = (mailbox: string, folder: ListFilters["folder"]) =>
  queryOptions({
    queryKey: ["unread", mailbox, folder],
    queryFn: async () => (await api.listThreads({ mailbox, folder, limit: 1 })).unread,
  });

export const threadQuery = (id: string) =>
  queryOptions({ queryKey: ["thread", id], queryFn: () => api.getThread({ id, html: false }) });

/** The query's key begins with the key of the conversation, so that news of the conversation reloads it, too. */
export const progressQuery = (threadId: string, messageId: string) =>
  queryOptions({
    queryKey: ["thread", threadId, "progress", messageId],
    queryFn: () => api.getProgress({ id: messageId }),
  });

export const messageQuery = (id: string) =>
  queryOptions({ queryKey: ["message", id], queryFn: async () => (await api.getMessage({ id, html: false })).message });

export const classificationQuery = (messageId: string) =>
  queryOptions({ queryKey: ["classification", messageId], queryFn: () => api.getClassification({ id: messageId }) });

export const warningsQuery = (messageId: string) =>
  queryOptions({ queryKey: ["warnings", messageId], queryFn: () => api.getWarnings({ id: messageId }) });

export const receivedDetailsQuery = (messageId: string) =>
  queryOptions({ queryKey: ["received", messageId], queryFn: () => api.getReceived({ id: messageId }) });

export const invitationQuery = (messageId: string) =>
  queryOptions({
    queryKey: ["invitation", messageId],
    queryFn: async () => (await api.getInvitation({ id: messageId })).invitation,
    staleTime: Number.POSITIVE_INFINITY,
  });

export const pushQuery = queryOptions({ queryKey: ["push"], queryFn: () => api.getPush() });

export const imageSendersQuery = queryOptions({ queryKey: ["image-senders"], queryFn: () => api.listImagesShown() });

export const labelsQuery = (mailbox: string | undefined) =>
  queryOptions({
    queryKey: ["labels", mailbox],
    queryFn: async () => (await api.completeLabels({ mailbox: mailbox ?? "" })).labels,
    enabled: mailbox !== undefined,
  });

/** Signature and templates of a mailbox. */
export const mailboxTextsQuery = (mailboxId: string | undefined) =>
  queryOptions({
    queryKey: ["texts", mailboxId],
    queryFn: () => api.getTexts({ id: mailboxId ?? "" }),
    enabled: mailboxId !== undefined,
    staleTime: 300_000,
  });

/** Messages that a mailbox sends later, the next first. */
export const scheduledQuery = (mailboxId: string) =>
  queryOptions({
    queryKey: ["scheduled", mailboxId],
    queryFn: async () => (await api.listScheduled({ mailbox: mailboxId })).scheduled,
  });

const mapLabelColours = (labels: Answer<"completeLabels">["labels"]): ReadonlyMap<string, string> =>
  new Map(labels.flatMap(({ label, colour }) => (colour === null ? [] : [[label.toUpperCase(), colour]])));

/** A hook: a function that gives the colour of a label in a mailbox. */
export function useLabelColour(mailboxId: string): (label: string) => string | undefined {
  const { data } = useQuery({ ...labelsQuery(mailboxId), select: mapLabelColours });
  return (label) => data?.get(label.toUpperCase());
}

export const usageQuery = (mailbox: string) =>
  queryOptions({ queryKey: ["usage", mailbox], queryFn: () => api.getUsage({ mailbox }) });

export const draftQuery = (id: string) =>
  queryOptions({
    queryKey: ["draft", id],
    queryFn: () => api.openDraft({ id }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });

/** The marks on drafts of a mailbox, for a list. */
export const draftMarksQuery = (mailboxId: string) =>
  queryOptions({ queryKey: ["marks", mailboxId], queryFn: () => api.listMarkedDrafts({ mailbox: mailboxId }) });

/** Messages to approve, the longest waiting first. */
export const approvalsQuery = queryOptions({ queryKey: ["approvals"], queryFn: () => api.listApprovals() });

export const approvalQuery = (id: string) =>
  queryOptions({ queryKey: ["approvals", id], queryFn: () => api.getApproval({ id }) });

/** Drafts that reply to a conversation. */
export const replyDraftsQuery = (threadId: string) =>
  queryOptions({
    queryKey: ["reply-drafts", threadId],
    queryFn: async () => (await api.listDraftsAnswering({ id: threadId })).drafts,
  });

export const sendingQuery = queryOptions({ queryKey: ["me", "sending"], queryFn: () => api.getSendingPreferences() });

/** Correspondents of a mailbox, by the beginning of a name or address. `mailbox`: its id, or one of its addresses. */
export const correspondentsQuery = (mailbox: string, q: string) =>
  queryOptions({
    queryKey: ["people", mailbox, q],
    queryFn: async () => (await api.findCorrespondents({ mailbox, q })).people,
    staleTime: 300_000,
  });

/** Recipients and quotation of a reply. Never cached, since mail may have arrived meanwhile. */
export const replyDefaultsQuery = (id: string, all: boolean) =>
  queryOptions({
    queryKey: ["reply-defaults", id, all],
    queryFn: () => api.getReplyDefaults({ id, all }),
    staleTime: 0,
    gcTime: 0,
  });

/** Reloads everything that depends on mail. `threadIds`: the changed conversations; absent: all. */
export function refreshMail(threadIds?: readonly string[]): void {
  for (const key of [
    "threads",
    "mailboxes",
    "unread",
    "labels",
    "usage",
    "reply-drafts",
    "marks",
    "scheduled",
    "approvals",
  ])
    void queryClient.invalidateQueries({ queryKey: [key] });
  if (threadIds === undefined) void queryClient.invalidateQueries({ queryKey: ["thread"] });
  for (const id of threadIds ?? []) void queryClient.invalidateQueries({ queryKey: ["thread", id] });
}

/**
 * Makes a change, tells of success or failure, and reloads the queries whose key begins with `key`. `atForm`: the form
 * shows the failure (parts/ui/form.tsx).
 */
export function useChange<Given, Result>(
  change: (given: Given) => Promise<Result>,
  { key, success, atForm = false }: { key: readonly string[]; success?: string; atForm?: boolean },
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (given: Given) => change(given),
    onSuccess: () => {
      if (success !== undefined) toast({ text: success });
    },
    onError: (error: Error) => {
      if (!atForm) toastFailure(error);
    },
    onSettled: () => client.invalidateQueries({ queryKey: key }),
  });
}

/**
 * One key for all that is administered of a workspace, since changes affect each other: a new person may have a mailbox, a
 * removed one had shares.
 */
export const WORKSPACE = ["settings", "workspace"] as const;

/** The server lists by age, which pages need; people look for a name. */
export const sortedBy = <T>(list: readonly T[], itemSortKey: (item: T) => string): T[] =>
  list.toSorted((a, b) => (itemSortKey(a) < itemSortKey(b) ? -1 : 1));

/** Domains of the workspace, sorted by name. */
export const domainsQuery = queryOptions({
  queryKey: [...WORKSPACE, "domains"],
  queryFn: async () => sortedBy(await fetchAllPages(api.listDomains, "domains"), ({ name }) => name),
});
