/** Queries of programs that ask to be let in. */
import { queryOptions } from "@tanstack/react-query";
import { type Answer, api } from "./api-client.ts";

/** Path of the page, as programs know it from the server's metadata. */
export const AUTHORIZE_PATH = "/oauth/authorize";

export type AuthorizationView = Answer<"openAuthorization">;

export const AUTHORIZATION = ["authorization"] as const;
/** Opens the request that the page's URL has. Each time makes another one to answer. */
export const authorizationQuery = queryOptions({
  queryKey: AUTHORIZATION,
  queryFn: () => api.openAuthorization({ query: window.location.search.slice(1) }),
  retry: false,
  staleTime: Number.POSITIVE_INFINITY,
});

export const GRANTS = ["grants"] as const;
/** The programs that the person let in. */
export const grantsQuery = queryOptions({
  queryKey: GRANTS,
  queryFn: async () => (await api.listGrants()).grants,
});
export type GrantView = Answer<"listGrants">["grants"][number];
