/**
 * Everything under /app/: what the browser app asks, as JSON, with a session instead of a key. Refusals look as those of
 * the REST API do (spec: Errors).
 *
 * Invariant: no route runs for a request from another origin, nor without a session that goes on. What routes answer is
 * kept by no cache.
 */
import { Elysia, NotFoundError } from "elysia";
import { findSession, type Session } from "../access/sessions.ts";
import { createFailures } from "../api/failure.ts";
import { pathOf } from "../api/target.ts";
import { AppError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Runtime } from "../runtime.ts";
import type { Store } from "../store/store.ts";
import type { Route } from "./route.ts";
import { createSameOriginCheck } from "./same-origin.ts";
import type { SessionCookie } from "./session-cookie.ts";

export const APP_PREFIX = "/app";

export interface AppApiParts {
  store: Pick<Store, "db">;
  cookie: SessionCookie;
  /** Notes that a session is in use. */
  touchSession(session: Session, now: number): void;
  /** Asks nobody who they are; is given the source of the request. */
  signIn(request: Request, source: string): Promise<Response>;
  routes: readonly Route[];
  sourceOf(peer: string | undefined, forwardedFor: string | null): string;
  /** Public origin. */
  baseUrl: string;
  /** On every answer that does not say otherwise itself. */
  headers: Readonly<Record<string, string>>;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}

/** Never rejects. `peer`: the address the connection came from, when known. */
export type AppApi = (request: Request, peer: string | undefined) => Promise<Response>;

export function createAppApi(parts: AppApiParts): AppApi {
  const { store, cookie, touchSession, signIn, routes, sourceOf, baseUrl, headers, runtime, log } = parts;
  const requireSameOrigin = createSameOriginCheck(baseUrl);
  const readFailure = createFailures(parts);
  const peers = new WeakMap<Request, string>();

  /** @throws AppError unauthorized */
  function requireSession(request: Request): Session {
    const token = cookie.read(request);
    const now = runtime.now();
    const session = token === undefined ? undefined : findSession(store.db, token, now);
    if (!session) throw new AppError("unauthorized", "Sign in to go on");
    touchSession(session, now);
    return session;
  }

  function answerFailure(error: unknown, { method, url }: Request): Response {
    const { status, message, code, retryAfter } =
      error instanceof NotFoundError
        ? new AppError("not_found", "There is nothing here")
        : readFailure(error, { method, path: pathOf(url) });
    return Response.json(
      { error: message, code },
      { status, ...(retryAfter !== undefined && { headers: { "retry-after": String(Math.ceil(retryAfter)) } }) },
    );
  }

  const app = new Elysia({ prefix: APP_PREFIX, strictPath: true, handler: { standardHostname: false } })
    .onError(({ error, request }) => answerFailure(error, request))
    .post(
      "/sign-in",
      ({ request }) => {
        requireSameOrigin(request);
        return signIn(request, sourceOf(peers.get(request), request.headers.get("x-forwarded-for")));
      },
      { parse: "none" },
    );

  for (const { method, path, run } of routes) {
    app.route(
      method,
      path,
      async ({ request, params }) => {
        requireSameOrigin(request);
        const session = requireSession(request);
        // Elysia gives no params to a route without parameters, and null for what cannot be decoded.
        const given: Record<string, string | null> = params ?? {};
        if (Object.values(given).includes(null)) throw new NotFoundError();
        const answer = await run({ request, params: given as Record<string, string>, session });
        return answer instanceof Response ? answer : Response.json(answer);
      },
      { parse: "none" },
    );
  }

  return async (request, peer) => {
    if (peer !== undefined) peers.set(request, peer);
    const response = await app.handle(request);
    for (const [name, value] of Object.entries({ ...headers, "cache-control": "private, no-store" })) {
      if (!response.headers.has(name)) response.headers.set(name, value);
    }
    log.debug("request", { method: request.method, path: pathOf(request.url), status: response.status });
    return response;
  };
}
