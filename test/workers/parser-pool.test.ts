import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import { isUnavailable } from "../../src/base/errors.ts";
import type { DnsClient } from "../../src/base/runtime.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { composeOctets } from "../../src/mailbox/reading/composers.ts";
import { serializeComposition } from "../../src/message/composition.ts";
import { packText, performReading, type Reading } from "../../src/message/reading.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { openBlobs } from "../../src/store/blobs.ts";
import type { Work } from "../../src/workers/dispatcher.ts";
import { UnparseableError } from "../../src/workers/jobs.ts";
import { createParserPool, type ParserPool } from "../../src/workers/parser-pool.ts";
import { type StartParser, startParser } from "../../src/workers/parser-process.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { testLog } from "../harness/servers/mx-rig.ts";
import { sign } from "../harness/servers/outgoing.ts";
import { parsersOf, shareParser, sharePoisoned } from "../harness/servers/parser.ts";
import { until } from "../harness/until.ts";

const pools: ParserPool[] = [];
afterAll(() => {
  for (const pool of pools) pool.stop();
});

const STAND_IN = parsersOf("./stand-in-parser.ts");

interface Given {
  workers?: number;
  dns?: DnsClient;
  /** Without it, the pool uses the parser that the test process shares. */
  start?: StartParser;
}

function openPool({ workers = 1, dns, start = shareParser }: Given = {}) {
  const runtime = fakeRuntime(dns && { dns });
  const { log, lines } = testLog(runtime);
  const blobFolder = temporaryFolder();
  const cache = createDnsCache(runtime);
  let questions = 0;
  const names: typeof cache = {
    ask(name, type) {
      questions++;
      return cache.ask(name, type);
    },
  };
  const pool = createParserPool({
    blobFolder,
    names,
    runtime,
    log,
    workers,
    start,
  });
  pools.push(pool);
  const said = (message: string) => lines.filter((line) => line.message === message);
  const prepare = (text: string, source = "192.0.2.1", kind: Work["kind"] = "arriving") =>
    pool.prepare({ kind, source }, bytesOf(text));
  return { pool, runtime, said, blobFolder, prepare, questions: () => questions };
}

const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

const mail = (subject: string, header = "X-Fine: yes"): string =>
  `From: a@remote.example\r\nTo: b@example.test\r\nSubject: ${subject}\r\n${header}\r\nMIME-Version: 1.0\r\n` +
  `Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/html\r\n\r\n<p>${subject}</p>\r\n` +
  `--x\r\nContent-Type: application/octet-stream; name="f.bin"\r\n\r\nfile of ${subject}\r\n--x--\r\n`;

test("a parser prepares the same as the main thread would, and writes the attachments", async () => {
  const { prepare, pool, blobFolder } = openPool();
  const here = await prepareMessage(bytesOf(mail("one")), openBlobs(temporaryFolder(), fakeRuntime()));
  expect(await prepare(mail("one"))).toEqual(here);
  const blob = here.attachments[0]?.blob as string;
  expect(await (await openBlobs(blobFolder, fakeRuntime()).file(blob)).text()).toBe("file of one");

  const path = join(temporaryFolder(), "1.eml");
  writeFileSync(path, mail("one"));
  expect(await pool.prepare({ kind: "bulk", source: "any" }, path, { size: mail("one").length })).toEqual(here);
});

test("a parser composes, prepares and signs a sent message as the main thread would", async () => {
  const { pool } = openPool();
  const [key] = (await makeDkimKeys()).filter(({ algorithm }) => algorithm === "ed25519");
  const signing = {
    keys: [{ domain: "example.test", selector: "s", algorithm: "ed25519" as const, privateKey: key?.privateKey ?? "" }],
    signedAt: 1_767_600_000_000,
  };
  const written = { id: "x", headers: [["From", "a@example.test"]] as const, html: "<p>Hi</p>" };
  const bytes = await serializeComposition(written, async () => new Uint8Array());
  const prepareHere = (lines: Uint8Array) =>
    prepareMessage(bytes, openBlobs(temporaryFolder(), fakeRuntime()), { written: true, top: { lines } });
  const message = await prepareHere(new Uint8Array());
  // Ed25519 signatures of the same data are equal.
  const signatures = Buffer.from(await sign(bytes, signing.keys, signing.signedAt), "latin1");
  const signed = {
    message: await prepareHere(signatures),
    content: { bytes: new Uint8Array(Buffer.concat([signatures, bytes])) },
  };
  for (const source of [written, bytes]) {
    expect(await pool.prepareOutbound("mbx_1", source, signing)).toEqual(signed);
    const unsigned = { message, content: { bytes: new Uint8Array(bytes) } };
    expect(await pool.prepareOutbound("mbx_1", source, { ...signing, keys: [] })).toEqual(unsigned);
  }
  expect(await pool.prepare({ kind: "interactive", source: "mbx_1" }, written)).toEqual(message);
});

