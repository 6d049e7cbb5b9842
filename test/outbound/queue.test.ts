/** The outbound queue on a real store: the order of claims, settling, and the cost of queries. */
import { Database } from "bun:sqlite";
import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import {
  type Claim,
  claimQueueEntries,
  extendQueueLeases,
  nextQueueDueTime,
  recallStrayQueueEntries,
  releaseAllQueueLeases,
  releaseQueueEntries,
} from "../../src/outbound/claims.ts";
import {
  cancelEntry,
  correctAcceptedTimes,
  countUnsettledRecipients,
  findOutboundByReversePath,
  findOutboundContent,
  listOutboundByMessageId,
  listQueueEntries,
  readOutboundContent,
  retryEntry,
  reversePathTo,
  setEntriesDelivered,
  setEntriesHeld,
  setEntryBounced,
  setEntryComplained,
  setEntryDeferred,
} from "../../src/outbound/queue.ts";
import { domains, outboundMessages } from "../../src/store/schema.ts";
import type { Tx } from "../../src/store/store.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { claimed, createQueue } from "./queue-rig.ts";

const MINUTE_MS = 60_000;
const LEASE_MS = 30 * MINUTE_MS;

/** Returns the claim; fails when there is none. */
function some(given: Claim | undefined): Claim {
  if (!given) throw new Error("nothing was claimed");
  return given;
}

/** Its first entry. */
function firstOf(given: Claim | undefined) {
  const [entry] = some(given).entries;
  if (!entry) throw new Error("a claim without entries");
  return entry;
}

describe("after a clock ran ahead", () => {
  const HOUR_MS = 60 * MINUTE_MS;
  const waits = [MINUTE_MS, HOUR_MS, 16 * HOUR_MS];

  test.each([
    ["accepted ahead, never attempted", 0, HOUR_MS, 0],
    ["due in time", 1, MINUTE_MS, MINUTE_MS],
    ["later than its wait", 1, 2 * MINUTE_MS, MINUTE_MS],
    ["later than its wait, after two attempts", 2, 10 * HOUR_MS, HOUR_MS],
    ["later than any wait", 2, 16 * HOUR_MS + 1, 0],
    ["after more attempts than there are waits", 5, 16 * HOUR_MS, 16 * HOUR_MS],
  ])("an entry %s", (_, attempts, dueIn, expected) => {
    const { accept, claimNext, store, entries, domainsDue } = createQueue();
    accept({ to: ["ann@a.example"] });
    for (let i = 0; i < attempts; i++) {
      const given = some(claimNext());
      store.transact((tx) => setEntryDeferred(tx, firstOf(given), START, "450 later"));
    }
    const given = some(claimNext());
    store.transact((tx) => {
      releaseQueueEntries(tx, given.entries, START + dueIn);
      expect(recallStrayQueueEntries(tx, waits, START)).toBe(expected === dueIn ? 0 : 1);
    });
    expect(entries()).toMatchObject([{ dueAt: START + expected, attempts, leased: false }]);
    expect(domainsDue()).toEqual({ "a.example": expected });
  });

  test("a lease is left alone", () => {
    const { accept, claimNext, store, entries } = createQueue();
    accept({ to: ["ann@a.example"] });
    claimNext();
    expect(store.transact((tx) => recallStrayQueueEntries(tx, waits, START))).toBe(0);
    expect(entries()).toMatchObject([{ leased: true, dueAt: START + LEASE_MS }]);
  });

  test("messages of the future move back together, so that the last was accepted now; others stay", () => {
    const { accept, store, runtime } = createQueue();
    accept({ to: ["ann@a.example"] });
    runtime.setBy(24 * HOUR_MS);
    accept({ to: ["ann@a.example"] });
    runtime.advanceTo(runtime.now() + HOUR_MS);
    accept({ to: ["ann@a.example"] });
    runtime.setBy(-24 * HOUR_MS);
    runtime.advanceTo(runtime.now() + HOUR_MS);
    store.transact((tx) => correctAcceptedTimes(tx, runtime.now()));
    const accepted = store.db.select().from(outboundMessages).all();
    expect(accepted.map(({ acceptedAt }) => acceptedAt - START)).toEqual([0, HOUR_MS, 2 * HOUR_MS]);
  });
});

