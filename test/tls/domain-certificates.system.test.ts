/** Certificates for hosts of domains beside the server's own, from a real authority, Pebble. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as domains from "../../src/admin/domains.ts";
import { readAcme } from "../../src/tls/acme.ts";
import { namesShownAt } from "../harness/clients/tls-client.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { noPebble, startPebble } from "../harness/peers/pebble.ts";
import { takePort } from "../harness/port.ts";
import { boot } from "../harness/servers/boot.ts";
import { HOST, place } from "./acme-place.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const HERE = { a: ["127.0.0.1"] };
const LIMIT_MS = 120_000;

/** A zone in which these names lead here. */
const leadingHere = (...names: string[]): Zone => Object.fromEntries([HOST, ...names].map((name) => [name, HERE]));

type Place = ReturnType<typeof place>;
type Opened = Awaited<ReturnType<Place["open"]>>;

/** Pebble's clock stands with the real one, so a certificate is renewed once: those for six days after four. */
const SHORT = { seconds: 6 * 24 * 3_600 };

/** Looks whenever the certificates are to be looked at, and at most hourly, until these have been renewed. */
async function untilRenewed(at: Place, opened: Opened, ...names: string[]): Promise<void> {
  const begin = at.runtime.now();
  while (!names.every((name) => obtained(at, name).length >= 2)) {
    expect(at.runtime.now() - begin).toBeLessThan(6 * DAY_MS);
    const next = await opened.look();
    at.runtime.advanceTo(Math.max(next, at.runtime.now() + HOUR_MS));
  }
  for (const name of names) {
    const [first = 0, second = 0] = obtained(at, name);
    const days = (second - first) / DAY_MS;
    // In the window that Pebble suggests, a day around two thirds of its life, or at 85 %; and up to an hour late.
    expect([name, days > 2.9, days < 5.2]).toEqual([name, true, true]);
    expect(at.lines.filter((line) => line.level === "warn" && String(line.names).includes(name))).toEqual([]);
  }
}

/** When certificates for exactly these names were obtained, epoch ms. */
const obtained = ({ lines }: Place, ...names: string[]): number[] =>
  lines
    .filter((line) => line.message === "certificate obtained" && String(line.names) === String(names))
    .map(({ time }) => Date.parse(String(time)));

const ofDomain = async (at: Place, name: string) =>
  (await readAcme(at.folder)).domains.find(({ domain }) => domain === name);

