/**
 * An HTTP listener in two parts: the public one counts connections (connections.ts) and carries their bytes to the
 * inner one, a Bun.serve on loopback. The detour exists because Bun.serve neither counts nor limits connections, and
 * cannot change its certificate (https.ts).
 *
 * Invariants: every request gets a response, and requests that arrived before `stop` are finished. The inner listener
 * serves only connections that the public one carries.
 */
import type { Socket } from "bun";
import { nameRequest } from "../api/request.ts";
import type { Log } from "../base/log.ts";
import { atMost, pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Admission, Connections } from "./connections.ts";

export interface HttpServer {
  /** The bound address, with the real port for port 0. */
  readonly address: { host: string; port: number };
  /** Takes no new connections. Resolves when requests in flight have ended; cuts them off after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

export interface Peer {
  address: string;
  port: number;
}

export interface HttpListenerParts {
  listen: { host: string; port: number };
  /** `peer`: the address the connection came from; undefined when the system does not tell it. */
  respond(request: Request, peer: string | undefined): Promise<Response>;
  connections: Connections;
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer">;
  log: Log;
}

export interface InnerListenerParts extends Omit<HttpListenerParts, "connections" | "listen"> {
  /** The real origin of a connection from `peer`; undefined for a connection that is not carried. */
  originOf(peer: Peer | null): Origin | undefined;
}

/** Seconds that a connection may idle: longer than clients keep theirs, so that clients close first. */
const IDLE_SECONDS = 75;
/** How often `stop` checks for requests in flight, ms. */
const STOP_POLL_MS = 20;
/** How long `stop` waits for clients to close after their last response, ms. */
const LAST_WORDS_MS = 500;
/** Seconds. */
const RETRY_AFTER = 10;

const CROWDED = { error: "Too many connections are open: try again in a few seconds", code: "server_error" };
const CROWDED_BODY = JSON.stringify(CROWDED);
const CROWDED_RESPONSE = `HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: ${RETRY_AFTER}\r\ncontent-length: ${CROWDED_BODY.length}\r\nconnection: close\r\n\r\n${CROWDED_BODY}`;

/**
 * Adds the origin to a URL that lacks it because the request has no Host header, which HTTP/1.0 allows (RFC 9112 §3.2).
 * Bun also leaves it out for an invalid Host header; server.ts refuses those requests.
 */
const withOrigin = (request: Request): Request =>
  request.url.startsWith("/") && !request.headers.has("host")
    ? new Request(`http://localhost${request.url}`, request)
    : request;

/** Starts the inner listener, on loopback. @throws when no port can be bound */
export function listenInner({ respond, originOf, runtime, log }: InnerListenerParts): HttpServer {
  function failureResponse(error: unknown, trace?: string): Response {
    log.error("an HTTP request failed", { trace, error });
    return Response.json(
      { error: "Something failed on our side. It is safe to try again.", code: "server_error" },
      { status: 500 },
    );
  }

  /** Responds to a request, and counts it against its origin until the response. */
  async function respondCounted(request: Request, { address, admission }: Origin, trace: string): Promise<Response> {
    const end = admission.begin(request);
    if (!end) return Response.json(CROWDED, { status: 503, headers: { "retry-after": String(RETRY_AFTER) } });
    let streams = false;
    try {
      const response = await respond(request, address);
      streams = response.headers.get("content-type") === "text/event-stream";
      if (streams) response.headers.set("connection", "close");
      return response;
    } catch (error) {
      return failureResponse(error, trace);
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
      const origin = originOf(server.requestIP(request));
      if (!origin) return new Response("Forbidden\n", { status: 403 });
      const asked = withOrigin(request);
      const trace = nameRequest(asked, runtime);
      const response = await respondCounted(asked, origin, trace);
      response.headers.set("x-request-id", trace);
      return response;
    },
    error: (error) => failureResponse(error),
  });

  return {
    address: { host: "127.0.0.1", port: server.port ?? 0 },
    async stop(graceMs) {
      void server.stop();
      // Its promise also waits for connections whose response preceded the end of the request's body, so it is not
      // awaited.
      for (let waited = 0; server.pendingRequests > 0 && waited < graceMs; waited += STOP_POLL_MS) {
        await pause(runtime, STOP_POLL_MS);
      }
      await server.stop(true);
    },
  };
}

/*
 * Carrying: bytes between a client's connection and the inner listener. Invariant: each side is read only as fast as
 * the other side takes the bytes.
 */

/** The source of a connection, and its admission. */
interface Origin {
  /** Undefined when the system does not tell it. */
  address: string | undefined;
  admission: Admission;
}

/** The client's side. */
export interface ClientSide {
  /** Takes all of the bytes; false: write no more until `drained`. */
  write(bytes: Buffer): boolean;
  pause(): void;
  resume(): void;
  /** Closes the connection after sending what was written. */
  end(): void;
  /** Closes the connection at once. */
  destroy(): void;
}

/** Events of the client's side. */
interface Carried {
  received(bytes: Buffer): void;
  drained(): void;
  closed(): void;
}

