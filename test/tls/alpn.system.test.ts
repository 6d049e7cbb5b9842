/** TLS-ALPN-01 with a real authority: a certificate through port 443 alone. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { openTls } from "../harness/clients/tls-client.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { noPebble, startPebble } from "../harness/peers/pebble.ts";
import { boot } from "../harness/servers/boot.ts";
import { HOST, place } from "./acme-place.ts";
import { fingerprintOf, listen, listener } from "./alpn-listener.ts";

const HERE = { a: ["127.0.0.1"] };

describe.skipIf(noPebble !== undefined)("a real authority", () => {
  const names = { [HOST]: HERE, "app.example.test": HERE };

  test("gives a certificate for every name when only HTTPS can be reached", async () => {
    const pebble = await startPebble(names);
    const env = {
      MAILROOM_TLS: "acme",
      MAILROOM_ACME_CHALLENGE: "tls-alpn",
      MAILROOM_ACME_DIRECTORY: pebble.directory,
      MAILROOM_HOSTNAME: HOST,
      MAILROOM_BASE_URL: "https://app.example.test",
      MAILROOM_HTTP: "off",
      MAILROOM_HTTPS: "127.0.0.1:0",
    };
    // The appliance orders as soon as it is up, before the test knows its port.
    const { promise: port, resolve } = Promise.withResolvers<number>();
    pebble.askTlsAt(port);
    const { ready, server, lines } = await boot(env, zone(names), { authorities: [pebble.authority] });
    resolve(Number(ready.https?.split(":")[1]));
    await server.settled();
    expect(lines.find(({ message }) => message === "certificate obtained")).toMatchObject({
      challenge: "tls-alpn-01",
      names: [HOST, "app.example.test"],
    });
    const ca = await pebble.root();
    for (const servername of Object.keys(names)) {
      const socket = await openTls(await port, { servername, ca, rejectUnauthorized: true });
      expect(socket.authorized).toBe(true);
      socket.destroy();
    }
    expect(pebble.asked).toEqual([]);
  }, 120_000);

  test("renews a certificate while other clients are served undisturbed", async () => {
    const pebble = await startPebble({ [HOST]: HERE }, { env: { PEBBLE_AUTHZREUSE: "0" } });
    const at = place(pebble, { challenge: { type: "tls-alpn" } });
    const opened = await at.open();
    const { port, get } = await listen(opened);
    pebble.askTlsAt(Promise.resolve(port));
    await opened.look();
    const { validFromDate, validToDate } = new X509Certificate(opened.current().cert);
    at.runtime.advanceTo((validFromDate.getTime() + validToDate.getTime() * 3) / 4);
    let isOver = false;
    const renewed = opened.look().finally(() => {
      isOver = true;
    });
    const seen = new Set<string>();
    while (!isOver) {
      const { text, shown } = await get({ servername: HOST, ALPNProtocols: ["h2", "http/1.1"] });
      expect(text).toEndWith("here 127.0.0.1");
      seen.add(shown);
    }
    await renewed;
    const fingerprints = opened.seen.map(({ cert }) => fingerprintOf(cert));
    expect(fingerprints).toHaveLength(2);
    expect([...seen].filter((shown) => !fingerprints.includes(shown))).toEqual([]);
    expect((await get()).shown).toBe(fingerprints[1] ?? "");
  }, 120_000);

  test("fails when another server answers at port 443; the failure is reported and retried", async () => {
    const pebble = await startPebble({ [HOST]: HERE });
    const { port } = await listener();
    pebble.askTlsAt(Promise.resolve(port));
    const at = place(pebble, { challenge: { type: "tls-alpn" } });
    const { look, trouble, alpn } = await at.open();
    await look();
    expect(trouble()).toMatchObject({ failures: 1, reason: expect.stringContaining(`${HOST}: `) });
    expect(at.lines.find(({ level }) => level === "warn")).toMatchObject({ challenge: "tls-alpn-01", names: [HOST] });
    expect(alpn?.isPending()).toBe(false);
  }, 120_000);
});
