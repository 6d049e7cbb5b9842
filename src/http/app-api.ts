/**
 * The browser app's own API under /app/: JSON, with a session instead of a key. Refusals have the form of the REST API's
 * (rules: Errors).
 *
 * Invariant: no route runs for a request from another origin, and only open routes run without a valid session. Responses
 * are not cached.
 */
import { Elysia, NotFoundError } from "elysia";
import { Unconfirmed } from "../access/sessions.ts";
import { createFailures } from "../api/failure.ts";
import { pathOf } from "../api/target.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { PageGate } from "./gate.ts";
import type { Asked, OpenRoute, Route } from "./route.ts";

export const APP_PREFIX = "/app";

export interface AppApiParts {
  gate: PageGate;
  open: readonly OpenRoute[];
  routes: readonly Route[];
  sourceOf(peer: string | undefined, forwardedFor: string | null): string;
  /** Headers of every response that does not set them itself. */
  headers: Readonly<Record<string, string>>;
  runtime: Pick<Runtime, "randomBytes">;
  log: Log;
}

/** Never rejects. `peer`: the address the connection came from, when known. */
export type AppApi = (request: Request, peer: string | undefined) => Promise<Response>;

export function createAppApi(parts: AppApiParts): AppApi {
  const { gate, open, routes, sourceOf, headers, log } = parts;
  const failureResponse = createFailureResponse(parts);
  const peers = new WeakMap<Request, string>();
  const requestSource = (request: Request): string =>
    sourceOf(peers.get(request), request.headers.get("x-forwarded-for"));

  const app = new Elysia({ prefix: APP_PREFIX, strictPath: true, handler: { standardHostname: false } }).onError(
    ({ error, request }) => failureResponse(error, request),
  );
  const asResponse = (answer: unknown): Response => (answer instanceof Response ? answer : Response.json(answer));

  for (const { method, path, run } of open) {
    app.route(
      method,
      path,
      async ({ request }) => {
        gate.requireSameOrigin(request);
        return asResponse(await run({ request, source: requestSource(request) }));
      },
      { parse: "none" },
    );
  }

  for (const { method, path, run } of routes) {
    app.route(
      method,
      path,
      async ({ request, params }) => {
        const session = gate.admit(request);
        // Elysia gives no params to a route without parameters, and null for what cannot be decoded.
        const given: Record<string, string | null> = params ?? {};
        if (Object.values(given).includes(null)) throw new NotFoundError();
        const asked: Asked = {
          ...{ request, params: given as Record<string, string>, session, source: requestSource(request) },
          requireSession: () => gate.requireSession(session),
          requireConfirmed: (db) => gate.requireConfirmed(db, session),
        };
        return asResponse(await run(asked));
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

/**
 * Gives the response to a failure: `{error, code}` as in the REST API (rules: Errors), and `confirm: {code}` when the
 * person has to sign in again, with a second factor or without.
 */
function createFailureResponse(parts: Pick<AppApiParts, "runtime" | "log">) {
  const readFailure = createFailures(parts);
  return (error: unknown, { method, url }: Request): Response => {
    const { status, message, code, retryAfter } =
      error instanceof NotFoundError
        ? new AppError("not_found", "There is nothing here")
        : readFailure(error, { method, path: pathOf(url) });
    return Response.json(
      { error: message, code, ...(error instanceof Unconfirmed && { confirm: error.confirm }) },
      { status, ...(retryAfter !== undefined && { headers: { "retry-after": String(Math.ceil(retryAfter)) } }) },
    );
  };
}
