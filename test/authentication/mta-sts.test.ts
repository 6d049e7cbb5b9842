/** MTA-STS: the texts, and the policies of other domains: their fetching and their lifetime. */
import { afterEach, describe, expect, test } from "bun:test";
import {
  createStsPolicies,
  fetchStsPolicy,
  isHostInStsPolicy,
  readStsPolicy,
  readStsRecord,
  type StsPolicy,
  writeStsPolicy,
  writeStsRecord,
} from "../../src/authentication/mta-sts.ts";
import { type HttpClient, openHttpClient } from "../../src/net/http-client.ts";
import { openStore } from "../../src/store/store.ts";
import { newDataFolder } from "../harness/data/database.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";
import { testLog } from "../harness/servers/mx-rig.ts";

describe("the record", () => {
  test.each([
    [["v=STSv1; id=20160831085700Z;"], "20160831085700Z"],
    [["v=STSv1;id=a"], "a"],
    [["v=spf1 -all", "v=STSv1; id=1; other=x"], "1"],
    [["v=STSv1; id=1", "v=STSv1; id=2"], undefined],
    [["v=STSv1; id=has-dash"], undefined],
    [[`v=STSv1; id=${"1".repeat(33)}`], undefined],
    [["v=STSv1"], undefined],
    [["v=STSv12; id=1"], undefined],
    [["id=1; v=STSv1"], undefined],
    [[], undefined],
  ])("%j gives the id %p", (texts, id) => {
    expect(readStsRecord(texts)).toBe(id as string);
  });
});

describe("the policy", () => {
  test("is read, with any further fields and line ends", () => {
    const text =
      "version: STSv1\r\nmode:enforce\r\nmx: Mail.Example.com \r\nmx: *.example.net\r\nmax_age: 86400\r\nnew-field: x\r\n";
    const policy = { mode: "enforce", mx: ["mail.example.com", "*.example.net"], maxAgeSeconds: 86400 } as const;
    expect(readStsPolicy(text)).toEqual(policy);
    expect(readStsPolicy(`${text.replaceAll("\r", "")}mode: none\nmax_age: 1`)).toEqual(policy);
    expect(readStsPolicy("version: STSv1\nmode: none\nmax_age: 0")).toEqual({ mode: "none", mx: [], maxAgeSeconds: 0 });
  });

  test.each([
    ["", "version"],
    ["version: STSv2\nmode: none\nmax_age: 1", "version"],
    ["version: STSv1\nmax_age: 1", "mode"],
    ["version: STSv1\nmode: strict\nmx: a.b\nmax_age: 1", "mode"],
    ["version: STSv1\nmode: enforce\nmax_age: 1", "mx"],
    ["version: STSv1\nmode: testing\nmx: a.b", "max_age"],
    ["version: STSv1\nmode: testing\nmx: a.b\nmax_age: soon", "max_age"],
    ["version: STSv1\nmode: testing\nmx: a.b\nmax_age: 31557601", "max_age"],
    ["<html>version: STSv1</html>", "version"],
  ])("%j is not a policy", (text, what) => {
    expect(() => readStsPolicy(text)).toThrow(what);
  });

  test("is written as it is read, under a record whose id changes with it", () => {
    const policy: StsPolicy = { mode: "enforce", mx: ["mail.example.com"], maxAgeSeconds: 604_800 };
    const text = writeStsPolicy(policy);
    expect(readStsPolicy(text)).toEqual(policy);
    const other = writeStsPolicy({ ...policy, mode: "none" });
    expect(readStsPolicy(other)).toEqual({ ...policy, mode: "none", mx: [] });
    const ids = [text, text, other].map((one) => readStsRecord([writeStsRecord(one)]));
    expect(ids[0]).toMatch(/^[0-9a-f]{20}$/);
    expect([ids[1] === ids[0], ids[2] === ids[0]]).toEqual([true, false]);
  });

  test.each([
    ["mail.example.com", true],
    ["a.example.net", true],
    ["a.b.example.net", false],
    ["example.net", false],
    ["xmail.example.com", false],
    ["net", false],
  ])("names %s: %p", (host, isNamed) => {
    expect(
      isHostInStsPolicy({ mode: "enforce", mx: ["mail.example.com", "*.example.net"], maxAgeSeconds: 1 }, host),
    ).toBe(isNamed);
  });
});

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const record = (id: string) => ({ txt: [`v=STSv1; id=${id}`] });
const policy = (mode: string, days = 7) =>
  `version: STSv1\nmode: ${mode}\nmx: mx.remote.example\nmax_age: ${days * 86_400}\n`;

