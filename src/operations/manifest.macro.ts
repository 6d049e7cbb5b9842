/**
 * A macro that names the requests of the web app while its code is bundled, so that browsers get names, methods and
 * paths of the operations, and nothing else of them.
 */
import { APP_PREFIX, APP_ROUTES, pathInApp } from "./app-routes.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, type AppOperations, MAIL_OPERATIONS } from "./operations.ts";

/** Requests that the web app can make of the server, by name. */
export type AppRequests = AppOperations & typeof APP_ROUTES;

export type AppRequest = readonly [method: string, path: string];

/** Method and path of each request of the app; parameters of the path as `:name`. */
export function appRequests(): Readonly<Record<keyof AppRequests, AppRequest>> {
  const operations = [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS, ...APP_OPERATIONS].map(
    (one) => [one.name, [one.method, APP_PREFIX + pathInApp(one)]] as const,
  );
  const routes = Object.entries(APP_ROUTES).map(
    ([name, { method, path }]) => [name, [method, APP_PREFIX + path]] as const,
  );
  return Object.fromEntries([...operations, ...routes]) as Record<keyof AppRequests, AppRequest>;
}

/** Method and path of one request of the app. */
export function appRequest(name: keyof AppRequests): AppRequest {
  return appRequests()[name];
}
