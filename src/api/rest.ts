/**
 * Everything under /api/: the operations as REST (rules: Operations) with their routes, headers, and every failure as
 * `{error, code}`; and the way through the same gate to MCP (mcp.ts).
 *
 * Invariant: refusals come in their order (rules: Order of refusals). The gate runs in onRequest, before Elysia looks
 * for a route, so that an unknown path is 401 without a key; the rest follows in the handler (perform.ts).
 */
import { Elysia, NotFoundError } from "elysia";
import type { Caller } from "../access/caller.ts";
import type { Rate } from "../access/rate.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Download, isMediaType, type Operation } from "../operations/operation.ts";
import { type Asked, type Performed, type Performing, performerOf } from "../operations/perform.ts";
import { readQuery } from "../operations/shape.ts";
import { readJson } from "./body.ts";
import type { Budget, Count } from "./budget.ts";
import { answerDownload } from "./download.ts";
import { createFailures } from "./failure.ts";
import type { Admitted, Gate } from "./gate.ts";
import type { Mcp } from "./mcp.ts";
import { describeApi } from "./openapi.ts";
import { documentPathOf, MAIL_API, type Surface } from "./surfaces.ts";
import { pathOf, queryOf } from "./target.ts";

const MCP_PATH = "/api/mcp";

/** Of an operation that does not say. Far above any PATCH that the labels' limits allow. */
const MOST_BODY_BYTES = 1_048_576;

/** What performs operations, and how much of request bodies may be read at once. */
export interface Serving extends Performing {
  bodies: Budget;
}

export interface RestParts extends Serving {
  surfaces: readonly Surface[];
  /** Public origin. */
  baseUrl: string;
  gate: Gate;
  mcp: Mcp;
  /** Whom a request counts against. `peer`: the address its connection came from. */
  sourceOf(peer: string | undefined, forwardedFor: string | null): string;
  runtime: Pick<Runtime, "randomBytes">;
  log: Log;
}

/** Answers every request under /api/. `peer`: the address the connection came from, when known. Never rejects. */
export type Rest = (request: Request, peer: string | undefined) => Promise<Response>;

/**
 * What a request asks of an operation. `count` as in budget.ts; `requireSession` is called once a body has come, since who
 * sends it decides how long that takes. It throws as readJson and readQuery do.
 */
export async function readInput(
  { query, body, bodyOptional, largestBody = MOST_BODY_BYTES }: Operation,
  from: { request: Request; params: Record<string, string | null>; count: Count; requireSession(): unknown },
): Promise<Asked> {
  const { request, params, count } = from;
  const isLeftOut = bodyOptional && request.body === null;
  const given = body && (isLeftOut ? {} : await readJson(request, largestBody, count));
  if (body) from.requireSession();
  return { params, query: readQuery(queryOf(request.url), query), body: given };
}

type Handler = (context: {
  request: Request;
  params: Record<string, string | null>;
  caller: Caller;
}) => Promise<Performed>;

/** What answers one operation for an admitted caller. */
function handlerOf(operation: Operation, parts: RestParts): Handler {
  const perform = performerOf(operation, parts);

  return ({ request, params, caller }) =>
    parts.bodies.within(caller.userId, (count) =>
      perform(caller, async () => {
        // What cannot be decoded names nothing that exists.
        if (Object.values(params).includes(null)) throw new NotFoundError();
        const requireSession = () => parts.gate.readmit(request.headers.get("authorization"));
        const asked = await readInput(operation, { request, params, count, requireSession });
        return { ...asked, idempotencyKey: request.headers.get("idempotency-key") ?? undefined };
      }),
    );
}

function headersOf({ code, retryAfter }: AppError): Record<string, string> {
  return {
    ...(retryAfter !== undefined && { "retry-after": String(Math.max(1, Math.ceil(retryAfter))) }),
    // RFC 6750 §3
    ...(code === "unauthorized" && { "www-authenticate": 'Bearer realm="mailroom"' }),
  };
}

function admitted<T>(caller: T | undefined): T {
  if (!caller) throw new Error("a request came past the gate");
  return caller;
}

/** A request on its way: the address its connection came from, and the rate that its answer tells. */
interface Passage {
  peer: string | undefined;
  rate?: Rate;
  /** Over MCP. */
  admitted?: Admitted;
}