test("an accepted message waits with its bytes and one entry for each recipient, due at once", async () => {
  const { accept, entries, domainsDue, store } = createQueue();
  const seq = accept({ to: ["Ann@a.example", "cc:bob@B.example", "bcc:cy@a.example"] });
  expect(entries()).toMatchObject([
    { recipient: "Ann@a.example", field: "to", domain: "a.example", state: "waiting", dueAt: START, attempts: 0 },
    { recipient: "bob@B.example", field: "cc", domain: "b.example", state: "waiting", dueAt: START, leased: false },
    { recipient: "cy@a.example", field: "bcc", domain: "a.example", state: "waiting", dueAt: START, reply: null },
  ]);
  expect(domainsDue()).toEqual({ "a.example": 0, "b.example": 0 });
  expect(new TextDecoder().decode(await readOutboundContent(store, seq))).toBe("message 1");
});

test("large content is read from its blob", async () => {
  const { accept, store } = createQueue();
  const blob = await store.blobs.write(Buffer.from("large"));
  const seq = accept({ to: ["ann@a.example"], content: { blob, size: 5 } });
  expect(findOutboundContent(store.db, seq)).toEqual({ blob, size: 5 });
  expect(new TextDecoder().decode(await readOutboundContent(store, seq))).toBe("large");
});

