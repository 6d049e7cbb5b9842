/**
 * What the HTTP listeners answer. The one with the app: /healthz, /metrics, everything under /api/, and the web app with
 * the API reference (web.ts). The one beside an HTTPS listener: /healthz, and where else to go. Either answers the
 * challenges of a certificate authority.
 */
import type { Rest } from "../api/rest.ts";
import { pathOf, queryOf } from "../api/target.ts";
import { STRICT_TRANSPORT_SECURITY } from "./headers.ts";
import { type BehindParts, type HttpListenerParts, type HttpServer, listenBehind, listenHttp } from "./listener.ts";
import type { AnswerMetrics } from "./metrics.ts";
import { REFERENCE_PATH } from "./reference.ts";
import type { Web } from "./web.ts";

/** Whether a part of the appliance works; throwing is no. */
type HealthCheck = () => boolean | Promise<boolean>;

/** What anybody is told, over HTTP and HTTPS alike. */
export interface OpenParts {
  /** By name; /healthz says which of them fail (rules: Web). */
  health: Readonly<Record<string, HealthCheck>>;
  /** Who answers searches, and why not the engine that the settings ask for; it decides nothing (rules: Web). */
  search?: () => { engine: string; reason?: string };
  /** What to show the certificate authority that asks for `token` (RFC 8555 §8.3); undefined for one that is not ours. */
  challenge?: (token: string) => string | undefined;
}

export interface HttpServerParts extends OpenParts, Pick<HttpListenerParts, "runtime" | "log"> {
  rest: Rest;
  web: Pick<Web, "answer">;
  metrics?: AnswerMetrics;
  /** The MTA-STS policy at a host and path: null for a policy host's other paths, undefined for other hosts. */
  policyAt?: (host: string, path: string) => string | null | undefined;
  /** It is behind TLS of ours: whatever it answers says to come by HTTPS only from now on. */
  secure?: boolean;
}

/** Where to listen; behind a listener that carries connections there, or for everybody. */
type Place = Pick<HttpListenerParts, "listen" | "connections"> | Pick<BehindParts, "originOf">;

export interface RedirectorParts extends OpenParts, Omit<HttpListenerParts, "answer"> {
  /** Where everything else is: an origin of https. */
  target: string;
}

const CHALLENGE = "/.well-known/acme-challenge/";

const text = (body: string, status: number, headers: Record<string, string> = {}): Response =>
  new Response(body, { status, headers: { "x-content-type-options": "nosniff", ...headers } });

async function answerHealth({ health: checks, search }: OpenParts): Promise<Response> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      const works = await Promise.try(check).catch(() => false);
      return [name, works ? "ok" : "failing"] as const;
    }),
  );
  const healthy = results.every(([, result]) => result === "ok");
  const searched = search?.();
  return Response.json(
    {
      status: healthy ? "ok" : "failing",
      checks: Object.fromEntries(results),
      ...(searched && { search: searched.engine + (searched.reason === undefined ? "" : ` (${searched.reason})`) }),
    },
    { status: healthy ? 200 : 503, headers: { "cache-control": "no-store" } },
  );
}

/** Undefined for what is not for anybody. */
async function answerOpenly(request: Request, path: string, parts: OpenParts): Promise<Response | undefined> {
  if (request.method !== "GET" && request.method !== "HEAD") return undefined;
  if (path === "/healthz") return answerHealth(parts);
  if (!path.startsWith(CHALLENGE)) return undefined;
  const proof = parts.challenge?.(path.slice(CHALLENGE.length));
  return proof === undefined
    ? text("Not found\n", 404)
    : text(proof, 200, { "content-type": "application/octet-stream", "cache-control": "no-store" });
}

/** Starts listening with the app. @throws when the address cannot be bound. */
export function createHttpServer({
  rest,
  web,
  metrics,
  policyAt,
  secure = false,
  ...parts
}: HttpServerParts & Place): HttpServer {
  async function answer(request: Request, peer: string | undefined): Promise<Response> {
    const response = await find(request, peer);
    if (secure) response.headers.set("strict-transport-security", STRICT_TRANSPORT_SECURITY);
    return response;
  }

  async function find(request: Request, peer: string | undefined): Promise<Response> {
    const path = pathOf(request.url);
    if (request.url.startsWith("/")) {
      return Response.json({ error: "The Host header is not a host name", code: "bad_request" }, { status: 400 });
    }
    if (path === "/metrics" && metrics && (request.method === "GET" || request.method === "HEAD")) {
      return metrics(request, peer);
    }
    const policy = answerPolicy(request, path);
    if (policy) return policy;
    const isApi = path.startsWith("/api/");
    if (isApi && !path.startsWith(REFERENCE_PATH)) return rest(request, peer);
    const answered = (await answerOpenly(request, path, parts)) ?? (await web.answer(request, path, peer));
    return answered ?? (isApi ? rest(request, peer) : text("Not found\n", 404));
  }

  /** A policy host is for nothing else, but for getting its certificate. */
  function answerPolicy(request: Request, path: string): Response | undefined {
    const host = request.headers.get("host")?.toLowerCase().replace(/:\d+$/, "") ?? "";
    if (!host.startsWith("mta-sts.") || path.startsWith(CHALLENGE)) return undefined;
    const policy = policyAt?.(host, path);
    if (policy === undefined) return undefined;
    if (policy === null || (request.method !== "GET" && request.method !== "HEAD")) return text("Not found\n", 404);
    return text(policy, 200, { "content-type": "text/plain; charset=utf-8" });
  }

  return "originOf" in parts ? listenBehind({ ...parts, answer }) : listenHttp({ ...parts, answer });
}

/**
 * Starts listening with nothing but what is open, and a redirect that keeps method and body (RFC 9110 §15.4.9).
 * @throws when the address cannot be bound.
 */
export function createRedirector({ target, ...parts }: RedirectorParts): HttpServer {
  async function answer(request: Request): Promise<Response> {
    const path = pathOf(request.url);
    const query = queryOf(request.url);
    const location = `${target}${path}${query === "" ? "" : `?${query}`}`;
    return (await answerOpenly(request, path, parts)) ?? text(`Use ${target}\n`, 308, { location });
  }
  return listenHttp({ ...parts, answer });
}
