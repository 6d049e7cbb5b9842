/**
 * TLS before an HTTP listener, with a certificate that changes while it runs.
 *
 * Bun.serve keeps the certificate that it was started with, and a second one in its place, on the same port, loses
 * connections that are being opened just then; a server of node:tls takes another certificate for the handshakes to come.
 * So TLS ends here, and each connection is carried on to a listener on loopback, which knows by its port whose it is.
 *
 * Invariant: what did not come through here is not answered there.
 */
import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { createAlpnFront } from "../tls/alpn-front.ts";
import type { Certificates, KeyPair } from "../tls/certificates.ts";
import type { Outer } from "./carry.ts";
import type { Admission } from "./connections.ts";
import { type BehindParts, createFront, type HttpListenerParts, type HttpServer } from "./listener.ts";

export interface HttpsServerParts extends Pick<HttpListenerParts, "listen" | "connections" | "runtime" | "log"> {
  certificates: Pick<Certificates, "current" | "onChange" | "alpn">;
  /** Starts the HTTP listener behind. */
  behind(parts: Pick<BehindParts, "originOf">): HttpServer;
}

const HANDSHAKE_MS = 20_000;

const tlsOptions = ({ cert, key }: KeyPair) => ({ cert, key, minVersion: "TLSv1.2" }) as const;

/** Before and after the handshake a connection is another object: what both have in common. */
const endsOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/** Starts listening. Rejects when the address cannot be bound. */
export async function createHttpsServer({
  listen,
  certificates,
  behind,
  connections,
  runtime,
  log,
}: HttpsServerParts): Promise<HttpServer> {
  const front = createFront({ connections, behind, runtime });
  /** Of connections whose handshake is not over, by their ends. */
  const admissions = new Map<string, Admission>();

  /** As it is accepted, before anything else is done with it. */
  function admit(socket: Socket): void {
    const ends = endsOf(socket);
    const destroy = () => void socket.destroy();
    const admission = front.admit(socket.remoteAddress, destroy, destroy);
    if (!admission) return void socket.destroy();
    admissions.set(ends, admission);
    socket.once("close", () => {
      // Its ends may be those of another connection by now.
      if (admissions.get(ends) === admission) admissions.delete(ends);
      admission.closed();
    });
  }

  function carryOn(outer: TLSSocket): void {
    const ends = endsOf(outer);
    const admission = admissions.get(ends);
    admissions.delete(ends);
    if (!admission) return void outer.destroy();
    outer.pause();
    outer.setNoDelay(true);
    const carried = front.carry(outerOf(outer), outer.remoteAddress, admission);
    outer.on("data", carried.received);
    outer.on("drain", carried.drained);
    outer.on("error", () => outer.destroy());
    outer.once("close", carried.closed);
  }

  const server = createServer({ ...tlsOptions(certificates.current()), handshakeTimeout: HANDSHAKE_MS }, carryOn);
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
    await front.stop(0);
    throw error;
  }
  listener.on("error", (error) => log.debug("HTTPS listener", { error }));
  const bound = listener.address();

  return {
    address: { host: listen.host, port: typeof bound === "object" && bound ? bound.port : listen.port },
    async stop(graceMs) {
      forget();
      listener.close();
      await front.stop(graceMs);
    },
  };
}

const outerOf = (socket: TLSSocket): Outer => ({
  write: (bytes) => socket.write(bytes),
  pause: () => void socket.pause(),
  resume: () => void socket.resume(),
  end: () => void socket.end(),
  destroy: () => void socket.destroy(),
});
