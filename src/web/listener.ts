/**
 * A listener for HTTP: one Bun.serve.
 *
 * Invariant: whatever arrives is answered, and what arrived before `stop` is finished.
 */
import type { Log } from "../log.ts";
import { pause } from "../pause.ts";
import type { Runtime } from "../runtime.ts";

export interface HttpServer {
  /** As bound: `port` is the one that was picked for port 0. */
  readonly address: { host: string; port: number };
  /** Takes no new connections and resolves when what is in flight has ended, or after `graceMs` has been cut off. */
  stop(graceMs: number): Promise<void>;
}

export interface Peer {
  address: string;
  port: number;
}

export interface Origin {
  /** Undefined when the system does not tell it. */
  address: string | undefined;
}

export interface HttpListenerParts {
  listen: { host: string; port: number };
  /** `peer`: the address the connection came from; undefined when the system does not tell it. */
  answer(request: Request, peer: string | undefined): Promise<Response>;
  /** Where the connection from `peer` really came from; undefined for one that is not to be answered. By default there. */
  originOf?: (peer: Peer | null) => Origin | undefined;
  runtime: Pick<Runtime, "setTimer">;
  log: Log;
}

/** Seconds that a connection may be silent: longer than clients keep them open, so that they close first. */
const IDLE_SECONDS = 75;
/** How often `stop` looks whether anything is still in flight, ms. */
const STOP_POLL_MS = 20;

/** Starts listening. @throws when the address cannot be bound. */
export function listenHttp({ listen, answer, originOf, runtime, log }: HttpListenerParts): HttpServer {
  const originOfPeer = originOf ?? ((peer) => ({ address: peer?.address }));
  const server = Bun.serve({
    hostname: listen.host,
    port: listen.port,
    idleTimeout: IDLE_SECONDS,
    // Bun's own refusal would have no body; the API counts what it reads, and unread bytes are not kept.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Without development mode Bun shares the port: a second server would silently take half of the requests.
    reusePort: false,
    fetch(request, server) {
      const origin = originOfPeer(server.requestIP(request));
      return origin ? answer(request, origin.address) : new Response("Forbidden\n", { status: 403 });
    },
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
        await pause(runtime, STOP_POLL_MS);
      }
      await server.stop(true);
    },
  };
}
