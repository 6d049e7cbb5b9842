/**
 * The HTTP listener: one Bun.serve for /healthz, everything under /api/, and the web app (web.ts).
 *
 * Invariant: whatever arrives is answered, and what arrived before `stop` is finished.
 */
import type { Rest } from "../api/rest.ts";
import { pathOf } from "../api/target.ts";
import type { Log } from "../log.ts";
import type { Runtime } from "../runtime.ts";
import type { Web } from "./web.ts";

/** Whether a part of the appliance works; throwing is no. */
type HealthCheck = () => boolean | Promise<boolean>;

export interface HttpServer {
  /** As bound: `port` is the one that was picked for port 0. */
  readonly address: { host: string; port: number };
  /** Takes no new connections and resolves when what is in flight has ended, or after `graceMs` has been cut off. */
  stop(graceMs: number): Promise<void>;
}

export interface HttpServerParts {
  listen: { host: string; port: number };
  rest: Rest;
  web: Pick<Web, "answer">;
  /** By name; /healthz says which of them fail (contract: Web). */
  health: Readonly<Record<string, HealthCheck>>;
  runtime: Pick<Runtime, "setTimer">;
  log: Log;
}

/** Seconds that a connection may be silent: longer than clients keep them open, so that they close first. */
const IDLE_SECONDS = 75;
/** How often `stop` looks whether anything is still in flight, ms. */
const STOP_POLL_MS = 20;

const text = (body: string, status: number): Response =>
  new Response(body, { status, headers: { "x-content-type-options": "nosniff" } });

async function answerHealth(checks: HttpServerParts["health"]): Promise<Response> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      const works = await Promise.try(check).catch(() => false);
      return [name, works ? "ok" : "failing"] as const;
    }),
  );
  const healthy = results.every(([, result]) => result === "ok");
  return Response.json(
    { status: healthy ? "ok" : "failing", checks: Object.fromEntries(results) },
    { status: healthy ? 200 : 503, headers: { "cache-control": "no-store" } },
  );
}

/** Starts listening. @throws when the address cannot be bound. */
export function createHttpServer({ listen, rest, web, health, runtime, log }: HttpServerParts): HttpServer {
  async function answer(request: Request, peer: string | undefined): Promise<Response> {
    const path = pathOf(request.url);
    // Bun leaves the origin out when the Host header names none. HTTP/1.0 needs no such header (RFC 9112 §3.2).
    const isNamed = !request.url.startsWith("/");
    if (!isNamed && request.headers.has("host")) {
      return Response.json({ error: "The Host header is not a host name", code: "bad_request" }, { status: 400 });
    }
    const named = isNamed ? request : new Request(`http://localhost${request.url}`, request);
    if (path.startsWith("/api/")) return rest(named, peer);
    if (path === "/healthz" && (request.method === "GET" || request.method === "HEAD")) return answerHealth(health);
    return (await web.answer(named, path, peer)) ?? text("Not found\n", 404);
  }

  const server = Bun.serve({
    hostname: listen.host,
    port: listen.port,
    idleTimeout: IDLE_SECONDS,
    // Bun's own refusal would have no body; the API counts what it reads, and unread bytes are not kept.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Without development mode Bun shares the port: a second server would silently take half of the requests.
    reusePort: false,
    fetch: (request, server) => answer(request, server.requestIP(request)?.address),
    error(error) {
      log.error("an HTTP request failed", { error });
      return Response.json(
        { error: "Something failed on our side. It is safe to try again.", code: "server_error" },
        { status: 500 },
      );
    },
  });

  return {
    address: { host: listen.host, port: server.port ?? listen.port },
    async stop(graceMs) {
      void server.stop();
      // Not its promise: it also waits for connections on which Bun answered before the request's body was whole.
      for (let waited = 0; server.pendingRequests > 0 && waited < graceMs; waited += STOP_POLL_MS) {
        await new Promise<void>((resolve) => runtime.setTimer(resolve, STOP_POLL_MS));
      }
      await server.stop(true);
    },
  };
}
