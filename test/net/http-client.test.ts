/**
 * The HTTP client reads servers as they are: interim responses, trailers, bodies that end with the connection. Whatever a
 * server sends has a bound.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { MOST_REQUESTS } from "../../src/base/descriptors.ts";
import { openHttpClient } from "../../src/net/http-client.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

/** Writes the response to a request of the connection. */
let respond: (socket: Socket) => void = () => {};
let server: Server;
let url: string;
const sockets = new Set<Socket>();
beforeAll(async () => {
  server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (bytes) => {
      if (bytes.includes("\r\n\r\n")) respond(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => void server.close());

const runtime = fakeRuntime();
const allowed = ["127.0.0.0/8"];
const client = openHttpClient({ runtime, allow: () => allowed });
afterAll(() => client.close());
afterEach(() => {
  for (const socket of sockets) socket.destroy();
});

async function ask(method: "GET" | "HEAD" | "POST" = "GET") {
  const body = method === "POST" ? { body: "x" } : {};
  return client.within(60_000, async (signal) => {
    const response = await client.send({ method, url, headers: {}, ...body }, signal);
    return { status: response.status, body: await response.text(), cookies: response.headers.getSetCookie() };
  });
}

/** Responds with parts, each of which is a packet of its own. */
const inParts =
  (parts: readonly string[], ends = false) =>
  async (socket: Socket): Promise<void> => {
    for (const part of parts) {
      await new Promise((resolve) => socket.write(Buffer.from(part, "latin1"), resolve));
      await new Promise(setImmediate);
    }
    if (ends) socket.end();
  };

const OK = "HTTP/1.1 200 OK\r\n";
const LENGTH = "Content-Length: 2\r\n\r\nok";
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;

describe("a response is read:", () => {
  test.each<[what: string, parts: string[], ends?: true]>([
    ["with names in lower case", [`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`]],
    ["without a reason", [`HTTP/1.1 200\r\n${LENGTH}`]],
    ["after 100", ["HTTP/1.1 100 Continue\r\n\r\n", OK, LENGTH]],
    ["after 103", [`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${OK}${LENGTH}`]],
    ["in chunks", [CHUNKED, "1;x=y\r\no\r\n", "1\r\nk\r\n0\r\n\r\n"]],
    ["with trailers", [`${CHUNKED}2\r\nok\r\n`, "0\r\nDigest: x\r\n", "Other: y\r\n\r\n"]],
    ["that ends with the connection", [`${OK}\r\n`, "ok"], true],
    ["of HTTP/1.0", ["HTTP/1.0 200 OK\r\n\r\nok"], true],
    ["with octets beyond ASCII", [`${OK}X: \xe9\r\n${LENGTH}`]],
  ])("%s, and so is the next", async (_, parts, ends: boolean = false) => {
    respond = inParts(parts, ends);
    expect(await ask("POST")).toMatchObject({ status: 200, body: "ok" });
    respond = inParts([`HTTP/1.1 201 Created\r\n${LENGTH}`]);
    expect(await ask()).toMatchObject({ status: 201, body: "ok" });
  });

  test("without a body, whatever its length says", async () => {
    for (const [method, response] of [
      ["HEAD", `${OK}Content-Length: 200\r\n\r\n`],
      ["HEAD", CHUNKED],
      ["GET", "HTTP/1.1 204 No Content\r\n\r\n"],
      ["GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"],
    ] as const) {
      respond = inParts([response]);
      expect(await ask(method)).toMatchObject({ body: "" });
    }
  });

  test("with each of its cookies", async () => {
    respond = inParts([`${OK}Set-Cookie: a=1\r\nSet-Cookie: b=2, c\r\n${LENGTH}`]);
    expect((await ask()).cookies).toEqual(["a=1", "b=2, c"]);
  });

  test("and what follows it is not taken for the response to the next request", async () => {
    respond = inParts([`${OK}${LENGTH}HTTP/1.1 500 Not asked\r\nContent-Length: 4\r\n\r\nevil`]);
    expect(await ask()).toMatchObject({ status: 200 });
    respond = inParts([`HTTP/1.1 201 Created\r\n${LENGTH}`]);
    expect(await ask()).toMatchObject({ status: 201, body: "ok" });
  });
});

describe("is an error:", () => {
  test.each<[what: string, parts: string[], ends?: true]>([
    ["a body that is shorter than its length", [`${OK}Content-Length: 5\r\n\r\nok`], true],
    ["chunks without an end", [`${CHUNKED}5\r\nok`], true],
    ["two lengths that differ", [`${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!`]],
    ["a space before a colon", [`${OK}X : y\r\n${LENGTH}`]],
    ["a folded field", [`${OK}X: y\r\n z\r\n${LENGTH}`]],
    ["another protocol", ["SSH-2.0-OpenSSH\r\n\r\n"]],
    ["a protocol that nobody asked for", ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"]],
    ["nothing", [], true],
    ["very many fields", [OK + Array.from({ length: 1_000 }, (_, i) => `x${i}: y\r\n`).join("") + LENGTH]],
  ])("%s", async (_, parts, ends: boolean = false) => {
    respond = inParts(parts, ends);
    await expect(ask()).rejects.toThrow();
  });
});

describe("has a bound:", () => {
  /** Writes `start`, and then the same byte until the client closes the connection. */
  const forever = (start: string, byte: string) => (socket: Socket) => {
    const bytes = Buffer.alloc(65_536, byte);
    const write = (): void => {
      while (!socket.destroyed && socket.write(bytes));
    };
    socket.on("drain", write);
    socket.write(start);
    write();
  };

  test.each([
    ["a field without an end", `${OK}X: `, "a"],
    ["a status line without an end", "HTTP/1.1 200 ", "a"],
    ["a chunk's size without an end", CHUNKED, "0"],
  ])("%s", async (_, start, byte) => {
    respond = forever(start, byte);
    await expect(ask()).rejects.toThrow();
  });

  test.each([
    ["trailers without an end", `${CHUNKED}2\r\nok\r\n0\r\nX: `],
    ["a chunk's extension without an end", `${CHUNKED}2;`],
  ])("%s, by the time for the response", async (_, start) => {
    const begun = Promise.withResolvers<void>();
    respond = (socket) => {
      forever(start, "a")(socket);
      socket.once("drain", () => begun.resolve());
    };
    const asked = ask();
    await begun.promise;
    runtime.advanceTo(runtime.now() + 61_000);
    await expect(asked).rejects.toThrow("no complete answer within 60 seconds");
  });
});

test("works beyond the limit wait for their turn, which takes nothing of their time; a stop ends them", async () => {
  const held: Socket[] = [];
  respond = (socket) => void held.push(socket);
  const limited = openHttpClient({ runtime, allow: () => allowed, mostAtOnce: 2 });
  const statuses: Promise<number | string>[] = Array.from({ length: 6 }, () =>
    limited
      .within(1_000, async (signal) => (await limited.send({ method: "GET", url, headers: {} }, signal)).status)
      .catch((error: Error) => error.message),
  );
  await until(() => held.length === 2);
  for (const socket of held) socket.write(OK + LENGTH);
  expect(await Promise.all(statuses.slice(0, 2))).toEqual([200, 200]);
  await until(() => held.length === 4);
  runtime.advanceTo(runtime.now() + 1_000);
  expect(new Set(await Promise.all(statuses.slice(2, 4)))).toEqual(new Set(["no complete answer within 1 seconds"]));
  await until(() => held.length === 6);
  const late = limited.within(1_000, async () => "begun").catch((error: Error) => error.message);
  limited.close();
  expect(new Set(await Promise.all([...statuses.slice(4), late]))).toEqual(new Set(["this server is stopping"]));
});

test("what strangers can hold up leaves requests to S3, authorities and Meilisearch", () => {
  const sum = Object.values(MOST_REQUESTS).reduce((all, one) => all + one, 0);
  // Bun's fetch makes 256 in a process.
  expect(sum).toBeLessThanOrEqual(256 - 32);
});
