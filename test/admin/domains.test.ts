import { expect, test } from "bun:test";
import { createPublicKey, sign, verify } from "node:crypto";
import type { DnsRecord } from "../../src/admin/dns.ts";
import * as domains from "../../src/admin/domains.ts";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as removals from "../../src/admin/removals.ts";
import { readTypedAddress } from "../../src/admin/typed-names.ts";
import { dkimKeys } from "../../src/store/schema.ts";
import { type Zone, zone, zoneOf } from "../harness/peers/dns-server.ts";
import { openOffice } from "../harness/servers/admin-office.ts";

/** A zone of these records. `failing`: a name about which DNS fails. */
const zoneWith = (records: readonly Omit<DnsRecord, "purpose">[], failing?: string): Zone => ({
  ...zoneOf(records),
  ...(failing !== undefined && { [failing]: "silence" }),
});

async function openWithDomain(world: (records: DnsRecord[]) => Zone) {
  const description: Zone = {};
  const dns = zone(description);
  const office = openOffice({ dns });
  const keys = await makeDkimKeys();
  const { id } = office.write((tx) => domains.addDomain(office.core, tx, office.acme, "shop.test", keys));
  const records = domains.listDomainRecords(office.core, id);
  Object.assign(description, world(records));
  return { ...office, id, records, dns };
}

test("a domain belongs to the workspace that verified it", () => {
  const { core, write, acme, beta } = openOffice();
  const { id } = domains.getDomainByName(core, "acme.test");
  const adding = (workspaceId: string, name: string) => () =>
    write((tx) => domains.addDomain(core, tx, workspaceId, name, []));
  expect(adding(acme, "ACME.test")).toThrow("acme.test is here already");
  write((tx) => domains.markDomainVerified(core, tx, id));
  expect(adding(beta, "acme.test")).toThrow(/^acme.test was verified by another workspace of this server$/);
  expect(domains.listDomains(core, acme).map(({ name }) => name)).toEqual(["acme.test"]);
  expect(domains.listDomains(core).map(({ name }) => name)).toEqual(["acme.test", "beta.test"]);
  expect(() => domains.getDomainByName(core, "acme.test", beta)).toThrow("there is no domain acme.test");
});

test("until one verifies it, each workspace may claim it, with its own token and keys", async () => {
  const published: DnsRecord[] = [];
  const description: Zone = {};
  const { write, acme, beta, core } = openOffice({ dns: zone(description) });
  const publish = (records: DnsRecord[]) => {
    published.push(...records);
    Object.assign(description, zoneOf(published));
  };
  const [ours, theirs] = [await makeDkimKeys(), await makeDkimKeys()];
  const { id } = write((tx) => domains.addDomain(core, tx, acme, "shop.test", ours));
  const other = write((tx) => domains.addDomain(core, tx, beta, "shop.test", theirs));
  expect(() => domains.getDomainByName(core, "shop.test")).toThrow(
    "several workspaces claim shop.test: name the workspace",
  );
  expect(domains.getDomainByName(core, "shop.test", beta).id).toBe(other.id);
  for (const workspaceId of [acme, beta]) {
    write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "info@shop.test", name: "Info" }));
    write((tx) =>
      mailboxAdmin.addAlias(
        core,
        tx,
        mailboxAdmin.getMailboxByAddress(core, "info@shop.test", workspaceId).id,
        "*@shop.test",
      ),
    );
  }
  expect(() => mailboxAdmin.getMailboxByAddress(core, "info@shop.test")).toThrow(
    "several workspaces have a mailbox info@shop.test",
  );

  publish(domains.listDomainRecords(core, other.id));
  const seen = await domains.verifyDomain(core, id);
  expect(seen.filter(({ state }) => state === "missing").map(({ purpose }) => purpose)).toEqual([
    "dkim",
    "dkim",
    "ownership",
  ]);
  expect(domains.getDomainById(core, acme, id).state).toBe("unverified");
  await domains.verifyDomain(core, other.id);
  expect(domains.listDomains(core).map(({ name, state, takesMail }) => [name, state, takesMail])).toEqual([
    ["acme.test", "unverified", false],
    ["beta.test", "unverified", false],
    ["shop.test", "verified", true],
    ["shop.test", "lost", false],
  ]);
  expect(domains.getDomainByName(core, "shop.test").id).toBe(other.id);
  expect(mailboxAdmin.getMailboxByAddress(core, "info@shop.test").workspaceId).toBe(beta);
  expect(mailboxAdmin.getMailboxByAddress(core, "info@shop.test", acme).lost).toBe(true);

  // Neither the zone nor the operator can change that later.
  publish(domains.listDomainRecords(core, id));
  await expect(domains.verifyDomain(core, id)).rejects.toThrow("was verified by another workspace");
  expect(() => write((tx) => domains.markDomainVerified(core, tx, id))).toThrow("was verified by another workspace");
  expect(() =>
    write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: "x@shop.test", name: "X" })),
  ).toThrow("was verified by another workspace");
  // Once the other workspace removes the domain, the lost claim can be verified.
  await removals.removeMailbox(core, mailboxAdmin.getMailboxByAddress(core, "info@shop.test", beta).id);
  write((tx) => domains.removeDomain(tx, other.id));
  expect(domains.getDomainById(core, acme, id)).toMatchObject({ state: "unverified", takesMail: false });
  await domains.verifyDomain(core, id);
  expect(mailboxAdmin.getMailboxByAddress(core, "info@shop.test")).toMatchObject({ workspaceId: acme, lost: false });
});

