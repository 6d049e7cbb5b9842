/**
 * The order and delays of work in the parser pool, with fake parsers that take as long as a message says, by the fake
 * clock.
 */
import { afterAll, describe, expect, test } from "bun:test";
import type { SmtpContext } from "../../src/authentication/evidence.ts";
import { isUnavailable } from "../../src/base/errors.ts";
import { parserMemory, TIMES_ITS_SIZE } from "../../src/base/memory.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import type { Work } from "../../src/workers/dispatcher.ts";
import { type FromParser, type ToParser, UnparseableError } from "../../src/workers/jobs.ts";
import { createParserPool, type ParserPool } from "../../src/workers/parser-pool.ts";
import type { StartParser } from "../../src/workers/parser-process.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { testLog } from "../harness/servers/mx-rig.ts";
import { until } from "../harness/until.ts";

const pools: ParserPool[] = [];
afterAll(() => {
  for (const pool of pools) pool.stop();
});

/** Longer than any limit. */
const FOR_EVER = 3_600_000;

const MB = 1024 * 1024;

function openPool({ workers = 1, mostLargeBytes = 256 * MB, mostIsolated = 3 } = {}) {
  const runtime = fakeRuntime();
  const { log, lines } = testLog(runtime);
  /** `worker subject`, and the ms since the start at which it was done. */
  const done: [what: string, at: number][] = [];
  const running = new Set<number>();
  /** Bytes that a parser has, by its number. */
  const memory = new Map<number, number>();
  let started = 0;
  /** Ms from the signal until a parser is gone. */
  let endsAfter = 0;
  /** Number of parsers that end before their first word. */
  let dieAtStart = 0;
  let unanswered = 0;
  /** How often the kernel kills the parser of a message, by its subject. */
  const kernelKills = new Map<string, number>();
  /** Processor time that the system tells of each parser; undefined at first. */
  let processorTime: (() => number) | undefined;

  const start: StartParser = ({ heard, ended }) => {
    const number = ++started;
    const queue: { id: number; subject: string; takes: number }[] = [];
    let isDead = false;
    let cancel: (() => void) | undefined;
    const say = (data: FromParser) => heard(data);
    const work = (): void => {
      const [job] = queue;
      if (!job) return;
      const { id } = job;
      if (job.subject === "chatty") {
        const ask = (number: number): void => {
          if (isDead) return;
          unanswered++;
          say({ id, question: { number, name: "a.example", type: "TXT", stage: "evidence" } });
          cancel = runtime.setTimer(() => ask(number + 1), job.takes);
        };
        ask(1);
        return;
      }
      const kills = kernelKills.get(job.subject) ?? 0;
      if (kills > 0) {
        kernelKills.set(job.subject, kills - 1);
        cancel = runtime.setTimer(() => {
          running.delete(number);
          ended("SIGKILL");
        }, job.takes);
        return;
      }
      cancel = runtime.setTimer(() => {
        queue.shift();
        cancel = undefined;
        done.push([`${number} ${job.subject}`, runtime.now() - START]);
        const { subject } = job;
        say({ id, result: { message: { subject }, document: { text: subject, notes: [] } } } as unknown as FromParser);
        if (!cancel) work();
      }, job.takes);
    };
    running.add(number);
    runtime.setTimer(() => (started <= dieAtStart ? ended("SIGKILL") : say({ ready: true })), 0);
    return {
      memory: () => memory.get(number),
      processorTime: () => processorTime?.(),
      kill() {
        isDead = true;
        unanswered = 0;
        cancel?.();
        const gone = () => {
          running.delete(number);
          ended("killed");
        };
        if (endsAfter === 0) gone();
        else runtime.setTimer(gone, endsAfter);
      },
      send(sent) {
        const message = sent as ToParser;
        if ("answer" in message) {
          unanswered--;
          return;
        }
        const { source } = "document" in message ? message.document : (message as { source?: unknown });
        if (!(source instanceof Uint8Array)) throw new Error("nothing is asked here");
        const [subject = "", takes] = Buffer.from(source).toString().split(" takes ");
        queue.push({ id: (message as { id: number }).id, subject, takes: Number(takes) });
        if (queue.length === 1) work();
      },
    };
  };

  const names = createDnsCache(runtime);
  const pool = createParserPool({
    blobFolder: "none",
    names,
    runtime,
    log,
    workers,
    mostLargeBytes,
    mostIsolated,
    findOwnerWorkspaceId: (owner) => owner.split("@")[1],
    start,
  });
  pools.push(pool);
  const give = (kind: Work["kind"], source: string, subject: string, takes: number, bytes = 0): Promise<string> =>
    pool.prepare({ kind, source }, Buffer.from(`${subject} takes ${takes}`), { size: bytes || undefined }).then(
      (message) => message.subject,
      (error) => (error instanceof UnparseableError ? "blamed" : isUnavailable(error) ? "refused" : String(error)),
    );
  const arrive = (ip: string, isStranger: boolean, subject: string, takes: number): Promise<string> =>
    pool
      .prepareInbound(Buffer.from(`${subject} takes ${takes}`), 0, { ip } as SmtpContext, { isStranger })
      .then(() => subject)
      .catch((error) => (error instanceof UnparseableError ? "blamed" : String(error)));
  const read = (owner: string, subject: string, takes: number) =>
    pool.readDocument(owner, Buffer.from(`${subject} takes ${takes}`), 100, { filename: "a", contentType: "b" });
  const advance = async (ms: number) => runtime.advanceTo(runtime.now() + ms);
  const doneAt = (subject: string) => done.find(([what]) => what.endsWith(` ${subject}`))?.[1];
  const workerOf = (subject: string) => done.find(([what]) => what.endsWith(` ${subject}`))?.[0].split(" ")[0];
  const slowToEnd = (ms: number) => {
    endsAfter = ms;
  };
  const failToStart = (parsers: number) => {
    dieAtStart = parsers;
  };
  /** From now on, parsers work for this part of the time that passes. */
  const share = (part: number) => {
    const [since, before] = [runtime.now(), processorTime?.() ?? 0];
    processorTime = () => before + (runtime.now() - since) * part;
  };
  const replaced = () => lines.filter(({ message }) => message === "parser replaced").length;
  return {
    pool,
    runtime,
    give,
    arrive,
    read,
    advance,
    done,
    doneAt,
    workerOf,
    replaced,
    running,
    memory,
    slowToEnd,
    failToStart,
    kernelKills,
    share,
    answered: () => until(() => unanswered === 0),
    started: () => started,
  };
}