describe("claiming", () => {
  test("recipients of a message at one domain are claimed together, under a lease; those elsewhere apart", () => {
    const { accept, claimNext, entries } = createQueue();
    accept({ to: ["ann@a.example", "bob@b.example", "cc:cy@a.example"] });
    const first = some(claimNext());
    expect([first.domain, first.message.id, claimed(first)]).toEqual([
      "a.example",
      "msg_1",
      ["ann@a.example", "cy@a.example"],
    ]);
    expect(entries().map(({ leased, dueAt }) => [leased, dueAt])).toEqual([
      [true, START + LEASE_MS],
      [false, START],
      [true, START + LEASE_MS],
    ]);
    expect(claimed(claimNext())).toEqual(["bob@b.example"]);
    expect(claimNext()).toBeUndefined();
  });

  test("entries that the caller groups go in one claim, across domains", () => {
    const { accept, claimNext, domainsDue } = createQueue();
    accept({ to: ["ann@a.example", "bob@b.example", "cy@c.example"] });
    const together = (_: unknown, domain: string, other: string) => domain === "a.example" && other !== "b.example";
    expect(claimed(claimNext({ together }))).toEqual(["ann@a.example", "cy@c.example"]);
    expect(claimed(claimNext({ together }))).toEqual(["bob@b.example"]);
    expect(domainsDue()).toEqual({ "a.example": LEASE_MS, "b.example": LEASE_MS, "c.example": LEASE_MS });
  });

  test("a claim has at most 100 recipients", () => {
    const { accept, claimNext } = createQueue();
    accept({ to: Array.from({ length: 250 }, (_, i) => `r${i}@a.example`) });
    expect([claimNext(), claimNext(), claimNext(), claimNext()].map((each) => each?.entries.length)).toEqual([
      100,
      100,
      50,
      undefined,
    ]);
  });

  test("the domain due longest goes first, and in it the message due longest", () => {
    const { accept, claimNext, runtime } = createQueue();
    for (const to of ["1@b.example", "2@a.example", "3@b.example", "4@a.example"]) {
      accept({ to: [to] });
      runtime.advanceTo(runtime.now() + 10);
    }
    const order = Array.from({ length: 5 }, () => claimed(claimNext())?.[0]);
    expect(order).toEqual(["1@b.example", "2@a.example", "3@b.example", "4@a.example", undefined]);
  });

  test("a busy domain is skipped, and a resting one until its rest ends", () => {
    const { accept, claimNext, domainsDue, runtime, store } = createQueue();
    for (const domain of ["busy", "free", "resting"]) accept({ to: [`ann@${domain}.example`] });
    const rest = START + MINUTE_MS;
    const notBefore = (domain: string) =>
      domain === "busy.example" ? Number.POSITIVE_INFINITY : domain === "resting.example" ? rest : 0;
    expect(nextQueueDueTime(store.db, { notBefore })).toBe(START);
    expect(claimed(claimNext({ notBefore }))).toEqual(["ann@free.example"]);
    expect(claimNext({ notBefore })).toBeUndefined();
    expect(nextQueueDueTime(store.db, { notBefore })).toBe(rest);
    expect(domainsDue()).toEqual({ "busy.example": 0, "free.example": LEASE_MS, "resting.example": MINUTE_MS });
    runtime.advanceTo(rest);
    expect(claimed(claimNext({ notBefore }))).toEqual(["ann@resting.example"]);
    expect(claimed(claimNext())).toEqual(["ann@busy.example"]);
  });

  test("resting domains do not hold up others, even when due earlier", () => {
    const { accept, claimNext, runtime, store } = createQueue();
    accept({ to: ["ann@resting.example"] });
    runtime.advanceTo(START + 5);
    accept({ to: ["ann@free.example"] });
    const notBefore = (domain: string) => (domain === "resting.example" ? START + MINUTE_MS : 0);
    expect(nextQueueDueTime(store.db, { notBefore })).toBe(START + 5);
    expect(claimed(claimNext({ notBefore }))).toEqual(["ann@free.example"]);
    expect(nextQueueDueTime(store.db, { notBefore })).toBe(START + MINUTE_MS);
  });

  test("many busy domains do not hold up others", () => {
    const { accept, claimNext, store } = createQueue();
    for (let i = 0; i < 60; i++) accept({ to: [`ann@busy${String(i).padStart(2, "0")}.example`] });
    accept({ to: ["ann@free.example"] });
    const notBefore = (domain: string) => (domain.startsWith("busy") ? Number.POSITIVE_INFINITY : 0);
    expect(nextQueueDueTime(store.db, { notBefore })).toBe(START);
    expect(claimed(claimNext({ notBefore }))).toEqual(["ann@free.example"]);
    expect(nextQueueDueTime(store.db, { notBefore })).toBe(START + LEASE_MS);
  });

  test("a domain whose line has no free slot is moved there, once, and does not hold up others", () => {
    const { accept, claimNext, runtime, store } = createQueue();
    for (let i = 0; i < 60; i++) accept({ to: [`ann@new${i}.example`, `ann@slow${i}.example`] });
    runtime.advanceTo(START + 5);
    accept({ to: ["ann@open.example"] });
    accept({ to: ["bob@open.example"] });
    let asked = 0;
    const getQueueLine = (domain: string) => {
      asked++;
      return domain.startsWith("new") ? "new" : domain.startsWith("slow") ? "slow" : "open";
    };
    const lines = ["open"] as const;
    expect(claimed(claimNext({ lines, getQueueLine }))).toEqual(["ann@open.example"]);
    expect(asked).toBe(121);
    expect(nextQueueDueTime(store.db, { lines })).toBe(START + 5);
    expect(claimed(claimNext({ lines, getQueueLine }))).toEqual(["bob@open.example"]);
    expect([asked, nextQueueDueTime(store.db, { lines: ["new"] }), nextQueueDueTime(store.db)]).toEqual([
      122,
      START,
      START,
    ]);
    expect(claimed(claimNext({ lines: ["slow", "new"], getQueueLine }))).toEqual(["ann@slow0.example"]);
  });

  test("a domain that belongs to another line is claimed from its present one if there is a free slot", () => {
    const { accept, claimNext } = createQueue();
    accept({ to: ["ann@a.example"] });
    expect(claimNext({ lines: ["open"], getQueueLine: () => "slow" })).toBeUndefined();
    expect(claimNext({ lines: ["open"] })).toBeUndefined();
    expect(claimed(claimNext({ lines: ["slow", "open"], getQueueLine: () => "open" }))).toEqual(["ann@a.example"]);
  });

  test("a claim may be limited to one domain, or to the domains of this server", () => {
    const { accept, claimNext, store } = createQueue();
    const base = { id: "dom_1", workspaceId: "wsp_1", name: "ours.example", ownershipToken: "", createdAt: START };
    const ours = { ...base, verifiedAt: START };
    const theirs = { ...base, id: "dom_2", name: "a.example" };
    store.db.$client.exec("INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 0)");
    // A domain that is only claimed does not count as this server's.
    store.db
      .insert(domains)
      .values([ours, { ...theirs, verifiedAt: null }])
      .run();
    for (const domain of ["a", "ours", "b"]) accept({ to: [`ann@${domain}.example`] });
    expect(nextQueueDueTime(store.db, { own: true })).toBe(START);
    expect(claimed(claimNext({ domain: "b.example" }))).toEqual(["ann@b.example"]);
    expect(claimNext({ domain: "b.example" })).toBeUndefined();
    expect(claimed(claimNext({ own: true }))).toEqual(["ann@ours.example"]);
    expect(claimNext({ own: true })).toBeUndefined();
    expect(claimed(claimNext())).toEqual(["ann@a.example"]);
  });

  test("a lease that ran out is claimed again; one that was prolonged is not", () => {
    const { accept, claimNext, runtime, store } = createQueue();
    accept({ to: ["ann@a.example"] });
    accept({ to: ["bob@b.example"] });
    const [ann, bob] = [some(claimNext()), some(claimNext())];
    store.transact((tx) => extendQueueLeases(tx, bob.entries, START + 2 * LEASE_MS));
    runtime.advanceTo(START + LEASE_MS);
    expect(claimed(claimNext())).toEqual(claimed(ann));
    expect(claimNext()).toBeUndefined();
  });

  test("a lease that has ended is not prolonged", () => {
    const { accept, claimNext, entries, store } = createQueue();
    accept({ to: ["ann@a.example"] });
    const leased = some(claimNext());
    store.transact((tx) => {
      setEntryDeferred(tx, firstOf(leased), START + 5, "later");
      extendQueueLeases(tx, leased.entries, START + 2 * LEASE_MS);
    });
    expect(entries()).toMatchObject([{ leased: false, dueAt: START + 5 }]);
  });
});