test("when the records of two workspaces are published, one of them gets the domain", async () => {
  const published: Zone = {};
  const { core, write, acme, beta } = openOffice({ dns: zone(published) });
  const [ours, theirs] = [await makeDkimKeys(), await makeDkimKeys()];
  const ids = [
    write((tx) => domains.addDomain(core, tx, acme, "shop.test", ours)).id,
    write((tx) => domains.addDomain(core, tx, beta, "shop.test", theirs)).id,
  ];
  Object.assign(published, zoneOf(ids.flatMap((id) => domains.listDomainRecords(core, id))));
  // Such a zone has two SPF and two DMARC records, which verification does not read.
  const ends = await Promise.allSettled(ids.map((id) => domains.verifyDomain(core, id)));
  expect(ends.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const states = domains.listDomains(core).filter(({ name }) => name === "shop.test");
  expect(states.map(({ state }) => state)).toEqual(["verified", "lost"]);
});

test.each([
  "",
  "localhost",
  "a b.test",
  "http://a.test",
  "a..test",
  "-a.test",
  "10.0.0.1",
  "[10.0.0.1]",
  "x@a.test",
  "*.a.test",
  "a.test/b",
])("%p is no domain", (name) => {
  const { core, write, acme } = openOffice();
  expect(() => write((tx) => domains.addDomain(core, tx, acme, name, []))).toThrow(/is not a domain: give one like/);
});

test("the records of a domain name its mail server, its senders and its owner", async () => {
  const { records, store } = await openWithDomain(() => zoneWith([]));
  expect(records.map(({ type, name, purpose }) => [purpose, type, name])).toEqual([
    ["mx", "MX", "shop.test"],
    ["spf", "TXT", "shop.test"],
    ["dkim", "TXT", "rsa-20260105._domainkey.shop.test"],
    ["dkim", "TXT", "ed25519-20260105._domainkey.shop.test"],
    ["dmarc", "TXT", "_dmarc.shop.test"],
    ["ownership", "TXT", "_mailroom.shop.test"],
  ]);
  expect(records[0]?.value).toBe("10 mail.acme.test");
  expect(records[5]?.value).toMatch(/^mailroom-verify=[A-Za-z0-9]{32}$/);

  // The published keys are those that sign.
  const published = records.filter(({ purpose }) => purpose === "dkim").map(({ value }) => /p=(.*)$/.exec(value)?.[1]);
  const rsa = createPublicKey({ key: Buffer.from(published[0] ?? "", "base64"), format: "der", type: "spki" });
  const jwk = { kty: "OKP", crv: "Ed25519", x: Buffer.from(published[1] ?? "", "base64").toString("base64url") };
  const ed25519 = createPublicKey({ key: jwk, format: "jwk" });
  expect(rsa.asymmetricKeyDetails?.modulusLength).toBe(2048);
  const signed = Buffer.from("signed");
  const kept = store.db.select().from(dkimKeys).all();
  for (const [algorithm, key, hash] of [
    ["rsa", rsa, "sha256"],
    ["ed25519", ed25519, null],
  ] as const) {
    const { privateKey = "" } = kept.find((row) => row.algorithm === algorithm) ?? {};
    expect(verify(hash, signed, key, sign(hash, signed, privateKey))).toBe(true);
  }
});

test("a domain whose records are all published is verified, and stays verified", async () => {
  const { core, id, runtime, records } = await openWithDomain((all) =>
    // Others may have more records; hosts may be written in capitals with a final dot.
    zoneWith([
      ...all.filter(({ purpose }) => purpose !== "mx" && purpose !== "dmarc"),
      { type: "MX", name: "shop.test", value: "20 MAIL.acme.test." },
      { type: "TXT", name: "_dmarc.shop.test", value: "v=DMARC1;p=reject" },
      { type: "TXT", name: "shop.test", value: "google-site-verification=x" },
    ]),
  );
  const seen = await domains.verifyDomain(core, id);
  expect(seen).toEqual(records.map((record) => ({ ...record, state: "found" })));
  const { verifiedAt } = domains.getDomainByName(core, "shop.test");
  expect(verifiedAt).toBe(runtime.now());
  runtime.advanceTo(runtime.now() + 1000);
  await domains.verifyDomain(core, id);
  expect(domains.getDomainByName(core, "shop.test").verifiedAt).toBe(verifiedAt);
});

const UNVERIFIED: [what: string, world: (records: DnsRecord[]) => Zone, states: string][] = [
  ["nothing there", () => zoneWith([]), "missing missing missing missing missing missing"],
  [
    "no answer about ownership",
    (all) => zoneWith(all, "_mailroom.shop.test"),
    "found found found found found unanswered",
  ],
  [
    "one key of two",
    (all) => zoneWith(all.filter(({ value }) => !value.includes("ed25519"))),
    "found found found missing found found",
  ],
  [
    "another's ownership token and another's keys",
    (all) => zoneWith(all.map((record) => ({ ...record, value: record.value.replace(/(p|verify)=.*/, "$1=other") }))),
    "found found missing missing found missing",
  ],
];

test.each(UNVERIFIED)("not verified: %s", async (_, world, states) => {
  const { core, id, write } = await openWithDomain(world);
  const seen = await domains.verifyDomain(core, id);
  expect(seen.map(({ state }) => state).join(" ")).toBe(states);
  expect(domains.getDomainByName(core, "shop.test").verifiedAt).toBeNull();
  write((tx) => domains.markDomainVerified(core, tx, id));
  expect(domains.getDomainByName(core, "shop.test").verifiedAt).not.toBeNull();
});

const VERIFIED: [what: string, world: (records: DnsRecord[]) => Zone, states: string][] = [
  ["no answer about DMARC", (all) => zoneWith(all, "_dmarc.shop.test"), "found found found found unanswered found"],
  [
    "two SPF records, which count as none",
    (all) => zoneWith([...all, { type: "TXT", name: "shop.test", value: "v=spf1 -all" }]),
    "found missing found found found found",
  ],
  [
    "mail goes elsewhere",
    (all) => zoneWith([...all.slice(1), { type: "MX", name: "shop.test", value: "10 mail.other.test" }]),
    "missing found found found found found",
  ],
];

test.each(VERIFIED)("still verified: %s", async (_, world, states) => {
  const { core, id, runtime } = await openWithDomain(world);
  const seen = await domains.verifyDomain(core, id);
  expect(seen.map(({ state }) => state).join(" ")).toBe(states);
  expect(domains.getDomainByName(core, "shop.test").verifiedAt).toBe(runtime.now());
});

test("a domain in use cannot be removed", () => {
  const { core, write, acme } = openOffice();
  const { id } = domains.getDomainByName(core, "acme.test");
  for (const name of ["b", "c", "d"]) {
    write((tx) =>
      mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: readTypedAddress(`${name}@acme.test`), name }),
    );
  }
  expect(() => write((tx) => domains.removeDomain(tx, id))).toThrow(
    /in use by ada@acme\.test, b@acme\.test, c@acme\.test and others/,
  );
  const shop = write((tx) => domains.addDomain(core, tx, acme, "shop.test", []));
  const alias = write((tx) =>
    mailboxAdmin.addAlias(core, tx, mailboxAdmin.getMailboxByAddress(core, "b@acme.test").id, "*@shop.test"),
  );
  expect(() => write((tx) => domains.removeDomain(tx, shop.id))).toThrow(/in use by \*@shop\.test:/);
  write((tx) => mailboxAdmin.removeAlias(tx, mailboxAdmin.getMailboxByAddress(core, "b@acme.test").id, alias));
  write((tx) => domains.removeDomain(tx, shop.id));
  expect(domains.listDomains(core, acme).map(({ name }) => name)).toEqual(["acme.test"]);
});

test("mail for a claimed domain causes one lookup in five minutes, even if the clock is set back meanwhile", async () => {
  const { core, runtime, dns } = await openWithDomain(() => ({}));
  const look = async () => {
    await domains.verifyDomainOnArrival(core, "shop.test");
    return dns.questions.length;
  };
  expect([await look(), await look()]).toEqual([1, 1]);
  runtime.setBy(-86_400_000);
  expect([await look(), await look()]).toEqual([2, 2]);
  runtime.advanceTo(runtime.now() + 300_000);
  expect(await look()).toBe(3);
});
