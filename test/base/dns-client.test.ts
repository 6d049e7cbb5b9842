/** The DNS client over the wire, with servers that behave as real ones do, and with hostile ones. */

import { afterEach, describe, expect, test } from "bun:test";
import { createSocket } from "node:dgram";
import { rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createDnsClient, type DnsClientParts, type RecordType } from "../../src/base/dns-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import {
  bindBoth,
  type Failing,
  type Habits,
  randomNumber,
  startDnsServer,
  type Zone,
} from "../harness/peers/dns-server.ts";
import { takePort } from "../harness/port.ts";
import { until } from "../harness/until.ts";

const closers: (() => unknown)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const DIGEST = Buffer.alloc(32, 7);
const KEY = `v=DKIM1; k=rsa; p=${"A".repeat(392)}`;
const ZONE: Zone = {
  "all.test": {
    a: ["192.0.2.1", "192.0.2.2"],
    aaaa: ["2001:db8::1"],
    mx: [
      [10, "MX.secure.test"],
      [20, "other.test"],
    ],
    txt: ["one", ["v=spf1 ip4:192.0.2.0/24 ", "-all"], KEY, ["x ", "v=spf1 +all"], ["caf\u00e9"], ""],
    srv: [
      [0, 1, 993, "imap.all.test"],
      [0, 0, 0, ""],
    ],
    ns: ["NS1.all.test"],
    ptr: ["host.all.test"],
    tlsa: [[3, 1, 1, DIGEST]],
  },
  "null.test": { mx: [[0, ""]] },
  "empty.test": {},
  "secure.test": { mx: [[10, "MX.secure.test"]], secure: true },
  "mx.secure.test": { a: ["192.0.2.1"], secure: true, ttl: 50 },
  "alias.test": { cname: "Between.test", secure: true, ttl: 70 },
  "between.test": { cname: "mx.secure.test", secure: true, ttl: 40 },
  "half.test": { cname: "open.test", secure: true },
  "open.test": { a: ["192.0.2.1"] },
  "nowhere.test": { cname: "missing.test" },
  "untyped.test": { cname: "empty.test" },
  "loop1.test": { cname: "loop2.test" },
  "loop2.test": { cname: "loop1.test" },
  "many.test": { tlsa: Array.from({ length: 60 }, () => [3, 1, 1, DIGEST] as const), secure: true },
  "broken.test": "SERVFAIL",
  "silent.test": "silence",
};
for (let n = 1; n <= 20; n++) ZONE[`step${n}.test`] = n === 20 ? { a: ["192.0.2.9"] } : { cname: `step${n + 1}.test` };

async function serve(habits: Habits = {}, zone = ZONE) {
  const server = await startDnsServer(zone, habits);
  closers.push(server.close);
  return server;
}

const clientOf = (servers: readonly string[], parts: Partial<DnsClientParts> = {}) =>
  createDnsClient({ servers, randomNumber, elapsed: () => 0, ...parts });

/** Asks a server with these habits. */
async function asking(habits: Habits = {}, parts: Partial<DnsClientParts> = {}) {
  const server = await serve(habits);
  return { ...clientOf([server.address], parts), questions: server.questions };
}

const RECORDS: [RecordType, unknown[]][] = [
  ["A", ["192.0.2.1", "192.0.2.2"]],
  ["AAAA", ["2001:db8::1"]],
  [
    "MX",
    [
      { priority: 10, exchange: "mx.secure.test" },
      { priority: 20, exchange: "other.test" },
    ],
  ],
  ["TXT", ["one", "v=spf1 ip4:192.0.2.0/24 -all", KEY, "x v=spf1 +all", "caf\u00e9", ""]],
  [
    "SRV",
    [
      { priority: 0, weight: 1, port: 993, target: "imap.all.test" },
      { priority: 0, weight: 0, port: 0, target: "" },
    ],
  ],
  ["NS", ["ns1.all.test"]],
  ["PTR", ["host.all.test"]],
  ["TLSA", [{ usage: 3, selector: 1, matchingType: 1, data: DIGEST }]],
];