describe.each([1, 2, 4])("with %d workers, hostile mail of one source", (workers) => {
  test("delays no send, and other mail by two seconds at most", async () => {
    const { give, advance, doneAt } = openPool({ workers });
    const hostile = Array.from({ length: 6 }, (_, i) => give("arriving", "evil", `hostile ${i}`, FOR_EVER));
    await advance(1);
    const send = give("interactive", "mbx_1", "send", 5);
    const mail = give("arriving", "other", "mail", 5);
    await advance(5);
    expect(doneAt("send")).toBe(6);
    expect(await send).toBe("send");
    await advance(2_100);
    expect(await mail).toBe("mail");
    await advance(70_000);
    expect(await Promise.all(hostile)).toEqual(Array.from(hostile, () => "blamed"));
  });

  test("then gets one worker, for one message at a time, and delays nobody", async () => {
    const { give, advance, doneAt, workerOf, done } = openPool({ workers });
    const first = give("arriving", "evil", "hostile", FOR_EVER);
    await advance(10_000);
    expect(await first).toBe("blamed");
    for (let i = 0; i < 12; i++) void give("arriving", "evil", `next ${i}`, 4_000);
    await advance(1_000);
    void give("interactive", "mbx_1", "send", 5);
    void give("arriving", "other", "mail", 5);
    await advance(10);
    expect([doneAt("send"), doneAt("mail")]).toEqual([11_005, 11_005]);
    await advance(43_000);
    const hostile = done.filter(([what]) => what.includes("next"));
    expect(hostile.map(([, at]) => at)).toEqual([
      14_000, 18_000, 22_000, 26_000, 30_000, 34_000, 38_000, 42_000, 46_000, 50_000, 54_000,
    ]);
    expect(new Set(hostile.map(([what]) => what.split(" ")[0])).size).toBe(1);
    expect(workerOf("mail")).not.toBe(workerOf("next 0"));
  });
});