test("a broken signing key is not blamed on the message", async () => {
  const { pool } = openPool();
  const keys = [{ domain: "example.test", selector: "s", algorithm: "rsa" as const, privateKey: "none" }];
  const error = await pool
    .prepareOutbound("mbx_1", bytesOf(mail("one")), { keys, signedAt: 0 })
    .catch((error) => error);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toBeInstanceOf(UnparseableError);
});

test("workers start when there is work, up to the configured number", async () => {
  const { prepare, said } = openPool({ start: startParser, workers: 2 });
  expect(said("parser started")).toEqual([]);
  const subjects = Array.from({ length: 30 }, (_, i) => `number ${i}`);
  const prepared = await Promise.all(subjects.map((subject) => prepare(mail(subject))));
  expect(prepared.map(({ subject }) => subject)).toEqual(subjects);
  expect(said("parser started").length).toBeLessThanOrEqual(2);
  expect(said("parser replaced")).toEqual([]);
});

test.each(["hang", "exit", "throw"])("a poisoned message (%s) is blamed, alone or among others", async (poison) => {
  const { prepare, runtime, said } = openPool({ start: STAND_IN });
  const started = () => said("parser started").length;
  const outcome = (text: string, source?: string) =>
    prepare(text, source).then(
      ({ subject }) => subject,
      (error) => error,
    );
  const poisoned = mail("poisoned", `X-Poison: ${poison}`);
  const runOut = () => poison === "hang" && runtime.advanceTo(runtime.now() + 10_000);

  expect(await outcome(mail("first"))).toBe("first");
  const alone = outcome(poisoned);
  runOut();
  expect(await alone).toBeInstanceOf(UnparseableError);

  expect(await outcome(mail("second"), "192.0.2.2")).toBe("second");
  const workersBefore = started();
  // One message more than a parser takes.
  const others = ["a", "b", "c", "d", "e", "f", "g", "h"];
  const among = [poisoned, ...others.map((subject) => mail(subject))].map((text, i) =>
    outcome(text, `192.0.2.${i + 2}`),
  );
  runOut();
  // One parser for the others and one for the message alone, whose time runs only once that has begun.
  await until(() => started() === workersBefore + 2);
  const [guilty, ...innocent] = among;
  expect(await Promise.all(innocent)).toEqual(others);
  runOut();
  expect(await guilty).toBeInstanceOf(UnparseableError);
  // One that throws may still read some of the others before it dies.
  expect(said("parser replaced").map(({ inHand }) => inHand)).toEqual([
    1,
    poison === "throw" ? expect.any(Number) : 8,
    1,
  ]);
  // The isolated parser ends after a minute of idling, and the shared one after ten.
  runtime.advanceTo(runtime.now() + 10 * 60_000);
  expect(runtime.nextTimer()).toBeUndefined();
});

test("a parser that does not start is not blamed on the message", async () => {
  const { prepare, said } = openPool({ start: parsersOf("./no-such-parser.ts") });
  const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => prepare(mail("any"))));
  for (const outcome of outcomes) expect(isUnavailable((outcome as PromiseRejectedResult).reason)).toBe(true);
  expect(said("parser did not start").length).toBeGreaterThan(0);
});

test("a result in a file that is larger than any, or none, is blamed on the message, and not read", async () => {
  const before = process.memoryUsage.rss();
  for (const write of [(path: string) => truncateSync(path, 10 ** 10), () => {}]) {
    const start: StartParser = ({ heard, ended }) => {
      setImmediate(() => heard({ ready: true }));
      return {
        memory: () => undefined,
        processorTime: () => undefined,
        kill: () => setImmediate(() => ended("killed")),
        send(sent) {
          const { id, reply } = sent as { id: number; reply: string };
          mkdirSync(dirname(reply), { recursive: true });
          writeFileSync(reply, "no message");
          write(reply);
          heard({ id });
        },
      };
    };
    const { prepare } = openPool({ start });
    expect(await prepare(mail("one")).catch((error) => error)).toBeInstanceOf(UnparseableError);
  }
  expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
});

