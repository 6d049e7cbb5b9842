/** HTTPS listeners that can prove names by TLS-ALPN-01, and connections to them. */
import { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { createRequestShares } from "../../src/api/pools.ts";
import { createLog } from "../../src/base/log.ts";
import { createHttpConnections } from "../../src/http/connections.ts";
import { createHttpsServer } from "../../src/http/https.ts";
import { listenHttpInner } from "../../src/http/listener.ts";
import type { Certificates, KeyPair } from "../../src/tls/certificates.ts";
import { openChallenge } from "../../src/tls/challenge.ts";
import { openTls } from "../harness/clients/tls-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { atEndOfTest, HOST } from "./acme-place.ts";

export const log = createLog("silent", Date.now, () => {});
let pairs: Promise<[KeyPair, KeyPair]> | undefined;

/** Reads until the connection closes. */
export const readAll = (socket: Socket): Promise<string> =>
  new Promise((resolve) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.once("close", () => resolve(text));
  });

const GET = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
export const fingerprintOf = (cert: string): string => new X509Certificate(cert).fingerprint256;

export type Shown = Pick<Certificates, "current" | "choose" | "onChange" | "alpn">;

/** Starts an HTTPS listener that responds with the client's address. */
export async function listen(certificates: Shown) {
  const runtime = fakeRuntime();
  const answer = async (_: Request, peer: string | undefined) => new Response(`here ${peer}`);
  const pools = createRequestShares({ mostConnections: 1_000, runtime });
  const server = await createHttpsServer({
    connections: createHttpConnections({ most: 1_000, trustedProxies: [], runtime }),
    listen: { host: "127.0.0.1", port: 0 },
    certificates,
    runtime,
    log,
    startInner: (parts) => listenHttpInner({ ...parts, respond: answer, pools, runtime, log }),
  });
  atEndOfTest(() => void server.stop(0));
  const { port } = server.address;
  const get = async (options: ConnectionOptions = {}) => {
    const socket = await openTls(port, options);
    const shown = socket.getPeerCertificate().fingerprint256;
    socket.write(GET);
    return { text: await readAll(socket), shown, protocol: socket.alpnProtocol };
  };
  return { port, get };
}

/** Starts a listener that can prove names by TLS-ALPN-01. */
export async function listener() {
  pairs ??= Promise.all([makePair(HOST), makePair(HOST)]);
  const [first, second] = await pairs;
  const runtime = { ...fakeRuntime(), now: Date.now };
  const challenge = openChallenge({ type: "tls-alpn" }, { folder: temporaryFolder(), runtime, log });
  let change: (pair: KeyPair) => void = () => {};
  const certificates: Shown = {
    current: () => first,
    choose: (_name, done) => done(null),
    onChange(told) {
      change = told;
      return () => {};
    },
    alpn: challenge.alpn,
  };
  return { ...(await listen(certificates)), challenge, first, second, change: (pair: KeyPair) => change(pair) };
}
