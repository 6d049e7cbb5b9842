/** Request rates over HTTP (rules: Request rates, Rate headers). */
import { describe, expect, test } from "bun:test";
import { type Answer, startApi } from "../harness/servers/api-setup.ts";

const PROXY = { trustedProxies: ["127.0.0.1"] };
const from = (address: string) => ({ headers: { "x-forwarded-for": address } });
const rateOf = ({ headers }: Answer) => [headers.get("x-ratelimit-limit"), headers.get("x-ratelimit-remaining")];

test("by default, a key has 120 requests a minute and a source 60", async () => {
  const { ask } = await startApi({ ...PROXY, settings: {} });
  expect(rateOf(await ask("/mailboxes", from("192.0.2.1")))).toEqual(["120", "119"]);
  expect(rateOf(await ask("/nowhere", from("192.0.2.1")))).toEqual(["120", "118"]);
  expect(rateOf(await ask("/threads?limit=0", from("192.0.2.2")))).toEqual(["120", "117"]);
  const unknown = { headers: { authorization: "Bearer nobody", "x-forwarded-for": "192.0.2.1" } };
  expect(rateOf(await ask("/mailboxes", unknown))).toEqual(["60", "57"]);
  expect(rateOf(await ask("/openapi.json", from("192.0.2.1")))).toEqual(["60", "56"]);
});

test("a source over its rate gets 429 before its key is read, until the cooldown ends", async () => {
  const { ask, set, runtime } = await startApi({ ...PROXY, settings: { "api.ipRequestsPerMinute": "2" } });
  const source = from("192.0.2.1");
  await ask("/mailboxes", source);
  await ask("/mailboxes", source);
  for (const path of ["/mailboxes", "/nowhere", "/openapi.json", "/threads?limit=0"]) {
    const refused = await ask(path, source);
    expect([refused.status, refused.body.code, ...rateOf(refused)]).toEqual([429, "rate_limited", "2", "0"]);
    expect(refused.headers.get("retry-after")).toBe("60");
    expect(refused.body.error).toMatch(/2 requests a minute from this address.*60 seconds/);
  }
  const wrongKey = { headers: { "x-forwarded-for": "192.0.2.1", authorization: "Bearer nobody" } };
  expect((await ask("/mailboxes", wrongKey)).status).toBe(429);
  expect((await ask("/mailboxes", from("192.0.2.2"))).status).toBe(200);

  runtime.advanceTo(runtime.now() + 59_001);
  expect((await ask("/mailboxes", source)).headers.get("retry-after")).toBe("1");
  runtime.advanceTo(runtime.now() + 999);
  expect((await ask("/mailboxes", source)).status).toBe(200);

  set("api.ipRequestsPerMinute", "5");
  const [limit] = rateOf(await ask("/mailboxes", { headers: { ...source.headers, authorization: "" } }));
  expect(limit).toBe("5");
});

test("a key over its rate gets 429 from every source, and other keys do not", async () => {
  const settings = { "api.keyRequestsPerMinute": "3", "api.cooldownSeconds": "1.5" };
  const { ask, keyOf, runtime } = await startApi({ ...PROXY, settings });
  for (const [i, remaining] of ["2", "1", "0"].entries()) {
    expect(rateOf(await ask("/mailboxes", from(`192.0.2.${i}`)))).toEqual(["3", remaining]);
  }
  const refused = await ask("/nowhere", from("192.0.2.9"));
  expect([refused.status, refused.body.code, ...rateOf(refused)]).toEqual([429, "rate_limited", "3", "0"]);
  expect(refused.headers.get("retry-after")).toBe("2");
  expect(refused.body.error).toMatch(/3 requests a minute with this API key/);
  expect((await ask("/mailboxes", { headers: { authorization: `Bearer ${keyOf("max")}` } })).status).toBe(200);
  runtime.advanceTo(runtime.now() + 1_500);
  expect(rateOf(await ask("/mailboxes", from("192.0.2.9")))).toEqual(["3", "2"]);
});