describe.skipIf(noPebble !== undefined)("a real authority", () => {
  test(
    "gives the server's names one certificate and each domain another; every listener shows the one that is asked for",
    async () => {
      const names = leadingHere(
        ...["app.example.test", "mta-sts.example.test", "autoconfig.example.test", "mta-sts.other.test"],
      );
      names["autodiscover.example.test"] = { a: ["127.0.0.7"] };
      const pebble = await startPebble(names);
      const env = {
        MAILROOM_TLS: "acme",
        MAILROOM_ACME_DIRECTORY: pebble.directory,
        MAILROOM_HOSTNAME: HOST,
        MAILROOM_BASE_URL: "https://app.example.test",
        MAILROOM_HTTPS: "127.0.0.1:0",
        MAILROOM_IMAP: "127.0.0.1:0",
        MAILROOM_IMAPS: `127.0.0.1:${await takePort()}`,
      };
      const { opened, server, ready, http, owner, lines, advance } = await boot(env, zone(names), {
        authorities: [pebble.authority],
      });
      pebble.askAt(http);
      await server.settled();
      const port = (address = "") => Number(address.split(":").at(-1));
      const listeners = {
        https: { port: port(ready.https) },
        mx: { port: port(ready.mx), starttls: "smtp" },
        submission: { port: port(ready.submission), starttls: "smtp" },
        submissions: { port: port(ready.submissions) },
        imap: { port: port(ready.imap), starttls: "imap" },
        imaps: { port: port(ready.imaps) },
      } as const;
      const own = ["app.example.test", HOST];
      const example = ["autoconfig.example.test", "mta-sts.example.test"];
      for (const [name, listener] of Object.entries(listeners)) {
        for (const [asked, shown] of [
          ["mta-sts.example.test", example],
          ["MTA-STS.Example.test", example],
          ["autoconfig.example.test.", example],
          ["app.example.test", own],
          ["autodiscover.example.test", own],
          ["elsewhere.test", own],
          [undefined, own],
        ] as const) {
          expect([name, asked, await namesShownAt(listener, asked)]).toEqual([name, asked, [...shown]]);
        }
      }
      // A domain that comes later, and one that goes.
      const { core } = opened;
      const { store } = core;
      const added = store.transact((tx) => {
        const { id } = domains.addDomain(core, tx, owner.workspaceId, "other.test", []);
        domains.markDomainVerified(core, tx, id);
        return id;
      });
      await advance(MINUTE_MS);
      expect(await namesShownAt(listeners.https, "mta-sts.other.test")).toEqual(["mta-sts.other.test"]);
      const folder = join(opened.config.data, "tls/acme/domains");
      expect(readdirSync(folder).sort()).toEqual(["example.test", "other.test"]);
      store.transact((tx) => domains.removeDomain(tx, added));
      await advance(MINUTE_MS);
      expect(readdirSync(folder)).toEqual(["example.test"]);
      expect(await namesShownAt(listeners.https, "mta-sts.other.test")).toEqual(own);
      // A workspace that has left for another server.
      store.db.$client.exec("UPDATE workspaces SET moving = 'out'");
      await advance(MINUTE_MS);
      expect(readdirSync(folder)).toEqual([]);
      expect(await namesShownAt(listeners.https, "mta-sts.example.test")).toEqual(own);
      expect(lines.filter(({ level }) => level === "error")).toEqual([]);
    },
    LIMIT_MS,
  );

  test(
    "refuses a domain by its policy, which delays no renewal of the others",
    async () => {
      const names = leadingHere("mta-sts.bad.test", "mta-sts.good.test");
      const pebble = await startPebble(names, { ...SHORT, refused: ["bad.test"] });
      const at = place(pebble);
      pebble.askAt(at.origin);
      at.serve("bad.test", "good.test");
      const opened = await at.open();
      await untilRenewed(at, opened, HOST, "mta-sts.good.test");
      const refused = await ofDomain(at, "bad.test");
      expect(refused?.until).toBeUndefined();
      expect(refused?.trouble?.reason).toContain("mta-sts.bad.test");
      // Once a day, since no name of the domain is left for an order.
      expect(refused?.trouble?.failures).toBeGreaterThanOrEqual(3);
      expect(refused?.trouble?.failures).toBeLessThanOrEqual(6);
      expect(await opened.shownFor("mta-sts.bad.test")).toEqual([HOST]);
    },
    LIMIT_MS,
  );

  test(
    "cannot prove six domains, again and again, which delays neither the server's own nor another's",
    async () => {
      const failing = Array.from({ length: 6 }, (_, i) => `fails${i}.test`);
      const pebble = await startPebble(leadingHere("mta-sts.good.test"), SHORT);
      // They lead here, but not for the authority, which gives them no address.
      const dns = zone(leadingHere("mta-sts.good.test", ...failing.map((name) => `mta-sts.${name}`)));
      const at = place(pebble, { world: { dns } });
      pebble.askAt(at.origin);
      at.serve(...failing, "good.test");
      const opened = await at.open();
      await untilRenewed(at, opened, HOST, "mta-sts.good.test");
      for (const name of failing) {
        const trouble = (await ofDomain(at, name))?.trouble;
        expect(trouble?.reason).toContain(`mta-sts.${name}`);
        expect(trouble?.failures).toBeGreaterThanOrEqual(3);
      }
    },
    LIMIT_MS,
  );

  test(
    "refuses one host of a domain: the others get a certificate",
    async () => {
      const pebble = await startPebble(leadingHere("mta-sts.one.test", "autoconfig.one.test"), {
        refused: ["autoconfig.one.test"],
      });
      const at = place(pebble);
      pebble.askAt(at.origin);
      at.serve("one.test");
      const opened = await at.open();
      await opened.look();
      at.runtime.advanceTo(at.runtime.now() + 10 * MINUTE_MS);
      await opened.look();
      expect(await opened.shownFor("mta-sts.one.test")).toEqual(["mta-sts.one.test"]);
      expect(await opened.shownFor("autoconfig.one.test")).toEqual([HOST]);
    },
    LIMIT_MS,
  );

  test(
    "cannot be reached for the server's own name: domains get theirs all the same",
    async () => {
      const pebble = await startPebble(leadingHere("mta-sts.good.test"));
      const at = place(pebble, { world: { dns: zone(leadingHere("mta-sts.good.test")) } });
      delete pebble.zone[HOST];
      pebble.askAt(at.origin);
      at.serve("good.test");
      const opened = await at.open();
      await opened.look();
      expect(opened.trouble()?.failures).toBe(1);
      expect(await opened.shownFor("mta-sts.good.test")).toEqual(["mta-sts.good.test"]);
    },
    LIMIT_MS,
  );

  test(
    "has an account for the server and another for domains; files are the owner's alone, and used after a restart",
    async () => {
      const pebble = await startPebble(leadingHere("mta-sts.one.test"));
      const at = place(pebble);
      pebble.askAt(at.origin);
      at.serve("one.test");
      await (await at.open()).look();
      const [own, others] = ["account.json", "domains-account.json"].map((name) =>
        JSON.parse(readFileSync(at.file(name), "utf8")),
      );
      expect(own.url).not.toBe(others.url);
      expect(own.key).not.toBe(others.key);
      const again = await at.open();
      expect(await again.shownFor("mta-sts.one.test")).toEqual(["mta-sts.one.test"]);
      await again.look();
      expect([HOST, "mta-sts.one.test"].map((name) => obtained(at, name).length)).toEqual([1, 1]);
      // Removed while no server ran.
      at.serve();
      const last = await at.open();
      await last.look();
      expect(await last.shownFor("mta-sts.one.test")).toEqual([HOST]);
      expect(readdirSync(at.file("domains"))).toEqual([]);
    },
    LIMIT_MS,
  );

  test(
    "gave an earlier version one certificate for all names, which serves them until each has its own",
    async () => {
      const names = leadingHere("mta-sts.one.test", "mta-sts.two.test");
      const earlier = await startPebble(names);
      const before = place(earlier);
      earlier.askAt(before.origin);
      const all = [HOST, "mta-sts.one.test", "mta-sts.two.test"];
      await (await before.open(all.slice(1))).look();

      const pebble = await startPebble(names, { refused: ["two.test", HOST] });
      const at = place(pebble, { folder: before.folder });
      pebble.askAt(at.origin);
      at.serve("one.test", "two.test");
      const opened = await at.open();
      for (const name of all) expect(await opened.shownFor(name)).toEqual(all);
      await opened.look();
      expect(await opened.shownFor(HOST)).toEqual(all);
      expect(await opened.shownFor("mta-sts.one.test")).toEqual(["mta-sts.one.test"]);
      expect(await opened.shownFor("mta-sts.two.test")).toEqual(all);

      const kind = await startPebble(names, { refused: ["two.test"] });
      const moved = place(kind, { folder: before.folder });
      kind.askAt(moved.origin);
      moved.serve("one.test", "two.test");
      const last = await moved.open();
      moved.runtime.advanceTo(Date.now() + HOUR_MS);
      await last.look();
      expect(await last.shownFor(HOST)).toEqual([HOST]);
      expect(await last.shownFor("mta-sts.two.test")).toEqual(all);
      expect((await ofDomain(moved, "two.test"))?.trouble?.reason).toContain("mta-sts.two.test");
    },
    LIMIT_MS,
  );

  test(
    "gave one for all names, which is replaced at once, and once",
    async () => {
      const pebble = await startPebble(leadingHere("mta-sts.one.test"));
      const at = place(pebble);
      pebble.askAt(at.origin);
      await (await at.open(["mta-sts.one.test"])).look();
      at.serve("one.test");
      const opened = await at.open();
      await opened.look();
      await opened.look();
      expect([HOST, "mta-sts.one.test"].map((name) => obtained(at, name).length)).toEqual([1, 1]);
      expect(await opened.shownFor(HOST)).toEqual([HOST]);
      expect(await opened.shownFor("mta-sts.one.test")).toEqual(["mta-sts.one.test"]);
    },
    LIMIT_MS,
  );

  test(
    "continues the order of a domain with its key after a crash between the order and its certificate",
    async () => {
      const pebble = await startPebble(leadingHere("mta-sts.one.test"));
      const at = place(pebble);
      pebble.askAt(at.origin);
      at.serve("one.test");
      const folder = at.file("domains/one.test");
      // The certificate cannot be written.
      mkdirSync(join(folder, "certificate.pem.new"), { recursive: true });
      await (await at.open()).look();
      expect([HOST, "mta-sts.one.test"].map((name) => obtained(at, name).length)).toEqual([1, 0]);
      const { key } = JSON.parse(readFileSync(join(folder, "order.json"), "utf8"));
      const asked = pebble.asked.length;
      rmSync(join(folder, "certificate.pem.new"), { recursive: true });
      at.runtime.advanceTo(at.runtime.now() + 10 * MINUTE_MS);
      const opened = await at.open();
      await opened.look();
      expect(readFileSync(join(folder, "certificate.pem"), "utf8")).toContain(key.trim());
      expect(pebble.asked).toHaveLength(asked);
      expect(existsSync(join(folder, "order.json"))).toBe(false);
    },
    LIMIT_MS,
  );
});
