import { describe, expect, test } from "bun:test";
import type { DnsClient } from "../../src/base/runtime.ts";
import { findMailHosts } from "../../src/outbound/next-hop.ts";
import { DeliveryFailure, type DeliveryResult } from "../../src/smtp/delivery-result.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const HOSTS: Zone = {
  "mx1.hosts.test": { a: ["192.0.2.1"], aaaa: ["2001:db8::1"] },
  "mx2.hosts.test": { a: ["192.0.2.2", "192.0.2.22"], aaaa: ["2001:db8::2"] },
  "mx3.hosts.test": { a: ["192.0.2.3"] },
  "six.hosts.test": { aaaa: ["2001:db8::6"] },
  "bare.hosts.test": { txt: ["no address here"] },
  "broken.hosts.test": "SERVFAIL",
  "named.hosts.test": { cname: "mx3.hosts.test" },
  "us.hosts.test": { a: ["192.0.2.99"] },
};

const DOMAINS: Zone = {
  "ordered.test": {
    mx: [
      [20, "mx2.hosts.test"],
      [10, "MX1.Hosts.Test"],
      [30, "mx3.hosts.test"],
    ],
  },
  "a-only.test": { a: ["192.0.2.7"], aaaa: ["2001:db8::7"] },
  "aaaa-only.test": { aaaa: ["2001:db8::7"] },
  "alias.test": { cname: "ordered.test" },
  "alias-of-a.test": { cname: "a-only.test" },
  "literal.test": { mx: [[10, "192.0.2.44"]] },
  "null.test": { mx: [[0, ""]] },
  "null-and-more.test": {
    mx: [
      [0, ""],
      [10, "mx3.hosts.test"],
    ],
  },
  "no-mail.test": { txt: ["v=spf1 -all"] },
  "apex.test": { ns: ["ns.elsewhere.test"] },
  "servfail.test": "SERVFAIL",
  "broken-host.test": { mx: [[10, "broken.hosts.test"]] },
  "bare-host.test": {
    mx: [
      [10, "bare.hosts.test"],
      [20, "gone.hosts.test"],
    ],
  },
  "six-host.test": { mx: [[10, "six.hosts.test"]] },
  "named-host.test": { mx: [[10, "named.hosts.test"]] },
  // MX hosts with this server among them.
  "backup.test": {
    mx: [
      [10, "mx1.hosts.test"],
      [20, "us.hosts.test"],
      [20, "mx2.hosts.test"],
      [30, "mx3.hosts.test"],
    ],
  },
  "ours.test": {
    mx: [
      [10, "us.hosts.test"],
      [20, "mx2.hosts.test"],
    ],
  },
  "loop.test": { mx: [[10, "US.hosts.test"]] },
};
const DESCRIPTION: Zone = { ...HOSTS, ...DOMAINS, "silent.test": "silence" };

const world = (dns: DnsClient) => ({ runtime: fakeRuntime({ dns }), hostname: "us.hosts.test" });

/** `name: addresses` of each host, in order. */
async function routeTo(domain: string, dns: DnsClient): Promise<string[]> {
  const hosts = await findMailHosts(domain, world(dns));
  return await Promise.all(hosts.map(async ({ name, addresses }) => `${name}: ${(await addresses()).join(" ")}`));
}

async function refusalOf(question: Promise<unknown>): Promise<DeliveryResult> {
  const error = await question.then(
    () => undefined,
    (thrown) => thrown,
  );
  if (error instanceof DeliveryFailure) return error.result;
  throw error ?? new Error("there is a way");
}

