/** The records by which mail apps find the server, and their hosts. */
import { describe, expect, test } from "bun:test";
import { lookUpDnsRecords } from "../../src/admin/dns.ts";
import * as domains from "../../src/admin/domains.ts";
import { listMailAppRecords, listMailAppSettingsHosts } from "../../src/admin/mail-apps.ts";
import { checkDomains } from "../../src/doctor/checks/mail-checks.ts";
import type { DomainView } from "../../src/operations/admin/domain-administration.ts";
import type { Core, MailAppPorts } from "../../src/store/core.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { takePort } from "../harness/port.ts";
import { boot } from "../harness/servers/boot.ts";
import { testCore } from "../harness/servers/core.ts";

const ALL = { imap: 143, imaps: 993, submission: 587, submissions: 465 };
const create = (ports: Partial<MailAppPorts>, baseUrl = "https://mail.test"): Core => {
  const core = testCore();
  return { ...core, site: { ...core.site, hostname: "Mail.Example.Test", baseUrl, ports: { ...ALL, ...ports } } };
};
const lines = (core: Core) =>
  listMailAppRecords(core, "example.test").map(({ type, name, value }) => `${name} ${type} ${value}`);

const SERVICES = [
  "_imaps._tcp.example.test SRV 0 1 993 mail.example.test",
  "_imap._tcp.example.test SRV 10 1 143 mail.example.test",
  "_submissions._tcp.example.test SRV 0 1 465 mail.example.test",
  "_submission._tcp.example.test SRV 10 1 587 mail.example.test",
  "_pop3s._tcp.example.test SRV 0 0 0 .",
  "_pop3._tcp.example.test SRV 0 0 0 .",
];

describe("the records", () => {
  test("name what is on, TLS from the start before STARTTLS, and that there is no POP", () => {
    expect(lines(create({}))).toEqual([
      "autoconfig.example.test CNAME mail.example.test",
      "autodiscover.example.test CNAME mail.example.test",
      ...SERVICES,
    ]);
    expect(listMailAppRecords(create({}), "example.test").every(({ optional }) => optional)).toBe(true);
    expect(lines(create({ imap: null, submissions: null }, "http://localhost"))).toEqual(
      SERVICES.filter((line) => !/^_(imap|submissions)\./.test(line)),
    );
  });

  test("are none without IMAP", () => {
    const without = create({ imap: null, imaps: null });
    expect([lines(without), listMailAppSettingsHosts(without, "example.test")]).toEqual([[], []]);
  });

  test("stand among those of a domain when IMAP is on", async () => {
    const purposes = async (env: Record<string, string>) => {
      const app = await boot(env);
      const { body } = await app.api.get<{ domains: DomainView[] }>("/api/admin/v1/domains");
      return body.domains[0]?.records.filter(({ purpose }) => purpose === "mail-apps");
    };
    expect(await purposes({})).toEqual([]);
    const port = await takePort();
    expect(await purposes({ MAILROOM_IMAPS: `127.0.0.1:${port}` })).toMatchObject([
      { type: "SRV", name: "_imaps._tcp.example.test", value: `0 1 ${port} localhost`, optional: true },
      { type: "SRV", name: "_pop3s._tcp.example.test" },
      { type: "SRV", name: "_pop3._tcp.example.test" },
    ]);
  });

  test("are found whatever their weights are", async () => {
    const published: Zone = {
      "mail.example.test": { a: ["192.0.2.1"] },
      "autoconfig.example.test": { a: ["192.0.2.1"] },
      "autodiscover.example.test": { a: ["192.0.2.9"] },
      "_imaps._tcp.example.test": { srv: [[5, 7, 993, "Mail.example.test"]] },
      "_imap._tcp.example.test": { srv: [[0, 1, 144, "mail.example.test"]] },
      "_submissions._tcp.example.test": { srv: [[0, 1, 465, "other.example.test"]] },
      "_pop3._tcp.example.test": { srv: [[0, 0, 0, ""]] },
      "_pop3s._tcp.example.test": "SERVFAIL",
    };
    const found = await lookUpDnsRecords(zone(published), listMailAppRecords(create({}), "example.test"));
    expect(found.map(({ name, state }) => `${name.split(".")[0]} ${state}`)).toEqual([
      "autoconfig found",
      "autodiscover missing",
      "_imaps found",
      "_imap missing",
      "_submissions missing",
      "_submission missing",
      "_pop3s unanswered",
      "_pop3 found",
    ]);
  });
});

test("the doctor warns of missing ones, which is no failure of mail", async () => {
  const port = await takePort();
  const published: Zone = {
    "_imaps._tcp.example.test": { srv: [[0, 1, port, "localhost"]] },
    "_pop3._tcp.example.test": { srv: [[0, 0, 0, ""]] },
  };
  const checks = { domains: checkDomains };
  const app = await boot({ MAILROOM_IMAPS: `127.0.0.1:${port}` }, zone(published), { checks });
  const look = async () => (await app.opened.doctor.examine()).find(({ id }) => id === "mail-apps:example.test");
  expect(await look()).toEqual({
    id: "mail-apps:example.test",
    name: "Settings for mail apps of example.test",
    state: "warning",
    detail: "it is not published as it should be",
    todo: "People have to type servers and ports into some mail apps without it. Publish: _pop3s._tcp.example.test SRV 0 0 0 .",
  });
  published["_pop3s._tcp.example.test"] = { srv: [[0, 0, 0, ""]] };
  expect((await look())?.state).toBe("ok");
  const without = await boot({}, zone({}), { checks });
  expect((await without.opened.doctor.examine()).map(({ id }) => id)).not.toContain("mail-apps:example.test");
});

test("their hosts are listed by domain, after those of policies", async () => {
  const app = await boot({ MAILROOM_IMAPS: `127.0.0.1:${await takePort()}` });
  const { core } = app.opened;
  const { store } = core;
  store.transact((tx) =>
    domains.markDomainVerified(core, tx, domains.addDomain(core, tx, app.owner.workspaceId, "other.test", []).id),
  );
  const owner = app.owner.workspaceId;
  const hostsOf = (name: string) => [`mta-sts.${name}`, `autoconfig.${name}`, `autodiscover.${name}`];
  expect(domains.listDomainWebHosts(core)).toEqual(
    ["example.test", "other.test"].map((name) => ({ name, owner, hosts: hostsOf(name) })),
  );
  const [first] = domains.listDomainWebHosts((await boot()).opened.core);
  expect(first?.hosts).toEqual(["mta-sts.example.test"]);
});
