/**
 * TLS-ALPN-01 at the HTTPS listener (RFC 8737): while a proof is shown, this front reads the first message of each
 * connection. The authority, which offers only `acme-tls/1`, gets the certificate with the proof. Every other connection is
 * passed to the listener unchanged; without a pending proof all are passed unread.
 *
 * This happens before TLS, because a node:tls server chooses its certificate by name alone, and under Bun negotiates no
 * protocol once it does.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createSecureContext, TLSSocket } from "node:tls";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { type ClientHello, readClientHello } from "./client-hello.ts";
import type { KeyPair } from "./pair.ts";

/** The proofs to show. */
export interface AlpnProofs {
  isPending(): boolean;
  /** Returns the certificate for a name (lower case); undefined when no proof is pending for it. */
  pairFor(name: string): KeyPair | undefined;
}

export interface AlpnFrontParts {
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
export function createAlpnFront(parts: AlpnFrontParts): Server {
  const { proofs, pass } = parts;
  return createServer((socket) => {
    // A connection that breaks off before TLS needs no report.
    socket.on("error", () => socket.destroy());
    // A connection listener may have refused it.
    if (socket.destroyed) return;
    if (!proofs.isPending()) return pass(socket);
    readFirst(socket, parts, (hello) => {
      const isAuthority = hello?.protocols.length === 1 && hello.protocols[0] === PROTOCOL;
      if (isAuthority) showProof(socket, hello, parts);
      else pass(socket);
    });
  });
}

/** Reads the first message whole, and puts it back; `done` gets undefined for bytes that are not TLS. */
function readFirst(socket: Socket, { runtime }: AlpnFrontParts, done: (hello: ClientHello | undefined) => void): void {
  let received = Buffer.alloc(0);
  const cancelTimer = runtime.setTimer(() => socket.destroy(), HELLO_MS);
  const look = (chunk: Buffer): void => {
    received = Buffer.concat([received, chunk]);
    const hello = readClientHello(received);
    if (hello === "more") return;
    cancelTimer();
    socket.off("data", look);
    socket.off("close", cancelTimer);
    socket.pause();
    socket.unshift(received);
    done(hello);
  };
  socket.once("close", cancelTimer);
  socket.on("data", look);
}

/** Completes the handshake, which is the whole proof (RFC 8737 §3), and closes. */
function showProof(socket: Socket, { serverName }: ClientHello, { proofs, runtime, log }: AlpnFrontParts): void {
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
