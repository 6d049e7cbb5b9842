/**
 * The browser app's own API under /app/: JSON, with a session instead of a key. Refusals have the form of the REST
 * API's (rules: Errors).
 *
 * Invariant: nothing runs for a request from another origin, and only operations for visitors run without a valid
 * session. Responses are not cached.
 */
import { Elysia, NotFoundError } from "elysia";
import { type Caller, requireAdmin } from "../access/caller.ts";
import { type BrowserSession, requireConfirmedSession, requireLiveSession, Unconfirmed } from "../access/sessions.ts";
import * as workspaceAdmin from "../admin/workspace-admin.ts";
import { downloadResponse } from "../api/download.ts";
import { toClientError } from "../api/failure.ts";
import { createMethodFinder, methodNotAllowedResponse } from "../api/methods.ts";
import { noteRequestPerson, requestTraceId, urlPath } from "../api/request.ts";
import { readOperationInput, type Serving } from "../api/rest.ts";
import { AppError } from "../base/errors.ts";
import { APP_PREFIX, pathInApp } from "../operations/app-routes.ts";
import {
  type AppOperation,
  type BrowserRequest,
  type Download,
  isMediaType,
  type Operation,
} from "../operations/operation.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, MAIL_OPERATIONS } from "../operations/operations.ts";
import {
  type AppOperationServices,
  createAppPerformer,
  createPerformer,
  type Performed,
  type PerformInApp,
  type SignedIn,
} from "../operations/perform.ts";
import { Done } from "../operations/shared-schemas.ts";
import type { Core } from "../store/core.ts";
import type { Route } from "./route.ts";
import type { SessionCookie } from "./session-cookie.ts";
import * as gate from "./session-gate.ts";

/** The largest body of an operation of the app that names no size of its own, in bytes. */
const MOST_BODY_BYTES = 65_536;

export interface AppApiParts extends Serving, AppOperationServices {
  cookie: SessionCookie;
  /** Routes whose bodies are not JSON. */
  routes: readonly Route[];
  readClientSource(peer: string | undefined, forwardedFor: string | null): string;
  /** Headers of every response that does not set them itself. */
  headers: Readonly<Record<string, string>>;
}

/** Never rejects. `peer`: the address the connection came from, when known. */
export type AppApi = (request: Request, peer: string | undefined) => Promise<Response>;

/** A request for which there is a route. */
interface Routed {
  request: Request;
  params: Record<string, string>;
  source: string;
}

/** Makes the response to an operation: 204 if the operation answers nothing. */
async function respond(operation: Operation | AppOperation, { status, answer }: Performed): Promise<Response> {
  const response = "response" in operation ? operation.response : undefined;
  if (response && isMediaType(response)) return downloadResponse(answer as Download);
  const nothing = answer === undefined || response === Done;
  return nothing ? new Response(null, { status: 204 }) : Response.json(answer, { status });
}

