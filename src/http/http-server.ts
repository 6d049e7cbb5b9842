/**
 * The HTTP and HTTPS servers. The server with the app has /healthz, /metrics, everything under /api/, and the web app
 * with the API reference (web.ts). Beside an HTTPS listener, the HTTP listener has only /healthz and a redirect. Both
 * answer the challenges of a certificate authority.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { isReadRequest, methodNotAllowedResponse, READING } from "../api/methods.ts";
import { requestHost, urlPath, urlQuery } from "../api/request.ts";
import type { Rest } from "../api/rest.ts";
import { REFERENCE_PATH } from "../api/surfaces.ts";
import type { AppError } from "../base/errors.ts";
import { CONTENT_TYPE } from "../base/metrics.ts";
import { canonicalIpAddress, createNetworkMatcher, isLoopback, isLoopbackHost } from "../net/ip.ts";
import { APP_PREFIX } from "../operations/app-routes.ts";
import type { Core } from "../store/core.ts";
import type { Certificates } from "../tls/certificates.ts";
import type { HttpServer } from "./carrier.ts";
import { createHttpsServer } from "./https.ts";
import { type HttpListenerParts, type InnerListenerParts, listenHttp, listenHttpInner } from "./listener.ts";
import { type Discovery, isAutodiscover } from "./mail-app-discovery.ts";
import { STRICT_TRANSPORT_SECURITY } from "./response-headers.ts";
import type { Web } from "./web.ts";

/** True when a part of the appliance works. An exception counts as false. */
type HealthCheck = () => boolean | Promise<boolean>;

interface ReplicaHealth {
  /** Greatest age of a committed change that may be missing in the replica, ms. */
  lag: number;
  works: boolean;
}

/** Sources of the public resources, which HTTP and HTTPS both serve. */
interface OpenParts {
  /** Checks by name; /healthz tells which fail (rules: Web). */
  health: Readonly<Record<string, HealthCheck>>;
  /**
   * The engine that answers searches, and why it is not the one of the settings. Does not change the status (rules:
   * Web).
   */
  search?: () => { engine: string; reason?: string };
  /** Place of the attachments, if not in the data folder, and whether it fails. Does not change the status (rules: Web). */
  blobs?: () => string;
  /** How far the replica is behind, where there is one. Does not change the status. */
  replica?: () => ReplicaHealth;
  /** State of a standby and of the server that it follows. Does not change the status. */
  standby?: () => object;
  /** The response to the certificate authority for `token` (RFC 8555 §8.3); undefined for an unknown token. */
  challenge?: (token: string) => string | undefined;
}

interface HttpServerParts extends OpenParts, Pick<HttpListenerParts, "pools" | "runtime" | "log"> {
  rest: Rest;
  web: Pick<Web, "respond">;
  /** The refusal of every request for mail, while there is one. */
  unavailable?: () => AppError | undefined;
  /** Responds for /metrics. `peer`: the address the connection came from, undefined when the system does not tell it. */
  metrics?: (request: Request, peer: string | undefined) => Promise<Response>;
  /** The MTA-STS policy at a host and path: null for a policy host's other paths, undefined for other hosts. */
  policyAt?: (host: string, path: string) => string | null | undefined;
  /** The settings of mail apps; undefined for requests for something else. */
  discovery?: Discovery;
  /** True behind our TLS: responses tell browsers to use HTTPS only. */
  secure?: boolean;
  /**
   * Answers only requests to loopback addresses and names. A page whose own name leads here (DNS rebinding) could
   * otherwise use the public key of a demo.
   */
  localOnly?: boolean;
}

/** A public listener, or an inner one. */
type ListenerKind = Pick<HttpListenerParts, "listen" | "connections"> | Pick<InnerListenerParts, "findCarriedOrigin">;

const CHALLENGE = "/.well-known/acme-challenge/";

const text = (body: string, status: number, headers: Record<string, string> = {}): Response =>
  new Response(body, { status, headers: { "x-content-type-options": "nosniff", ...headers } });

