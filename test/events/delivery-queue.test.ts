/** The queue on a real store: turns of endpoints, leases after a stop, and the cost of queries. */
import { Database } from "bun:sqlite";
import { expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import type { AttemptOutcome } from "../../src/events/delivery.ts";
import {
  deleteEvents,
  deleteFinishedDeliveries,
  listEndpointDeliveries,
  resendEndpointDelivery,
  sweepEndpoints,
} from "../../src/events/delivery-log.ts";
import { recordWebhookAttempts } from "../../src/events/delivery-outcome.ts";
import {
  addWebhookTest,
  type Delivery,
  hasNewEvents,
  loadClaimedDelivery,
  nextEndpointDueTime,
  recallStrayDeliveries,
  recordDeliveryState,
  releaseAllWebhookLeases,
  releaseWebhookDeliveries,
  rescheduleEndpoint,
} from "../../src/events/delivery-queue.ts";
import {
  listEndpoints,
  requireEndpoint,
  setEndpointDisabled,
  setEndpointEnabled,
  setEndpointRemoved,
} from "../../src/events/endpoints.ts";
import { START } from "../harness/runtime.ts";
import { LEASE, OK, openDeliveries, TERMS } from "./delivery-rig.ts";

const BAD: AttemptOutcome = { ok: false, status: 500, response: "", error: "answered 500", ms: 1 };

test("every event is fanned out once, in portions", () => {
  const { happen, fan, rows, store } = openDeliveries();
  happen(2_400);
  let portions = 0;
  for (; hasNewEvents(store.db); portions++) fan();
  expect(portions).toBe(5);
  expect(rows()).toHaveLength(4_800);
  expect(new Set(rows().map(({ endpointSeq, eventId }) => `${endpointSeq} ${eventId}`)).size).toBe(4_800);
  fan();
  expect(rows()).toHaveLength(4_800);
});

test("a portion also limits how many workspaces it reads", () => {
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

test("a claim leases deliveries, first due first, and the next endpoint is found without reading deliveries", () => {
  const { happen, fan, claim, due, rows } = openDeliveries();
  happen(3);
  fan();
  expect(due()).toEqual([1, 2]);
  expect(claim(1, 2).map(({ eventId }) => eventId)).toEqual(["evt_1", "evt_2"]);
  expect(claim(1, 2).map(({ eventId }) => eventId)).toEqual(["evt_3"]);
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

test("deliveries that a clock running ahead put off wait no longer than their schedule says", () => {
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
      if (one) recordDeliveryState(tx, one, { ...retrying, dueAt: START + ms });
    }
    tx.$client.run("UPDATE webhook_deliveries SET due_at = due_at + 86400000 WHERE state = 'pending'");
    recallStrayDeliveries(tx, [minute, hour], START);
  });
  expect(rows().map(({ dueAt, state }) => [state, (dueAt ?? 0) - START])).toEqual([
    ["retrying", minute],
    ["retrying", 0],
    ["retrying", minute],
    ["pending", 0],
  ]);
  expect(due()).toEqual([1]);
  expect(claim(1, 9)).toHaveLength(2);
  store.transact((tx) => recallStrayDeliveries(tx, [minute, hour], START));
  expect(rows().filter(({ leased }) => leased)).toHaveLength(2);
});

test("loading a delivery finds nothing once its event or its endpoint is gone", () => {
  const { happen, fan, claim, store } = openDeliveries();
  happen(2);
  fan();
  const [one, two] = claim(1, 2);
  const [three] = claim(2, 1);
  if (!one || !two || !three) throw new Error("three were to be claimed");
  expect(loadClaimedDelivery(store.db, one.seq)).toMatchObject({ delivery: one, endpoint: { id: "whk_1" } });
  expect(JSON.parse(loadClaimedDelivery(store.db, one.seq)?.body ?? "")).toMatchObject({
    id: "evt_1",
    event: "message.outbound",
  });
  store.db.$client.run("DELETE FROM events WHERE id = 'evt_1'");
  store.transact((tx) => setEndpointRemoved(tx, requireEndpoint(tx, "whk_2")));
  expect([one, two, three].map(({ seq }) => loadClaimedDelivery(store.db, seq)?.delivery.eventId)).toEqual([
    undefined,
    "evt_2",
    undefined,
  ]);
});

test("attempts that are recorded together each keep their own outcome", () => {
  const { happen, fan, claim, due, rows, store } = openDeliveries(1);
  happen(6);
  fan();
  const outcomes: AttemptOutcome[] = [
    ...[OK, OK, { ...OK, response: "fine" }],
    ...[{ ...BAD, response: "ok" }, OK],
    { ok: false, error: "connection refused", ms: 1 },
  ];
  const attempts = claim(1, 6).map((delivery, i) => ({ delivery, outcome: outcomes[i] ?? OK }));
  const recorded = store.transact((tx) => ({
    of: recordWebhookAttempts(tx, attempts, { ...TERMS, now: START + 5 }),
  })).of;
  expect([...recorded]).toEqual([[1, { health: "failing", off: false }]]);
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

test("an attempt that ends after its endpoint was disabled leaves the count that disabled it", () => {
  const { happen, fan, claim, store } = openDeliveries(1);
  happen(3);
  fan();
  const outcomes = [BAD, BAD, OK];
  const attempts = claim(1, 3).map((delivery, i) => ({ delivery, outcome: outcomes[i] ?? OK }));
  store.transact((tx) => void recordWebhookAttempts(tx, attempts, { ...TERMS, retrySeconds: [], disableAfter: 2 }));
  expect(requireEndpoint(store.db, "whk_1")).toMatchObject({ state: "disabled", exhausted: 2, telling: true });
});

test("a delivery keeps its number and id throughout, and a test is numbered after earlier deliveries", () => {
  const { happen, fan, claim, end, rows, log, store, newId } = openDeliveries();
  happen(2);
  fan();
  const before = rows();
  expect(new Set(before.map(({ id }) => id)).size).toBe(4);
  expect(before.map(({ seq, state, attempts, leased }) => [seq, state, attempts, leased])).toEqual(
    [1, 2, 3, 4].map((seq) => [seq, "pending", 0, false]),
  );
  const claimed = claim(1, 1);
  expect(log("whk_1").map(({ eventId, leased }) => [eventId, leased])).toEqual([
    ["evt_2", false],
    ["evt_1", true],
  ]);
  end(claimed);
  const test = { id: newId(), endpointSeq: 1, eventId: "evt_t", event: "message.inbound", sample: "{}" };
  store.transact((tx) => addWebhookTest(tx, test, START));
  expect(rows().map(({ seq, id, eventId, createdAt }) => [seq, id, eventId, createdAt])).toEqual([
    ...before.map(({ seq, id, eventId, createdAt }) => [seq, id, eventId, createdAt]),
    [5, test.id, "evt_t", START],
  ]);
  const listed = (...state: Parameters<typeof log> extends [string, ...infer Rest] ? Rest : never) =>
    log("whk_1", ...state).map(({ eventId }) => eventId);
  expect(listed()).toEqual(["evt_t", "evt_2", "evt_1"]);
  expect(listed("pending")).toEqual(["evt_t", "evt_2"]);
  expect(listed("delivered")).toEqual(["evt_1"]);
});

test("retries, tests and resends come before first attempts", () => {
  const { happen, fan, claim, end, log, store, newId } = openDeliveries(1);
  happen(4);
  fan();
  end(claim(1, 1), BAD);
  store.transact((tx) => {
    const test = { id: newId(), endpointSeq: 1, eventId: "evt_t", event: "message.inbound", sample: "{}" };
    addWebhookTest(tx, test, START);
    resendEndpointDelivery(tx, log("whk_1").find(({ eventId }) => eventId === "evt_4")?.id ?? "", START);
  });
  expect(claim(1, 3, START).map(({ eventId }) => eventId)).toEqual(["evt_4", "evt_t", "evt_2"]);
  expect(claim(1, 9, START + 60_000).map(({ eventId }) => eventId)).toEqual([
    "evt_1",
    "evt_4",
    "evt_t",
    "evt_3",
    "evt_2",
  ]);
});

test("a delivery is deleted with its event, and its attempt is then not recorded", () => {
  const { happen, fan, claim, end, due, rows, store } = openDeliveries(1);
  happen(3);
  fan();
  const claimed = claim(1, 9);
  store.db.$client.run("DELETE FROM events WHERE seq = 2");
  end(claimed, BAD);
  expect(rows().map(({ eventId, state }) => [eventId, state])).toEqual([
    ["evt_1", "retrying"],
    ["evt_3", "retrying"],
  ]);
  store.db.$client.run("DELETE FROM events");
  expect(claim(1, 9, LEASE)).toEqual([]);
  expect(due(Number.MAX_SAFE_INTEGER)).toEqual([]);
});

test("an old event of a workspace that moves here is kept: its deliveries may come after it", () => {
  const { happen, fan, claim, end, store } = openDeliveries(1);
  happen(2);
  fan();
  end(claim(1, 2));
  const count = () => store.db.$client.query("SELECT count(*) FROM events").values().flat()[0];
  const tidy = () =>
    store.transact((tx) => {
      while (deleteFinishedDeliveries(tx, START + 1));
      deleteEvents(tx, 0, START + 1);
    });
  store.db.$client.run("UPDATE workspaces SET moving = 'in'");
  tidy();
  expect(count()).toBe(2);
  store.db.$client.run("UPDATE workspaces SET moving = NULL");
  tidy();
  expect(count()).toBe(0);
});

test("an old event is kept while a delivery of it is kept", () => {
  const { happen, fan, claim, end, store } = openDeliveries();
  happen(3);
  fan();
  const events = () => store.db.$client.query("SELECT id FROM events ORDER BY seq").values().flat();
  const tidy = () =>
    store.transact((tx) => {
      while (deleteFinishedDeliveries(tx, START + 1));
      for (let after: number | null = 0; after !== null; ) after = deleteEvents(tx, after, START + 1);
    });
  end(claim(1, 3));
  tidy();
  expect(events()).toEqual(["evt_1", "evt_2", "evt_3"]);
  end(claim(2, 2));
  tidy();
  expect(events()).toEqual(["evt_3"]);
  end(claim(2, 1));
  tidy();
  expect(events()).toEqual([]);
});

test("a resend makes a waiting delivery due, except while it is under way or from another workspace", () => {
  const { happen, fan, claim, due, rows, store, workspaceId } = openDeliveries(1);
  happen(2);
  fan();
  const [one, two] = rows();
  if (!one || !two) throw new Error("two were to be fanned out");
  expect(claim(1, 1)).toHaveLength(1);
  const again = (id: string, now: number, workspace?: string) =>
    store.transact((tx) => resendEndpointDelivery(tx, id, now, workspace));
  expect(() => again(one.id, START)).toThrow("under way");
  expect(() => again(two.id, START, "wsp_other")).toThrow("there is no webhook delivery");
  for (const id of ["whd_none", "", "'"]) expect(() => again(id, START)).toThrow(`there is no webhook delivery ${id}`);
  expect(again(two.id, START + 1, workspaceId)).toMatchObject({ id: two.id, state: "pending", leased: false });
  expect(due(START + 1)).toEqual([1]);
  // Its lease has run out.
  expect(again(one.id, LEASE)).toMatchObject({ id: one.id, state: "pending", dueAt: LEASE });
  expect(claim(1, 9, LEASE).map(({ id }) => id)).toEqual([two.id, one.id]);
});

test("removing an endpoint deletes its deliveries in portions", () => {
  const { happen, fan, rows, store } = openDeliveries(2, ["message.outbound"]);
  happen(2_400, "message.inbound", "message.outbound");
  while (hasNewEvents(store.db)) fan();
  store.transact((tx) => setEndpointRemoved(tx, requireEndpoint(tx, "whk_1")));
  const sweep = () => store.transact((tx) => ({ more: sweepEndpoints(tx, START) })).more;
  sweep();
  expect(rows().filter(({ endpointSeq }) => endpointSeq === 1)).toHaveLength(200);
  while (sweep());
  expect([...new Set(rows().map(({ endpointSeq }) => endpointSeq))]).toEqual([2]);
  expect(store.db.$client.query("SELECT seq FROM webhook_endpoints").values().flat()).toEqual([2]);
});

test("leases are given back, one by one or all together", () => {
  const { happen, fan, claim, due, store } = openDeliveries(1);
  happen(3);
  fan();
  const [first] = claim(1, 3);
  if (!first) throw new Error("nothing was claimed");
  expect(due()).toEqual([]);
  store.transact((tx) => releaseWebhookDeliveries(tx, [first.seq], START));
  expect(due()).toEqual([1]);
  expect(claim(1, 3)).toHaveLength(1);
  expect(store.transact((tx) => releaseAllWebhookLeases(tx, START))).toBe(3);
  expect(claim(1, 3).map(({ attempts }) => attempts)).toEqual([0, 0, 0]);
});

test("a delivery that was leased when its endpoint was disabled fails once its lease is given back", () => {
  for (const giveBack of ["release", "releaseLeases"] as const) {
    const { happen, fan, claim, due, rows, store } = openDeliveries(1);
    happen(2);
    fan();
    const claimed = claim(1, 1);
    store.transact((tx) => {
      setEndpointDisabled(tx, { seq: 1 }, START, true);
      while (sweepEndpoints(tx, START));
    });
    expect(rows().map(({ state }) => state)).toEqual(["pending", "failed"]);
    store.transact((tx) => {
      if (giveBack === "releaseLeases") releaseAllWebhookLeases(tx, START);
      else {
        releaseWebhookDeliveries(
          tx,
          claimed.map(({ seq }) => seq),
          START,
        );
      }
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

test("an endpoint takes its next turn after the others, even when many deliveries wait for it", () => {
  const { happen, fan, claim, due } = openDeliveries();
  happen(3);
  fan();
  claim(1, 1, START + 5);
  expect([due(), due(START + 5)]).toEqual([[2], [2, 1]]);
  claim(2, 1, START + 6);
  expect(due(START + 6)).toEqual([1, 2]);
});

test("thousands of endpoints due at the same time are read about as fast as others", () => {
  const { store, due } = openDeliveries(1);
  store.db.$client.run(
    `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= 5000)
     INSERT INTO webhook_endpoints (id, workspace_id, url, events, secret, state, created_at, health, after_event, due_at)
     SELECT 'whk_' || i, 'wsp_w', 'https://example.com/', '[]', '', 'active', 1, 'proven', 0, ${START} FROM n`,
  );
  due();
  const since = performance.now();
  expect(due()).toEqual(Array.from({ length: 5_000 }, (_, i) => i + 2));
  const same = performance.now() - since;
  store.db.$client.run("UPDATE webhook_endpoints SET due_at = seq WHERE due_at IS NOT NULL");
  const apartSince = performance.now();
  expect(due()).toHaveLength(5_000);
  // Pages of one size took thirty times as long.
  expect(same).toBeLessThan(8 * (performance.now() - apartSince) + 20);
});

test("no query scans a table, even when the log is long", () => {
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
      const [one, two, three] = claimed;
      if (!one || !two || !three) throw new Error("three were to be claimed");
      loadClaimedDelivery(tx, one.seq);
      recordWebhookAttempts(
        tx,
        [one, two].map((delivery, i) => ({ delivery, outcome: i === 0 ? OK : BAD })),
        TERMS,
      );
      releaseWebhookDeliveries(tx, [three.seq], START);
      releaseAllWebhookLeases(tx, START);
      recallStrayDeliveries(tx, [60_000], START);
      rescheduleEndpoint(tx, 1, START);
      nextEndpointDueTime(tx, START);
      resendEndpointDelivery(tx, one.id, START);
      const endpoint = requireEndpoint(tx, "whk_1");
      addWebhookTest(
        tx,
        { id: newId(), endpointSeq: 1, eventId: "evt_t", event: "message.inbound", sample: "{}" },
        START,
      );
      listEndpointDeliveries(tx, endpoint, { limit: 10, state: "failed" });
      listEndpoints(tx, endpoint.workspaceId);
      setEndpointDisabled(tx, endpoint, START, true);
      sweepEndpoints(tx, START);
      setEndpointEnabled(tx, endpoint);
      deleteFinishedDeliveries(tx, START + 1);
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
        .filter((detail) => /^SCAN ([dwe]|webhook_(deliveries|endpoints)|events)\b(?! USING)|TEMP B-TREE/.test(detail));
      expect([statement, long]).toEqual([statement, []]);
    }
  } finally {
    prepare.mockRestore();
  }
});

test("failing or deleting a portion takes a fixed number of statements", () => {
  const prepare = spyOn(Database.prototype, "prepare");
  try {
    const { store, happen, fan, claim, end, rows } = openDeliveries(1);
    happen(100);
    fan();
    end(claim(1, 50), BAD);
    store.transact((tx) => {
      setEndpointDisabled(tx, requireEndpoint(tx, "whk_1"), START, false);
    });
    prepare.mockClear();
    store.transact((tx) => void sweepEndpoints(tx, START));
    expect(rows().filter(({ state, dueAt }) => state === "failed" && dueAt === null)).toHaveLength(100);
    store.transact((tx) => {
      deleteFinishedDeliveries(tx, START + 1);
      deleteEvents(tx, 0, START + 1);
    });
    expect(store.db.$client.query("SELECT count(*) FROM events").values()).toEqual([[0]]);
    expect(prepare.mock.calls.length).toBeLessThan(40);
  } finally {
    prepare.mockRestore();
  }
});

/** The expected state of a delivery. */
interface Expected {
  eventSeq: number;
  /** Time from which it may be claimed: epoch ms. */
  dueAt: number | null;
  leased: boolean;
  urgent: boolean;
  state: Delivery["state"];
  attempts: number;
}

const LEASE_MS = 100;
/** Makes leases of different times be under way. */
const LATER_MS = 40;
const ENDPOINTS = [1, 2];
const which = fc.array(fc.boolean(), { minLength: 1, maxLength: 7 });
const endpoint = fc.constantFrom(...ENDPOINTS);
const step = fc.oneof(
  fc.record({ kind: fc.constant("happen" as const), wanted: which }),
  fc.record({ kind: fc.constant("claim" as const), endpoint, count: fc.integer({ min: 1, max: 6 }) }),
  fc.record({ kind: fc.constantFrom("deliver" as const, "fail" as const, "release" as const), which }),
  fc.record({ kind: fc.constantFrom("forget" as const, "resend" as const), nth: fc.nat(40) }),
  fc.record({ kind: fc.constantFrom("later" as const, "restart" as const) }),
);

test("random operations never duplicate, mix up or skip a delivery", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 60 }), (steps) => {
      const { store, happen, fan, claim, end, due, rows } = openDeliveries(ENDPOINTS.length, ["message.outbound"]);
      const expected = new Map(ENDPOINTS.map((seq): [number, Expected[]] => [seq, []]));
      const held: Delivery[] = [];
      let [now, events] = [START, 0];
      const all = () => [...expected.values()].flat();
      const find = ({ endpointSeq, eventSeq }: Delivery) =>
        expected.get(endpointSeq)?.find((one) => one.eventSeq === eventSeq);
      const isDue = ({ dueAt }: Expected) => dueAt !== null && dueAt <= now;
      const inTurn = (one: Expected, other: Expected) =>
        Number(other.urgent) - Number(one.urgent) ||
        (one.dueAt ?? 0) - (other.dueAt ?? 0) ||
        Number(one.leased) - Number(other.leased) ||
        one.eventSeq - other.eventSeq;
      const take = (chosen: boolean[]) => {
        const taken = held.filter((_, i) => chosen[i % chosen.length]);
        for (const one of taken) held.splice(held.indexOf(one), 1);
        return taken;
      };

      for (const one of steps) {
        if (one.kind === "happen") {
          for (const wanted of one.wanted) happen(1, wanted ? "message.outbound" : "message.inbound");
          fan(now);
          for (const of of expected.values()) {
            one.wanted.forEach((wanted, i) => {
              if (!wanted) return;
              const fresh = { leased: false, urgent: false, state: "pending", attempts: 0 } as const;
              of.push({ eventSeq: events + i + 1, dueAt: now, ...fresh });
            });
          }
          events += one.wanted.length;
        } else if (one.kind === "claim") {
          const turn = expected.get(one.endpoint)?.filter(isDue).sort(inTurn).slice(0, one.count) ?? [];
          const claimed = claim(one.endpoint, one.count, now, now + LEASE_MS);
          expect(claimed.map(({ eventSeq }) => eventSeq)).toEqual(turn.map(({ eventSeq }) => eventSeq));
          for (const of of turn) Object.assign(of, { leased: true, dueAt: now + LEASE_MS });
          // As in the deliverer, a delivery under way is not attempted a second time.
          held.push(...claimed.filter(({ seq }) => !held.some((other) => other.seq === seq)));
        } else if (one.kind === "deliver" || one.kind === "fail") {
          const ended = take(one.which);
          end(ended, one.kind === "deliver" ? OK : BAD, now);
          for (const delivery of ended) {
            const of = find(delivery);
            if (!of) continue;
            const retries = one.kind === "fail" && delivery.attempts === 0 && delivery.finishedAt === null;
            const failed = delivery.finishedAt === null ? "failed" : delivery.state;
            Object.assign(of, {
              ...{ leased: false, urgent: true, attempts: of.attempts + 1 },
              dueAt: retries ? now + 60_000 : null,
              state: one.kind === "deliver" ? "delivered" : retries ? "retrying" : failed,
            });
          }
        } else if (one.kind === "release") {
          const released = take(one.which);
          store.transact((tx) =>
            releaseWebhookDeliveries(
              tx,
              released.map(({ seq }) => seq),
              now,
            ),
          );
          for (const delivery of released) {
            const of = find(delivery);
            if (of?.leased) Object.assign(of, { leased: false, dueAt: now });
          }
        } else if (one.kind === "forget") {
          store.db.$client.run("DELETE FROM events WHERE seq = ?", [one.nth + 1]);
          for (const [seq, of] of expected) {
            expected.set(
              seq,
              of.filter(({ eventSeq }) => eventSeq !== one.nth + 1),
            );
          }
        } else if (one.kind === "resend") {
          const row = rows().filter(({ leased }) => !leased)[one.nth];
          if (!row || held.some(({ seq }) => seq === row.seq)) continue;
          store.transact((tx) => resendEndpointDelivery(tx, row.id, now));
          Object.assign(find(row) ?? {}, { dueAt: now, urgent: true });
        } else if (one.kind === "later") {
          now += LATER_MS;
        } else {
          held.splice(0);
          store.transact((tx) => releaseAllWebhookLeases(tx, now));
          for (const of of all()) if (of.leased) Object.assign(of, { leased: false, dueAt: now });
        }
        for (const seq of ENDPOINTS) {
          const found = rows().filter(({ endpointSeq }) => endpointSeq === seq);
          expect(
            found.map(({ eventSeq, dueAt, leased, urgent, state, attempts }) => ({
              ...{ eventSeq, dueAt, leased, urgent, state, attempts },
            })),
          ).toEqual((expected.get(seq) ?? []) as never);
          if (expected.get(seq)?.some(isDue)) expect(due(now)).toContain(seq);
        }
      }
    }),
    { numRuns: 60 },
  );
});
