/**
 * The HTTPS listener: ends TLS, with a certificate that may change while it runs, and carries each connection to an
 * inner HTTP listener on loopback.
 *
 * Bun.serve keeps the certificate that it was started with, and replacing the server on the same port loses connections
 * that are just being opened. A server of node:tls takes a new certificate for later handshakes.
 *
 * Invariant: the inner listener serves only connections that came through this one; it knows them by their port.
 */
import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { createAlpnFront } from "../tls/alpn-front.ts";
import { type Certificates, tlsOptions } from "../tls/certificates.ts";
import { type ClientSide, createConnectionCarrier, type HttpServer } from "./carrier.ts";
import type { Admission } from "./connections.ts";
import type { HttpListenerParts, InnerListenerParts } from "./listener.ts";

const HANDSHAKE_MS = 20_000;

/** Identifies a connection, which is another object after the handshake. */
const socketEndsKey = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/** Starts listening. Rejects when the address cannot be bound. */
export async function createHttpsServer({
  listen,
  certificates,
  startInner,
  connections,
  runtime,
  log,
}: Pick<HttpListenerParts, "listen" | "connections" | "runtime" | "log"> & {
  certificates: Pick<Certificates, "current" | "choose" | "onChange" | "alpn">;
  /** Starts the inner HTTP listener. */
  startInner(parts: Pick<InnerListenerParts, "findCarriedOrigin">): HttpServer;
}): Promise<HttpServer> {
  const carrier = createConnectionCarrier({ connections, startInner, runtime, log });
  /** Admissions of connections before the end of the handshake, by socketEndsKey. */
  const admissions = new Map<string, Admission>();

  /** Counts a connection right after it was accepted. */
  function admit(socket: Socket): void {
    const ends = socketEndsKey(socket);
    const destroy = () => void socket.destroy();
    const admission = carrier.admit(socket.remoteAddress, destroy, destroy);
    if (!admission) return void socket.destroy();
    admissions.set(ends, admission);
    socket.once("close", () => {
      // Another connection may have the same ends by now.
      if (admissions.get(ends) === admission) admissions.delete(ends);
      admission.closed();
    });
  }

  function carryOn(clientSide: TLSSocket): void {
    const ends = socketEndsKey(clientSide);
    const admission = admissions.get(ends);
    admissions.delete(ends);
    if (!admission) return void clientSide.destroy();
    clientSide.pause();
    clientSide.setNoDelay(true);
    const carried = carrier.carry(makeClientSide(clientSide), clientSide.remoteAddress, admission);
    clientSide.on("data", carried.received);
    clientSide.on("drain", carried.drained);
    clientSide.on("end", carried.ended);
    clientSide.on("error", () => clientSide.destroy());
    clientSide.once("close", carried.closed);
  }

  const server = createServer(
    {
      ...tlsOptions(certificates.current()),
      SNICallback: certificates.choose,
      allowHalfOpen: true,
      handshakeTimeout: HANDSHAKE_MS,
    },
    carryOn,
  );
  server.on("tlsClientError", (error, socket) => {
    log.debug("TLS handshake failed", { error });
    socket.destroy();
  });
  const { alpn: proofs } = certificates;
  const listener = proofs
    ? createAlpnFront({ proofs, pass: (socket) => void server.emit("connection", socket), runtime, log })
    : server;
  listener.prependListener("connection", admit);
  const forget = certificates.onChange((pair) => server.setSecureContext(tlsOptions(pair)));
  try {
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject);
      listener.listen(listen.port, listen.host, resolve);
    });
  } catch (error) {
    forget();
    await carrier.stop(0);
    throw error;
  }
  listener.on("error", (error) => log.debug("HTTPS listener", { error }));
  const bound = listener.address();

  return {
    address: { host: listen.host, port: typeof bound === "object" && bound ? bound.port : listen.port },
    async stop(graceMs) {
      forget();
      listener.close();
      await carrier.stop(graceMs);
    },
  };
}

const makeClientSide = (socket: TLSSocket): ClientSide => ({
  write: (bytes) => socket.write(bytes),
  pause: () => void socket.pause(),
  resume: () => void socket.resume(),
  end: () => void socket.end(),
  destroy: () => void socket.destroy(),
});
