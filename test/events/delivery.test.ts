import { afterAll, describe, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { createLog } from "../../src/base/log.ts";
import { type AttemptOutcome, attemptWebhookDelivery } from "../../src/events/delivery.ts";
import type { Loaded } from "../../src/events/delivery-queue.ts";
import { type HttpClientParts, openHttpClient } from "../../src/net/http-client.ts";
import { type KeyPair, openCertificates } from "../../src/tls/certificates.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { type Answer, receive, receiveOnBoth, writeForever } from "../harness/peers/raw-receiver.ts";
import { type FakeRuntime, fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

const SECRET = `whsec_${"A".repeat(43)}=`;
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const ok: Answer = (socket) => void socket.write(OK);

/** Starts a server that is closed after the last test. Resolves with its port. */
async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => server.close());
  return (server.address() as { port: number }).port;
}

/** A server that replies to the first bytes of a request, and reads no more. */
async function answerEarly(tls?: KeyPair) {
  const connections = { made: 0, open: 0 };
  const serve = (socket: Socket) => {
    connections.made++;
    connections.open++;
    closers.push(() => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () => connections.open--);
    socket.once("data", () => {
      socket.pause();
      socket.write("HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n");
    });
  };
  return { port: await listen(tls ? createTlsServer(tls, serve) : createServer(serve)), connections };
}

interface Post {
  body?: string;
  timeoutMs?: number;
  /** Number of the attempt, from 1. */
  attempt?: number;
  eventId?: string;
}

/** A delivery of that body to that URL. */
const deliveryTo = (url: string, { body = "{}", attempt: number = 1, eventId = "evt_1" }: Post): Loaded =>
  ({
    delivery: { eventId, event: "message.inbound", attempts: number - 1 },
    endpoint: { url, secret: SECRET, previousSecret: null, previousUntil: null },
    body,
  }) as Loaded;

function setUp(records: Zone = {}, parts: Partial<HttpClientParts> & { runtime?: FakeRuntime } = {}) {
  const runtime = parts.runtime ?? fakeRuntime({ dns: zone(records) });
  const http = openHttpClient({ allow: () => ["127.0.0.0/8", "::1/128"], mostIdle: 256, ...parts, runtime });
  closers.push(http.close);
  const post = (url: string, given: Post = {}) =>
    attemptWebhookDelivery({ http, runtime }, deliveryTo(url, given), given.timeoutMs ?? 10_000);
  return { runtime, http, post };
}

/** The outcome of one request to a server with this response. */
async function outcomeOf(answer: Answer): Promise<AttemptOutcome> {
  const { port } = await receive(answer);
  return setUp().post(`http://127.0.0.1:${port}/`);
}

describe("the request as sent", () => {
  test("carries the body and headers given, for the name, to the address", async () => {
    const receiver = await receive(ok);
    const { post } = setUp({ "hook.example": { a: ["127.0.0.1"] } });
    const body = '{"subject":"Größe 🎈"}';
    expect(await post(`http://hook.example:${receiver.port}/in?a=b%20c#d`, { body })).toEqual({
      ok: true,
      status: 200,
      response: "ok",
      ms: 0,
    });
    const [head = "", sent] = (receiver.requests[0] ?? "").split("\r\n\r\n");
    expect(head.split("\r\n")[0]).toBe("POST /in?a=b%20c HTTP/1.1");
    const fields = head.toLowerCase().split("\r\n").slice(1).sort();
    expect(fields.filter((field) => !/^(webhook|x-service)-/.test(field))).toEqual([
      "accept-encoding: identity",
      "accept: */*",
      "connection: keep-alive",
      `content-length: ${Buffer.byteLength(body)}`,
      "content-type: application/json",
      `host: hook.example:${receiver.port}`,
      "user-agent: mailroom",
    ]);
    expect(Buffer.from(sent ?? "", "latin1").toString()).toBe(body);
  });

  test("goes over IPv6 as well", async () => {
    const receiver = await receive(ok, { host: "::1" });
    const { post } = setUp({ "hook.example": { aaaa: ["::1"] } });
    expect(await post(`http://hook.example:${receiver.port}/`)).toMatchObject({ ok: true });
    expect(await post(`http://[::1]:${receiver.port}/`)).toMatchObject({ ok: true });
    expect(receiver.requests.map((request) => /host: (.*)\r/i.exec(request)?.[1])).toEqual([
      `hook.example:${receiver.port}`,
      `[::1]:${receiver.port}`,
    ]);
  });
});

