/** The DNS client asks name servers of other makers. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { DnsClient } from "../../src/base/dns-client.ts";
import { NAME_SERVERS, noNameServer, startNameServer, type ZoneFiles } from "./name-servers.ts";

const KEY = `v=DKIM1; k=rsa; p=${"MIIBIjANBgkqhkiG9w0B".repeat(19)}MIIBIjANBgkq`;
const SPF = `v=spf1 ${Array.from({ length: 24 }, (_, n) => `ip4:192.0.2.${n}`).join(" ")} -all`;
const DIGEST = "ab".repeat(32);
const strings = (text: string): string => (text.match(/.{1,255}/g) ?? []).map((part) => `"${part}"`).join(" ");

const ZONES: ZoneFiles = {
  "example.test": [
    "ns1 300 A 192.0.2.53",
    "@ 300 MX 10 MX.Example.test.",
    "@ 300 MX 20 mx2",
    `@ 300 TXT ${strings(SPF)}`,
    '@ 300 TXT "other=1"',
    "mx 120 A 192.0.2.1",
    "mx 120 A 192.0.2.2",
    "mx 300 AAAA 2001:db8::1",
    `key._domainkey 300 TXT ${strings(KEY)}`,
    '_dmarc 300 TXT "v=DM" "ARC1; p=rej" "ect"',
    "nomail 300 MX 0 .",
    "alias 90 CNAME between",
    "between 70 CNAME mx",
    "across 300 CNAME target.other.test.",
    "nowhere 300 CNAME missing",
    "loop1 300 CNAME loop2",
    "loop2 300 CNAME loop1",
    ...Array.from({ length: 60 }, (_, n) => `big 300 TXT "${String(n).padStart(200, "x")}"`),
    ...Array.from({ length: 100 }, (_, n) => `many 300 A 198.51.100.${n}`),
    `_25._tcp.mx 300 TLSA 3 1 1 ${DIGEST}`,
    "_imaps._tcp 300 SRV 0 1 993 MX",
    "_pop3._tcp 300 SRV 0 0 0 .",
    "below.between-names 300 A 192.0.2.1",
    '*.wild 300 TXT "anything"',
    'a\\+b\\=c\\#d\\&e\\:f 300 TXT "macro"',
    'sp\\032ace\\195\\169 300 TXT "octets"',
    "www 300 PTR host.example.test.",
    "sub 300 NS ns.elsewhere.test.",
  ],
  "other.test": ["target 50 A 192.0.2.9"],
};

for (const name of NAME_SERVERS) {
  const lacking = noNameServer(name);
  if (lacking) console.warn(`the DNS client with a real server: skipped, ${lacking}`);
  describe.skipIf(lacking !== undefined)(name, () => {
    let dns: DnsClient;
    beforeAll(async () => {
      dns = await startNameServer(name, ZONES);
    }, 30_000);

    test("records of every type", async () => {
      const of = async (host: string, type: Parameters<DnsClient["ask"]>[1]) => (await dns.ask(host, type)).records;
      expect((await of("mx.example.test", "A")).sort()).toEqual(["192.0.2.1", "192.0.2.2"]);
      expect(await of("mx.example.test", "AAAA")).toEqual(["2001:db8::1"]);
      const hosts = (await dns.ask("example.test", "MX")).records;
      expect(hosts.map(({ priority, exchange }) => `${priority} ${exchange}`).sort()).toEqual([
        "10 mx.example.test",
        "20 mx2.example.test",
      ]);
      expect(await of("nomail.example.test", "MX")).toEqual([{ priority: 0, exchange: "" }]);
      const service = { priority: 0, weight: 1, port: 993, target: "mx.example.test" };
      expect(await of("_imaps._tcp.example.test", "SRV")).toEqual([service]);
      expect(await of("_pop3._tcp.example.test", "SRV")).toEqual([{ ...service, weight: 0, port: 0, target: "" }]);
      const data = Buffer.from(DIGEST, "hex");
      expect(await of("_25._tcp.mx.example.test", "TLSA")).toEqual([{ usage: 3, selector: 1, matchingType: 1, data }]);
      expect(await of("www.example.test", "PTR")).toEqual(["host.example.test"]);
      expect(await of("example.test", "NS")).toEqual(["ns1.example.test"]);
      expect(await of("alias.example.test", "CNAME")).toEqual(["between.example.test"]);
    });

    test("strings of a text are one record, and records are several", async () => {
      expect((await dns.ask("key._domainkey.example.test", "TXT")).records).toEqual([KEY]);
      expect((await dns.ask("example.test", "TXT")).records.sort()).toEqual(["other=1", SPF]);
      expect((await dns.ask("_dmarc.example.test", "TXT")).records).toEqual(["v=DMARC1; p=reject"]);
      expect((await dns.ask("whatever.wild.example.test", "TXT")).records).toEqual(["anything"]);
    });

    test("long answers come over TCP", async () => {
      expect((await dns.ask("big.example.test", "TXT")).records).toHaveLength(60);
      expect(new Set((await dns.ask("many.example.test", "A")).records).size).toBe(100);
    });

    test("aliases are followed, into another zone too, and the shortest time holds", async () => {
      const answer = await dns.ask("Alias.Example.TEST", "A");
      expect([answer.name, answer.ttl, answer.records.length]).toEqual(["mx.example.test", 70, 2]);
      const across = await dns.ask("across.example.test", "A");
      expect([across.name, across.ttl, across.records]).toEqual(["target.other.test", 50, ["192.0.2.9"]]);
      await expect(dns.ask("loop1.example.test", "A")).rejects.toMatchObject({ code: expect.stringMatching(/^E/) });
    });

    test("what is missing is told apart, with the time that it holds", async () => {
      expect(await dns.ask("missing.example.test", "A")).toMatchObject({ records: [], absence: "name", ttl: 60 });
      expect(await dns.ask("mx.example.test", "TXT")).toMatchObject({ records: [], absence: "type", ttl: 60 });
      expect(await dns.ask("between-names.example.test", "A")).toMatchObject({ records: [], absence: "type" });
      expect(await dns.ask("nowhere.example.test", "A")).toMatchObject({ absence: "name" });
    });

    test("names may have any characters", async () => {
      expect((await dns.ask("a+b=c#d&e:f.example.test", "TXT")).records).toEqual(["macro"]);
      expect((await dns.ask("sp ace\u00e9.example.test", "TXT")).records).toEqual(["octets"]);
    });

    test("a server that refuses, or refers elsewhere, fails", async () => {
      await expect(dns.ask("elsewhere.test", "A")).rejects.toMatchObject({ code: "EREFUSED" });
      await expect(dns.ask("www.sub.example.test", "A")).rejects.toMatchObject({ code: "EREFUSED" });
    });
  });
}
