/**
 * Serves everything under /api/: the operations as REST with their headers and errors (rules: Operations, Errors), the
 * OpenAPI documents, and, behind the same gate, MCP (mcp.ts).
 *
 * Invariant: refusals come in their order (rules: Order of refusals). The gate runs in onRequest, before Elysia looks
 * for a route, so that an unknown path without a key is 401. perform.ts does the rest in the handler.
 */
import { createHash } from "node:crypto";
import { Elysia, NotFoundError } from "elysia";
import type { Caller } from "../access/caller.ts";
import { WINDOW_SECONDS } from "../access/rate.ts";
import { AppError } from "../base/errors.ts";
import { ipAddressSource } from "../net/ip.ts";
import { resourceMetadataUrl } from "../oauth/metadata.ts";
import { type AnyDownload, type AppOperation, isMediaType, type Operation } from "../operations/operation.ts";
import {
  createPerformer,
  type OperationRequest,
  type OperationServices,
  type Performed,
} from "../operations/perform.ts";
import { readQueryParameters } from "../operations/shape.ts";
import { compressJson } from "./compression.ts";
import * as cors from "./cors.ts";
import { downloadResponse, taggedDownloadResponse } from "./download.ts";
import { toClientError } from "./failure.ts";
import type { Admitted, CountedRate, Gate } from "./key-gate.ts";
import type { Mcp } from "./mcp.ts";
import { createMethodFinder, MethodRefusal } from "./methods.ts";
import { describeApi } from "./openapi.ts";
import type { Count, Pools } from "./pools.ts";
import { matchesTag } from "./ranges.ts";
import { clientLeavingSignal, noteRequestPerson, readJson, requestTraceId, urlPath, urlQuery } from "./request.ts";
import { MAIL_API, openApiDocumentPath, REFERENCE_PATH, type Surface } from "./surfaces.ts";
import { readBodyWithFiles } from "./upload.ts";
import type { Waiting } from "./waiting.ts";

const MCP_PATH = "/api/mcp";

/**
 * The largest body of an operation that names no size of its own. Far more than any PATCH within the limits of labels.
 */
const MOST_BODY_BYTES = 1_048_576;

/** The services that perform operations, and what requests share. */
export interface Serving extends OperationServices {
  pools: Pick<Pools, "bodies" | "uploads" | "waits">;
}

export type Rest = ReturnType<typeof createRest>;

/**
 * Reads the input of an operation from a request. `count` counts the body in a budget. `requireSession` is called after
 * the body has come: the client decides how long that takes, so its session or key may have ended.
 * @throws AppError as readJson, readQueryParameters and `requireSession` do
 */
export async function readOperationInput(
  { query, body, bodyOptional, largestBody = MOST_BODY_BYTES }: Operation | AppOperation,
  from: { request: Request; params: Record<string, string | null>; count: Count; requireSession(): unknown },
): Promise<OperationRequest> {
  const { request, params, count } = from;
  const isLeftOut = bodyOptional && request.body === null;
  const given = body && (isLeftOut ? {} : await readJson(request, largestBody, count));
  if (body) from.requireSession();
  return { params, query: readQueryParameters(urlQuery(request.url), query), body: given };
}

/** Makes the function that performs an operation for a request of an admitted caller. */
function makeOperationHandler(
  operation: Operation,
  { gate, pools: { bodies, uploads }, waiting, ...services }: Serving & { gate: Gate; waiting: Pick<Waiting, "of"> },
) {
  const { options, spool } = services.core;
  const perform = createPerformer(operation, services);
  const { takesFiles, largestBody = MOST_BODY_BYTES } = operation;

  return (request: Request, params: Record<string, string | null>, caller: Caller): Promise<Performed> => {
    const readmit = () => gate.readmit(request.headers.get("authorization"), caller);

    async function read(count: Count, countUpload: Count): Promise<OperationRequest> {
      // Elysia gives null for a parameter that cannot be decoded. Such a parameter names nothing that exists.
      if (Object.values(params).includes(null)) throw new NotFoundError();
      const idempotencyKey = request.headers.get("idempotency-key") ?? undefined;
      if (!takesFiles) {
        const asked = await readOperationInput(operation, { request, params, count, requireSession: readmit });
        return { ...asked, idempotencyKey };
      }
      const largestFiles = options.get("smtp.maxMessageBytes");
      const limits = { largestBody, largestFiles, count, countUpload, keep: spool.keep };
      const given = await readBodyWithFiles(request, limits);
      readmit();
      return { params, query: readQueryParameters(urlQuery(request.url), operation.query), ...given, idempotencyKey };
    }

    return bodies.within(caller, (count) =>
      uploads.within(caller, (countUpload) =>
        perform(caller, () => read(count, countUpload), {
          wait: waiting.of({ caller, signal: clientLeavingSignal(request), readmit }),
        }),
      ),
    );
  };
}

