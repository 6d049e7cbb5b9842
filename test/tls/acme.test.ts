/** Authorities that give no certificate, and the schedule of orders. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { AuthorityRefusal, openAuthority } from "../../src/tls/certificate-authority.ts";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { saveKeyPair, selfSign } from "../../src/tls/pair.ts";
import { addCertificateFailure, certificateRenewalTime } from "../../src/tls/renewal-schedule.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { START } from "../harness/runtime.ts";
import { atEndOfTest, HOST, place } from "./acme-place.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const certificateOf = ({ cert }: KeyPair): X509Certificate => new X509Certificate(cert);
const isSelfSigned = (pair: KeyPair): boolean => certificateOf(pair).verify(certificateOf(pair).publicKey);

describe("an authority that gives no certificate", () => {
  test("is tried again later when it cannot be reached, and mail flows on", async () => {
    const pair = await makePair("localhost");
    const at = place({ directory: "https://localhost:1/dir", authority: pair.cert, zone: {} });
    const { look, current, seen, trouble } = await at.open();
    await look();
    expect([seen, isSelfSigned(current())]).toEqual([[], true]);
    expect(trouble()).toMatchObject({ failures: 1 });
    expect(at.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  test.each([
    ["7200", 2 * HOUR_MS],
    ["60", 5 * MINUTE_MS],
  ])("is not asked before the time in Retry-After %s", async (after, atLeast) => {
    const pair = await makePair("localhost");
    let asked = 0;
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch({ url }) {
        const { origin, pathname } = new URL(url);
        asked++;
        if (pathname === "/dir") {
          return Response.json({
            newNonce: `${origin}/nonce`,
            newAccount: `${origin}/account`,
            newOrder: `${origin}/o`,
          });
        }
        if (pathname === "/nonce") return new Response(null, { headers: { "replay-nonce": "abc" } });
        const problem = { type: "urn:ietf:params:acme:error:rateLimited", detail: "too many orders" };
        return Response.json(problem, { status: 429, headers: { "retry-after": after } });
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert, zone: {} });
    const { look, trouble } = await at.open();
    const begin = at.runtime.now();
    await look();
    expect(trouble()?.reason).toBe("too many orders");
    const retryAt = trouble()?.retryAt ?? 0;
    expect(retryAt - begin).toBeGreaterThanOrEqual(atLeast);
    expect(retryAt - begin).toBeLessThanOrEqual(atLeast * 1.2);
    const once = asked;
    at.runtime.advanceTo(retryAt - 1);
    await look();
    expect(asked).toBe(once);
    at.runtime.advanceTo(retryAt);
    await look();
    expect(asked).toBeGreaterThan(once);
  });

  test.each([
    ["apart", { detail: "not that name", identifier: { type: "dns", value: "app.example.test" } }, true],
    ["in words", { detail: 'cannot issue for "app.example.test": not public' }, true],
    ["not at all", { detail: "forbidden by policy" }, false],
  ])(
    "for a name, told %s, leaves it out for a day; a clock set back then lengthens no wait",
    async (_, refusal, tells) => {
      const pair = await makePair("localhost");
      const orders: string[][] = [];
      const server = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        tls: pair,
        async fetch(request) {
          const { origin, pathname } = new URL(request.url);
          const at = (path: string) => `${origin}/${path}`;
          const headers = { "replay-nonce": "abc", location: at("account") };
          if (pathname === "/dir") {
            return Response.json({ newNonce: at("nonce"), newAccount: at("account"), newOrder: at("order") });
          }
          if (pathname !== "/order") return Response.json({ status: "valid" }, { headers });
          const { payload } = (await request.json()) as { payload: string };
          const { identifiers } = JSON.parse(Buffer.from(payload, "base64url").toString());
          orders.push(identifiers.map(({ value }: { value: string }) => value));
          return Response.json({ type: "rejectedIdentifier", ...refusal }, { status: 403 });
        },
      });
      atEndOfTest(() => void server.stop(true));
      const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert, zone: {} });
      const { look, trouble } = await at.open(["app.example.test", "web.example.test"]);
      const all = [HOST, "app.example.test", "web.example.test"];
      const left = tells ? [HOST, "web.example.test"] : [HOST];
      at.runtime.setBy(365 * DAY_MS);
      await look();
      at.runtime.advanceTo(trouble()?.retryAt ?? 0);
      await look();
      expect(orders).toEqual([all, left]);
      at.runtime.setBy(-365 * DAY_MS);
      await look();
      at.runtime.advanceTo(trouble()?.retryAt ?? 0);
      await look();
      expect(orders).toEqual([all, left, all]);
    },
  );

  describe("for the hosts of many domains", () => {
    const nameOf = (i: number) => `d${i}.test`;
    const MANY = Array.from({ length: 15 }, (_, i) => nameOf(i));

    /** An authority that refuses every order with Retry-After, and notes their names. */
    async function refusing(after: string) {
      const pair = await makePair("localhost");
      const orders: string[] = [];
      const accounts: string[] = [];
      const server = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        tls: pair,
        async fetch(request) {
          const { origin, pathname } = new URL(request.url);
          const at = (path: string) => `${origin}/${path}`;
          const body =
            request.method === "POST" ? ((await request.json()) as { payload: string; protected: string }) : undefined;
          const read = (part = "") => JSON.parse(Buffer.from(part, "base64url").toString());
          if (pathname === "/account") accounts.push(at(`account/${accounts.length}`));
          const headers = { "replay-nonce": "abc", location: accounts.at(-1) ?? "" };
          if (pathname === "/dir") {
            return Response.json({ newNonce: at("nonce"), newAccount: at("account"), newOrder: at("order") });
          }
          if (pathname !== "/order") return Response.json({ status: "valid" }, { headers });
          const [identifier] = read(body?.payload).identifiers;
          orders.push(`${identifier.value} ${read(body?.protected).kid.split("/").at(-1)}`);
          const problem = { type: "urn:ietf:params:acme:error:rateLimited", detail: "too many" };
          return Response.json(problem, { status: 429, headers: { ...headers, "retry-after": after } });
        },
      });
      atEndOfTest(() => void server.stop(true));
      const zone = Object.fromEntries(
        [HOST, ...[...MANY, "other.test"].map((name) => `mta-sts.${name}`)].map((name) => [name, { a: ["127.0.0.1"] }]),
      );
      return {
        orders,
        place: () => place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert, zone }),
      };
    }

    test("orders come behind the server's own, few an hour, and their owners take turns", async () => {
      const { orders, place } = await refusing("1");
      const at = place();
      at.serve(...MANY.map((name) => `${name} greedy`), "other.test");
      const opened = await at.open();
      const begin = at.runtime.now();
      await opened.look();
      expect(orders[0]).toBe(`${HOST} 0`);
      expect(orders).toHaveLength(11);
      expect(orders.slice(1, 4)).toContain("mta-sts.other.test 1");
      expect(orders.slice(1).every((order) => order.endsWith(" 1"))).toBe(true);
      const ofDomains = () => orders.filter((order) => order.endsWith(" 1"));
      while (at.runtime.now() < begin + HOUR_MS) {
        at.runtime.advanceTo(at.runtime.now() + 2 * MINUTE_MS);
        const before = ofDomains().length;
        await opened.look();
        expect(ofDomains().length - before).toBeLessThanOrEqual(1);
      }
      expect(ofDomains().length).toBeLessThanOrEqual(40);
      // Everybody's turn comes, and those that failed less come first.
      for (const name of MANY) expect(orders).toContain(`mta-sts.${name} 1`);
      // After 0, 5 and 20 minutes.
      expect(orders.filter((order) => order === `${HOST} 0`)).toHaveLength(3);
      // Over and over.
      const count = ofDomains().length;
      for (let restart = 0; restart < 5; restart++) await (await at.open()).look();
      expect(ofDomains().length - count).toBeLessThanOrEqual(10);
    });

    test("Retry-After holds for its own domain alone", async () => {
      const { orders, place } = await refusing("86400");
      const at = place();
      at.serve(nameOf(0));
      const { look } = await at.open();
      await look();
      at.serve(nameOf(0), nameOf(1));
      at.runtime.advanceTo(at.runtime.now() + 10 * MINUTE_MS);
      await look();
      expect(orders).toEqual([`${HOST} 0`, `mta-sts.${nameOf(0)} 1`, `mta-sts.${nameOf(1)} 1`]);
    });

    test("a failure is forgotten once nothing of the domain leads here, and its wait is over for a day", async () => {
      const { place } = await refusing("1");
      const at = place();
      const name = nameOf(0);
      at.serve(name);
      const opened = await at.open();
      await opened.look();
      at.runtime.dns = zone({ [HOST]: { a: ["127.0.0.1"] } });
      const failing = () => opened.domains().filter(({ isFailing }) => isFailing).length;
      at.runtime.advanceTo(at.runtime.now() + DAY_MS);
      await opened.look();
      expect([failing(), existsSync(at.file(`domains/${name}`))]).toEqual([1, true]);
      at.runtime.advanceTo(at.runtime.now() + HOUR_MS);
      await opened.look();
      expect([failing(), existsSync(at.file(`domains/${name}`))]).toEqual([0, false]);
    });

    test("a name that leads out of their folder removes nothing there", async () => {
      const { place } = await refusing("1");
      const at = place();
      mkdirSync(join(at.folder, "elsewhere.test"));
      at.serve("../../../elsewhere.test");
      const { look } = await at.open();
      await look();
      at.serve();
      await look();
      expect(readdirSync(at.folder).sort()).toEqual(["elsewhere.test", "tls"]);
    });

    test("a list that cannot be read loses no certificate, and does not delay the server's own", async () => {
      const { orders, place } = await refusing("1");
      const at = place();
      const folder = at.file("domains/kept.test");
      await saveKeyPair(join(folder, "certificate.pem"), await makePair("mta-sts.kept.test"));
      at.serve("kept.test");
      at.failToList();
      const { look, shownFor } = await at.open();
      await look();
      expect(orders).toEqual([`${HOST} 0`]);
      expect(await shownFor("mta-sts.kept.test")).toEqual(["mta-sts.kept.test"]);
    });
  });

  test("and asks for the proof of another name is shown none; an endless reason is cut", async () => {
    const pair = await makePair("localhost");
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch({ url }) {
        const { origin, pathname } = new URL(url);
        const at = (path: string) => `${origin}/${path}`;
        const answers: Record<string, object> = {
          dir: { newNonce: at("nonce"), newAccount: at("account"), newOrder: at("order") },
          nonce: {},
          account: { status: "valid" },
          order: {
            status: "pending",
            identifiers: [],
            authorizations: [at("authorization")],
            finalize: at("finalize"),
          },
          authorization: {
            status: "pending",
            identifier: { type: "dns", value: "bank.example.test" },
            challenges: [{ type: "http-01", status: "pending", url: at("challenge"), token: "token" }],
          },
        };
        const answer = answers[pathname.slice(1)];
        const headers = { "replay-nonce": "abc", location: url };
        if (answer) return Response.json(answer, { status: pathname === "/order" ? 201 : 200, headers });
        return Response.json({ detail: "no" }, { status: 400, headers });
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert, zone: {} });
    const { look, trouble } = await at.open();
    await look();
    expect(trouble()?.reason).toBe("the authority asks for proofs of names that were not ordered");
    expect(new AuthorityRefusal(400, { detail: `no\n${"x".repeat(10_000)}` }, undefined).message).toHaveLength(1_000);
  });

  test("and falls silent at a proof: no name is left out", async () => {
    const pair = await makePair("localhost");
    const reached = Promise.withResolvers<void>();
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch({ url }) {
        const { origin, pathname } = new URL(url);
        const at = (path: string) => `${origin}/${path}`;
        const answers: Record<string, object> = {
          dir: { newNonce: at("nonce"), newAccount: at("account"), newOrder: at("order") },
          nonce: {},
          account: { status: "valid" },
          order: {
            status: "pending",
            identifiers: [],
            authorizations: [at("authorization")],
            finalize: at("finalize"),
          },
          authorization: {
            status: "pending",
            identifier: { type: "dns", value: "app.example.test" },
            challenges: [{ type: "http-01", status: "pending", url: at("challenge"), token: "token" }],
          },
        };
        const answer = answers[pathname.slice(1)];
        const headers = { "replay-nonce": "abc", location: url };
        if (answer) return Response.json(answer, { status: pathname === "/order" ? 201 : 200, headers });
        reached.resolve();
        return new Promise<Response>(() => {});
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert, zone: {} });
    const { look, trouble } = await at.open(["app.example.test"]);
    const looked = look();
    await reached.promise;
    at.runtime.advanceTo(at.runtime.now() + 30_000);
    await looked;
    expect(trouble()?.reason).toBe("no complete answer within 30 seconds");
    expect(at.lines.find(({ level }) => level === "warn")).toMatchObject({ names: [] });
  });

  test("does not delay the stop of the server", async () => {
    const pair = await makePair("localhost");
    const reached = Promise.withResolvers<void>();
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch() {
        reached.resolve();
        return new Promise<Response>(() => {});
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert, zone: {} });
    const { look, stop, trouble } = await at.open();
    const looked = look();
    await reached.promise;
    stop();
    await looked;
    expect(trouble()).toBeUndefined();
  });
});