test("documents of twenty people of a workspace do not hold up those of another", async () => {
  const { read, advance, doneAt } = openPool();
  for (let i = 0; i < 20; i++) void read(`person ${i}@a`, `theirs ${i}`, 4_000).catch(() => {});
  await advance(1);
  void read("bob@b", "other", 5);
  await advance(4_100);
  expect([doneAt("theirs 0"), doneAt("other")]).toEqual([4_000, 4_005]);
});

test("mail beside a message that holds up its worker is not blamed, and another worker prepares it", async () => {
  const { give, advance, doneAt, replaced } = openPool();
  const hostile = give("arriving", "evil", "hostile", FOR_EVER);
  const others = ["a", "b", "c"].map((source) => give("arriving", source, `mail of ${source}`, 5));
  await advance(2_030);
  expect(await Promise.all(others)).toEqual(["mail of a", "mail of b", "mail of c"]);
  expect(doneAt("mail of a")).toBe(2_005);
  expect(replaced()).toBe(1);
  // Their sources are not suspected.
  const again = give("arriving", "a", "again", 5);
  await advance(5);
  expect(await again).toBe("again");
  await advance(10_000);
  expect(await hostile).toBe("blamed");
});

test("a message that is merely slow continues in its worker, for a time that grows with its size", async () => {
  const { pool, give, advance, replaced, started } = openPool();
  const slow = give("arriving", "a", "slow", 9_900);
  await advance(3_000);
  const other = give("arriving", "b", "other", 5);
  await advance(5);
  expect(await other).toBe("other");
  await advance(7_000);
  expect(await slow).toBe("slow");
  expect([started(), replaced()]).toEqual([2, 0]);

  const prepared = pool.prepare({ kind: "bulk", source: "kept" }, Buffer.from("large takes 14000"), {
    size: 50_000_000,
  });
  await advance(14_000);
  expect((await prepared).subject).toBe("large");
  expect(replaced()).toBe(0);
}, 60_000);

describe("on a busy machine", () => {
  test("a parser that gets a fifth of a processor has five times as long, and its message costs no more", async () => {
    const { give, advance, doneAt, workerOf, replaced, share } = openPool();
    share(0.2);
    const slow = give("arriving", "a", "slow", 45_000);
    const other = give("arriving", "b", "other", 5);
    await advance(9_700);
    // One that holds up others goes on alone after two seconds of work.
    expect([doneAt("other"), replaced()]).toEqual([undefined, 0]);
    await advance(350);
    expect(await other).toBe("other");
    await advance(46_000);
    expect(await slow).toBe("slow");

    void give("arriving", "c", "honest 1", 2_000);
    await advance(2_000);
    void give("arriving", "c", "honest 2", 100);
    void give("arriving", "d", "honest 3", 100);
    await advance(300);
    // Together: its source is not held for costly.
    expect(workerOf("honest 2")).toBe(workerOf("honest 3"));
  });

  test("a parser that works is ended at ten seconds of work, one that sleeps in the end", async () => {
    const { give, advance, replaced, share } = openPool();
    share(0.5);
    const hostile = give("arriving", "evil", "hostile", FOR_EVER);
    await advance(19_700);
    expect(replaced()).toBe(0);
    await advance(300);
    expect(await hostile).toBe("blamed");
    share(0);
    const asleep = give("arriving", "other", "asleep", FOR_EVER);
    await advance(99_000);
    expect(replaced()).toBe(1);
    await advance(1_050);
    expect(await asleep).toBe("blamed");
  });

  test("setting the clock takes no time from a message, and gives it none", async () => {
    const { give, advance, runtime, replaced } = openPool();
    const slow = give("arriving", "a", "slow", 9_000);
    await advance(1_000);
    runtime.setBy(3_600_000);
    await advance(1_000);
    expect(replaced()).toBe(0);
    await advance(7_000);
    expect(await slow).toBe("slow");
    const hostile = give("arriving", "b", "hostile", FOR_EVER);
    await advance(1_000);
    runtime.setBy(-3_600_000);
    await advance(9_100);
    expect(await hostile).toBe("blamed");
  });
});

