/** Requests from pages of other origins (rules: Cross-origin requests). */
import { describe, expect, test } from "bun:test";
import { startApi } from "../harness/servers/api-setup.ts";

const APP = "https://app.example.com";
const OTHER = "http://localhost:3000";
const allowed = { "api.allowOrigins": `${APP},${OTHER}` };
const high = { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" };
const asks = { "access-control-request-method": "POST", "access-control-request-headers": "authorization" };

const corsOf = (headers: Headers): string[] =>
  [...headers.keys()].filter((name) => name.startsWith("access-control-")).sort();

describe("by default", () => {
  test("no origin may read a response, and a preflight has no key", async () => {
    const { ask, origin } = await startApi();
    for (const from of [APP, "null", "http://mail.example.test", origin]) {
      const answer = await ask("/mailboxes", { headers: { origin: from } });
      expect([answer.status, corsOf(answer.headers)]).toEqual([200, []]);
      expect(answer.headers.get("vary") ?? "").not.toMatch(/origin/i);
      const headers = { ...asks, origin: from, authorization: "" };
      const preflight = await ask("/mailboxes", { method: "OPTIONS", headers });
      expect([preflight.status, corsOf(preflight.headers)]).toEqual([401, []]);
    }
  });
});

describe("an origin that is listed", () => {
  const PATHS = ["/api/v1/send", "/api/v1/openapi.json", "/api/admin/v1/keys", "/api/mcp"];

  test.each(PATHS)("gets the preflight of %s without a key", async (path) => {
    const { ask } = await startApi({ settings: { ...high, ...allowed } });
    for (const from of [APP, OTHER]) {
      const { status, headers, text } = await ask(path, {
        method: "OPTIONS",
        headers: { ...asks, origin: from, authorization: "" },
      });
      expect([status, text]).toEqual([204, ""]);
      expect(headers.get("access-control-allow-origin")).toBe(from);
      expect(headers.get("access-control-allow-methods")?.split(", ")).toEqual(
        expect.arrayContaining(["GET", "POST", "PATCH", "PUT", "DELETE"]),
      );
      expect(headers.get("access-control-allow-headers")?.split(", ")).toEqual(["authorization", "*"]);
      expect(Number(headers.get("access-control-max-age"))).toBeGreaterThan(600);
      expect(headers.get("access-control-allow-credentials")).toBeNull();
      expect(headers.get("vary")).toMatch(/\borigin\b/);
    }
  });

  test("may read answers and refusals, with their headers, and never sends cookies", async () => {
    const { ask, key } = await startApi({ settings: { ...high, ...allowed } });
    const mcp = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    const accept = { accept: "application/json, text/event-stream" };
    const admin = "/api/admin/v1/people";
    for (const [path, init, expected] of [
      ["/mailboxes", {}, 200],
      ["/threads?limit=0", {}, 400],
      ["/nowhere", {}, 404],
      ["/mailboxes", { headers: { authorization: "Bearer mr_wrong" } }, 401],
      ["/openapi.json", {}, 200],
      [admin, {}, 403],
      ["/api/mcp", { method: "POST", body: mcp, headers: accept }, 200],
    ] as [string, { method?: string; body?: object; headers?: Record<string, string> }, number][]) {
      const { status, headers } = await ask(path, {
        ...init,
        headers: { authorization: `Bearer ${key}`, ...init.headers, origin: APP },
      });
      expect([path, status]).toEqual([path, expected]);
      expect(corsOf(headers)).toEqual(["access-control-allow-origin", "access-control-expose-headers"]);
      expect(headers.get("access-control-allow-origin")).toBe(APP);
      const exposed = headers.get("access-control-expose-headers")?.split(", ") ?? [];
      for (const name of [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
        "x-request-id",
        "etag",
        "idempotency-replayed",
      ]) {
        expect(exposed).toContain(name);
      }
      expect(headers.get("vary")).toMatch(/\borigin\b/);
    }
  });

  test("is given up with the setting", async () => {
    const { ask, set } = await startApi({ settings: { ...high, ...allowed } });
    const read = async () => (await ask("/mailboxes", { headers: { origin: APP } })).headers;
    expect((await read()).get("access-control-allow-origin")).toBe(APP);
    set("api.allowOrigins", "none");
    expect(corsOf(await read())).toEqual([]);
  });
});

describe("an origin that is not listed", () => {
  const others = [
    "https://app.example.com.evil.example",
    "https://evil.example",
    "http://app.example.com",
    "https://app.example.com:8443",
    "https://APP.example.com",
    "https://app.example.com/",
    "null",
    "*",
    "",
  ];

  test("gets no header, and its preflight needs a key as any other request", async () => {
    const { ask } = await startApi({ settings: { ...high, ...allowed } });
    for (const origin of others) {
      const answer = await ask("/mailboxes", { headers: { origin } });
      expect([origin, answer.status, corsOf(answer.headers)]).toEqual([origin, 200, []]);
      expect(answer.headers.get("vary")).toMatch(/\borigin\b/);
      const headers = { ...asks, origin, authorization: "" };
      const preflight = await ask("/mailboxes", { method: "OPTIONS", headers });
      expect([origin, preflight.status, corsOf(preflight.headers)]).toEqual([origin, 401, []]);
    }
  });

  test("responses without an Origin say that they depend on it", async () => {
    const { ask } = await startApi({ settings: { ...high, ...allowed } });
    const { headers } = await ask("/mailboxes");
    expect([corsOf(headers), headers.get("vary")]).toEqual([[], "origin, accept-encoding"]);
  });

  test("of a page that MCP refuses, as before", async () => {
    const { ask } = await startApi({ settings: { ...high, ...allowed } });
    const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    const post = (origin: string) =>
      ask("/api/mcp", {
        method: "POST",
        body: list,
        headers: { accept: "application/json, text/event-stream", origin },
      });
    for (const origin of others) expect([origin, (await post(origin)).status]).toEqual([origin, 403]);
    // A page of this machine may send requests, as programs do, and read nothing.
    const local = await post("http://localhost:6274");
    expect([local.status, corsOf(local.headers)]).toEqual([200, []]);
  });
});

test("an OPTIONS request that is no preflight needs a key", async () => {
  const { ask } = await startApi({ settings: { ...high, ...allowed } });
  const answer = await ask("/mailboxes", { method: "OPTIONS", headers: { origin: APP, authorization: "" } });
  expect(answer.status).toBe(401);
});

test("preflights count against the rate of their source, and those beyond it are refused", async () => {
  const { ask } = await startApi({ settings: { ...allowed, "api.ipRequestsPerMinute": "3" } });
  const preflight = () =>
    ask("/mailboxes", { method: "OPTIONS", headers: { ...asks, origin: APP, authorization: "" } });
  for (const remaining of ["2", "1", "0"]) {
    const { status, headers } = await preflight();
    expect([status, headers.get("x-ratelimit-remaining")]).toEqual([204, remaining]);
  }
  const refused = await preflight();
  expect([refused.status, refused.body.code]).toEqual([429, "rate_limited"]);
  expect(refused.headers.get("access-control-allow-origin")).toBe(APP);
  expect((await ask("/mailboxes")).status).toBe(429);
});