test("the renewal follows the window that the authority suggests, unless that is too late", async () => {
  const { cert } = await selfSign("mail.example.test", START, START + 90 * DAY_MS, new Uint8Array(16));
  const certificate = new X509Certificate(cert);
  const from = certificate.validFromDate.getTime();
  const at = (start: number, end: number) =>
    (certificateRenewalTime(certificate, { start, end, askAt: 0 }, 0) - from) / DAY_MS;
  const early = at(START + 10 * DAY_MS, START + 12 * DAY_MS);
  expect(early).toBeGreaterThanOrEqual(10);
  expect(early).toBeLessThanOrEqual(12);
  for (const days of [89, 91, 4_000]) {
    const late = at(START + days * DAY_MS, START + (days + 1) * DAY_MS);
    expect(late).toBeGreaterThanOrEqual(90 * 0.8);
    expect(late).toBeLessThanOrEqual(90 * 0.85);
  }
});

test("a wait that the authority asks for is kept, up to a week", () => {
  const wait = (askedFor: number) =>
    addCertificateFailure(undefined, { now: START, reason: "", chance: 0, askedFor }).retryAt - START;
  expect(wait(START + 1_000)).toBe(5 * MINUTE_MS);
  expect(wait(START + 2 * DAY_MS)).toBe(2 * DAY_MS);
  expect(wait(START + 1_000 * DAY_MS)).toBe(7 * DAY_MS);
});

test.each([
  ["3600", 3_600_000],
  ["31536000", DAY_MS],
  [undefined, 6 * 3_600_000],
])("the next question about the window follows Retry-After %p", async (retryAfter, expected) => {
  const window = { start: "2026-03-01T00:00:00Z", end: "2026-03-02T00:00:00Z" };
  const directory = "https://ca.test/dir";
  const authority = openAuthority({
    directory,
    runtime: { now: () => START },
    http: {
      within: (_, work) => work(new AbortController().signal),
      send: async ({ url }) =>
        url === directory
          ? Response.json({ renewalInfo: "https://ca.test/ari" })
          : Response.json({ suggestedWindow: window }, { headers: retryAfter ? { "retry-after": retryAfter } : {} }),
    },
  });
  expect(await authority.renewalWindow("id")).toEqual({
    start: Date.parse(window.start),
    end: Date.parse(window.end),
    askAt: START + expected,
  });
});
