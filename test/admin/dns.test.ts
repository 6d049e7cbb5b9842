/** The records that a domain needs, looked up over the wire. */
import { expect, test } from "bun:test";
import { type DnsRecord, lookUpDnsRecords } from "../../src/admin/dns.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";

const KEY = `v=DKIM1; k=rsa; p=${"MIIBIjANBgkqhkiG9w0B".repeat(20)}AQAB`;
const WANTED: DnsRecord[] = [
  { type: "MX", name: "example.net", value: "10 mx.example.net", purpose: "mx" },
  { type: "TXT", name: "example.net", value: "v=spf1 mx -all", purpose: "spf" },
  { type: "TXT", name: "one._domainkey.example.net", value: KEY, purpose: "dkim" },
  { type: "TXT", name: "two._domainkey.example.net", value: KEY, purpose: "dkim" },
  { type: "TXT", name: "_dmarc.example.net", value: "v=DMARC1; p=none", purpose: "dmarc" },
  { type: "TXT", name: "_mailroom.broken.test", value: "token", purpose: "ownership" },
];
const ZONE: Zone = {
  "example.net": { mx: [[10, "MX.example.net"]], txt: [`v=spf1 ${"ip4:192.0.2.1 ".repeat(20)}-all`, "another=1"] },
  "one._domainkey.example.net": { txt: [KEY] },
  "two._domainkey.example.net": { txt: [KEY.replace("AQAB", "AQAC")] },
  "_mailroom.broken.test": "SERVFAIL",
};

test("what is there is found, of any length", async () => {
  const found = await lookUpDnsRecords(zone(ZONE), WANTED);
  expect(found.map(({ name, state }) => [name, state])).toEqual([
    ["example.net", "found"],
    ["example.net", "found"],
    ["one._domainkey.example.net", "found"],
    ["two._domainkey.example.net", "missing"],
    ["_dmarc.example.net", "missing"],
    ["_mailroom.broken.test", "unanswered"],
  ]);
});
