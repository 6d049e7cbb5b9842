/**
 * Connections to one address each, for one webhook request after another: each is written, and its answer read. Who uses
 * them is told of the end of each request once, and of the end of a connection. Of Bun's sockets, which cost less than
 * node's, which are made of them; but connecting cannot be called off: what is dropped meanwhile is closed after it.
 *
 * Invariants: nothing is written before the other side has shown a certificate for the name; once it has said anything
 * that was not asked for, or something went wrong, the connection is closed, whether it reads on or not; once connected,
 * it keeps no process alive while no request is under way.
 */
import type { Socket, TLSOptions } from "bun";
import { codeOf } from "../net/urls.ts";
import { type Answer, endAnswer, newAnswer, readAnswer } from "./answer.ts";

/** Where a connection leads to. */
export interface Peer {
  readonly address: string;
  readonly port: number;
  /** Of whom a certificate is wanted; not over plain HTTP. */
  readonly tls: TLSOptions | undefined;
}

export interface Connection<Exchange> {
  /** Requests may be sent to any peer of this key. */
  readonly key: string;
  readonly isTls: boolean;
  /** Once it is connected. */
  socket: Socket<Connection<Exchange>> | undefined;
  /** To the request sent last. */
  answer: Answer;
  /** The request under way. */
  exchange: Exchange | undefined;
  /** What is not written yet of the request. */
  unsent: Buffer | undefined;
  /** The other side is there, and is who it should be. */
  isOpen: boolean;
  isClosed: boolean;
  /** The round in which it was kept for later (idle.ts). */
  idleSince: number;
}

export interface Watcher<Exchange> {
  /** The answer is over; or the connection failed before, as this code says. It may be used again unless closed. */
  onEnd(connection: Connection<Exchange>, exchange: Exchange, failure: string | undefined): void;
  /** It ended while no request was under way. */
  onGone(connection: Connection<Exchange>): void;
}

/** What node and Bun call the end of a connection. */
export const BROKEN = "ECONNRESET";

/** Gives what opens connections whose ends `watcher` is told of. */
export function createConnector<Exchange>({ onEnd, onGone }: Watcher<Exchange>) {
  function end(connection: Connection<Exchange>, failure: string | undefined): void {
    const { exchange, answer, isClosed } = connection;
    if (isClosed) return;
    connection.exchange = undefined;
    if (failure === undefined && answer.keepsAlive && connection.unsent === undefined) connection.socket?.unref();
    else close(connection);
    if (exchange === undefined) onGone(connection);
    else onEnd(connection, exchange, failure);
  }

  function begin(connection: Connection<Exchange>): void {
    connection.isOpen = true;
    writeOn(connection);
  }

  const handlers: Bun.SocketHandler<Connection<Exchange>> = {
    open(socket) {
      const connection = socket.data;
      connection.socket = socket;
      if (connection.isClosed) socket.close();
      else if (!connection.isTls) begin(connection);
    },
    handshake(socket, isTrusted, error) {
      if (isTrusted) begin(socket.data);
      else end(socket.data, (error && codeOf(error)) ?? BROKEN);
    },
    data(socket, bytes) {
      const connection = socket.data;
      const { answer, exchange } = connection;
      // An answer to nothing: whatever it belongs to, it is not the next request.
      if (exchange === undefined) return end(connection, BROKEN);
      readAnswer(answer, bytes);
      if (answer.step === "over") end(connection, undefined);
    },
    drain: ({ data: connection }) => writeOn(connection),
    close({ data: connection }) {
      const isWhole = connection.exchange !== undefined && endAnswer(connection.answer);
      end(connection, isWhole ? undefined : BROKEN);
    },
    error({ data: connection }, error) {
      const code = codeOf(error);
      // Of ours, and not of the connection.
      if (code === undefined) throw error;
      end(connection, code);
    },
  };

  return (key: string, { address, port, tls }: Peer): Connection<Exchange> => {
    const connection: Connection<Exchange> = {
      ...{ key, isTls: tls !== undefined, socket: undefined, answer: newAnswer(), exchange: undefined },
      ...{ unsent: undefined, isOpen: false, isClosed: false, idleSince: 0 },
    };
    const place = { hostname: address, port, ...(tls && { tls }) };
    const connected = Bun.connect<Connection<Exchange>>({ ...place, data: connection, socket: handlers });
    // connectError would say it at once, too early, when it is known at once.
    connected.catch((error) => end(connection, codeOf(error) ?? ""));
    return connection;
  };
}

/** Where one request after another is put together: a buffer for each would cost a tenth more in all. */
const room = Buffer.allocUnsafeSlow(16 * 1_024);

/** Sends a request, whose header is of single bytes, and its body of `length`; none is under way. */
export function send<Exchange>(
  connection: Connection<Exchange>,
  exchange: Exchange,
  header: string,
  body: string,
  length: number,
): void {
  const size = header.length + length;
  // Head and body in one, so that one packet carries both if they are small.
  const bytes = size > room.length ? Buffer.allocUnsafe(size) : room;
  bytes.write(header, "latin1");
  bytes.write(body, header.length);
  connection.exchange = exchange;
  connection.answer = newAnswer();
  connection.socket?.ref();
  const written = write(connection, bytes, size);
  const rest = written < size ? bytes.subarray(written, size) : undefined;
  connection.unsent = rest && bytes === room ? Buffer.from(rest) : rest;
}

function writeOn(connection: Connection<unknown>): void {
  const { unsent } = connection;
  if (!unsent) return;
  const written = write(connection, unsent, unsent.length);
  connection.unsent = written < unsent.length ? unsent.subarray(written) : undefined;
}

/** Writes from the first `size` bytes; returns how many. When the socket is closed, its handlers are told. */
const write = ({ socket, isOpen }: Connection<unknown>, bytes: Buffer, size: number): number =>
  socket && isOpen ? Math.max(socket.write(bytes, 0, size), 0) : 0;

/** Closes the connection, whatever is under way; nobody is told. */
export function drop(connection: Connection<unknown>): void {
  connection.exchange = undefined;
  close(connection);
}

function close(connection: Connection<unknown>): void {
  const { socket, unsent } = connection;
  connection.isClosed = true;
  connection.unsent = undefined;
  // Over TLS Bun would first write on, to a receiver that may never read it.
  if (unsent) socket?.terminate();
  else socket?.close();
}
