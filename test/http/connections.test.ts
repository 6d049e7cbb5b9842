/** Limits of HTTP connections: in all, for each source, in time; and the shares of open files. */
import { afterEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { createRequestShares } from "../../src/api/pools.ts";
import { clientLeavingSignal, readJson } from "../../src/api/request.ts";
import { markStreamedResponse } from "../../src/api/unread-answers.ts";
import { shareDescriptors } from "../../src/base/descriptors.ts";
import { createLog } from "../../src/base/log.ts";
import type { HttpServer } from "../../src/http/carrier.ts";
import { type Admission, createHttpConnections, type RefusedBy } from "../../src/http/connections.ts";
import { createHttpServer } from "../../src/http/http-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const running: HttpServer[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of running.splice(0)) await server.stop(0);
});

const LARGE = new Uint8Array(40_000_000);

/**
 * Starts an API that reads a body at /api/read, streams at /api/live, gives much at /api/large, and waits at /api/wait.
 */
function start({ most = 100, trustedProxies = [] as string[] } = {}) {
  const runtime = fakeRuntime();
  const refusals: RefusedBy[] = [];
  const begun: string[] = [];
  const connections = createHttpConnections({ most, trustedProxies, runtime, refused: (by) => refusals.push(by) });
  const server = createHttpServer({
    listen: { host: "127.0.0.1", port: 0 },
    connections,
    async rest(request) {
      const path = new URL(request.url).pathname;
      begun.push(path);
      if (path === "/api/read") return Response.json(await readJson(request, 100_000).catch(() => "none"));
      if (path === "/api/wait")
        await new Promise((resolve) => clientLeavingSignal(request).addEventListener("abort", resolve));
      if (path === "/api/large") return new Response(LARGE);
      if (!["/api/live", "/api/ended", "/api/unfinished"].includes(path)) return Response.json({});
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue("data: 1\n\n");
          if (path === "/api/ended") controller.close();
        },
      });
      return path === "/api/unfinished"
        ? markStreamedResponse(new Response(body))
        : new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
    web: { respond: async () => undefined },
    health: {},
    pools: createRequestShares({ mostConnections: most, runtime }),
    runtime,
    log: createLog("silent", runtime.now, () => {}),
  });
  running.push(server);
  const { port } = server.address;
  const advanceTo = (at: number): void => {
    runtime.advanceTo(at);
    connections.sweep();
  };

  /** Opens a connection and writes to it. */
  function open(...said: string[]) {
    const socket = connect(port, "127.0.0.1");
    sockets.push(socket);
    const one = { socket, text: "", closed: false };
    socket.setEncoding("latin1");
    socket.on("data", (chunk) => {
      one.text += chunk;
    });
    socket.on("close", () => {
      one.closed = true;
    });
    socket.on("error", () => {});
    for (const text of said) socket.write(text);
    return one;
  }
  const answered = async (one: { text: string }) => {
    await until(() => one.text.includes("\r\n\r\n"));
    return Number(one.text.slice(9, 12));
  };
  return { runtime, connections, advanceTo, refusals, begun, open, answered };
}

type Started = ReturnType<typeof start>;
type Opened = ReturnType<Started["open"]>;

