/**
 * A connection to one address, for one webhook request after another: each is written, and its answer read. Who uses it
 * is told of the end of each request once, and of the end of the connection.
 *
 * Invariants: nothing is written before the other side has shown a certificate for the name; once it has said anything
 * that was not asked for, or something went wrong, the connection is destroyed; while no request is under way it keeps no
 * process alive.
 */
import { connect, type Socket } from "node:net";
import { checkServerIdentity, connect as connectTls, type SecureContext } from "node:tls";
import { codeOf } from "../places.ts";
import { type Answer, endAnswer, newAnswer, readAnswer } from "./answer.ts";

/** Where a connection leads to. */
export interface Peer {
  readonly address: string;
  readonly port: number;
  /** The certificate's name or address, and the same if it is a name; not over plain HTTP. */
  readonly tls: { host: string; serverName: string | undefined; context: SecureContext } | undefined;
}

export interface Connection<Exchange> {
  /** Requests may be sent to any peer of this key. */
  readonly key: string;
  readonly socket: Socket;
  /** To the request sent last. */
  answer: Answer;
  /** The request under way. */
  exchange: Exchange | undefined;
  /** Until the other side is there. */
  waiting: Buffer | undefined;
  isOpen: boolean;
}

export interface Watcher<Exchange> {
  /** The answer is over; or the connection failed before, as this code says. It may be used again unless destroyed. */
  onEnd(connection: Connection<Exchange>, exchange: Exchange, failure: string | undefined): void;
  /** It ended while no request was under way. */
  onGone(connection: Connection<Exchange>): void;
}

/** What node and Bun call the end of a connection. */
export const BROKEN = "ECONNRESET";

export function openConnection<Exchange>(
  key: string,
  { address, port, tls }: Peer,
  { onEnd, onGone }: Watcher<Exchange>,
): Connection<Exchange> {
  const socket = tls
    ? connectTls({
        ...{ host: address, port, secureContext: tls.context, rejectUnauthorized: true },
        ...(tls.serverName !== undefined && { servername: tls.serverName }),
        checkServerIdentity: (_, certificate) => checkServerIdentity(tls.host, certificate),
      })
    : connect({ host: address, port });
  const connection: Connection<Exchange> = {
    ...{ key, socket, answer: newAnswer(), exchange: undefined, waiting: undefined, isOpen: false },
  };

  function end(failure: string | undefined): void {
    const { exchange, answer } = connection;
    const isKept = failure === undefined && answer.keepsAlive && socket.writableLength === 0;
    connection.exchange = undefined;
    if (isKept) socket.unref();
    else socket.destroy();
    if (exchange === undefined) onGone(connection);
    else onEnd(connection, exchange, failure);
  }

  function endByPeer(): void {
    if (connection.exchange !== undefined && endAnswer(connection.answer)) end(undefined);
    else end(BROKEN);
  }

  socket.setNoDelay(true);
  socket.on(tls ? "secureConnect" : "connect", () => {
    connection.isOpen = true;
    if (connection.waiting) socket.write(connection.waiting);
    connection.waiting = undefined;
  });
  socket.on("data", (bytes: Buffer) => {
    const { answer, exchange } = connection;
    // An answer to nothing: whatever it belongs to, it is not the next request.
    if (exchange === undefined) return end(BROKEN);
    readAnswer(answer, bytes);
    if (answer.step === "over") end(undefined);
  });
  socket.on("end", endByPeer);
  socket.on("close", endByPeer);
  socket.on("error", (error) => {
    const code = codeOf(error) ?? "";
    if (BREAKS.has(code)) endByPeer();
    else end(OF_TLS.test(code) ? "EPROTO" : code);
  });
  return connection;
}

const BREAKS = new Set(["ECONNRESET", "EPIPE"]);
const OF_TLS = /^ERR_SSL_/;

/**
 * Sends a whole request, its header and body; none is under way. Returns whether `request` is done with: all of it is
 * written, and the caller may put something else there.
 */
export function send<Exchange>(connection: Connection<Exchange>, exchange: Exchange, request: Buffer): boolean {
  const { socket } = connection;
  connection.exchange = exchange;
  connection.answer = newAnswer();
  if (!connection.isOpen) {
    connection.waiting = request;
    return false;
  }
  socket.ref();
  socket.write(request);
  return socket.writableLength === 0;
}

/** Ends the connection, whatever is under way; nobody is told. */
export function drop(connection: Connection<unknown>): void {
  connection.exchange = undefined;
  connection.socket.destroy();
}
