/** The first message of TLS connections: as clients really write it, in any pieces, and as nobody should. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { type ConnectionOptions, connect } from "node:tls";
import fc from "fast-check";
import { readClientHello } from "../../src/tls/client-hello.ts";

/** What a TLS client of Bun's writes first. */
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

/** The same message, cut into records of `size` bytes. */
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

describe("name and protocols", () => {
  test.each([
    [
      { ...NAMED, ALPNProtocols: ["h2", "http/1.1"] },
      { ...EXPECTED, protocols: ["h2", "http/1.1"] },
    ],
    [NAMED, { ...EXPECTED, protocols: [] }],
    [{ ...NAMED, maxVersion: "TLSv1.2", ALPNProtocols: ["acme-tls/1"] }, EXPECTED],
    [{}, { serverName: undefined, protocols: [] }],
  ] as [ConnectionOptions, object][])("of a client with %j", async (options, expected) => {
    expect(readClientHello(await helloOf(options))).toEqual(expected as never);
  });

  test("are known with the last byte and not before, whatever follows", () => {
    for (let end = 0; end < authority.length; end++) expect(readClientHello(authority.subarray(0, end))).toBe("more");
    expect(readClientHello(authority)).toEqual(EXPECTED);
    expect(readClientHello(Buffer.concat([authority, Buffer.from("whatever")]))).toEqual(EXPECTED);
  });

  test("are found across records", () => {
    for (const size of [1, 3, 100]) expect(readClientHello(inRecords(authority, size))).toEqual(EXPECTED);
  });

  test("of a message without extensions are none", () => {
    const bare = Buffer.alloc(2 + 32 + 1 + 2 + 2 + 2);
    bare.writeUInt16BE(2, 35);
    bare[39] = 1;
    const header = Buffer.from([22, 3, 1, 0, bare.length + 4, 1, 0, 0, bare.length]);
    expect(readClientHello(Buffer.concat([header, bare]))).toEqual({ serverName: undefined, protocols: [] });
  });
});

describe("what is none", () => {
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

  test("whatever the bytes are, it ends without an error and asks for no more than 16 KiB", () => {
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
