/** The proxy for remote images: its callers, destinations, and responses. */
import { afterAll, describe, expect, test } from "bun:test";
import type { Caller } from "../../src/access/caller.ts";
import { IMAGE_TIMEOUT_MS, type ImageProxy, LARGEST_IMAGE, openImageProxy } from "../../src/http/images.ts";
import { SCOPES } from "../../src/store/schema.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { type Answer, receive, receiveOnBoth, writeForever } from "../harness/peers/raw-receiver.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const proxies: ImageProxy[] = [];
afterAll(() => {
  for (const proxy of proxies) proxy.close();
});

const callerOf = (userId: string, workspaceId = "wsp_1"): Caller => ({
  userId,
  workspaceId,
  role: "member",
  email: `${userId}@example.test`,
  scopes: new Set(SCOPES),
});
const ann = callerOf("usr_ann");

const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex");

const answerWith =
  (body: Uint8Array, head = "", status = "200 OK"): Answer =>
  (socket) => {
    socket.write(`HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\n${head}\r\n`);
    socket.write(body);
  };
const png = answerWith(PNG, "Content-Type: image/png\r\n");
const redirect = (location: string, status = "302 Found"): Answer =>
  answerWith(new Uint8Array(), `Location: ${location}\r\n`, status);

/** 127.0.0.2 stands for a public address, since the tests except it. 127.0.0.1 is private. */
const PUBLIC = "127.0.0.2";

function setUp(records: Zone = {}) {
  const runtime = fakeRuntime({ dns: zone(records) });
  const proxy = openImageProxy({ runtime, allow: () => [`${PUBLIC}/32`], mostAtOnce: 20 });
  proxies.push(proxy);
  const ask = (path: string, caller = ann, signal?: AbortSignal) =>
    proxy.respond(new Request(`http://localhost${path}`, signal && { signal }), caller);
  return { runtime, proxy, ask, get: (url: string, caller = ann) => ask(proxy.urlFor(caller, url), caller) };
}

const serve = (answer: Answer) => receive(answer, { host: PUBLIC });

/** Gets an image through the proxy, from a server that responds like this. */
async function imageOf(answer: Answer): Promise<Response> {
  const { port } = await serve(answer);
  return setUp().get(`http://${PUBLIC}:${port}/a.png`);
}

describe("an image", () => {
  test("comes unchanged, with our headers", async () => {
    const head = "Content-Type: text/html\r\nSet-Cookie: a=b\r\nRefresh: 0; url=http://x.example\r\n";
    const answer = await imageOf(answerWith(PNG, head));
    expect(Buffer.from(await answer.bytes())).toEqual(PNG);
    expect([answer.status, Object.fromEntries(answer.headers)]).toEqual([
      200,
      {
        "cache-control": "private, max-age=86400",
        "content-security-policy": "default-src 'none'; frame-ancestors 'self'; sandbox",
        "content-type": "image/png",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
      },
    ]);
  });

  test("is requested without anything about the reader", async () => {
    const server = await serve(png);
    const { proxy } = setUp({ "news.example": { a: [PUBLIC] } });
    const headers = { cookie: "mailroom=secret", referer: "http://localhost/mail", "user-agent": "Browser", dnt: "1" };
    const address = proxy.urlFor(ann, `http://news.example:${server.port}/p?id=%20a#b`);
    await proxy.respond(new Request(`http://localhost${address}`, { headers }), ann);
    expect((server.requests[0] ?? "").toLowerCase().trim().split("\r\n").sort()).toEqual([
      "accept-encoding: identity",
      "accept: image/*",
      "connection: keep-alive",
      "get /p?id=%20a http/1.1",
      `host: news.example:${server.port}`,
      "user-agent: mailroom",
    ]);
  });

  const hex = (text: string) => Buffer.from(text.replaceAll(" ", "").padEnd(80, "0"), "hex");
  const kinds: [type: string, begins: Uint8Array][] = [
    ["image/jpeg", hex("ffd8ffe0")],
    ["image/gif", Buffer.from("GIF89a\u0001\u0000\u0001\u0000")],
    ["image/webp", Buffer.from("RIFF\u0010\u0000\u0000\u0000WEBPVP8 ")],
    ["image/avif", hex("0000001c 66747970 61766966")],
    ["image/bmp", hex("424d 46000000 00000000 36040000 28000000")],
  ];
  for (const [type, bytes] of kinds) {
    test(`of ${type} is recognised by its bytes`, async () => {
      expect((await imageOf(answerWith(bytes))).headers.get("content-type")).toBe(type);
    });
  }
});

