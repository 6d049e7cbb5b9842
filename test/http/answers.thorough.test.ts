/** Answers that nobody reads take a bounded part of the memory, and nothing from others. */
import { afterEach, describe, expect, test } from "bun:test";
import { createRequestShares } from "../../src/api/pools.ts";
import { noteRequestPerson } from "../../src/api/request.ts";
import { markStreamedResponse } from "../../src/api/unread-answers.ts";
import { createLog } from "../../src/base/log.ts";
import type { HttpServer } from "../../src/http/carrier.ts";
import { createHttpConnections } from "../../src/http/connections.ts";
import { createHttpServer } from "../../src/http/http-server.ts";
import { createHttpsServer } from "../../src/http/https.ts";
import { openRaw, type RawClient } from "../harness/clients/raw-http.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const MB = 1024 * 1024;
/** More than the buffers of the system take of an answer that is not read. */
const LARGE = new Uint8Array(24 * MB);

const running: HttpServer[] = [];
const clients: RawClient[] = [];
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await Promise.all(running.splice(0).map((server) => server.stop(0)));
});

const pair = makePair("localhost");

/** Starts a server that answers with LARGE, at /api/small with little, at /api/file with a file, to whom `Authorization` names as `workspace person key`. */
async function start({ secure = false, mostUnread = 128 * MB, mostConnections = 1_000 } = {}) {
  const runtime = fakeRuntime();
  const log = createLog("silent", runtime.now, () => {});
  const pools = createRequestShares({ mostConnections, mostUnread, runtime });
  const composed: string[] = [];
  const connections = createHttpConnections({ most: 1_000, trustedProxies: [], runtime });
  const parts = {
    async rest(request: Request) {
      const { pathname } = new URL(request.url);
      const [workspaceId = "", userId = "", keyId = ""] = (request.headers.get("authorization") ?? "").split(" ");
      if (workspaceId !== "") noteRequestPerson(request, { workspaceId, userId, keyId });
      composed.push(`${request.method} ${pathname}`);
      if (pathname === "/api/stream") {
        const body = new ReadableStream({
          start: (controller) => controller.enqueue("data: 1\n\n"),
          cancel: () => void composed.push("cancelled"),
        });
        return new Response(body, { headers: { "content-type": "text/event-stream" } });
      }
      if (pathname === "/api/file") return markStreamedResponse(new Response(Bun.file(import.meta.path)));
      return new Response(pathname === "/api/small" ? new Uint8Array(64 * 1024) : LARGE);
    },
    web: { respond: async () => undefined },
    health: {},
    pools,
    runtime,
    log,
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const certificate = await pair;
  const server = secure
    ? await createHttpsServer({
        listen,
        certificates: {
          current: () => certificate,
          choose: (_name, done) => done(null),
          onChange: () => () => {},
          alpn: undefined,
        },
        connections,
        runtime,
        log,
        startInner: (inner) => createHttpServer({ ...parts, ...inner }),
      })
    : createHttpServer({ ...parts, listen, connections });
  running.push(server);

  /** Asks on a connection of its own. */
  async function ask(who: string, { path = "/api/large", method = "GET", reads = true } = {}): Promise<RawClient> {
    const client = await openRaw(server.address.port, { secure });
    clients.push(client);
    if (!reads) client.socket.pause();
    const from = who === "" ? "" : `Authorization: ${who}\r\n`;
    client.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${from}Content-Length: 0\r\n\r\n`);
    return client;
  }
  const answered = async (client: RawClient) => (await client.read(1))[0];
  return {
    pools,
    runtime,
    composed,
    ask,
    answered,
    /** Resolves once so many answers are unread, and so many requests wait. */
    settled: (unread: number, waiting: number) =>
      until(() => pools.answers.shares.held() === unread * LARGE.length && pools.answers.shares.waiting() === waiting),
  };
}

describe.each([false, true])("over TLS: %p", (secure) => {
  test("a key that does not read waits for its next answer, which is composed again once it has read", async () => {
    const { ask, answered, settled, composed } = await start({ secure });
    const unread = await ask("w ada key1", { reads: false });
    await settled(1, 0);
    const next = await ask("w ada key1");
    await settled(1, 1);
    expect(composed.length).toBe(2);
    unread.socket.resume();
    expect((await answered(unread))?.body.length).toBe(LARGE.length);
    expect((await answered(next))?.status).toBe(200);
    expect(composed.length).toBe(3);
    await settled(0, 0);
  }, 120_000);
});

test("after ten seconds a request that waits is refused with 503; small answers, HEAD, files and other keys go on", async () => {
  const { ask, answered, settled, runtime } = await start();
  await ask("w ada key1", { reads: false });
  await settled(1, 0);
  const waits = await ask("w ada key1");
  await settled(1, 1);
  for (const asked of [{ path: "/api/small" }, { path: "/api/file" }, { method: "HEAD" }]) {
    const client = await ask("w ada key1", asked);
    if (asked.method === "HEAD") await until(() => client.text().includes("\r\n\r\n"));
    else expect(await answered(client)).toMatchObject({ status: 200 });
    expect(client.text()).toStartWith("HTTP/1.1 200");
  }
  expect((await answered(await ask("w ada key2")))?.status).toBe(200);
  expect((await answered(await ask("other bob key3")))?.status).toBe(200);
  runtime.advanceTo(runtime.now() + 10_000);
  const refused = await answered(waits);
  expect(JSON.parse(refused?.body ?? "")).toEqual({
    error: "Too much of earlier answers is still unread: read those, then ask again",
    code: "server_error",
  });
  expect([refused?.status, refused?.headers.get("retry-after")]).toEqual([503, "10"]);
  expect(refused?.headers.get("x-request-id")).toMatch(/^[\da-f]{16}$/);
}, 120_000);

test("a client that leaves gives back what it had not read, or its place among those that wait", async () => {
  const { ask, settled } = await start();
  const unread = await ask("w ada key1", { reads: false });
  await settled(1, 0);
  const waits = await ask("w ada key1");
  await settled(1, 1);
  waits.socket.resetAndDestroy();
  await settled(1, 0);
  unread.socket.destroy();
  await settled(0, 0);
}, 120_000);

test("a workspace leaves room for others, and strangers are one workspace together", async () => {
  const { ask, answered, settled } = await start();
  for (const key of ["a", "b", "c", "d", "e"]) await ask(`w person-${key} ${key}`, { reads: false });
  // A quarter of 128 MB is for others.
  await settled(4, 1);
  expect((await answered(await ask("v bob key")))?.status).toBe(200);
  expect((await answered(await ask("")))?.status).toBe(200);
  await ask("", { reads: false });
  await settled(5, 1);
  await ask("", { reads: false });
  await settled(5, 2);
}, 120_000);

test("an answer to a request that may have changed something waits as it is, and nothing is done twice", async () => {
  const { ask, answered, settled, composed } = await start({ mostUnread: 400 * MB });
  const unread = await ask("w ada key1", { reads: false });
  await settled(1, 0);
  const waits = await ask("w ada key1", { method: "POST" });
  await settled(1, 1);
  // What waits so has a bound of its own.
  const beyond = await ask("w ada key1", { method: "POST" });
  expect(await answered(beyond)).toMatchObject({ status: 503 });
  unread.socket.destroy();
  expect((await answered(waits))?.body.length).toBe(LARGE.length);
  expect(composed).toEqual(["GET /api/large", "POST /api/large", "POST /api/large"]);
}, 120_000);

test("answers to requests that follow each other on a connection are counted until the last is taken", async () => {
  const { ask, settled } = await start({ mostUnread: 400 * MB });
  const client = await ask("w ada key1", { path: "/api/small" });
  client.write("GET /api/large HTTP/1.1\r\nHost: localhost\r\nAuthorization: w ada key1\r\n\r\n");
  client.write("GET /api/small HTTP/1.1\r\nHost: localhost\r\nAuthorization: w ada key1\r\n\r\n");
  expect((await client.read(3)).map(({ body }) => body.length)).toEqual([64 * 1024, LARGE.length, 64 * 1024]);
  await settled(0, 0);
}, 120_000);

test("streams of a person leave places for others, and give theirs back when they end", async () => {
  const { ask, pools, composed } = await start({ mostConnections: 24 });
  const streams: RawClient[] = [];
  for (let i = 0; i < 7; i++) streams.push(await ask(`w ada key${i}`, { path: "/api/stream" }));
  const begun = () => streams.filter((client) => client.text().includes("data: 1"));
  await until(() => streams.every((client) => client.text() !== "") && begun().length === 6);
  const refused = streams.find((client) => !client.text().includes("data: 1")) as RawClient;
  expect(await refused.read(1)).toMatchObject([{ status: 429, body: expect.stringContaining("rate_limited") }]);
  expect([pools.streams.held(), composed.filter((text) => text === "cancelled").length]).toEqual([6, 1]);
  for (const who of ["w bob key", "v cy key"]) {
    const other = await ask(who, { path: "/api/stream" });
    await until(() => other.text().includes("data: 1"));
  }
  for (const { socket } of clients) socket.destroy();
  await until(() => pools.streams.held() === 0);
}, 120_000);
