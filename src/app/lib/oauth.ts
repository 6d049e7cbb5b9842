/** Calls about programs that ask to be let in. */
import { queryOptions } from "@tanstack/react-query";
import type { AnswerOf } from "../../operations/operation.ts";
import type {
  approveAuthorization,
  denyAuthorization,
  listGrants,
  openAuthorization,
  revokeGrant,
} from "../../operations/person/oauth.ts";
import { type BodyOf, call } from "./call.ts";

/** Path of the page, as programs know it from the server's metadata. */
export const AUTHORIZE_PATH = "/oauth/authorize";

export type AuthorizationView = AnswerOf<typeof openAuthorization>;

export const AUTHORIZATION = ["authorization"] as const;
/** Opens the request that the page's URL has. Each time makes another one to answer. */
export const authorizationQuery = queryOptions({
  queryKey: AUTHORIZATION,
  queryFn: () =>
    call<typeof openAuthorization>("POST", "/oauth/requests", { body: { query: window.location.search.slice(1) } }),
  retry: false,
  staleTime: Number.POSITIVE_INFINITY,
});

export const GRANTS = ["grants"] as const;
/** The programs that the person let in. */
export const grantsQuery = queryOptions({
  queryKey: GRANTS,
  queryFn: async () => (await call<typeof listGrants>("GET", "/oauth/grants")).grants,
});
export type GrantView = AnswerOf<typeof listGrants>["grants"][number];

export const oauthApi = {
  approve: ({ id, ...body }: { id: string } & BodyOf<typeof approveAuthorization>) =>
    call<typeof approveAuthorization>("POST", "/oauth/requests/:id/approve", { params: { id }, body }),
  deny: (id: string) => call<typeof denyAuthorization>("POST", "/oauth/requests/:id/deny", { params: { id } }),
  revoke: (id: string) => call<typeof revokeGrant>("DELETE", "/oauth/grants/:id", { params: { id } }),
};
