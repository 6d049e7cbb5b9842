/**
 * Requests from pages of other origins (Fetch, CORS protocol; rules: Cross-origin requests): a browser lets the origins
 * of `api.allowOrigins` send a key and read responses.
 *
 * Invariant: no response allows credentials, so no origin gets to use the cookies of this one.
 */
import type { Core } from "../store/core.ts";

/** How long a browser may skip the next preflight for the same URL: no browser takes more than two hours or a day. */
const PREFLIGHT_SECONDS = 7_200;

const EXPOSED = [
  "content-disposition",
  "content-range",
  "etag",
  "idempotency-replayed",
  "ratelimit",
  "ratelimit-policy",
  "retry-after",
  "www-authenticate",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-request-id",
].join(", ");

/** Undefined when no origin is allowed. */
function allowedOrigins({ options }: Core): readonly string[] | undefined {
  const origins = options.get("api.allowOrigins");
  return origins === "none" ? undefined : origins;
}

export const allows = (core: Core, origin: string | null): boolean =>
  origin !== null && allowedOrigins(core)?.includes(origin) === true;

/** True for the request with which a browser asks whether an allowed origin may send another one. */
export const isPreflight = (core: Core, { method, headers }: Request): boolean =>
  method === "OPTIONS" && headers.has("access-control-request-method") && allows(core, headers.get("origin"));

export const preflightResponse = (): Response =>
  new Response(null, {
    status: 204,
    headers: {
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
      // The wildcard does not cover Authorization.
      "access-control-allow-headers": "authorization, *",
      "access-control-max-age": String(PREFLIGHT_SECONDS),
    },
  });

/** Sets the headers that let the page of an allowed origin read a response. */
export function setHeaders(core: Core, { headers: given }: Request, headers: Headers): void {
  if (!allowedOrigins(core)) return;
  headers.append("vary", "origin");
  const origin = given.get("origin");
  if (origin === null || !allows(core, origin)) return;
  headers.set("access-control-allow-origin", origin);
  headers.set("access-control-expose-headers", EXPOSED);
}