describe("settling", () => {
  interface Case {
    does: (tx: Tx, claimed: Claim) => void;
    entry: object;
    /** Tells whether the bytes are still there. */
    content: boolean;
    due: Record<string, number>;
  }
  const cases: Record<string, Case> = {
    delivered: {
      does: (tx, { entries }) => setEntriesDelivered(tx, entries, START + 7, "250 ok"),
      entry: { state: "delivered", dueAt: null, leased: false, attempts: 1, reply: "250 ok", settledAt: START + 7 },
      content: false,
      due: {},
    },
    bounced: {
      does: (tx, given) => setEntryBounced(tx, firstOf(given), START + 7, "550 no"),
      entry: { state: "bounced", dueAt: null, leased: false, attempts: 1, reply: "550 no", settledAt: START + 7 },
      content: false,
      due: {},
    },
    deferred: {
      does: (tx, given) => setEntryDeferred(tx, firstOf(given), START + MINUTE_MS, "450 later"),
      entry: { state: "waiting", dueAt: START + MINUTE_MS, leased: false, attempts: 1, reply: "450 later" },
      content: true,
      due: { "a.example": MINUTE_MS },
    },
    held: {
      does: (tx, { entries }) => setEntriesHeld(tx, entries),
      entry: { state: "held", dueAt: null, leased: false, attempts: 0, reply: null, settledAt: null },
      content: true,
      due: {},
    },
    "given back": {
      does: (tx, { entries }) => releaseQueueEntries(tx, entries, START + 3),
      entry: { state: "waiting", dueAt: START + 3, leased: false, attempts: 0, reply: null },
      content: true,
      due: { "a.example": 3 },
    },
  };
  for (const [name, { does, entry, content, due }] of Object.entries(cases)) {
    test(name, () => {
      const { accept, claimNext, entries, contents, domainsDue, store } = createQueue();
      accept({ to: ["ann@a.example"] });
      const given = some(claimNext());
      store.transact((tx) => does(tx, given));
      expect(entries()).toMatchObject([entry]);
      expect(contents()).toHaveLength(content ? 1 : 0);
      expect(domainsDue()).toEqual(due);
    });
  }

  test("the bytes are deleted when the last recipient is settled", () => {
    const { accept, claimNext, contents, store } = createQueue();
    accept({ to: ["ann@a.example", "bob@b.example"] });
    const [ann, bob] = [some(claimNext()), some(claimNext())];
    store.transact((tx) => setEntriesDelivered(tx, ann.entries, START, "250 ok"));
    expect(contents()).toHaveLength(1);
    store.transact((tx) => setEntryBounced(tx, firstOf(bob), START, "550 no"));
    expect(contents()).toHaveLength(0);
  });

  test("a later report bounces a delivered entry, and counts no attempt", () => {
    const { accept, claimNext, entries, store } = createQueue();
    accept({ to: ["ann@a.example"] });
    const given = some(claimNext());
    store.transact((tx) => setEntriesDelivered(tx, given.entries, START, "250 ok"));
    store.transact((tx) => setEntryBounced(tx, firstOf(given), START + 9, "550 after all"));
    expect(entries()).toMatchObject([{ state: "bounced", attempts: 1, reply: "550 after all", settledAt: START + 9 }]);
  });

  test("a complaint is kept with its first time, and changes nothing else", () => {
    const { accept, claimNext, entries, store } = createQueue();
    accept({ to: ["ann@a.example"] });
    const given = some(claimNext());
    store.transact((tx) => setEntriesDelivered(tx, given.entries, START, "250 ok"));
    for (const at of [START + 5, START + 9]) store.transact((tx) => setEntryComplained(tx, firstOf(given), at));
    expect(entries()).toMatchObject([{ state: "delivered", complainedAt: START + 5 }]);
  });

  test("a settled entry is not sent again, even if its lease is given back late", () => {
    const { accept, claimNext, entries, store } = createQueue();
    accept({ to: ["ann@a.example"] });
    const given = some(claimNext());
    store.transact((tx) => setEntriesDelivered(tx, given.entries, START, "250 ok"));
    store.transact((tx) => releaseQueueEntries(tx, given.entries, START));
    expect(entries()).toMatchObject([{ state: "delivered", dueAt: null }]);
    expect(claimNext()).toBeUndefined();
  });

  test("at start, entries that an ended process had leased are due, and no others", () => {
    const { accept, claimNext, entries, store, runtime } = createQueue();
    for (const domain of ["leased", "deferred", "delivered"]) accept({ to: [`ann@${domain}.example`] });
    const of = (domain: string) => some(claimNext({ domain: `${domain}.example` }));
    of("leased");
    const [deferred, delivered] = [of("deferred"), of("delivered")];
    store.transact((tx) => {
      setEntryDeferred(tx, firstOf(deferred), START + MINUTE_MS, "later");
      setEntriesDelivered(tx, delivered.entries, START, "250 ok");
    });
    runtime.advanceTo(START + 1);
    expect(store.transact((tx) => releaseAllQueueLeases(tx, runtime.now()))).toBe(1);
    expect(entries().map(({ state, leased, dueAt }) => [state, leased, dueAt])).toEqual([
      ["waiting", false, START + 1],
      ["waiting", false, START + MINUTE_MS],
      ["delivered", false, null],
    ]);
    expect(claimed(claimNext())).toEqual(["ann@leased.example"]);
    expect(claimNext()).toBeUndefined();
  });
});

