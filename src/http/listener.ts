/**
 * A listener for HTTP: a Bun.serve on loopback, and before it a listener that counts connections (connections.ts) and
 * carries them there (carry.ts).
 *
 * Invariants: whatever arrives is answered, and what arrived before `stop` is finished. What did not come through the
 * listener before it is not answered by the one behind.
 */
import type { Socket } from "bun";
import type { Log } from "../base/log.ts";
import { atMost, pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Carried, carry, type Outer } from "./carry.ts";
import type { Admission, Connections } from "./connections.ts";

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
  admission: Admission;
}

export interface HttpListenerParts {
  listen: { host: string; port: number };
  /** `peer`: the address the connection came from; undefined when the system does not tell it. */
  answer(request: Request, peer: string | undefined): Promise<Response>;
  connections: Connections;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
}

export interface BehindParts extends Omit<HttpListenerParts, "connections" | "listen"> {
  /** Where the connection from `peer` really came from; undefined for one that is not to be answered. */
  originOf(peer: Peer | null): Origin | undefined;
}

/** Seconds that a connection may be silent: longer than clients keep them open, so that they close first. */
const IDLE_SECONDS = 75;
/** How often `stop` looks whether anything is still in flight, ms. */
const STOP_POLL_MS = 20;
/** How long `stop` waits for clients that have taken their last answers to close, ms. */
const LAST_WORDS_MS = 500;
/** Seconds. */
const RETRY_AFTER = 10;

const CROWDED = { error: "Too many connections are open: try again in a few seconds", code: "server_error" };
const CROWDED_BODY = JSON.stringify(CROWDED);
const CROWDED_ANSWER = `HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: ${RETRY_AFTER}\r\ncontent-length: ${CROWDED_BODY.length}\r\nconnection: close\r\n\r\n${CROWDED_BODY}`;

/**
 * Bun leaves the origin out when there is no Host header, which HTTP/1.0 does not need (RFC 9112 §3.2), or when it names no
 * host, which is refused where requests are answered.
 */
const withOrigin = (request: Request): Request =>
  request.url.startsWith("/") && !request.headers.has("host")
    ? new Request(`http://localhost${request.url}`, request)
    : request;

/** Starts listening on loopback, for connections that are carried there. @throws when no port can be bound. */
export function listenBehind({ answer, originOf, runtime, log }: BehindParts): HttpServer {
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
      const end = origin.admission.begin(asked);
      if (!end) return Response.json(CROWDED, { status: 503, headers: { "retry-after": String(RETRY_AFTER) } });
      let streams = false;
      try {
        const response = await answer(asked, origin.address);
        streams = response.headers.get("content-type") === "text/event-stream";
        if (streams) response.headers.set("connection", "close");
        return response;
      } finally {
        // A stream of events is under way for as long as its connection is there, which ends with it.
        if (!streams) end();
      }
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
    address: { host: "127.0.0.1", port: server.port ?? 0 },
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

/** The connections of a listener that carries them to one behind. */
export interface Front {
  /** Counts a connection, which `close` ends and lets what was written be sent; undefined: it is to be closed. */
  admit(address: string | undefined, cut: () => void, close: () => void): Admission | undefined;
  carry(outer: Outer, address: string | undefined, admission: Admission): Carried;
  /** Ends what is in flight, as HttpServer.stop does; the listener takes no new ones by then. */
  stop(graceMs: number): Promise<void>;
}

/** `behind` starts the listener behind. */
export function createFront({
  connections,
  behind,
  runtime,
}: Pick<HttpListenerParts, "connections" | "runtime"> & {
  behind(parts: Pick<BehindParts, "originOf">): HttpServer;
}): Front {
  const origins = new Map<number, Origin>();
  const http = behind({ originOf: (peer) => (peer ? origins.get(peer.port) : undefined) });
  /** Of the open connections. */
  const closes = new Set<() => void>();
  /** Those whose clients have not taken what is to be written. */
  const heldUp = new Set<() => void>();
  const closedAll = Promise.withResolvers<void>();
  let stops = false;

  return {
    admit(address, cut, close) {
      const admission = connections.admit(address, cut);
      if (!admission) return undefined;
      closes.add(close);
      return {
        ...admission,
        heldUp(isHeldUp) {
          admission.heldUp(isHeldUp);
          if (isHeldUp) heldUp.add(close);
          else heldUp.delete(close);
        },
        closed() {
          admission.closed();
          closes.delete(close);
          heldUp.delete(close);
          if (stops && closes.size === 0) closedAll.resolve();
        },
      };
    },
    carry: (outer, address, admission) => carry({ outer, address, admission, behind: http.address, origins }),
    async stop(graceMs) {
      const began = runtime.now();
      await http.stop(graceMs);
      // Their last answers have been read from behind, or wait there; most clients take them at once, and close.
      const left = graceMs - (runtime.now() - began);
      stops = true;
      for (let waited = 0; closes.size > 0 && waited < left; waited += STOP_POLL_MS) {
        if (waited >= LAST_WORDS_MS && heldUp.size === 0) break;
        await atMost(runtime, STOP_POLL_MS, closedAll.promise);
      }
      for (const close of [...closes]) close();
    },
  };
}

interface Client {
  /** Undefined for one that was not admitted. */
  carried: Carried | undefined;
  /** Written, and not taken yet. */
  unsent: Buffer | undefined;
  /** It is closed once everything is sent. */
  ends: boolean;
}

/** Starts listening. @throws when the address cannot be bound. */
export function listenHttp({ listen, connections, ...parts }: HttpListenerParts): HttpServer {
  const { runtime } = parts;
  const front = createFront({ connections, runtime, behind: (rest) => listenBehind({ ...parts, ...rest }) });

  function outerOf(socket: Socket<Client>): Outer {
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
          const outer = outerOf(socket);
          const { remoteAddress } = socket;
          const admission = front.admit(remoteAddress, outer.destroy, () => void socket.close());
          if (!admission) {
            socket.write(CROWDED_ANSWER);
            // Its descriptor is wanted now, whether the client takes the answer or not.
            socket.close();
            return;
          }
          socket.pause();
          socket.data.carried = front.carry(outer, remoteAddress, admission);
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
    void front.stop(0);
    // Bun's words do not say why.
    const { code = "", message } = error as NodeJS.ErrnoException;
    throw new Error(`${message}: ${code}`, { cause: error });
  }

  return {
    address: { host: listen.host, port: listener.port },
    async stop(graceMs) {
      listener.stop();
      await front.stop(graceMs);
    },
  };
}
