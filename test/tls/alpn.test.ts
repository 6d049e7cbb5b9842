/** TLS-ALPN-01: a certificate through port 443 alone, and what everybody else sees at that port meanwhile. */
import { describe, expect, test } from "bun:test";
import { createHash, X509Certificate } from "node:crypto";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { createLog } from "../../src/base/log.ts";
import { createConnections } from "../../src/http/connections.ts";
import { createHttpsServer } from "../../src/http/https.ts";
import { listenInner } from "../../src/http/listener.ts";
import { createAlpnFront } from "../../src/tls/alpn-front.ts";
import type { Certificates, KeyPair } from "../../src/tls/certificates.ts";
import { openChallenge } from "../../src/tls/challenge.ts";
import { atEndOfTest, HOST, place } from "../harness/acme-place.ts";
import { boot } from "../harness/appliance.ts";
import { zone } from "../harness/dns-server.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { noPebble, startPebble } from "../harness/pebble.ts";
import { makePair } from "../harness/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const HERE = { a: ["127.0.0.1"] };
const ACME = { servername: HOST, ALPNProtocols: ["acme-tls/1"] };
const log = createLog("silent", Date.now, () => {});
const pairs = Promise.all([makePair(HOST), makePair(HOST)]);

/** A connection over TLS; rejects when it is refused. */
const openTls = (port: number, options: ConnectionOptions = {}): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options }, () =>
      resolve(socket),
    );
    socket.once("error", reject);
  });

/** Everything that comes until the connection is closed. */
const readAll = (socket: Socket): Promise<string> =>
  new Promise((resolve) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.once("close", () => resolve(text));
  });

const GET = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const fingerprintOf = (cert: string): string => new X509Certificate(cert).fingerprint256;

type Shown = Pick<Certificates, "current" | "onChange" | "alpn">;

/** An HTTPS listener that answers everybody with their own address. */
async function listen(certificates: Shown) {
  const runtime = fakeRuntime();
  const answer = async (_: Request, peer: string | undefined) => new Response(`here ${peer}`);
  const server = await createHttpsServer({
    connections: createConnections({ most: 1_000, trustedProxies: [], runtime }),
    ...{ listen: { host: "127.0.0.1", port: 0 }, certificates, runtime, log },
    startInner: (parts) => listenInner({ ...parts, respond: answer, runtime, log }),
  });
  atEndOfTest(() => void server.stop(0));
  const { port } = server.address;
  const get = async (options: ConnectionOptions = {}) => {
    const socket = await openTls(port, options);
    const shown = socket.getPeerCertificate().fingerprint256;
    socket.write(GET);
    return { text: await readAll(socket), shown, protocol: socket.alpnProtocol };
  };
  return { port, get };
}

/** One of whoever is told to prove names there. */
async function listener() {
  const [first, second] = await pairs;
  const runtime = { ...fakeRuntime(), now: Date.now };
  const challenge = openChallenge({ type: "tls-alpn" }, { folder: temporaryFolder(), runtime, log });
  let change: (pair: KeyPair) => void = () => {};
  const certificates: Shown = {
    current: () => first,
    onChange(told) {
      change = told;
      return () => {};
    },
    alpn: challenge.alpn,
  };
  return { ...(await listen(certificates)), challenge, first, second, change: (pair: KeyPair) => change(pair) };
}

