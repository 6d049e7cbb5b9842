/** HTTP messages over HTTP and HTTPS (rules: HTTP messages): every request is answered, in order, and read in one way. */
import { afterEach, describe, expect, test } from "bun:test";
import { METHODS } from "node:http";
import fc from "fast-check";
import { createRequestShares } from "../../src/api/pools.ts";
import { clientLeavingSignal } from "../../src/api/request.ts";
import { markStreamedResponse } from "../../src/api/unread-answers.ts";
import { createLog } from "../../src/base/log.ts";
import type { HttpServer } from "../../src/http/carrier.ts";
import { createHttpConnections } from "../../src/http/connections.ts";
import { createHttpServer } from "../../src/http/http-server.ts";
import { createHttpsServer } from "../../src/http/https.ts";
import { openRaw, type RawClient } from "../harness/clients/raw-http.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";

const running: HttpServer[] = [];
const clients: RawClient[] = [];
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  for (const server of running.splice(0)) await server.stop(0);
});

const pair = makePair("mx.example.test");

/**
 * Starts a server whose API tells method, path, host and body of a request. /api/slow answers once `release` was called,
 * /api/early before the body, /api/live with a stream of events, /api/wait when its client may have left.
 */
async function start(secure: boolean) {
  const runtime = fakeRuntime();
  const lines: string[] = [];
  const log = createLog("debug", runtime.now, (line) => lines.push(line));
  const connections = createHttpConnections({ most: 1_000, trustedProxies: [], runtime });
  /** Requests that were performed, and how many were under way at once at most. */
  const performed: string[] = [];
  let underWay = 0;
  let mostUnderWay = 0;
  const held = Promise.withResolvers<void>();
  let streamEnded = false;

  async function rest(request: Request): Promise<Response> {
    const { pathname, host } = new URL(request.url);
    mostUnderWay = Math.max(mostUnderWay, ++underWay);
    try {
      if (pathname === "/api/slow") await held.promise;
      if (pathname === "/api/wait") {
        const leaving = clientLeavingSignal(request);
        if (!leaving.aborted) await new Promise((resolve) => leaving.addEventListener("abort", resolve));
      }
      if (pathname === "/api/live") {
        const body = new ReadableStream({
          start: (controller) => controller.enqueue("data: 1\n\n"),
          cancel() {
            streamEnded = true;
          },
        });
        return new Response(body, { headers: { "content-type": "text/event-stream" } });
      }
      if (pathname === "/api/early") return Response.json("early", { status: 413 });
      if (pathname === "/api/stream") {
        const body = new ReadableStream({
          async start(controller) {
            for (const part of ["one", "two", "three"]) {
              controller.enqueue(part);
              await new Promise(setImmediate);
            }
            controller.close();
          },
        });
        return markStreamedResponse(new Response(body));
      }
      if (pathname === "/api/nothing") return new Response(null, { status: 204 });
      const body = await request.text();
      performed.push(`${request.method} ${pathname} ${body}`.trim());
      return Response.json([request.method, pathname, host, body.length > 100 ? body.length : body]);
    } finally {
      underWay--;
    }
  }

  const pools = createRequestShares({ mostConnections: 1_000, runtime });
  const parts = { pools, rest, web: { respond: async () => undefined }, health: {}, runtime, log };
  const listen = { host: "127.0.0.1", port: 0 };
  const certificates = {
    current: () => certificate,
    choose: (_name: string, done: (error: null) => void) => done(null),
    onChange: () => () => {},
    alpn: undefined,
  };
  const certificate = await pair;
  const server = secure
    ? await createHttpsServer({
        listen,
        certificates,
        connections,
        runtime,
        log,
        startInner: (inner) => createHttpServer({ ...parts, ...inner }),
      })
    : createHttpServer({ ...parts, listen, connections });
  running.push(server);
  return {
    server,
    runtime,
    lines,
    connections,
    performed,
    release: held.resolve,
    mostUnderWay: () => mostUnderWay,
    streamEnded: () => streamEnded,
    async open(...written: string[]) {
      const client = await openRaw(server.address.port, { secure });
      clients.push(client);
      for (const text of written) client.write(text);
      return client;
    },
  };
}