/** `challenge`: of a 401 (RFC 6750 §3). */
function refusalHeaders(refusal: AppError, challenge: string): Record<string, string> {
  const { code, retryAfter } = refusal;
  return {
    ...(refusal instanceof MethodRefusal && { allow: refusal.allow }),
    ...(retryAfter !== undefined && { "retry-after": String(Math.max(1, Math.ceil(retryAfter))) }),
    ...(code === "unauthorized" && { "www-authenticate": challenge }),
  };
}

const REALM = 'Bearer realm="mailroom"';

/** The challenge of MCP, by which a program finds out how to be let in (RFC 9728 §5.1). */
const challengeOfMcp = (baseUrl: string, { headers }: Request): string =>
  `Bearer resource_metadata="${resourceMetadataUrl(baseUrl)}"${headers.get("authorization") ? ', error="invalid_token"' : ""}`;

function requireAdmitted<T>(caller: T | undefined): T {
  if (!caller) throw new Error("a request came past the gate");
  return caller;
}

/** A request while it is served. */
interface Progress {
  /** The address of the connection, when it is known. */
  peer: string | undefined;
  /** The rates that it counted against. */
  rates: CountedRate[];
  /** The response may be compressed: it holds no secret that is shown once. */
  compresses: boolean;
  /** The caller of a request to MCP, and the refusal if they are over a rate. */
  admitted?: Admitted;
  /** The caller of a request to REST. */
  caller?: Caller;
}

/** Headers of every response: no cache keeps somebody's mail, and no browser takes it for another type than it has. */
const HEADERS = { "cache-control": "private, no-store", "x-content-type-options": "nosniff" };

/** The tighter of two rates: the one that lets less through, and for longer. */
const chooseTighterRate = (a: CountedRate, b: CountedRate): CountedRate =>
  a.remaining < b.remaining || (a.remaining === b.remaining && a.endsIn > b.endsIn) ? a : b;

/**
 * Writes the rate headers. Those with X- tell the rate of the key, or without a valid key that of the source; the others
 * (draft-ietf-httpapi-ratelimit-headers-11) tell the tighter one.
 */
function rateHeaders(rates: readonly CountedRate[]): Record<string, string> {
  const known = rates.at(-1);
  if (!known) return {};
  const { of, limit, remaining, endsIn } = rates.reduce(chooseTighterRate);
  return {
    "x-ratelimit-limit": String(known.limit),
    "x-ratelimit-remaining": String(known.remaining),
    "ratelimit-policy": `"${of}";q=${limit};w=${WINDOW_SECONDS}`,
    ratelimit: `"${of}";r=${remaining};t=${endsIn}`,
  };
}

/**
 * Sets the headers that every response has. Elysia's `set` changes a Response only in routes whose code names it, and
 * Elysia misreads minified code.
 */
function setHeaders(headers: Headers, { rates, admitted }: Progress): void {
  const own = { ...(admitted?.refusal && refusalHeaders(admitted.refusal, REALM)), ...rateHeaders(rates) };
  for (const [name, value] of Object.entries(own)) headers.set(name, value);
  for (const [name, value] of Object.entries(HEADERS)) if (!headers.has(name)) headers.set(name, value);
}

/** An OpenAPI document. The tag is weak, since the document is also sent compressed. */
interface Document {
  text: string;
  etag: string;
}

function writeDocument(surface: Surface, baseUrl: string): Document {
  const text = JSON.stringify(describeApi(surface, baseUrl));
  return { text, etag: `W/"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"` };
}

function documentResponse({ headers: asked }: Request, { text, etag }: Document): Response {
  const headers = { "cache-control": "no-cache", etag };
  if (matchesTag(asked.get("if-none-match"), etag)) return new Response(null, { status: 304, headers });
  return new Response(text, { headers: { ...headers, "content-type": "application/json" } });
}

