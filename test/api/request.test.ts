/** Reading requests: the source that a request counts against, and the budget of bodies and uploads. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { createClientSourceReader } from "../../src/api/request.ts";

test("each source has one spelling", () => {
  const sourceOf = createClientSourceReader([]);
  const table: [peer: string | undefined, source: string][] = [
    ["192.0.2.7", "192.0.2.7"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["::FFFF:c000:207", "192.0.2.7"],
    ["0:0:0:0:0:ffff:192.0.2.7", "192.0.2.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002::1", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["64:ff9b::192.0.2.7", "64:ff9b:0:0::/64"],
    [undefined, "unknown"],
    ["", "unknown"],
    ["/run/socket", "unknown"],
  ];
  for (const [peer, source] of table) expect([peer, sourceOf(peer, null)]).toEqual([peer, source]);
});

test("of X-Forwarded-For, only the hops that trusted proxies wrote count", () => {
  const sourceOf = createClientSourceReader(["10.0.0.0/8", "192.0.2.1", "2001:db8:ffff::/48"]);
  const table: [peer: string, forwardedFor: string | null, source: string][] = [
    ["198.51.100.9", "203.0.113.5", "198.51.100.9"],
    ["10.1.2.3", null, "10.1.2.3"],
    ["10.1.2.3", "", "10.1.2.3"],
    ["10.1.2.3", "203.0.113.5", "203.0.113.5"],
    ["192.0.2.1", "203.0.113.5", "203.0.113.5"],
    ["192.0.2.2", "203.0.113.5", "192.0.2.2"],
    ["::ffff:10.1.2.3", "203.0.113.5", "203.0.113.5"],
    ["2001:db8:ffff::1", "2001:db8:5:6::7", "2001:db8:5:6::/64"],
    ["10.1.2.3", "1.1.1.1, 203.0.113.5, 10.9.9.9", "203.0.113.5"],
    ["10.1.2.3", "1.1.1.1,10.0.0.2 ,\t10.0.0.3", "1.1.1.1"],
    ["10.1.2.3", "10.0.0.2", "10.0.0.2"],
    ["10.1.2.3", "203.0.113.5:4711", "203.0.113.5"],
    ["10.1.2.3", "[2001:db8:5:6::7]:4711", "2001:db8:5:6::/64"],
    ["10.1.2.3", "[2001:db8:5:6::7]", "2001:db8:5:6::/64"],
    ["10.1.2.3", "203.0.113.5, unknown", "10.1.2.3"],
    ["10.1.2.3", "203.0.113.5, 999.1.1.1", "10.1.2.3"],
    ["10.1.2.3", "203.0.113.5, , 10.0.0.2", "10.0.0.2"],
    ["10.1.2.3", "::ffff:203.0.113.5", "203.0.113.5"],
  ];
  for (const [peer, forwardedFor, source] of table) {
    expect([peer, forwardedFor, sourceOf(peer, forwardedFor)]).toEqual([peer, forwardedFor, source]);
  }
});

test("the addresses of one /64 are one source, in every spelling", () => {
  const sourceOf = createClientSourceReader([]);
  const group = fc.integer({ min: 0, max: 0xffff });
  const network = fc.tuple(fc.integer({ min: 1, max: 0xffff }), group, group, group);
  const host = fc.tuple(group, group, group, group);
  fc.assert(
    fc.property(network, host, host, (net, a, b) => {
      const hex = (groups: number[]) => groups.map((value) => value.toString(16));
      const plain = [...hex(net), ...hex(a)].join(":");
      const padded = [...hex(net), ...hex(b)].map((value) => value.padStart(4, "0").toUpperCase()).join(":");
      // The URL parser writes the shortest form.
      const short = new URL(`http://[${plain}]/`).hostname.slice(1, -1);
      expect(sourceOf(padded, null)).toBe(sourceOf(plain, null));
      expect(sourceOf(short, null)).toBe(sourceOf(plain, null));
      expect(sourceOf(plain, null)).toBe(`${hex(net).join(":")}::/64`);
    }),
  );
});

test("every X-Forwarded-For gives a source", () => {
  const sourceOf = createClientSourceReader(["127.0.0.0/8"]);
  fc.assert(fc.property(fc.string(), (header) => expect(sourceOf("127.0.0.1", header)).toBeString()));
});
