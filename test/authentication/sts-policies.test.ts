/** Policies of other domains: when they are fetched, how long they hold, and where from they are taken. */
import { afterEach, describe, expect, test } from "bun:test";
import { createPolicyFetcher, createStsPolicies } from "../../src/authentication/sts-policies.ts";
import { openHttpClient } from "../../src/net/http-client.ts";
import { openStore } from "../../src/store/store.ts";
import { type Zone, zone } from "../harness/dns-server.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { testLog } from "../harness/mx-rig.ts";
import { makePair } from "../harness/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const record = (id: string) => ({ txt: [`v=STSv1; id=${id}`] });
const policy = (mode: string, days = 7) =>
  `version: STSv1\nmode: ${mode}\nmx: mx.remote.example\nmax_age: ${days * 86_400}\n`;

function setUp(texts: (string | Error)[], folder = temporaryFolder()) {
  const records: Zone = { "_mta-sts.remote.example": record("1") };
  const runtime = fakeRuntime({ dns: zone(records) });
  const store = openStore({ folder, runtime });
  closers.push(() => store.close());
  const { log, lines } = testLog(runtime);
  const fetched: string[] = [];
  const fetcher = {
    async fetch(domain: string) {
      fetched.push(domain);
      const text = texts.length > 1 ? texts.shift() : texts[0];
      if (typeof text !== "string") throw text;
      return text;
    },
    close() {},
  };
  const policies = createStsPolicies({ store, runtime, log, fetcher });
  return {
    ...{ records, fetched, lines, store, runtime },
    mode: async () => (await policies.policyFor("remote.example"))?.mode,
    after: (ms: number) => runtime.advanceTo(runtime.now() + ms),
    policies,
  };
}

describe("a policy", () => {
  test("is not asked for where no record says that there is one", async () => {
    const { records, mode, fetched } = setUp([policy("enforce")]);
    for (const found of [{ txt: ["v=spf1 -all"] }, "SERVFAIL", undefined] as const) {
      if (found === undefined) delete records["_mta-sts.remote.example"];
      else records["_mta-sts.remote.example"] = found;
      expect(await mode()).toBeUndefined();
    }
    expect(fetched).toEqual([]);
  });

  test("is fetched once for all who ask at a time, and again only with another id or a day later", async () => {
    const { records, mode, fetched, after, policies } = setUp([
      policy("enforce"),
      policy("testing"),
      policy("enforce"),
    ]);
    const all = await Promise.all([policies.policyFor("remote.example"), policies.policyFor("remote.example")]);
    expect(all.map((one) => one?.mode)).toEqual(["enforce", "enforce"]);
    after(DAY_MS - 1);
    expect(await mode()).toBe("enforce");
    expect(fetched).toHaveLength(1);
    records["_mta-sts.remote.example"] = record("2");
    expect(await mode()).toBe("testing");
    expect(fetched).toHaveLength(2);
    after(DAY_MS);
    expect(await mode()).toBe("enforce");
    expect(fetched).toHaveLength(3);
  });

  test("holds without its record, without its server and over a restart, until it runs out", async () => {
    const folder = temporaryFolder();
    const first = setUp([policy("enforce", 3), new Error("gone")], folder);
    expect(await first.mode()).toBe("enforce");
    first.after(2 * DAY_MS);
    expect(await first.mode()).toBe("enforce");
    expect(first.lines.at(-1)).toMatchObject({ level: "warn", domain: "remote.example", reason: "gone", kept: true });
    delete first.records["_mta-sts.remote.example"];
    const second = setUp([new Error("gone")], folder);
    second.after(3 * DAY_MS - 1);
    expect(await second.mode()).toBe("enforce");
    second.after(1);
    expect(await second.mode()).toBeUndefined();
  });

  test("that cannot be had is asked for again after five minutes, not before", async () => {
    const { mode, fetched, after } = setUp([new Error("away"), "version: nonsense", policy("testing")]);
    expect(await mode()).toBeUndefined();
    after(5 * MINUTE_MS - 1);
    expect(await mode()).toBeUndefined();
    expect(fetched).toHaveLength(1);
    after(1);
    expect(await mode()).toBeUndefined();
    after(5 * MINUTE_MS);
    expect(await mode()).toBe("testing");
    expect(fetched).toHaveLength(3);
  });

  test("is asked for again when the clock was set back since it could not be had", async () => {
    const { mode, after } = setUp([new Error("away"), policy("testing")]);
    after(DAY_MS);
    expect(await mode()).toBeUndefined();
    after(-DAY_MS);
    expect(await mode()).toBe("testing");
  });

  test("that has run out leaves the table when another comes", async () => {
    const { store, policies, records, after, mode } = setUp([policy("enforce", 1)]);
    records["_mta-sts.other.example"] = record("1");
    await policies.policyFor("other.example");
    after(2 * DAY_MS);
    await mode();
    const rows = store.db.$client.query("SELECT domain FROM mta_sts_policies").all();
    expect(rows).toEqual([{ domain: "remote.example" }]);
  });
});

describe("is fetched over HTTPS", () => {
  const pairs = { right: makePair("mta-sts.remote.example"), other: makePair("elsewhere.example") };

  async function fetchFrom(
    answer: (request: Request) => Response,
    { pair = "right", allow = ["127.0.0.0/8"] }: { pair?: keyof typeof pairs; allow?: string[] } = {},
  ) {
    const { cert, key } = await pairs[pair];
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, tls: { cert, key }, fetch: answer });
    closers.push(() => void server.stop(true));
    const dns = zone({ "mta-sts.remote.example": { a: ["127.0.0.1"] } });
    const runtime = fakeRuntime({ dns, authorities: [cert] });
    const http = openHttpClient({ runtime, allow: () => allow });
    closers.push(http.close);
    return createPolicyFetcher(http, server.port).fetch("remote.example");
  }
  const plain = { headers: { "content-type": "text/plain; charset=utf-8" } };

  test("from its place", async () => {
    const asked: string[] = [];
    const text = await fetchFrom(({ url }) => {
      asked.push(new URL(url).pathname);
      return new Response(policy("enforce"), plain);
    });
    expect([text, asked]).toEqual([policy("enforce"), ["/.well-known/mta-sts.txt"]]);
  });

  test.each([
    ["a redirect", () => Response.redirect("https://elsewhere.example/", 302), "answers 302"],
    ["an error", () => new Response("no", { ...plain, status: 500 }), "answers 500"],
    ["a page", () => new Response("<p>", { headers: { "content-type": "text/html" } }), "not text/plain"],
    ["too much", () => new Response("x".repeat(70_000), plain), "larger"],
  ])("%s is none", async (_, answer, reason) => {
    await expect(fetchFrom(answer)).rejects.toThrow(reason);
  });

  test("a certificate for another name is none, and neither is a private address", async () => {
    const answer = () => new Response(policy("enforce"), plain);
    await expect(fetchFrom(answer, { pair: "other" })).rejects.toThrow();
    await expect(fetchFrom(answer, { allow: [] })).rejects.toThrow("public");
  });
});
