/** Dynamic updates: taken by a real server (Knot DNS), and told apart from what a wrong one answers. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import type { Runtime } from "../../src/base/runtime.ts";
import { createSecureDns } from "../../src/base/secure-dns.ts";
import { openDnsUpdate } from "../../src/tls/dns-update.ts";
import { parseTsigKey, type TsigKey } from "../../src/tls/tsig.ts";
import { atEndOfTest } from "../harness/acme-place.ts";
import { zone } from "../harness/dns-server.ts";
import { type Knot, noKnot, startKnot } from "../harness/knot.ts";
import { fakeRuntime } from "../harness/runtime.ts";

if (noKnot) console.warn(`updates of a real DNS server: skipped, ${noKnot}`);

const NAME = "_acme-challenge.mail.example.test";
const KEY: TsigKey = { name: "mailroom", algorithm: "hmac-sha256", secret: Buffer.from("secret") };

function records(port: number, key: TsigKey, world: Partial<Runtime> = {}, host = "127.0.0.1") {
  const runtime = { ...fakeRuntime(world), now: world.now ?? Date.now };
  return openDnsUpdate({ host, port, key, runtime });
}

describe.skipIf(noKnot !== undefined)("a real server", () => {
  const start = () => startKnot({ "example.test": ["mail 60 A 127.0.0.1", "locked 60 TXT kept"] });
  const keyOf = ({ keyFile }: Knot) => parseTsigKey(readFileSync(keyFile, "utf8")) ?? KEY;
  async function textsAt({ port }: Knot, name = NAME): Promise<string[]> {
    const server = { host: "127.0.0.1", port };
    let id = 0;
    return (await createSecureDns([], () => ++id).ask(server, name, "TXT")).texts.sort();
  }

  test("publishes a record, beside others of its name, and takes that one away again", async () => {
    const knot = await start();
    const dns = zone({ "ns1.example.test": { a: ["127.0.0.1"] } });
    const { add, remove } = records(knot.port, keyOf(knot), { dns }, "ns1.example.test");
    await add(NAME, "first");
    await add(NAME, "second");
    await add(NAME, "second");
    expect(await textsAt(knot)).toEqual(["first", "second"]);
    await remove(NAME, "first");
    await remove(NAME, "first");
    expect(await textsAt(knot)).toEqual(["second"]);
    await remove(NAME, "second");
    expect(await textsAt(knot)).toEqual([]);
  });

  test.each([
    ["a wrong secret", { secret: Buffer.from("x") }, {}, NAME, /NOTAUTH.*secret/],
    ["another name of the key", { name: "other" }, {}, NAME, /NOTAUTH.*does not know the key/],
    ["another algorithm", { algorithm: "hmac-sha512" }, {}, NAME, /NOTAUTH.*does not know the key/],
    ["a clock that is wrong", {}, { now: () => Date.now() - 3_600_000 }, NAME, /clock/],
    ["a name of another's", {}, {}, "_acme-challenge.mail.other.test", /no zone/],
  ] as const)("%s is refused in words", async (_, change, world, name, reason) => {
    const knot = await start();
    const { add } = records(knot.port, { ...keyOf(knot), ...change }, world);
    const refused = await add(name, "value").catch((error: Error) => error.message);
    expect(refused).toMatch(reason);
    expect(refused).not.toContain(knot.secret);
    expect(await textsAt(knot)).toEqual([]);
  });
});

/** A server that answers every message with what `answer` makes of it; undefined is silence. */
async function serve(answer: (message: Buffer, count: number) => Buffer | undefined): Promise<number> {
  let count = 0;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (chunk: Buffer) => {
      const bytes = answer(chunk.subarray(2), count++);
      if (bytes) socket.write(Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEndOfTest(() => void server.close());
  return (server.address() as { port: number }).port;
}

describe("a server that", () => {
  /** The question for the zone, answered: the SOA record of example.test, by one who has authority. */
  function soa(message: Buffer): Buffer {
    const name = message.subarray(12, message.length - 4);
    const answer = Buffer.concat([message, name, Buffer.from([0, 6, 0, 1, 0, 0, 0, 60, 0, 1, 0])]);
    answer.writeUInt16BE(0x8400, 2);
    answer.writeUInt16BE(1, 6);
    return answer;
  }
  const said = (message: Buffer, flags: number): Buffer => {
    const answer = Buffer.concat([message.subarray(0, 12)]);
    answer.writeUInt16BE(flags, 2);
    answer.fill(0, 4);
    return answer;
  };

  test.each([
    ["agrees without a signature", (message: Buffer) => said(message, 0xa800), /not signed/],
    ["refuses without a signature", (message: Buffer) => said(message, 0xa805), /REFUSED/],
    ["gives our own signature back", (message: Buffer) => flagged(message, 0xa800), /wrong/],
    [
      "answers another message",
      (message: Buffer) => said(Buffer.concat([Buffer.from([0, 0]), message.subarray(2)]), 0xa800),
      /no sense/,
    ],
    ["answers a question instead", (message: Buffer) => said(message, 0x8000), /no sense/],
    ["answers half", (message: Buffer) => flagged(message, 0xa800).subarray(0, 40), /no sense/],
    ["answers nothing", () => Buffer.alloc(0), /no sense/],
  ] as [string, (message: Buffer) => Buffer, RegExp][])("%s has changed nothing for us", async (_, answer, reason) => {
    const port = await serve((message, count) => (count === 0 ? soa(message) : answer(message)));
    await expect(records(port, KEY).add("example.test", "value")).rejects.toThrow(reason);
  });

  function flagged(message: Buffer, flags: number): Buffer {
    const answer = Buffer.from(message);
    answer.writeUInt16BE(flags, 2);
    return answer;
  }

  test("is silent is waited for 15 seconds, and no longer once this server stops", async () => {
    const asked = Promise.withResolvers<void>();
    const port = await serve(() => void asked.resolve());
    const runtime = fakeRuntime();
    const parts = { host: "127.0.0.1", port, key: KEY, runtime };
    const late = openDnsUpdate(parts).add(NAME, "value");
    await asked.promise;
    runtime.advanceTo(runtime.now() + 15_000);
    await expect(late).rejects.toThrow("no answer in time");
    const { add, stop } = openDnsUpdate(parts);
    const stopped = add(NAME, "value");
    await new Promise((resolve) => setImmediate(resolve));
    stop();
    await expect(stopped).rejects.toThrow("stopping");
    expect(runtime.timers()).toEqual([]);
  });

  test("cannot be reached, or found, is named", async () => {
    await expect(records(1, KEY).add(NAME, "value")).rejects.toThrow("DNS server 127.0.0.1: ");
    await expect(records(53, KEY, {}, "ns.example.test").add(NAME, "value")).rejects.toThrow("it has no address");
  });
});
