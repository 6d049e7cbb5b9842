/**
 * Pebble, Let's Encrypt's ACME server for testing clients: a child process on free ports, which resolves every name to this
 * machine and fetches proofs from ports that lead to the server under test.
 */
import { writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { startDnsServer, type Zone } from "./dns-server.ts";
import { makePair } from "./remote-mx.ts";

/** Go's folder of installed programs, which PATH may lack. */
const program =
  Bun.which("pebble") ?? Bun.which(join(process.env.GOBIN ?? join(process.env.HOME ?? "", "go/bin"), "pebble"));

/** The reason why its tests are skipped, or undefined. */
export const noPebble = program === null ? "pebble is not installed (.ci/run does, with go)" : undefined;

export interface Pebble {
  /** URL of its directory. */
  directory: string;
  /** The certificate authority to trust for its own connections. */
  authority: string;
  /** The names that resolve, and those that do not. */
  zone: Zone;
  /** Sends its requests for proofs to this origin from now on. Earlier ones wait. */
  askAt(origin: string): void;
  /** Forwards its connections for TLS-ALPN-01 to this port of 127.0.0.1 from now on. Earlier ones wait. */
  askTlsAt(port: Promise<number>): void;
  /** The paths of its requests. */
  asked: string[];
  /** The root certificate of its chain. */
  root(): Promise<string>;
  /** The times at which it suggests renewing from now on, in ISO 8601. */
  suggest(cert: string, window: { start: string; end: string }): Promise<void>;
}

const children: Bun.Subprocess[] = [];
atEndOfFile(async () => {
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(children.splice(0).map((child) => child.exited));
});

/**
 * `env`: PEBBLE_… variables. `seconds`: validity of its certificates. `dns`: another DNS server, `ip:port`. `refused`:
 * names that its policy forbids, with all below them.
 */
export async function startPebble(
  zone: Zone,
  {
    env = {},
    seconds = 7_776_000,
    dns,
    refused = [],
  }: { env?: Record<string, string>; seconds?: number; dns?: string; refused?: readonly string[] } = {},
): Promise<Pebble> {
  if (program === null) throw new Error(noPebble);
  let origin = Promise.withResolvers<string>();
  const asked: string[] = [];
  const proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      asked.push(pathname);
      return fetch((await origin.promise) + pathname, { redirect: "manual" });
    },
  });
  let tlsPort: Promise<number> | undefined;
  const tlsProxy = createServer(async (outer) => {
    outer.pause();
    if (tlsPort === undefined) return outer.destroy();
    const inner = connect(await tlsPort, "127.0.0.1");
    for (const [from, to] of [
      [outer, inner],
      [inner, outer],
    ] as const) {
      from.pipe(to);
      from.on("error", () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => tlsProxy.listen(0, "127.0.0.1", resolve));
  tlsProxy.unref();
  const folder = temporaryFolder();
  const pair = await makePair("localhost");
  writeFileSync(join(folder, "cert.pem"), pair.cert);
  writeFileSync(join(folder, "key.pem"), pair.key);
  const [port, management] = [await takePort(), await takePort()];
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: join(folder, "cert.pem"),
    privateKey: join(folder, "key.pem"),
    httpPort: proxy.port,
    tlsPort: (tlsProxy.address() as { port: number }).port,
    ocspResponderURL: "",
    externalAccountBindingRequired: false,
    retryAfter: { authz: 1, order: 1 },
    keyAlgorithm: "ecdsa",
    domainBlocklist: refused,
    profiles: { default: { description: "all there is", validityPeriod: seconds } },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ pebble }));
  const asks = dns ?? (await startDnsServer(zone)).address;
  const child = Bun.spawn([program, "-config", join(folder, "config.json"), "-dnsserver", asks], {
    env: { PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "0", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const ready = Promise.withResolvers<void>();
  // Reads to the end, since a program ends when its output is not read.
  void (async () => {
    let output = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += chunk;
      if (output.includes("ACME directory available")) ready.resolve();
    }
    ready.reject(new Error(`pebble ended: ${output}`));
  })();
  await ready.promise;
  const tls = { ca: pair.cert };
  return {
    directory: `https://localhost:${port}/dir`,
    authority: pair.cert,
    zone,
    askAt(next) {
      origin.resolve(next);
      origin = Promise.withResolvers();
      origin.resolve(next);
    },
    askTlsAt(port) {
      tlsPort = port;
    },
    asked,
    async suggest(cert, suggestedWindow) {
      const ariResponse = JSON.stringify({ suggestedWindow });
      const body = JSON.stringify({ certificate: cert, ariResponse });
      const { status } = await fetch(`https://localhost:${management}/set-renewal-info/`, {
        method: "POST",
        body,
        tls,
      });
      if (status !== 200) throw new Error(`pebble takes no renewal window (${status})`);
    },
    root: async () => (await fetch(`https://localhost:${management}/roots/0`, { tls })).text(),
  };
}
