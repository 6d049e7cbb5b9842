/**
 * TLS-ALPN-01 at the HTTPS listener (RFC 8737): while a proof is shown, this front reads the first message of each
 * connection. The authority, which offers only `acme-tls/1`, gets the certificate with the proof. Every other
 * connection is passed to the listener unchanged; without a pending proof all are passed unread.
 *
 * This happens before TLS, because a node:tls server chooses its certificate by name alone, and other clients ask for the
 * same name meanwhile. Bun's `setKeyCert`, with which Node replaces the certificate in ALPNCallback, does nothing.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createSecureContext, TLSSocket } from "node:tls";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { KeyPair } from "./pair.ts";

/** The proofs to show. */
export interface AlpnProofs {
  isPending(): boolean;
  /** Returns the certificate for a name (lower case); undefined when no proof is pending for it. */
  pairFor(name: string): KeyPair | undefined;
}

interface Front {
  proofs: AlpnProofs;
  /** Takes a connection whose bytes are all still to be read. */
  pass(socket: Socket): void;
  runtime: Pick<Runtime, "setTimer">;
  log: Log;
}

const PROTOCOL = "acme-tls/1";
const HELLO_MS = 20_000;
const HANDSHAKE_MS = 20_000;
/** fatal unrecognized_name (RFC 6066 §3). */
const UNRECOGNIZED_NAME = Buffer.from([21, 3, 3, 0, 2, 2, 112]);

/** Creates a TCP server, not yet listening. */
export function createAlpnFront(front: Front): Server {
  const { proofs, pass } = front;
  return createServer({ allowHalfOpen: true }, (socket) => {
    // A connection that breaks off before TLS needs no report.
    socket.on("error", () => socket.destroy());
    // A connection listener may have refused it.
    if (socket.destroyed) return;
    if (!proofs.isPending()) return pass(socket);
    readFirst(socket, front, (hello) => {
      const isAuthority = hello?.protocols.length === 1 && hello.protocols[0] === PROTOCOL;
      if (isAuthority) showProof(socket, hello, front);
      else pass(socket);
    });
  });
}

/** Reads the first message whole, and puts it back; `done` gets undefined for bytes that are not TLS. */
function readFirst(socket: Socket, { runtime }: Front, done: (hello: ClientHello | undefined) => void): void {
  let received = Buffer.alloc(0);
  const leave = (): void => void socket.destroy();
  const cancelTimer = runtime.setTimer(leave, HELLO_MS);
  const look = (chunk: Buffer): void => {
    received = Buffer.concat([received, chunk]);
    const hello = readClientHello(received);
    if (hello === "more") return;
    cancelTimer();
    socket.off("data", look);
    socket.off("close", cancelTimer);
    socket.off("end", leave);
    socket.pause();
    socket.unshift(received);
    done(hello);
  };
  socket.once("close", cancelTimer);
  // The server lets clients of HTTP close their side, but this one has said nothing yet.
  socket.once("end", leave);
  socket.on("data", look);
}

/** Completes the handshake, which is the whole proof (RFC 8737 §3), and closes. */
function showProof(socket: Socket, { serverName }: ClientHello, { proofs, runtime, log }: Front): void {
  const pair = serverName === undefined ? undefined : proofs.pairFor(serverName);
  if (!pair) {
    log.debug("asked for a proof that is not ours", { serverName });
    socket.end(UNRECOGNIZED_NAME);
    return;
  }
  const secured = new TLSSocket(socket, {
    isServer: true,
    secureContext: createSecureContext({ ...pair, minVersion: "TLSv1.2" }),
    ALPNProtocols: [PROTOCOL],
  });
  const cancelTimer = runtime.setTimer(() => secured.destroy(), HANDSHAKE_MS);
  secured.once("close", cancelTimer);
  secured.once("secure", () => {
    log.debug("proof shown", { serverName });
    secured.end();
  });
  secured.on("error", (error) => {
    log.debug("proof could not be shown", { serverName, error });
    secured.destroy();
  });
}