test("an IPv6 source is its /64, and a client cannot choose its source", async () => {
  const trusted = await startApi({ ...PROXY, settings: { "api.ipRequestsPerMinute": "1" } });
  expect((await trusted.ask("/mailboxes", from("2001:db8:1:2::1"))).status).toBe(200);
  expect((await trusted.ask("/mailboxes", from("2001:db8:1:2:ffff::1"))).status).toBe(429);
  expect((await trusted.ask("/mailboxes", from("2001:db8:1:3::1"))).status).toBe(200);

  const open = await startApi({ settings: { "api.ipRequestsPerMinute": "1" } });
  expect((await open.ask("/mailboxes", from("192.0.2.1"))).status).toBe(200);
  expect((await open.ask("/mailboxes", from("192.0.2.2"))).status).toBe(429);
});

/** The headers of draft-ietf-httpapi-ratelimit-headers. */
const standardOf = ({ headers }: Answer) => [headers.get("ratelimit-policy"), headers.get("ratelimit")];

describe("RateLimit and RateLimit-Policy", () => {
  test("tell the rate of the source where that leaves less, and X-RateLimit that of the key", async () => {
    const { ask, runtime } = await startApi({ ...PROXY, settings: {} });
    const source = from("192.0.2.1");
    const first = await ask("/mailboxes", source);
    expect(standardOf(first)).toEqual(['"source";q=60;w=60', '"source";r=59;t=60']);
    expect(rateOf(first)).toEqual(["120", "119"]);
    runtime.advanceTo(runtime.now() + 17_001);
    const later = await ask("/threads?limit=0", source);
    expect([later.status, ...standardOf(later)]).toEqual([400, '"source";q=60;w=60', '"source";r=58;t=43']);
    const unknown = await ask("/mailboxes", { headers: { ...source.headers, authorization: "Bearer nobody" } });
    expect([unknown.status, ...standardOf(unknown)]).toEqual([401, '"source";q=60;w=60', '"source";r=57;t=43']);
    const document = await ask("/openapi.json", { headers: { ...source.headers, authorization: "" } });
    expect(standardOf(document)).toEqual(['"source";q=60;w=60', '"source";r=56;t=43']);
  });

  test("tell the rate of the key where that leaves less, or as little for longer", async () => {
    const settings = { "api.ipRequestsPerMinute": "3", "api.keyRequestsPerMinute": "2" };
    const { ask, runtime } = await startApi({ ...PROXY, settings });
    const first = await ask("/mailboxes", from("192.0.2.1"));
    expect(standardOf(first)).toEqual(['"key";q=2;w=60', '"key";r=1;t=60']);
    runtime.advanceTo(runtime.now() + 10_000);
    const second = await ask("/mailboxes", from("192.0.2.1"));
    expect(standardOf(second)).toEqual(['"key";q=2;w=60', '"key";r=0;t=50']);
    const refused = await ask("/mailboxes", from("192.0.2.1"));
    expect([refused.status, ...standardOf(refused)]).toEqual([429, '"key";q=2;w=60', '"key";r=0;t=60']);
    expect(refused.headers.get("retry-after")).toBe("60");
    // Now the source as well, which has the longer wait.
    runtime.advanceTo(runtime.now() + 5_000);
    const both = await ask("/mailboxes", from("192.0.2.1"));
    expect([both.status, ...standardOf(both)]).toEqual([429, '"source";q=3;w=60', '"source";r=0;t=60']);
    expect(both.headers.get("retry-after")).toBe("60");
  });

  test("tell over MCP, where a refusal is a result, the longer of both waits", async () => {
    const settings = { "api.ipRequestsPerMinute": "2", "api.keyRequestsPerMinute": "1" };
    const { ask, runtime } = await startApi({ ...PROXY, settings });
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_mailboxes", arguments: {} } };
    const headers = { accept: "application/json, text/event-stream", "x-forwarded-for": "192.0.2.1" };
    const post = () => ask("/api/mcp", { method: "POST", body: call, headers });
    expect(standardOf(await post())).toEqual(['"key";q=1;w=60', '"key";r=0;t=60']);
    await post();
    runtime.advanceTo(runtime.now() + 20_000);
    const both = await post();
    expect([both.status, ...standardOf(both)]).toEqual([200, '"source";q=2;w=60', '"source";r=0;t=60']);
    expect(both.headers.get("retry-after")).toBe("60");
    expect(rateOf(both)).toEqual(["1", "0"]);
  });
});