test("a source is no longer costly after some minutes", async () => {
  const { give, advance, doneAt } = openPool();
  void give("arriving", "once", "slow", 1_900);
  await advance(2_000);
  void give("arriving", "once", "alone 1", 100);
  void give("arriving", "other", "other 1", 100);
  await advance(1_000);
  expect([doneAt("alone 1"), doneAt("other 1")]).toEqual([2_100, 2_100]);
  await advance(3 * 60_000);
  void give("arriving", "once", "among 1", 100);
  void give("arriving", "other", "among 2", 100);
  await advance(1_000);
  expect([doneAt("among 1"), doneAt("among 2")]).toEqual([183_100, 183_200]);
});

test("sources that used less time go first", async () => {
  const { give, advance, done } = openPool();
  for (let i = 0; i < 20; i++) void give("arriving", "much", `much ${i}`, 400);
  await advance(900);
  void give("arriving", "little", "little 1", 100);
  void give("arriving", "little", "little 2", 100);
  await advance(10_000);
  const order = done.map(([what]) => what.slice(2));
  // After the messages that the worker had in hand.
  expect(order.indexOf("little 1")).toBeLessThan(11);
  expect(order.indexOf("little 2")).toBeLessThan(12);
  expect(order).toHaveLength(22);
});

test("sending borrows an idle worker of arriving mail; while that is busy, sending has its own", async () => {
  const { give, advance, workerOf, running, started } = openPool();
  void give("interactive", "mbx_1", "send 1", 5);
  await advance(5);
  void give("arriving", "a", "mail 1", 5);
  await advance(5);
  expect(started()).toBe(1);
  void give("arriving", "a", "mail 2", 100);
  void give("interactive", "mbx_1", "send 2", 5);
  void give("interactive", "mbx_1", "send 3", 5);
  await advance(100);
  expect(["mail 2", "send 2", "send 3"].map(workerOf)).toEqual(["1", "2", "2"]);
  await advance(59_800);
  expect([...running]).toEqual([1, 2]);
  await advance(200);
  expect([...running]).toEqual([1]);
  await advance(9 * 60_000);
  expect([...running]).toEqual([]);
  void give("arriving", "a", "mail 3", 5);
  await advance(5);
  expect(workerOf("mail 3")).toBe("3");
});

test("large messages are in the workers together only as far as the memory allows; small ones pass them", async () => {
  const { give, advance, doneAt } = openPool({ workers: 3, mostLargeBytes: 20 * MB });
  void give("arriving", "a", "first", 1_000, 8 * MB);
  void give("arriving", "b", "second", 1_500, 12 * MB);
  void give("interactive", "mbx_1", "third", 1_000, 8 * MB);
  void give("arriving", "c", "larger than all", 1_000, 21 * MB);
  void give("arriving", "d", "small", 5);
  await advance(5_000);
  expect(["first", "second", "third", "larger than all", "small"].map(doneAt)).toEqual([1_000, 1_500, 2_000, 3_000, 5]);
});

