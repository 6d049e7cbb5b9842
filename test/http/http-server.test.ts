/** The HTTP listener: health, paths, odd requests, and stopping. */
import { afterEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { createRequestShares } from "../../src/api/pools.ts";
import { createLog } from "../../src/base/log.ts";
import type { HttpServer } from "../../src/http/carrier.ts";
import { createHttpConnections } from "../../src/http/connections.ts";
import { createHttpServer } from "../../src/http/http-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const running: HttpServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop(0);
});

type Parts = Parameters<typeof createHttpServer>[0];

function start({ rest, health = {}, localOnly }: Partial<Pick<Parts, "rest" | "health" | "localOnly">> = {}) {
  const runtime = fakeRuntime();
  const lines: string[] = [];
  const server = createHttpServer({
    listen: { host: "127.0.0.1", port: 0 },
    connections: createHttpConnections({ most: 1_000, trustedProxies: [], runtime }),
    rest: rest ?? (async (request, peer) => Response.json({ url: request.url, peer })),
    web: { respond: async (_request, path) => (path === "/" ? new Response("the app") : undefined) },
    health,
    pools: createRequestShares({ mostConnections: 1_000, runtime }),
    ...(localOnly !== undefined && { localOnly }),
    runtime,
    log: createLog("debug", runtime.now, (line) => lines.push(line)),
  });
  running.push(server);
  const { port } = server.address;
  const raw = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      let received = "";
      const socket = connect(port, "127.0.0.1", () => socket.write(text));
      socket.setEncoding("utf8");
      socket.on("data", (chunk) => {
        received += chunk;
      });
      socket.on("close", () => resolve(received));
      socket.on("error", reject);
    });
  return { server, runtime, lines, origin: `http://127.0.0.1:${port}`, raw };
}

