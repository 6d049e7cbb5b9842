/** A server on a real socket that receives HTTP requests and writes responses by hand, also wrong ones. */
import { expect } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { KeyPair } from "../../../src/tls/certificates.ts";
import { atEndOfFile } from "../end.ts";
import { whenChanged } from "../until.ts";

export interface Receiver {
  readonly port: number;
  /** The requests that have arrived whole. */
  readonly requests: string[];
  /** Connections so far, and those still open. */
  readonly connections: { made: number; open: number };
  /** Resolves when `count` requests have arrived. */
  arrived(count: number): Promise<void>;
  /** Resolves when no connection is open. */
  deserted(): Promise<void>;
  /** Accepts no more connections. */
  close(): Promise<void>;
}

/** `nth`: number of the request on its connection, from 1. */
export type Answer = (socket: Socket, nth: number) => void;

const servers = new Set<Server>();
atEndOfFile(() => {
  for (const server of servers) server.close();
  servers.clear();
});

/** Starts a server that writes its responses by hand, on a free port or on the given one. */
export async function receive(
  answer: Answer,
  { host = "127.0.0.1", port = 0, tls }: { host?: string; port?: number; tls?: KeyPair } = {},
): Promise<Receiver> {
  const requests: string[] = [];
  const connections = { made: 0, open: 0 };
  const { changed, until } = whenChanged();
  const serve = (socket: Socket) => {
    let text = "";
    let count = 0;
    connections.made++;
    connections.open++;
    socket.on("error", () => {});
    socket.on("close", () => {
      connections.open--;
      changed();
    });
    socket.on("data", (data) => {
      text += data.toString("latin1");
      const end = text.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
      if (end < 4 || text.length < end + length) return;
      requests.push(text);
      text = "";
      answer(socket, ++count);
      changed();
    });
  };
  const server = tls ? createTlsServer(tls, serve) : createServer(serve);
  server.on("tlsClientError", () => {});
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  servers.add(server);
  return {
    port: (server.address() as { port: number }).port,
    requests,
    connections,
    arrived: (wanted) => until(() => requests.length >= wanted),
    deserted: () => until(() => connections.open === 0),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Starts servers on one port of two addresses. */
export async function receiveOnBoth(
  [first, firstHost]: [Answer, string],
  [second, secondHost]: [Answer, string],
): Promise<[Receiver, Receiver]> {
  const receiver = await receive(first, { host: firstHost });
  const { port } = receiver;
  const other = await receive(second, { host: secondHost, port }).catch((error: NodeJS.ErrnoException) => error.code);
  if (typeof other === "object") return [receiver, other];
  expect(other).toBe("EADDRINUSE");
  return receiveOnBoth([first, firstHost], [second, secondHost]);
}

/** Writes until the client disconnects, a little in each turn of the event loop. */
export function writeForever(socket: Socket, chunk: string): void {
  const more = () => {
    if (socket.destroyed) return;
    if (socket.write(chunk)) setImmediate(more);
    else socket.once("drain", more);
  };
  more();
}