async function healthResponse({ health: checks, search, blobs, replica, standby }: OpenParts): Promise<Response> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      const works = await Promise.try(check).catch(() => false);
      return [name, works ? "ok" : "failing"] as const;
    }),
  );
  const healthy = results.every(([, result]) => result === "ok");
  const searched = search?.();
  const replicated = replica?.();
  return Response.json(
    {
      status: healthy ? "ok" : "failing",
      checks: Object.fromEntries(results),
      ...(replicated && { replica: describeReplica(replicated) }),
      ...(searched && { search: searched.engine + (searched.reason === undefined ? "" : ` (${searched.reason})`) }),
      ...(blobs && { blobs: blobs() }),
      ...(standby && { standby: standby() }),
    },
    { status: healthy ? 200 : 503, headers: { "cache-control": "no-store" } },
  );
}

/** State of the replica without the reason, which names servers: the page is public. */
const describeReplica = ({ lag, works }: ReplicaHealth): string =>
  `${works ? "ok" : "failing"}, ${(lag / 1_000).toFixed(1)} s behind`;

const refusalResponse = ({ message: error, code, status, retryAfter = 1 }: AppError): Response =>
  Response.json(
    { error, code },
    { status, headers: { "retry-after": String(retryAfter), "cache-control": "no-store" } },
  );

/** The response for a public resource; undefined for other paths. */
async function openResponse(request: Request, path: string, parts: OpenParts): Promise<Response | undefined> {
  if (path === "/healthz") return isReadRequest(request) ? healthResponse(parts) : methodNotAllowedResponse(READING);
  if (!path.startsWith(CHALLENGE)) return undefined;
  const proof = parts.challenge?.(path.slice(CHALLENGE.length));
  if (proof === undefined) return text("Not found\n", 404);
  if (!isReadRequest(request)) return methodNotAllowedResponse(READING);
  return text(proof, 200, { "content-type": "application/octet-stream", "cache-control": "no-store" });
}

const FORWARDED = ["x-forwarded-for", "forwarded"];

const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();

/**
 * /metrics (rules: Metrics), for requests with metrics.token, and for this machine and the networks of
 * metrics.allowNetworks. Without the token it refuses forwarded requests, because the proxy's address does not tell who
 * asks.
 */
export async function metricsResponse(core: Core, request: Request, peer: string | undefined): Promise<Response> {
  if (mayReadMetrics(core, request, peer)) {
    return new Response(await core.metrics.expose(), {
      headers: { "content-type": CONTENT_TYPE, "cache-control": "no-store", "x-content-type-options": "nosniff" },
    });
  }
  return text(
    "Metrics are for this machine and the networks of metrics.allowNetworks, without a proxy, or take metrics.token\n",
    403,
  );
}

function mayReadMetrics({ options }: Core, request: Request, peer: string | undefined): boolean {
  const token = options.get("metrics.token");
  const given = request.headers.get("authorization") ?? "";
  if (token !== "none" && timingSafeEqual(sha256(given), sha256(`Bearer ${token}`))) return true;
  if (FORWARDED.some((name) => request.headers.has(name))) return false;
  const address = canonicalIpAddress(peer ?? "");
  if (address === undefined) return false;
  const networks = options.get("metrics.allowNetworks");
  return isLoopback(address) || (networks !== "none" && createNetworkMatcher(networks)(address));
}