describe.each<[string, Habits]>([
  ["usual", {}],
  ["one that compresses names", { compresses: true }],
  ["one that changes the case of names", { swapsCase: true, compresses: true }],
  ["one that adds other records", { adds: true }],
  ["one whose answers somebody forges", { forged: true }],
  ["one that cuts every answer short over UDP", { udpBytes: 12 }],
  ["one that does not know EDNS", { edns: "FORMERR" }],
  ["one that knows no more than the first alias", { oneAlias: true }],
])("a server: %s", (_, habits) => {
  test.each(RECORDS)("records of type %s are whole", async (type, records) => {
    const { ask } = await asking(habits);
    const answer = { records, absence: undefined, name: "all.test", ttl: 300, authenticated: false };
    expect(await ask("All.Test.", type)).toEqual(answer as never);
  });

  test("a name that is missing differs from one without such records, and both from a failure", async () => {
    const { ask } = await asking(habits);
    expect(await ask("missing.test", "TXT")).toMatchObject({ records: [], absence: "name", ttl: 60 });
    expect(await ask("empty.test", "TXT")).toMatchObject({ records: [], absence: "type" });
    expect(await ask("nowhere.test", "A")).toMatchObject({ records: [], absence: "name", name: "missing.test" });
    expect(await ask("untyped.test", "A")).toMatchObject({ records: [], absence: "type", name: "empty.test" });
    expect(await ask("null.test", "MX")).toMatchObject({
      records: [{ priority: 0, exchange: "" }],
      absence: undefined,
    });
    await expect(ask("broken.test", "TXT")).rejects.toMatchObject({ code: "ESERVFAIL" });
  });

  test("aliases are followed, and the shortest time on the way holds", async () => {
    const { ask } = await asking(habits);
    const records = ["192.0.2.1"];
    expect(await ask("alias.test", "A")).toMatchObject({
      records,
      name: "mx.secure.test",
      ttl: 40,
      authenticated: true,
    });
    expect(await ask("half.test", "A")).toMatchObject({ records, name: "open.test", authenticated: false });
    expect(await ask("alias.test", "CNAME")).toMatchObject({ records: ["between.test"], name: "alias.test", ttl: 70 });
    expect(await ask("step4.test", "A")).toMatchObject({ records: ["192.0.2.9"], name: "step20.test" });
    await expect(ask("step1.test", "A")).rejects.toMatchObject({ code: "EBADRESP" });
    await expect(ask("loop1.test", "A")).rejects.toMatchObject({ code: "EBADRESP" });
  });
});

test("an absence has no time where the server names none", async () => {
  const { ask } = await asking({ absence: "none" });
  expect((await ask("missing.test", "A")).ttl).toBeUndefined();
});

test("an answer that UDP cannot hold comes over TCP", async () => {
  const { ask, questions } = await asking();
  const many = await ask("many.test", "TLSA");
  expect([many.authenticated, many.records.length]).toEqual([true, 60]);
  expect(questions).toEqual(["tlsa many.test", "tlsa many.test"]);
});

test("names may have any characters", async () => {
  const names = ["a+b=c#d&e:f!g@h i\u00e9\\.test", "_dmarc.test", "*.test", "\u0000.test", `${"x".repeat(63)}.test`];
  const long = Array.from({ length: 126 }, () => "y").join(".");
  const zone = Object.fromEntries([...names, long].map((name) => [name, { txt: [`of ${name}`] }]));
  const { ask } = clientOf([(await serve({}, zone)).address]);
  for (const name of [...names, long]) expect((await ask(name, "TXT")).records).toEqual([`of ${name}`]);
  expect((await ask(names[0] as string, "TXT")).name).toBe("a+b=c#d&e:f!g@h\\032i\\195\\169\\\\.test");
});

test.each([
  ["nothing", ""],
  ["the root", "."],
  ["dots", ".."],
  ["an empty label", "a..test"],
  ["an empty first label", ".test"],
  ["a label of 64 octets", `${"x".repeat(64)}.test`],
  ["256 octets", `${"y.".repeat(126)}yy`],
  ["a million dots", ".".repeat(1e6)],
  ["a million characters", "y".repeat(1e6)],
])("a name that DNS cannot have is a rejection: %s", async (_, name) => {
  const { ask, questions } = await asking();
  const asked = ask(name, "A");
  await expect(asked).rejects.toMatchObject({ code: "EBADNAME" });
  expect(questions).toEqual([]);
});

