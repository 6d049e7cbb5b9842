/** Requests about API keys and webhooks. */
import { queryOptions } from "@tanstack/react-query";
import type { SecretView } from "../../http/developer-views.ts";
import type { KeyView, NewKeyView } from "../../operations/admin/keys.ts";
import type { DeliveryView, WebhookView } from "../../operations/admin/webhooks.ts";
import { ask, askAll, askPage, idOf } from "./ask.ts";

export type { DeliveryView, KeyView, WebhookView };

const webhook = (id: string): string => `/settings/webhooks/${idOf(id)}`;

export const developerApi = {
  createKey: (given: { name: string; scopes: readonly string[] }) => ask<NewKeyView>("POST", "/settings/keys", given),
  revokeKey: (id: string) => ask<void>("DELETE", `/settings/keys/${idOf(id)}`),
  addWebhook: (given: { url: string; events: readonly string[] }) =>
    ask<WebhookView>("POST", "/settings/webhooks", given),
  removeWebhook: (id: string) => ask<void>("DELETE", webhook(id)),
  rotateSecret: ({ id, overlapHours }: { id: string; overlapHours: number }) =>
    ask<void>("POST", `${webhook(id)}/secret`, { overlapHours }),
  changeWebhook: ({ id, ...change }: { id: string; url?: string; events?: readonly string[]; enabled?: boolean }) =>
    ask<WebhookView>("PATCH", webhook(id), change),
  testWebhook: ({ id, event }: { id: string; event: string }) =>
    ask<{ id: string }>("POST", `${webhook(id)}/test`, { event }),
  resend: ({ webhookId, id }: { webhookId: string; id: string }) =>
    ask<DeliveryView>("POST", `${webhook(webhookId)}/deliveries/${idOf(id)}/resend`, {}),
};

export const KEYS = ["settings", "keys"] as const;
export const keysQuery = queryOptions({ queryKey: KEYS, queryFn: () => askAll<KeyView>("/settings/keys", "keys") });

export const WEBHOOKS = ["settings", "webhooks"] as const;
export const webhooksQuery = queryOptions({
  queryKey: [...WEBHOOKS, "list"],
  queryFn: () => askAll<WebhookView>("/settings/webhooks", "webhooks"),
});
export const webhookQuery = (id: string) =>
  queryOptions({ queryKey: [...WEBHOOKS, id], queryFn: () => ask<WebhookView>("GET", webhook(id)) });
/** Not cached after it was shown. */
export const secretQuery = (id: string) =>
  queryOptions({
    queryKey: [...WEBHOOKS, id, "secret"],
    queryFn: () => ask<SecretView>("GET", `${webhook(id)}/secret`),
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
    queryFn: async () => (await askPage<DeliveryView>(`${webhook(id)}/deliveries`, "deliveries")).items,
    refetchInterval: ({ state }) => pollOf(state.data ?? []),
  });

/** Event types and their meaning, in words for people. */
export const EVENT_MEANING: Readonly<Record<string, string>> = {
  "message.inbound": "new mail was filed into a mailbox",
  "message.outbound": "a message was sent from a mailbox",
  "message.delivered": "the recipient's server accepted it",
  "message.bounced": "the recipient's server refused it",
  "message.complaint": "the recipient reported it as spam",
};
