/** The MTA-STS policy of hosted domains: its hosts, the records that announce it, and its setting. */
import { describe, expect, test } from "bun:test";
import { lookUpDnsRecords } from "../../src/admin/dns.ts";
import * as domains from "../../src/admin/domains.ts";
import { readStsPolicy, readStsRecord } from "../../src/authentication/mta-sts.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ON = { MAILROOM_BASE_URL: "https://mail.example.test", MAILROOM_HTTPS: "127.0.0.1:0" };
const PATH = "/.well-known/mta-sts.txt";

const ask = ({ ready }: Booted, host: string, path = PATH, method = "GET") =>
  fetch(`https://${ready.https}${path}`, { method, headers: { host }, tls: { rejectUnauthorized: false } });

const set = ({ core }: Booted, mode: string) => core.store.transact((tx) => core.options.set(tx, "mtaSts.mode", mode));

function recordsOf({ opened }: Booted) {
  const { id } = domains.getDomainByName(opened.core, "example.test");
  return domains.listDomainRecords(opened.core, id).filter(({ optional }) => optional);
}

describe("the policy", () => {
  test("of each verified domain is served at its policy host, which serves nothing else", async () => {
    const app = await boot(ON);
    const answer = await ask(app, "MTA-STS.example.test");
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    expect(await answer.text()).toBe("version: STSv1\nmode: testing\nmx: mail.example.test\nmax_age: 86400\n");
    for (const [path, method] of [
      ["/", "GET"],
      ["/api/v1/mailboxes", "GET"],
      ["/sign-in", "GET"],
    ] as const) {
      expect([path, (await ask(app, "mta-sts.example.test", path, method)).status]).toEqual([path, 404]);
    }
    const posted = await ask(app, "mta-sts.example.test", PATH, "POST");
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("is served at no other host, and for no unverified domain", async () => {
    const app = await boot(ON);
    const { core } = app.opened;
    const { store } = core;
    store.transact((tx) => domains.addDomain(core, tx, app.owner.workspaceId, "new.test", []));
    for (const host of ["mail.example.test", "example.test", "mta-sts.new.test", "mta-sts.elsewhere.test"]) {
      expect([host, (await ask(app, host)).status]).toEqual([host, 404]);
    }
  });

  test("and the id of its record follow the setting", async () => {
    const app = await boot(ON);
    const ids = new Set<string | undefined>();
    for (const mode of ["testing", "enforce"]) {
      set(app, mode);
      expect(readStsPolicy(await (await ask(app, "mta-sts.example.test")).text())).toMatchObject({
        mode,
        mx: ["mail.example.test"],
      });
      ids.add(readStsRecord(recordsOf(app).map(({ value }) => value)));
    }
    expect(ids.size).toBe(2);
    set(app, "none");
    expect(readStsPolicy(await (await ask(app, "mta-sts.example.test")).text())).toMatchObject({
      mode: "none",
      mx: [],
    });
    expect(recordsOf(app)).toEqual([]);
    expect(() => set(app, "strict")).toThrow("none, testing, enforce");
  });
});

describe("its records", () => {
  test("are suggested, as optional, where the web is served over HTTPS", async () => {
    expect(recordsOf(await boot())).toEqual([]);
    const records = recordsOf(await boot(ON));
    expect(records.map(({ type, name }) => `${type} ${name}`)).toEqual([
      "CNAME mta-sts.example.test",
      "TXT _mta-sts.example.test",
      "TXT _smtp._tls.example.test",
    ]);
    expect(records[2]?.value).toBe("v=TLSRPTv1; rua=mailto:postmaster@example.test");
  });

  test("are found in any wording with the same meaning", async () => {
    const records = recordsOf(await boot(ON));
    const id = readStsRecord([records[1]?.value ?? ""]);
    const description: Zone = {
      "mail.example.test": { a: ["192.0.2.1", "192.0.2.2"] },
      "mta-sts.example.test": { a: ["192.0.2.2"] },
      "_mta-sts.example.test": { txt: [`v=STSv1;id=${id};`] },
      "_smtp._tls.example.test": { txt: ["v=TLSRPTv1;rua=https://reports.example"] },
    };
    const states = async () => (await lookUpDnsRecords(zone(description), records)).map(({ state }) => state);
    expect(await states()).toEqual(["found", "found", "found"]);
    description["mta-sts.example.test"] = { a: ["192.0.2.9"] };
    description["_mta-sts.example.test"] = { txt: ["v=STSv1; id=old"] };
    delete description["_smtp._tls.example.test"];
    expect(await states()).toEqual(["missing", "missing", "missing"]);
  });

  test("may be missing for a verified domain", async () => {
    const records: Zone = {};
    const app = await boot(ON, zone(records));
    const { core } = app.opened;
    const { id } = domains.getDomainByName(core, "example.test");
    for (const { type, name, value, optional } of domains.listDomainRecords(core, id)) {
      if (!optional) records[name] = type === "MX" ? { mx: [[10, "mail.example.test"]] } : { txt: [value] };
    }
    const at = records["example.test"];
    records["example.test"] = { ...(typeof at === "object" ? at : {}), mx: [[10, "mail.example.test"]] };
    const seen = await domains.verifyDomain(core, id);
    const missing = seen.filter(({ state }) => state !== "found");
    expect(missing.every(({ optional }) => optional)).toBe(true);
    expect(missing).toHaveLength(3);
  });
});