const get = (path: string, ...fields: string[]) =>
  `GET ${path} HTTP/1.1\r\nHost: mx\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n`;
const post = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: mx\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (path: string, chunks: string) =>
  `POST ${path} HTTP/1.1\r\nHost: mx\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`;
const ABC = "1\r\na\r\n2;x=y\r\nbc\r\n0\r\n";

describe.each([
  ["HTTP", false],
  ["HTTPS", true],
])("over %s", (_, secure) => {
  describe("a request is answered whatever its client does after its last octet", () => {
    test.each([
      ["without a body", get("/api/slow"), ["GET", "/api/slow", "mx", ""]],
      ["with a body", post("/api/slow", "abc"), ["POST", "/api/slow", "mx", "abc"]],
      ["with a body in chunks", chunked("/api/slow", `${ABC}\r\n`), ["POST", "/api/slow", "mx", "abc"]],
    ])("a client that closes its side is answered: %s", async (_, request, answer) => {
      const { open, release, lines, connections } = await start(secure);
      const client = await open(request);
      client.halfClose();
      // The FIN has arrived once the server has answered another client.
      await (await open(get("/api/x"))).read(1);
      release();
      const [response, ...others] = await client.readAll();
      expect([response?.status, JSON.parse(response?.body ?? ""), others]).toEqual([200, answer, []]);
      await until(() => connections.open() === 1);
      expect(lines.filter((line) => line.includes("refused"))).toEqual([]);
    });

    test("trailers are left out, and the next request on the connection is answered", async () => {
      const { open, performed } = await start(secure);
      const client = await open(chunked("/api/a", `${ABC}Digest: x\r\nOther: y\r\n\r\n`));
      expect(await client.read(1)).toMatchObject([{ status: 200, body: '["POST","/api/a","mx","abc"]' }]);
      client.write(get("/api/b"));
      expect(await client.read(2)).toMatchObject([{ status: 200 }, { status: 200, body: '["GET","/api/b","mx",""]' }]);
      expect(performed).toEqual(["POST /api/a abc", "GET /api/b"]);
    });

    test("a request that waits for news is answered at once when its client closes its side", async () => {
      const { open } = await start(secure);
      const client = await open(get("/api/wait"));
      client.halfClose();
      expect(await client.readAll()).toMatchObject([{ status: 200 }]);
    });

    test("a stream of events ends when its client closes its side", async () => {
      const { open, streamEnded } = await start(secure);
      const client = await open(get("/api/live"));
      await until(() => client.text().includes("data: 1"));
      client.halfClose();
      await client.readAll();
      await until(streamEnded);
    });

    test("100 Continue comes before the body, and the response after it", async () => {
      const { open } = await start(secure);
      const client = await open(
        "POST /api/a HTTP/1.1\r\nHost: mx\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
      );
      expect(await client.read(1)).toMatchObject([{ status: 100 }]);
      client.write(`abc${get("/api/b")}`);
      expect(await client.read(3)).toMatchObject([{ status: 100 }, { body: '["POST","/api/a","mx","abc"]' }, {}]);
    });

    test.each([
      ["a head", "GET /api/a HTTP/1.1\r\nHo"],
      ["a body", post("/api/a", "abc").slice(0, -1)],
      ["chunks", chunked("/api/a", "3\r\nab")],
      ["trailers", chunked("/api/a", `${ABC}Digest`)],
    ])("%s that break off are 400, and not performed", async (_, broken) => {
      const { open, performed } = await start(secure);
      const client = await open(get("/api/b"), broken);
      client.halfClose();
      const [, refusal] = await client.readAll();
      expect([refusal?.status, JSON.parse(refusal?.body ?? "").code]).toEqual([400, "bad_request"]);
      expect(performed).toEqual(["GET /api/b"]);
    });
  });

  describe("pipelined requests", () => {
    const mixed = (i: number): string =>
      [get(`/api/${i}`), post(`/api/${i}`, "abc"), chunked(`/api/${i}`, `${ABC}X: y\r\n\r\n`)][i % 3] ?? "";

    test("sixteen are answered in order, one at a time, though the first is slow and the client closes its side", async () => {
      const { open, release, mostUnderWay, performed } = await start(secure);
      const client = await open(get("/api/slow") + Array.from({ length: 15 }, (_, i) => mixed(i)).join(""));
      client.halfClose();
      await (await open(get("/api/x"))).read(1);
      expect(performed).toEqual(["GET /api/x"]);
      release();
      const paths = (await client.readAll()).map(({ status, body }) => `${status} ${JSON.parse(body)[1]}`);
      expect(paths).toEqual(["200 /api/slow", ...Array.from({ length: 15 }, (_, i) => `200 /api/${i}`)]);
      expect(mostUnderWay()).toBe(2);
    });

    test("a request in chunks and the one after it are answered", async () => {
      const { open, release } = await start(secure);
      const client = await open(chunked("/api/slow", `${ABC}\r\n`) + get("/api/b"));
      await (await open(get("/api/x"))).read(1);
      release();
      expect((await client.read(2)).map(({ status }) => status)).toEqual([200, 200]);
    });

    test("responses of every length end where the next begins", async () => {
      const { open } = await start(secure);
      const client = await open(
        get("/api/stream") + get("/api/nothing") + post("/api/early", "x".repeat(300_000)) + get("/api/last"),
      );
      const got = await client.read(4);
      expect(got.map(({ status, body }) => [status, body])).toEqual([
        [200, "onetwothree"],
        [204, ""],
        [413, '"early"'],
        [200, '["GET","/api/last","mx",""]'],
      ]);
    });

    test("the response to a HEAD has no body, and another follows", async () => {
      const { open } = await start(secure);
      const client = await open(get("/api/a").replace("GET", "HEAD") + get("/api/b"));
      await until(() => client.text().includes('["GET","/api/b"'));
      expect(client.text().match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    });

    test("large bodies are answered in order, read no faster than they are taken", async () => {
      const { open } = await start(secure);
      const client = await open(Array.from({ length: 20 }, (_, i) => post(`/api/${i}`, "x".repeat(200_000))).join(""));
      expect((await client.read(20)).map(({ body }) => JSON.parse(body).slice(1))).toEqual(
        Array.from({ length: 20 }, (_, i) => [`/api/${i}`, "mx", 200_000]),
      );
    });

    test("after one that closes the connection, none is performed", async () => {
      for (const last of [get("/api/a", "Connection: close"), "GET /api/a HTTP/1.0\r\n\r\n"]) {
        const { open, performed } = await start(secure);
        const client = await open(last + get("/api/b"));
        expect(await client.readAll()).toMatchObject([{ status: 200 }]);
        expect(performed).toEqual(["GET /api/a"]);
      }
    });

    test("a client that takes no responses is not read on and on", async () => {
      const { open, performed } = await start(secure);
      const client = await open();
      client.socket.pause();
      for (let i = 0; i < 1_000; i++) client.write(get(`/api/${"x".repeat(15_000)}`));
      const other = await open();
      for (let i = 0, before = -1; before < performed.length; i++) {
        before = performed.length + 100;
        for (let turn = 1; turn <= 100; turn++) {
          other.write(get("/api/other"));
          await other.read(i * 100 + turn);
        }
      }
      // Buffers of both sides take some of the 15 MB.
      expect(performed.filter((one) => one !== "GET /api/other").length).toBeLessThan(700);
      client.socket.resume();
      expect((await client.read(1_000)).map(({ status }) => status)).toEqual(Array(1_000).fill(200));
    }, 20_000);

    test("those that came before a stop are answered", async () => {
      const { server, runtime, open, release, performed } = await start(secure);
      const client = await open(get("/api/slow") + get("/api/a") + get("/api/b"));
      await (await open(get("/api/x"))).read(1);
      expect(performed).toEqual(["GET /api/x"]);
      let stopped = false;
      const stop = server.stop(10_000).then(() => {
        stopped = true;
      });
      release();
      expect((await client.read(3)).map(({ status }) => status)).toEqual([200, 200, 200]);
      while (!stopped) {
        runtime.advanceTo(runtime.now() + 20);
        await new Promise(setImmediate);
      }
      await stop;
    });
  });

  describe("what two programs could read differently is refused, and performed by neither", () => {
    const head = (...fields: string[]) => `POST /api/a HTTP/1.1\r\n${fields.join("\r\n")}\r\n\r\n`;
    const HOST = "Host: mx";
    const CHUNKED = "Transfer-Encoding: chunked";
    const SMUGGLED = get("/api/smuggled");
    const rows: [what: string, status: number, bytes: string][] = [
      ["two hosts", 400, head("Host: a.test", "Host: b.test")],
      ["the same host twice", 400, head(HOST, "host: mx")],
      ["two hosts in one field", 400, head("Host: a.test, b.test")],
      ["two hosts, one of them in the target", 400, "GET http://c.test/api/a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
      ["no host", 400, head("X: y")],
      ["an empty host", 400, head("Host: ")],
      ["a host with a user", 400, head("Host: a@b.test")],
      ["a host with a path", 400, head("Host: a/b")],
      ["a port that is none", 400, head("Host: mx:99999")],
      ["a length and chunks", 400, `${head(HOST, "Content-Length: 4", CHUNKED)}0\r\n\r\n${SMUGGLED}`],
      ["chunks and a length", 400, `${head(HOST, CHUNKED, "Content-Length: 4")}0\r\n\r\n${SMUGGLED}`],
      ["two lengths", 400, `${head(HOST, "Content-Length: 0", "Content-Length: 44")}${SMUGGLED}`],
      ["the same length twice", 400, `${head(HOST, "Content-Length: 0", "Content-Length: 0")}${SMUGGLED}`],
      ["a list of lengths", 400, `${head(HOST, "Content-Length: 0, 0")}${SMUGGLED}`],
      ...["+3", "-3", "0x3", "3.0", "3 3", "", "1e1", "9".repeat(23)].map((length): [string, number, string] => [
        `a length of "${length}"`,
        400,
        `${head(HOST, `Content-Length: ${length}`)}abc`,
      ]),
      ["a coding that is not known", 501, `${head(HOST, "Transfer-Encoding: gzip, chunked")}0\r\n\r\n`],
      ["codings that do not end in chunked", 400, `${head(HOST, "Transfer-Encoding: chunked, gzip")}0\r\n\r\n`],
      ["a coding like chunked", 400, `${head(HOST, "Transfer-Encoding: xchunked")}0\r\n\r\n${SMUGGLED}`],
      ["chunked twice", 400, `${head(HOST, CHUNKED, CHUNKED)}0\r\n\r\n${SMUGGLED}`],
      ["identity", 400, `${head(HOST, "Transfer-Encoding: identity")}${SMUGGLED}`],
      ["no coding", 400, `${head(HOST, "Transfer-Encoding: ")}${SMUGGLED}`],
      ["chunks of HTTP/1.0", 400, `${head(HOST, CHUNKED).replace("1.1", "1.0")}0\r\n\r\n${SMUGGLED}`],
      ["a space before the colon", 400, `${head(HOST, "Content-Length : 44")}${SMUGGLED}`],
      ["a tab before the colon", 400, `${head(HOST, "Transfer-Encoding\t: chunked")}0\r\n\r\n${SMUGGLED}`],
      ["a folded line", 400, `${head(HOST, "X: y", " Content-Length: 44")}${SMUGGLED}`],
      ["a folded coding", 400, `${head(HOST, "Transfer-Encoding:", " chunked")}0\r\n\r\n${SMUGGLED}`],
      ["a space before the first field", 400, head(" Host: mx")],
      ["a bare CR", 400, `${head(HOST, "X: y\rContent-Length: 44")}${SMUGGLED}`],
      ["a bare LF", 400, `${head(HOST, "X: y\nContent-Length: 44")}${SMUGGLED}`],
      ["lines that end in LF", 400, "GET /api/a HTTP/1.1\nHost: mx\n\n"],
      ["an empty line of LF", 400, `POST /api/a HTTP/1.1\r\nHost: mx\r\n\n${SMUGGLED}`],
      ["a NUL", 400, head(HOST, "X: a\0b")],
      ["a field without a colon", 400, head(HOST, "X")],
      ["a field without a name", 400, head(HOST, ": x")],
      ["a name that is no token", 400, head(HOST, "X(y): z")],
      ["a space in the target", 400, "GET /api/a b HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["two spaces", 400, "GET  /api/a HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["a target that is no path", 400, "GET api/a HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["a target of another scheme", 400, "GET ftp://mx/api/a HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["OPTIONS *", 400, "OPTIONS * HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["lower-case http", 400, "GET /api/a http/1.1\r\nHost: mx\r\n\r\n"],
      ["HTTP/1.2", 505, "GET /api/a HTTP/1.2\r\nHost: mx\r\n\r\n"],
      ["HTTP/2 without TLS", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
      ["a method in lower case", 501, "get /api/a HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["a method that nobody knows", 501, "FOO /api/a HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["CONNECT", 501, "CONNECT mx:443 HTTP/1.1\r\nHost: mx\r\n\r\n"],
      ["TLS where there is none", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
      ["a long field", 431, head(HOST, `X: ${"x".repeat(16_000)}`)],
      ["a head without end", 431, `GET /api/a HTTP/1.1\r\nX: ${"x".repeat(20_000)}`],
      ["many fields", 431, head(HOST, ...Array.from({ length: 150 }, (_, i) => `x${i}:`))],
      ...["3x", "0x3", "3 ", " 3", "", "-3", "+3", "ffffffffffffffff3"].map((size): [string, number, string] => [
        `a chunk's size of "${size}"`,
        400,
        `${head(HOST, CHUNKED)}${size}\r\nabc\r\n0\r\n\r\n`,
      ]),
      ["a chunk's size that ends in LF", 400, `${head(HOST, CHUNKED)}3\nabc\r\n0\r\n\r\n`],
      ["a chunk's extension with LF", 400, `${head(HOST, CHUNKED)}3;x\nyz\r\nabc\r\n0\r\n\r\n`],
      ["a chunk's long extension", 400, `${head(HOST, CHUNKED)}3;${"x".repeat(1_100)}\r\nabc\r\n0\r\n\r\n`],
      ["a chunk longer than its size", 400, `${head(HOST, CHUNKED)}2\r\nabc\r\n0\r\n\r\n`],
      ["a chunk that ends in LF", 400, `${head(HOST, CHUNKED)}3\r\nabc\n0\r\n\r\n`],
      ["a trailer that ends in LF", 400, `${head(HOST, CHUNKED)}0\r\nX: y\n\r\n`],
      ["long trailers", 431, `${head(HOST, CHUNKED)}0\r\nX: ${"y".repeat(20_000)}\r\n\r\n`],
    ];

    test("each has its status, the two fields of an error, and an id that the log has", async () => {
      const { open, performed, lines } = await start(secure);
      for (const [what, status, bytes] of rows) {
        const client = await open(get("/api/before") + bytes);
        const [before, refusal, ...others] = await client.readAll();
        const trace = refusal?.headers.get("x-request-id") ?? "none";
        expect([what, before?.status, refusal?.status, others]).toEqual([what, 200, status, []]);
        expect([what, JSON.parse(refusal?.body ?? "")]).toEqual([
          what,
          { error: expect.stringMatching(/./), code: "bad_request" },
        ]);
        expect(refusal?.headers.get("connection")).toBe("close");
        expect(lines.some((line) => line.includes(trace))).toBe(true);
      }
      expect(new Set(performed)).toEqual(new Set(["GET /api/before"]));
    }, 20_000);

    test("a refusal of a HEAD has no body", async () => {
      const { open } = await start(secure);
      const client = await open("HEAD /api/a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
      await client.readAll();
      expect(client.text()).toStartWith("HTTP/1.1 400 ");
      expect(client.text()).toEndWith("\r\n\r\n");
    });
  });

  test("what has one meaning is taken", async () => {
    const { open } = await start(secure);
    const rows: [bytes: string, answer: unknown[]][] = [
      [`\r\n\r\n${get("/api/a")}`, ["GET", "/api/a", "mx", ""]],
      ["GET http://other.test:81/api/a HTTP/1.1\r\nHost: mx\r\n\r\n", ["GET", "/api/a", "other.test:81", ""]],
      ["GET HTTP://other.test/api/a HTTP/1.1\r\nX: y\r\nhost:mx\r\nY: z\r\n\r\n", ["GET", "/api/a", "other.test", ""]],
      ["GET /api/a HTTP/1.1\r\nHost: [::1]:8025\r\n\r\n", ["GET", "/api/a", "[::1]:8025", ""]],
      [get("/api/%C3%A9\xc3\xa9?x"), ["GET", "/api/%C3%A9%C3%A9", "mx", ""]],
      [get("/api/a", "X: \xe9\t", "Y:"), ["GET", "/api/a", "mx", ""]],
      [chunked("/api/a", "00003\r\nabc\r\n0\r\n\r\n"), ["POST", "/api/a", "mx", "abc"]],
      [chunked("/api/a", `${ABC}\r\n`).replace("chunked", "Chunked"), ["POST", "/api/a", "mx", "abc"]],
      ["POST /api/a HTTP/1.1\r\nHost: mx\r\nContent-Length:\t3 \r\n\r\nabc", ["POST", "/api/a", "mx", "abc"]],
      [get("/api/a", "Upgrade: h2c", "Connection: upgrade"), ["GET", "/api/a", "mx", ""]],
    ];
    const client = await open();
    for (const [i, [bytes, answer]] of rows.entries()) {
      client.write(bytes);
      const response = (await client.read(i + 1))[i];
      expect([bytes, response?.status, JSON.parse(response?.body ?? "null")]).toEqual([bytes, 200, answer]);
    }
    const old = await open("GET /api/a HTTP/1.0\r\n\r\n");
    expect(await old.readAll()).toMatchObject([{ status: 200, body: '["GET","/api/a","localhost",""]' }]);
  });

  test("every method that Bun knows gets an answer", async () => {
    const { open } = await start(secure);
    for (const method of METHODS) {
      const client = await open(`${method} /api/a HTTP/1.1\r\nHost: mx\r\nConnection: close\r\n\r\n`);
      await client.readAll();
      expect([method, client.text().slice(0, 12)]).toEqual([method, `HTTP/1.1 ${method === "CONNECT" ? 501 : 200}`]);
    }
  });

  test("wherever a stream of requests is cut, the answers are the same", async () => {
    const { open, performed } = await start(secure);
    const stream =
      `\r\n${get("/api/a")}${post("/api/b", "GET / HTTP/1.1\r\n\r\n")}${chunked("/api/c", `${ABC}T: u\r\n\r\n`)}\r\n` +
      `GET http://other/api/d HTTP/1.1\r\nHost: mx\r\n\r\n${get("/api/nothing")}${chunked("/api/e", "0\r\n\r\n")}` +
      `${get("/api/f", "Connection: close")}`;
    const ask = async (cuts: number[]): Promise<[number, string][]> => {
      const client = await open();
      let from = 0;
      for (const cut of [...new Set(cuts), stream.length].sort((a, b) => a - b)) {
        client.write(stream.slice(from, cut));
        from = cut;
        await new Promise(setImmediate);
      }
      return (await client.readAll()).map(({ status, body }) => [status, body]);
    };
    const whole = await ask([]);
    expect(whole.map(([status]) => status)).toEqual([200, 200, 200, 200, 204, 200, 200]);
    const once = performed.splice(0);
    expect(await ask(Array.from(stream, (_, i) => i))).toEqual(whole);
    expect(performed.splice(0)).toEqual(once);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(stream.length - 1), { maxLength: 12 }), async (cuts) => {
        expect(await ask(cuts)).toEqual(whole);
        expect(performed.splice(0)).toEqual(once);
      }),
      { numRuns: 40 },
    );
  }, 30_000);
});

test("the appliance answers so at every face: REST, MCP, app, OAuth and the redirect", async () => {
  const { ready, owner } = await boot({
    MAILROOM_HTTPS: "127.0.0.1:0",
    MAILROOM_BASE_URL: "https://mail.example.test",
  });
  const portOf = (address = "") => Number(address.split(":").at(-1));
  const host = `Host: 127.0.0.1\r\nAuthorization: Bearer ${owner.apiKey}`;
  const json = "Content-Type: application/json\r\nAccept: application/json, text/event-stream";
  const inChunks = (path: string, body: string) =>
    `POST ${path} HTTP/1.1\r\n${host}\r\n${json}\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n` +
    `${body.length.toString(16)}\r\n${body}\r\n0\r\nDigest: x\r\n\r\n`;
  const draft = { from: "alice@example.test", to: "bob@example.net", subject: "Trailers", text: "Hello" };
  const asked = [
    inChunks("/api/v1/send", JSON.stringify(draft)),
    `GET /api/v1/mailboxes HTTP/1.1\r\n${host}\r\n\r\n`,
    inChunks("/api/mcp", JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" })),
    `GET /api/admin/v1/domains HTTP/1.1\r\n${host}\r\n\r\n`,
    `GET /app/threads HTTP/1.1\r\n${host}\r\n\r\n`,
    `GET /.well-known/oauth-authorization-server HTTP/1.1\r\n${host}\r\n\r\n`,
    inChunks("/oauth/token", "{}"),
    `DELETE /api/v1/mailboxes HTTP/1.1\r\n${host}\r\n\r\n`,
    `GET /mail/inbox HTTP/1.1\r\n${host}\r\n\r\n`,
  ];
  const client = await openRaw(portOf(ready.https), { secure: true });
  clients.push(client);
  client.write(asked.join(""));
  client.halfClose();
  const answers = await client.readAll();
  expect(answers.map(({ status }) => status)).toEqual([202, 200, 200, 200, 401, 200, 400, 405, 200]);
  expect(answers[1]?.body).toContain("alice@example.test");
  expect(answers[2]?.body).toContain("send_email");
  expect(answers.map(({ headers }) => headers.has("x-request-id"))).not.toContain(false);

  const plain = await openRaw(portOf(ready.http));
  clients.push(plain);
  plain.write(asked.slice(0, 3).join(""));
  plain.halfClose();
  expect((await plain.readAll()).map(({ status, headers }) => [status, headers.get("location")])).toEqual([
    [308, "https://mail.example.test/api/v1/send"],
    [308, "https://mail.example.test/api/v1/mailboxes"],
    [308, "https://mail.example.test/api/mcp"],
  ]);
  for (const [port, secure] of [
    [portOf(ready.http), false],
    [portOf(ready.https), true],
  ] as const) {
    const odd = await openRaw(port, { secure });
    clients.push(odd);
    odd.write(`GET /api/v1/mailboxes HTTP/1.1\r\n${host}\r\nHost: localhost\r\n\r\n`);
    expect(await odd.readAll()).toMatchObject([{ status: 400, body: expect.stringContaining('"bad_request"') }]);
  }
}, 20_000);
