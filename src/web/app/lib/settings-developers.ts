/** Asking the server for API keys and webhooks. */
import { queryOptions } from "@tanstack/react-query";
import type { KeyListView, NewKeyView } from "../../developer-views.ts";
import { ask, idOf } from "./ask.ts";

export type { KeyView } from "../../developer-views.ts";

export const developerApi = {
  createKey: (given: { name: string; scopes: readonly string[] }) => ask<NewKeyView>("POST", "/settings/keys", given),
  revokeKey: (id: string) => ask<void>("DELETE", `/settings/keys/${idOf(id)}`),
};

export const KEYS = ["settings", "keys"] as const;
export const keysQuery = queryOptions({ queryKey: KEYS, queryFn: () => ask<KeyListView>("GET", "/settings/keys") });