describe("the operator", () => {
  type State = "waiting" | "deferred" | "held" | "leased" | "lapsed" | "delivered";
  /** An entry in that state, at START + 1 minute. */
  function entryIn(state: State) {
    const queue = createQueue();
    const { accept, claimNext, store, entries, runtime } = queue;
    accept({ to: ["ann@a.example"] });
    const leasedFor = state === "lapsed" ? 30_000 : LEASE_MS;
    const given = state === "waiting" ? undefined : some(claimNext({ leaseUntil: START + leasedFor }));
    if (given) {
      store.transact((tx) => {
        if (state === "deferred") setEntryDeferred(tx, firstOf(given), START + LEASE_MS, "450 later");
        if (state === "held") setEntriesHeld(tx, given.entries);
        if (state === "delivered") setEntriesDelivered(tx, given.entries, START, "250 ok");
      });
    }
    runtime.advanceTo(START + MINUTE_MS);
    const id = entries()[0]?.id ?? "";
    return { ...queue, id };
  }

  const refused: State[] = ["leased", "delivered"];
  for (const state of ["waiting", "deferred", "held", "leased", "lapsed", "delivered"] as const) {
    const isRefused = refused.includes(state);
    test(`retry of an entry that is ${state}: ${isRefused ? "conflict" : "due now"}`, () => {
      const { id, store, runtime, claimNext, entries } = entryIn(state);
      const act = () => store.transact((tx) => retryEntry(tx, id, runtime.now()));
      if (isRefused) {
        const before = entries();
        expect(act).toThrow(expect.objectContaining({ code: "conflict" }));
        expect(entries()).toEqual(before);
        return;
      }
      act();
      expect(entries()).toMatchObject([{ state: "waiting", leased: false, dueAt: runtime.now() }]);
      expect(claimed(claimNext())).toEqual(["ann@a.example"]);
    });

    test(`cancel of an entry that is ${state}: ${isRefused ? "conflict" : "given up"}`, () => {
      const { id, store, runtime, claimNext, entries, contents, domainsDue } = entryIn(state);
      const act = () => store.transact((tx) => cancelEntry(tx, id, runtime.now()));
      if (isRefused) {
        const before = entries();
        expect(act).toThrow(expect.objectContaining({ code: "conflict" }));
        expect(entries()).toEqual(before);
        return;
      }
      act();
      expect(entries()).toMatchObject([{ state: "cancelled", leased: false, dueAt: null, settledAt: runtime.now() }]);
      expect([contents(), domainsDue(), claimNext()]).toEqual([[], {}, undefined]);
    });
  }

  for (const act of [retryEntry, cancelEntry]) {
    test(`${act.name} of nothing: not found`, () => {
      const { store } = createQueue();
      expect(() => store.transact((tx) => act(tx, "que_none", START))).toThrow(
        expect.objectContaining({ code: "not_found" }),
      );
    });
  }
});

