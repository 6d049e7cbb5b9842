/** TLS-ALPN-01: what everybody else sees at port 443 while a name is being proven. */
import { describe, expect, test } from "bun:test";
import { createHash, X509Certificate } from "node:crypto";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import { createAlpnFront } from "../../src/tls/alpn-front.ts";
import { atEndOfTest, HOST } from "../harness/acme-place.ts";
import { fingerprintOf, listener, log, openTls, readAll } from "../harness/alpn-listener.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const ACME = { servername: HOST, ALPNProtocols: ["acme-tls/1"] };

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