describe.skipIf(noPebble !== undefined)("a real authority", () => {
  const names = { [HOST]: HERE, "app.example.test": HERE };

  test("gives a certificate for every name where nothing but HTTPS can be reached", async () => {
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
    // It asks as soon as the appliance is up, before anybody can tell it where.
    const { promise: port, resolve } = Promise.withResolvers<number>();
    pebble.askTlsAt(port);
    const { ready, appliance, lines } = await boot(env, zone(names), { authorities: [pebble.authority] });
    resolve(Number(ready.https?.split(":")[1]));
    await appliance.settled();
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

  test("renews one while everybody is served, and sees nothing of it", async () => {
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

  test("that finds another server at port 443 is said to, and waited for", async () => {
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

describe("while a name is being proven", () => {
  const proof = { host: HOST, token: "token", value: "token.thumbprint" };

  test("who offers acme-tls/1 alone is shown the proof: for that name, critical, self-signed; and that is all", async () => {
    const { port, challenge } = await listener();
    await challenge.show(proof);
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const socket = await openTls(port, { ...ACME, servername: HOST.toUpperCase(), maxVersion });
      expect(socket.alpnProtocol).toBe("acme-tls/1");
      const certificate = new X509Certificate(socket.getPeerCertificate().raw);
      expect(certificate.subjectAltName).toBe(`DNS:${HOST}`);
      expect(certificate.verify(certificate.publicKey)).toBe(true);
      // id-pe-acmeIdentifier, critical, an OCTET STRING in an OCTET STRING (RFC 8737 §3).
      const digest = createHash("sha256").update(proof.value).digest("hex");
      expect(certificate.raw.toString("hex")).toContain(`06082b0601050507011f0101ff04220420${digest}`);
      expect(await readAll(socket)).toBe("");
    }
  });

  test("everybody else is served as ever, by their own address", async () => {
    const { challenge, get, first } = await listener();
    await challenge.show(proof);
    for (const ALPNProtocols of [undefined, ["http/1.1"], ["h2", "http/1.1"], ["acme-tls/1", "http/1.1"]]) {
      const { text, shown } = await get({ servername: HOST, ...(ALPNProtocols && { ALPNProtocols }) });
      expect([ALPNProtocols, text.split("\r\n\r\n")[1], shown]).toEqual([
        ALPNProtocols,
        "here 127.0.0.1",
        fingerprintOf(first.cert),
      ]);
    }
  });

  test.each([["other.example.test"], [undefined]])("for %p nothing is shown", async (servername) => {
    const { port, challenge } = await listener();
    await challenge.show(proof);
    const options = { ALPNProtocols: ["acme-tls/1"], ...(servername !== undefined && { servername }) };
    await expect(openTls(port, options)).rejects.toThrow(/unrecognized_name/i);
  });

  test("it ends with the proof", async () => {
    const { challenge, get, first } = await listener();
    await challenge.show(proof);
    await challenge.clear();
    expect(await get(ACME)).toMatchObject({ shown: fingerprintOf(first.cert), protocol: false });
  });

  test("a first message in any pieces is put together, and what is no TLS is refused", async () => {
    const { port, challenge, first } = await listener();
    await challenge.show(proof);
    // Carries what a TLS client writes on in single bytes.
    const slow = createServer((outer) => {
      const inner = connectTcp({ port, host: "127.0.0.1", noDelay: true });
      outer.on("data", (chunk: Buffer) => {
        for (const byte of chunk) inner.write(Buffer.of(byte));
      });
      inner.pipe(outer);
      inner.on("error", () => outer.destroy());
      outer.on("error", () => inner.destroy());
    });
    await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
    atEndOfTest(() => void slow.close());
    const { port: slowPort } = slow.address() as { port: number };
    const plain = await openTls(slowPort, { servername: HOST });
    expect(plain.getPeerCertificate().fingerprint256).toBe(fingerprintOf(first.cert));
    plain.destroy();
    const asked = await openTls(slowPort, ACME);
    expect(asked.alpnProtocol).toBe("acme-tls/1");
    asked.destroy();

    const raw = connectTcp({ port, host: "127.0.0.1" });
    raw.write("GET / HTTP/1.1\r\n\r\n");
    expect(await readAll(raw)).not.toContain("here");
  });

  test("who says nothing, or half of it, is cut off after a while and holds up nobody", async () => {
    const runtime = fakeRuntime();
    const passed: Socket[] = [];
    const front = createAlpnFront({
      proofs: { isPending: () => true, pairFor: () => undefined },
      pass: (socket) => void passed.push(socket),
      runtime,
      log,
    });
    await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
    atEndOfTest(() => void front.close());
    const { port } = front.address() as { port: number };
    const arrived = new Promise((resolve) => front.once("connection", resolve));
    const silent = connectTcp({ port, host: "127.0.0.1" });
    silent.write(Buffer.from([22, 3, 1]));
    await arrived;
    const closed = readAll(silent);
    runtime.advanceTo(runtime.now() + 20_000);
    expect(await closed).toBe("");
    expect(passed).toEqual([]);
    expect(runtime.timers()).toEqual([]);
  });

  test("certificates are replaced and proofs come and go without a connection lost", async () => {
    const { challenge, get, change, first, second, port } = await listener();
    const seen = new Set<string>();
    for (let round = 0; round < 12; round++) {
      const opening = Array.from({ length: 4 }, async () => {
        const { text, shown } = await get({ servername: HOST });
        expect(text).toEndWith("here 127.0.0.1");
        seen.add(shown);
      });
      if (round % 3 === 0) await challenge.show(proof);
      if (round % 3 === 1) {
        const asked = await openTls(port, ACME);
        expect(asked.alpnProtocol).toBe("acme-tls/1");
        await readAll(asked);
      }
      if (round % 3 === 2) await challenge.clear();
      change(round % 2 === 0 ? second : first);
      await Promise.all(opening);
    }
    expect([...seen].sort()).toEqual([first, second].map(({ cert }) => fingerprintOf(cert)).sort());
  }, 120_000);
});