/** The invariants that the next claim relies on hold after any order of events. */
test("random operations: queue_domains is never later than waiting entries, their bytes are there, and nothing is claimed twice", () => {
  const domain = fc.constantFrom("a.example", "b.example", "c.example");
  const step = fc.oneof(
    fc.record({ kind: fc.constant("accept" as const), domains: fc.array(domain, { minLength: 1, maxLength: 3 }) }),
    fc.record({
      kind: fc.constant("claim" as const),
      busy: fc.array(domain, { maxLength: 2 }),
      together: fc.boolean(),
    }),
    fc.record({
      kind: fc.constantFrom(
        "deliver" as const,
        "defer" as const,
        "hold" as const,
        "release" as const,
        "bounce" as const,
      ),
      which: fc.nat(),
      wait: fc.integer({ min: 0, max: 500 }),
    }),
    fc.record({ kind: fc.constantFrom("retry" as const, "cancel" as const), which: fc.nat() }),
    fc.record({ kind: fc.constant("advance" as const), ms: fc.integer({ min: 1, max: 400 }) }),
  );
  const runtime = fakeRuntime();
  const shared = createQueue(runtime).store;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      shared.db.$client.exec("DELETE FROM outbound_messages; DELETE FROM queue_domains");
      const { store, accept, claimNext, entries, contents, domainsDue } = createQueue(runtime, shared);
      const open: Claim[] = [];
      let names = 0;
      const prefix = `${runtime.now()}`;
      for (const given of steps) {
        const now = runtime.now();
        const idle = entries().filter(({ state, leased }) => !leased && (state === "waiting" || state === "held"));
        if (given.kind === "accept") {
          const id = `${prefix}-${++names}`;
          accept({ id, returnPath: id, to: given.domains.map((name, i) => `r${i}@${name}`) });
        } else if (given.kind === "claim") {
          const isFree = (name: string) => !given.busy.some((busy) => busy === name);
          const due = entries().filter(
            (entry) => entry.state === "waiting" && (entry.dueAt ?? 0) <= now && isFree(entry.domain),
          );
          const notBefore = (name: string) => (isFree(name) ? 0 : Number.POSITIVE_INFINITY);
          const together = () => given.together;
          const got = claimNext({ notBefore, together, leaseUntil: Number.MAX_SAFE_INTEGER });
          expect(got !== undefined).toBe(due.length > 0);
          if (!got) continue;
          expect(due.map(({ seq }) => seq)).toContain(
            got.entries.find((entry) => entry.domain === got.domain)?.seq ?? 0,
          );
          const leased = new Set(open.flatMap((each) => each.entries.map(({ seq }) => seq)));
          expect(got.entries.filter(({ seq }) => leased.has(seq))).toEqual([]);
          open.push(got);
        } else if (given.kind === "advance") {
          runtime.advanceTo(now + given.ms);
        } else if (given.kind === "retry" || given.kind === "cancel") {
          const entry = idle[given.which % idle.length];
          if (entry) store.transact((tx) => (given.kind === "retry" ? retryEntry : cancelEntry)(tx, entry.id, now));
        } else {
          const [ended] = open.splice(given.which % Math.max(1, open.length), 1);
          if (!ended) continue;
          store.transact((tx) => {
            if (given.kind === "deliver") setEntriesDelivered(tx, ended.entries, now, "250");
            if (given.kind === "hold") setEntriesHeld(tx, ended.entries);
            if (given.kind === "release") releaseQueueEntries(tx, ended.entries, now);
            if (given.kind === "defer")
              for (const each of ended.entries) setEntryDeferred(tx, each, now + given.wait, "450");
            if (given.kind === "bounce") for (const each of ended.entries) setEntryBounced(tx, each, now, "550");
          });
        }
        const waiting = Map.groupBy(
          entries().filter(({ state }) => state === "waiting"),
          (entry) => entry.domain,
        );
        const due = domainsDue();
        expect(Object.keys(due).sort()).toEqual([...waiting.keys()].sort());
        for (const [name, some] of waiting) {
          expect(START + (due[name] ?? 0)).toBeLessThanOrEqual(Math.min(...some.map(({ dueAt }) => dueAt ?? 0)));
        }
        const unsettled = entries().filter(({ state }) => state === "waiting" || state === "held");
        expect(contents().map(({ messageSeq }) => messageSeq)).toEqual([
          ...new Set(unsettled.map(({ messageSeq }) => messageSeq)),
        ]);
      }
    }),
    { numRuns: 60 },
  );
});

