/**
 * An HTTP listener in two parts: the public one counts connections (connections.ts) and carries their requests to the
 * inner one, a Bun.serve on loopback (carrier.ts). The detour exists because Bun.serve neither counts nor limits
 * connections, leaves requests without a response (carrier.ts), and cannot change its certificate (https.ts).
 *
 * Invariants: every request gets a response, and requests that arrived before `stop` are finished. The inner listener
 * serves only connections that the public one carries.
 */
import type { Socket } from "bun";
import type { Pools } from "../api/pools.ts";
import { assignRequestTraceId, createRequestTraceId, findRequestPerson } from "../api/request.ts";
import { EVENT_STREAM } from "../api/unread-answers.ts";
import { AppError, isUnavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { ipAddressSource } from "../net/ip.ts";
import {
  type Carried,
  type ClientSide,
  createConnectionCarrier,
  type HttpServer,
  type Origin,
  writeHttpRefusal,
} from "./carrier.ts";
import type { Connections } from "./connections.ts";

export interface HttpListenerParts {
  listen: { host: string; port: number };
  /** `peer`: the address the connection came from; undefined when the system does not tell it. */
  respond(request: Request, peer: string | undefined): Promise<Response>;
  connections: Connections;
  pools: Pick<Pools, "answers" | "streams">;
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer">;
  log: Log;
}

export interface InnerListenerParts extends Omit<HttpListenerParts, "connections" | "listen"> {
  /** The origin of the connection from a port of this machine; undefined for a connection that is not carried. */
  findCarriedOrigin(port: number): Origin | undefined;
}

/** Seconds that a connection may idle: longer than clients keep theirs, so that clients close first. */
const IDLE_SECONDS = 75;
/** Seconds. */
const RETRY_AFTER = 10;

const CROWDED = new AppError("server_error", "Too many connections are open: try again in a few seconds", {
  status: 503,
  retryAfter: RETRY_AFTER,
});

const TOO_MANY_STREAMS = new AppError("rate_limited", "Too many pages of the app, or streams of events, are open", {
  retryAfter: 60,
});

const refusalResponse = ({ message: error, code, status, retryAfter }: AppError): Response =>
  Response.json(
    { error, code },
    { status, headers: { "cache-control": "no-store", "retry-after": String(retryAfter) } },
  );

/** Starts the inner listener, on loopback. @throws when no port can be bound */
export function listenHttpInner({ respond, findCarriedOrigin, pools, runtime, log }: InnerListenerParts): HttpServer {
  function failureResponse(error: unknown, trace?: string): Response {
    log.error("an HTTP request failed", { trace, error });
    return Response.json(
      { error: "Something failed on our side. It is safe to try again.", code: "server_error" },
      { status: 500 },
    );
  }

  /** Responds to a request, and counts it against its origin until the response. */
  async function respondCounted(request: Request, origin: Origin, trace: string): Promise<Response> {
    const { address, admission, holds } = origin;
    const end = admission.begin(request);
    if (!end) return refusalResponse(CROWDED);
    // All strangers together have the part of a workspace.
    const who = () => findRequestPerson(request) ?? { workspaceId: "", userId: ipAddressSource(address) };
    let streams = false;
    try {
      const response = await pools.answers.give(request, () => respond(request, address), { who, holds });
      if (response.headers.get("content-type") !== EVENT_STREAM) return response;
      const place = pools.streams.take(who(), 1);
      if (typeof place === "string") {
        void response.body?.cancel();
        return refusalResponse(TOO_MANY_STREAMS);
      }
      holds(place.release);
      streams = true;
      response.headers.set("connection", "close");
      return response;
    } catch (error) {
      return isUnavailable(error) ? refusalResponse(error) : failureResponse(error, trace);
    } finally {
      // A stream of events counts until its connection closes, which ends with it.
      if (!streams) end();
    }
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: IDLE_SECONDS,
    // Bun's own refusal would have no body; the API counts what it reads, and unread bytes are not kept.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Without development mode Bun shares the port: a second server would silently take half of the requests.
    reusePort: false,
    async fetch(request, server) {
      const peer = server.requestIP(request);
      const origin = peer ? findCarriedOrigin(peer.port) : undefined;
      if (!origin) return new Response("Forbidden\n", { status: 403 });
      const trace = assignRequestTraceId(request, runtime, origin.leaving);
      const response = await respondCounted(request, origin, trace);
      response.headers.set("x-request-id", trace);
      return response;
    },
    error: (error) => failureResponse(error),
  });

  return {
    address: { host: "127.0.0.1", port: server.port ?? 0 },
    stop: () => server.stop(true),
  };
}

interface Client {
  /** Undefined for a connection that was not admitted. */
  carried: Carried | undefined;
  /** Bytes that the client has not taken yet. */
  unsent: Buffer | undefined;
  /** The connection closes once everything is sent. */
  ends: boolean;
}

/** Starts a public listener and its inner one. @throws when the address cannot be bound */
export function listenHttp({ listen, connections, ...parts }: HttpListenerParts): HttpServer {
  const { runtime } = parts;
  const carrier = createConnectionCarrier({
    connections,
    startInner: (rest) => listenHttpInner({ ...parts, ...rest }),
    runtime,
    log: parts.log,
  });

  function makeClientSide(socket: Socket<Client>): ClientSide {
    const client = socket.data;
    return {
      write(bytes) {
        const written = client.unsent ? 0 : Math.max(socket.write(bytes), 0);
        if (written === bytes.length) return true;
        const rest = bytes.subarray(written);
        client.unsent = client.unsent ? Buffer.concat([client.unsent, rest]) : rest;
        return false;
      },
      pause: () => socket.pause(),
      resume: () => socket.resume(),
      end() {
        client.ends = true;
        if (!client.unsent) socket.shutdown();
      },
      destroy: () => socket.terminate(),
    };
  }

  let listener: Bun.TCPSocketListener<Client>;
  try {
    listener = Bun.listen<Client>({
      hostname: listen.host,
      port: listen.port,
      allowHalfOpen: true,
      socket: {
        open(socket) {
          socket.data = { carried: undefined, unsent: undefined, ends: false };
          const clientSide = makeClientSide(socket);
          const { remoteAddress } = socket;
          const admission = carrier.admit(remoteAddress, clientSide.destroy, () => void socket.close());
          if (!admission) {
            socket.write(writeHttpRefusal(CROWDED, { trace: createRequestTraceId(runtime), now: runtime.now() }));
            // The server needs the descriptor now, whether the client takes the response or not.
            socket.close();
            return;
          }
          socket.pause();
          socket.data.carried = carrier.carry(clientSide, remoteAddress, admission);
        },
        data: ({ data: { carried } }, bytes) => carried?.received(bytes),
        drain(socket) {
          const client = socket.data;
          if (client.unsent) {
            const written = Math.max(socket.write(client.unsent), 0);
            client.unsent = written < client.unsent.length ? client.unsent.subarray(written) : undefined;
          }
          if (client.unsent) return;
          client.carried?.drained();
          if (client.ends) socket.shutdown();
        },
        end: ({ data: { carried } }) => carried?.ended(),
        close: ({ data: { carried } }) => carried?.closed(),
        error: (socket) => void socket.terminate(),
      },
    });
  } catch (error) {
    void carrier.stop(0);
    // Bun's message lacks the reason.
    const { code = "", message } = error as NodeJS.ErrnoException;
    throw new Error(`${message}: ${code}`, { cause: error });
  }

  return {
    address: { host: listen.host, port: listener.port },
    async stop(graceMs) {
      listener.stop();
      await carrier.stop(graceMs);
    },
  };
}