describe("the mail hosts of a domain", () => {
  const resolver = () => zone(DESCRIPTION);
  test.each([
    [
      "ordered.test",
      [
        "mx1.hosts.test: 192.0.2.1 2001:db8::1",
        "mx2.hosts.test: 192.0.2.2 2001:db8::2 192.0.2.22",
        "mx3.hosts.test: 192.0.2.3",
      ],
    ],
    ["a-only.test", ["a-only.test: 192.0.2.7 2001:db8::7"]],
    ["aaaa-only.test", ["aaaa-only.test: 2001:db8::7"]],
    [
      "alias.test",
      [
        "mx1.hosts.test: 192.0.2.1 2001:db8::1",
        "mx2.hosts.test: 192.0.2.2 2001:db8::2 192.0.2.22",
        "mx3.hosts.test: 192.0.2.3",
      ],
    ],
    ["alias-of-a.test", ["alias-of-a.test: 192.0.2.7 2001:db8::7"]],
    ["literal.test", ["192.0.2.44: 192.0.2.44"]],
    ["null-and-more.test", ["mx3.hosts.test: 192.0.2.3"]],
    ["six-host.test", ["six.hosts.test: 2001:db8::6"]],
    ["named-host.test", ["named.hosts.test: 192.0.2.3"]],
    ["bare-host.test", ["bare.hosts.test: ", "gone.hosts.test: "]],
    ["backup.test", ["mx1.hosts.test: 192.0.2.1 2001:db8::1"]],
    ["localhost", ["localhost: 127.0.0.1 ::1"]],
  ])("%s is reached", async (domain, route) => {
    expect(await routeTo(domain, resolver())).toEqual(route);
  });

  test.each([
    ["gone.test", "refused", true, "5.1.2"],
    ["null.test", "refused", true, "5.1.10"],
    ["no-mail.test", "refused", false, "5.4.4"],
    ["apex.test", "refused", false, "5.4.4"],
    ["ours.test", "refused", false, "5.4.6"],
    ["loop.test", "refused", false, "5.4.6"],
    // Without an MX record our own name is its own mail host.
    ["us.hosts.test", "refused", false, "5.4.6"],
    ["servfail.test", "deferred", false, "4.4.3"],
  ] as const)("%s is not reached: %s, hard: %p, %s", async (domain, kind, hard, status) => {
    const result = await refusalOf(findMailHosts(domain, world(resolver())));
    expect(result).toMatchObject({ kind, hard, status });
    expect(result.reply).toContain(domain);
  });

  test("a host whose addresses cannot be looked up is a temporary failure", async () => {
    const [host] = await findMailHosts("broken-host.test", world(resolver()));
    expect(host?.name).toBe("broken.hosts.test");
    expect(await refusalOf(host?.addresses() as Promise<unknown>)).toMatchObject({ kind: "deferred", status: "4.4.3" });
  });
});

test("a missing reply is a temporary failure", async () => {
  expect(await refusalOf(findMailHosts("silent.test", world(zone(DESCRIPTION))))).toMatchObject({
    kind: "deferred",
    hard: false,
    status: "4.4.3",
    reply: "DNS gave no answer for silent.test (ETIMEOUT)",
  });
});

test("addresses of one family are enough when the other cannot be looked up", async () => {
  const half: Zone = {
    "named-host.test": { mx: [[10, "named.hosts.test"]] },
    "named.hosts.test": { a: ["192.0.2.3"], failing: { aaaa: "SERVFAIL" } },
  };
  expect(await routeTo("named-host.test", zone(half))).toEqual(["named.hosts.test: 192.0.2.3"]);
});

test("among equals the order is random", async () => {
  const names = ["mx1.hosts.test", "mx2.hosts.test", "mx3.hosts.test"];
  const dns = zone({
    ...HOSTS,
    "equal.test": { mx: [...names.map((name) => [10, name] as const), [20, "six.hosts.test"]] },
  });
  const seen = new Set<string>();
  const draws = [
    [0, 1, 2],
    [2, 0, 1],
    [1, 2, 0],
  ];
  for (const draw of draws) {
    let i = 0;
    const randomBytes = (size: number) => new Uint8Array(size).fill(draw[i++] ?? 0);
    const runtime = { ...fakeRuntime({ dns }), randomBytes };
    const order = (await findMailHosts("equal.test", { runtime, hostname: "us.hosts.test" })).map(({ name }) => name);
    expect(order.at(-1)).toBe("six.hosts.test");
    expect(order.slice(0, 3).sort()).toEqual(names);
    seen.add(order.join());
  }
  expect(seen.size).toBe(draws.length);
});
