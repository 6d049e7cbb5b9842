/** The HTTPS listener: it serves the whole appliance, and a new certificate breaks no connection. */
import { describe, expect, test } from "bun:test";
import { connect as connectTcp } from "node:net";
import { clientLeavingSignal } from "../../src/api/request.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { type Answer, expectReplacing, GET, openTls, readAll, startBy, tls, WAYS } from "./https-rig.ts";

const HSTS = "strict-transport-security";

describe("with MAILROOM_HTTPS", () => {
  const ON = { MAILROOM_HTTPS: "127.0.0.1:0", MAILROOM_BASE_URL: "https://mail.example.test" };
  /** For tests that change nothing. */
  let shared: Promise<Booted> | undefined;
  const booted = (): Promise<Booted> => {
    shared ??= boot(ON);
    return shared;
  };

  test("serves app, API, MCP and health, and each response has Strict-Transport-Security", async () => {
    const { ready, owner } = await booted();
    const origin = `https://${ready.https}`;
    const authorization = `Bearer ${owner.apiKey}`;
    const cases = [
      ["/", {}, 200, /Mailroom/],
      ["/healthz", {}, 200, /"ok"/],
      ["/api/v1/mailboxes", { authorization }, 200, /alice@example\.test/],
      ["/api/v1/mailboxes", {}, 401, /unauthorized/],
      ["/nowhere", {}, 404, /Not found/],
    ] as const;
    for (const [path, headers, status, body] of cases) {
      const answer = await fetch(origin + path, { headers, tls });
      expect([path, answer.status]).toEqual([path, status]);
      expect(await answer.text()).toMatch(body);
      expect(answer.headers.get(HSTS)).toBe("max-age=31536000");
    }
    const tools = await fetch(`${origin}/api/mcp`, {
      method: "POST",
      headers: {
        authorization,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
      tls,
    });
    expect(await tools.text()).toContain("send_email");
  });

  test("MAILROOM_HTTP serves health, and redirects other requests with path, query and method", async () => {
    const { http, owner } = await booted();
    expect((await fetch(`${http}/healthz`)).status).toBe(200);
    for (const [method, path] of [
      ["GET", "/"],
      ["GET", "/api/v1/mailboxes?x=%20y&z"],
      ["POST", "/api/v1/send"],
    ] as const) {
      const answer = await fetch(http + path, {
        method,
        headers: { authorization: `Bearer ${owner.apiKey}` },
        redirect: "manual",
      });
      expect([path, answer.status, answer.headers.get("location")]).toEqual([
        path,
        308,
        `https://mail.example.test${path}`,
      ]);
      expect(answer.headers.get(HSTS)).toBeNull();
    }
    const wrong = await fetch(`${http}/healthz`, { method: "POST", redirect: "manual" });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect((await fetch(`${http}/.well-known/acme-challenge/unknown`, { redirect: "manual" })).status).toBe(404);
  });

  test("the ready line names it; without it, HTTP serves the app", async () => {
    expect(Object.keys((await booted()).ready)).toEqual(["http", "https", "mx", "submission", "submissions"]);
    const { ready, http } = await boot();
    expect(Object.keys(ready)).toEqual(["http", "mx", "submission", "submissions"]);
    const answer = await fetch(http);
    expect([answer.status, answer.headers.get(HSTS)]).toEqual([200, null]);
  });

  test("MAILROOM_HTTP may be off; when the base URL is not https, HTTP redirects to the listener", async () => {
    const { ready } = await boot({ ...ON, MAILROOM_HTTP: "off" });
    expect(ready.http).toBe("off");
    expect((await fetch(`https://${ready.https}/healthz`, { tls })).status).toBe(200);
    const other = await boot({ MAILROOM_HTTPS: "127.0.0.1:0" });
    const { headers } = await fetch(`${other.http}/a`, { redirect: "manual" });
    expect(headers.get("location")).toBe(`https://localhost:${other.ready.https?.split(":")[1]}/a`);
    expect(other.lines.map(({ message }) => message)).toContain("MAILROOM_BASE_URL is not https");
  });

  test("a listener that cannot bind is named", async () => {
    const { ready } = await booted();
    await expect(boot({ MAILROOM_HTTPS: String(ready.https) })).rejects.toThrow("MAILROOM_HTTPS: cannot listen there");
  });

  test("requests in flight are finished on stop", async () => {
    const { server, ready, runtime } = await boot(ON);
    // The response has begun, and most of its body has not come.
    const answer = await fetch(`https://${ready.https}/api/v1/openapi.json`, { tls });
    let ended = false;
    const stopped = server.stop().finally(() => {
      ended = true;
    });
    expect(Object.keys(await answer.json())).toContain("openapi");
    while (!ended) {
      runtime.advanceTo(runtime.now() + 1_000);
      await new Promise(setImmediate);
    }
    await stopped;
    await expect(fetch(`https://${ready.https}/healthz`, { tls })).rejects.toThrow();
  });
});

test.each(WAYS)(
  "a certificate replaced at a listener %s serves new connections, and breaks no open or opening one",
  (_, alpn) => expectReplacing(alpn, 8),
);

describe.each(WAYS)("behind a listener %s", (_, alpn) => {
  const start = (answer: Answer) => startBy(alpn, answer);

  test("the client is known by its own address", async () => {
    const { port } = await start(async (_, peer) => new Response(peer));
    for (const address of ["127.0.0.1", "127.0.0.9"]) {
      const socket = await openTls(port, address);
      socket.write(`${GET}connection: close\r\n\r\n`);
      expect(await readAll(socket)).toEndWith(address);
    }
  });

  test("connections that did not come through the public listener are refused", async () => {
    let asked = 0;
    const { behind } = await start(async () => {
      asked++;
      return new Response("secret");
    });
    const answer = await fetch(`http://127.0.0.1:${behind.port}/`);
    expect([answer.status, await answer.text()]).toEqual([403, "Forbidden\n"]);
    expect(asked).toBe(0);
  });

  test("a large response arrives whole before the connection closes", async () => {
    const { port } = await start(async () => new Response(new Uint8Array(5_000_000).fill(120)));
    const socket = await openTls(port);
    socket.write(`${GET}connection: close\r\n\r\n`);
    const [, body = ""] = (await readAll(socket)).split("\r\n\r\n");
    expect(body.length).toBe(5_000_000);
  });

  test("a large request arrives whole", async () => {
    const { port } = await start(async (request) => new Response(String((await request.bytes()).length)));
    const body = new Uint8Array(5_000_000).fill(120);
    const answer = await fetch(`https://127.0.0.1:${port}/`, { method: "POST", body, tls });
    expect(await answer.text()).toBe("5000000");
  });

  test("a stream of events arrives as it is written", async () => {
    const read = Promise.withResolvers<void>();
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(new TextEncoder().encode("data: first\n\n"));
        await read.promise;
        controller.enqueue(new TextEncoder().encode("data: second\n\n"));
        controller.close();
      },
    });
    const { port } = await start(async () => new Response(body, { headers: { "content-type": "text/event-stream" } }));
    const answer = await fetch(`https://127.0.0.1:${port}/`, { tls });
    const seen: string[] = [];
    for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      seen.push(chunk);
      read.resolve();
    }
    expect(seen).toEqual(["data: first\n\n", "data: second\n\n"]);
  });

  test("a request learns when its client leaves", async () => {
    const left = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const { port } = await start((request) => {
      clientLeavingSignal(request).addEventListener("abort", () => left.resolve());
      begun.resolve();
      return new Promise<Response>(() => {});
    });
    const socket = await openTls(port);
    socket.write(`${GET}\r\n`);
    await begun.promise;
    socket.destroy();
    await left.promise;
  });

  test("on stop, the client gets the last response before its connection is cut", async () => {
    const { port, stop } = await start(async () => new Response("here"));
    const socket = await openTls(port);
    socket.write(`${GET}\r\n`);
    const text = readAll(socket);
    await new Promise((resolve) => socket.once("data", resolve));
    await stop(9_000);
    expect(await text).toEndWith("here");
  });

  test.each(["", "\x16\x03\x01"])("a connection whose client closes its side before TLS ends: %j", async (said) => {
    const { port } = await start(async () => new Response("here"));
    const odd = connectTcp({ port, host: "127.0.0.1", allowHalfOpen: true });
    odd.on("error", () => {});
    odd.end(said, "latin1");
    odd.resume();
    await new Promise((resolve) => odd.once("end", resolve).once("close", resolve));
  });

  test("a connection without TLS ends only itself", async () => {
    const { port } = await start(async () => new Response("here"));
    const odd = connectTcp(port, "127.0.0.1");
    odd.on("error", () => {});
    odd.write("GET / HTTP/1.1\r\n\r\n");
    await new Promise((resolve) => odd.once("close", resolve));
    expect(await (await fetch(`https://127.0.0.1:${port}/`, { tls })).text()).toBe("here");
  });
});
