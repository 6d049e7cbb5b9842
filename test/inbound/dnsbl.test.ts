/** DNS blocklists: replies that count as a listing, the cost of a list that fails, and the refusal of a listed client. */
import { describe, expect, test } from "bun:test";
import { createBlocklists, reversedAddress } from "../../src/inbound/dnsbl.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { Refusal } from "../../src/smtp/refusal.ts";
import { connectSmtp, type Reply } from "../harness/clients/smtp-client.ts";
import { type Habits, type Zone, zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { listenAndKeep, testLog } from "../harness/servers/mx-rig.ts";
import { until } from "../harness/until.ts";

const brief = ({ code, status }: Reply): string => (status === "" ? String(code) : `${code} ${status}`);

function setUp(description: Zone, habits?: Habits) {
  const dns = zone(description, habits);
  const runtime = fakeRuntime({ dns });
  const { log, lines } = testLog(runtime);
  const asked = () => dns.questions.filter((question) => question.startsWith("a "));
  return { runtime, lines, asked, blocklists: createBlocklists({ runtime, log }, createDnsCache(runtime)) };
}

/** A server that is so slow that the test never sees its answer. */
const SLOW: Habits = { hold: () => new Promise(() => {}) };

describe("a name in a list", () => {
  const NAMES: [address: string, name: string][] = [
    ["192.0.2.99", "99.2.0.192"],
    ["2001:db8:1:2:3:4:567:89ab", "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2"],
  ];
  test.each(NAMES)("%s", (address, name) => expect(reversedAddress(address)).toBe(name));
});

describe("a reply of a list", () => {
  const ANSWERS: [what: string, records: Zone[string] | undefined, listing: unknown, warned: boolean][] = [
    ["of 127.0.0.2 lists it", { a: ["127.0.0.2"] }, { zone: "bl.example" }, false],
    ["of 127.1.2.3 too", { a: ["127.1.2.3"] }, { zone: "bl.example" }, false],
    [
      "with a reason gives it",
      { a: ["127.0.0.4"], txt: ["sent spam"] },
      { zone: "bl.example", reason: "sent spam" },
      false,
    ],
    ["among others counts", { a: ["198.51.100.1", "127.0.0.3"] }, { zone: "bl.example" }, false],
    ["that there is no such name does not", undefined, undefined, false],
    ["without an address does not", { txt: ["hello"] }, undefined, false],
    ["of Spamhaus that one may not ask does not", { a: ["127.255.255.254"] }, undefined, true],
    ["of whoever bought the domain does not", { a: ["198.51.100.1"] }, undefined, true],
    ["that failed does not", "SERVFAIL", undefined, true],
    ["that is none does not", "silence", undefined, true],
  ];
  test.each(ANSWERS)("%s", async (_, records, listing, warned) => {
    const { blocklists, lines } = setUp(records === undefined ? {} : { "2.2.0.192.bl.example": records });
    expect(await blocklists.find("192.0.2.2", ["bl.example"])).toEqual(listing as never);
    expect(lines.map(({ message, zone }) => [message, zone])).toEqual(
      warned ? [["blocklist does not work", "bl.example"]] : [],
    );
  });

  test("from any of several lists counts, even if the others do not work", async () => {
    const { blocklists } = setUp({
      "2.2.0.192.first.example": "SERVFAIL",
      "2.2.0.192.third.example": { a: ["127.0.0.9"] },
    });
    const zones = ["first.example", "second.example", "third.example"];
    expect(await blocklists.find("192.0.2.2", zones)).toEqual({ zone: "third.example" });
  });

  test("is awaited for five seconds at most", async () => {
    const { blocklists, runtime } = setUp({}, SLOW);
    const found = blocklists.find("192.0.2.2", ["bl.example"]);
    runtime.advanceTo(runtime.now() + 5_000);
    expect(await found).toBeUndefined();
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test("is reused while it is valid", async () => {
    const description: Zone = { "3.2.0.192.bl.example": { a: ["127.0.0.2"] } };
    const { blocklists, runtime, asked } = setUp(description);
    const find = () => blocklists.find("192.0.2.3", ["bl.example"]);
    expect(await Promise.all([find(), find()])).toEqual([{ zone: "bl.example" }, { zone: "bl.example" }]);
    delete description["3.2.0.192.bl.example"];
    expect(await find()).toEqual({ zone: "bl.example" });
    expect(asked()).toHaveLength(1);
    runtime.advanceTo(runtime.now() + 5 * 60_000);
    expect(await find()).toBeUndefined();
  });

  test("that fails is logged once in ten minutes", async () => {
    const { blocklists, runtime, lines } = setUp({ "3.2.0.192.bl.example": "SERVFAIL" });
    for (const [after, logged] of [
      [0, 1],
      [60_000, 1],
      [10 * 60_000, 2],
    ] as const) {
      runtime.advanceTo(runtime.now() + after);
      await blocklists.find("192.0.2.3", ["bl.example"]);
      expect(lines).toHaveLength(logged);
    }
    expect(lines[0]).toMatchObject({ level: "warn", zone: "bl.example", said: "ESERVFAIL" });
  });
});

describe("a listed client", () => {
  const settings = { "mx.trustedNetworks": "none", "mx.dnsbl": ["bl.example"] };
  const description: Zone = {
    "2.0.0.127.bl.example": { a: ["127.0.0.2"], txt: ["see https://bl.example/?ip=127.0.0.2"] },
  };

  test("is refused at every recipient, except for role addresses", async () => {
    const runtime = fakeRuntime({ dns: zone(description) });
    const admit = (recipient: string): void => {
      if (recipient.startsWith("nobody")) throw new Refusal("unknownRecipient");
    };
    const { address, accepted, lines } = await listenAndKeep({ runtime, settings, admit });
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    for (const recipient of ["alice@example.test", "nobody@example.test"]) {
      const reply = await client.command(`RCPT TO:<${recipient}>`);
      expect(brief(reply)).toBe("550 5.7.1");
      expect(reply.lines).toEqual(["5.7.1 127.0.0.2 is listed by bl.example: see https://bl.example/?ip=127.0.0.2"]);
    }
    for (const recipient of ["Postmaster@example.test", "abuse@example.test", "postmaster"]) {
      await client.expect(250, `RCPT TO:<${recipient}>`);
    }
    await client.expect(354, "DATA");
    await client.expect(250, "Subject: let me in\r\n\r\n.");
    expect(accepted[0]?.envelope.recipients).toHaveLength(3);
    expect(lines).toContainEqual(
      expect.objectContaining({ message: "refused", reason: "blocklisted", ip: "127.0.0.2" }),
    );
    const other = await connectSmtp(address, { from: "127.0.0.3" });
    expect((await other.deliver({ to: "alice@example.test" }, "Subject: hi\r\n\r\n")).code).toBe(250);
    for (const each of [client, other]) each.destroy();
  });

  test("is accepted where it is trusted, where no list is asked, and while the list is down", async () => {
    const cases: [settings: Record<string, unknown>, description: Zone][] = [
      [{ ...settings, "mx.trustedNetworks": ["127.0.0.2/32"] }, description],
      [{ ...settings, "mx.dnsbl": "none" }, description],
      [settings, { "2.0.0.127.bl.example": "silence" }],
    ];
    for (const [settings, description] of cases) {
      const { address } = await listenAndKeep({ runtime: fakeRuntime({ dns: zone(description) }), settings });
      const client = await connectSmtp(address, { from: "127.0.0.2" });
      expect((await client.deliver({ to: "alice@example.test" }, "Subject: hi\r\n\r\n")).code).toBe(250);
      client.destroy();
    }
  });

  test("waits for the list at RCPT, five seconds at most, and leaves nothing behind when it disconnects", async () => {
    const runtime = fakeRuntime({ dns: zone({}, SLOW) });
    const { address } = await listenAndKeep({ runtime, settings });
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    const reply = client.command("RCPT TO:<alice@example.test>");
    runtime.advanceTo(runtime.now() + 5_000);
    expect((await reply).code).toBe(250);
    client.destroy();
    await until(() => runtime.nextTimer() === undefined);
  });
});
