/** Compression of JSON (rules: Compression). */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { compressJson } from "../../src/api/compression.ts";
import { startApi, type TestApi } from "../harness/servers/api-setup.ts";

interface Received {
  headers: Headers;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Asks without an Accept-Encoding of the client's own, and leaves the body as it comes. */
async function receive(api: TestApi, path: string, encodings: string, init: RequestInit = {}): Promise<Received> {
  const response = await fetch(api.origin + path, {
    ...init,
    headers: {
      authorization: `Bearer ${api.key}`,
      "accept-encoding": encodings,
      ...(init.headers as Record<string, string>),
    },
    decompress: false,
  } as RequestInit);
  return { headers: response.headers, bytes: await response.bytes() };
}

function unpacked({ headers, bytes }: Received): string {
  const encoding = headers.get("content-encoding");
  const plain =
    encoding === "gzip" ? Bun.gunzipSync(bytes) : encoding === "zstd" ? Bun.zstdDecompressSync(bytes) : bytes;
  return new TextDecoder().decode(plain);
}

/** Files a message with a text of about this many characters. Returns the path at which to read it. */
async function fileText(api: TestApi, length: number): Promise<string> {
  const line = "Lunch on Friday, and the figures of the last quarter.";
  const text = Array.from({ length: Math.ceil(length / (line.length + 1)) }, (_, i) => `${line}${i}`).join("\n");
  const message = `From: ada@example.net\nTo: olga@example.test\nSubject: Text\nMessage-ID: <${length}@x>\n\n${text}`;
  return `/api/v1/messages/${(await api.file(message)).messageId}`;
}

const DOCUMENT = "/api/v1/openapi.json";

describe("the encoding", () => {
  const table: [encodings: string, encoding: string | null][] = [
    ["gzip", "gzip"],
    ["GZIP", "gzip"],
    ["zstd", "zstd"],
    ["gzip, deflate, br, zstd", "zstd"],
    ["gzip;q=1, zstd;q=0.5", "gzip"],
    ["gzip;q=0.001", "gzip"],
    ["*", "zstd"],
    ["zstd;q=0, *", "gzip"],
    ["identity;q=0, gzip;q=0.1", "gzip"],
    ["", null],
    ["identity", null],
    ["br, deflate", null],
    ["gzip;q=0", null],
    ["*;q=0", null],
    ["gzip;q=0.5, identity", null],
    ["gzip;q=x", null],
    [";q=1,,", null],
  ];
  test("is the one that the client likes best, or none", async () => {
    const api = await startApi();
    const whole = await (await fetch(api.origin + DOCUMENT)).text();
    for (const [encodings, encoding] of table) {
      const received = await receive(api, DOCUMENT, encodings);
      expect([encodings, received.headers.get("content-encoding")]).toEqual([encodings, encoding]);
      expect(unpacked(received)).toBe(whole);
      expect(received.headers.get("vary")).toBe("accept-encoding");
      expect(received.headers.get("content-length")).toBe(String(received.bytes.length));
      if (encoding) expect(received.bytes.length).toBeLessThan(whole.length / 3);
    }
  });

  test("is none without Accept-Encoding", async () => {
    const { raw } = await startApi();
    const answer = await raw(`GET ${DOCUMENT} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 200 [\s\S]*\r\nvary: accept-encoding\r\n[\s\S]*\r\n\r\n\{"openapi"/i);
    expect(answer).not.toMatch(/content-encoding/i);
  });
});

test("of JSON up to 1 kB is none, unless the client takes nothing but compressed bodies", async () => {
  const api = await startApi();
  const sizes = { "/api/v1/mailboxes": [1, 1_024], [await fileText(api, 1_000)]: [1_025, 2_500] } as const;
  for (const [path, [least, most]] of Object.entries(sizes)) {
    const plain = await receive(api, path, "identity");
    expect(plain.bytes.length).toBeWithin(least, most + 1);
    const received = await receive(api, path, "gzip");
    expect(received.headers.get("content-encoding")).toBe(most > 1_024 ? "gzip" : null);
    expect(unpacked(received)).toBe(unpacked(plain));
    expect((await receive(api, path, "gzip, identity;q=0")).headers.get("content-encoding")).toBe("gzip");
  }
});

/** Compresses a JSON string of `length` random characters. `turned`: other work could be done meanwhile. */
async function compressLong(length: number, encoding: string) {
  const text = JSON.stringify(randomBytes(length / 2).toString("hex"));
  const request = new Request("http://localhost/", { headers: { "accept-encoding": encoding } });
  let turned = false;
  setImmediate(() => {
    turned = true;
  });
  const response = await compressJson(
    request,
    new Response(text, { status: 202, headers: { "content-type": "application/json", "x-other": "kept" } }),
  );
  const returned = turned;
  expect([response.status, response.headers.get("x-other")]).toEqual([202, "kept"]);
  const received = { headers: response.headers, bytes: await response.bytes() };
  expect(unpacked(received)).toBe(text);
  return { encoding: received.headers.get("content-encoding"), turned: returned };
}

test.each(["gzip", "zstd"])("of a long body leaves the main thread free (%s)", async (encoding) => {
  expect(await compressLong(30_000, encoding)).toEqual({ encoding, turned: false });
  expect(await compressLong(4_000_000, encoding)).toEqual({ encoding, turned: true });
});

test("of more than 8 MB is none", async () => {
  expect((await compressLong(8 * 1_048_576, "gzip")).encoding).toBeNull();
});

test("is for MCP as well", async () => {
  const api = await startApi();
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  const received = await receive(api, "/api/mcp", "gzip", {
    method: "POST",
    body: JSON.stringify(list),
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
  });
  expect(received.headers.get("content-encoding")).toBe("gzip");
  expect(JSON.parse(unpacked(received)).result.tools).toBeArray();
});

describe("there is none", () => {
  test("for HEAD, and for what is not JSON", async () => {
    const api = await startApi();
    const message = await fileText(api, 5_000);
    const head = await receive(api, DOCUMENT, "gzip", { method: "HEAD" });
    const raw = await receive(api, `${message}/raw`, "gzip, zstd");
    for (const { headers } of [head, raw]) expect(headers.get("content-encoding")).toBeNull();
    expect(head.headers.get("vary")).toBe("accept-encoding");
    expect(unpacked(raw)).toContain("Lunch on Friday");
  });

  test("for an attachment, even of JSON", async () => {
    const api = await startApi();
    const json = JSON.stringify({ list: Array.from({ length: 500 }, (_, i) => i) });
    const { messageId } = await api.file(
      `From: ada@example.net\nTo: olga@example.test\nSubject: File\nMessage-ID: <f@x>\nMIME-Version: 1.0\nContent-Type: application/json; name=list.json\nContent-Disposition: attachment; filename=list.json\n\n${json}\n`,
    );
    const { message } = (await api.ask(`/messages/${messageId}`)).body as {
      message: { attachments: { url: string }[] };
    };
    const received = await receive(api, message.attachments[0]?.url ?? "", "gzip, zstd");
    expect(received.headers.get("content-type")).toBe("application/json");
    expect(received.headers.get("content-encoding")).toBeNull();
    expect(JSON.parse(unpacked(received))).toEqual(JSON.parse(json));
  });

  test("for a stream of MCP", async () => {
    const api = await startApi();
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const params = { _meta: meta, notifications: { toolsListChanged: true } };
    const answer = await fetch(`${api.origin}/api/mcp`, {
      method: "POST",
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params }),
      headers: {
        authorization: `Bearer ${api.key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "accept-encoding": "gzip, identity;q=0",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
      },
      decompress: false,
    } as RequestInit);
    expect(answer.headers.get("content-type")).toBe("text/event-stream");
    expect(answer.headers.get("content-encoding")).toBeNull();
    await answer.body?.cancel();
  });

  test("for the answer that shows a secret", async () => {
    const api = await startApi();
    const authorization = `Bearer ${api.keyOf("olga", ["admin", "read", "send", "write"])}`;
    const post = (path: string, body: object) =>
      receive(api, `/api/admin/v1${path}`, "gzip, zstd, identity;q=0", {
        method: "POST",
        body: JSON.stringify(body),
        headers: { authorization, "content-type": "application/json" },
      });
    const key = await post("/keys", { name: "k".repeat(60), scopes: ["read"] });
    const webhook = await post("/webhooks", {
      url: `https://example.net/${"h".repeat(1_200)}`,
      events: ["message.inbound"],
    });
    const { id } = JSON.parse(unpacked(webhook));
    const rotated = await post(`/webhooks/${id}/secret`, { overlapHours: 1 });
    for (const [received, field, value] of [
      [key, "key", /^mr_/],
      [webhook, "secret", /^whsec_/],
      [rotated, "secret", /^whsec_/],
    ] as const) {
      expect(received.headers.get("content-encoding")).toBeNull();
      expect(JSON.parse(new TextDecoder().decode(received.bytes))[field]).toMatch(value);
    }
    expect(webhook.bytes.length).toBeGreaterThan(1_024);
    const listed = await receive(api, "/api/admin/v1/webhooks", "gzip", { headers: { authorization } });
    expect(listed.headers.get("content-encoding")).toBe("gzip");
    expect(unpacked(listed)).not.toContain("whsec_");
  });
});