describe("a request", () => {
  test("arrives whole, however large it is", async () => {
    const receiver = await receive(ok);
    const body = "0123456789".repeat(300_000);
    expect(await setUp().post(`http://127.0.0.1:${receiver.port}/`, { body })).toMatchObject({ ok: true });
    expect(receiver.requests[0]?.endsWith(`\r\n\r\n${body}`)).toBeTrue();
  });

  test("arrives unchanged among many concurrent requests that the receiver reads slowly", async () => {
    const heard: string[] = [];
    const waiting = new Set<Socket>();
    const server = createServer((socket) => {
      let text = "";
      waiting.add(socket.pause());
      socket.on("error", () => {});
      socket.on("data", (data) => {
        text += data.toString("latin1");
        const [head = "", body = ""] = text.split("\r\n\r\n");
        if (body.length < Number(/content-length: (\d+)/i.exec(head)?.[1])) return;
        heard.push(`${/x-service-delivery: (\d+)/i.exec(head)?.[1]}: ${body}`);
        text = "";
        socket.write(OK);
      });
    });
    const port = await listen(server);
    const { post } = setUp();
    const url = `http://127.0.0.1:${port}/`;
    const bodyOf = (n: number) => String(n).repeat(1 + ((n * 7919) % 4_000));
    const postAll = (from: number) =>
      Array.from({ length: 40 }, (_, i) => post(url, { eventId: String(from + i), body: bodyOf(from + i) }));
    const first = postAll(1_000);
    await until(() => waiting.size === 40);
    for (const socket of waiting) socket.resume();
    await Promise.all(first);
    // Sent over open connections that the receiver does not read.
    for (const socket of waiting) socket.pause();
    const second = postAll(2_000);
    await new Promise(setImmediate);
    for (const socket of waiting) socket.resume();
    for (const outcome of await Promise.all(second)) expect(outcome).toMatchObject({ ok: true });
    expect(waiting.size).toBe(40);
    const sent = [1_000, 2_000].flatMap((from) => Array.from({ length: 40 }, (_, i) => from + i));
    expect(heard.sort()).toEqual(sent.map((n) => `${n}: ${bodyOf(n)}`));
    for (const socket of waiting) socket.destroy();
  });

  test("may get its response before it is sent whole; its connection is then not reused", async () => {
    const { port, connections } = await answerEarly();
    const { post } = setUp();
    const body = "x".repeat(30_000_000);
    for (const made of [1, 2]) {
      expect(await post(`http://127.0.0.1:${port}/`, { body })).toMatchObject({ status: 413, error: "answered 413" });
      expect(connections.made).toBe(made);
    }
  });
});

describe("a response", () => {
  const cases: [name: string, answer: string, outcome: Partial<AttemptOutcome>][] = [
    ["of 204", "HTTP/1.1 204 No Content\r\n\r\n", { ok: true, status: 204, response: "" }],
    ["of 299", "HTTP/1.1 299 Fine\r\nContent-Length: 0\r\n\r\n", { ok: true, status: 299 }],
    [
      "in chunks",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
      { ok: true, response: "ok" },
    ],
    ["after 100", `HTTP/1.1 100 Continue\r\n\r\n${OK}`, { ok: true, status: 200 }],
    [
      "of 500",
      "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno",
      { status: 500, response: "no", error: "answered 500" },
    ],
    ["of 404", "HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n", { status: 404, error: "answered 404" }],
    ["of 410", "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", { status: 410, error: "answered 410" }],
    [
      "of 304",
      "HTTP/1.1 304 Not Modified\r\n\r\n",
      { status: 304, error: "answered 304, and redirects are not followed" },
    ],
    ["of status 099", "HTTP/1.1 099 Early\r\nContent-Length: 0\r\n\r\n", { status: 99, error: "answered 99" }],
    [
      "that switches protocols",
      "HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
      NOT_HTTP("UnrequestedUpgrade"),
    ],
    ["of another protocol", "220 mail.example ESMTP\r\n", NOT_HTTP("Malformed_HTTP_Response")],
    [
      "with two lengths",
      "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 2\r\n\r\nok",
      NOT_HTTP("InvalidContentLength"),
    ],
    ["with a long header", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\nContent-Length: 0\r\n\r\n`, { ok: true }],
    [
      "with a chunk that has no size",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok",
      { status: 200, ...NOT_HTTP("InvalidHTTPResponse") },
    ],
  ];
  for (const [name, answer, outcome] of cases) {
    test(name, async () => {
      const found = await outcomeOf((socket) => void socket.write(answer));
      expect(found).toMatchObject(outcome);
      expect(found.ok).toBe(outcome.ok ?? false);
      expect(found).not.toHaveProperty("refused");
    });
  }

  function NOT_HTTP(code: string): Partial<AttemptOutcome> {
    return { error: `the answer is not valid HTTP (${code})` };
  }

  test("whose header never ends is cut off", async () => {
    const outcome = await outcomeOf((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nX: ");
      writeForever(socket, "x".repeat(65_536));
    });
    expect(outcome).toEqual({ ok: false, error: "the answer is not valid HTTP (ResponseHeadersTooLarge)", ms: 0 });
  });

  test("that redirects is not followed", async () => {
    const elsewhere = await receive(ok);
    for (const status of [301, 302, 303, 307, 308]) {
      const location = `Location: http://127.0.0.1:${elsewhere.port}/`;
      const outcome = await outcomeOf(
        (socket) => void socket.write(`HTTP/1.1 ${status} X\r\n${location}\r\nContent-Length: 0\r\n\r\n`),
      );
      expect(outcome).toMatchObject({ ok: false, status, error: `answered ${status}, and redirects are not followed` });
    }
    expect(elsewhere.connections.made).toBe(0);
  });

  test("that breaks off counts as no response", async () => {
    const closed = "the connection was closed before the answer was complete";
    expect(await outcomeOf((socket) => void socket.end())).toEqual({ ok: false, error: closed, ms: 0 });
    expect(await outcomeOf((socket) => void socket.resetAndDestroy())).toEqual({ ok: false, error: closed, ms: 0 });
    for (const head of ["Content-Length: 20", "Transfer-Encoding: chunked"]) {
      const begin = `HTTP/1.1 200 OK\r\n${head}\r\n\r\n2\r\nok\r\n`;
      expect(await outcomeOf((socket) => void socket.write(begin, () => socket.end()))).toMatchObject({
        ok: false,
        status: 200,
        error: closed,
      });
    }
  });

  test("is missing from a closed port: connection refused", async () => {
    const { port, close } = await receive(ok);
    await close();
    expect(await setUp().post(`http://127.0.0.1:${port}/`)).toEqual({ ok: false, error: "connection refused", ms: 0 });
  });
});

