/** Deliveries on a real store: whose turn it is, what a stop leaves, and what the queries cost. */
import { Database } from "bun:sqlite";
import { expect, spyOn, test } from "bun:test";
import {
  bringForward,
  putTest,
  recallStrays,
  release,
  releaseLeases,
  settle,
  yieldTurn,
} from "../../src/events/deliveries.ts";
import { deleteEvents, deleteFinished, listDeliveries, resend, sweepEndpoints } from "../../src/events/delivery-log.ts";
import { listEndpoints, requireEndpoint, setDisabled, setEnabled, setRemoved } from "../../src/events/endpoints.ts";
import { hasNewEvents } from "../../src/events/fan-out.ts";
import { recordAttempts } from "../../src/events/outcome.ts";
import type { RequestOutcome } from "../../src/events/request.ts";
import { START } from "../harness/runtime.ts";
import { LEASE, OK, openDeliveries, TERMS } from "./delivery-rig.ts";

test("every event is fanned out once, in portions, however many there are", () => {
  const { happen, fan, rows, store } = openDeliveries();
  happen(2_400);
  let portions = 0;
  for (; hasNewEvents(store.db); portions++) expect(fan()).toEqual(new Set([1, 2]));
  expect(portions).toBe(3);
  expect(rows()).toHaveLength(4_800);
  expect(new Set(rows().map(({ endpointSeq, eventId }) => `${endpointSeq} ${eventId}`)).size).toBe(4_800);
  expect(fan()).toEqual(new Set());
});

test("a portion is of so many workspaces as well", () => {
  const { fan, happen, rows, store } = openDeliveries(1);
  const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)";
  store.db.$client.run(`${numbers} INSERT INTO workspaces (id, name, created_at) SELECT 'wsp_' || i, i, 0 FROM n`);
  store.db.$client.run(
    `${numbers} INSERT INTO events (id, workspace_id, event, created_at, data)
     SELECT 'evt_of_' || i, 'wsp_' || i, 'message.outbound', 0, '{}' FROM n`,
  );
  happen();
  let portions = 0;
  for (; hasNewEvents(store.db); portions++) fan();
  expect(portions).toBe(2);
  expect(rows()).toHaveLength(1);
});

test("what is claimed is leased, first due first, and an endpoint's turn is known without its deliveries", () => {
  const { happen, fan, claim, due, rows } = openDeliveries();
  happen(3);
  fan();
  expect(due()).toEqual([1, 2]);
  expect(claim(1, 2).map(({ delivery }) => delivery.eventId)).toEqual(["evt_1", "evt_2"]);
  expect(claim(1, 2).map(({ delivery }) => delivery.eventId)).toEqual(["evt_3"]);
  expect(claim(1, 2)).toEqual([]);
  expect([due(), due(LEASE)]).toEqual([[2], [2, 1]]);
  expect(
    rows()
      .filter(({ leased }) => leased)
      .map(({ dueAt }) => dueAt),
  ).toEqual([LEASE, LEASE, LEASE]);
  // A lease that has run out is claimed again.
  expect(claim(1, 9, LEASE)).toHaveLength(3);
});

test("what a clock that was ahead has put off waits for no more than its wait, and what it made not at all", () => {
  const { happen, fan, claim, due, rows, store } = openDeliveries(1);
  happen(4);
  fan();
  const [minute, hour] = [60_000, 3_600_000];
  const [first, second, third] = claim(1, 3);
  const retrying = { state: "retrying", status: 500, response: null, error: null, finishedAt: null } as const;
  store.transact((tx) => {
    const put = [
      [first, hour - 1],
      [second, hour + 1],
      [third, minute],
    ] as const;
    for (const [one, ms] of put) {
      settle(tx, 1, [{ deliveries: one ? [one.delivery] : [], settled: { ...retrying, dueAt: START + ms } }]);
    }
    tx.$client.run("UPDATE webhook_waiting SET created_at = created_at + 86400000");
    recallStrays(tx, [minute, hour], START);
  });
  expect(rows().map(({ dueAt, state }) => [state, (dueAt ?? 0) - START])).toEqual([
    ["retrying", minute],
    ["retrying", 0],
    ["retrying", minute],
    ["pending", 0],
  ]);
  expect(due()).toEqual([1]);
  expect(claim(1, 9)).toHaveLength(2);
  store.transact((tx) => recallStrays(tx, [minute, hour], START));
  expect(rows().filter(({ leased }) => leased)).toHaveLength(2);
});

