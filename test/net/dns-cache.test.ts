import { expect, test } from "bun:test";
import { answerWithin, createDnsCache } from "../../src/net/dns-cache.ts";
import { type Habits, type Zone, zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";

function open(description: Zone, habits?: Habits) {
  const dns = zone(description, habits);
  const runtime = fakeRuntime({ dns });
  return { cache: createDnsCache(runtime), asked: dns.questions, runtime };
}

test("asks every type", async () => {
  const { cache, asked } = open({
    "all.example": {
      txt: ["one"],
      a: ["192.0.2.1"],
      aaaa: ["2001:db8::1"],
      mx: [[10, "mx.example"]],
      ptr: ["p.example"],
    },
    "alias.example": { cname: "all.example" },
  });
  const answers: [string, unknown][] = [];
  for (const type of ["TXT", "A", "AAAA", "MX", "PTR"] as const)
    answers.push([type, await cache.ask("all.example", type)]);
  expect(answers).toMatchObject([
    ["TXT", { records: ["one"] }],
    ["A", { records: ["192.0.2.1"] }],
    ["AAAA", { records: ["2001:db8::1"] }],
    ["MX", { records: [{ priority: 10, exchange: "mx.example" }] }],
    ["PTR", { records: ["p.example"] }],
  ]);
  expect(await cache.ask("alias.example", "CNAME")).toMatchObject({ records: ["all.example"] });
  expect(asked.length).toBe(6);
});

test("an answer from when the clock was ahead is not kept for as long as it was ahead", async () => {
  const { cache, asked, runtime } = open({ "one.example": { txt: ["text"] } });
  runtime.setBy(86_400_000);
  await cache.ask("one.example", "TXT");
  runtime.setBy(-86_400_000);
  await cache.ask("one.example", "TXT");
  expect(asked).toHaveLength(2);
  await cache.ask("one.example", "TXT");
  expect(asked).toHaveLength(2);
});

test("asks once for all callers, whatever the case, and then answers at once", async () => {
  const { cache, asked } = open({ "one.example": { txt: ["v=spf1 -all"] } });
  const [first, second] = [cache.ask("one.example", "TXT"), cache.ask("ONE.example", "TXT")];
  expect(await first).toEqual(await second);
  expect(cache.ask("One.Example", "TXT")).toMatchObject({ records: ["v=spf1 -all"] });
  expect(asked).toEqual(["txt one.example"]);
});

const TEXT = { txt: ["text"] };
const KEPT: [string, Zone, Habits, object, number][] = [
  ["records", { "one.example": { ...TEXT, ttl: 300 } }, {}, { records: ["text"] }, 300_000],
  ["records, ten seconds at least", { "one.example": { ...TEXT, ttl: 0 } }, {}, { records: ["text"] }, 10_000],
  ["records, a day at most", { "one.example": { ...TEXT, ttl: 604_800 } }, {}, { records: ["text"] }, 86_400_000],
  ["records whose TTL is too large", { "one.example": { ...TEXT, ttl: 2 ** 31 } }, {}, { records: ["text"] }, 10_000],
  [
    "records behind an alias that changes soon",
    { "one.example": { cname: "two.example", ttl: 20 }, "two.example": TEXT },
    {},
    { records: ["text"] },
    20_000,
  ],
  ["no such name", {}, { absence: 900 }, { code: "ENOTFOUND" }, 900_000],
  ["no such records", { "one.example": {} }, { absence: 900 }, { code: "ENODATA" }, 900_000],
  ["an absence, ten seconds at least", {}, { absence: 1 }, { code: "ENOTFOUND" }, 10_000],
  ["an absence, a day at most", {}, { absence: 604_800 }, { code: "ENOTFOUND" }, 86_400_000],
  ["an absence without a time", {}, { absence: "none" }, { code: "ENOTFOUND" }, 10_000],
  ["a failure", { "one.example": "SERVFAIL" }, {}, { code: "ESERVFAIL" }, 15_000],
  ["a timeout", { "one.example": "silence" }, {}, { code: "ETIMEOUT" }, 15_000],
  ["an answer nobody publishes", { "one.example": { txt: ["x".repeat(60_000)] } }, {}, { code: "EBADRESP" }, 15_000],
];
test.each(KEPT)("%s: kept for a while", async (_, description, habits, answer, kept) => {
  const { cache, asked, runtime } = open(description, habits);
  const first = await cache.ask("one.example", "TXT");
  expect(first).toEqual({ ...answer, from: runtime.now(), until: runtime.now() + kept } as never);
  const once = asked.length;
  runtime.advanceTo(first.until - 1);
  expect(cache.ask("one.example", "TXT")).toBe(first);
  expect(asked.length).toBe(once);
  runtime.advanceTo(first.until);
  expect(await cache.ask("one.example", "TXT")).toMatchObject(answer);
  expect(asked.length).toBeGreaterThan(once);
});

test("is bounded: the oldest answers go", async () => {
  const many = Array.from({ length: 1_000 }, (_, i) => `n${i}.example`);
  const { cache, asked } = open(Object.fromEntries(many.map((name) => [name, { txt: ["x".repeat(15_000)] }])));
  for (const name of many) await cache.ask(name, "TXT");
  const before = asked.length;
  expect(cache.ask("n999.example", "TXT")).not.toBeInstanceOf(Promise);
  expect(cache.ask("n600.example", "TXT")).not.toBeInstanceOf(Promise);
  await cache.ask("n0.example", "TXT");
  expect(asked.length).toBeGreaterThan(before);
});

test("a name that DNS cannot have is an answer, too", async () => {
  const { cache } = open({});
  expect(await cache.ask("..", "TXT")).toMatchObject({ code: "EBADNAME" });
  expect(cache.ask("..", "TXT")).toMatchObject({ code: "EBADNAME" });
});

test("waits no longer than told", async () => {
  const runtime = fakeRuntime();
  const given = { records: [], from: runtime.now(), until: runtime.now() + 1 };
  const timeout = { code: "ETIMEOUT", from: 0, until: 0 };
  const late = answerWithin(new Promise(() => {}), 5_000, runtime);
  const early = answerWithin(Promise.resolve(given), 5_000, runtime);
  expect(await early).toBe(given);
  runtime.advanceTo(runtime.now() + 5_000);
  expect(await late).toEqual(timeout);
  expect(await answerWithin(Promise.resolve(given), 0, runtime)).toEqual(timeout);
  expect(runtime.nextTimer()).toBeUndefined();
});
