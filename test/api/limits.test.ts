/** Request rates over HTTP (rules: Request rates, Rate headers). */
import { expect, test } from "bun:test";
import { type Answer, startApi } from "../harness/api-setup.ts";

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