/** Carries a connection, which is paused until the connection to the inner listener is open. */
function carry({
  clientSide,
  address,
  admission,
  inner,
  origins,
}: {
  clientSide: ClientSide;
  /** The client's address, undefined when the system does not tell it. */
  address: string | undefined;
  admission: Admission;
  /** Address of the inner listener. */
  inner: { host: string; port: number };
  /** Origins of connections, by the local port from which each reaches the inner listener. */
  origins: Map<number, Origin>;
}): Carried {
  let socketToInner: Socket<undefined> | undefined;
  const origin: Origin = { address, admission };
  let port: number | undefined;
  /** Bytes that the inner listener has not taken yet. */
  let unsent: Buffer | undefined;
  let isClosed = false;

  function leave(): void {
    // Another connection may have the port by now.
    if (port !== undefined && origins.get(port) === origin) origins.delete(port);
    port = undefined;
    socketToInner = undefined;
  }

  function forward(bytes: Buffer): void {
    const written = socketToInner?.write(bytes) ?? 0;
    unsent = written < bytes.length ? bytes.subarray(Math.max(written, 0)) : undefined;
    if (unsent) clientSide.pause();
  }

  Bun.connect<undefined>({
    hostname: inner.host,
    port: inner.port,
    socket: {
      open(socket) {
        if (isClosed) return void socket.terminate();
        socketToInner = socket;
        port = socket.localPort;
        origins.set(port, origin);
        clientSide.resume();
      },
      data(socket, bytes) {
        admission.sent();
        if (clientSide.write(bytes)) return;
        admission.stalled(true);
        socket.pause();
      },
      drain() {
        if (!unsent) return;
        forward(unsent);
        if (!unsent) clientSide.resume();
      },
      close() {
        leave();
        if (isClosed) return;
        // The client may still have to take the last response.
        admission.closing();
        clientSide.end();
      },
      error() {
        clientSide.destroy();
      },
    },
  }).catch(() => clientSide.destroy());

  return {
    received(bytes) {
      admission.received();
      if (unsent) unsent = Buffer.concat([unsent, bytes]);
      else forward(bytes);
    },
    drained() {
      admission.stalled(false);
      socketToInner?.resume();
    },
    closed() {
      isClosed = true;
      admission.closed();
      const socket = socketToInner;
      leave();
      socket?.terminate();
    },
  };
}

/** Carries the connections of a public listener to its inner one, which `startInner` starts. */
export function createCarrier({
  connections,
  startInner,
  runtime,
}: Pick<HttpListenerParts, "connections" | "runtime"> & {
  startInner(parts: Pick<InnerListenerParts, "originOf">): HttpServer;
}) {
  const origins = new Map<number, Origin>();
  const inner = startInner({ originOf: (peer) => (peer ? origins.get(peer.port) : undefined) });
  /** The `close` of each open connection. */
  const closes = new Set<() => void>();
  /** The `close` of connections whose clients have not taken their responses. */
  const stalled = new Set<() => void>();
  const closedAll = Promise.withResolvers<void>();
  let stops = false;

  return {
    /**
     * Counts a connection. `cut` ends it at once, `close` after sending what was written. Undefined when the server is
     * full: the caller closes the connection.
     */
    admit(address: string | undefined, cut: () => void, close: () => void): Admission | undefined {
      const admission = connections.admit(address, cut);
      if (!admission) return undefined;
      closes.add(close);
      return {
        ...admission,
        stalled(isStalled) {
          admission.stalled(isStalled);
          if (isStalled) stalled.add(close);
          else stalled.delete(close);
        },
        closed() {
          admission.closed();
          closes.delete(close);
          stalled.delete(close);
          if (stops && closes.size === 0) closedAll.resolve();
        },
      };
    },
    carry: (clientSide: ClientSide, address: string | undefined, admission: Admission): Carried =>
      carry({ clientSide, address, admission, inner: inner.address, origins }),
    /** Ends requests in flight, as HttpServer.stop does. The public listener takes no new connections by then. */
    async stop(graceMs: number): Promise<void> {
      const began = runtime.now();
      await inner.stop(graceMs);
      // The inner listener has sent the last responses. Most clients take them at once, and close.
      const left = graceMs - (runtime.now() - began);
      stops = true;
      for (let waited = 0; closes.size > 0 && waited < left; waited += STOP_POLL_MS) {
        if (waited >= LAST_WORDS_MS && stalled.size === 0) break;
        await atMost(runtime, STOP_POLL_MS, closedAll.promise);
      }
      for (const close of [...closes]) close();
    },
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
  const carrier = createCarrier({ connections, runtime, startInner: (rest) => listenInner({ ...parts, ...rest }) });

  function clientSideOf(socket: Socket<Client>): ClientSide {
    const client = socket.data;
    return {
      write(bytes) {
        const written = Math.max(socket.write(bytes), 0);
        if (written === bytes.length) return true;
        client.unsent = bytes.subarray(written);
        return false;
      },
      pause: () => socket.pause(),
      resume: () => socket.resume(),
      end() {
        client.ends = true;
        if (!client.unsent) socket.end();
      },
      destroy: () => socket.terminate(),
    };
  }

  let listener: Bun.TCPSocketListener<Client>;
  try {
    listener = Bun.listen<Client>({
      hostname: listen.host,
      port: listen.port,
      socket: {
        open(socket) {
          socket.data = { carried: undefined, unsent: undefined, ends: false };
          const clientSide = clientSideOf(socket);
          const { remoteAddress } = socket;
          const admission = carrier.admit(remoteAddress, clientSide.destroy, () => void socket.close());
          if (!admission) {
            socket.write(CROWDED_RESPONSE);
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
          if (client.ends) socket.end();
        },
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