/** `readClientAddress`: the reader of request.ts. */
export function createRest(
  parts: Serving & {
    surfaces: readonly Surface[];
    gate: Gate;
    mcp: Mcp;
    waiting: Pick<Waiting, "of">;
    readClientAddress(peer: string | undefined, forwardedFor: string | null): string | undefined;
  },
) {
  const { core, surfaces, gate, mcp, readClientAddress } = parts;
  const { log, meters, site } = core;
  const { baseUrl } = site;
  const inProgress = new WeakMap<Request, Progress>();
  /** The documents by path. Each is written when a client first asks for it. */
  const documents = new Map(
    surfaces.map((surface) => {
      let document: Document | undefined;
      return [openApiDocumentPath(surface), () => (document ??= writeDocument(surface, baseUrl))];
    }),
  );
  /** The path of the document that lists what there is near `path`. */
  const documentNear = (path: string): string =>
    openApiDocumentPath(surfaces.find(({ prefix }) => path.startsWith(`${prefix}/`)) ?? MAIL_API);

  /** The refusal of a request for which there is no route, or whose parameters cannot be decoded. */
  function refuseRoute(method: string, path: string): AppError {
    const methods = listPathMethods(path);
    return methods.length > 0 && !methods.includes(method)
      ? new MethodRefusal(methods)
      : new AppError("not_found", `There is nothing here: ${documentNear(path)} lists what there is`);
  }

  function failureResponse(error: unknown, request: Request): Response {
    const { method } = request;
    const path = urlPath(request.url);
    const refusal =
      error instanceof NotFoundError
        ? refuseRoute(method, path)
        : toClientError(core, error, request, { method, path });
    meters.countApiRefusal(refusal.code);
    const challenge = path === MCP_PATH ? challengeOfMcp(baseUrl, request) : REALM;
    return Response.json(
      { error: refusal.message, code: refusal.code },
      { status: refusal.status, headers: refusalHeaders(refusal, challenge) },
    );
  }

  function getRequestProgress(request: Request): Progress {
    const progress = inProgress.get(request);
    if (!progress) throw new Error("a request came from nowhere");
    return progress;
  }

  /** Counts a request that needs no key. @throws AppError rate_limited */
  function admitSource(request: Request): void {
    const { peer, rates } = getRequestProgress(request);
    const address = readClientAddress(peer, request.headers.get("x-forwarded-for"));
    gate.admitSource(ipAddressSource(address), (rate) => rates.push(rate));
  }

  /** Resolves with the caller of a request to REST; undefined for MCP and for a document. @throws AppError */
  async function admit(request: Request): Promise<Caller | undefined> {
    const progress = getRequestProgress(request);
    const path = urlPath(request.url);
    const reads = request.method === "GET" || request.method === "HEAD";
    if (reads && documents.has(path)) {
      if (progress.rates.length === 0) admitSource(request);
      progress.compresses = true;
      return undefined;
    }
    const tell = (rate: CountedRate) => void progress.rates.push(rate);
    const address = readClientAddress(progress.peer, request.headers.get("x-forwarded-for"));
    const authorization = request.headers.get("authorization");
    if (path !== MCP_PATH) {
      progress.caller = progress.caller
        ? { ...progress.caller, ...gate.readmit(authorization, progress.caller) }
        : await gate.admit(address, authorization, tell);
      noteRequestPerson(request, progress.caller);
      return progress.caller;
    }
    progress.compresses = true;
    progress.admitted = await gate.admitOrDefer(address, authorization, tell);
    const { caller, refusal } = progress.admitted;
    noteRequestPerson(request, caller);
    if (refusal) meters.countApiRefusal(refusal.code);
    return undefined;
  }

  /** Responds to a preflight, which has no key. It counts as a request of its source. */
  function preflightResponse(request: Request): Response {
    try {
      admitSource(request);
      return cors.preflightResponse();
    } catch (error) {
      return failureResponse(error, request);
    }
  }

  // standardHostname: by default, Elysia finds no path after a short host name.
  const app = new Elysia({ strictPath: true, precompile: true, handler: { standardHostname: false } })
    .decorate("caller", undefined as Caller | undefined)
    .onRequest(async (context) => {
      context.caller = await admit(context.request);
    })
    .onError(({ error, request }) => failureResponse(error, request))
    .all(MCP_PATH, ({ request }) => mcp.respond(request, requireAdmitted(getRequestProgress(request).admitted)), {
      parse: "none",
    });

  for (const [path, write] of documents) {
    app.get(path, ({ request }) => documentResponse(request, write()));
  }

  for (const { prefix, operation } of surfaces.flatMap(({ prefix, operations }) =>
    operations.map((operation) => ({ prefix, operation })),
  )) {
    const handle = makeOperationHandler(operation, parts);
    // A download may be a file of JSON, of which clients may ask ranges.
    const compresses = !operation.secrets && !isMediaType(operation.response);
    app.route(
      operation.method,
      prefix + operation.path,
      async ({ request, params, caller, set }) => {
        getRequestProgress(request).compresses = compresses;
        // Elysia gives no params to a route without parameters.
        const { status, answer, replayed } = await handle(request, params ?? {}, requireAdmitted(caller));
        if (isMediaType(operation.response)) {
          const download = answer as AnyDownload;
          return "read" in download ? taggedDownloadResponse(download, request) : downloadResponse(download);
        }
        set.status = status;
        if (replayed) set.headers["idempotency-replayed"] = "true";
        return answer;
      },
      { parse: "none" },
    );
  }

  const pages = [REFERENCE_PATH, `${REFERENCE_PATH}/`].map((path) => ({ method: "GET", path }));
  const listPathMethods = createMethodFinder([...app.routes, ...pages]);

  /**
   * Responds to a request under /api/. `peer` is the address of the connection, when it is known. One that is responded to again, after
   * its answer had no room, counts against no rate again.
   */
  return async (request: Request, peer: string | undefined): Promise<Response> => {
    const progress: Progress = inProgress.get(request) ?? { peer, rates: [], compresses: false };
    inProgress.set(request, progress);
    const response = cors.isPreflight(core, request) ? preflightResponse(request) : await app.handle(request);
    setHeaders(response.headers, progress);
    cors.setHeaders(core, request, response.headers);
    // The query is not logged: it shows what a person looks for in their mail.
    const { method, url } = request;
    log.debug("request", { trace: requestTraceId(request), method, path: urlPath(url), status: response.status });
    return progress.compresses ? compressJson(request, response) : response;
  };
}