describe("/healthz", () => {
  test("is 200 when everything works", async () => {
    const { origin } = start({ health: { store: () => true, smtp: async () => true } });
    const answer = await fetch(`${origin}/healthz`);
    expect([answer.status, await answer.json()]).toEqual([200, { status: "ok", checks: { store: "ok", smtp: "ok" } }]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test("is 503 and names the failing check, also one that throws", async () => {
    const { origin } = start({
      health: {
        store() {
          throw new Error("disk I/O error");
        },
        smtp: () => false,
        queue: () => Promise.reject(new Error("no")),
        http: () => true,
      },
    });
    const answer = await fetch(`${origin}/healthz`);
    expect([answer.status, await answer.json()]).toEqual([
      503,
      { status: "failing", checks: { store: "failing", smtp: "failing", queue: "failing", http: "ok" } },
    ]);
  });
});

test("a demo answers to loopback addresses and names alone, so that no page can lead its own name there", async () => {
  const statusOf = async (localOnly: boolean, host: string) => {
    const answer = await start({ localOnly }).raw(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    return Number(answer.slice(9, 12));
  };
  for (const host of ["localhost:8025", "LOCALHOST", "127.0.0.1", "[::1]:8025", "demo.localhost"]) {
    expect([host, await statusOf(true, host)]).toEqual([host, 200]);
  }
  for (const host of ["evil.example", "localhost.evil.example", "notlocalhost", "192.0.2.1:8025"]) {
    expect([host, await statusOf(true, host), await statusOf(false, host)]).toEqual([host, 403, 200]);
  }
});

test("serves /api/ and the web app's paths, and nothing else", async () => {
  const { origin } = start();
  expect(await (await fetch(origin)).text()).toBe("the app");
  expect(await (await fetch(`${origin}/api/anything?x=1`)).json()).toEqual({
    url: `${origin}/api/anything?x=1`,
    peer: "127.0.0.1",
  });
  for (const path of ["/nowhere", "/healthz/", "/index.html", "/apix", "/metrics", "/%2e%2e/etc/passwd"]) {
    const answer = await fetch(origin + path);
    expect([path, answer.status, await answer.text()]).toEqual([path, 404, "Not found\n"]);
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  }
  const wrong = await fetch(`${origin}/healthz`, { method: "POST" });
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
});

test("odd requests get a response", async () => {
  const { raw } = start();
  const table: [head: string, answer: RegExp][] = [
    ["GET /api/x HTTP/1.1\r\nHost: mx", /^HTTP\/1.1 200 .*"url":"http:\/\/mx\/api\/x"/s],
    ["GET /api/x HTTP/1.1\r\nHost: a b/c", /^HTTP\/1.1 400 .*"error":"[^"]*Host.*"code":"bad_request"/s],
    ["GET /api/x HTTP/1.1\r\nHost: ?", /^HTTP\/1.1 400 .*Host/s],
    ["GET /api/x HTTP/1.1\r\nHost: ", /^HTTP\/1.1 400 .*Host/s],
    ["GET /api/x?y=1 HTTP/1.0", /^HTTP\/1.1 200 .*"url":"http:\/\/localhost\/api\/x\?y=1","peer":"127.0.0.1"/s],
    ["GET /healthz HTTP/1.0", /^HTTP\/1.1 200 /],
    ["GET //api/x HTTP/1.1\r\nHost: mx", /^HTTP\/1.1 404 /],
    ["GET /healthz?x=1#y HTTP/1.1\r\nHost: mx", /^HTTP\/1.1 200 /],
    ["GET http://other/api/x HTTP/1.1\r\nHost: mx", /^HTTP\/1.1 200 .*"peer":"127.0.0.1"/s],
  ];
  for (const [head, answer] of table) {
    const received = await raw(`${head}\r\nConnection: close\r\n\r\n`);
    expect(received).toMatch(answer);
    expect(received).toMatch(/\r\nx-request-id: [0-9a-f]{16}\r\n/i);
  }
});

test("an error of the API is logged, and its response has no details", async () => {
  const { origin, lines } = start({
    rest: async () => {
      throw new Error("a detail");
    },
  });
  const answer = await fetch(`${origin}/api/v1/mailboxes`);
  const body = await answer.text();
  expect([answer.status, JSON.parse(body)]).toMatchObject([500, { code: "server_error" }]);
  expect(body).not.toContain("detail");
  const line = lines.find((line) => line.includes("a detail")) ?? "{}";
  expect(JSON.parse(line).trace).toBe(answer.headers.get("x-request-id") ?? "");
});

describe("stopping", () => {
  test("finishes requests in flight and takes no new ones", async () => {
    const arrived = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const { server, origin, runtime } = start({
      rest: async () => {
        arrived.resolve();
        await finish.promise;
        return new Response("finished");
      },
    });
    const inFlight = fetch(`${origin}/api/slow`);
    await arrived.promise;
    const stopped = server.stop(10_000);
    expect(fetch(origin)).rejects.toThrow();
    finish.resolve();
    expect(await (await inFlight).text()).toBe("finished");
    runtime.advanceTo(runtime.now() + 1_000);
    await stopped;
  });

  test("finishes a download that its client reads slowly", async () => {
    const { server, runtime } = start({ rest: async () => new Response(new Uint8Array(6_000_000)) });
    const client = connect(server.address.port, "127.0.0.1");
    let received = 0;
    let isEnded = false;
    client.on("close", () => {
      isEnded = true;
    });
    client.on("error", () => {});
    client.once("data", () => client.pause());
    client.on("data", ({ length }) => {
      received += length;
    });
    client.write("GET /api/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    await until(() => received > 0);
    let isStopped = false;
    const stopped = server.stop(60_000).then(() => {
      isStopped = true;
    });
    // By now the inner listener has sent everything, and the time in which other clients must close has passed.
    for (let i = 0; i < 50; i++) {
      runtime.advanceTo(runtime.now() + 20);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    }
    expect(isStopped).toBe(false);
    client.resume();
    await until(() => isEnded);
    expect(received).toBeGreaterThan(6_000_000);
    runtime.advanceTo(runtime.now() + 1_000);
    await stopped;
  });

  test("cuts off requests that do not end in time", async () => {
    const arrived = Promise.withResolvers<void>();
    const { server, origin, runtime } = start({
      rest: async () => {
        arrived.resolve();
        return new Promise<Response>(() => {});
      },
    });
    const cut = fetch(`${origin}/api/slow`).catch((error: unknown) => error);
    await arrived.promise;
    const stopped = server.stop(40);
    for (let i = 0; i < 2; i++) {
      runtime.advanceTo(runtime.now() + 20);
      await Promise.resolve();
    }
    await stopped;
    expect(await cut).toBeInstanceOf(Error);
  });

  test("does not wait for a connection whose request body was never read", async () => {
    const { server, origin } = start();
    const answer = await fetch(`${origin}/api/x`, { method: "POST", body: "x".repeat(2_000_000) });
    await answer.text();
    await server.stop(10_000);
    expect(fetch(origin)).rejects.toThrow();
  });

  test("listening fails at an address in use", () => {
    const { server, runtime } = start();
    expect(() =>
      createHttpServer({
        listen: server.address,
        connections: createHttpConnections({ most: 1_000, trustedProxies: [], runtime }),
        rest: async () => new Response(),
        web: { respond: async () => undefined },
        health: {},
        pools: createRequestShares({ mostConnections: 1_000, runtime }),
        runtime,
        log: createLog("silent", runtime.now, () => {}),
      }),
    ).toThrow(/in use|EADDRINUSE/);
  });
});