function setUp(texts: (string | Error)[], folder = newDataFolder()) {
  const records: Zone = { "_mta-sts.remote.example": record("1") };
  const runtime = fakeRuntime({ dns: zone(records) });
  const store = openStore({ folder, runtime });
  closers.push(() => store.close());
  const { log, lines } = testLog(runtime);
  const fetched: string[] = [];
  async function fetchText(domain: string): Promise<string> {
    fetched.push(domain);
    const text = texts.length > 1 ? texts.shift() : texts[0];
    if (typeof text !== "string") throw text;
    return text;
  }
  const policyFor = createStsPolicies({ ...coreOver(store, runtime), log }, fetchText);
  return {
    records,
    fetched,
    lines,
    store,
    runtime,
    policyFor,
    mode: async () => (await policyFor("remote.example"))?.mode,
    after: (ms: number) => runtime.advanceTo(runtime.now() + ms),
  };
}

describe("a policy", () => {
  test("is not fetched without a record", async () => {
    const { records, mode, fetched } = setUp([policy("enforce")]);
    for (const found of [{ txt: ["v=spf1 -all"] }, "SERVFAIL", undefined] as const) {
      if (found === undefined) delete records["_mta-sts.remote.example"];
      else records["_mta-sts.remote.example"] = found;
      expect(await mode()).toBeUndefined();
    }
    expect(fetched).toEqual([]);
  });

  test("is fetched once for concurrent look-ups, and again only with another id or a day later", async () => {
    const { records, mode, fetched, after, policyFor } = setUp([
      policy("enforce"),
      policy("testing"),
      policy("enforce"),
    ]);
    const all = await Promise.all([policyFor("remote.example"), policyFor("remote.example")]);
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
    const folder = newDataFolder();
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

  test("that cannot be fetched is fetched again after five minutes, not before", async () => {
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

  test("that could not be fetched is fetched again when the clock was set back since", async () => {
    const { mode, after } = setUp([new Error("away"), policy("testing")]);
    after(DAY_MS);
    expect(await mode()).toBeUndefined();
    after(-DAY_MS);
    expect(await mode()).toBe("testing");
  });

  test("that has run out leaves the table when another is stored", async () => {
    const { store, policyFor, records, after, mode } = setUp([policy("enforce", 1)]);
    records["_mta-sts.other.example"] = record("1");
    await policyFor("other.example");
    after(2 * DAY_MS);
    await mode();
    const rows = store.db.$client.query("SELECT domain FROM mta_sts_policies").all();
    expect(rows).toEqual([{ domain: "remote.example" }]);
  });
});

describe("a policy is fetched over HTTPS", () => {
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
    return fetchStsPolicy(http, "remote.example", server.port);
  }
  const plain = { headers: { "content-type": "text/plain; charset=utf-8" } };

  test("from its URL", async () => {
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
    ["too much", () => new Response("x".repeat(70_000), plain), "more than 65536 bytes"],
  ])("%s is not accepted", async (_, answer, reason) => {
    await expect(fetchFrom(answer)).rejects.toThrow(reason);
  });

  test.each([
    ["an error", 500, "text/plain"],
    ["a page", 200, "text/html"],
  ])("and the rest of %s is not waited for", async (_, status, type) => {
    let isCancelled = false;
    const body = new ReadableStream({
      cancel() {
        isCancelled = true;
      },
    });
    const response = new Response(body, { status, headers: { "content-type": type } });
    const http: Pick<HttpClient, "send" | "within"> = {
      send: async () => response,
      within: (_, work) => work(new AbortController().signal),
    };
    await expect(fetchStsPolicy(http, "remote.example")).rejects.toThrow();
    expect(isCancelled).toBe(true);
  });

  test("neither a certificate for another name nor a private address is accepted", async () => {
    const answer = () => new Response(policy("enforce"), plain);
    await expect(fetchFrom(answer, { pair: "other" })).rejects.toThrow();
    await expect(fetchFrom(answer, { allow: [] })).rejects.toThrow("public");
  });
});
