/**
 * Carries bytes between a client's connection and the inner HTTP listener on loopback. The detour exists because Bun.serve
 * neither counts nor limits connections (listener.ts), and cannot change its certificate (https.ts).
 *
 * Invariant: each side is read only as fast as the other side takes the bytes.
 */
import type { Socket } from "bun";
import type { Admission } from "./connections.ts";

/** Where a connection comes from, and what admitted it. */
export interface Origin {
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

export interface CarryParts {
  clientSide: ClientSide;
  /** The client's address, undefined when the system does not tell it. */
  address: string | undefined;
  admission: Admission;
  /** Address of the inner listener. */
  inner: { host: string; port: number };
  /** Origins of connections, by the local port from which each reaches the inner listener. */
  origins: Map<number, Origin>;
}

/** Events of the client's side. */
export interface Carried {
  received(bytes: Buffer): void;
  drained(): void;
  closed(): void;
}

/** Carries a connection, which is paused until the connection to the inner listener is open. */
export function carry({ clientSide, address, admission, inner, origins }: CarryParts): Carried {
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
