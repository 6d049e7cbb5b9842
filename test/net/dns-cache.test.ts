import { expect, test } from "bun:test";
import type { DnsResolver } from "../../src/base/runtime.ts";
import { answerWithin, createDnsCache } from "../../src/net/dns-cache.ts";
import { type Zone, zone } from "../harness/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";

function open(description: Zone) {
  const asked: string[] = [];
  const answers = zone(description);
  const counted = Object.entries(answers).map(([method, ask]) => [
    method,
    (name: string) => {
      asked.push(`${method} ${name}`);
      return (ask as (name: string) => Promise<unknown>)(name);
    },
  ]);
  const runtime = fakeRuntime({ dns: Object.fromEntries(counted) as DnsResolver });
  return { cache: createDnsCache(runtime), asked, runtime };
}

test("asks every type, by its method", async () => {
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
    ["TXT", { records: [["one"]] }],
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
  expect(cache.ask("One.Example", "TXT")).toMatchObject({ records: [["v=spf1 -all"]] });
  expect(asked).toEqual(["resolveTxt one.example"]);
});

test.each<[string, Zone, object, number]>([
  ["records", { "one.example": { txt: ["text"] } }, { records: [["text"]] }, 300_000],
  ["no such name", {}, { code: "ENOTFOUND" }, 60_000],
  ["no such records", { "one.example": {} }, { code: "ENODATA" }, 60_000],
  ["a failure", { "one.example": "SERVFAIL" }, { code: "ESERVFAIL" }, 15_000],
  ["a timeout", { "one.example": "silence" }, { code: "ETIMEOUT" }, 15_000],
  ["an answer nobody publishes", { "one.example": { txt: ["x".repeat(100_000)] } }, { code: "EBADRESP" }, 15_000],
])("%s are kept for a while", async (_, description, answer, kept) => {
  const { cache, asked, runtime } = open(description);
  const first = await cache.ask("one.example", "TXT");
  expect(first).toEqual({ ...answer, until: runtime.now() + kept } as never);
  runtime.advanceTo(first.until - 1);
  expect(cache.ask("one.example", "TXT")).toBe(first);
  expect(asked.length).toBe(1);
  runtime.advanceTo(first.until);
  expect(await cache.ask("one.example", "TXT")).toMatchObject(answer);
  expect(asked.length).toBe(2);
});

test("is bounded: the oldest answers go", async () => {
  const many = Array.from({ length: 1_000 }, (_, i) => `n${i}.example`);
  const { cache, asked } = open(Object.fromEntries(many.map((name) => [name, { txt: ["x".repeat(15_000)] }])));
  for (const name of many) await cache.ask(name, "TXT");
  expect(cache.ask("n999.example", "TXT")).not.toBeInstanceOf(Promise);
  expect(cache.ask("n600.example", "TXT")).not.toBeInstanceOf(Promise);
  await cache.ask("n0.example", "TXT");
  expect(asked.length).toBe(1_001);
});

test("a resolver that throws counts as one that fails", async () => {
  const runtime = fakeRuntime({
    dns: {
      resolveTxt() {
        throw new Error("bad name");
      },
    } as unknown as DnsResolver,
  });
  const cache = createDnsCache(runtime);
  expect(await cache.ask("..", "TXT")).toMatchObject({ code: "ESERVFAIL" });
  expect(cache.ask("..", "TXT")).toMatchObject({ code: "ESERVFAIL" });
});

test("waits no longer than told", async () => {
  const runtime = fakeRuntime();
  const given = { records: [], until: runtime.now() + 1 };
  const timeout = { code: "ETIMEOUT", until: 0 };
  const late = answerWithin(new Promise(() => {}), 5_000, runtime);
  const early = answerWithin(Promise.resolve(given), 5_000, runtime);
  expect(await early).toBe(given);
  runtime.advanceTo(runtime.now() + 5_000);
  expect(await late).toEqual(timeout);
  expect(await answerWithin(Promise.resolve(given), 0, runtime)).toEqual(timeout);
  expect(runtime.nextTimer()).toBeUndefined();
});