test("no query scans a table, even when the queue is long", () => {
  const prepare = spyOn(Database.prototype, "prepare");
  const { store, accept, claimNext } = createQueue();
  const { $client } = store.db;
  try {
    const used = (work: () => unknown): string[] => {
      prepare.mockClear();
      work();
      return prepare.mock.calls.map(([statement]) => String(statement));
    };
    const statements = used(() => {
      accept({ to: ["ann@a.example", "bob@b.example", "cy@c.example", "di@d.example", "ed@e.example"] });
      nextQueueDueTime(store.db);
      nextQueueDueTime(store.db, { own: true });
      store.transact((tx) => claimQueueEntries(tx, { now: START, leaseUntil: START, own: true }) as never);
      const [a, b, c, d] = [some(claimNext()), some(claimNext()), some(claimNext()), some(claimNext())];
      store.transact((tx) => {
        extendQueueLeases(tx, a.entries, START + LEASE_MS);
        setEntriesDelivered(tx, a.entries, START, "250");
        setEntryDeferred(tx, firstOf(b), START, "450");
        setEntryBounced(tx, firstOf(c), START, "550");
        setEntryComplained(tx, firstOf(c), START);
        setEntriesHeld(tx, d.entries);
        retryEntry(tx, firstOf(d).id, START);
        cancelEntry(tx, firstOf(d).id, START);
      });
    });
    expect(statements.length).toBeGreaterThanOrEqual(20);
    for (const statement of statements) {
      const parameters = Array.from({ length: statement.split("?").length - 1 }, () => null);
      const plan = $client.query(`EXPLAIN QUERY PLAN ${statement}`).all(...parameters) as { detail: string }[];
      const reads = plan.map(({ detail }) => detail);
      const long = reads.filter((detail) => /^SCAN (queue|outbound)|queue_entries_unsettled/.test(detail));
      expect([statement, long]).toEqual([statement, []]);
    }
  } finally {
    prepare.mockRestore();
  }
});

