/**
 * TLS-ALPN-01: the authority and other clients at port 443 while a proof is shown, and the reading of a ClientHello.
 */

import { beforeAll, describe, expect, test } from "bun:test";
import { createHash, X509Certificate } from "node:crypto";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  createServer as createTlsServer,
  type TLSSocket,
} from "node:tls";
import fc from "fast-check";
import { createAlpnFront, readClientHello } from "../../src/tls/alpn-front.ts";
import { openTls } from "../harness/clients/tls-client.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { atEndOfTest, HOST } from "./acme-place.ts";
import { fingerprintOf, listener, log, readAll } from "./alpn-listener.ts";

const ACME = { servername: HOST, ALPNProtocols: ["acme-tls/1"] };

describe("while a proof is shown", () => {
  const proof = { host: HOST, token: "token", value: "token.thumbprint" };

  test("a client that offers only acme-tls/1 gets the certificate with the proof, and nothing else", async () => {
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

  test("other clients are served as usual, and known by their own address", async () => {
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

  test.each([["other.example.test"], [undefined]])("the name %p gets unrecognized_name", async (servername) => {
    const { port, challenge } = await listener();
    await challenge.show(proof);
    const options = { ALPNProtocols: ["acme-tls/1"], ...(servername !== undefined && { servername }) };
    await expect(openTls(port, options)).rejects.toThrow(/unrecognized_name/i);
  });

  test("the front stops when the proof is removed", async () => {
    const { challenge, get, first } = await listener();
    await challenge.show(proof);
    await challenge.clear();
    expect(await get(ACME)).toMatchObject({ shown: fingerprintOf(first.cert), protocol: false });
  });

  test("a ClientHello in any pieces is put together, and bytes that are not TLS are refused", async () => {
    const { port, challenge, first } = await listener();
    await challenge.show(proof);
    // Forwards the bytes of a TLS client one by one.
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

  test("a client that sends no whole ClientHello is cut off after 20 seconds", async () => {
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

  test("no connection is lost while certificates are replaced and proofs come and go", async () => {
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

/** The front is needed as long as this holds (docs/platform.md, TLS). */
test("under Bun a protocol is negotiated beside SNICallback, and setKeyCert replaces no certificate", async () => {
  const [shown, replacing] = await Promise.all([makePair(HOST), makePair(HOST)]);
  const server = createTlsServer(
    {
      ...shown,
      SNICallback: (_, done) => done(null),
      ALPNCallback(this: TLSSocket, { protocols }) {
        this.setKeyCert(createSecureContext(replacing));
        return protocols[0];
      },
    },
    (socket) => socket.on("error", () => {}),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEndOfTest(() => void server.close());
  const { port } = server.address() as { port: number };
  for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
    const socket = await openTls(port, { ...ACME, maxVersion });
    expect([socket.alpnProtocol, socket.getPeerCertificate().fingerprint256]).toEqual([
      "acme-tls/1",
      fingerprintOf(shown.cert),
    ]);
    socket.destroy();
  }
});

/** The first bytes that Bun's TLS client writes. */
async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  const first = Promise.withResolvers<Buffer>();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (chunk: Buffer) => {
      first.resolve(chunk);
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const client = connect({ port, host: "127.0.0.1", ...options });
  client.on("error", () => {});
  const hello = await first.promise;
  client.destroy();
  server.close();
  return hello;
}

const NAMED = { servername: "Mail.Example.test" };
let authority: Buffer;
beforeAll(async () => {
  authority = await helloOf({ ...NAMED, ALPNProtocols: ["acme-tls/1"] });
});

/** Cuts a message into records of `size` bytes. */
function inRecords(hello: Buffer, size: number): Buffer {
  const message = hello.subarray(5);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const fragment = message.subarray(at, at + size);
    const header = Buffer.from([22, 3, 1, 0, 0]);
    header.writeUInt16BE(fragment.length, 3);
    records.push(header, fragment);
  }
  return Buffer.concat(records);
}

const EXPECTED = { serverName: "mail.example.test", protocols: ["acme-tls/1"] };

describe("the ClientHello", () => {
  test.each([
    [
      { ...NAMED, ALPNProtocols: ["h2", "http/1.1"] },
      { ...EXPECTED, protocols: ["h2", "http/1.1"] },
    ],
    [NAMED, { ...EXPECTED, protocols: [] }],
    [
      { ...NAMED, servername: `${NAMED.servername}.` },
      { ...EXPECTED, protocols: [] },
    ],
    [{ ...NAMED, maxVersion: "TLSv1.2", ALPNProtocols: ["acme-tls/1"] }, EXPECTED],
    [{}, { serverName: undefined, protocols: [] }],
  ] as [ConnectionOptions, object][])("has the name and protocols of a client with %j", async (options, expected) => {
    expect(readClientHello(await helloOf(options))).toEqual(expected as never);
  });

  test("is complete with its last byte; later bytes are ignored", () => {
    for (let end = 0; end < authority.length; end++) expect(readClientHello(authority.subarray(0, end))).toBe("more");
    expect(readClientHello(authority)).toEqual(EXPECTED);
    expect(readClientHello(Buffer.concat([authority, Buffer.from("whatever")]))).toEqual(EXPECTED);
  });

  test("may be split over records", () => {
    for (const size of [1, 3, 100]) expect(readClientHello(inRecords(authority, size))).toEqual(EXPECTED);
  });

  test("without extensions has neither name nor protocols", () => {
    const bare = Buffer.alloc(2 + 32 + 1 + 2 + 2 + 2);
    bare.writeUInt16BE(2, 35);
    bare[39] = 1;
    const header = Buffer.from([22, 3, 1, 0, bare.length + 4, 1, 0, 0, bare.length]);
    expect(readClientHello(Buffer.concat([header, bare]))).toEqual({ serverName: undefined, protocols: [] });
  });
});

describe("bytes that are not a ClientHello", () => {
  test.each([
    ["a request without TLS", Buffer.from("GET / HTTP/1.1\r\n\r\n")],
    ["an alert", Buffer.from([21, 3, 3, 0, 2, 2, 112])],
    ["another handshake message", Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0])],
    ["an empty record", Buffer.from([22, 3, 1, 0, 0])],
    ["a record that is too long", Buffer.from([22, 3, 1, 0xff, 0xff])],
    ["a message that is too long", Buffer.from([22, 3, 1, 0, 4, 1, 1, 0, 0])],
    ["a message that ends before what it says", Buffer.from([22, 3, 1, 0, 5, 1, 0, 0, 1, 3])],
  ])("%s", (_, bytes) => {
    expect(readClientHello(bytes)).toBeUndefined();
  });

  test("any bytes are read without an error, and at most 16 KiB are asked for", () => {
    const start = fc.constantFrom(
      Buffer.alloc(0),
      Buffer.from([22, 3, 1]),
      Buffer.from([22, 3, 1, 0, 200, 1, 0, 0, 196]),
    );
    fc.assert(
      fc.property(start, fc.uint8Array({ maxLength: 400 }), (head, rest) => {
        readClientHello(Buffer.concat([head, rest]));
      }),
    );
    fc.assert(
      fc.property(fc.nat(authority.length - 1), fc.nat(255), (at, value) => {
        const damaged = Buffer.from(authority);
        damaged[at] = value;
        readClientHello(damaged);
      }),
    );
    const header = (length: number) => Buffer.from([22, 3, 1, 0x3f, 0xff, 1, 0, length >> 8, length & 255]);
    expect(readClientHello(header(2 ** 14 - 4))).toBe("more");
    expect(readClientHello(header(2 ** 14 - 3))).toBeUndefined();
  });
});
