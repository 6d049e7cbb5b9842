/**
 * Carries bytes between the connections of a public listener and its inner one, one request at a time (rules: HTTP
 * messages). Bun.serve gives no answer to a client that has closed its side or sends a second request meanwhile, nor to
 * what follows trailers; it is shown neither. Malformed requests are refused here.
 *
 * Invariants: each side is read only as fast as the other side takes the bytes. Responses go out in the order of the
 * requests. Work is linear in the bytes, and what is kept of them has a bound.
 */
import { STATUS_CODES } from "node:http";
import type { Socket } from "bun";
import { createRequestTraceId } from "../api/request.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { awaitAtMost, pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Admission, Connections } from "./connections.ts";
import { findRequestHead, LARGEST_HEAD, type RequestHead, ResponseReader, readRequestHead } from "./framing.ts";

export interface HttpServer {
  /** The bound address, with the real port for port 0. */
  readonly address: { host: string; port: number };
  /** Takes no new connections. Resolves when requests in flight have ended; cuts them off after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

/** The source of a connection, and its admission. */
export interface Origin {
  /** Undefined when the system does not tell it. */
  address: string | undefined;
  admission: Admission;
  /** Aborts when the client sends no more: it may have left. */
  leaving: AbortSignal;
  /** Notes what the response to the present request holds: `release` is called when the client has taken it, or left. */
  holds(release: () => void): void;
}

/** The client's side. */
export interface ClientSide {
  /** Takes all of the bytes; false: write no more until `drained`. */
  write(bytes: Buffer): boolean;
  pause(): void;
  resume(): void;
  /** Ends the server's side after sending what was written. */
  end(): void;
  /** Closes the connection at once. */
  destroy(): void;
}

/** Events of the client's side. */
export interface Carried {
  received(bytes: Buffer): void;
  drained(): void;
  /** The client sends no more, and may still read. */
  ended(): void;
  closed(): void;
}

/** A request that the inner listener has, and its response. */
interface Exchange {
  request: RequestHead;
  response: ResponseReader;
  /** Give back what the response holds. */
  releases: (() => void)[];
}

/** Bytes of further requests that are kept while one is under way. */
const MOST_HELD = LARGEST_HEAD;
/** How often `stop` checks for requests in flight, ms. */
const STOP_POLL_MS = 20;
/** How long `stop` waits for clients to close after their last response, ms. */
const LAST_WORDS_MS = 500;

const BROKEN_OFF = new AppError("bad_request", "The request broke off: send it again");

/** Writes the response that refuses a request before the inner listener has it. The connection closes after it. */
export function writeHttpRefusal(
  { message, code, status, retryAfter }: AppError,
  { trace, now, isHead = false }: { trace: string; now: number; isHead?: boolean },
): Buffer {
  const body = JSON.stringify({ error: message, code });
  return Buffer.from(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      `date: ${new Date(now).toUTCString()}`,
      "content-type: application/json",
      "x-content-type-options: nosniff",
      "cache-control: no-store",
      `content-length: ${Buffer.byteLength(body)}`,
      ...(retryAfter === undefined ? [] : [`retry-after: ${retryAfter}`]),
      `x-request-id: ${trace}`,
      "connection: close",
      "",
      isHead ? "" : body,
    ].join("\r\n"),
  );
}