describe("several servers", () => {
  const FAILURES: [string, Failing | "closed", object][] = [
    ["fails", "SERVFAIL", { code: "ESERVFAIL" }],
    ["refuses", "REFUSED", { code: "EREFUSED" }],
    ["does not run", "closed", { code: "ECONNREFUSED" }],
    ["is silent", "silence", { code: "ETIMEOUT" }],
  ];

  /** The first server fails; `now` is moved by the test. */
  async function setUp(failing: Failing | "closed", parts: Partial<DnsClientParts> = {}) {
    const first = failing === "closed" ? undefined : await serve({ always: failing });
    const firstAddress = first?.address ?? `127.0.0.1:${await takePort()}`;
    const second = await serve();
    const clock = { now: 1_000_000 };
    const servers = [firstAddress, second.address];
    const silentMs = failing === "silence" ? 200 : 5_000;
    const client = clientOf(servers, { elapsed: () => clock.now, silentMs, ...parts });
    return { ...client, first, second, clock };
  }

  test.each(FAILURES)("the next one answers when the first %s, and is asked first for a minute", async (_, failing) => {
    const { ask, first, second, clock } = await setUp(failing);
    expect((await ask("open.test", "A")).records).toEqual(["192.0.2.1"]);
    const asked = first?.questions.length;
    for (const name of ["all.test", "mx.secure.test"]) await ask(name, "A");
    clock.now += 59_000;
    expect((await ask("missing.test", "A")).absence).toBe("name");
    expect([first?.questions.length, second.questions.length]).toEqual([asked, 4]);
    clock.now += 1_000;
    await ask("open.test", "A");
    if (first) expect(first.questions.length).toBeGreaterThan(asked ?? 0);
  });

  test.each(FAILURES)("it alone decides when the first %s", async (_, failing, error) => {
    const { ask, servers } = await setUp(failing, { longestMs: 100 });
    await expect(ask("open.test", "A", servers().slice(0, 1))).rejects.toMatchObject(error);
    expect((await ask("open.test", "A", servers().slice(1))).records).toEqual(["192.0.2.1"]);
  });

  test("a server that fails as all do stays the first", async () => {
    const [first, second] = [await serve(), await serve()];
    const { ask } = clientOf([first.address, second.address]);
    await expect(ask("broken.test", "A")).rejects.toMatchObject({ code: "ESERVFAIL" });
    expect([first.questions, second.questions]).toEqual([["a broken.test"], ["a broken.test"]]);
    await ask("open.test", "A");
    expect([first.questions.length, second.questions.length]).toEqual([2, 1]);
  });

  test.each(["SERVFAIL", "silence"] as const)(
    "one that answers others is not blamed for a name: %s",
    async (failing) => {
      const first = await serve({}, { ...ZONE, "open.test": failing });
      const second = await serve();
      const { ask } = clientOf([first.address, second.address], { silentMs: 100 });
      await ask("all.test", "A");
      expect((await ask("open.test", "A")).records).toEqual(["192.0.2.1"]);
      const asked = second.questions.length;
      await ask("mx.secure.test", "A");
      expect(second.questions.length).toBe(asked);
    },
  );

  test("the one that was passed over answers when the other one ends", async () => {
    const answers = Promise.withResolvers<void>();
    const slow = await serve({ hold: () => answers.promise });
    const other = await serve();
    const { ask } = clientOf([slow.address, other.address], { silentMs: 5 });
    await ask("open.test", "A");
    await other.close();
    answers.resolve();
    expect((await ask("open.test", "A")).records).toEqual(["192.0.2.1"]);
  });

  test("a slow answer still counts", async () => {
    const answers = Promise.withResolvers<void>();
    const slow = await serve({ hold: () => answers.promise });
    const silent = await serve({ always: "silence" });
    const { ask } = clientOf([slow.address, silent.address], { silentMs: 5 });
    const answer = ask("open.test", "A");
    await until(() => silent.questions.length >= 3);
    answers.resolve();
    expect((await answer).records).toEqual(["192.0.2.1"]);
  });
});

