/**
 * The operations as REST (spec: Endpoints): routes, headers, and every failure as `{error, code}`.
 *
 * Invariant: refusals come in the order of the contract. The gate runs in onRequest, before Elysia looks for a route, so
 * that an unknown path is 401 without a key; scope, shape and `run` follow in the handler.
 */
import { Elysia, NotFoundError } from "elysia";
import { type Caller, requireScope } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Runtime } from "../runtime.ts";
import { asUnavailable } from "../store/store.ts";
import { readJson } from "./body.ts";
import { answerDownload } from "./download.ts";
import type { Gate } from "./gate.ts";
import { type Download, isMediaType, type Operation } from "./operation.ts";
import type { Rate } from "./rate.ts";
import { readQuery, shapeOf } from "./shape.ts";
import { pathOf, queryOf } from "./target.ts";

export const API_PREFIX = "/api/v1";
const DOCUMENT_PATH = `${API_PREFIX}/openapi.json`;

/** Of the id that a failure is logged and shown with. */
const TRACE_BYTES = 8;

/** Far above any PATCH that the labels' limits allow. */
const MOST_BODY_BYTES = 1_048_576;

export interface RestParts {
  operations: readonly Operation[];
  /** The OpenAPI document. */
  document: unknown;
  gate: Gate;
  /** Whom a request counts against. `peer`: the address its connection came from. */
  sourceOf(peer: string | undefined, forwardedFor: string | null): string;
  mailbox: Mailbox;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}

/** Answers every request under /api/. `peer`: the address the connection came from, when known. Never rejects. */
export type Rest = (request: Request, peer: string | undefined) => Promise<Response>;

type Handler = (context: {
  request: Request;
  params: Record<string, string | null>;
  caller: Caller;
}) => Promise<unknown>;

/** What answers one operation for an admitted caller. */
function handlerOf(operation: Operation, mailbox: Mailbox): Handler {
  const shape = shapeOf(operation);

  async function readBody(request: Request): Promise<unknown> {
    if (!operation.body) return undefined;
    const body = await readJson(request, MOST_BODY_BYTES);
    shape.checkInput("body", body);
    return body;
  }

  return async ({ request, params, caller }) => {
    requireScope(caller, operation.scope);
    // What cannot be decoded names nothing that exists.
    if (Object.values(params).includes(null)) throw new NotFoundError();
    shape.checkInput("params", params);
    const query = readQuery(queryOf(request.url), operation.query);
    shape.checkInput("query", query);
    const body = await readBody(request);

    const answer = await operation.run({ caller, mailbox }, { params, query, body });
    if (isMediaType(operation.response)) return await answerDownload(answer as Download);
    const fault = shape.faultOfAnswer(answer);
    if (fault !== undefined) throw new Error(`${operation.name} answered what its schema does not allow: ${fault}`);
    return answer;
  };
}

/** The refusal that was thrown; undefined for a failure that nobody foresaw. */
function refusalOf(error: unknown): AppError | undefined {
  if (error instanceof NotFoundError) {
    return new AppError("not_found", `There is nothing here: ${DOCUMENT_PATH} lists what there is`);
  }
  const known = asUnavailable(error);
  return known instanceof AppError ? known : undefined;
}

function headersOf({ code, retryAfter }: AppError): Record<string, string> {
  return {
    ...(retryAfter !== undefined && { "retry-after": String(Math.max(1, Math.ceil(retryAfter))) }),
    // RFC 6750 §3
    ...(code === "unauthorized" && { "www-authenticate": 'Bearer realm="mailroom"' }),
  };
}

/** On every answer. What is somebody's mail is kept by no cache, and taken for nothing but what it says it is. */
const HEADERS = { "cache-control": "private, no-store", "x-content-type-options": "nosniff" };

export function createRest({ operations, document, gate, sourceOf, mailbox, runtime, log }: RestParts): Rest {
  const peers = new WeakMap<Request, string>();
  const documentText = JSON.stringify(document);

  function answerFailure(error: unknown, { method, url }: Request): Response {
    const trace = Buffer.from(runtime.randomBytes(TRACE_BYTES)).toString("hex");
    const request = { trace, method, path: pathOf(url) };
    const foreseen = refusalOf(error);
    if (!foreseen) log.error("a request to the API failed", { ...request, error });
    else if (foreseen.status >= 500) log.warn("a request to the API could not be served", { ...request, error });
    const refusal =
      foreseen ??
      new AppError("server_error", `Something failed on our side. It is safe to try again. Trace: ${trace}`);
    return Response.json(
      { error: refusal.message, code: refusal.code },
      { status: refusal.status, headers: headersOf(refusal) },
    );
  }

  // standardHostname: paths are found after short host names too.
  const app = new Elysia({ strictPath: true, precompile: true, handler: { standardHostname: false } })
    .decorate("caller", undefined as Caller | undefined)
    .onRequest(async (context) => {
      const { request, set } = context;
      Object.assign(set.headers, HEADERS);
      const tell = ({ limit, remaining }: Rate) => {
        set.headers["x-ratelimit-limit"] = String(limit);
        set.headers["x-ratelimit-remaining"] = String(remaining);
      };
      const source = sourceOf(peers.get(request), request.headers.get("x-forwarded-for"));
      const reads = request.method === "GET" || request.method === "HEAD";
      if (reads && pathOf(request.url) === DOCUMENT_PATH) gate.admitSource(source, tell);
      else context.caller = await gate.admit(source, request.headers.get("authorization"), tell);
    })
    .onError(({ error, request }) => answerFailure(error, request))
    .get(DOCUMENT_PATH, () => new Response(documentText, { headers: { "content-type": "application/json" } }));

  for (const operation of operations) {
    const handle = handlerOf(operation, mailbox);
    app.route(
      operation.method,
      API_PREFIX + operation.path,
      async ({ request, params, caller, set }) => {
        if (!caller) throw new Error("a request came past the gate");
        // Elysia gives none to a route without parameters.
        const answer = await handle({ request, params: params ?? {}, caller });
        set.status = operation.success;
        return answer;
      },
      { parse: "none" },
    );
  }

  return async (request, peer) => {
    if (peer !== undefined) peers.set(request, peer);
    const response = await app.handle(request);
    // Without the query: it says what somebody looks for in their mail.
    log.debug("request", { method: request.method, path: pathOf(request.url), status: response.status });
    return response;
  };
}