/** Carries a connection, which is paused until the connection to the inner listener is open. */
function carry({
  clientSide,
  address,
  admission,
  inner,
  origins,
  underWay,
  runtime,
  log,
}: {
  clientSide: ClientSide;
  /** The client's address, undefined when the system does not tell it. */
  address: string | undefined;
  admission: Admission;
  /** Address of the inner listener. */
  inner: { host: string; port: number };
  /** Origins of connections, by the local port from which each reaches the inner listener. */
  origins: Map<number, Origin>;
  /** Origins of the connections on which a response is still to come. */
  underWay: Set<Origin>;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}): Carried {
  const leaving = new AbortController();
  const origin: Origin = {
    address,
    admission,
    leaving: leaving.signal,
    holds(release) {
      if (exchange && !isClosed) exchange.releases.push(release);
      else release();
    },
  };
  let socketToInner: Socket<undefined> | undefined;
  let port: number | undefined;
  /** Undefined between two requests. */
  let exchange: Exchange | undefined;
  /** Give back what responses hold that were read, and that the client has not taken yet. */
  let untaken: (() => void)[] = [];
  let isStalled = false;
  /** Bytes of the client that were not read yet: a part of a head, or what follows the request under way. */
  let held: Buffer | undefined;
  /** Bytes that the inner listener has not taken yet. */
  let unsent: Buffer | undefined;
  let isPaused = true;
  let isHalfClosed = false;
  /**
   * True once the server's side has ended. Bytes that the client still sends are dropped, so that it can take the last
   * response.
   */
  let isOver = false;
  let isClosed = false;

  /** Leaves the inner listener, which ends the request that it works on. */
  function leave(): void {
    // Another connection may have the port by now.
    if (port !== undefined && origins.get(port) === origin) origins.delete(port);
    port = undefined;
    underWay.delete(origin);
    const socket = socketToInner;
    socketToInner = undefined;
    socket?.terminate();
  }

  /** Gives back what responses hold that the client has taken. */
  function noteTaken(): void {
    const releases = untaken;
    untaken = [];
    for (const release of releases) release();
  }

  /** The inner listener has nothing more of the present response. */
  function noteRead(): void {
    untaken.push(...(exchange?.releases.splice(0) ?? []));
    if (!isStalled) noteTaken();
  }

  function end(): void {
    leave();
    noteRead();
    if (isClosed || isOver) return;
    isOver = true;
    held = undefined;
    unsent = undefined;
    updatePaused();
    // The client may still have to take the last response.
    admission.closing();
    clientSide.end();
  }

  function updatePaused(): void {
    const pauses = unsent !== undefined || (held?.length ?? 0) > MOST_HELD;
    if (pauses === isPaused) return;
    isPaused = pauses;
    if (pauses) clientSide.pause();
    else clientSide.resume();
  }

  function forward(bytes: Buffer): void {
    if (unsent) unsent = Buffer.concat([unsent, bytes]);
    else {
      const written = Math.max(socketToInner?.write(bytes) ?? 0, 0);
      if (written < bytes.length) unsent = bytes.subarray(written);
    }
  }

  /** Responds in place of the inner listener, unless that has begun to respond, and ends the connection. */
  function refuse(refusal: AppError, isHead = false): void {
    if (!exchange?.response.hasBegun) {
      const trace = createRequestTraceId(runtime);
      log.debug("request refused", { trace, status: refusal.status, reason: refusal.message });
      clientSide.write(writeHttpRefusal(refusal, { trace, now: runtime.now(), isHead }));
    }
    end();
  }

  /** Ends the exchange once request and response are whole. */
  function finish({ request, response }: Exchange): void {
    if (!response.isWhole) return;
    noteRead();
    if (underWay.delete(origin)) admission.sent();
    if (!request.body.isWhole()) return;
    exchange = undefined;
    if (request.isLast || response.isLast) end();
  }

  /** Forwards one request at a time. The bytes after it are held until its response was read. */
  function read(bytes: Buffer): void {
    let at = 0;
    held = undefined;
    try {
      while (at < bytes.length && !isOver) {
        let bodyAt = at;
        if (!exchange) {
          const head = findRequestHead(bytes, at);
          at = head.start;
          if (head.end === undefined) break;
          const request = readRequestHead(bytes, at, head.end);
          exchange = { request, response: new ResponseReader(request.isHead), releases: [] };
          underWay.add(origin);
          bodyAt = head.end;
          if (request.rewritten) {
            forward(request.rewritten);
            at = bodyAt;
          }
        } else if (exchange.request.body.isWhole()) break;
        const { end, cutFrom, cutTo } = exchange.request.body.read(bytes, bodyAt);
        forward(sliceBytes(bytes, at, cutFrom));
        if (cutTo < end) forward(sliceBytes(bytes, cutTo, end));
        at = end;
        finish(exchange);
      }
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      refuse(error, bytes.toString("latin1", at, at + 5) === "HEAD ");
    }
    // A refusal ends the connection.
    if (at < bytes.length && !isOver) held = keep(bytes.subarray(at));
    updatePaused();
  }

  /** Ends what can no longer become whole since the client sends no more. */
  function finishInput(): void {
    if (isOver) return;
    if (!exchange && !held) end();
    else if (!exchange?.request.body.isWhole()) refuse(BROKEN_OFF);
    // Only the client's leaving ends a stream.
    else if (exchange.response.isStream) end();
  }

  function respond(bytes: Buffer): void {
    exchange?.response.read(bytes);
    if (!clientSide.write(bytes)) {
      isStalled = true;
      admission.stalled(true);
      socketToInner?.pause();
    }
    if (exchange) finish(exchange);
    if (held && !exchange) {
      admission.received(0);
      read(held);
    }
    if (isHalfClosed) finishInput();
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
        updatePaused();
      },
      data: (_, bytes) => respond(bytes),
      drain() {
        const rest = unsent;
        unsent = undefined;
        if (rest) forward(rest);
        updatePaused();
      },
      close: end,
      error() {
        clientSide.destroy();
      },
    },
  }).catch(() => clientSide.destroy());

  return {
    received(bytes) {
      admission.received(bytes.length);
      if (!isOver) read(held ? Buffer.concat([held, bytes]) : bytes);
    },
    drained() {
      isStalled = false;
      admission.stalled(false);
      noteTaken();
      socketToInner?.resume();
    },
    ended() {
      isHalfClosed = true;
      leaving.abort();
      finishInput();
    },
    closed() {
      isClosed = true;
      leaving.abort();
      admission.closed();
      leave();
      isStalled = false;
      noteRead();
    },
  };
}

