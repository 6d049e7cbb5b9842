/** What waits for its first attempt, by runs: that a run is cut and loses nothing, whatever becomes of its parts. */
import { expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import { type Attemptable, release, releaseLeases } from "../../src/events/deliveries.ts";
import { listDeliveries, resend } from "../../src/events/delivery-log.ts";
import { requireEndpoint } from "../../src/events/endpoints.ts";
import { recordAttempts } from "../../src/events/outcome.ts";
import { openStore } from "../../src/store/store.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { LEASE, OK, openDeliveries, TERMS } from "./delivery-rig.ts";

test("a backlog is a row for each endpoint and portion, cut where a part is claimed or recorded", () => {
  const { happen, fan, claim, log, runs, store } = openDeliveries(2);
  happen(1_000);
  fan();
  expect(runs()).toBe(2);
  const claimed = claim(1, 100);
  expect([claimed.length, runs()]).toEqual([100, 3]);
  const [, ...others] = claimed.map(({ delivery }) => ({ delivery, outcome: OK }));
  store.transact((tx) => recordAttempts(tx, 1, others, TERMS));
  expect(runs()).toBe(3);
  expect(log("whk_1", "delivered")).toHaveLength(99);
  expect(log("whk_1", "pending")).toHaveLength(901);
});

test("what goes with its event from the midst of a run stops nothing", () => {
  const { happen, fan, claim, due, rows, runs, store } = openDeliveries(1);
  happen(5);
  fan();
  store.db.$client.run("DELETE FROM events WHERE seq IN (3, 5)");
  const claimed = claim(1, 9);
  expect(claimed.map(({ delivery }) => delivery.eventId)).toEqual(["evt_1", "evt_2", "evt_4"]);
  const attempts = claimed.map(({ delivery }) => ({ delivery, outcome: OK }));
  store.transact((tx) => recordAttempts(tx, 1, attempts, TERMS));
  expect(rows().map(({ seq, id, state }) => [seq, id, state])).toEqual([
    [1, "whd_1_1", "delivered"],
    [2, "whd_2_1", "delivered"],
    [4, "whd_4_1", "delivered"],
  ]);
  expect(runs()).toBe(1);
  expect(claim(1, 9, LEASE)).toEqual([]);
  expect([runs(), due(Number.MAX_SAFE_INTEGER)]).toEqual([0, []]);
});

test("of one that was claimed again, and ended twice, what came first stands", () => {
  const { happen, fan, claim, rows, runs, store } = openDeliveries(1);
  happen(2);
  fan();
  const first = claim(1, 2).map(({ delivery }) => ({ delivery, outcome: OK }));
  const again = claim(1, 2, LEASE).map(({ delivery }) => ({ delivery, outcome: { ...OK, ok: false, status: 500 } }));
  store.transact((tx) => recordAttempts(tx, 1, [...first, ...again], TERMS));
  expect([rows().map(({ state, attempts, status }) => [state, attempts, status]), runs()]).toEqual([
    [
      ["delivered", 1, 200],
      ["delivered", 1, 200],
    ],
    0,
  ]);
});

test("a list lacks nothing that another process records meanwhile", () => {
  const [folder, runtime] = [temporaryFolder(), fakeRuntime()];
  const server = openDeliveries(1, ["message.outbound"], openStore({ folder, runtime }));
  server.happen(3);
  server.fan();
  const attempts = server.claim(1, 3).map(({ delivery }) => ({ delivery, outcome: OK }));
  const { db } = openStore({ folder, runtime });
  const prepare = db.$client.prepare.bind(db.$client);
  let recorded = 0;
  spyOn(db.$client, "prepare").mockImplementation(((text: string) => {
    if (text.includes('from "webhook_pending"') && recorded++ === 0)
      server.store.transact((tx) => recordAttempts(tx, 1, attempts, TERMS));
    return prepare(text);
  }) as never);
  const list = () => listDeliveries(db, requireEndpoint(db, "whk_1"), {}).map(({ seq, state }) => [seq, state]);
  expect(list()).toEqual([3, 2, 1].map((seq) => [seq, "pending"]));
  expect(recorded).toBe(1);
  expect(list()).toEqual([3, 2, 1].map((seq) => [seq, "delivered"]));
});

test("a lease that is under way stays as it is when what is around it is claimed", () => {
  const { happen, fan, claim, rows } = openDeliveries(1);
  happen(3);
  fan();
  claim(1, 1, START, START + 10);
  claim(1, 1, START, START + 100);
  expect(claim(1, 9, START + 20, START + 60).map(({ delivery }) => delivery.seq)).toEqual([1, 3]);
  expect(rows().map(({ dueAt }) => dueAt)).toEqual([START + 60, START + 100, START + 60]);
});

test("one of a run is found by its id, and sent at once when its lease has ended", () => {
  const { happen, fan, claim, rows, store } = openDeliveries(2);
  happen(3);
  fan();
  claim(2, 9);
  const again = (now: number) => store.transact((tx) => resend(tx, "whd_2_2", now));
  expect(() => again(START)).toThrow("under way");
  expect(again(LEASE)).toMatchObject({ id: "whd_2_2", endpointSeq: 2, eventId: "evt_2", leased: false, dueAt: LEASE });
  expect(
    rows()
      .filter(({ endpointSeq, leased }) => endpointSeq === 2 && leased)
      .map(({ id }) => id),
  ).toEqual(["whd_1_2", "whd_3_2"]);
  for (const id of [
    "whd_4_1",
    "whd_2_3",
    "whd_2",
    "whd_2_",
    "whd__1",
    "whd_2_1e0",
    "whd_2_02",
    "whd_2_99999999999999999999",
    "'",
  ])
    expect(() => store.transact((tx) => resend(tx, id, LEASE))).toThrow(`there is no webhook delivery ${id}`);
});

/** A delivery as it has to be. */
interface Expected {
  seq: number;
  eventSeq: number;
  createdAt: number;
  /** Since when it has been delivered; null while it waits. */
  deliveredAt: number | null;
  leasedUntil: number | null;
}

const LEASE_MS = 100;
/** So that leases of different times are under way. */
const LATER_MS = 40;
const ENDPOINTS = [1, 2];
const which = fc.array(fc.boolean(), { minLength: 1, maxLength: 7 });
const step = fc.oneof(
  fc.record({ kind: fc.constant("happen" as const), wanted: which }),
  fc.record({
    kind: fc.constant("claim" as const),
    endpoint: fc.constantFrom(...ENDPOINTS),
    count: fc.integer({ min: 1, max: 6 }),
  }),
  fc.record({ kind: fc.constantFrom("deliver" as const, "release" as const), which }),
  fc.record({ kind: fc.constantFrom("forget" as const, "resend" as const), nth: fc.nat(40) }),
  fc.record({ kind: fc.constantFrom("later" as const, "restart" as const) }),
);

test("whatever happens, each delivery is there once, as itself, and is claimed in its turn", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 60 }), (steps) => {
      const { store, happen, fan, claim, due } = openDeliveries(ENDPOINTS.length, ["message.outbound"]);
      const expected = new Map(ENDPOINTS.map((endpoint): [number, Expected[]] => [endpoint, []]));
      const held: Attemptable[] = [];
      let [now, events, numbers] = [START, 0, 0];
      const all = (): [number, Expected][] =>
        ENDPOINTS.flatMap(
          (endpoint) => expected.get(endpoint)?.map((one): [number, Expected] => [endpoint, one]) ?? [],
        );
      const find = ({ endpointSeq, seq }: Pick<Attemptable, "endpointSeq" | "seq">) =>
        expected.get(endpointSeq)?.find((one) => one.seq === seq);
      const isDue = ({ deliveredAt, leasedUntil }: Expected) =>
        deliveredAt === null && (leasedUntil === null || leasedUntil <= now);
      const take = (chosen: boolean[]) => {
        const taken = held.filter((_, i) => chosen[i % chosen.length]);
        for (const one of taken) held.splice(held.indexOf(one), 1);
        return taken;
      };

      for (const one of steps) {
        if (one.kind === "happen") {
          for (const wanted of one.wanted) happen(1, wanted ? "message.outbound" : "message.inbound");
          fan(now);
          for (const endpoint of ENDPOINTS) {
            one.wanted.forEach((wanted, i) => {
              if (!wanted) return;
              const eventSeq = events + i + 1;
              expected
                .get(endpoint)
                ?.push({ seq: ++numbers, eventSeq, createdAt: now, deliveredAt: null, leasedUntil: null });
            });
          }
          events += one.wanted.length;
        } else if (one.kind === "claim") {
          const turn = expected.get(one.endpoint)?.filter(isDue).slice(0, one.count) ?? [];
          const claimed = claim(one.endpoint, one.count, now, now + LEASE_MS).map(({ delivery }) => delivery);
          expect(claimed.map(({ seq, eventSeq, eventId, id }) => [seq, eventSeq, eventId, id])).toEqual(
            turn.map(({ seq, eventSeq }) => [seq, eventSeq, `evt_${eventSeq}`, `whd_${eventSeq}_${one.endpoint}`]),
          );
          for (const of of turn) of.leasedUntil = now + LEASE_MS;
          held.push(...claimed);
        } else if (one.kind === "deliver") {
          for (const [endpoint, group] of Map.groupBy(take(one.which), ({ endpointSeq }) => endpointSeq)) {
            const attempts = group.map((delivery, i) => ({ delivery, outcome: { ...OK, response: `${i >> 1}` } }));
            store.transact((tx) => recordAttempts(tx, endpoint, attempts, { ...TERMS, now }));
            for (const delivery of group) {
              const of = find(delivery);
              if (of) Object.assign(of, { deliveredAt: of.deliveredAt ?? now, leasedUntil: null });
            }
          }
        } else if (one.kind === "release") {
          const released = take(one.which);
          store.transact((tx) => release(tx, released, now));
          for (const delivery of released) Object.assign(find(delivery) ?? {}, { leasedUntil: null });
        } else if (one.kind === "forget") {
          const eventSeq = one.nth + 1;
          store.db.$client.run("DELETE FROM events WHERE seq = ?", [eventSeq]);
          for (const [endpoint, of] of expected)
            expected.set(
              endpoint,
              of.filter((delivery) => delivery.eventSeq !== eventSeq),
            );
        } else if (one.kind === "resend") {
          const [endpoint, of] = all().filter(([, delivery]) => isDue(delivery))[one.nth] ?? [];
          if (!of) continue;
          store.transact((tx) => resend(tx, `whd_${of.eventSeq}_${endpoint}`, now));
          of.leasedUntil = null;
        } else if (one.kind === "later") {
          now += LATER_MS;
        } else {
          const leased = all().filter(([, { leasedUntil }]) => leasedUntil !== null);
          store.transact((tx) => releaseLeases(tx, now));
          for (const [, of] of leased) of.leasedUntil = null;
        }
        for (const endpoint of ENDPOINTS) {
          const list = (limit?: number) =>
            listDeliveries(
              store.db,
              requireEndpoint(store.db, `whk_${endpoint}`),
              limit === undefined ? {} : { limit },
            );
          const wanted = expected.get(endpoint)?.toReversed() ?? [];
          expect(
            list().map(({ seq, id, leased, dueAt, finishedAt }) => ({ seq, id, leased, dueAt, finishedAt })),
          ).toEqual(
            wanted.map(({ seq, eventSeq, createdAt, deliveredAt, leasedUntil }) => ({
              ...{ seq, id: `whd_${eventSeq}_${endpoint}`, leased: leasedUntil !== null, finishedAt: deliveredAt },
              dueAt: deliveredAt === null ? (leasedUntil ?? createdAt) : null,
            })),
          );
          expect(list(3).map(({ seq }) => seq)).toEqual(wanted.slice(0, 3).map(({ seq }) => seq));
          if (wanted.some(isDue)) expect(due(now)).toContain(endpoint);
        }
      }
    }),
    { numRuns: 40 },
  );
});
