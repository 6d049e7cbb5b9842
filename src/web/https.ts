/**
 * TLS before an HTTP listener, with a certificate that changes while it runs.
 *
 * Bun.serve keeps the certificate that it was started with, and a second one in its place, on the same port, loses
 * connections that are being opened just then; a server of node:tls takes another certificate for the handshakes to come.
 * So TLS ends here, and each connection is carried on to a listener on loopback, which knows by its port whose it is.
 *
 * Invariant: what did not come through here is not answered there.
 */
import { connect, type Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { atMost } from "../pause.ts";
import { createAlpnFront } from "../tls/alpn-front.ts";
import type { Certificates, KeyPair } from "../tls/certificates.ts";
import type { HttpListenerParts, HttpServer, Origin } from "./listener.ts";

export interface HttpsServerParts extends Pick<HttpListenerParts, "listen" | "runtime" | "log"> {
  certificates: Pick<Certificates, "current" | "onChange" | "alpn">;
  /** Starts the HTTP listener behind. */
  behind(parts: Required<Pick<HttpListenerParts, "listen" | "originOf">>): HttpServer;
}

const HANDSHAKE_MS = 20_000;
const LINGER_MS = 30_000;
const LAST_WORDS_MS = 500;

const tlsOptions = ({ cert, key }: KeyPair) => ({ cert, key, minVersion: "TLSv1.2" }) as const;

/** Starts listening. Rejects when the address cannot be bound. */
export async function createHttpsServer({
  listen,
  certificates,
  behind,
  runtime,
  log,
}: HttpsServerParts): Promise<HttpServer> {
  /** By the port from which a connection reaches the listener behind: where it comes from. */
  const origins = new Map<number, Origin>();
  const open = new Set<Socket>();
  let closedAll = (): void => {};
  const http = behind({
    listen: { host: "127.0.0.1", port: 0 },
    originOf: (peer) => (peer ? origins.get(peer.port) : undefined),
  });

  function carryOn(outer: TLSSocket): void {
    const inner = connect({ host: http.address.host, port: http.address.port, noDelay: true });
    outer.setNoDelay(true);
    open.add(outer);
    let port: number | undefined;
    let cancelTimer = () => {};
    inner.once("connect", () => {
      port = inner.localPort;
      if (port === undefined || outer.destroyed) return inner.destroy();
      origins.set(port, { address: outer.remoteAddress });
      outer.pipe(inner);
      return inner.pipe(outer);
    });
    inner.once("close", () => {
      if (port !== undefined) origins.delete(port);
      if (outer.destroyed) return;
      // The last answer may still be on its way; a client that does not take it is not waited for.
      outer.end();
      cancelTimer = runtime.setTimer(() => outer.destroy(), LINGER_MS);
    });
    inner.on("error", () => outer.destroy());
    outer.on("error", () => inner.destroy());
    outer.once("close", () => {
      cancelTimer();
      open.delete(outer);
      inner.destroy();
      if (open.size === 0) closedAll();
    });
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
  const forget = certificates.onChange((pair) => server.setSecureContext(tlsOptions(pair)));
  try {
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject);
      listener.listen(listen.port, listen.host, resolve);
    });
  } catch (error) {
    forget();
    await http.stop(0);
    throw error;
  }
  listener.on("error", (error) => log.debug("HTTPS listener", { error }));
  const bound = listener.address();

  return {
    address: { host: listen.host, port: typeof bound === "object" && bound ? bound.port : listen.port },
    async stop(graceMs) {
      forget();
      listener.close();
      await http.stop(graceMs);
      // Their last answers have been read from behind; those who take them too slowly are cut off.
      if (open.size > 0 && graceMs > 0) {
        const closed = Promise.withResolvers<void>();
        closedAll = closed.resolve;
        await atMost(runtime, Math.min(graceMs, LAST_WORDS_MS), closed.promise);
      }
      for (const socket of open) socket.destroy();
    },
  };
}