const sliceBytes = (bytes: Buffer, start: number, end: number): Buffer =>
  start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end);

/** A small rest is copied, so that it does not keep the memory of what it came with. */
const keep = (rest: Buffer): Buffer => (rest.length > MOST_HELD ? rest : Buffer.from(rest));

/** Carries the connections of a public listener to its inner one, which `startInner` starts. */
export function createConnectionCarrier({
  connections,
  startInner,
  runtime,
  log,
}: {
  connections: Connections;
  /** Starts the inner listener. `findCarriedOrigin`: the origin of a carried connection, by its port; undefined for others. */
  startInner(parts: { findCarriedOrigin(port: number): Origin | undefined }): HttpServer;
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer">;
  log: Log;
}) {
  const origins = new Map<number, Origin>();
  const underWay = new Set<Origin>();
  const inner = startInner({ findCarriedOrigin: (port) => origins.get(port) });
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
      carry({ clientSide, address, admission, inner: inner.address, origins, underWay, runtime, log }),
    /** Ends requests in flight, as HttpServer.stop does. The public listener takes no new connections by then. */
    async stop(graceMs: number): Promise<void> {
      const began = runtime.now();
      for (let waited = 0; underWay.size > 0 && waited < graceMs; waited += STOP_POLL_MS) {
        await pause(runtime, STOP_POLL_MS);
      }
      await inner.stop(0);
      // The last responses were written. Most clients take them at once, and close.
      const left = graceMs - (runtime.now() - began);
      stops = true;
      for (let waited = 0; closes.size > 0 && waited < left; waited += STOP_POLL_MS) {
        if (waited >= LAST_WORDS_MS && stalled.size === 0) break;
        await awaitAtMost(runtime, STOP_POLL_MS, closedAll.promise);
      }
      for (const close of [...closes]) close();
    },
  };
}