test("a silent server is asked three times within the limit, and its sockets are closed", async () => {
  const { ask, questions } = await asking({}, { silentMs: 2, longestMs: 1_000 });
  await expect(ask("silent.test", "A")).rejects.toMatchObject({ code: "ETIMEOUT" });
  await until(() => questions.length >= 3);
  expect(questions).toEqual(["a silent.test", "a silent.test", "a silent.test"]);
});

test("a server that drops queries with EDNS is asked without", async () => {
  const { ask } = await asking({ edns: "silence" }, { silentMs: 5 });
  expect((await ask("open.test", "A")).records).toEqual(["192.0.2.1"]);
});

test("questions that met a silent server are bounded, and the oldest end", async () => {
  const { ask } = await asking({}, { longestMs: 60_000, silentMs: 500 });
  let late = 0;
  const silent = Array.from({ length: 68 }, () => ask("silent.test", "A").catch(() => ++late));
  await Promise.all(silent.slice(0, 4));
  expect(late).toBe(4);
  expect((await ask("open.test", "A")).records).toEqual(["192.0.2.1"]);
  expect(late).toBe(4);
});

test("questions are bounded in number, and the oldest end", async () => {
  const { ask } = await asking({}, { longestMs: 60_000, silentMs: 60_000 });
  let late = 0;
  const silent = Array.from({ length: 515 }, () => ask("silent.test", "A").catch(() => ++late));
  await Promise.all(silent.slice(0, 3));
  expect(late).toBe(3);
});

test("a question of several steps ends with the time for one", async () => {
  const server = await serve({ oneAlias: true });
  let now = 0;
  const elapsed = () => {
    now += 1_000;
    return now;
  };
  const { ask } = clientOf([server.address], { elapsed, longestMs: 20_000 });
  await expect(ask("step5.test", "A")).rejects.toMatchObject({ code: "ETIMEOUT" });
  expect(server.questions.length).toBeLessThan(15);
  await expect(ask("open.test", "A", [])).rejects.toMatchObject({ code: "ENOSERVER" });
});

test("a server without a route to it fails with a code", async () => {
  // Sending to the broadcast address needs a socket option, so connecting fails at once.
  const { ask } = clientOf(["255.255.255.255"]);
  await expect(ask("real.test", "A")).rejects.toMatchObject({ code: expect.stringMatching(/^E/) });
});

test("addresses of servers", () => {
  const { servers } = clientOf(["192.0.2.1", "192.0.2.1:5353", "::1", "[::1]:1"]);
  expect(servers().map(({ host, port }) => `${host} ${port}`)).toEqual([
    "192.0.2.1 53",
    "192.0.2.1 5353",
    "::1 53",
    "::1 1",
  ]);
});

test("without addresses the system's servers are asked, and followed", () => {
  const resolvConf = join(temporaryFolder(), "resolv.conf");
  let now = 0;
  const { servers } = clientOf([], { resolvConf, elapsed: () => now });
  const hosts = () => {
    now += 5_000;
    return servers().map(({ host, port }) => `${host} ${port}`);
  };
  expect(hosts()).toEqual(["127.0.0.1 53"]);
  const lines = [
    "# nameserver 192.0.2.9",
    "; nameserver 192.0.2.9",
    "search example.test",
    "nameserver 192.0.2.1",
    "\tnameserver\t2001:db8::1   # of the house",
    "nameserver fe80::1%eth0",
    "nameserver 192.0.2.4",
    "nameserverx 192.0.2.8",
    "options edns0",
  ];
  writeFileSync(resolvConf, lines.join("\n"));
  expect(hosts()).toEqual(["192.0.2.1 53", "2001:db8::1 53", "fe80::1%eth0 53"]);
  writeFileSync(resolvConf, "nameserver resolver.test\nnameserver 192.0.2.7");
  const before = servers().map(({ host }) => host);
  expect([before, hosts()]).toEqual([["192.0.2.1", "2001:db8::1", "fe80::1%eth0"], ["192.0.2.7 53"]]);
  rmSync(resolvConf);
  expect(hosts()).toEqual(["192.0.2.7 53"]);
  writeFileSync(resolvConf, "\n");
  expect(hosts()).toEqual(["127.0.0.1 53"]);
});

