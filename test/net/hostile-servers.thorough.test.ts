/**
 * Servers that the appliance asks, and that answer with whatever takes its memory or its time: each client of ours has a bound
 * for the head and the body, as sent and as unpacked, and for the time; and none is led elsewhere.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import type { Caller } from "../../src/access/caller.ts";
import { fetchStsPolicy } from "../../src/authentication/mta-sts.ts";
import { attemptWebhookDelivery } from "../../src/events/delivery.ts";
import { openImageProxy } from "../../src/http/images.ts";
import { readResponseText } from "../../src/net/answer.ts";
import { openHttpClient } from "../../src/net/http-client.ts";
import { openS3 } from "../../src/net/s3.ts";
import { createOAuthClients } from "../../src/oauth/clients.ts";
import { findLastReplicaTransaction } from "../../src/replica/follow.ts";
import { createMeilisearchClient } from "../../src/search/meilisearch/meilisearch-client.ts";
import { openS3Blobs } from "../../src/store/s3-blobs.ts";
import { openAuthority } from "../../src/tls/certificate-authority.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type FakeRuntime, fakeRuntime } from "../harness/runtime.ts";
import { testCore } from "../harness/servers/core.ts";
import { until } from "../harness/until.ts";

const MB = 1024 * 1024;
const HOST = "mta-sts.far.example";
/** Buffers of both sides of a connection, and of one that is made again. */
const UNDER_WAY = 24 * MB;

let answer: (socket: Socket) => void = () => {};
/** Bytes that were written so far, and requests. */
let written = 0;
let requests = 0;
let inside = 0;
const sockets = new Set<Socket>();
const servers: Server[] = [];
const ports = { plain: 0, tls: 0, inside: 0 };
let authority: string;

function serve(socket: Socket): void {
  sockets.add(socket);
  socket.on("error", () => {});
  socket.on("close", () => sockets.delete(socket));
  socket.on("data", (bytes) => {
    if (!bytes.includes("\r\n\r\n")) return;
    requests++;
    answer(socket);
  });
}

async function listen(server: Server, host = "127.0.0.1"): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  const chain = await makeChain(HOST);
  authority = chain.authority;
  ports.plain = await listen(createServer(serve));
  ports.tls = await listen(createTlsServer(chain.pair, serve));
  ports.inside = await listen(
    createServer((socket) => {
      inside++;
      socket.destroy();
    }),
    "127.0.0.2",
  );
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
});

/** Writes the same again and again, as fast as it is taken, or once a turn. */
function writeForever(socket: Socket, text: string, { slowly = false } = {}): void {
  const chunk = slowly ? text : text.repeat(Math.ceil(MB / text.length));
  const more = (): void => {
    if (socket.destroyed) return;
    written += chunk.length;
    if (socket.write(chunk)) setImmediate(more);
    else socket.once("drain", more);
  };
  more();
}

const OK = "HTTP/1.1 200 OK\r\n";
/** A type that each client takes. */
const TYPES: Record<string, string> = { "an OAuth document": "application/json", "an MTA-STS policy": "text/plain" };
let type = "";
const bomb = Bun.gzipSync(Buffer.alloc(100 * MB, "x"), { level: 1 });

/** Answers that end at a bound of bytes. */
const endless: Record<string, (socket: Socket) => void> = {
  "a first line without end": (socket) => {
    socket.write("HTTP/1.1 200 ");
    writeForever(socket, "x");
  },
  "a header field without end": (socket) => {
    socket.write(`${OK}X: `);
    writeForever(socket, "x");
  },
  "header fields without end": (socket) => {
    socket.write(OK);
    writeForever(socket, "X: y\r\n");
  },
  "a body without end": (socket) => {
    socket.write(`${OK}Content-Type: ${type}\r\n\r\n`);
    writeForever(socket, "x");
  },
  "a refusal without end": (socket) => {
    socket.write("HTTP/1.1 500 No\r\nContent-Type: application/problem+json\r\n\r\n");
    writeForever(socket, "{");
  },
  "chunks without end": (socket) => {
    socket.write(`${OK}Content-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`);
    writeForever(socket, `400\r\n${"x".repeat(1024)}\r\n`);
  },
  "a body that unpacks to a hundred megabytes": (socket) => {
    socket.write(`${OK}Content-Type: ${type}\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`);
    socket.write(bomb);
  },
};