/** Starts a server with the app. @throws when the address cannot be bound */
export function createHttpServer({
  rest,
  web,
  unavailable,
  metrics,
  policyAt,
  discovery,
  secure = false,
  localOnly = false,
  ...parts
}: HttpServerParts & ListenerKind): HttpServer {
  async function respond(request: Request, peer: string | undefined): Promise<Response> {
    const response = await find(request, peer);
    if (secure) response.headers.set("strict-transport-security", STRICT_TRANSPORT_SECURITY);
    return response;
  }

  async function find(request: Request, peer: string | undefined): Promise<Response> {
    const path = urlPath(request.url);
    if (localOnly && !isLoopbackHost(new URL(request.url).hostname)) {
      return Response.json({ error: "A demo answers to localhost alone", code: "forbidden" }, { status: 403 });
    }
    if (path === "/metrics" && metrics)
      return isReadRequest(request) ? metrics(request, peer) : methodNotAllowedResponse(READING);
    const policy = policyResponse(request, path);
    if (policy) return policy;
    const settings = path.startsWith(CHALLENGE) ? undefined : await discovery?.(request, path, peer);
    if (settings) return settings;
    const isApi = path.startsWith("/api/");
    const refusal = isApi || path.startsWith(`${APP_PREFIX}/`) ? unavailable?.() : undefined;
    if (refusal) return refusalResponse(refusal);
    if (isApi && !path.startsWith(REFERENCE_PATH)) return rest(request, peer);
    const answered = (await openResponse(request, path, parts)) ?? (await web.respond(request, path, peer));
    return answered ?? (isApi ? rest(request, peer) : text("Not found\n", 404));
  }

  /** A policy host serves only its policy, and challenges for its certificate. */
  function policyResponse(request: Request, path: string): Response | undefined {
    const host = requestHost(request);
    if (!host.startsWith("mta-sts.") || path.startsWith(CHALLENGE)) return undefined;
    const policy = policyAt?.(host, path);
    if (policy === undefined) return undefined;
    if (policy === null) return text("Not found\n", 404);
    if (!isReadRequest(request)) return methodNotAllowedResponse(READING);
    return text(policy, 200, { "content-type": "text/plain; charset=utf-8" });
  }

  return "findCarriedOrigin" in parts ? listenHttpInner({ ...parts, respond }) : listenHttp({ ...parts, respond });
}

/**
 * Starts a server with the public resources, and a redirect that keeps method and body (RFC 9110 §15.4.9).
 * @throws when the address cannot be bound
 */
function createRedirector({
  target,
  ...parts
}: OpenParts &
  Omit<HttpListenerParts, "respond"> & {
    /** The https origin to redirect to. */
    target: string;
  }): HttpServer {
  async function respond(request: Request): Promise<Response> {
    const path = urlPath(request.url);
    const query = urlQuery(request.url);
    const location = `${target}${path}${query === "" ? "" : `?${query}`}`;
    // Outlook takes no other redirect, and follows this one without a certificate for the name that it asked.
    const status = isAutodiscover(path) && request.method === "GET" ? 302 : 308;
    return (await openResponse(request, path, parts)) ?? text(`Use ${target}\n`, status, { location });
  }
  return listenHttp({ ...parts, respond });
}

export interface HttpParts
  extends Omit<HttpServerParts, "secure" | "challenge">,
    Pick<HttpListenerParts, "connections"> {
  http: HttpListenerParts["listen"] | "off";
  https: HttpListenerParts["listen"] | "off";
  /** Public origin. */
  baseUrl: string;
  /** Defined when `https` is on. */
  certificates: Certificates | undefined;
  /** Starts the listener of a variable. Resolves with its `host:port`. */
  bound(variable: string, start: () => HttpServer | Promise<HttpServer>): Promise<string>;
}

/**
 * Starts the listeners for the app (rules: Listeners): HTTP, or HTTPS with a redirect on HTTP. Resolves with each
 * address as `host:port`, or `off`.
 */
export async function startHttp({
  http,
  https,
  baseUrl,
  certificates,
  bound,
  connections,
  ...rest
}: HttpParts): Promise<{ http: string; https?: string }> {
  const parts = { ...rest, ...(certificates && { challenge: certificates.proof }) };
  if (https === "off" || !certificates) {
    if (http === "off") return { http };
    return { http: await bound("MAILROOM_HTTP", () => createHttpServer({ ...parts, connections, listen: http })) };
  }
  const { runtime, log } = parts;
  const address = await bound("MAILROOM_HTTPS", () =>
    createHttpsServer({
      listen: https,
      certificates,
      connections,
      runtime,
      log,
      startInner: (inner) => createHttpServer({ ...parts, ...inner, secure: true }),
    }),
  );
  const target = originOver(baseUrl, address);
  if (target !== baseUrl) parts.log.warn("MAILROOM_BASE_URL is not https", { baseUrl, redirectingTo: target });
  if (http === "off") return { http, https: address };
  const plain = await bound("MAILROOM_HTTP", () => createRedirector({ ...parts, connections, listen: http, target }));
  return { http: plain, https: address };
}

/** The public origin if it is https, else its host with the listener's port. */
function originOver(baseUrl: string, address: string): string {
  const url = new URL(baseUrl);
  return url.protocol === "https:" ? baseUrl : new URL(`https://${url.hostname}:${address.split(":").at(-1)}`).origin;
}