/*
 * The ClientHello (RFC 8446 §4.1.2): the server name and the protocols that the client offers.
 *
 * Invariant: for any bytes, reading terminates and stays within them.
 */

interface ClientHello {
  /** Name of the server in lower case, without a final dot, which some clients send; undefined when the client names none. */
  serverName: string | undefined;
  /** Protocols that the client offers (RFC 7301); empty when there are none. */
  protocols: readonly string[];
}

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const PROTOCOLS = 16;
const HOST_NAME = 0;
/** Fragments of records are at most that long (RFC 8446 §5.1). */
const MOST_IN_RECORD = 2 ** 14;
/** Most bytes of a hello. Usual ones have some hundred, or two thousand with post-quantum keys. */
const MOST_BYTES = 2 ** 14;

/** Reads the bytes received so far: the hello, "more" while it is incomplete, or undefined if they are not a hello. */
export function readClientHello(received: Buffer): ClientHello | "more" | undefined {
  const message = handshakeIn(received);
  if (!Buffer.isBuffer(message)) return message;
  try {
    return parse(message);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Joins the records of the first handshake message, and returns it without its header. */
function handshakeIn(received: Buffer): Buffer | "more" | undefined {
  const fragments: Buffer[] = [];
  let size = 0;
  let end: number | undefined;
  for (let at = 0; ; ) {
    const [type, major] = received.subarray(at, at + 2);
    if ((type ?? HANDSHAKE) !== HANDSHAKE || (major ?? 3) !== 3) return undefined;
    if (received.length < at + 5) break;
    const length = received.readUInt16BE(at + 3);
    if (length === 0 || length > MOST_IN_RECORD) return undefined;
    const fragment = received.subarray(at + 5, at + 5 + length);
    fragments.push(fragment);
    size += fragment.length;
    at += 5 + length;
    if (end === undefined && size >= 4) {
      const header = Buffer.concat(fragments);
      end = 4 + header.readUIntBE(1, 3);
      if (header[0] !== CLIENT_HELLO || end > MOST_BYTES) return undefined;
    }
    if (end !== undefined && size >= end) return Buffer.concat(fragments).subarray(4, end);
    if (fragment.length < length) break;
  }
  return received.length > MOST_BYTES ? undefined : "more";
}

/** @throws RangeError for lengths that do not fit */
function parse(message: Buffer): ClientHello {
  const hello = reader(message);
  // Version and random.
  hello.skip(2 + 32);
  hello.skip(hello.number(1));
  hello.skip(hello.number(2));
  hello.skip(hello.number(1));
  const found: { serverName: string | undefined; protocols: string[] } = { serverName: undefined, protocols: [] };
  if (hello.isAtEnd()) return found;
  const extensions = reader(hello.bytes(hello.number(2)));
  while (!extensions.isAtEnd()) {
    const type = extensions.number(2);
    const body = reader(extensions.bytes(extensions.number(2)));
    if (type === SERVER_NAME) {
      const names = reader(body.bytes(body.number(2)));
      while (!names.isAtEnd()) {
        const kind = names.number(1);
        const name = names.bytes(names.number(2)).toString("latin1").toLowerCase().replace(/\.$/, "");
        if (kind === HOST_NAME) found.serverName ??= name;
      }
    } else if (type === PROTOCOLS) {
      const list = reader(body.bytes(body.number(2)));
      while (!list.isAtEnd()) found.protocols.push(list.bytes(list.number(1)).toString("latin1"));
    }
  }
  return found;
}

/** Reads bytes in order. Each method @throws RangeError past the end. */
function reader(bytes: Buffer) {
  let at = 0;
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw new RangeError("shorter than it says");
    at += length;
    return bytes.subarray(at - length, at);
  };
  return {
    isAtEnd: () => at >= bytes.length,
    bytes: take,
    skip: (length: number): void => void take(length),
    /** Reads a number of `size` bytes. */
    number: (size: number): number => take(size).readUIntBE(0, size),
  };
}