/** Answers that end at a bound of time. */
const slow: Record<string, (socket: Socket) => void> = {
  nothing: () => {},
  "a head that trickles": (socket) => {
    socket.write(`${OK}X-`);
    writeForever(socket, "x", { slowly: true });
  },
  "a body that stops": (socket) => void socket.write(`${OK}Content-Type: ${type}\r\nContent-Length: 2\r\n\r\nx`),
  "an extension of a chunk without end": (socket) => {
    socket.write(`${OK}Content-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n1;`);
    writeForever(socket, "x", { slowly: true });
  },
};

const CALLER = { workspaceId: "wsp_1", userId: "usr_1" } as Caller;
const LOOPBACK = ["127.0.0.1/32"];
const s3 = { bucket: "b", prefix: "p/", region: "r", accessKeyId: "a", secretAccessKey: "s" };

/** Calls of clients, which give the server's answer, or reject where they give nothing. */
const clients: Record<string, (runtime: FakeRuntime) => Promise<unknown>> = {
  "a webhook": async (runtime) => {
    const http = openHttpClient({ runtime, allow: () => LOOPBACK });
    const delivery = { eventId: "evt_1", event: "message.inbound", attempts: 0 };
    const endpoint = {
      url: `http://127.0.0.1:${ports.plain}/`,
      secret: "whsec_",
      previousSecret: null,
      previousUntil: null,
    };
    return attemptWebhookDelivery({ http, runtime }, { delivery, endpoint, body: "{}" }, 10_000);
  },
  "an image": async (runtime) => {
    const proxy = openImageProxy({ runtime, allow: () => LOOPBACK });
    const url = proxy.urlFor(CALLER, `http://127.0.0.1:${ports.plain}/`);
    const { status } = await proxy.respond(new Request(`http://localhost${url}`), CALLER);
    if (status !== 200) throw new Error(`answered ${status}`);
  },
  "an OAuth document": (runtime) =>
    createOAuthClients({ ...testCore(), options: { get: () => LOOPBACK } as never, runtime }).find(
      `https://${HOST}:${ports.tls}/client.json`,
      CALLER,
    ),
  "an MTA-STS policy": (runtime) =>
    fetchStsPolicy(openHttpClient({ runtime, allow: () => LOOPBACK }), HOST.replace("mta-sts.", ""), ports.tls),
  "a certificate authority": (runtime) => {
    const http = openHttpClient({ runtime, allow: () => LOOPBACK });
    return openAuthority({ directory: `http://127.0.0.1:${ports.plain}/`, http, runtime }).renewalWindow("x");
  },
  "objects on S3": (runtime) => openS3({ ...s3, endpoint: `http://127.0.0.1:${ports.plain}` }, runtime).list(""),
  "notes on S3": (runtime) =>
    openS3Blobs({ ...s3, endpoint: `http://127.0.0.1:${ports.plain}` }, runtime).readNote("x"),
  "a list of blobs on S3": (runtime) =>
    openS3Blobs({ ...s3, endpoint: `http://127.0.0.1:${ports.plain}` }, runtime).list(),
  Meilisearch: (runtime) =>
    createMeilisearchClient(
      { url: `http://127.0.0.1:${ports.plain}`, key: "" },
      { requestMs: 10_000, taskMs: 10_000, fetch: runtime.fetch },
    ).count("x"),
};

/** Most bytes of a body that a client reads; those of a small one else. */
const MOST: Record<string, number> = {
  "objects on S3": 8 * MB,
  "a list of blobs on S3": 8 * MB,
  "an image": 10 * MB,
};
/** Its time limit is that of its package, in real time. */
const REAL_TIME = new Set(["Meilisearch"]);

/** Result of a client's call. The clock goes on until it is there. */
async function resultOf(ask: (runtime: FakeRuntime) => Promise<unknown>, runtime: FakeRuntime): Promise<unknown> {
  let result: { value: unknown } | undefined;
  void ask(runtime).then(
    (value) => {
      result = { value };
    },
    (error: Error) => {
      result = { value: `refused: ${error.message}` };
    },
  );
  await until(() => requests > 0);
  await until(() => {
    if (!result) runtime.advanceTo(runtime.now() + 500);
    return result !== undefined;
  });
  return result?.value;
}