describe("the proxy gives no image", () => {
  const text = (body: string, head = "Content-Type: image/png\r\n") => answerWith(Buffer.from(body), head);
  const cases: [name: string, answer: Answer][] = [
    ["of HTML that poses as an image", text("<!doctype html><script>alert(1)</script>")],
    ["of HTML behind the name of one", text("GIF8<script>alert(1)</script>")],
    ["of SVG", text('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>', "Content-Type: image/svg+xml\r\n")],
    ["of nothing", answerWith(new Uint8Array())],
    ["of an answer that is an error", answerWith(PNG, "", "404 Not Found")],
    ["of a part", answerWith(PNG, "", "206 Partial Content")],
    ["of what is compressed all the same", answerWith(Bun.gzipSync(PNG), "Content-Encoding: gzip\r\n")],
    ["of what breaks off", (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nGIF89a")],
  ];
  for (const [name, answer] of cases) {
    test(name, async () => {
      const answered = await imageOf(answer);
      expect([answered.status, await answered.text(), answered.headers.get("cache-control")]).toEqual([
        502,
        "",
        "no-store",
      ]);
    });
  }

  test("for content that is too large or is declared so, and does not read the rest", async () => {
    const cut = Buffer.alloc(LARGEST_IMAGE, PNG);
    expect((await imageOf(answerWith(cut))).status).toBe(200);
    for (const head of [`Content-Length: ${LARGEST_IMAGE + 1}\r\n`, ""]) {
      const server = await serve((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n`);
        socket.write(PNG);
        writeForever(socket, "x".repeat(65_536));
      });
      expect((await setUp().get(`http://${PUBLIC}:${server.port}/`)).status).toBe(502);
      await server.deserted();
    }
  });

  test("for endless content of another type, and reads only its beginning", async () => {
    const server = await serve((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n");
      writeForever(socket, "<html>".repeat(100));
    });
    expect((await setUp().get(`http://${PUBLIC}:${server.port}/`)).status).toBe(502);
    await server.deserted();
  });

  for (const [name, slow] of [
    ["is silent", () => {}],
    ["does not end", (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\nGIF89a")],
  ] as [string, Answer][]) {
    test(`from a server that ${name}, after the time limit`, async () => {
      const server = await serve(slow);
      const { runtime, get } = setUp();
      const answer = get(`http://${PUBLIC}:${server.port}/`);
      await server.arrived(1);
      runtime.advanceTo(runtime.now() + IMAGE_TIMEOUT_MS);
      expect((await answer).status).toBe(502);
      await server.deserted();
    });
  }
});

describe("the destination", () => {
  test("is never a private address, under any name", async () => {
    const victim = await receive(png);
    const { get } = setUp({ "in.example": { a: ["127.0.0.1"] }, "half.example": { a: [PUBLIC, "10.0.0.1"] } });
    const hosts = ["127.0.0.1", "0x7f.1", "localhost", "in.example", "half.example", "[::1]", "169.254.169.254"];
    for (const host of hosts) expect((await get(`http://${host}:${victim.port}/`)).status).toBe(502);
    for (const url of ["file:///etc/passwd", "ftp://x.example/", `http://a:b@${PUBLIC}/`, "", "//x"]) {
      expect((await get(url)).status).toBe(502);
    }
    expect(victim.connections.made).toBe(0);
  });

  test("is the address that was checked, even if DNS changes", async () => {
    const [server, victim] = await receiveOnBoth([png, PUBLIC], [png, "127.0.0.1"]);
    const answers = [[PUBLIC], ["127.0.0.1"]];
    const { get } = setUp({
      "rebind.example": {
        get a() {
          return answers.shift() ?? [];
        },
      },
    });
    const url = `http://rebind.example:${server.port}/`;
    expect([(await get(url)).status, (await get(url)).status]).toEqual([200, 502]);
    expect([server.requests.length, victim.connections.made]).toEqual([1, 0]);
  });

  test("follows redirects, each checked anew", async () => {
    const [there, victim] = await receiveOnBoth([png, PUBLIC], [png, "127.0.0.1"]);
    const { get } = setUp({ "cdn.example": { a: [PUBLIC] }, "in.example": { a: ["127.0.0.1"] } });
    const through = async (location: string) => {
      const server = await serve(redirect(location));
      return (await get(`http://${PUBLIC}:${server.port}/`)).status;
    };
    expect(await through(`http://cdn.example:${there.port}/a`)).toBe(200);
    expect(await through(`//cdn.example:${there.port}/b`)).toBe(200);
    expect(there.requests.map((request) => request.split(" ")[1])).toEqual(["/a", "/b"]);
    for (const host of ["127.0.0.1", "in.example"]) expect(await through(`http://${host}:${there.port}/`)).toBe(502);
    for (const location of ["file:///etc/passwd", "http://", "data:image/png;base64,iVBORw0KGgo="]) {
      expect(await through(location)).toBe(502);
    }
    expect(victim.connections.made).toBe(0);
  });

  test("is at most three redirects away", async () => {
    let most = 3;
    const server = await serve((socket) => {
      const hop = server.requests.length - 1;
      (hop < most ? redirect(`/${hop}`, "307 Temporary Redirect") : png)(socket, 1);
    });
    const statusOf = async () => (await setUp().get(`http://${PUBLIC}:${server.port}/`)).status;
    expect(await statusOf()).toBe(200);
    server.requests.length = 0;
    most = 4;
    expect(await statusOf()).toBe(502);
    expect(server.requests).toHaveLength(4);
  });
});

describe("an image's URL", () => {
  test("works only for its person and its image", async () => {
    const server = await serve(png);
    const { proxy, ask } = setUp();
    const url = `http://${PUBLIC}:${server.port}/a`;
    const address = proxy.urlFor(ann, url);
    const forged = [
      ask(address, callerOf("usr_ben")),
      ask(address.replace("%2Fa", "%2Fb")),
      ask(address.replace(/signature=.*/, "signature=")),
      ask(address.replace(/&signature=.*/, "")),
      ask("/app/images"),
      setUp().ask(address),
    ];
    for (const answer of forged) expect((await answer).status).toBe(403);
    expect(server.connections.made).toBe(0);
    expect((await ask(address)).status).toBe(200);
  });
});

test("six images of a person are fetched at once and the others in turn, and other people are not delayed", async () => {
  const sockets: (() => void)[] = [];
  const server = await serve((socket) => void sockets.push(() => png(socket, 1)));
  const { proxy, ask, get } = setUp();
  const url = `http://${PUBLIC}:${server.port}/`;
  const gone = new AbortController();
  const first = Array.from({ length: 6 }, () => get(url));
  const given = ask(proxy.urlFor(ann, url), ann, gone.signal);
  const last = get(url);
  await server.arrived(6);
  const other = get(url, callerOf("usr_ben"));
  await server.arrived(7);
  expect(server.requests).toHaveLength(7);
  // The proxy fetches nothing more for a person who has left the page.
  gone.abort();
  for (const answer of sockets.splice(0)) answer();
  await server.arrived(8);
  for (const answer of sockets.splice(0)) answer();
  expect((await Promise.all([...first, last, other])).map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect([(await given).status, server.requests.length]).toEqual([502, 8]);
});

test("images of a workspace leave turns to its other people, and to other workspaces", async () => {
  const sockets: (() => void)[] = [];
  const server = await serve((socket) => void sockets.push(() => png(socket, 1)));
  const { get } = setUp();
  const url = `http://${PUBLIC}:${server.port}/`;
  const all = Array.from({ length: 24 }, (_, i) => get(url, callerOf(`usr_${i % 4}`)));
  await server.arrived(13);
  expect(server.requests).toHaveLength(13);
  all.push(get(url, callerOf("usr_other", "wsp_2")));
  await server.arrived(14);
  for (let answered = 0; answered < 25; ) {
    await server.arrived(Math.min(25, answered + 1));
    for (const answer of sockets.splice(0)) {
      answer();
      answered++;
    }
  }
  expect((await Promise.all(all)).map(({ status }) => status)).toEqual(Array(25).fill(200));
});