const get = (path: string, ...headers: string[]) =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers.map((header) => `${header}\r\n`).join("")}\r\n`;
const POST =
  "POST /api/read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";

describe("the limit of all connections", () => {
  test("a connection beyond the limit gets 503 with Retry-After, until another one closes", async () => {
    const { connections, refusals, begun, open, answered } = start({ most: 3 });
    const waiting = [1, 2, 3].map(() => open(get("/api/wait")));
    await until(() => begun.length === 3);
    const refused = open(get("/api/x"));
    await until(() => refused.closed);
    expect(refused.text).toMatch(/^HTTP\/1.1 503 .*\r\nretry-after: 10\r\n.*"code":"server_error"/s);
    expect([connections.open(), refusals]).toEqual([3, ["total"]]);
    waiting[0]?.socket.destroy();
    await until(() => connections.open() === 2);
    expect(await answered(open(get("/api/x")))).toBe(200);
  });

  test("the connection that has idled for longest makes room for another", async () => {
    const { connections, begun, refusals, open, answered } = start({ most: 3 });
    const busy = open(get("/api/wait"));
    await until(() => begun.length === 1);
    const [first, second] = [open(get("/api/x")), open(get("/api/x"))];
    expect([await answered(first), await answered(second)]).toEqual([200, 200]);
    first.text = "";
    first.socket.write(get("/api/x"));
    await answered(first);
    expect(await answered(open(get("/api/y")))).toBe(200);
    await until(() => second.closed);
    expect([first.closed, busy.closed, connections.open(), refusals]).toEqual([false, false, 3, []]);
  });

  test("a connection on which a response is being sent is not idle", async () => {
    const { runtime, advanceTo, open, answered } = start({ most: 2 });
    const download = open(get("/api/unfinished"));
    await until(() => download.text.includes("data: 1"));
    const other = open(get("/api/x"));
    expect(await answered(other)).toBe(200);
    expect(await answered(open(get("/api/y")))).toBe(200);
    await until(() => other.closed);
    advanceTo(runtime.now() + 3_600_000);
    expect(download.closed).toBe(false);
  });

  test("a stream of events is not idle", async () => {
    const { open, answered } = start({ most: 1 });
    const stream = open(get("/api/live"));
    await until(() => stream.text.includes("data: 1"));
    expect(await answered(open(get("/api/x")))).toBe(503);
    expect(stream.closed).toBe(false);
  });
});

describe("the limit of each source", () => {
  const PROXY = { most: 8, trustedProxies: ["127.0.0.0/8"] };
  const from = (address: string) => `X-Forwarded-For: ${address}`;

  test.each([
    ["an IPv4 address", ["203.0.113.7", "203.0.113.7"], "203.0.113.7", "203.0.113.8"],
    ["an IPv6 /64", ["2001:db8::1", "2001:db8::2"], "2001:db8::abcd:1", "2001:db8:0:1::1"],
  ])("behind a proxy, requests of %s count while they are under way", async (_, held, same, other) => {
    const { begun, refusals, open, answered } = start(PROXY);
    const [first] = held.map((address) => open(get("/api/wait", from(address))));
    await until(() => begun.length === 2);
    const refused = open(get("/api/x", from(same)));
    expect([await answered(refused), refused.text]).toEqual([503, expect.stringMatching(/\r\nretry-after: 10\r\n/i)]);
    expect(refusals).toEqual(["source"]);
    // The proxy's connection still serves other clients.
    refused.text = "";
    refused.socket.write(get("/api/x", from(other)));
    expect(await answered(refused)).toBe(200);
    first?.socket.destroy();
    await until(async () => (await answered(open(get("/api/x", from(same))))) === 200);
  });

  test("a stream of events counts until its connection ends", async () => {
    const { open, answered } = start(PROXY);
    const streams = [1, 2].map(() => open(get("/api/live", from("203.0.113.7"))));
    for (const stream of streams) await until(() => stream.text.includes("data: 1"));
    expect(await answered(open(get("/api/x", from("203.0.113.7"))))).toBe(503);
    streams[0]?.socket.destroy();
    await until(async () => (await answered(open(get("/api/x", from("203.0.113.7"))))) === 200);
  });

  test("a stream of events that the server ends closes its connection, and no longer counts", async () => {
    const { open, answered } = start(PROXY);
    for (let i = 0; i < 3; i++) {
      const stream = open(get("/api/ended", from("203.0.113.7")));
      expect(await answered(stream)).toBe(200);
      await until(() => stream.closed);
    }
  });

  test("X-Forwarded-For of an untrusted peer is ignored, and loopback has no limit of its own", async () => {
    const { begun, open, answered } = start({ most: 8 });
    for (let i = 0; i < 6; i++) open(get("/api/wait", from("203.0.113.7")));
    await until(() => begun.length === 6);
    expect(await answered(open(get("/api/x", from("203.0.113.7"))))).toBe(200);
    const proxied = start(PROXY);
    for (let i = 0; i < 6; i++) proxied.open(get("/api/wait"));
    await until(() => proxied.begun.length === 6);
    expect(await proxied.answered(proxied.open(get("/api/x")))).toBe(200);
  });

  test("a proxy has no limit of connections, nor of requests without a forwarded address", () => {
    const { runtime } = start();
    const connections = createHttpConnections({ most: 8, trustedProxies: ["198.51.100.0/24"], runtime });
    const request = (headers: Record<string, string> = {}) => new Request("http://localhost/", { headers });
    for (let i = 0; i < 7; i++) {
      expect(connections.admit("198.51.100.1", () => {})?.begin(request())).toBeDefined();
    }
    const last = connections.admit("198.51.100.1", () => {});
    const forwarded = { "x-forwarded-for": "203.0.113.7" };
    expect([1, 2, 3].map(() => last?.begin(request(forwarded)) !== undefined)).toEqual([true, true, false]);
  });

  test("a direct client has a quarter of the connections, and its idle ones make room for new ones", () => {
    const { runtime } = start();
    const refusals: RefusedBy[] = [];
    const connections = createHttpConnections({
      most: 8,
      trustedProxies: [],
      runtime,
      refused: (by) => refusals.push(by),
    });
    const cut: number[] = [];
    const admit = (address: string, i: number) => connections.admit(address, () => cut.push(i));
    const first = admit("2001:db8::1", 1);
    expect([admit("2001:db8::2", 2) !== undefined, admit("2001:db8::3", 3), refusals]).toEqual([
      true,
      undefined,
      ["source"],
    ]);
    expect(admit("2001:db8:0:1::1", 4)).toBeDefined();
    expect(admit("::ffff:203.0.113.7", 5)).toBeDefined();
    first?.begin(new Request("http://localhost/"))?.();
    first?.sent();
    expect([admit("2001:db8::4", 6) !== undefined, cut, connections.open()]).toEqual([true, [1], 4]);
  });
});

describe("how long the server waits for a client", () => {
  type Row = [what: string, usual: number, hurried: number, open: (started: Started) => Promise<Opened>];
  const rows: Row[] = [
    ["a first request", 20_000, 5_000, async ({ open }) => open("GET /api/x HTT")],
    [
      "the rest of another request",
      ...([20_000, 5_000] as const),
      async ({ open, answered }) => {
        const one = open(get("/api/x"));
        await answered(one);
        one.socket.write("GET /api/y HT");
        return one;
      },
    ],
    [
      "more of a body",
      ...([20_000, 5_000] as const),
      async ({ open, begun }) => {
        const one = open(POST, "{");
        await until(() => begun.length > 0);
        return one;
      },
    ],
    [
      "more of a body of HTTP/1.0",
      ...([20_000, 5_000] as const),
      async ({ open, begun }) => {
        const one = open(POST.replace("1.1\r\nHost: localhost", "1.0"), "{");
        await until(() => begun.length > 0);
        return one;
      },
    ],
    [
      "its taking an answer",
      ...([60_000, 10_000] as const),
      async ({ open, begun }) => {
        const one = open();
        one.socket.pause();
        one.socket.write(get("/api/large"));
        await until(() => begun.length > 0);
        return one;
      },
    ],
  ];

  test.each(rows)("for %s", async (_, usual, hurried, begin) => {
    for (const [most, ms] of [
      [9, usual],
      [1, hurried],
    ] as const) {
      const started = start({ most });
      const { runtime, connections, advanceTo } = started;
      await begin(started);
      // When other connections were served, the written bytes have arrived.
      await until(() => connections.open() === 1);
      for (let i = 0; i < 20; i++) await new Promise(setImmediate);
      const began = runtime.now();
      advanceTo(began + ms - 1_500);
      expect(connections.open()).toBe(1);
      advanceTo(began + ms + 1_500);
      await until(() => connections.open() === 0);
    }
  });

  /** A request of a body that the server reads, on a connection from an address. */
  function upload({ connections }: Pick<Started, "connections">, address: string, length: number) {
    let isOver = false;
    const end = (): void => {
      isOver = true;
    };
    const one = connections.admit(address, end) as Admission;
    const headers = { "content-type": "application/json", "content-length": String(length) };
    const request = new Request("http://localhost/", { method: "POST", headers, body: new ReadableStream() });
    one.begin(request);
    void readJson(request, 10_000_000);
    return { received: one.received, isOver: () => isOver };
  }

  /** Sends so many bytes of a body every ten seconds; returns after how long that ends, ms. */
  function trickle({ runtime, connections, advanceTo }: Started, length: number, bytes: number): number {
    const one = upload({ connections }, "203.0.113.7", length);
    const began = runtime.now();
    while (!one.isOver()) {
      one.received(bytes);
      advanceTo(runtime.now() + 10_000);
    }
    return runtime.now() - began;
  }

  test.each([
    ["a body of 64 kB, whatever trickles", 64_000, 1_000, 20_000],
    ["a larger body of less than 1 kB/s", 64_001, 9_999, 30_000],
    ["a larger body of 1 kB/s", 2_000_000, 10_000, 900_000],
  ])("%s, ends in time", async (_what, length, bytes, ms) => {
    expect(trickle(start(), length, bytes)).toBe(ms);
  });

  test("of strangers, a quarter of all left to others, the one that was slow for longest makes room", async () => {
    const runtime = fakeRuntime();
    const isKnown = (source: string) => source === "198.51.100.1";
    const connections = createHttpConnections({ most: 8, trustedProxies: [], runtime, isKnown });
    const cut: string[] = [];
    const admit = (name: string, address = `203.0.113.${name}`) => {
      runtime.advanceTo(runtime.now() + 1);
      return connections.admit(address, () => cut.push(name));
    };
    const sending = upload({ connections }, "203.0.113.100", 1_000_000);
    const working = admit("101");
    working?.begin(new Request("http://localhost/"));
    for (const name of ["1", "2", "3", "4"]) expect(admit(name)).toBeDefined();
    // Other loopback addresses are strangers as any other.
    expect(admit("5", "127.0.0.5")).toBeDefined();
    expect([sending.isOver(), cut]).toEqual([true, []]);
    const uploading = upload({ connections }, "203.0.113.102", 1_000_000);
    expect(cut).toEqual(["1"]);
    admit("2", "198.51.100.1");
    admit("3", "127.0.0.1");
    expect([connections.open(), cut]).toEqual([8, ["1"]]);
    runtime.advanceTo(runtime.now() + 1_000);
    uploading.received(20_000);
    for (const name of ["6", "7", "8"]) admit(name);
    admit("9", "127.0.0.1");
    expect([uploading.isOver(), cut]).toEqual([false, ["1", "2", "3", "4", "5"]]);
  });

  test("a thousand silent strangers keep nobody out", () => {
    const connections = createHttpConnections({ most: 500, trustedProxies: [], runtime: fakeRuntime() });
    for (let i = 0; i < 1_000; i++) connections.admit(`203.0.${i % 250}.1`, () => {});
    for (const address of ["198.51.100.1", "127.0.0.1", "2001:db8::1"]) {
      expect(connections.admit(address, () => {})).toBeDefined();
    }
  });

  test("bytes do not prolong the time for a request's head", async () => {
    const { runtime, connections, advanceTo, open } = start();
    const one = open("GET /api/x HTTP/1.1\r\n");
    await until(() => connections.open() === 1);
    const began = runtime.now();
    for (let i = 1; i < 4; i++) {
      one.socket.write("x: y\r\n");
      advanceTo(began + i * 5_000);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    }
    expect(connections.open()).toBe(1);
    advanceTo(began + 21_000);
    await until(() => one.closed);
  });

  test("setting the clock back gives a client no more time", async () => {
    const { runtime, connections, advanceTo, open } = start();
    open("GET /api/x HTTP/1.1\r\n");
    await until(() => connections.open() === 1);
    runtime.setBy(-86_400_000);
    advanceTo(runtime.now() + 21_000);
    await until(() => connections.open() === 0);
  });

  test("no limit ends a connection during a slow response, during a stream, or when it idles while no other client waits", async () => {
    const { runtime, connections, advanceTo, open, answered, begun } = start();
    open(get("/api/wait"));
    const stream = open(get("/api/live"));
    await until(() => begun.length === 2 && stream.text.includes("data: 1"));
    await answered(open(get("/api/x")));
    advanceTo(runtime.now() + 3_600_000);
    expect(connections.open()).toBe(3);
  });
});

describe("open files", () => {
  test.each(
    [true, false].flatMap((hasImap) =>
      (
        [
          [1_024, true],
          [4_096, true],
          [65_536, true],
          [Number.MAX_SAFE_INTEGER, true],
          [512, false],
          [256, false],
        ] as const
      ).map(([limit, suffices]) => [limit, hasImap, suffices] as const),
    ),
  )("of a limit of %d, with IMAP: %p, the shares fit together: %p", (limit, hasImap, suffices) => {
    const { smtp, http, imap, webhooks, ...shares } = shareDescriptors(limit, { imap: hasImap });
    expect(shares).toEqual({ limit, suffices });
    const listeners = Object.values(smtp);
    const needed =
      128 + 268 + 96 + 2 * webhooks + 2 * (smtp.mx + smtp.submission + smtp.submissions) + 2 * imap + 3 * http;
    if (suffices) expect(needed).toBeLessThanOrEqual(limit);
    expect(Math.min(http, webhooks, ...listeners)).toBeGreaterThanOrEqual(10);
    expect(imap === 0 || imap >= 20).toBe(true);
    expect(imap > 0).toBe(hasImap);
    expect(Math.max(http, imap, ...listeners)).toBeLessThanOrEqual(2_000);
  });

  test("a usual limit allows hundreds of connections, and a large limit thousands", () => {
    expect(shareDescriptors(1_024, { imap: false })).toMatchObject({
      http: 67,
      smtp: { mx: 51, submission: 25, submissions: 25 },
    });
    expect(shareDescriptors(65_536, { imap: true })).toMatchObject({
      http: 2_000,
      imap: 2_000,
      webhooks: 128,
      smtp: { mx: 1_000 },
    });
  });
});