/** A server that gives this answer to the question, over UDP or, cut short there, over TCP. */
async function hostile(answer: (query: Buffer) => Buffer, over: "udp" | "tcp" = "udp") {
  const socket = createSocket("udp4");
  const server = createServer((connection) => {
    connection.on("error", () => {});
    connection.once("data", (query: Buffer) => {
      const message = answer(query.subarray(2));
      connection.write(Buffer.concat([Buffer.from([message.length >> 8, message.length & 255]), message]));
    });
  });
  closers.push(
    () => socket.close(),
    () => server.close(),
  );
  const port = await bindBoth(socket, server);
  socket.on("message", (query, { port, address }) => {
    socket.send(over === "udp" ? answer(query) : headed(query, 0x8380, [0, 0, 0]), port, address);
  });
  return clientOf([`127.0.0.1:${port}`], { longestMs: 2_000 });
}

/** The question again, with other flags and counts, and `rest` after it. */
function headed(query: Buffer, flags: number, counts: readonly number[], rest: Buffer = Buffer.alloc(0)): Buffer {
  const end = query.indexOf(0, 12) + 5;
  const head = Buffer.from(query.subarray(0, end));
  head.writeUInt16BE(flags, 2);
  for (const [n, count] of counts.entries()) head.writeUInt16BE(count, 6 + 2 * n);
  return Buffer.concat([head, rest]);
}

/** A record of class IN whose name is written in these octets. */
function recordOf(name: Buffer, type: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(type, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([name, fixed, data]);
}

const pointer = (at: number): Buffer => Buffer.from([0xc0 | (at >> 8), at & 255]);
const ASKED = pointer(12);

test.each<[string, (query: Buffer) => Buffer]>([
  ["nothing but a header with counts", (query) => headed(query, 0x8180, [65_535, 65_535, 65_535])],
  [
    "a record that ends too early",
    (query) => headed(query, 0x8180, [1, 0, 0], Buffer.concat([ASKED, Buffer.alloc(4)])),
  ],
  [
    "a text that is longer than its record",
    (query) => headed(query, 0x8180, [1, 0, 0], recordOf(ASKED, 16, Buffer.from([9, 65]))),
  ],
  [
    "a name that points to itself",
    (query) =>
      headed(query, 0x8180, [1, 0, 0], recordOf(pointer(12 + query.indexOf(0, 12) + 5 - 12), 16, Buffer.from([0]))),
  ],
  [
    "a name of an unknown kind",
    (query) => headed(query, 0x8180, [1, 0, 0], recordOf(Buffer.from([0x80]), 16, Buffer.from([0]))),
  ],
  [
    "a failure in the bits of EDNS",
    (query) => headed(query, 0x8180, [0, 0, 1], Buffer.from([0, 0, 41, 4, 0, 1, 0, 0, 0, 0, 0])),
  ],
])("an answer with %s is a failure", async (_, answer) => {
  const { ask } = await hostile(answer);
  await expect(ask("real.test", "TXT")).rejects.toMatchObject({ code: expect.stringMatching(/^E(BADRESP|RCODE16)$/) });
});

test("a server that knows who else could tell is passed over", async () => {
  const ns = recordOf(pointer(12), 2, pointer(12));
  const lame = await hostile((query) => headed(query, 0x8180, [0, 1, 0], ns));
  await expect(lame.ask("open.test", "A")).rejects.toMatchObject({ code: "EREFUSED" });
  const [first] = lame.servers();
  const [second] = clientOf([(await serve()).address]).servers();
  if (!first || !second) throw new Error("no servers");
  expect((await lame.ask("open.test", "A", [first, second])).records).toEqual(["192.0.2.1"]);
});

test("a refusal without the question counts", async () => {
  const { ask } = await hostile((query) => {
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(0x8185, 2);
    header.fill(0, 4);
    return header;
  });
  await expect(ask("real.test", "A")).rejects.toMatchObject({ code: "EREFUSED" });
});

test("random answers reject and do no harm", async () => {
  let seed = 7;
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed / 2 ** 31;
  };
  const { ask } = await hostile((query) => {
    const rest = Buffer.from(Array.from({ length: random() * 60 }, () => random() * 256));
    return headed(query, 0x8180, [random() * 4, random() * 3, random() * 3].map(Math.floor), rest);
  });
  for (let n = 0; n < 300; n++) {
    const answer = await ask("real.test", "TXT").catch((error) => error);
    if (answer instanceof Error) expect(answer).toMatchObject({ code: expect.stringMatching(/^E/) });
    else expect(answer.records.every((text: string) => text.length <= 60)).toBe(true);
  }
});

