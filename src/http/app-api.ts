/**
 * Everything under /app/: what the browser app asks, as JSON, with a session instead of a key. Refusals look as those of
 * the REST API do (rules: Errors).
 *
 * Invariant: no route runs for a request from another origin, nor, but for the few open ones, without a session that goes on.
 * What routes answer is kept by no cache.
 */
import { Elysia, NotFoundError } from "elysia";
import { pathOf } from "../api/target.ts";
import type { Log } from "../base/log.ts";
import type { AnswerFailure } from "./failure.ts";
import type { PageGate } from "./gate.ts";
import type { Asked, OpenRoute, Route } from "./route.ts";

export const APP_PREFIX = "/app";

export interface AppApiParts {
  gate: PageGate;
  open: readonly OpenRoute[];
  routes: readonly Route[];
  sourceOf(peer: string | undefined, forwardedFor: string | null): string;
  /** On every answer that does not say otherwise itself. */
  headers: Readonly<Record<string, string>>;
  answerFailure: AnswerFailure;
  log: Log;
}

/** Never rejects. `peer`: the address the connection came from, when known. */
export type AppApi = (request: Request, peer: string | undefined) => Promise<Response>;

export function createAppApi(parts: AppApiParts): AppApi {
  const { gate, open, routes, sourceOf, headers, answerFailure, log } = parts;
  const peers = new WeakMap<Request, string>();
  const requestSource = (request: Request): string =>
    sourceOf(peers.get(request), request.headers.get("x-forwarded-for"));

  const app = new Elysia({ prefix: APP_PREFIX, strictPath: true, handler: { standardHostname: false } }).onError(
    ({ error, request }) => answerFailure(error, request),
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