describe("the response's body", () => {
  const bodyOf = (body: Uint8Array, head = `Content-Length: ${body.length}\r\n`) =>
    outcomeOf((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n`);
      socket.end(body);
    });

  test("is kept up to 4 KiB, without a character that the cut breaks", async () => {
    for (const size of [0, 1, 4095, 4096, 4097, 8192, 1_000_000]) {
      const body = Buffer.alloc(size, "x");
      for (const head of [undefined, ""]) {
        const outcome = await bodyOf(body, head);
        expect(outcome).toEqual({ ok: true, status: 200, response: "x".repeat(Math.min(size, 4096)), ms: 0 });
      }
    }
    expect((await bodyOf(Buffer.from(`${"x".repeat(4095)}é`))).response).toBe("x".repeat(4095));
  });

  test("may be something other than text", async () => {
    const outcome = await bodyOf(Buffer.from([0x61, 0xff, 0x00, 0x1b, 0x5b, 0x09, 0x0d, 0x0a, 0xc2, 0x9b, 0x62]));
    expect(outcome.response).toBe("a\ufffd\ufffd\ufffd[\t\r\n\ufffdb");
  });

  for (const head of ["", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n"]) {
    test(`is cut off when it never ends: ${JSON.stringify(head)}`, async () => {
      const receiver = await receive((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n`);
        writeForever(socket, head === "" ? "x".repeat(4096) : `1000\r\n${"x".repeat(4096)}\r\n`);
      });
      const outcome = await setUp().post(`http://127.0.0.1:${receiver.port}/`);
      expect(outcome).toMatchObject({ ok: true, response: "x".repeat(4096) });
      await receiver.deserted();
    });
  }

  test("stays compressed when the receiver compresses it unasked", async () => {
    for (const size of [1_000_000, 100_000_000]) {
      const bomb = Bun.gzipSync(Buffer.alloc(size, "x"));
      const outcome = await bodyOf(bomb, `Content-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n`);
      expect(outcome).toMatchObject({ ok: true, status: 200 });
      expect(outcome.response).not.toContain("xxx");
      expect(outcome.response?.length).toBeLessThanOrEqual(4096);
    }
  });
});

