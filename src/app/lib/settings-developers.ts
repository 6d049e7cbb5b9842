/** Calls about API keys and webhooks. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { EVENT_NAMES } from "../../events/kinds.ts";
import type { getKeyJournal, undoKey } from "../../operations/admin/journal.ts";
import type {
  changeKey,
  createKey,
  getKey,
  getKeyPause,
  listKeys,
  revokeKey,
  setKeyPause,
} from "../../operations/admin/keys.ts";
import type {
  addWebhook,
  getWebhook,
  listWebhookDeliveries,
  listWebhooks,
  removeWebhook,
  resendWebhookDelivery,
  revealWebhookSecret,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
} from "../../operations/admin/webhooks.ts";
import type { AnswerOf } from "../../operations/operation.ts";
import { type BodyOf, call, callAll, MOST_OF_A_PAGE, type QueryOf } from "./call.ts";

export type KeyView = AnswerOf<typeof listKeys>["keys"][number];
export type WebhookView = AnswerOf<typeof getWebhook>;
export type DeliveryView = AnswerOf<typeof listWebhookDeliveries>["deliveries"][number];

export type JournalEntryView = AnswerOf<typeof getKeyJournal>["entries"][number];
export type JournalFilters = Omit<QueryOf<typeof getKeyJournal>, "cursor" | "limit">;
export type UndoView = AnswerOf<typeof undoKey>;

interface Id {
  id: string;
}

export const developerApi = {
  createKey: (body: BodyOf<typeof createKey>) => call<typeof createKey>("POST", "/settings/keys", { body }),
  changeKey: ({ id, ...body }: Id & BodyOf<typeof changeKey>) =>
    call<typeof changeKey>("PATCH", "/settings/keys/:id", { params: { id }, body }),
  undoKey: ({ id, ...body }: Id & BodyOf<typeof undoKey>) =>
    call<typeof undoKey>("POST", "/settings/keys/:id/undo", { params: { id }, body }),
  /** Pauses or resumes all keys of the workspace. */
  pauseAll: (paused: boolean) => call<typeof setKeyPause>("PATCH", "/settings/key-pause", { body: { paused } }),
  revokeKey: (id: string) => call<typeof revokeKey>("DELETE", "/settings/keys/:id", { params: { id } }),
  addWebhook: (body: BodyOf<typeof addWebhook>) => call<typeof addWebhook>("POST", "/settings/webhooks", { body }),
  removeWebhook: (id: string) => call<typeof removeWebhook>("DELETE", "/settings/webhooks/:id", { params: { id } }),
  rotateSecret: ({ id, ...body }: Id & BodyOf<typeof rotateWebhookSecret>) =>
    call<typeof rotateWebhookSecret>("POST", "/settings/webhooks/:id/secret", { params: { id }, body }),
  changeWebhook: ({ id, ...body }: Id & BodyOf<typeof updateWebhook>) =>
    call<typeof updateWebhook>("PATCH", "/settings/webhooks/:id", { params: { id }, body }),
  testWebhook: ({ id, ...body }: Id & BodyOf<typeof testWebhook>) =>
    call<typeof testWebhook>("POST", "/settings/webhooks/:id/test", { params: { id }, body }),
  resend: (params: Id & { delivery: string }) =>
    call<typeof resendWebhookDelivery>("POST", "/settings/webhooks/:id/deliveries/:delivery/resend", { params }),
};

export const KEYS = ["settings", "keys"] as const;
export const keysQuery = queryOptions({
  queryKey: KEYS,
  queryFn: () => callAll<typeof listKeys>("/settings/keys", "keys"),
});

export const keyQuery = (id: string) =>
  queryOptions({
    queryKey: [...KEYS, id],
    queryFn: () => call<typeof getKey>("GET", "/settings/keys/:id", { params: { id } }),
  });
/** What a key did, newest first. */
export const journalQuery = (id: string, filters: JournalFilters) =>
  infiniteQueryOptions({
    queryKey: [...KEYS, id, "journal", filters],
    queryFn: ({ pageParam: cursor }) =>
      call<typeof getKeyJournal>("GET", "/settings/keys/:id/journal", {
        params: { id },
        query: { ...filters, cursor },
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
  });
/** Since when all keys are paused. */
export const keyPauseQuery = queryOptions({
  queryKey: [...KEYS, "pause"],
  queryFn: () => call<typeof getKeyPause>("GET", "/settings/key-pause"),
});

export const WEBHOOKS = ["settings", "webhooks"] as const;
export const webhooksQuery = queryOptions({
  queryKey: [...WEBHOOKS, "list"],
  queryFn: () => callAll<typeof listWebhooks>("/settings/webhooks", "webhooks"),
});
export const webhookQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id],
    queryFn: () => call<typeof getWebhook>("GET", "/settings/webhooks/:id", { params: { id } }),
  });
/** Not cached after it was shown. */
export const secretQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id, "secret"],
    queryFn: () => call<typeof revealWebhookSecret>("GET", "/settings/webhooks/:id/secret", { params: { id } }),
    gcTime: 0,
  });

const SOON_MS = 1_000;
const LATER_MS = 15_000;

/** Time until the log is read again, ms; false when no delivery is pending. */
function pollOf(deliveries: readonly DeliveryView[]): number | false {
  const open = deliveries.filter(({ attempting, nextAttemptAt }) => attempting || nextAttemptAt !== null);
  if (open.length === 0) return false;
  return open.every(({ state, attempting }) => state === "retrying" && !attempting) ? LATER_MS : SOON_MS;
}

export const deliveriesQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id, "deliveries"],
    queryFn: async () => {
      const given = { params: { id }, query: { limit: MOST_OF_A_PAGE } };
      return (await call<typeof listWebhookDeliveries>("GET", "/settings/webhooks/:id/deliveries", given)).deliveries;
    },
    refetchInterval: ({ state }) => pollOf(state.data ?? []),
  });

/** Events to choose from, with those of an endpoint that a page older than the server does not know. */
export const eventChoices = (chosen: readonly string[] = []): string[] => [...new Set([...EVENT_NAMES, ...chosen])];
