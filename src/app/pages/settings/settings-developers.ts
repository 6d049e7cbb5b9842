/** Queries of API keys and webhooks. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { EVENT_NAMES } from "../../../events/kinds.ts";
import { type Answer, api, fetchAllPages, type Input, MOST_OF_A_PAGE } from "../../lib/api-client.ts";

export type KeyView = Answer<"listKeys">["keys"][number];
export type WebhookView = Answer<"getWebhook">;
export type DeliveryView = Answer<"listWebhookDeliveries">["deliveries"][number];

export type JournalEntryView = Answer<"getKeyJournal">["entries"][number];
export type JournalFilters = Omit<Input<"getKeyJournal">, "id" | "cursor" | "limit">;
export type UndoView = Answer<"undoKey">;

export const KEYS = ["settings", "keys"] as const;
export const keysQuery = queryOptions({
  queryKey: KEYS,
  queryFn: () => fetchAllPages(api.listKeys, "keys"),
});

export const keyQuery = (id: string) =>
  queryOptions({
    queryKey: [...KEYS, id],
    queryFn: () => api.getKey({ id }),
  });
/** Journal of a key, newest first. */
export const journalQuery = (id: string, filters: JournalFilters) =>
  infiniteQueryOptions({
    queryKey: [...KEYS, id, "journal", filters],
    queryFn: ({ pageParam: cursor }) => api.getKeyJournal({ id, ...filters, cursor }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
  });
/** Since when all keys are paused. */
export const keyPauseQuery = queryOptions({
  queryKey: [...KEYS, "pause"],
  queryFn: () => api.getKeyPause(),
});

export const WEBHOOKS = ["settings", "webhooks"] as const;
export const webhooksQuery = queryOptions({
  queryKey: [...WEBHOOKS, "list"],
  queryFn: () => fetchAllPages(api.listWebhooks, "webhooks"),
});
export const webhookQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id],
    queryFn: () => api.getWebhook({ id }),
  });
/** Not cached after it was shown. */
export const webhookSecretQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id, "secret"],
    queryFn: () => api.revealWebhookSecret({ id }),
    gcTime: 0,
  });

const SOON_MS = 1_000;
const LATER_MS = 15_000;

/** Time until the log is read again, ms; false when no delivery is pending. */
function choosePollInterval(deliveries: readonly DeliveryView[]): number | false {
  const open = deliveries.filter(({ attempting, nextAttemptAt }) => attempting || nextAttemptAt !== null);
  if (open.length === 0) return false;
  return open.every(({ state, attempting }) => state === "retrying" && !attempting) ? LATER_MS : SOON_MS;
}

export const webhookDeliveriesQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id, "deliveries"],
    queryFn: async () => (await api.listWebhookDeliveries({ id, limit: MOST_OF_A_PAGE })).deliveries,
    refetchInterval: ({ state }) => choosePollInterval(state.data ?? []),
  });

/** Events to choose from, with those of an endpoint that a page older than the server does not know. */
export const eventChoices = (chosen: readonly string[] = []): string[] => [...new Set([...EVENT_NAMES, ...chosen])];