test("of large bodies few are claimed at a time, and one however large", () => {
  const { happen, fan, claim, store } = openDeliveries(1);
  happen(5);
  fan();
  store.db.$client.run("UPDATE events SET data = json_object('subject', printf('%.*c', 400000, 'x'))");
  store.db.$client.run("UPDATE events SET data = json_object('subject', printf('%.*c', 4000000, 'x')) WHERE seq = 3");
  const claims = Array.from({ length: 4 }, () => claim(1, 256).map(({ delivery }) => delivery.eventId));
  expect(claims).toEqual([["evt_1", "evt_2"], ["evt_3"], ["evt_4", "evt_5"], []]);
});

test("attempts that are recorded together each keep what they came to", () => {
  const { happen, fan, claim, due, rows, store } = openDeliveries(1);
  happen(6);
  fan();
  const ok = { ok: true, status: 200, response: "ok", ms: 1 };
  const outcomes: RequestOutcome[] = [
    ok,
    ok,
    { ...ok, response: "fine" },
    { ok: false, status: 500, response: "ok", error: "answered 500", ms: 1 },
    ok,
    { ok: false, error: "connection refused", ms: 1 },
  ];
  const attempts = claim(1, 6).map(({ delivery }, i) => ({ delivery, outcome: outcomes[i] ?? ok }));
  const terms = { now: START + 5, retrySeconds: [60], disableAfter: 15, timeoutMs: 10_000 };
  expect(store.transact((tx) => recordAttempts(tx, 1, attempts, terms))).toEqual({ pace: "failing", off: false });
  const [at, again] = [START + 5, START + 5 + 60_000];
  expect(
    rows().map((row) => [row.state, row.attempts, row.leased, row.status, row.response, row.error, row.finishedAt]),
  ).toEqual([
    ["delivered", 1, false, 200, "ok", null, at],
    ["delivered", 1, false, 200, "ok", null, at],
    ["delivered", 1, false, 200, "fine", null, at],
    ["retrying", 1, false, 500, "ok", "answered 500", null],
    ["delivered", 1, false, 200, "ok", null, at],
    ["retrying", 1, false, null, null, "connection refused", null],
  ]);
  expect(rows().map(({ dueAt }) => dueAt)).toEqual([null, null, null, again, null, again]);
  expect(due(again)).toEqual([1]);
});

test("a delivery keeps its number and id from the first to the last, and is in the log once", () => {
  const { happen, fan, claim, rows, log, store, newId } = openDeliveries();
  happen(2);
  fan();
  const before = rows();
  expect(before.map(({ seq, state, attempts, leased }) => [seq, state, attempts, leased])).toEqual(
    [1, 2, 3, 4].map((seq) => [seq, "pending", 0, false]),
  );
  const [first] = claim(1, 1);
  if (!first) throw new Error("nothing was claimed");
  expect(log("whk_1").map(({ id, leased }) => [id, leased])).toEqual([
    [before[1]?.id as string, false],
    [before[0]?.id as string, true],
  ]);
  store.transact((tx) => recordAttempts(tx, 1, [{ delivery: first.delivery, outcome: OK }], TERMS));
  // A test has its place after all that happened before it.
  const test = { id: newId(), endpointSeq: 1, eventId: "evt_t", event: "message.inbound", sample: "{}", now: START };
  store.transact((tx) => putTest(tx, test));
  expect(rows().map(({ seq, id, eventId, createdAt }) => [seq, id, eventId, createdAt])).toEqual([
    ...before.map(({ seq, id, eventId, createdAt }) => [seq, id, eventId, createdAt]),
    [5, test.id, "evt_t", START],
  ]);
  expect(log("whk_1").map(({ id, state }) => [id, state])).toEqual([
    [test.id, "pending"],
    [before[1]?.id as string, "pending"],
    [before[0]?.id as string, "delivered"],
  ]);
  expect(log("whk_1", "pending").map(({ id }) => id)).toEqual([test.id, before[1]?.id as string]);
  expect(log("whk_1", "delivered").map(({ id }) => id)).toEqual([before[0]?.id as string]);
});