test("attachments that cannot be written are not blamed on the message", async () => {
  const { prepare, blobFolder } = openPool();
  const name = await openBlobs(temporaryFolder(), fakeRuntime()).write(bytesOf("file of one"));
  writeFileSync(join(blobFolder, name.slice(0, 2)), "a file where the folder belongs");
  const error = await prepare(mail("one")).catch((error) => error);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toBeInstanceOf(UnparseableError);
  expect((await prepare("Subject: two\r\n\r\nno attachment")).subject).toBe("two");
});

test("stopping rejects running and new work", async () => {
  const { prepare, pool, runtime } = openPool({ start: STAND_IN });
  const inHand = Array.from({ length: 6 }, () => prepare(mail("stuck", "X-Poison: hang")).catch((error) => error));
  pool.stop();
  for (const error of await Promise.all([...inHand, prepare(mail("late")).catch((error) => error)])) {
    expect(isUnavailable(error)).toBe(true);
  }
  expect(runtime.nextTimer()).toBeUndefined();
});

describe("a message that waits for DNS", () => {
  const ARRIVAL = {
    ip: "192.0.2.1",
    helo: "mail.remote.example",
    reversePath: "a@remote.example",
    hostname: "mx.example.test",
    trustedForwarders: [],
    now: START,
  };
  /** A pool whose DNS answers nothing until `answer`. */
  function openSilent(start: StartParser = shareParser) {
    const answers: (() => void)[] = [];
    const dns = zone({}, { hold: () => new Promise<void>((resolve) => answers.push(resolve)) });
    const opened = openPool({ dns, start });
    const arrive = (subject: string, reversePath: string) =>
      opened.pool.prepareInbound(bytesOf(mail(subject)), 1_000, { ...ARRIVAL, reversePath });
    const answer = () => {
      for (const give of answers.splice(0)) give();
    };
    // The client asks again where a moment is long.
    return { ...opened, arrive, answer, asked: () => new Set(dns.questions).size };
  }

  test("leaves its place to another", async () => {
    // More than a parser has in hand, and fewer than the slow questions that the DNS client keeps open.
    const MANY = 60;
    const { arrive, asked, prepare, answer } = openSilent();
    let done = 0;
    const waiting = Array.from({ length: MANY }, (_, i) =>
      arrive(`waiting ${i}`, `a@slow${i}.example`).then(({ message }) => {
        done++;
        return message.subject;
      }),
    );
    await until(() => asked() === MANY);
    expect((await prepare(mail("other"))).subject).toBe("other");
    expect(done).toBe(0);
    await until(() => {
      answer();
      return done === MANY;
    });
    expect(await Promise.all(waiting)).toEqual(waiting.map((_, i) => `waiting ${i}`));
  });

  test.each([true, false])("has junk tokens if a filter has an opinion on it: %s", async (isJudged) => {
    const { pool } = openPool({ dns: zone({}) });
    const { message } = await pool.prepareInbound(bytesOf(mail("x")), 1_000, ARRIVAL, { isJudged });
    expect(message.junkTokens !== undefined).toBe(isJudged);
  });

  test("reuses answers while they are valid", async () => {
    const description: Zone = { "remote.example": { txt: ["v=spf1 -all"] } };
    const { pool, runtime, questions } = openPool({ dns: zone(description) });
    const arrive = async () => {
      const smtpContext = { ...ARRIVAL, now: runtime.now() };
      return (await pool.prepareInbound(bytesOf(mail("x")), 1_000, smtpContext)).authentication.verdicts.spf;
    };
    expect(await arrive()).toBe("fail");
    const asked = questions();
    delete description["remote.example"];
    expect(await arrive()).toBe("fail");
    expect(questions()).toBe(asked);
    runtime.advanceTo(runtime.now() + 300_000);
    expect(await arrive()).toBe("none");
    expect(questions()).toBe(2 * asked);
  });

  test("waits five seconds for the evidence and five for the policy", async () => {
    const { arrive, asked, runtime } = openSilent();
    const prepared = arrive("late", "a@slow.example");
    await until(() => asked() === 1);
    runtime.advanceTo(START + 5_000);
    await until(() => asked() === 2);
    runtime.advanceTo(START + 10_000);
    expect((await prepared).authentication.verdicts).toEqual({ spf: "temperror", dkim: "none", dmarc: "temperror" });
    // Only the last look at the parser and its idle time are left.
    expect(runtime.timers().map((at) => at - runtime.now())).toEqual([50, 10 * 60_000]);
  });

  test("is not blamed if another message kills the parser, and is prepared again", async () => {
    const { arrive, asked, prepare, answer, said } = openSilent(sharePoisoned);
    let done = 0;
    const innocent = arrive("innocent", "a@slow.example").finally(() => done++);
    await until(() => asked() === 1);
    const guilty = prepare(mail("guilty", "X-Poison: exit")).catch((error) => error);
    void guilty.finally(() => done++);
    await until(() => {
      answer();
      return done === 2;
    });
    expect(await guilty).toBeInstanceOf(UnparseableError);
    expect((await innocent).message.subject).toBe("innocent");
    expect(said("parser replaced").map(({ inHand }) => inHand)).toEqual([2, 1]);
  }, 300_000);
});

