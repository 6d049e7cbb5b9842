/**
 * Carries the bytes of a client's connection to an HTTP listener on loopback and back, since Bun.serve neither tells of
 * connections nor bounds them (listener.ts), and keeps the certificate that it was started with (https.ts).
 *
 * Invariant: no more is read on one side than the other takes.
 */
import type { Socket } from "bun";
import type { Admission } from "./connections.ts";
import type { Origin } from "./listener.ts";

/** The client's side. */
export interface Outer {
  /** Takes all of the bytes; false: no more may come until `drained`. */
  write(bytes: Buffer): boolean;
  pause(): void;
  resume(): void;
  /** Closes it once what was written is sent. */
  end(): void;
  /** Closes it now. */
  destroy(): void;
}

export interface CarryParts {
  outer: Outer;
  /** The client's address, undefined when the system does not tell it. */
  address: string | undefined;
  admission: Admission;
  /** Where the listener behind is. */
  behind: { host: string; port: number };
  /** By the port from which a connection reaches the listener behind: where it comes from. */
  origins: Map<number, Origin>;
}

/** What it is told of the client's side. */
export interface Carried {
  received(bytes: Buffer): void;
  drained(): void;
  closed(): void;
}

/** Carries a connection, which is paused until there is one to the listener behind. */
export function carry({ outer, address, admission, behind, origins }: CarryParts): Carried {
  let inner: Socket<undefined> | undefined;
  const origin: Origin = { address, admission };
  let port: number | undefined;
  /** What the listener behind has not taken yet. */
  let unsent: Buffer | undefined;
  let isClosed = false;

  function leave(): void {
    // The port may be that of another connection by now.
    if (port !== undefined && origins.get(port) === origin) origins.delete(port);
    port = undefined;
    inner = undefined;
  }

  function forward(bytes: Buffer): void {
    const written = inner?.write(bytes) ?? 0;
    unsent = written < bytes.length ? bytes.subarray(Math.max(written, 0)) : undefined;
    if (unsent) outer.pause();
  }

  Bun.connect<undefined>({
    hostname: behind.host,
    port: behind.port,
    socket: {
      open(socket) {
        if (isClosed) return void socket.terminate();
        inner = socket;
        port = socket.localPort;
        origins.set(port, origin);
        outer.resume();
      },
      data(socket, bytes) {
        admission.said();
        if (outer.write(bytes)) return;
        admission.heldUp(true);
        socket.pause();
      },
      drain() {
        if (!unsent) return;
        forward(unsent);
        if (!unsent) outer.resume();
      },
      close() {
        leave();
        if (isClosed) return;
        // The last answer may still be on its way.
        admission.ending();
        outer.end();
      },
      error() {
        outer.destroy();
      },
    },
  }).catch(() => outer.destroy());

  return {
    received(bytes) {
      admission.heard();
      if (unsent) unsent = Buffer.concat([unsent, bytes]);
      else forward(bytes);
    },
    drained() {
      admission.heldUp(false);
      inner?.resume();
    },
    closed() {
      isClosed = true;
      admission.closed();
      const socket = inner;
      leave();
      socket?.terminate();
    },
  };
}