test("what is tried again, and a test, come before what waits for its first attempt", () => {
  const { happen, fan, claim, store, newId } = openDeliveries(1);
  happen(3);
  fan();
  const [first] = claim(1, 1);
  if (!first) throw new Error("nothing was claimed");
  const bad = { ok: false, status: 500, response: "", error: "answered 500", ms: 1 };
  store.transact((tx) => {
    recordAttempts(tx, 1, [{ delivery: first.delivery, outcome: bad }], TERMS);
    putTest(tx, {
      ...{ id: newId(), endpointSeq: 1, eventId: "evt_t", event: "message.inbound", sample: "{}", now: START },
    });
  });
  expect(claim(1, 2, START).map(({ delivery }) => delivery.eventId)).toEqual(["evt_t", "evt_2"]);
  expect(claim(1, 2, START + 60_000).map(({ delivery }) => delivery.eventId)).toEqual(["evt_1", "evt_t"]);
});

test("what waits for an event that is gone is not attempted, and holds nobody up", () => {
  const { happen, fan, claim, due, rows, runs, log, store } = openDeliveries(1, ["message.outbound"]);
  // None of those that are wanted follows another.
  happen(3_000, "message.inbound", "message.outbound");
  while (hasNewEvents(store.db)) fan();
  store.db.$client.run("DELETE FROM events WHERE seq < 3000");
  expect(log("whk_1").map(({ eventId }) => eventId)).toEqual(["evt_3000"]);
  // Some at a time.
  expect([claim(1, 9), due()]).toEqual([[], [1]]);
  expect(claim(1, 9).map(({ delivery }) => delivery.eventId)).toEqual(["evt_3000"]);
  expect(runs()).toBe(1);
  store.db.$client.run("DELETE FROM events");
  const delivery = { ...rows()[0], seq: 1500, endpointSeq: 1, waiting: true } as never;
  store.transact((tx) => recordAttempts(tx, 1, [{ delivery, outcome: OK }], TERMS));
  expect([rows(), due(Number.MAX_SAFE_INTEGER)]).toEqual([[], [1]]);
  expect([claim(1, 9, LEASE), due(Number.MAX_SAFE_INTEGER)]).toEqual([[], []]);
});

test("an event is kept while something waits for it, however old", () => {
  const { happen, fan, claim, store } = openDeliveries();
  happen(3);
  fan();
  const events = () => store.db.$client.query("SELECT id FROM events ORDER BY seq").values().flat();
  const tidy = () =>
    store.transact((tx) => {
      while (deleteFinished(tx, START + 1));
      for (let after: number | null = 0; after !== null; ) after = deleteEvents(tx, after, START + 1);
    });
  const deliver = (endpointSeq: number, count: number) => {
    const ended = claim(endpointSeq, count).map(({ delivery }) => ({ delivery, outcome: OK }));
    store.transact((tx) => recordAttempts(tx, endpointSeq, ended, TERMS));
  };
  deliver(1, 3);
  tidy();
  expect(events()).toEqual(["evt_1", "evt_2", "evt_3"]);
  deliver(2, 2);
  tidy();
  expect(events()).toEqual(["evt_3"]);
  deliver(2, 1);
  tidy();
  expect(events()).toEqual([]);
});

test("what waits is made due by asking for it, but not while it is under way, and only in its workspace", () => {
  const { happen, fan, claim, due, rows, store, workspaceId } = openDeliveries(1);
  happen(2);
  fan();
  const [one, two] = rows();
  if (!one || !two) throw new Error("two were to be fanned out");
  expect(claim(1, 1)).toHaveLength(1);
  const again = (id: string, now: number, workspace?: string) => store.transact((tx) => resend(tx, id, now, workspace));
  expect(() => again(one.id, START)).toThrow("under way");
  expect(() => again(two.id, START, "wsp_other")).toThrow("there is no webhook delivery");
  store.transact((tx) => yieldTurn(tx, 1, START + 5));
  expect(again(two.id, START + 1, workspaceId)).toMatchObject({ id: two.id, state: "pending", leased: false });
  expect(due(START + 1)).toEqual([1]);
  // Its lease has run out.
  expect(again(one.id, LEASE)).toMatchObject({ id: one.id, state: "pending", dueAt: LEASE });
  expect(claim(1, 9, LEASE).map(({ delivery }) => delivery.id)).toEqual([one.id, two.id]);
});