/** Makes as many records as 64 kB hold, and `most` at most. `start`: bytes before them. */
function fill(most: number, record: (at: number) => Buffer, start: number): { count: number; rest: Buffer } {
  const records: Buffer[] = [];
  let size = start;
  for (let next = record(size); records.length < most && size + next.length <= 65_535; next = record(size)) {
    records.push(next);
    size += next.length;
  }
  return { count: records.length, rest: Buffer.concat(records) };
}

test.each<[string, (query: Buffer) => { count: number; rest: Buffer }]>([
  ["CNAME records", (query) => fill(65_535, () => recordOf(ASKED, 5, ASKED), query.length)],
  [
    "CNAME records, each leading to the next",
    (query) => {
      const label = (n: number) =>
        Buffer.concat([Buffer.from([4]), Buffer.from(String(n).padStart(4, "0")), Buffer.from([0])]);
      let n = 0;
      return fill(1_000, () => recordOf(n++ === 0 ? ASKED : label(n - 1), 5, label(n)), query.length);
    },
  ],
  ["texts", (query) => fill(1_000, () => recordOf(ASKED, 16, Buffer.from([0])), query.length)],
  ["one text", (query) => fill(1, () => recordOf(ASKED, 16, Buffer.alloc(65_000)), query.length)],
  [
    "names that point to a pointer each",
    (query) => {
      const chain = fill(65_535, (at) => pointer(Math.min(at - 2, 0x3ffe)), query.length + 12).rest;
      return fill(1_000, () => recordOf(pointer(0x3ffe), 16, Buffer.from([0])), query.length + 12 + chain.length);
    },
  ],
])("64 kB of %s cost little", async (_, filled) => {
  const { ask } = await hostile((query) => {
    const { count, rest } = filled(query);
    return headed(query, 0x8180, [count, 0, 0], rest);
  }, "tcp");
  const begun = process.cpuUsage();
  await ask("real.test", "TXT").catch(() => {});
  const { user, system } = process.cpuUsage(begun);
  expect((user + system) / 1_000).toBeLessThan(500);
});

test("an answer that is cut short over TCP, too, is a failure, and no absence", async () => {
  const { ask } = await hostile((query) => headed(query, 0x8380, [0, 0, 0]), "tcp");
  await expect(ask("real.test", "MX")).rejects.toMatchObject({ code: "EBADRESP" });
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
  socket.on("message", (query, { port, address }) => socket.send(headed(query, 0x8380, [0, 0, 0]), port, address));
  const port = await bindBoth(socket, drip);
  const { ask } = clientOf([`127.0.0.1:${port}`], { longestMs: 50 });
  await expect(ask("real.test", "A")).rejects.toMatchObject({ code: "ETIMEOUT" });
});

test("a server that closes the connection over TCP, or has none, fails", async () => {
  for (const listens of [true, false]) {
    const socket = createSocket("udp4");
    const server = createServer((connection) => connection.destroy());
    closers.push(
      () => socket.close(),
      () => server.close(),
    );
    socket.on("message", (query, { port, address }) => socket.send(headed(query, 0x8380, [0, 0, 0]), port, address));
    const port = await bindBoth(socket, server);
    if (!listens) await new Promise((resolve) => server.close(resolve));
    const { ask } = clientOf([`127.0.0.1:${port}`], { longestMs: 5_000 });
    await expect(ask("real.test", "A")).rejects.toMatchObject({ code: expect.stringMatching(/^E/) });
  }
});