test("a parser reads HTML as the main thread would, for every kind of reading", async () => {
  const { pool } = openPool();
  const html = packText('<p onclick="x()">Hello</p><p hidden>secret</p>');
  const message = { from: { email: "a@remote.example" }, to: [], cc: [], subject: "", date: 0, text: "", html: "<p>x" };
  const readings: Reading[] = [
    { kind: "body", html, text: "Hello secret" },
    { kind: "visible", html },
    { kind: "text", html: "<p>Hello</p><p hidden>secret</p>" },
    { kind: "forward", message },
    { kind: "codes", messages: [{ parts: [{ content: "Your code is 482913" }], known: [] }] },
    { kind: "file codes", file: { filename: "a", contentType: "text/plain", content: Buffer.from("Hello") } },
  ];
  for (const reading of readings) expect(await pool.read("mbx_1", reading)).toEqual(await performReading(reading));
});

describe("octets of a stored message", () => {
  const parts = {
    id: "msg_1",
    headers: [["Subject", "Stored"]] as const,
    text: "Hello",
    trace: "Received: by example.test\r\n",
    composer: 1,
  };
  const file = {
    filename: "a.bin",
    unnamed: false,
    contentType: "application/pdf",
    parameters: [],
    inline: false,
    contentId: null,
    alternative: false,
    blob: "one",
    size: 5,
  };

  for (const place of ["files", "elsewhere"] as const) {
    test(`are mapped from a file that is gone, or only described; blobs are in ${place}`, async () => {
      const [blobFolder, stageFolder] = [temporaryFolder(), temporaryFolder()];
      const runtime = fakeRuntime();
      const blob = place === "files" ? await openBlobs(blobFolder, runtime).write(Buffer.from("bytes")) : "one";
      const given = { ...parts, files: [{ ...file, blob }] };
      const lent: string[] = [];
      const remote = {
        lend: async (name: string, path: string) => {
          lent.push(name);
          writeFileSync(path, "bytes");
        },
        adopt: async (_: string, name = "") => name,
      };
      const pool = createParserPool({
        ...{ blobFolder, stageFolder, runtime, names: createDnsCache(runtime), log: testLog(runtime).log },
        start: shareParser,
        ...(place === "elsewhere" && { remote }),
      });
      pools.push(pool);
      const read = async () => Buffer.from("bytes");
      const { content, digest } = await composeOctets(given, read);
      const composed = await pool.composeStored(given, "usr_1");
      expect(composed.bytes?.equals(content.bytes)).toBe(true);
      expect(Buffer.from(composed.digest)).toEqual(Buffer.from(digest));
      const { bytes, ...rest } = await pool.composeStored(given);
      expect([bytes, rest.structure]).toEqual([undefined, composed.structure]);
      expect(readdirSync(stageFolder)).toEqual([]);
      expect(lent).toEqual(place === "elsewhere" ? ["one", "one"] : []);
    });
  }
});