test("an endpoint that is removed takes with it what waits, in portions", () => {
  const { happen, fan, rows, store } = openDeliveries(2, ["message.outbound"]);
  happen(2_400, "message.inbound", "message.outbound");
  while (hasNewEvents(store.db)) fan();
  store.transact((tx) => setRemoved(tx, requireEndpoint(tx, "whk_1")));
  const sweep = () => store.transact((tx) => ({ more: sweepEndpoints(tx, START) })).more;
  sweep();
  expect(rows().filter(({ endpointSeq }) => endpointSeq === 1)).toHaveLength(200);
  while (sweep());
  expect([...new Set(rows().map(({ endpointSeq }) => endpointSeq))]).toEqual([2]);
  expect(store.db.$client.query("SELECT seq FROM webhook_endpoints").values().flat()).toEqual([2]);
});

test("what was pending before deliveries waited in a table of their own is attempted, and recorded where it is", () => {
  const { happen, claim, rows, store } = openDeliveries(1);
  happen(1);
  store.transact((tx) => {
    tx.$client.run(
      `INSERT INTO webhook_deliveries (id, endpoint_seq, event_seq, event_id, event, state, due_at, created_at)
       SELECT 'whd_old', 1, seq, id, event, 'pending', ${START}, ${START} FROM events`,
    );
    bringForward(tx, 1, START);
  });
  const [claimed] = claim(1, 9);
  expect([claimed?.delivery.id, rows()[0]?.leased]).toEqual(["whd_old", true]);
  if (!claimed) return;
  store.transact((tx) => recordAttempts(tx, 1, [{ delivery: claimed.delivery, outcome: OK }], TERMS));
  expect(rows()).toMatchObject([{ id: "whd_old", state: "delivered", attempts: 1, leased: false }]);
});

test("leases are given back, one by one or all together", () => {
  const { happen, fan, claim, due, store } = openDeliveries(1);
  happen(3);
  fan();
  const [first] = claim(1, 3);
  if (!first) throw new Error("nothing was claimed");
  expect(due()).toEqual([]);
  store.transact((tx) => release(tx, [first.delivery], START));
  expect(due()).toEqual([1]);
  expect(claim(1, 3)).toHaveLength(1);
  expect(store.transact((tx) => releaseLeases(tx, START))).toBe(3);
  expect(claim(1, 3).map(({ delivery }) => delivery.attempts)).toEqual([0, 0, 0]);
});

test("a lease on what an endpoint was disabled with is not attempted when it is given back, however late", () => {
  for (const giveBack of ["release", "releaseLeases"] as const) {
    const { happen, fan, claim, due, rows, store } = openDeliveries(1);
    happen(2);
    fan();
    const claimed = claim(1, 1);
    store.transact((tx) => {
      setDisabled(tx, { seq: 1 }, START, true);
      while (sweepEndpoints(tx, START));
    });
    expect(rows().map(({ state }) => state)).toEqual(["pending", "failed"]);
    store.transact((tx) => {
      if (giveBack === "releaseLeases") releaseLeases(tx, START);
      else
        release(
          tx,
          claimed.map(({ delivery }) => delivery),
          START,
        );
    });
    expect(claim(1, 9)).toEqual([]);
    store.transact((tx) => {
      while (sweepEndpoints(tx, START));
    });
    expect(rows().map(({ state, attempts }) => [state, attempts])).toEqual([
      ["failed", 0],
      ["failed", 0],
    ]);
    expect(due(Number.MAX_SAFE_INTEGER)).toEqual([]);
  }
});