test("a message is found by its reverse-path and by its Message-ID, settled or not, with its recipients in order", () => {
  const { accept, claimNext, store } = createQueue();
  const seq = accept({ to: ["ann@a.example", "bcc:bob@b.example"], returnPath: "bounce+x@example.test" });
  const again = accept({ to: ["cy@c.example"], messageId: "<1@example.test>" });
  for (let next = claimNext(); next; next = claimNext()) {
    const { entries } = next;
    store.transact((tx) => setEntriesDelivered(tx, entries, START, "250 ok"));
  }
  expect(findOutboundByReversePath(store.db, "bounce+x@example.test")).toMatchObject({
    message: { seq, id: "msg_1", recipients: 2 },
  });
  expect(findOutboundByReversePath(store.db, "bounce+y@example.test")).toBeUndefined();
  expect(listOutboundByMessageId(store.db, "<1@example.test>").map((message) => message.seq)).toEqual([seq, again]);
  expect(listOutboundByMessageId(store.db, "<2@example.test>")).toEqual([]);
  expect(listQueueEntries(store.db, seq).map(({ recipient, field }) => [recipient, field])).toEqual([
    ["ann@a.example", "to"],
    ["bob@b.example", "bcc"],
  ]);
});

test("each destination has a reverse-path of its own, from which nobody tells another's", () => {
  const { accept, store } = createQueue();
  const seq = accept({ to: ["ann@a.example", "bob@b.example"], returnPath: "bounce+x.@example.test" });
  const [message] = store.db.select().from(outboundMessages).all();
  if (!message) throw new Error("it was not accepted");
  const [toA, toB, toBoth] = [["a.example"], ["b.example"], ["a.example", "b.example"]].map((to) =>
    reversePathTo(message, to),
  );
  for (const path of [toA, toB, toBoth]) expect(path).toMatch(/^bounce\+x\.[0-9a-f]{16}@example\.test$/);
  const found = (path = "") => {
    const { message, domain } = findOutboundByReversePath(store.db, path) ?? {};
    return [message?.seq, domain];
  };
  expect([toA, toB, toBoth].map(found)).toEqual([
    [seq, "a.example"],
    [seq, "b.example"],
    [seq, "*"],
  ]);
  const none = [undefined, undefined];
  for (const forged of ["bounce+x@example.test", "bounce+x.@example.test", `bounce+x.${"0".repeat(16)}@example.test`]) {
    expect(found(forged)).toEqual(none);
  }
});

test("recipients waiting or held are counted, at most once a second", () => {
  const { accept, claimNext, runtime, store } = createQueue();
  const count = () => countUnsettledRecipients(store.db, runtime.now());
  expect(count()).toBe(0);
  accept({ to: ["ann@a.example", "bob@b.example", "cy@c.example"] });
  expect(count()).toBe(0);
  runtime.advanceTo(START + 1_000);
  expect(count()).toBe(3);
  const [ann, bob] = [claimNext(), claimNext()];
  store.transact((tx) => {
    setEntriesDelivered(tx, ann?.entries ?? [], START, "250 ok");
    setEntriesHeld(tx, bob?.entries ?? []);
  });
  runtime.advanceTo(START + 1_999);
  expect(count()).toBe(3);
  runtime.advanceTo(START + 2_000);
  expect(count()).toBe(2);
});