export function createAppApi(parts: AppApiParts): AppApi {
  const { core, cookie, routes, pools, readClientSource, headers } = parts;
  const { db, log } = core;
  const failureResponse = createFailureResponse(core);
  const peers = new WeakMap<Request, string>();

  const app = new Elysia({ prefix: APP_PREFIX, strictPath: true, handler: { standardHostname: false } }).onError(
    ({ error, request }) => failureResponse(error, request, listPathMethods),
  );

  function add(method: Operation["method"], path: string, run: (routed: Routed) => Promise<Response>): void {
    app.route(
      method,
      path,
      ({ request, params }) => {
        // Elysia gives no params to a route without parameters, and null for what cannot be decoded.
        const given: Record<string, string | null> = params ?? {};
        const source = readClientSource(peers.get(request), request.headers.get("x-forwarded-for"));
        return run({ request, params: given as Record<string, string>, source });
      },
      { parse: "none" },
    );
  }

  /** @throws AppError forbidden, unauthorized; NotFoundError for a path that cannot be decoded */
  function admit({ request, params }: Routed): BrowserSession {
    const session = gate.admitSession(core, cookie, request);
    noteRequestPerson(request, { ...session.caller, keyId: session.id });
    if (Object.values<string | null>(params).includes(null)) throw new NotFoundError();
    return session;
  }

  /** Adds an operation. `perform` is given the person who asks, unless it is for visitors. */
  function addOperation(operation: Operation | AppOperation, perform: PerformInApp): void {
    const isAdministration = operation.audience === "admin" || operation.audience === "operator";
    const requireRole = (caller: Caller): void => {
      if (isAdministration) requireAdmin(caller);
      if (operation.audience === "operator") workspaceAdmin.requireOperatorWorkspace(core, caller.workspaceId);
    };

    add(operation.method, pathInApp(operation), async (routed) => {
      const { request, params } = routed;
      const { browsing, cookies } = readBrowserRequest(routed);
      let performed: Performed;
      if (operation.audience === "visitor") {
        gate.requireSameOrigin(core, request);
        const from = { request, params, count() {}, requireSession() {} };
        performed = await perform(browsing, undefined, () => readOperationInput(operation, from));
      } else {
        const session = admit(routed);
        requireRole(session.caller);
        const requireSession = () => requireRole(requireLiveSession(db, session, core.now()).caller);
        const signedIn: SignedIn = {
          session,
          requireSession: (db) => requireLiveSession(db, session, core.now()),
          requireConfirmed: (db) => requireConfirmedSession(db, session, core.now()),
        };
        performed = await pools.bodies.within(session.caller, (count) =>
          perform(browsing, signedIn, () => readOperationInput(operation, { request, params, count, requireSession })),
        );
      }
      const response = await respond(operation, performed);
      for (const value of cookies) response.headers.append("set-cookie", value);
      return response;
    });
  }

  /** Reads what an operation is told of the browser, and collects the cookies that it gives the browser. */
  function readBrowserRequest({ request, source }: Routed): { browsing: BrowserRequest; cookies: string[] } {
    const cookies: string[] = [];
    const browsing: BrowserRequest = {
      source,
      userAgent: request.headers.get("user-agent") ?? "",
      token: cookie.read(request),
      giveToken: (token, persistent) => cookies.push(cookie.give(token, persistent)),
      dropToken: () => cookies.push(cookie.drop()),
    };
    return { browsing, cookies };
  }

  for (const operation of [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS]) {
    const perform = createPerformer(operation, parts);
    addOperation(operation, (_, signedIn, read) => {
      if (!signedIn) throw new Error("a request came past the gate");
      return perform(signedIn.session.caller, read, { signedIn });
    });
  }
  for (const operation of APP_OPERATIONS) {
    addOperation({ largestBody: MOST_BODY_BYTES, ...operation }, createAppPerformer(operation, parts));
  }
  for (const { method, path, run } of routes) {
    add(method, path, async (routed) => {
      const session = admit(routed);
      return run({ ...routed, session, requireSession: () => requireLiveSession(db, session, core.now()) });
    });
  }

  const listPathMethods = createMethodFinder(app.routes);

  return async (request, peer) => {
    if (peer !== undefined) peers.set(request, peer);
    const response = await app.handle(request);
    for (const [name, value] of Object.entries({ ...headers, "cache-control": "private, no-store" })) {
      if (!response.headers.has(name)) response.headers.set(name, value);
    }
    const { method, url } = request;
    log.debug("request", { trace: requestTraceId(request), method, path: urlPath(url), status: response.status });
    return response;
  };
}

/**
 * Gives the response to a failure: `{error, code}` as in the REST API (rules: Errors), and `confirm: {code}` when the
 * person has to sign in again, with a second factor or without.
 */
function createFailureResponse(core: Core) {
  return (error: unknown, request: Request, listPathMethods: (path: string) => readonly string[]): Response => {
    const { method } = request;
    const path = urlPath(request.url);
    const methods = error instanceof NotFoundError ? listPathMethods(path) : [];
    if (methods.length > 0 && !methods.includes(method)) return methodNotAllowedResponse(methods);
    const { status, message, code, retryAfter } =
      error instanceof NotFoundError
        ? new AppError("not_found", "There is nothing here")
        : toClientError(core, error, request, { method, path });
    return Response.json(
      { error: message, code, ...(error instanceof Unconfirmed && { confirm: error.confirm }) },
      { status, ...(retryAfter !== undefined && { headers: { "retry-after": String(Math.ceil(retryAfter)) } }) },
    );
  };
}