describe("the time limit", () => {
  const HEAD = "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n";
  const begun: Record<string, Answer> = {
    "there is no answer": () => {},
    "headers do not end": (socket) => void socket.write(HEAD),
    "headers trickle": (socket) => {
      socket.write(`${HEAD}X: `);
      writeForever(socket, "x");
    },
    "interim answers do not end": (socket) => writeForever(socket, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
    "the body does not end": (socket) => void socket.write(`${HEAD}\r\nx`),
    "the body does not end, nor says where": (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\nx"),
  };
  for (const [name, answer] of Object.entries(begun)) {
    test(`ends the request when ${name}`, async () => {
      const receiver = await receive(answer);
      const { post, runtime } = setUp();
      const outcome = post(`http://127.0.0.1:${receiver.port}/`);
      await receiver.arrived(1);
      runtime.advanceTo(runtime.now() + 9_999);
      expect(await Promise.race([outcome, new Promise((resolve) => setImmediate(resolve, "waiting"))])).toBe("waiting");
      runtime.advanceTo(runtime.now() + 1);
      expect(await outcome).toMatchObject({ ok: false, error: "no complete answer within 10 seconds", ms: 10_000 });
      await receiver.deserted();
    });
  }

  test("ends the request while it connects", async () => {
    const receiver = await receive((socket) => socket.end(OK.replace("\r\n", "\r\nConnection: close\r\n")));
    const { post, runtime } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    // Once the address is known, the client begins a connection in the same turn.
    expect(await post(url)).toMatchObject({ ok: true });
    const outcome = post(url);
    runtime.advanceTo(runtime.now() + 10_000);
    expect(await outcome).toEqual({ ok: false, error: "no complete answer within 10 seconds", ms: 10_000 });
    await receiver.deserted();
    expect(await post(url)).toMatchObject({ ok: true });
    expect(receiver.requests).toHaveLength(2);
  });

  test("ends the request when TLS does not begin", async () => {
    const begun = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("close", () => gone.resolve());
      socket.on("data", () => begun.resolve());
    });
    const port = await listen(server);
    const { post, runtime } = setUp();
    const outcome = post(`https://127.0.0.1:${port}/`);
    await begun.promise;
    runtime.advanceTo(runtime.now() + 10_000);
    expect(await outcome).toEqual({ ok: false, error: "no complete answer within 10 seconds", ms: 10_000 });
    await gone.promise;
  });

  test("runs for each request separately", async () => {
    const receiver = await receive(() => {});
    const { post, runtime } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    const ended: number[] = [];
    const begin = (timeoutMs: number) => post(url, { timeoutMs }).then(({ ms }) => ended.push(ms));
    const first = begin(10_000);
    runtime.advanceTo(runtime.now() + 3_000);
    const second = begin(10_000);
    const third = begin(2_000);
    await receiver.arrived(3);
    runtime.advanceTo(runtime.now() + 2_000);
    await third;
    runtime.advanceTo(runtime.now() + 5_000);
    await first;
    expect(ended).toEqual([2_000, 10_000]);
    runtime.advanceTo(runtime.now() + 3_000);
    await second;
    expect(ended).toEqual([2_000, 10_000, 10_000]);
  });

  test("covers DNS, after which the client connects to nothing", async () => {
    const receiver = await receive(ok);
    const late = Promise.withResolvers<void>();
    const dns = zone({ "hook.example": { a: ["127.0.0.1"] } }, { hold: () => late.promise });
    const runtime = fakeRuntime({ dns });
    const { post } = setUp({}, { runtime });
    const outcome = post(`http://hook.example:${receiver.port}/`, { timeoutMs: 2_500 });
    runtime.advanceTo(runtime.now() + 2_500);
    expect(await outcome).toEqual({ ok: false, error: "no complete answer within 2.5 seconds", ms: 2_500 });
    late.resolve();
    expect((await dns.ask("hook.example", "A")).records).toEqual(["127.0.0.1"]);
    expect(receiver.connections.made).toBe(0);
  });

  test("holds for each of several requests that began together", async () => {
    const receiver = await receive((socket, nth) => {
      if (receiver.requests.at(-1)?.endsWith("quick")) ok(socket, nth);
    });
    const { post, runtime } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    const together = [post(url, { body: "quick" }), post(url)];
    expect(await Promise.race(together)).toMatchObject({ ok: true });
    const later = post(url);
    await receiver.arrived(3);
    runtime.advanceTo(runtime.now() + 9_999);
    const outcomes = Promise.all([...together, later]);
    expect(await Promise.race([outcomes, new Promise((resolve) => setImmediate(resolve, "waiting"))])).toBe("waiting");
    runtime.advanceTo(runtime.now() + 1);
    expect((await outcomes).map(({ ok, ms }) => [ok, ms]).sort()).toEqual([
      [false, 10_000],
      [false, 10_000],
      [true, 0],
    ]);
    // Again in the same millisecond, after all of them have ended.
    const [last, alike] = [post(url), post(url, { timeoutMs: 10_001 })];
    await receiver.arrived(5);
    runtime.advanceTo(runtime.now() + 10_000);
    expect(await last).toMatchObject({ ok: false, ms: 10_000 });
    runtime.advanceTo(runtime.now() + 1);
    expect(await alike).toMatchObject({ ok: false, ms: 10_001 });
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test("leaves no timer behind", async () => {
    const { port } = await receive((socket) => socket.end(OK.replace("\r\n", "\r\nConnection: close\r\n")));
    const { post, runtime } = setUp();
    await post(`http://127.0.0.1:${port}/`);
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test("is cut short by a stop, which ends requests at once", async () => {
    const receiver = await receive(() => {});
    const { post, http } = setUp();
    const outcome = post(`http://127.0.0.1:${receiver.port}/`);
    await receiver.arrived(1);
    http.close();
    expect(await outcome).toMatchObject({ ok: false, error: "this server is stopping" });
    await receiver.deserted();
    const next = await post(`http://127.0.0.1:${receiver.port}/`);
    expect(next).toEqual({ ok: false, error: "this server is stopping", ms: 0 });
    expect(receiver.connections.made).toBe(1);
  });

  test("does not delay the closing of idle connections at a stop", async () => {
    const receiver = await receive(ok);
    const { post, http } = setUp();
    await post(`http://127.0.0.1:${receiver.port}/`);
    expect(receiver.connections.open).toBe(1);
    http.close();
    await receiver.deserted();
  });
});

describe("the destination", () => {
  test("is refused without a connection", async () => {
    const receiver = await receive(ok);
    const { post } = setUp({ "hook.example": { a: ["127.0.0.1"] } }, { allow: () => [] });
    for (const host of ["127.0.0.1", "0x7f.1", "localhost", "hook.example", "[::ffff:127.0.0.1]"]) {
      const outcome = await post(`http://${host}:${receiver.port}/`);
      expect(outcome).toMatchObject({ ok: false, refused: true });
      expect(outcome.error).toEndWith(
        "only public addresses are connected to (webhooks.allowNetworks lists exceptions)",
      );
      expect(outcome).not.toHaveProperty("status");
    }
    expect(receiver.connections.made).toBe(0);
  });

  test("that DNS does not know fails, and does not count as refused", async () => {
    expect(await setUp().post("http://missing.example/")).toEqual({
      ok: false,
      error: "missing.example has no address",
      ms: 0,
    });
  });

  test("follows the setting from one attempt to the next", async () => {
    const receiver = await receive(ok);
    let allow: string[] = [];
    const { post } = setUp({}, { allow: () => allow });
    const url = `http://127.0.0.1:${receiver.port}/`;
    expect(await post(url)).toMatchObject({ refused: true });
    allow = ["127.0.0.1/32"];
    expect(await post(url)).toMatchObject({ ok: true });
    allow = ["10.0.0.0/8"];
    expect(await post(url)).toMatchObject({ refused: true });
    expect(receiver.requests).toHaveLength(1);
  });

  /** 127.0.0.2 stands for a public address: it is excepted, and 127.0.0.1 is not. */
  const PUBLIC = "127.0.0.2";
  const onlyPublic = { allow: () => [`${PUBLIC}/32`] };

  async function attackersView() {
    const [receiver, victim] = await receiveOnBoth([ok, PUBLIC], [ok, "127.0.0.1"]);
    return { receiver, victim, url: `http://rebind.example:${receiver.port}/` };
  }

  test("is looked up once for each attempt, and the client connects to the address that was checked", async () => {
    const { receiver, victim, url } = await attackersView();
    const answers = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]];
    const dns = zone({
      "rebind.example": {
        get a() {
          return answers.shift() ?? [];
        },
      },
    });
    const asked = () => dns.questions.filter((question) => question.startsWith("a ")).length;
    const runtime = fakeRuntime({ dns });
    const { post } = setUp({}, { runtime, ...onlyPublic });
    expect(await post(url)).toMatchObject({ ok: true });
    expect(asked()).toBe(1);
    expect(receiver.requests).toHaveLength(1);
    // The name leads inside now: the kept connection may not be used for it.
    expect(await post(url, { attempt: 2 })).toMatchObject({ ok: false, refused: true });
    expect(asked()).toBe(2);
    expect(receiver.requests).toHaveLength(1);
    expect(victim.connections.made).toBe(0);
  });

  test("is refused when only one of several addresses is inside", async () => {
    const { receiver, victim, url } = await attackersView();
    const { post } = setUp({ "rebind.example": { a: [PUBLIC, "127.0.0.1"] } }, onlyPublic);
    expect(await post(url)).toMatchObject({ ok: false, refused: true });
    expect(receiver.connections.made + victim.connections.made).toBe(0);
  });

  test("keeps its own port and host when the response names others", async () => {
    const { receiver, victim, url } = await attackersView();
    const hints = `Alt-Svc: h2="127.0.0.1:${victim.port}"; ma=9999\r\nRefresh: 0; url=http://127.0.0.1:${victim.port}/\r\n`;
    const other = await receive((socket) => void socket.write(`HTTP/1.1 200 OK\r\n${hints}Content-Length: 0\r\n\r\n`), {
      host: PUBLIC,
    });
    const { post } = setUp({ "rebind.example": { a: [PUBLIC] } }, onlyPublic);
    const own = url.replace(`${receiver.port}`, `${other.port}`);
    expect([(await post(own)).ok, (await post(own)).ok]).toEqual([true, true]);
    expect(victim.connections.made).toBe(0);
  });
});

describe("connections", () => {
  test("are reused for the same destination only", async () => {
    const [receiver, other] = await receiveOnBoth([ok, "127.0.0.1"], [ok, "127.0.0.3"]);
    const records: Zone = { "hook.example": { a: ["127.0.0.1"] } };
    const { post } = setUp(records);
    const url = `http://hook.example:${receiver.port}/`;
    await post(url);
    await post(url);
    expect(receiver.connections.made).toBe(1);
    records["hook.example"] = { a: ["127.0.0.3"] };
    expect(await post(url)).toMatchObject({ ok: true });
    expect(receiver.requests).toHaveLength(2);
    expect(other.requests).toHaveLength(1);
  });

  test("are closed when anything follows the response", async () => {
    const receiver = await receive((socket) => void socket.write(`${OK}${OK.replace("200", "500")}`));
    const { post } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    expect([(await post(url)).status, (await post(url)).status]).toEqual([200, 200]);
    expect(receiver.connections.made).toBe(2);
  });

  test("that turn out to be closed are replaced once", async () => {
    const receiver = await receive((socket, nth) => (nth === 1 ? ok(socket, nth) : socket.resetAndDestroy()));
    const { post } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    // Two connections are kept, and neither takes another request.
    await Promise.all([post(url), post(url)]);
    expect(receiver.connections.made).toBe(2);
    expect(await post(url)).toMatchObject({ ok: true });
    expect(receiver.requests).toHaveLength(4);

    const hostile = await receive((socket) =>
      hostile.requests.length === 1 ? ok(socket, 1) : socket.resetAndDestroy(),
    );
    const there = `http://127.0.0.1:${hostile.port}/`;
    expect(await post(there)).toMatchObject({ ok: true });
    expect(await post(there)).toMatchObject({ ok: false });
    expect(hostile.requests).toHaveLength(3);
    expect(await post(there)).toMatchObject({ ok: false });
    expect(hostile.requests).toHaveLength(4);
  });

  test("that the receiver closes on reuse are replaced", async () => {
    const receiver = await receive((socket, nth) => (nth === 1 ? ok(socket, nth) : socket.end()));
    const { post } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    expect(await post(url)).toMatchObject({ ok: true });
    expect(await post(url)).toMatchObject({ ok: true });
    expect(receiver.requests).toHaveLength(3);
  });

  test("are dropped as soon as the receiver closes them or sends data unasked", async () => {
    const afterwards: ((socket: Socket) => void)[] = [(socket) => socket.end(), (socket) => socket.write(OK)];
    for (const then of afterwards) {
      const held: Socket[] = [];
      const receiver = await receive((socket) => {
        held.push(socket);
        socket.write(OK);
      });
      const { post } = setUp();
      const url = `http://127.0.0.1:${receiver.port}/`;
      await post(url);
      for (const socket of held) then(socket);
      await receiver.deserted();
      expect(await post(url)).toMatchObject({ ok: true, status: 200 });
      expect([receiver.requests.length, receiver.connections.made]).toEqual([2, 2]);
    }
  });

  test("are kept only when the response allows it", async () => {
    for (const [answer, made] of [
      ["HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 1],
      ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1],
      ["HTTP/1.1 204 OK\r\n\r\n", 1],
      ["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 2],
      ["HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 2],
      [`HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n${"x".repeat(5_000_000)}`, 2],
    ] as const) {
      const receiver = await receive((socket) => void socket.write(answer));
      const { post } = setUp();
      for (const _ of [1, 2]) await post(`http://127.0.0.1:${receiver.port}/`);
      expect(receiver.connections.made).toBe(made);
      if (made === 2) await receiver.deserted();
    }
  });

  test("are kept up to a limit", async () => {
    const held: Socket[] = [];
    const receiver = await receive((socket) => void held.push(socket));
    const { post } = setUp({}, { mostIdle: 8 });
    const url = `http://127.0.0.1:${receiver.port}/`;
    const outcomes = Array.from({ length: 20 }, () => post(url));
    await receiver.arrived(20);
    for (const socket of held) socket.write(OK);
    for (const outcome of outcomes) expect(await outcome).toMatchObject({ ok: true });
    await until(() => receiver.connections.open <= 8);
    expect(receiver.connections).toEqual({ made: 20, open: 8 });
  });

  test("are replaced once for a request, even while others get responses from that receiver", async () => {
    const held: Socket[] = [];
    const receiver = await receive((socket, nth) => {
      if (!receiver.requests.at(-1)?.endsWith("held")) ok(socket, nth);
      else if (held.push(socket) > 2) socket.resetAndDestroy();
    });
    const { post } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    await post(url);
    const outcome = post(url, { body: "held" });
    for (const arrived of [2, 4]) {
      await receiver.arrived(arrived);
      expect(await post(url)).toMatchObject({ ok: true });
      held.at(-1)?.resetAndDestroy();
    }
    expect(await outcome).toMatchObject({ ok: false });
    expect(held).toHaveLength(2);
  });

  test("go to one address after the other, and each attempt begins with a different one", async () => {
    const dead = "127.0.0.9";
    const [receiver, second] = await receiveOnBoth([ok, "127.0.0.1"], [ok, "127.0.0.2"]);
    const { post } = setUp({
      "half.example": { a: [dead, "127.0.0.1"] },
      "dead.example": { a: [dead] },
      "both.example": { a: ["127.0.0.1", "127.0.0.2"] },
      "six.example": { a: ["127.0.0.1"], aaaa: ["::1"] },
    });
    expect(await post(`http://half.example:${receiver.port}/`)).toMatchObject({ ok: true });
    expect(await post(`http://dead.example:${receiver.port}/`)).toMatchObject({
      ok: false,
      error: "connection refused",
    });
    expect(receiver.requests).toHaveLength(1);
    for (const attempt of [1, 2, 3]) await post(`http://both.example:${receiver.port}/`, { attempt });
    expect([receiver.requests.length, second.requests.length]).toEqual([3, 1]);
    expect(await post(`http://six.example:${receiver.port}/`, { attempt: 2 })).toMatchObject({ ok: true });
  });

  test("that cannot even be tried fail at once, and the next address is tried", async () => {
    const receiver = await receive(ok);
    const records = { "hook.example": { a: ["255.255.255.255", "127.0.0.1"] } };
    const { post } = setUp(records, { allow: () => ["0.0.0.0/0", "fe80::/10"] });
    for (const attempt of [1, 2]) {
      expect(await post(`http://hook.example:${receiver.port}/`, { attempt })).toMatchObject({ ok: true });
    }
    expect(receiver.requests).toHaveLength(2);
    for (const host of ["255.255.255.255", "[fe80::1]"]) {
      expect(await post(`http://${host}:${receiver.port}/`)).toMatchObject({ ok: false, ms: 0 });
    }
  });

  test("are not tried again elsewhere once a request is sent", async () => {
    const [first, second] = await receiveOnBoth([(socket) => socket.resetAndDestroy(), "127.0.0.1"], [ok, "127.0.0.2"]);
    const { post } = setUp({ "both.example": { a: ["127.0.0.1", "127.0.0.2"] } });
    expect(await post(`http://both.example:${first.port}/`)).toMatchObject({ ok: false });
    expect(second.requests).toHaveLength(0);
  });
});

describe("what follows an answer is never taken for the answer to the next request, which may be another tenant's:", () => {
  const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
  const length = `Content-Length: ${forged.length}\r\n\r\n`;
  const chunked = "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n";
  test.each([
    ["a body where there is none", `HTTP/1.1 204 No\r\n${length}`],
    ["chunks where there are none", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n"],
    ["a body of what has not changed", `HTTP/1.1 304 No\r\n${length}`],
    ["a length and chunks", "HTTP/1.1 500 No\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["chunks and a length", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"],
    ["another coding", "HTTP/1.1 500 No\r\nTransfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n"],
    ["chunks within a coding", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"],
    ["a length with a sign", "HTTP/1.1 500 No\r\nContent-Length: +0\r\n\r\n"],
    ["a length beyond counting", "HTTP/1.1 500 No\r\nContent-Length: 18446744073709551616\r\n\r\n"],
    ["two lengths in one field", "HTTP/1.1 500 No\r\nContent-Length: 0, 0\r\n\r\n"],
    ["a space before the colon", "HTTP/1.1 500 No\r\nContent-Length : 0\r\n\r\n"],
    ["lines without CR", "HTTP/1.1 500 No\nContent-Length: 0\n\n"],
    ["a folded line", "HTTP/1.1 500 No\r\nX: a\r\n Content-Length: 9\r\nContent-Length: 0\r\n\r\n"],
    ["a size of a chunk beyond counting", `${chunked}10000000000000000\r\n\r\n`],
    ["a size of a chunk with a sign", `${chunked}-1\r\n`],
    ["an extension of a chunk that ends without CR", `${chunked}0;a\n\r\n`],
    ["a chunk that is longer than its size", `${chunked}2\r\nokXX0\r\n\r\n`],
    ["trailers", `${chunked}0\r\nContent-Length: 5\r\nX: y\r\n\r\n`],
  ])("%s", async (_, answer) => {
    const receiver = await receive((socket) =>
      socket.write(
        receiver.requests.length === 1 ? answer + forged : "HTTP/1.1 503 True\r\nContent-Length: 4\r\n\r\ntrue",
      ),
    );
    const { post } = setUp();
    const url = `http://127.0.0.1:${receiver.port}/`;
    await post(url);
    for (const _ of [1, 2]) expect(await post(url)).toMatchObject({ ok: false, status: 503, response: "true" });
  });
});

describe("over https", () => {
  /** A certificate for this name alone, made at `now`; its own authority. */
  async function certificate(hostname: string, now?: number): Promise<KeyPair> {
    const runtime = fakeRuntime(now === undefined ? {} : { now: () => now });
    const log = createLog("error", runtime.now, () => {});
    const given = { mode: { mode: "self-signed" }, hostname, folder: temporaryFolder(), runtime, log } as const;
    return (await openCertificates(given)).current();
  }
  const records: Zone = { "hook.example": { a: ["127.0.0.1"] }, "other.example": { a: ["127.0.0.1"] } };

  test("the client checks the certificate against the name, and sends the name to the server", async () => {
    const pair = await certificate("hook.example");
    const receiver = await receive(ok, { tls: pair });
    const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities: [pair.cert] }) });
    expect(await post(`https://hook.example:${receiver.port}/`)).toMatchObject({ ok: true, response: "ok" });
    expect(await post(`https://hook.example.:${receiver.port}/`)).toMatchObject({ ok: true });
    expect(receiver.connections.made).toBe(1);
    const wrongName = { ok: false, error: "the certificate is for another name", ms: 0 };
    expect(await post(`https://other.example:${receiver.port}/`)).toEqual(wrongName);
    expect(await post(`https://127.0.0.1:${receiver.port}/`)).toEqual(wrongName);
    expect(receiver.requests).toHaveLength(2);
  });

  test("connections are reused, for the same name only", async () => {
    const [pair, other] = [await certificate("hook.example"), await certificate("other.example")];
    const receiver = await receive(ok, { tls: pair });
    const authorities = [pair.cert, other.cert];
    const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities }) });
    for (const _ of [1, 2, 3]) {
      expect(await post(`https://hook.example:${receiver.port}/`)).toMatchObject({ ok: true });
    }
    expect(receiver.connections.made).toBe(1);
    expect(await post(`https://other.example:${receiver.port}/`)).toMatchObject({ ok: false });
    expect(receiver.requests).toHaveLength(3);
  });

  test("an address needs a certificate for it", async () => {
    const pair = await certificate("127.0.0.1");
    const receiver = await receive(ok, { tls: pair });
    const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities: [pair.cert] }) });
    expect(await post(`https://127.0.0.1:${receiver.port}/`)).toMatchObject({ ok: true });
    expect(await post(`https://hook.example:${receiver.port}/`)).toMatchObject({ ok: false });
  });

  test("the client sends the server a name, and never an address", async () => {
    for (const [host, told] of [
      ["hook.example", "hook.example"],
      ["127.0.0.1", false],
    ] as const) {
      const pair = await certificate(host);
      const names: unknown[] = [];
      const answer: Answer = (socket, nth) => {
        names.push((socket as TLSSocket).servername);
        ok(socket, nth);
      };
      const { port } = await receive(answer, { tls: pair });
      const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities: [pair.cert] }) });
      expect(await post(`https://${host}:${port}/`)).toMatchObject({ ok: true });
      expect(names).toEqual([told]);
    }
  });

  test("a connection whose server has replied and reads no more is not reused", async () => {
    const pair = await certificate("hook.example");
    const { port, connections } = await answerEarly(pair);
    const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities: [pair.cert] }) });
    const body = "x".repeat(30_000_000);
    for (const nth of [1, 2]) {
      expect(await post(`https://hook.example:${port}/`, { body })).toMatchObject({ status: 413 });
      expect(connections.made).toBe(nth);
    }
  });

  test("a server with an untrusted certificate gets no request", async () => {
    const pair = await certificate("hook.example");
    const receiver = await receive(ok, { tls: pair });
    const outcome = await setUp(records).post(`https://hook.example:${receiver.port}/`);
    expect(outcome).toEqual({
      ok: false,
      error: expect.stringMatching(/^the certificate cannot be trusted \(/),
      ms: 0,
    });
    expect(receiver.requests).toHaveLength(0);
  });

  test("a server with an expired certificate gets no request", async () => {
    const pair = await certificate("hook.example", Date.parse("2000-01-01"));
    const receiver = await receive(ok, { tls: pair });
    const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities: [pair.cert] }) });
    expect(await post(`https://hook.example:${receiver.port}/`)).toMatchObject({
      ok: false,
      error: "the certificate cannot be trusted (CERT_HAS_EXPIRED)",
    });
    expect(receiver.requests).toHaveLength(0);
  });

  test("a server that asks for a client certificate is not reported as having a bad one", async () => {
    const { key, cert } = await certificate("hook.example");
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const server = createTlsServer({ key, cert, maxVersion, requestCert: true, rejectUnauthorized: true, ca: cert });
      server.on("tlsClientError", () => {});
      const port = await listen(server);
      const { post } = setUp(records, { runtime: fakeRuntime({ dns: zone(records), authorities: [cert] }) });
      const outcome = await post(`https://hook.example:${port}/`);
      expect(outcome).toEqual({ ok: false, error: "the other side does not speak TLS as we do", ms: 0 });
    }
  });

  test("a server without TLS gets no request", async () => {
    const heard: string[] = [];
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (data) => {
        heard.push(data.toString("latin1"));
        socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
      });
    });
    const port = await listen(server);
    const outcome = await setUp(records).post(`https://hook.example:${port}/`, { body: "secret" });
    expect(outcome).toEqual({ ok: false, error: "the other side does not speak TLS as we do", ms: 0 });
    expect(heard.join()).not.toMatch(/POST|secret/);
    expect(heard).not.toBeEmpty();
  });
});
