/**
 * The endpoints of OAuth that programs call (rules: OAuth), and the documents by which they find MCP: metadata, token,
 * revocation, registration. The authorization
 * endpoint is a page of the app, whose requests come with a person's session (operations/person/oauth-in-app.ts).
 *
 * Invariant: these endpoints read no cookie.
 */
import { createRateLimit } from "../access/rate.ts";
import type { Slowdown } from "../access/slowdown.ts";
import * as cors from "../api/cors.ts";
import { toClientError } from "../api/failure.ts";
import { describeMcp } from "../api/mcp/mcp-discovery.ts";
import { isReadRequest, methodNotAllowedResponse, READING } from "../api/methods.ts";
import { readBodyBytes, readJson, requestTraceId } from "../api/request.ts";
import { AppError } from "../base/errors.ts";
import { OAuthError } from "../oauth/error.ts";
import { describeOAuth, REGISTER_PATH, REVOKE_PATH, resourceIdentifier, TOKEN_PATH } from "../oauth/metadata.ts";
import type { OAuth } from "../oauth/oauth.ts";
import type { Core } from "../store/core.ts";

const LARGEST_BODY = 16 * 1024;

/** RFC 6749 §5.1; nothing that is told here is kept by a cache. */
const FRESH = { "cache-control": "no-store", pragma: "no-cache" };

/** Headers of a metadata document. Pages of every origin may read it, for it says nothing that a stranger may not know. */
const DOCUMENT = {
  "cache-control": "public, max-age=300",
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET",
  "access-control-allow-headers": "*",
};

const STATUS: Partial<Record<OAuthError["code"], number>> = { invalid_client: 401 };

interface OAuthEndpointParts {
  oauth: OAuth;
  slowdown: Slowdown;
  readClientSource(peer: string | undefined, forwardedFor: string | null): string;
}

/** @throws OAuthError invalid_request */
function requireForm({ headers }: Request): void {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type === "application/x-www-form-urlencoded") return;
  throw new OAuthError("invalid_request", "send application/x-www-form-urlencoded");
}

/** Responds to requests for the endpoints; undefined for other paths. */
export function createOAuthEndpoints(core: Core, { oauth, slowdown, readClientSource }: OAuthEndpointParts) {
  const { options, runtime, log, site } = core;
  const { baseUrl } = site;
  const documents = new Map([...describeOAuth(baseUrl), ...describeMcp(baseUrl, resourceIdentifier(baseUrl))]);
  const sources = createRateLimit(
    () => options.get("api.ipRequestsPerMinute"),
    () => options.get("api.cooldownSeconds"),
  );

  /** The text of a form. @throws OAuthError; AppError */
  async function readForm(request: Request): Promise<string> {
    requireForm(request);
    if (request.headers.has("authorization")) {
      throw new OAuthError("invalid_client", "programs have no secret here: give client_id in the body");
    }
    return new TextDecoder().decode(await readBodyBytes(request, LARGEST_BODY, () => {}));
  }

  async function guessed(source: string): Promise<void> {
    log.info("sign-in failed", { over: "oauth", account: null, source });
    await slowdown.failed(source);
  }

  const endpoints: Record<string, (request: Request, source: string) => Promise<Response>> = {
    [TOKEN_PATH]: async (request) => Response.json(oauth.exchange(await readForm(request)), { headers: FRESH }),
    async [REVOKE_PATH](request, source) {
      if (!oauth.revoke(await readForm(request))) await guessed(source);
      return new Response(null, { headers: FRESH });
    },
    [REGISTER_PATH]: async (request, source) =>
      Response.json(oauth.register(await readJson(request, LARGEST_BODY), source), { status: 201, headers: FRESH }),
  };

  function refusalResponse(error: unknown, request: Request, path: string): Response {
    if (error instanceof OAuthError) {
      const { code, message } = error;
      const challenge = code === "invalid_client" && { "www-authenticate": 'Basic realm="mailroom"' };
      return Response.json(
        { error: code, error_description: message },
        { status: STATUS[code] ?? 400, headers: { ...FRESH, ...challenge } },
      );
    }
    const { code, status, message, retryAfter } = toClientError(core, error, request, { method: request.method, path });
    const isLater = code === "rate_limited" || status === 503;
    const answered = isLater ? "temporarily_unavailable" : status < 500 ? malformed(path) : "server_error";
    return Response.json(
      { error: answered, error_description: message },
      {
        status,
        headers: { ...FRESH, ...(retryAfter !== undefined && { "retry-after": String(Math.ceil(retryAfter)) }) },
      },
    );
  }

  const malformed = (path: string) => (path === REGISTER_PATH ? "invalid_client_metadata" : "invalid_request");

  /** @throws AppError rate_limited */
  function admit(source: string): void {
    const { retryAfter } = sources.take(source, runtime.now());
    if (retryAfter === undefined) return;
    throw new AppError("rate_limited", "Too many requests from this address", { retryAfter });
  }

  async function respondTo(request: Request, path: string, source: string): Promise<Response> {
    const document = documents.get(path);
    try {
      admit(source);
      if (document && request.method === "OPTIONS") return new Response(null, { status: 204, headers: DOCUMENT });
      if (cors.isPreflight(core, request)) return cors.preflightResponse();
      if (document) {
        return isReadRequest(request)
          ? Response.json(document, { headers: DOCUMENT })
          : methodNotAllowedResponse(READING);
      }
      if (request.method !== "POST") {
        return Response.json(
          { error: "invalid_request", error_description: "use POST" },
          { status: 405, headers: { allow: "POST" } },
        );
      }
      return (await endpoints[path]?.(request, source)) as Response;
    } catch (error) {
      // The codes for what a guess gets wrong.
      const isGuess =
        error instanceof OAuthError && (error.code === "invalid_grant" || error.code === "invalid_client");
      if (isGuess) await guessed(source);
      return refusalResponse(error, request, path);
    }
  }

  return async (request: Request, path: string, peer: string | undefined): Promise<Response | undefined> => {
    if (!documents.has(path) && !Object.hasOwn(endpoints, path)) return undefined;
    const response = await respondTo(request, path, readClientSource(peer, request.headers.get("x-forwarded-for")));
    response.headers.set("x-content-type-options", "nosniff");
    if (!documents.has(path)) cors.setHeaders(core, request, response.headers);
    log.debug("request", { trace: requestTraceId(request), method: request.method, path, status: response.status });
    return response;
  };
}