test("a turn that is yielded comes after those of the others", () => {
  const { happen, fan, due, store } = openDeliveries();
  happen(1);
  fan();
  store.transact((tx) => yieldTurn(tx, 1, START + 5));
  expect([due(), due(START + 5)]).toEqual([[2], [2, 1]]);
});

test("no query reads its way through a table, however long the log", () => {
  const prepare = spyOn(Database.prototype, "prepare");
  try {
    const { store, happen, fan, claim, due, newId } = openDeliveries();
    happen(6);
    prepare.mockClear();
    expect(hasNewEvents(store.db)).toBeTrue();
    fan();
    due();
    const claimed = claim(1, 3);
    store.transact((tx) => {
      const [one, two, three] = claimed.map(({ delivery }) => delivery);
      if (!one || !two || !three) throw new Error("three were to be claimed");
      const answer = { status: 200, response: "", error: null };
      settle(tx, 1, [
        { deliveries: [one], settled: { ...answer, state: "delivered", dueAt: null, finishedAt: START } },
        { deliveries: [two], settled: { ...answer, state: "retrying", dueAt: LEASE, finishedAt: null } },
      ]);
      release(tx, [three], START);
      yieldTurn(tx, 1, START);
      resend(tx, one.id, START);
      const endpoint = requireEndpoint(tx, "whk_1");
      putTest(tx, {
        id: newId(),
        endpointSeq: 1,
        eventId: "evt_t",
        event: "message.inbound",
        sample: "{}",
        now: START,
      });
      listDeliveries(tx, endpoint, { limit: 10, state: "failed" });
      listEndpoints(tx, endpoint.workspaceId);
      setDisabled(tx, endpoint, START, true);
      sweepEndpoints(tx, START);
      setEnabled(tx, endpoint);
      deleteFinished(tx, START + 1);
      deleteEvents(tx, 0, START + 1);
    });
    const statements = prepare.mock.calls
      .map(([statement]) => String(statement))
      .filter((text) => /webhook|events/.test(text));
    expect(statements.length).toBeGreaterThanOrEqual(25);
    for (const statement of new Set(statements)) {
      // The first row of a table, in the order of its key.
      if (/limit \+\?$/.test(statement) && !/where/.test(statement)) continue;
      const count = Math.max(
        statement.split(/\?(?!\d)/).length - 1,
        ...[...statement.matchAll(/\?(\d+)/g)].map(([, n]) => Number(n)),
        0,
      );
      const plan = store.db.$client
        .query(`EXPLAIN QUERY PLAN ${statement}`)
        .all(...Array.from({ length: count }, () => null)) as { detail: string }[];
      const long = plan
        .map(({ detail }) => detail)
        .filter((detail) =>
          /^SCAN ([dwe]|webhook_(deliveries|waiting|endpoints)|events)\b(?! USING)|TEMP B-TREE/.test(detail),
        );
      expect([statement, long]).toEqual([statement, []]);
    }
  } finally {
    prepare.mockRestore();
  }
});

test("a portion of what is failed or deleted is no statement for each row of it", () => {
  const prepare = spyOn(Database.prototype, "prepare");
  try {
    const { store, happen, fan, claim, rows } = openDeliveries(1);
    happen(100);
    fan();
    const bad = { ok: false, status: 500, response: "", error: "answered 500", ms: 1 };
    const ended = claim(1, 50).map(({ delivery }) => ({ delivery, outcome: bad }));
    store.transact((tx) => {
      recordAttempts(tx, 1, ended, TERMS);
      setDisabled(tx, requireEndpoint(tx, "whk_1"), START, false);
    });
    prepare.mockClear();
    store.transact((tx) => void sweepEndpoints(tx, START));
    expect(rows().filter(({ state, dueAt }) => state === "failed" && dueAt === null)).toHaveLength(100);
    store.transact((tx) => {
      deleteFinished(tx, START + 1);
      deleteEvents(tx, 0, START + 1);
    });
    expect(store.db.$client.query("SELECT count(*) FROM events").values()).toEqual([[0]]);
    expect(prepare.mock.calls.length).toBeLessThan(40);
  } finally {
    prepare.mockRestore();
  }
});
