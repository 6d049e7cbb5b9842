/** DNS queries over the wire, to servers that tell which answers they authenticated. */

import { afterEach, expect, test } from "bun:test";
import { createSocket } from "node:dgram";
import { createServer } from "node:net";
import { createSecureDns, type NameServer, type SecureType } from "../../src/base/secure-dns.ts";
import { startDnsServer, type Zone } from "../harness/dns-server.ts";
import { until } from "../harness/until.ts";

const closers: (() => unknown)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const DIGEST = Buffer.alloc(32, 7);
const ZONE: Zone = {
  "secure.test": { mx: [[10, "MX.secure.test"]], secure: true },
  "mx.secure.test": { a: ["192.0.2.1"], secure: true },
  "alias.test": { cname: "Between.test", secure: true },
  "between.test": { cname: "mx.secure.test", secure: true },
  "half.test": { cname: "open.test", secure: true },
  "open.test": { a: ["192.0.2.1"] },
  "_25._tcp.mx.secure.test": { tlsa: [[3, 1, 1, DIGEST]], secure: true },
  "many.test": { tlsa: Array.from({ length: 60 }, () => [3, 1, 1, DIGEST] as const), secure: true },
  "broken.test": "SERVFAIL",
  "silent.test": "silence",
};

async function asking(attemptMs = 5_000) {
  const server = await startDnsServer(ZONE);
  closers.push(server.close);
  let id = 0;
  const dns = createSecureDns([server.address], () => ++id, attemptMs);
  const [first] = dns.servers as [NameServer];
  return { server, ask: (name: string, type: SecureType) => dns.ask(first, name, type) };
}

test.each([
  ["secure.test", "MX", { authenticated: true, name: "secure.test", hosts: ["mx.secure.test"] }],
  ["Secure.Test", "A", { authenticated: true, name: "secure.test", hosts: [], tlsa: [] }],
  ["alias.test", "A", { authenticated: true, name: "mx.secure.test" }],
  ["half.test", "A", { authenticated: false, name: "open.test" }],
  ["nothing.test", "MX", { authenticated: false, hosts: [] }],
] as const)("%s %s", async (name, type, expected) => {
  const { ask } = await asking();
  expect(await ask(name, type)).toMatchObject(expected);
});

test("TLSA records come unchanged, over TCP when UDP cannot hold them", async () => {
  const { ask, server } = await asking();
  const record = { usage: 3, selector: 1, matchingType: 1, data: DIGEST };
  expect((await ask("_25._tcp.mx.secure.test", "TLSA")).tlsa).toEqual([record]);
  const many = await ask("many.test", "TLSA");
  expect([many.authenticated, many.tlsa.length]).toEqual([true, 60]);
  expect(server.questions.filter((question) => question === "tlsa many.test")).toHaveLength(2);
});

test("a failure differs from absent records", async () => {
  const patient = await asking();
  await expect(patient.ask("broken.test", "A")).rejects.toMatchObject({ code: "ESERVFAIL" });
  const { ask, server } = await asking(20);
  await expect(ask("silent.test", "A")).rejects.toMatchObject({ code: "ETIMEOUT" });
  await until(() => server.questions.length >= 2);
  expect(server.questions).toEqual(["a silent.test", "a silent.test"]);
  const [first] = createSecureDns(["[::1]:1"], () => 1).servers;
  expect(first).toEqual({ host: "::1", port: 1 });
});

test.each([
  ["says so", true],
  ["drops it", false],
])("a server that knows no EDNS, and %s, is asked without", async (_, saysSo) => {
  const socket = createSocket("udp4");
  closers.push(() => socket.close());
  const additionals: number[] = [];
  socket.on("message", (query, { port, address }) => {
    const isExtended = query.readUInt16BE(10) > 0;
    additionals.push(query.readUInt16BE(10));
    const answer = Buffer.from(query);
    // First FORMERR for the query with EDNS, then an authenticated answer without records.
    answer.writeUInt16BE(isExtended ? 0x8181 : 0x81a0, 2);
    if (saysSo || !isExtended) socket.send(answer, port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const dns = createSecureDns([`127.0.0.1:${socket.address().port}`], () => 78, saysSo ? 5_000 : 200);
  const answer = await dns.ask(dns.servers[0] as NameServer, "real.test", "MX");
  expect([answer.authenticated, answer.hosts, additionals]).toEqual([true, [], [1, 0]]);
});

test("a server without a route to it fails with a code", async () => {
  // Sending to the broadcast address needs a socket option, so connecting fails at once.
  const dns = createSecureDns(["255.255.255.255"], () => 1, 50);
  await expect(dns.ask(dns.servers[0] as NameServer, "real.test", "A")).rejects.toThrow("connect");
});

test("an answer over TCP that comes byte by byte is given up in time", async () => {
  const socket = createSocket("udp4");
  const drip = createServer((connection) => {
    connection.on("error", () => {});
    connection.write(Buffer.from([255, 255]));
    const timer = setInterval(() => connection.write(Buffer.alloc(1)), 5);
    connection.on("close", () => clearInterval(timer));
  });
  closers.push(
    () => socket.close(),
    () => drip.close(),
  );
  socket.on("message", (query, { port, address }) => {
    const truncated = Buffer.from(query);
    truncated.writeUInt16BE(0x8380, 2);
    socket.send(truncated, port, address);
  });
  await new Promise<void>((resolve) => drip.listen(0, "127.0.0.1", resolve));
  const { port } = drip.address() as { port: number };
  await new Promise<void>((resolve) => socket.bind(port, "127.0.0.1", resolve));
  const dns = createSecureDns([`127.0.0.1:${port}`], () => 79, 50);
  await expect(dns.ask(dns.servers[0] as NameServer, "real.test", "A")).rejects.toMatchObject({ code: "ETIMEOUT" });
});

test("a packet with another id or question, or that is no answer, is ignored", async () => {
  const socket = createSocket("udp4");
  closers.push(() => socket.close());
  socket.on("message", (query, { port, address }) => {
    const answer = Buffer.from(query);
    // An authenticated response.
    answer.writeUInt16BE(0x81a0, 2);
    const send = (message: Buffer) => socket.send(message, port, address);
    const otherId = Buffer.from(answer);
    otherId.writeUInt16BE((query.readUInt16BE() + 1) & 0xffff);
    const otherName = Buffer.from(answer);
    otherName[13] = "x".charCodeAt(0);
    for (const message of [otherId, otherName, Buffer.from("nonsense"), Buffer.from(query)]) send(message);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const dns = createSecureDns([`127.0.0.1:${socket.address().port}`], () => 77, 50);
  await expect(dns.ask(dns.servers[0] as NameServer, "real.test", "A")).rejects.toMatchObject({ code: "ETIMEOUT" });
});