/** On every answer. What is somebody's mail is kept by no cache, and taken for nothing but what it says it is. */
const HEADERS = { "cache-control": "private, no-store", "x-content-type-options": "nosniff" };

/** Not by Elysia's `set`, which reaches a Response only of routes whose code names it, and minified code is read wrong. */
function setHeaders(headers: Headers, { rate, admitted }: Passage): void {
  if (admitted?.refusal)
    for (const [name, value] of Object.entries(headersOf(admitted.refusal))) headers.set(name, value);
  for (const [name, value] of Object.entries(HEADERS)) if (!headers.has(name)) headers.set(name, value);
  if (!rate) return;
  headers.set("x-ratelimit-limit", String(rate.limit));
  headers.set("x-ratelimit-remaining", String(rate.remaining));
}

export function createRest(parts: RestParts): Rest {
  const { surfaces, baseUrl, gate, mcp, sourceOf, log } = parts;
  const readFailure = createFailures(parts);
  const passages = new WeakMap<Request, Passage>();
  /** By their paths; each is written when somebody first asks for it. */
  const documents = new Map(
    surfaces.map((surface) => {
      let text: string | undefined;
      return [documentPathOf(surface), () => (text ??= JSON.stringify(describeApi(surface, baseUrl)))];
    }),
  );
  /** The document that lists what there is where `path` leads. */
  const documentNear = (path: string): string =>
    documentPathOf(surfaces.find(({ prefix }) => path.startsWith(`${prefix}/`)) ?? MAIL_API);

  function answerFailure(error: unknown, { method, url }: Request): Response {
    const refusal =
      error instanceof NotFoundError
        ? new AppError("not_found", `There is nothing here: ${documentNear(pathOf(url))} lists what there is`)
        : readFailure(error, { method, path: pathOf(url) });
    parts.meters?.countApiRefusal(refusal.code);
    return Response.json(
      { error: refusal.message, code: refusal.code },
      { status: refusal.status, headers: headersOf(refusal) },
    );
  }

  // standardHostname: paths are found after short host names too.
  const app = new Elysia({ strictPath: true, precompile: true, handler: { standardHostname: false } })
    .decorate("caller", undefined as Caller | undefined)
    .onRequest(async (context) => {
      const { request } = context;
      const passage = passages.get(request);
      const tell = (rate: Rate) => {
        if (passage) passage.rate = rate;
      };
      const source = sourceOf(passage?.peer, request.headers.get("x-forwarded-for"));
      const path = pathOf(request.url);
      const authorization = request.headers.get("authorization");
      const reads = request.method === "GET" || request.method === "HEAD";
      if (reads && documents.has(path)) gate.admitSource(source, tell);
      else if (path === MCP_PATH && passage) {
        passage.admitted = await gate.admitOrDefer(source, authorization, tell);
        const { refusal } = passage.admitted;
        if (refusal) parts.meters?.countApiRefusal(refusal.code);
      } else context.caller = await gate.admit(source, authorization, tell);
    })
    .onError(({ error, request }) => answerFailure(error, request))
    .all(MCP_PATH, ({ request }) => mcp.answer(request, admitted(passages.get(request)?.admitted)), { parse: "none" });

  for (const [path, write] of documents) {
    app.get(path, () => new Response(write(), { headers: { "content-type": "application/json" } }));
  }

  for (const { prefix, operation } of surfaces.flatMap(({ prefix, operations }) =>
    operations.map((operation) => ({ prefix, operation })),
  )) {
    const handle = handlerOf(operation, parts);
    app.route(
      operation.method,
      prefix + operation.path,
      async ({ request, params, caller, set }) => {
        // Elysia gives no params to a route without parameters.
        const asked = { request, params: params ?? {}, caller: admitted(caller) };
        const { status, answer, replayed } = await handle(asked);
        if (isMediaType(operation.response)) return answerDownload(answer as Download);
        set.status = status;
        if (replayed) set.headers["idempotency-replayed"] = "true";
        return answer;
      },
      { parse: "none" },
    );
  }

  return async (request, peer) => {
    const passage: Passage = { peer };
    passages.set(request, passage);
    const response = await app.handle(request);
    setHeaders(response.headers, passage);
    // Without the query: it says what somebody looks for in their mail.
    log.debug("request", { method: request.method, path: pathOf(request.url), status: response.status });
    return response;
  };
}
