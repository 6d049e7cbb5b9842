/** An HTTPS listener whose certificate tests replace, and its clients. */
import { expect } from "bun:test";
import { X509Certificate } from "node:crypto";
import { connect as connectTcp } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { createRequestShares } from "../../src/api/pools.ts";
import { createLog } from "../../src/base/log.ts";
import type { HttpServer } from "../../src/http/carrier.ts";
import { createHttpConnections } from "../../src/http/connections.ts";
import { createHttpsServer } from "../../src/http/https.ts";
import { listenHttpInner } from "../../src/http/listener.ts";
import type { AlpnProofs } from "../../src/tls/alpn-front.ts";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { atEndOfFile } from "../harness/end.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";

/** Trusts every certificate. */
export const tls = { rejectUnauthorized: false };

const running: HttpServer[] = [];
atEndOfFile(async () => {
  for (const server of running.splice(0)) await server.stop(0);
});

// The first test makes them, since the folder that they are made in is removed at the end of its file.
let pairs: Promise<[KeyPair, KeyPair]> | undefined;
const fingerprintOf = ({ cert }: KeyPair): string => new X509Certificate(cert).fingerprint256;

export type Answer = (request: Request, peer: string | undefined) => Promise<Response>;

/**
 * How connections reach the listener: as TLS, or as TCP that is passed on at once or after a look at its first message.
 */
export const WAYS = [
  ["of TLS", undefined],
  ["of TCP, passed on unseen", { isPending: () => false, pairFor: () => undefined }],
  ["of TCP, passed on once its first message was seen", { isPending: () => true, pairFor: () => undefined }],
] as const satisfies [string, AlpnProofs | undefined][];

/** Starts a listener whose certificate the test replaces. */
export async function startBy(alpn: AlpnProofs | undefined, answer: Answer) {
  pairs ??= Promise.all([makePair("one.example.test"), makePair("two.example.test")]);
  const [first, second] = await pairs;
  let pair = first;
  let change: (pair: KeyPair) => void = () => {};
  let behind = { host: "", port: 0 };
  const runtime = fakeRuntime();
  const log = createLog("silent", runtime.now, () => {});
  const pools = createRequestShares({ mostConnections: 1_000, runtime });
  const server = await createHttpsServer({
    connections: createHttpConnections({ most: 1_000, trustedProxies: [], runtime }),
    listen: { host: "127.0.0.1", port: 0 },
    certificates: {
      current: () => pair,
      choose: (_name, done) => done(null),
      onChange(listener) {
        change = listener;
        return () => {};
      },
      alpn,
    },
    startInner(parts) {
      const http = listenHttpInner({ ...parts, respond: answer, pools, runtime, log });
      behind = http.address;
      return http;
    },
    runtime,
    log,
  });
  running.push(server);
  const { port } = server.address;
  return {
    port,
    behind,
    first,
    second,
    stop: (graceMs: number) => server.stop(graceMs),
    replace() {
      pair = pair === first ? second : first;
      change(pair);
    },
  };
}

export const openTls = (port: number, localAddress = "127.0.0.1"): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const plain = connectTcp({ port, host: "127.0.0.1", localAddress });
    const socket: TLSSocket = connect({ socket: plain, ...tls }, () => resolve(socket));
    socket.once("error", reject);
  });

export const GET = "GET / HTTP/1.1\r\nHost: localhost\r\n";

/** Reads until the connection closes. */
export const readAll = (socket: TLSSocket): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = "";
    socket.setEncoding("latin1");
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.once("error", reject);
    socket.once("close", () => resolve(text));
  });

/** Replaces the certificate in each round while five connections open, and expects that none breaks, nor one that is held open. */
export async function expectReplacing(alpn: AlpnProofs | undefined, rounds: number): Promise<void> {
  const held = Promise.withResolvers<void>();
  const { port, first, second, replace } = await startBy(alpn, async (request) => {
    if (request.url.endsWith("/held")) await held.promise;
    return new Response("here");
  });
  const old = await openTls(port);
  old.write(`${GET.replace("/", "/held")}connection: close\r\n\r\n`);
  const late = readAll(old);
  const seen = new Set<string>();
  for (let round = 0; round < rounds; round++) {
    const opening = Array.from({ length: 5 }, async () => {
      const socket = await openTls(port);
      seen.add(socket.getPeerCertificate().fingerprint256);
      socket.write(`${GET}connection: close\r\n\r\n`);
      expect(await readAll(socket)).toEndWith("here");
    });
    replace();
    await Promise.all(opening);
  }
  expect([...seen].sort()).toEqual([fingerprintOf(first), fingerprintOf(second)].sort());
  held.resolve();
  expect(await late).toEndWith("here");
}
