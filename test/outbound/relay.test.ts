/** The relay: the time and connection of each attempt. No mail is lost, sent twice or held up. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { unavailable } from "../../src/base/errors.ts";
import { LARGE_BYTES } from "../../src/base/memory.ts";
import { letOthersRun } from "../../src/base/pause.ts";
import { retryEntry } from "../../src/outbound/queue.ts";
import { messages, outboundContents, queueDomains } from "../../src/store/schema.ts";
import { gate } from "../harness/peers/remote-mx.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { createQueue } from "./queue-rig.ts";
import { createRelayRig, FIRST_RETRY_MS, type Script, unreachable } from "./relay-rig.ts";

const HOUR_MS = 3_600_000;

/** No server can be reached. */
const DOWN: Script = {
  connect: () => {
    throw unreachable();
  },
};

describe("delivering", () => {
  test("one message goes in one transaction with its bytes, and the connection is closed when no other follows", async () => {
    const { accept, run, sent, connections, outcomes, advance, contents, relay } = createRelayRig();
    accept({ to: ["ann@a.example", "cc:bob@a.example"] });
    await run();
    expect(sent).toEqual([
      { destination: "a.example", recipients: ["ann@a.example", "bob@a.example"], connection: 1, content: "message 1" },
    ]);
    expect(outcomes()).toEqual([
      ["delivered", 1, "250 accepted"],
      ["delivered", 1, "250 accepted"],
    ]);
    expect(contents()).toEqual([]);
    await relay.idle();
    await advance(3_999);
    expect(connections).toEqual([{ destination: "a.example", open: true }]);
    await advance(1);
    expect(connections).toEqual([{ destination: "a.example", open: false }]);
  });

  test("an idle connection is used for the next message", async () => {
    const { accept, run, wake, quiet, sent, states } = createRelayRig();
    await run();
    for (let i = 0; i < 4; i++) {
      accept({ to: [`r${i}@a.example`] });
      wake();
      await quiet();
    }
    expect(sent.map(({ connection }) => connection)).toEqual([1, 1, 1, 1]);
    expect(states()).toEqual(["delivered", "delivered", "delivered", "delivered"]);
  });

  test("many messages for one destination share at most 5 connections, and each leaves once", async () => {
    const { accept, run, connections, recipients, states } = createRelayRig();
    const all = Array.from({ length: 100 }, (_, i) => `r${String(i).padStart(3, "0")}@a.example`);
    for (const to of all) accept({ to: [to] });
    await run();
    expect(recipients().sort()).toEqual(all);
    expect(new Set(states())).toEqual(new Set(["delivered"]));
    expect(connections.length).toBeLessThanOrEqual(5);
  });

  test("a server that cannot keep its connection gets each message over a new one", async () => {
    const { accept, run, sent, states, connections } = createRelayRig({ script: { keeps: () => false } });
    for (let i = 0; i < 6; i++) accept({ to: [`r${i}@a.example`] });
    await run();
    expect(sent.map(({ connection }) => connection)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(new Set(states())).toEqual(new Set(["delivered"]));
    expect(connections.filter(({ open }) => open)).toEqual([]);
  });

  test("450, then later 250: attempted again when it is due, and not before", async () => {
    const { accept, run, advance, outcomes, sent } = createRelayRig({
      script: { send: (_, nth) => (nth === 1 ? "deferred" : "accepted") },
    });
    accept({ to: ["ann@a.example"] });
    await run();
    expect(outcomes()).toEqual([["waiting", 1, "450 deferred"]]);
    await advance(FIRST_RETRY_MS - 1);
    expect(sent).toHaveLength(1);
    await advance(1);
    expect(sent).toHaveLength(2);
    expect(outcomes()).toEqual([["delivered", 2, "250 accepted"]]);
  });

  test("550: bounced, and never attempted again", async () => {
    const { accept, run, advance, outcomes, sent } = createRelayRig({ script: { send: () => "refused" } });
    accept({ to: ["ann@a.example"] });
    await run();
    await advance(48 * HOUR_MS);
    expect(outcomes()).toEqual([["bounced", 1, "550 refused"]]);
    expect(sent).toHaveLength(1);
  });

  test("the log names no recipient", async () => {
    const { accept, run, lines } = createRelayRig();
    accept({ to: ["ann@a.example", "bcc:bob@a.example"] });
    await run();
    expect(lines.filter(({ message }) => message === "delivery attempt")).toMatchObject([
      { emailId: "msg_1", remote: "mx.a.example", recipients: 2, outcome: "accepted 2" },
    ]);
    expect(JSON.stringify(lines)).not.toMatch(/ann@|bob@/);
  });
});

describe("sharing slots", () => {
  test("a destination that hangs from the start has one connection, and holds up no other", async () => {
    const stuck = gate();
    const { accept, run, connections, states, sent } = createRelayRig({
      script: {
        send: ({ destination }) => (destination === "slow.example" ? stuck.wait() : undefined),
      },
    });
    for (let i = 0; i < 20; i++) accept({ to: [`r${i}@slow.example`] });
    for (let i = 0; i < 20; i++) accept({ to: [`r${i}@fast.example`] });
    await run();
    expect(connections.filter(({ destination }) => destination === "slow.example")).toHaveLength(1);
    expect(states().slice(20)).toEqual(Array.from({ length: 20 }, () => "delivered"));
    expect(sent.filter(({ destination }) => destination === "slow.example")).toHaveLength(1);
  });

  test("a destination that hangs later has 5 connections", async () => {
    const stuck = gate();
    const { accept, run, connections, states } = createRelayRig({
      script: {
        send: ({ destination, recipients }) =>
          destination === "slow.example" && recipients[0] !== "first@slow.example" ? stuck.wait() : undefined,
      },
    });
    accept({ to: ["first@slow.example"] });
    await run();
    for (let i = 0; i < 20; i++) accept({ to: [`r${i}@slow.example`] });
    for (let i = 0; i < 20; i++) accept({ to: [`r${i}@fast.example`] });
    await run();
    expect(connections.filter(({ destination }) => destination === "slow.example").length).toBeLessThanOrEqual(5);
    expect(states().slice(21)).toEqual(Array.from({ length: 20 }, () => "delivered"));
  });

  test("at most 50 connections in all; a destination that waits gets the next slot", async () => {
    const gates = new Map<string, ReturnType<typeof gate>>();
    const { accept, run, connections, quiet } = createRelayRig({
      script: {
        send: ({ destination }) => {
          const stuck = gate();
          gates.set(destination, stuck);
          return stuck.wait();
        },
      },
    });
    for (let i = 0; i < 60; i++) accept({ to: [`ann@d${String(i).padStart(2, "0")}.example`] });
    await run();
    expect(connections).toHaveLength(50);
    gates.get("d07.example")?.release();
    await quiet();
    expect(connections.map(({ destination }) => destination).slice(50)).toEqual(["d50.example"]);
    expect(connections.filter(({ open }) => open)).toHaveLength(50);
  });

  test("when all slots are taken, a destination with much mail gives up its own in turn", async () => {
    const stuck = gate();
    const { accept, run, recipients, runtime, states } = createRelayRig({
      script: {
        send: ({ destination }) => (destination.startsWith("slow") ? stuck.wait() : undefined),
      },
    });
    for (let i = 0; i < 49; i++) accept({ to: [`ann@slow${i}.example`] });
    await run();
    for (let i = 0; i < 60; i++) accept({ to: [`r${i}@much.example`] });
    runtime.advanceTo(START + 1);
    accept({ to: ["ann@zz.example"] });
    runtime.advanceTo(START + 2);
    await run();
    expect(states().slice(49)).toEqual(Array.from({ length: 61 }, () => "delivered"));
    const fast = recipients().filter((recipient) => !recipient.includes("slow"));
    expect(fast.indexOf("ann@zz.example")).toBe(20);
  });

  test("mail to this server waits for no other, even when all slots are taken", async () => {
    const stuck = gate();
    const { accept, run, states } = createRelayRig({
      script: { send: stuck.wait },
    });
    for (let i = 0; i < 60; i++) accept({ to: [`ann@d${i}.example`] });
    accept({ to: ["bob@here.example"] });
    await run();
    expect(states().at(-1)).toBe("delivered");
    expect(states().filter((state) => state === "delivered")).toHaveLength(1);
  });
});

describe("servers that hang", () => {
  const forever = new Promise<undefined>(() => {});
  const isPit = (destination: string): boolean => destination.startsWith("pit");
  /** Script of servers that never greet. */
  const closed: Script = { connect: (destination) => (isPit(destination) ? forever : undefined) };
  /** Script of servers that take the message, and never reply. */
  const mute: Script = {
    send: ({ destination }) => (isPit(destination) ? forever : undefined),
    transmits: () => true,
  };
  const CUT = "deferred: no answer in time while other mail waited";

  function createPits(count: number, given: Parameters<typeof createRelayRig>[0]) {
    const rig = createRelayRig(given);
    for (let i = 0; i < count; i++) rig.accept({ to: [`ann@pit${String(i).padStart(3, "0")}.example`] });
    return {
      ...rig,
      /** Connections to them. */
      open: () => rig.connections.filter(({ destination, open }) => open && isPit(destination)).length,
      /** Accepts a message for a new server that works; returns a function that tells whether it arrived. */
      write: () => {
        rig.accept({ to: ["bob@well.example"] });
        return () => rig.recipients().filter((recipient) => recipient === "bob@well.example").length === 1;
      },
      cut: () => rig.outcomes().filter(([, , reply]) => reply === CUT),
    };
  }

  test.each([
    ["before the greeting", closed],
    ["after the message", mute],
  ])("sixty of them, %s, hold up a new destination for 5 seconds", async (_, script) => {
    const { write, run, advance, open } = createPits(60, { script });
    const isThere = write();
    await run();
    expect([open(), isThere()]).toEqual([50, false]);
    await advance(4_999);
    expect(isThere()).toBe(false);
    await advance(1);
    expect([open(), isThere()]).toEqual([60, true]);
  });

  test("they do not hold up one that has replied before, even after a restart", async () => {
    const first = createPits(0, { script: closed });
    first.accept({ to: ["ann@well.example"] });
    await first.run();
    const { relay, run, write, open } = createPits(60, { script: closed, queue: first });
    const isThere = write();
    await run();
    expect([open(), isThere()]).toEqual([50, true]);
    await relay.stop(0);
  });

  test("when more wait than may, one that has waited for half a minute is cut for another, and gets its time later", async () => {
    const { write, run, wake, advance, open, cut, connections } = createPits(150, { script: closed });
    await run();
    for (const opened of [100, 150]) {
      await advance(5_000);
      expect(open()).toBe(opened);
    }
    const isThere = write();
    wake();
    await advance(19_999);
    expect([open(), isThere(), cut()]).toEqual([150, false, []]);
    await advance(1);
    expect([open(), isThere(), cut()]).toEqual([149, true, [["waiting", 1, CUT]]]);
    await advance(FIRST_RETRY_MS);
    expect(connections.at(-1)).toEqual({ destination: "pit000.example", open: true });
    for (let i = 0; i < 60; i++) await advance(10_000);
    expect(connections[151]).toEqual({ destination: "pit000.example", open: true });
  });

  test("while no other waits, they have the time of RFC 5321", async () => {
    const { run, advance, open, outcomes } = createPits(50, { script: closed });
    await run();
    await advance(600_000);
    expect([open(), new Set(outcomes().map(([, attempts]) => attempts))]).toEqual([50, new Set([0])]);
  });

  test("one that may have the message is never cut, and gets nothing twice; an open destination gets its mail meanwhile", async () => {
    const { accept, write, run, advance, open, cut, sent } = createPits(200, { script: mute });
    accept({ to: ["ann@well.example"] });
    for (let i = 0; i < 200; i++) accept({ to: [`ann@a${i}.example`] });
    await run();
    for (let i = 0; i < 60; i++) await advance(10_000);
    expect([open(), sent.filter(({ destination }) => isPit(destination)).length]).toEqual([150, 150]);
    const isThere = write();
    await run();
    expect([isThere(), cut()]).toEqual([false, []]);
    accept({ to: ["ann@a7.example"] });
    await run();
    expect(sent.at(-1)?.destination).toBe("a7.example");
  });

  test("many new destinations leave slots for one that has replied before, and are moved away in portions", async () => {
    const { accept, run, open, recipients, state, store } = createPits(0, {});
    accept({ to: ["ann@well.example"] });
    await run();
    state.script = closed;
    for (let i = 0; i < 2_500; i++) accept({ to: [`ann@pit${i}.example`] });
    accept({ to: ["bob@well.example"] });
    const moved = () => store.db.select().from(queueDomains).where(eq(queueDomains.line, "new")).all().length;
    const seen = [moved()];
    store.onCommit(() => seen.push(moved()));
    await run();
    expect([open(), recipients()]).toEqual([50, ["ann@well.example", "bob@well.example"]]);
    expect(seen.at(-1)).toBe(2_450);
    for (const [i, count] of seen.entries()) expect(count - (seen[i - 1] ?? 0)).toBeLessThanOrEqual(1_000);
  });

  test("destinations that replied before are bounded, too", async () => {
    const { accept, run, advance, open, state } = createPits(300, {});
    await run();
    await advance(10_000);
    state.script = mute;
    for (let i = 0; i < 300; i++) accept({ to: [`bob@pit${String(i).padStart(3, "0")}.example`] });
    await run();
    for (let i = 0; i < 60; i++) await advance(10_000);
    expect(open()).toBe(160);
  });

  test("slow destinations share 20 slots in turn, also after a restart; one that is only slow gets its mail", async () => {
    const queue = createQueue();
    const lateBy = (ms: number, failure?: Error) =>
      new Promise<undefined>((resolve, reject) => {
        queue.runtime.setTimer(() => (failure ? reject(failure) : resolve(undefined)), ms);
      });
    const script: Script = {
      connect: (destination) => (isPit(destination) ? lateBy(300_000, unreachable()) : undefined),
    };
    const first = createPits(30, { queue, script });
    await first.run();
    await first.advance(300_000);
    expect(new Set(first.outcomes().map(([, attempts]) => attempts))).toEqual(new Set([1]));
    await first.relay.stop(0);
    queue.runtime.advanceTo(queue.runtime.now() + FIRST_RETRY_MS);
    const { run, advance, open, outcomes, write, state } = createPits(0, { queue, script });
    const isThere = write();
    await run();
    expect([open(), isThere()]).toEqual([20, true]);
    state.script = { connect: (destination) => (isPit(destination) ? lateBy(240_000) : undefined) };
    await advance(300_000);
    expect(open()).toBe(10);
    await advance(240_000);
    expect(outcomes().slice(20, 30)).toEqual(Array.from({ length: 10 }, () => ["delivered", 2, "250 accepted"]));
  });

  test("one that replies in time again is no longer slow", async () => {
    const { run, advance, accept, open, sent, state, runtime } = createPits(30, {
      script: {
        connect: (destination) =>
          isPit(destination) && new Promise((_, reject) => void runtime.setTimer(() => reject(unreachable()), 300_000)),
      },
    });
    await run();
    await advance(300_000);
    state.script = { connect: (destination) => (destination === "pit000.example" ? undefined : forever) };
    await advance(FIRST_RETRY_MS);
    expect(sent.map(({ destination }) => destination)).toEqual(["pit000.example"]);
    await advance(4_000);
    expect(open()).toBe(20);
    accept({ to: ["bob@pit000.example"] });
    await run();
    expect(sent.at(-1)?.recipients).toEqual(["bob@pit000.example"]);
  });
});

describe("a destination that cannot be reached", () => {
  test("is asked once for all mail due there; later mail waits for the first retry", async () => {
    const { accept, run, advance, connections, outcomes, wake, quiet, state, states } = createRelayRig({
      script: DOWN,
    });
    for (let i = 0; i < 30; i++) accept({ to: [`r${i}@a.example`] });
    await run();
    expect(connections).toHaveLength(1);
    expect(outcomes()).toEqual(Array.from({ length: 30 }, () => ["waiting", 1, "deferred: no connection"]));
    accept({ to: ["late@a.example"] });
    wake();
    await quiet();
    await advance(FIRST_RETRY_MS - 1);
    expect(connections).toHaveLength(1);
    expect(outcomes().at(-1)).toEqual(["waiting", 0, null]);
    state.script = {};
    await advance(1);
    expect(new Set(states())).toEqual(new Set(["delivered"]));
  });

  test("rests no longer than its first retry takes", async () => {
    const { accept, run, advance, connections, store, options, wake } = createRelayRig({
      script: DOWN,
    });
    store.transact((tx) => options.set(tx, "smtp.retrySeconds", "2,2"));
    accept({ to: ["ann@a.example"] });
    await run();
    accept({ to: ["bob@a.example"] });
    wake();
    await advance(1_999);
    expect(connections).toHaveLength(1);
    await advance(1);
    expect(connections).toHaveLength(2);
  });

  test("is asked again at once when the operator says so", async () => {
    const { accept, run, connections, store, entries, runtime, relay, quiet, state, states } = createRelayRig({
      script: DOWN,
    });
    accept({ to: ["ann@a.example"] });
    await run();
    state.script = {};
    store.transact((tx) => retryEntry(tx, entries()[0]?.id ?? "", runtime.now()));
    await run();
    expect([states(), connections.length]).toEqual([["waiting"], 1]);
    relay.endRests();
    await quiet();
    expect(states()).toEqual(["delivered"]);
  });

  test("holds up no other mail while it rests, even with earlier mail", async () => {
    const { accept, run, states, runtime } = createRelayRig({
      script: {
        connect: (destination) => {
          if (destination === "dead.example") throw unreachable();
        },
      },
    });
    accept({ to: ["ann@dead.example"] });
    await run();
    accept({ to: ["bob@dead.example"] });
    runtime.advanceTo(START + 5);
    accept({ to: ["cy@fine.example"] });
    await run();
    expect(states()).toEqual(["waiting", "waiting", "delivered"]);
  });

  test("holds up no other destination", async () => {
    const { accept, run, states } = createRelayRig({
      script: {
        connect: (destination) => {
          if (destination === "dead.example") throw unreachable();
        },
      },
    });
    for (const domain of ["dead", "fine", "dead", "good"]) accept({ to: [`ann@${domain}.example`] });
    await run();
    expect(states()).toEqual(["waiting", "delivered", "waiting", "delivered"]);
  });

  test("for good: all due mail bounces, and later mail makes a new attempt", async () => {
    const { accept, run, connections, states, wake, quiet } = createRelayRig({
      script: {
        connect: () => {
          throw unreachable("refused");
        },
      },
    });
    for (let i = 0; i < 3; i++) accept({ to: [`r${i}@a.example`] });
    await run();
    expect([states(), connections.length]).toEqual([["bounced", "bounced", "bounced"], 1]);
    accept({ to: ["late@a.example"] });
    wake();
    await quiet();
    expect([states().at(-1), connections.length]).toEqual(["bounced", 2]);
  });

  test("over another connection, while one works: no recipient is deferred", async () => {
    const { accept, run, outcomes, connections } = createRelayRig({
      script: {
        connect: (_, nth) => {
          if (nth > 1) throw unreachable();
        },
      },
    });
    for (let i = 0; i < 30; i++) accept({ to: [`r${i}@a.example`] });
    await run();
    expect(outcomes()).toEqual(Array.from({ length: 30 }, () => ["delivered", 1, "250 accepted"]));
    expect(connections).toHaveLength(2);
  });
});

describe("a smarthost", () => {
  test("takes the recipients of a message at all domains in one transaction, on at most 5 connections", async () => {
    const { accept, run, sent, connections } = createRelayRig({ grouped: true });
    for (let i = 0; i < 40; i++) accept({ to: [`ann${i}@a${i}.example`, `bob@b.example`] });
    await run();
    expect(sent).toHaveLength(40);
    expect(sent.every(({ recipients }) => recipients.length === 2)).toBe(true);
    expect(connections.length).toBeLessThanOrEqual(5);
  });

  test("that hangs does not hold up mail to this server, even of the same message", async () => {
    const stuck = gate();
    const { accept, run, entries, sent } = createRelayRig({
      grouped: true,
      script: { send: stuck.wait },
    });
    accept({ to: ["ann@a.example", "bob@here.example", "cy@c.example", "di@also.here.example"] });
    await run();
    expect(entries().map(({ state, leased }) => [state, leased])).toEqual([
      ["waiting", true],
      ["delivered", false],
      ["waiting", true],
      ["delivered", false],
    ]);
    expect(sent.map(({ recipients }) => recipients)).toEqual([["ann@a.example", "cy@c.example"]]);
  });

  test("that is down is asked once for each retry, for all mail", async () => {
    const { accept, run, advance, connections, states } = createRelayRig({
      grouped: true,
      script: DOWN,
    });
    for (let i = 0; i < 25; i++) accept({ to: [`ann@d${i}.example`] });
    await run();
    expect(connections).toHaveLength(1);
    await advance(FIRST_RETRY_MS);
    expect(connections).toHaveLength(2);
    expect(new Set(states())).toEqual(new Set(["waiting"]));
  });

  test("that is slow has all the time it takes, and is never cut", async () => {
    const rig = createRelayRig({ grouped: true });
    rig.state.script = {
      send: () => new Promise((resolve) => void rig.runtime.setTimer(() => resolve(undefined), 240_000)),
    };
    for (let i = 0; i < 30; i++) rig.accept({ to: [`ann@d${i}.example`] });
    await rig.run();
    for (let i = 0; i < 60; i++) await rig.advance(60_000);
    expect(rig.outcomes()).toEqual(Array.from({ length: 30 }, () => ["delivered", 1, "250 accepted"]));
  });

  test("gets a slot when it is set while hanging servers have all the slots", async () => {
    const { accept, run, quiet, wake, sent, state } = createRelayRig({
      script: { connect: () => new Promise(() => {}) },
    });
    for (let i = 0; i < 60; i++) accept({ to: [`ann@d${i}.example`] });
    await run();
    [state.grouped, state.script] = [true, {}];
    wake();
    await quiet();
    expect(sent.map(({ destination }) => destination)).toEqual(Array.from({ length: 10 }, () => "smarthost"));
  });

  test("set while mail waits: due mail goes there", async () => {
    const { accept, run, advance, sent, state } = createRelayRig({
      script: { send: (_, nth) => (nth === 1 ? "deferred" : undefined) },
    });
    accept({ to: ["ann@a.example", "bob@b.example"] });
    await run();
    state.grouped = true;
    await advance(FIRST_RETRY_MS);
    expect(sent.map(({ destination }) => destination)).toEqual(["a.example", "b.example", "smarthost"]);
  });
});

describe("mail to this server", () => {
  test("is filed in the transaction that records it, recipients of all its domains together", async () => {
    const { accept, run, connections, states, store, lines } = createRelayRig();
    accept({ to: ["ann@here.example", "out@a.example", "no@also.here.example"] });
    await run();
    const here = lines.filter(({ remote }) => remote === "here");
    expect(here).toMatchObject([{ recipients: 2, outcome: "accepted 1, refused 1" }]);
    expect(store.db.select().from(messages).all()).toMatchObject([{ receivedOn: "ann@here.example" }]);
    expect(connections).toHaveLength(1);
    expect(states()).toEqual(["delivered", "delivered", "bounced"]);
  });

  test("that cannot be filed is deferred, neither lost nor recorded as delivered", async () => {
    const { accept, run, outcomes, errors, store } = createRelayRig();
    store.db.$client.exec("CREATE TRIGGER fault BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'a fault'); END");
    accept({ to: ["ann@here.example"] });
    await run();
    expect(outcomes()).toEqual([["waiting", 1, "451 4.3.0 Local error, will try again later"]]);
    expect(errors()).toHaveLength(1);
  });
});

test("on hold nothing leaves: mail is held, and held again when released; mail to this server arrives", async () => {
  const { accept, run, connections, states, outcomes, store, entries, runtime } = createRelayRig({ hold: true });
  accept({ to: ["ann@a.example", "bob@here.example"] });
  await run();
  expect(states()).toEqual(["held", "delivered"]);
  store.transact((tx) => retryEntry(tx, entries()[0]?.id ?? "", runtime.now()));
  await run();
  expect(outcomes()[0]).toEqual(["held", 0, null]);
  expect(connections).toEqual([]);
});

test("a large message to many domains is read once for all of them", async () => {
  const queue = createQueue();
  const blob = await queue.store.blobs.write(Buffer.from("large"));
  const stuck = gate();
  let reads = 0;
  const blobs = {
    ...queue.store.blobs,
    read(name: string) {
      reads++;
      return queue.store.blobs.read(name);
    },
  };
  const { accept, start, sent, states, until } = createRelayRig({
    queue: { ...queue, store: { ...queue.store, blobs } },
    script: { send: stuck.wait },
  });
  accept({ to: Array.from({ length: 20 }, (_, i) => `ann@d${i}.example`), content: { blob, size: 5 } });
  start();
  await until(() => sent.length === 20);
  expect(reads).toBe(1);
  expect(new Set(sent.map(({ content }) => content))).toEqual(new Set(["large"]));
  stuck.release();
  await until(() => states().every((state) => state === "delivered"));
});

test("large messages to other servers are in memory only as far as there is room, and small ones pass them", async () => {
  const SIZE = LARGE_BYTES + 1;
  const queue = createQueue();
  const blob = await queue.store.blobs.write(new Uint8Array(SIZE));
  const stuck = gate();
  const { accept, start, sent, states, until } = createRelayRig({
    queue,
    mostBytesAway: 2 * SIZE,
    script: { send: ({ destination }) => (destination === "d9.example" ? "accepted" : stuck.wait()) },
  });
  for (let i = 0; i < 3; i++) accept({ to: [`ann@d${i}.example`], content: { blob, size: SIZE } });
  accept({ to: ["ann@d9.example"] });
  start();
  await until(() => states().at(-1) === "delivered" && sent.length === 3);
  await letOthersRun();
  expect(sent).toHaveLength(3);
  stuck.release();
  await until(() => states().every((state) => state === "delivered"));
  expect(sent).toHaveLength(4);
});

describe("faults of ours", () => {
  const fault = "451 4.3.0 Local error, will try again later";

  test("an attempt that breaks is deferred and logged, and others go on", async () => {
    const { accept, run, outcomes, errors } = createRelayRig({
      script: {
        send: ({ recipients }) => {
          if (recipients[0] === "bad@a.example") throw new Error("a fault");
          return "accepted";
        },
      },
    });
    for (const name of ["one", "bad", "two"]) accept({ to: [`${name}@a.example`] });
    await run();
    expect(outcomes()).toEqual([
      ["delivered", 1, "250 accepted"],
      ["waiting", 1, fault],
      ["delivered", 1, "250 accepted"],
    ]);
    expect(errors()).toEqual(["delivery attempt failed for a fault of ours"]);
  });

  test("a message whose bytes are gone is deferred", async () => {
    const { accept, run, outcomes, store, sent } = createRelayRig();
    accept({ to: ["ann@a.example"] });
    store.db.delete(outboundContents).run();
    await run();
    expect([outcomes(), sent]).toEqual([[["waiting", 1, fault]], []]);
  });

  test("when concluding fails, accepted mail is not sent again, and the rest is tried later", async () => {
    const { accept, run, advance, states, sent, errors, options } = createRelayRig({
      script: {
        send({ destination }) {
          options.get = () => {
            throw new Error("a fault");
          };
          return destination === "yes.example" ? "accepted" : "refused";
        },
      },
    });
    accept({ to: ["ann@yes.example"] });
    accept({ to: ["bob@no.example"] });
    await run();
    expect(states()).toEqual(["delivered", "waiting"]);
    expect(errors()).toHaveLength(2);
    await advance(HOUR_MS);
    expect(sent.map(({ destination }) => destination).filter((each) => each === "yes.example")).toHaveLength(1);
  });

  test("when recording fails, accepted mail is not sent again", async () => {
    const { accept, run, advance, states, sent, store } = createRelayRig();
    store.db.$client.exec("CREATE TRIGGER fault BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'a fault'); END");
    accept({ to: ["ann@a.example"] });
    await run();
    await advance(HOUR_MS);
    expect([states(), sent.length]).toEqual([["delivered"], 1]);
  });

  test("while the store is unavailable, accepted mail waits to be recorded, and is not sent again", async () => {
    let full = false;
    const { accept, run, advance, states, sent, quiet } = createRelayRig({
      script: {
        send: () => {
          full = true;
          return "accepted";
        },
      },
      enqueue: (store) => (work) => (full ? Promise.reject(unavailable("full")) : store.enqueue(work)),
    });
    accept({ to: ["ann@a.example"] });
    await run();
    await advance(500);
    expect(states()).toEqual(["waiting"]);
    full = false;
    await advance(HOUR_MS);
    await quiet();
    expect([states(), sent.length]).toEqual([["delivered"], 1]);
  });
});

describe("leases", () => {
  test("claims of an ended process are attempted again at start; recorded attempts are not", async () => {
    const rig = createRelayRig();
    const { accept, claimNext, run, sent, states, lines } = rig;
    accept({ to: ["cut@a.example"] });
    claimNext();
    await run();
    expect([states(), sent.length]).toEqual([["delivered"], 1]);
    expect(lines.map(({ message }) => message)).toContain("took up delivery attempts that a stop had cut short");
    const again = createRelayRig({ queue: rig });
    await again.run();
    expect(again.sent).toEqual([]);
  });

  test("an attempt that takes hours keeps its lease, and is not made twice", async () => {
    const stuck = gate();
    const { accept, run, advance, sent, states, wake, quiet } = createRelayRig({
      script: { send: stuck.wait },
    });
    accept({ to: ["ann@a.example"] });
    await run();
    for (let i = 0; i < 30; i++) await advance(10 * 60_000);
    wake();
    await quiet();
    expect([states(), sent.length]).toEqual([["waiting"], 1]);
    stuck.release();
    await quiet();
    expect([states(), sent.length]).toEqual([["delivered"], 1]);
  });
});

describe("a clock", () => {
  /** A relay whose clock can be set without running timers. */
  function createSettable(script: Script = {}) {
    const runtime = fakeRuntime();
    let offset = 0;
    const queue = createQueue({ ...runtime, now: () => runtime.now() + offset });
    return {
      ...createRelayRig({ script, queue }),
      setBy(ms: number) {
        offset += ms;
      },
    };
  }
  const DAY_MS = 24 * 3_600_000;

  test("set forward during an attempt does not repeat the attempt", async () => {
    const [slow, quick] = [gate(), gate()];
    const { accept, run, quiet, wake, setBy, recipients, states } = createSettable({
      send: ({ recipients: [first] }) =>
        first?.startsWith("slow") ? slow.wait() : first?.startsWith("quick") ? quick.wait() : undefined,
    });
    accept({ to: ["first@a.example"] });
    await run();
    for (const names of [["slow", "second"], ["quick"]]) {
      for (const name of names) accept({ to: [`${name}@a.example`] });
      wake();
      await quiet();
    }
    setBy(DAY_MS);
    quick.release();
    await quiet();
    expect(recipients()).toEqual(["first@a.example", "slow@a.example", "second@a.example", "quick@a.example"]);
    slow.release();
    await quiet();
    expect(states()).toEqual(["delivered", "delivered", "delivered", "delivered"]);
  });

  test.each(["while it runs", "while it is stopped"])(
    "that was ahead and is set right %s delays nothing for long",
    async (when) => {
      const rig = createSettable({
        connect: (domain, nth) => (domain === "b.example" && nth === 1 ? Promise.reject(unreachable()) : undefined),
      });
      rig.setBy(10 * DAY_MS);
      await rig.run();
      rig.accept({ to: ["ann@b.example"] });
      rig.wake();
      await rig.quiet();
      expect(rig.outcomes()).toEqual([["waiting", 1, "deferred: no connection"]]);
      if (when === "while it is stopped") await rig.relay.stop(0);
      rig.setBy(-10 * DAY_MS);
      const again = when === "while it is stopped" ? createRelayRig({ queue: rig }) : rig;
      again.wake();
      await again.run();
      expect(again.states()).toEqual(["delivered"]);
      expect(again.lines.map(({ message }) => message)).toContain(
        "the clock was ahead: took up what it had put off too far",
      );
    },
  );

  test("set back a little leaves waiting mail to its time", async () => {
    const rig = createSettable({ connect: (_, nth) => (nth === 1 ? Promise.reject(unreachable()) : undefined) });
    rig.accept({ to: ["ann@b.example"] });
    await rig.run();
    rig.setBy(-3_600_000);
    rig.wake();
    await rig.quiet();
    expect(rig.outcomes()).toEqual([["waiting", 1, "deferred: no connection"]]);
    rig.setBy(3_600_000 + FIRST_RETRY_MS);
    rig.wake();
    await rig.quiet();
    expect(rig.states()).toEqual(["delivered"]);
  });
});

describe("stopping", () => {
  test("waits for attempts under way, claims no more, and closes idle connections", async () => {
    const stuck = gate();
    const { accept, run, relay, states, connections, entries } = createRelayRig({
      script: { send: stuck.wait },
    });
    for (let i = 0; i < 3; i++) accept({ to: [`r${i}@a.example`] });
    await run();
    const stopped = relay.stop(10_000);
    stuck.release();
    await stopped;
    expect(states()).toEqual(["delivered", "waiting", "waiting"]);
    expect(entries().some(({ leased }) => leased)).toBe(false);
    expect(connections.filter(({ open }) => open)).toEqual([]);
  });

  test("after its grace gives back attempts under way, and records no result of theirs", async () => {
    const stuck = gate();
    const { accept, run, relay, runtime, entries, outcomes, quiet } = createRelayRig({
      script: { send: stuck.wait },
    });
    accept({ to: ["ann@a.example"] });
    await run();
    const stopped = relay.stop(10_000);
    runtime.advanceTo(START + 10_000);
    await stopped;
    expect(entries()).toMatchObject([{ state: "waiting", leased: false, dueAt: START + 10_000, attempts: 0 }]);
    stuck.release();
    await quiet();
    expect(outcomes()).toEqual([["waiting", 0, null]]);
  });
});
