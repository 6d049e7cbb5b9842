/** Deliveries on a real store: whose turn it is, what a stop leaves, and what the queries cost. */
import { Database } from "bun:sqlite";
import { expect, spyOn, test } from "bun:test";
import {
  claim,
  endpointsByDue,
  putTest,
  release,
  releaseLeases,
  settle,
  yieldTurn,
} from "../../src/events/deliveries.ts";
import { deleteEvents, deleteFinished, listDeliveries, resend, sweepEndpoints } from "../../src/events/delivery-log.ts";
import { listEndpoints, putEndpoint, requireEndpoint, setDisabled, setEnabled } from "../../src/events/endpoints.ts";
import { fanOut, hasNewEvents } from "../../src/events/fan-out.ts";
import { EVENT_NAMES, emit } from "../../src/events/outbox.ts";
import { recordAttempts } from "../../src/events/outcome.ts";
import { sampleOf } from "../../src/events/payload.ts";
import type { RequestOutcome } from "../../src/events/request.ts";
import { webhookDeliveries } from "../../src/store/schema.ts";
import { START } from "../harness/runtime.ts";
import { createWorld } from "../mailbox/world.ts";

const LEASE = START + 60_000;

function openStore(endpoints = 2) {
  const { store, workspace } = createWorld();
  const workspaceId = workspace("W", "example.test");
  store.transact((tx) => {
    for (let i = 1; i <= endpoints; i++) {
      const url = `https://example.com/${i}`;
      putEndpoint(tx, { id: `whk_${i}`, workspaceId, url, events: EVENT_NAMES, secret: "whsec_", now: START });
    }
  });
  let [event, made] = [0, 0];
  const newId = () => `whd_${++made}`;
  return {
    store,
    workspaceId,
    newId,
    happen(count = 1) {
      store.transact((tx) => {
        for (let i = 0; i < count; i++) {
          const data = sampleOf("message.outbound", START);
          const id = `evt_${++event}`;
          emit(tx, { id, workspaceId, event: "message.outbound", now: START, data: data as never });
        }
      });
    },
    fan: (now = START) =>
      store.transact((tx) => ({ reached: fanOut(tx, now, (count) => Array.from({ length: count }, newId)) })).reached,
    claim: (seq: number, count: number, now = START) =>
      store.transact((tx) => claim(tx, seq, count, now, LEASE)).claimed,
    due: (upTo = START) => [...endpointsByDue(store.db, upTo)].map(({ seq }) => seq),
    rows: () => store.db.select().from(webhookDeliveries).orderBy(webhookDeliveries.seq).all(),
  };
}

test("every event is fanned out once, in portions, however many there are", () => {
  const { happen, fan, rows, store } = openStore();
  happen(1_200);
  let portions = 0;
  for (; hasNewEvents(store.db); portions++) expect(fan()).toEqual(new Set([1, 2]));
  expect(portions).toBe(3);
  expect(rows()).toHaveLength(2_400);
  expect(new Set(rows().map(({ endpointSeq, eventId }) => `${endpointSeq} ${eventId}`)).size).toBe(2_400);
  expect(fan()).toEqual(new Set());
});

test("what is claimed is leased, first due first, and an endpoint's turn is known without its deliveries", () => {
  const { happen, fan, claim, due, rows } = openStore();
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

test("of large bodies few are claimed at a time, and one however large", () => {
  const { happen, fan, claim, store } = openStore(1);
  happen(5);
  fan();
  store.db.$client.run("UPDATE events SET data = json_object('subject', printf('%.*c', 400000, 'x'))");
  store.db.$client.run("UPDATE events SET data = json_object('subject', printf('%.*c', 4000000, 'x')) WHERE seq = 3");
  const claims = Array.from({ length: 4 }, () => claim(1, 256).map(({ delivery }) => delivery.eventId));
  expect(claims).toEqual([["evt_1", "evt_2"], ["evt_3"], ["evt_4", "evt_5"], []]);
});

test("attempts that are recorded together each keep what they came to", () => {
  const { happen, fan, claim, due, rows, store } = openStore(1);
  happen(6);
  fan();
  const ok = { ok: true, status: 200, response: "ok", ms: 1 };
  const outcomes: RequestOutcome[] = [
    ...[ok, ok, { ...ok, response: "fine" }],
    ...[{ ok: false, status: 500, response: "ok", error: "answered 500", ms: 1 }, ok],
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

test("leases are given back, one by one or all together", () => {
  const { happen, fan, claim, due, store } = openStore(1);
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
    const { happen, fan, claim, due, rows, store } = openStore(1);
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
  const { happen, fan, due, store } = openStore();
  happen(1);
  fan();
  store.transact((tx) => yieldTurn(tx, 1, START + 5));
  expect([due(), due(START + 5)]).toEqual([[2], [2, 1]]);
});

test("no query reads its way through a table, however long the log", () => {
  const prepare = spyOn(Database.prototype, "prepare");
  try {
    const { store, happen, fan, claim, due, newId } = openStore();
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
      settle(tx, 1, [one.seq], { ...answer, state: "delivered", dueAt: null, finishedAt: START });
      settle(tx, 1, [two.seq], { ...answer, state: "retrying", dueAt: LEASE, finishedAt: null });
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
        ...[...statement.matchAll(/\?(\d)/g)].map(([, n]) => Number(n)),
        0,
      );
      const plan = store.db.$client
        .query(`EXPLAIN QUERY PLAN ${statement}`)
        .all(...Array.from({ length: count }, () => null)) as { detail: string }[];
      const long = plan
        .map(({ detail }) => detail)
        .filter((detail) => /^SCAN (webhook_(deliveries|endpoints)|events)(?! USING)|TEMP B-TREE/.test(detail));
      expect([statement, long]).toEqual([statement, []]);
    }
  } finally {
    prepare.mockRestore();
  }
});
