/** Certificates from a real authority, Pebble. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { readAcme } from "../../src/tls/acme.ts";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { noPebble, startPebble } from "../harness/peers/pebble.ts";
import { boot } from "../harness/servers/boot.ts";
import { atEndOfTest, HOST, place } from "./acme-place.ts";

if (noPebble) console.warn(`certificates from a real ACME server: skipped, ${noPebble}`);

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const HERE = { a: ["127.0.0.1"] };

const certificateOf = ({ cert }: KeyPair): X509Certificate => new X509Certificate(cert);
const namesIn = (pair: KeyPair) => certificateOf(pair).subjectAltName?.split(", ").sort();
const isSelfSigned = (pair: KeyPair): boolean => certificateOf(pair).verify(certificateOf(pair).publicKey);

describe.skipIf(noPebble !== undefined)("a real authority", () => {
  test("every listener starts self-signed and serves the certificate once it is obtained, without a restart", async () => {
    const names = {
      [HOST]: HERE,
      "app.example.test": HERE,
      "mta-sts.example.test": HERE,
      "mta-sts.other.test": { a: ["127.0.0.7"] },
    };
    const pebble = await startPebble(names);
    const env = {
      MAILROOM_TLS: "acme",
      MAILROOM_ACME_DIRECTORY: pebble.directory,
      MAILROOM_HOSTNAME: HOST,
      MAILROOM_BASE_URL: "https://app.example.test",
      MAILROOM_HTTPS: "127.0.0.1:0",
    };
    const booted = await boot(env, zone(names), { authorities: [pebble.authority] });
    const { opened, server, ready, http, mx, submission, submissions } = booted;
    const servername = HOST;
    const [, port = ""] = ready.https?.split(":") ?? [];
    const overTls = (options: object) =>
      new Promise<TLSSocket>((resolve, reject) => {
        const socket: TLSSocket = connect({ host: "127.0.0.1", servername, ...options }, () => resolve(socket));
        socket.once("error", reject);
      });
    const fingerprints = async () => {
      const seen: string[] = [];
      for (const address of [mx, submission]) {
        const client = await connectSmtp(address);
        await client.expect(220, "STARTTLS");
        seen.push((await client.secure()).fingerprint);
        client.destroy();
      }
      for (const number of [submissions.port, Number(port)]) {
        const socket = await overTls({ port: number, rejectUnauthorized: false });
        seen.push(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      }
      return new Set(seen);
    };
    const folder = join(opened.config.data, "tls");
    const fingerprintIn = (file: string) => {
      const pem = readFileSync(join(folder, file), "utf8");
      return new X509Certificate(pem.slice(pem.indexOf("-----BEGIN CERT"))).fingerprint256;
    };
    expect(await fingerprints()).toEqual(new Set([fingerprintIn("self-signed.pem")]));
    pebble.askAt(http);
    await server.settled();
    expect(await fingerprints()).toEqual(new Set([fingerprintIn("acme/certificate.pem")]));
    // Verified, chain and name, by a client that trusts the authority's root alone.
    const verified = await overTls({ port: Number(port), ca: await pebble.root() });
    expect(verified.authorized).toBe(true);
    verified.destroy();
    expect(booted.lines.find(({ message }) => message === "certificate obtained")).toMatchObject({
      names: [HOST, "app.example.test"],
    });
  }, 120_000);

  test("only their owner can read key, account and certificate, which are used again after a restart", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    const { look, current, seen } = await at.open();
    expect(isSelfSigned(current())).toBe(true);
    const next = await look();
    expect([seen, isSelfSigned(current())]).toEqual([[current()], false]);
    expect(next - at.runtime.now()).toBe(MINUTE_MS);
    for (const name of readdirSync(join(at.folder, "tls/acme"))) {
      expect([name, statSync(at.file(name)).mode & 0o777]).toEqual([name, 0o600]);
    }
    expect(readdirSync(join(at.folder, "tls/acme")).sort()).toEqual(["account.json", "certificate.pem", "state.json"]);
    expect(statSync(join(at.folder, "tls/acme")).mode & 0o777).toBe(0o700);
    expect(JSON.stringify(at.lines)).not.toContain("PRIVATE KEY");

    const asked = pebble.asked.length;
    const again = await at.open();
    expect(again.current()).toEqual(current());
    await again.look();
    expect([again.seen, pebble.asked.length]).toEqual([[], asked]);
  }, 120_000);

  test("the certificate is renewed within a tenth of its life after two thirds of it, with a new key and the same account", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    const { look, current, seen } = await at.open();
    await look();
    const account = readFileSync(at.file("account.json"), "utf8");
    const { validFromDate, validToDate } = certificateOf(current());
    const life = validToDate.getTime() - validFromDate.getTime();
    at.runtime.advanceTo(validFromDate.getTime() + life * 0.65);
    await look();
    expect(seen).toHaveLength(1);
    at.runtime.advanceTo(validFromDate.getTime() + life * 0.75);
    await look();
    expect(seen).toHaveLength(2);
    expect(seen[1]?.key).not.toBe(seen[0]?.key);
    expect(readFileSync(at.file("account.json"), "utf8")).toBe(account);
  }, 120_000);

  test("the certificate is renewed when the authority suggests it, as after a revocation", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    const { look, current, seen } = await at.open();
    await look();
    const now = at.runtime.now();
    const window = (from: number) => ({
      start: new Date(from).toISOString(),
      end: new Date(from + HOUR_MS).toISOString(),
    });
    await pebble.suggest(current().cert, window(now + 3 * DAY_MS));
    await look();
    await pebble.suggest(current().cert, window(now - 2 * HOUR_MS));
    at.runtime.advanceTo(now + 7 * HOUR_MS);
    await look();
    expect(seen).toHaveLength(2);
  }, 120_000);

  test("a new name is ordered when it appears, and names whose challenge fails are left out for a day", async () => {
    const pebble = await startPebble({ [HOST]: HERE, "app.example.test": HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    await (await at.open()).look();
    const { look, current, trouble } = await at.open(["app.example.test", "gone.example.test", "lost.example.test"]);
    at.runtime.advanceTo(at.runtime.now() + 10 * MINUTE_MS);
    await look();
    expect(namesIn(current())).toEqual([`DNS:${HOST}`]);
    const { failures, reason } = trouble() ?? {};
    expect([failures, reason]).toEqual([
      1,
      expect.stringMatching(/gone\.example\.test: .*; lost\.example\.test: |lost.*; gone/),
    ]);
    at.runtime.advanceTo(at.runtime.now() + 10 * MINUTE_MS);
    await look();
    expect(namesIn(current())).toEqual(["DNS:app.example.test", `DNS:${HOST}`]);
    expect(trouble()).toBeUndefined();
    for (const name of ["gone.example.test", "lost.example.test"]) pebble.zone[name] = HERE;
    at.runtime.advanceTo(at.runtime.now() + DAY_MS);
    await look();
    expect(namesIn(current())).toHaveLength(4);
  }, 120_000);

  test("a renewal waits for a name that fails and that the certificate is good for, up to four fifths of its life", async () => {
    const names = { [HOST]: HERE, "app.example.test": HERE };
    const pebble = await startPebble(names, { env: { PEBBLE_AUTHZREUSE: "0" } });
    const at = place(pebble);
    pebble.askAt(at.origin);
    const { look, current, seen, trouble } = await at.open(["app.example.test"]);
    await look();
    const { validFromDate, validToDate } = certificateOf(current());
    const ageTo = (age: number) =>
      at.runtime.advanceTo(validFromDate.getTime() + (validToDate.getTime() - validFromDate.getTime()) * age);
    delete pebble.zone["app.example.test"];
    ageTo(0.75);
    for (let failures = 1; failures <= 3; failures++) {
      await look();
      expect([trouble()?.failures, seen.length]).toEqual([failures, 1]);
      at.runtime.advanceTo(trouble()?.retryAt ?? 0);
    }
    // What the last attempt left out stays so for a day.
    ageTo(0.8);
    await look();
    at.runtime.advanceTo(trouble()?.retryAt ?? 0);
    await look();
    expect([seen.length, namesIn(current())]).toEqual([2, [`DNS:${HOST}`]]);
  }, 120_000);

  test("a failed proof is reported and retried after growing waits, restarts included, until it succeeds", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    const empty = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("nothing", { status: 404 }) });
    atEndOfTest(() => void empty.stop(true));
    pebble.askAt(`http://127.0.0.1:${empty.port}`);
    let opened = await at.open();
    const waits: number[] = [];
    for (let round = 0; round < 4; round++) {
      const next = await opened.look();
      expect(next).toBeGreaterThan(at.runtime.now());
      const asked = pebble.asked.length;
      expect(asked).toBeGreaterThan(0);
      const trouble = (await readAcme(at.folder)).own.trouble;
      expect(trouble).toMatchObject({ failures: round + 1, reason: expect.stringContaining("404") });
      waits.push((trouble?.retryAt ?? 0) - at.runtime.now());
      // Neither an early look nor a restart asks again.
      opened = await at.open();
      at.runtime.advanceTo((trouble?.retryAt ?? 0) - 1_000);
      await opened.look();
      expect(pebble.asked).toHaveLength(asked);
      at.runtime.advanceTo(trouble?.retryAt ?? 0);
    }
    for (const [i, minutes] of [5, 15, 60, 240].entries()) {
      expect(waits[i]).toBeGreaterThanOrEqual(minutes * MINUTE_MS);
      expect(waits[i]).toBeLessThanOrEqual(minutes * MINUTE_MS * 1.2);
    }
    const warnings = at.lines.filter(({ level }) => level === "warn");
    expect(warnings).toHaveLength(4);
    expect(warnings[0]).toMatchObject({ names: [HOST], failures: 1 });
    pebble.askAt(at.origin);
    await opened.look();
    expect(isSelfSigned(opened.current())).toBe(false);
    expect((await readAcme(at.folder)).own.trouble).toBeUndefined();
  }, 120_000);

  test("after a crash the order under way continues with its key", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    // The certificate cannot be written.
    mkdirSync(at.file("certificate.pem.new"), { recursive: true });
    const first = await at.open();
    await first.look();
    expect(first.seen).toEqual([]);
    const { url, key } = JSON.parse(readFileSync(at.file("order.json"), "utf8"));
    const asked = pebble.asked.length;
    rmSync(at.file("certificate.pem.new"), { recursive: true });
    at.runtime.advanceTo(at.runtime.now() + 10 * MINUTE_MS);
    const second = await at.open();
    await second.look();
    expect(second.current().key).toBe(key.trim());
    expect(pebble.asked).toHaveLength(asked);
    expect(url).toStartWith("https://");
    expect(readdirSync(join(at.folder, "tls/acme"))).not.toContain("order.json");
  }, 120_000);

  test("requests with a bad nonce are repeated, and damaged files are replaced", async () => {
    const pebble = await startPebble({ [HOST]: HERE }, { env: { PEBBLE_WFE_NONCEREJECT: "30" } });
    const at = place(pebble);
    pebble.askAt(at.origin);
    mkdirSync(join(at.folder, "tls/acme"), { recursive: true });
    for (const name of ["account.json", "order.json", "state.json", "certificate.pem"]) {
      writeFileSync(at.file(name), '{"half":');
    }
    const { look, current } = await at.open();
    await look();
    expect(namesIn(current())).toEqual([`DNS:${HOST}`]);
  }, 120_000);

  test("a clock that is years ahead causes one order, not one after another", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    at.runtime.advanceTo(Date.now() + 4_000 * DAY_MS);
    const { look, seen, trouble } = await at.open();
    await look();
    await look();
    at.runtime.advanceTo(at.runtime.now() + 2 * MINUTE_MS);
    await look();
    expect(seen).toHaveLength(1);
    expect(trouble()?.reason).toContain("clock");
    // Once the clock is set right, no order is due and none waits.
    at.runtime.advanceTo(Date.now());
    await look();
    expect(seen).toHaveLength(1);
  }, 120_000);

  test("an account that the authority no longer knows is registered again", async () => {
    const pebble = await startPebble({ [HOST]: HERE, "app.example.test": HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    await (await at.open()).look();
    const { url, ...account } = JSON.parse(readFileSync(at.file("account.json"), "utf8"));
    writeFileSync(at.file("account.json"), JSON.stringify({ ...account, url: `${url}0` }));
    const { look, trouble, seen } = await at.open(["app.example.test"]);
    await look();
    expect([seen.length, trouble()?.failures]).toEqual([0, 1]);
    at.runtime.advanceTo(trouble()?.retryAt ?? 0);
    await look();
    expect([seen.length, trouble()]).toEqual([1, undefined]);
  }, 120_000);

  test("another directory is another authority, which needs its own account and certificate", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const at = place(pebble);
    pebble.askAt(at.origin);
    const first = await at.open();
    await first.look();
    const other = await startPebble({ [HOST]: HERE });
    const moved = place(other, { folder: at.folder });
    other.askAt(moved.origin);
    const second = await moved.open();
    expect(second.current()).toEqual(first.current());
    await second.look();
    expect(second.current().cert).not.toBe(first.current().cert);
  }, 120_000);
});