test("a large message keeps its room until it is filed", async () => {
  const { pool, give, advance, doneAt } = openPool({ mostLargeBytes: 8 * MB });
  const filed = Promise.withResolvers<void>();
  const smtpContext = { ip: "192.0.2.1" } as SmtpContext;
  const source = Buffer.from("first takes 1000");
  void pool.prepareInbound(source, 8 * MB, smtpContext, { released: filed.promise }).catch(() => {});
  void give("arriving", "b", "second", 1_000, 8 * MB);
  await advance(5_000);
  expect(["first", "second"].map(doneAt)).toEqual([1_000, undefined]);
  filed.resolve();
  await advance(0);
  await advance(1_000);
  expect(doneAt("second")).toBe(6_000);
});

test("large messages of a costly source let those of others go first", async () => {
  const { give, advance, doneAt } = openPool({ mostLargeBytes: 8 * MB });
  void give("arriving", "evil", "costly", 1_900, 8 * MB);
  await advance(1_000);
  for (const i of [1, 2]) void give("arriving", "evil", `next ${i}`, 1_900, 8 * MB);
  for (const i of [1, 2]) void give("arriving", `honest ${i}`, `mail ${i}`, 500, 8 * MB);
  await advance(7_000);
  expect(["costly", "mail 1", "mail 2", "next 1", "next 2"].map(doneAt)).toEqual([1_900, 2_400, 2_900, 4_800, 6_700]);
});

test("hundreds of sends leave arriving mail its worker", async () => {
  const { give, advance, doneAt } = openPool();
  for (let i = 0; i < 300; i++) void give("interactive", "mbx_1", `send ${i}`, 50);
  void give("arriving", "a", "mail", 5);
  await advance(60);
  expect(doneAt("mail")).toBeLessThanOrEqual(55);
});

test("an account whose mail is costly delays neither the sends of others nor arriving mail", async () => {
  const { give, advance, doneAt } = openPool();
  const costly = Array.from({ length: 6 }, () => give("interactive", "mbx_evil", "costly", FOR_EVER));
  await advance(2_000);
  void give("interactive", "mbx_1", "send", 5);
  void give("arriving", "a", "mail", 5);
  await advance(10);
  // The mail waited for the send, because its worker was lent.
  expect([doneAt("send"), doneAt("mail")]).toEqual([2_005, 2_010]);
  await advance(70_000);
  expect(await Promise.all(costly)).toEqual(Array.from(costly, () => "blamed"));
});