function begin(): FakeRuntime {
  for (const socket of sockets) socket.destroy();
  [written, requests, inside] = [0, 0, 0];
  const dns = zone({ [HOST]: { a: ["127.0.0.1"] } });
  return fakeRuntime({ dns, fetch, authorities: [authority] } as never);
}

describe.each(Object.entries(clients))("%s", (name, ask) => {
  beforeAll(() => {
    type = TYPES[name] ?? "application/json";
  });

  test.each(Object.entries(endless))("has a bound for %s", async (_, shape) => {
    answer = shape;
    const runtime = begin();
    const result = await resultOf(ask, runtime);
    // A webhook gives the outcome, with the first 4 KiB.
    if (name !== "a webhook") expect(result).toStartWith("refused: ");
    expect(JSON.stringify(result).length).toBeLessThan(6_000);
    await until(() => sockets.size === 0 || shape === endless["a body that unpacks to a hundred megabytes"]);
    expect(written).toBeLessThan(requests * ((MOST[name] ?? MB) + UNDER_WAY));
  });

  const limited = REAL_TIME.has(name) ? [] : Object.entries(slow);
  test.each(limited)("has a bound of time for %s", async (_, shape) => {
    answer = shape;
    const runtime = begin();
    const result = await resultOf(ask, runtime);
    if (name === "a webhook") expect(result).toMatchObject({ ok: false });
    else expect(result).toStartWith("refused: ");
  });

  test("is not led to an address inside", async () => {
    answer = (socket) =>
      void socket.end(
        `HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:${ports.inside}/\r\nContent-Type: ${type}\r\nContent-Length: 0\r\n\r\n`,
      );
    await resultOf(ask, begin());
    expect(inside).toBe(0);
  });
});

describe("a list on S3", () => {
  const listOf = (xml: string): Promise<unknown> => {
    answer = (socket) => void socket.write(`${OK}Content-Length: ${xml.length}\r\n\r\n${xml}`);
    return findLastReplicaTransaction(openS3({ ...s3, endpoint: `http://127.0.0.1:${ports.plain}` }, begin()), 1);
  };
  const KEY = "p/epochs/1/0000/0000000000000001-0000000000000001.ltx";

  test("that begins again on each page ends", async () => {
    const page = `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>${KEY}</Key></Contents></ListBucketResult>`;
    await expect(listOf(page)).rejects.toThrow("a list without end");
    expect(requests).toBe(2);
  });

  test("that says there is more, and has nothing, ends", async () => {
    await expect(listOf("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")).rejects.toThrow(
      "a list without end",
    );
  });

  test.each(["", "<html></html>", `<ListBucketResult><Contents><Key>${KEY}</Key></Contents>`])(
    "that is none, or not whole, is no empty one: %j",
    async (text) => {
      await expect(listOf(text)).rejects.toThrow("no whole list");
    },
  );
});

describe("a text", () => {
  const read = (text: string | Uint8Array<ArrayBuffer>, most: number, fatal = false) =>
    readResponseText(new Response(text), most, { fatal });

  test("of as many bytes as it may have is read, one of more is not", async () => {
    expect(await read("héllo", 6)).toBe("héllo");
    expect(read("héllo!", 6)).rejects.toThrow("more than 6 bytes");
    expect(await readResponseText(new Response(null), 0)).toBe("");
  });

  test("in no charset is a fault, or shown as such", async () => {
    expect(await read(new Uint8Array([0xff]), 9)).toBe("\ufffd");
    expect(read(new Uint8Array([0xff]), 9, true)).rejects.toThrow();
  });
});

test("no answer of another server is read without a bound", () => {
  const src = join(import.meta.dir, "../../src");
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((file) => /\.ts$/.test(file));
  const whole = /\b(?:response|answer|reply)\.(?:text|json|bytes|arrayBuffer|blob)\(\)/i;
  const found = files.filter((file) => !file.startsWith("app/") && whole.test(readFileSync(join(src, file), "utf8")));
  // Our own answers, and those of this program beside it.
  expect(
    found.filter(
      (file) =>
        !["api/unread-answers.ts", "api/compression.ts", "api/reference/snippets.ts", "base/control.ts"].includes(file),
    ),
  ).toEqual([]);
});