test("messages that wait longer than a minute, or exceed the queue, are refused for now", async () => {
  const { give, advance, doneAt } = openPool();
  await Promise.all([give("arriving", "evil", "first", 600), advance(600)]);
  const waiting = Array.from({ length: 1_001 }, (_, i) => give("arriving", "evil", `${i}`, 7_000));
  const over = [give("arriving", "evil", "one more", 5), give("arriving", "other", "mail", 5)];
  expect(await over[0]).toBe("refused");
  await advance(5);
  expect(await over[1]).toBe("mail");
  await advance(70_000);
  const outcomes = await Promise.all(waiting);
  expect(outcomes.filter((outcome) => outcome !== "refused")).toEqual(["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
  expect(doneAt("8")).toBe(63_600);
});

test("bulk work waits without limit, and a costly message of it does not isolate the others", async () => {
  const { give, advance, replaced } = openPool();
  const bulk = Array.from({ length: 100 }, (_, i) => give("bulk", "kept", `${i}`, 1_500));
  await advance(160_000);
  expect(await Promise.all(bulk)).toEqual(bulk.map((_, i) => `${i}`));
  expect(replaced()).toBe(0);
});

test("a parser that is killed before its first word has a successor, which nobody notices; a second one has none", async () => {
  const { give, advance, failToStart, started } = openPool();
  failToStart(1);
  const waiting = ["a", "b", "c"].map((source) => give("arriving", source, `mail of ${source}`, 5));
  await advance(20);
  expect(await Promise.all(waiting)).toEqual(["mail of a", "mail of b", "mail of c"]);
  expect(started()).toBe(2);

  const other = openPool();
  other.failToStart(3);
  const refused = ["a", "b"].map((source) => other.give("arriving", source, "mail", 5));
  await other.advance(20);
  expect(await Promise.all(refused)).toEqual(["refused", "refused"]);
  expect(other.started()).toBe(2);
  // As long as none has worked, each message finds out at once.
  const next = other.give("arriving", "a", "mail", 5);
  await other.advance(1);
  expect(await next).toBe("refused");
  const last = other.give("arriving", "a", "last", 5);
  await other.advance(10);
  expect(await last).toBe("last");
});

describe("a parser that speaks without end", () => {
  test("has no more time for a message than one that is silent, and holds up others no longer", async () => {
    const { give, advance, answered, doneAt, replaced, runtime } = openPool();
    const chatty = give("arriving", "evil", "chatty", 50);
    void give("arriving", "other", "mail", 5);
    while (replaced() < 2 && runtime.now() - START < 60_000) {
      await advance(50);
      // Waiting for an answer takes none of its time.
      await answered();
    }
    expect(await chatty).toBe("blamed");
    expect(doneAt("mail")).toBeLessThan(2_200);
    expect(runtime.now() - START).toBeLessThan(13_000);
  });

  test("is ended when it asks more than any message needs", async () => {
    const { give, advance, runtime } = openPool();
    const chatty = give("arriving", "evil", "chatty", 0);
    for (let turns = 0; turns < 3_000; turns++) await advance(0);
    expect(runtime.now() - START).toBeLessThan(1_000);
    expect(await chatty).toBe("blamed");
  });
});

describe("documents", () => {
  test("that hang delay no mail, and have a reason", async () => {
    const { give, read, advance, doneAt, workerOf } = openPool({ workers: 2 });
    const hanging = read("usr_1", "hanging", FOR_EVER);
    await advance(1);
    void give("interactive", "mbx_1", "send", 5);
    void give("arriving", "a", "mail", 5);
    await advance(5);
    expect([doneAt("send"), doneAt("mail")]).toEqual([6, 6]);
    const next = read("usr_2", "next", 5);
    await advance(10_000);
    expect(await hanging).toEqual({ failure: "the document took too long" });
    await advance(5);
    expect(await next).toEqual({ text: "next", notes: [] });
    expect(new Set(["mail", "next"].map(workerOf)).size).toBe(2);
  });

  test("are read one at a time, those of a person who used much time last", async () => {
    const { read, advance, done, running } = openPool();
    void read("usr_1", "first", 3_000);
    for (const name of ["a", "b", "c"]) void read("usr_1", name, 3_000);
    await advance(2_900);
    void read("usr_2", "other", 100);
    await advance(10_000);
    expect(done.map(([what]) => what)).toEqual(["1 first", "1 other", "1 a", "1 b", "1 c"]);
    expect(running.size).toBe(1);
  });

  test("that take long do not make the person's mail wait", async () => {
    const { give, read, advance, doneAt } = openPool();
    void read("usr_1", "slow", 5_000);
    await advance(5_000);
    void give("interactive", "usr_1", "send 1", 1_000);
    void give("interactive", "usr_1", "send 2", 1_000);
    await advance(1_000);
    // A source that was costly would have one at a time.
    expect(["send 1", "send 2"].map(doneAt)).toEqual([6_000, 6_000]);
  });

  test("count as large messages while memory is short", async () => {
    const { give, read, advance, doneAt } = openPool({ workers: 2, mostLargeBytes: 20 * MB });
    void give("arriving", "a", "large", 1_000, 19 * MB);
    void read("usr_1", "document", 1_000);
    void give("arriving", "b", "small", 5);
    await advance(3_000);
    expect(["large", "document", "small"].map(doneAt)).toEqual([1_000, 2_000, 5]);
  });
});

describe("memory", () => {
  test("that a message takes beyond what its size explains ends its parser, within two looks", async () => {
    const { give, advance, memory, started, running } = openPool();
    const greedy = give("arriving", "a", "greedy", FOR_EVER);
    await advance(10);
    memory.set(started(), parserMemory(100 * TIMES_ITS_SIZE) + 1);
    await advance(100);
    expect(await greedy).toBe("blamed");
    expect(running.size).toBe(0);
  });

  test("that its size explains is left to it", async () => {
    const { give, advance, memory, started } = openPool();
    const large = give("arriving", "a", "large", 1_000, 5 * MB);
    await advance(10);
    memory.set(started(), parserMemory(5 * MB * TIMES_ITS_SIZE));
    await advance(1_000);
    expect(await large).toBe("large");
  });

  test("that the kernel takes from a parser once is no fault of its message; twice in a row it is", async () => {
    const { give, advance, kernelKills, workerOf, running } = openPool();
    kernelKills.set("unlucky", 1).set("greedy", 2);
    // It held up others by then.
    const unlucky = give("arriving", "a", "unlucky", 3_000, 5 * MB);
    const greedy = give("arriving", "b", "greedy", 100);
    const other = give("arriving", "c", "other", 100);
    await advance(15_000);
    expect(await Promise.all([unlucky, greedy, other])).toEqual(["unlucky", "blamed", "other"]);
    expect(workerOf("unlucky")).not.toBe(workerOf("other"));
    expect(running.size).toBeLessThanOrEqual(2);
  });

  test("is free before the next job begins: a parser that was killed has no successor before it is gone", async () => {
    const { give, advance, doneAt, started, running, slowToEnd } = openPool();
    slowToEnd(500);
    const hostile = give("arriving", "evil", "hostile", FOR_EVER);
    await advance(10_000);
    expect(await hostile).toBe("blamed");
    void give("arriving", "evil", "next", 5);
    await advance(400);
    expect([running.size, started(), doneAt("next")]).toEqual([1, 1, undefined]);
    await advance(200);
    expect([started(), doneAt("next")]).toEqual([2, 10_505]);
  });
});

describe("sources that change with each hostile message", () => {
  test("soon take nothing from senders who are known", async () => {
    const { arrive, advance, doneAt } = openPool();
    // A network each, and sixteen at any time.
    let hostile = 0;
    const attack = () => void arrive(`10.0.${hostile}.1`, true, `hostile ${hostile++}`, FOR_EVER);
    for (let i = 0; i < 16; i++) attack();
    for (let second = 0; second < 60; second++) {
      await advance(1_000);
      attack();
    }
    const before = doneAt("known 0");
    expect(before).toBeUndefined();
    const from = [];
    for (let i = 0; i < 10; i++) {
      attack();
      void arrive("192.0.2.1", false, `known ${i}`, 5);
      await advance(100);
      from.push(doneAt(`known ${i}`));
    }
    expect(from.every((at) => at !== undefined)).toBe(true);
  });

  test("of one network are one source", async () => {
    const { arrive, advance, doneAt } = openPool();
    const first = arrive("192.0.2.1", false, "hostile", FOR_EVER);
    await advance(10_000);
    expect(await first).toBe("blamed");
    void arrive("192.0.2.77", false, "hostile again", FOR_EVER);
    void arrive("198.51.100.1", false, "mail", 5);
    await advance(100);
    expect(doneAt("mail")).toBe(10_005);
  });
});

test("on a small machine, what may be costly takes turns: mail, documents and what people send", async () => {
  const { give, read, advance, running, doneAt } = openPool({ mostIsolated: 1 });
  const document = read("usr_1", "document", 1_000);
  await advance(10);
  expect(running.size).toBe(1);
  void give("arriving", "a", "slow", 3_000);
  await advance(2_500);
  expect((await document) as unknown).toEqual({ text: "document", notes: [] });
  await advance(3_000);
  expect(doneAt("slow")).toBeGreaterThan(0);
  void read("usr_1", "next", 10);
  await advance(100);
  expect(doneAt("next")).toBeGreaterThan(0);
  expect(running.size).toBeLessThanOrEqual(2);
});
