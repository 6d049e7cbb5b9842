/** The outcome of an attempt, as a table: every kind of delivery, at every kind of endpoint. */
import { describe, expect, test } from "bun:test";
import type { AttemptOutcome } from "../../src/events/delivery.ts";
import { decideDeliveryState, endpointHealthAfter } from "../../src/events/delivery-outcome.ts";
import type { Delivery } from "../../src/events/delivery-queue.ts";
import type { Endpoint } from "../../src/events/endpoints.ts";

const NOW = 1_000_000;
const TERMS = { now: NOW, retrySeconds: [60, 300] };

const delivery = (given: Partial<Delivery> = {}): Delivery => ({
  ...{ seq: 5, id: "whd_1", endpointSeq: 1, eventSeq: 1, eventId: "evt_1", event: "message.inbound", sample: null },
  ...{ state: "pending", attempts: 0, dueAt: NOW, leased: true, status: null, response: null, error: null },
  ...{ createdAt: 0, finishedAt: null, urgent: false },
  ...given,
});
const endpoint = (given: Partial<Endpoint> = {}): Endpoint => ({
  ...{
    seq: 1,
    id: "whk_1",
    workspaceId: "wsp_1",
    url: "https://example.com/",
    description: "",
    events: [],
    mailboxes: null,
    madeBy: null,
    secret: "",
  },
  ...{ previousSecret: null, previousUntil: null, state: "active", createdAt: 0, disabledAt: null, exhausted: 0 },
  ...{ health: "proven", afterEvent: 0, voidThrough: 0, sweeping: false, telling: false, dueAt: null },
  ...given,
});

const OK: AttemptOutcome = { ok: true, status: 200, response: "ok", ms: 5 };
const BAD: AttemptOutcome = { ok: false, status: 500, response: "no", error: "answered 500", ms: 5 };
const REFUSED: AttemptOutcome = { ok: false, refused: true, error: "10.0.0.1 is private", ms: 0 };

const disabled = endpoint({ state: "disabled", disabledAt: 1, voidThrough: 9 });
const enabledSince = endpoint({ voidThrough: 5 });
const done = (state: Delivery["state"]) => delivery({ state, attempts: 3, finishedAt: 1 });
const sample = delivery({ eventSeq: null, sample: "{}" });

type Case = [
  name: string,
  of: Delivery,
  at: Endpoint,
  outcome: AttemptOutcome,
  state: string,
  dueIn: number | null,
  counts: boolean,
];

const CASES: Case[] = [
  ["2xx", delivery(), endpoint(), OK, "delivered", null, false],
  ["2xx at the last attempt", delivery({ attempts: 2 }), endpoint(), OK, "delivered", null, false],
  ["2xx at a disabled endpoint", delivery(), disabled, OK, "delivered", null, false],
  ["a first failure", delivery(), endpoint(), BAD, "retrying", 60_000, false],
  ["a second failure", delivery({ attempts: 1 }), endpoint(), BAD, "retrying", 300_000, false],
  ["the last failure", delivery({ attempts: 2 }), endpoint(), BAD, "failed", null, true],
  ["a failure after the schedule was shortened", delivery({ attempts: 6 }), endpoint(), BAD, "failed", null, true],
  ["a refusal", delivery(), endpoint(), REFUSED, "failed", null, true],
  ["a refusal at a disabled endpoint", delivery(), disabled, REFUSED, "failed", null, false],
  ["a failure at a disabled endpoint", delivery(), disabled, BAD, "failed", null, false],
  ["the last failure at a disabled endpoint", delivery({ attempts: 2 }), disabled, BAD, "failed", null, false],
  ["a failure of what waited while it was disabled", delivery(), enabledSince, BAD, "failed", null, false],
  ["a failure of what came after that", delivery({ seq: 6 }), enabledSince, BAD, "retrying", 60_000, false],
  ["a replay that succeeds", done("failed"), endpoint(), OK, "delivered", null, false],
  ["a replay of a failed one that fails", done("failed"), endpoint(), BAD, "failed", null, false],
  ["a replay of a delivered one that fails", done("delivered"), endpoint(), BAD, "delivered", null, false],
  ["a replay that is refused", done("failed"), endpoint(), REFUSED, "failed", null, false],
  ["a test that fails", sample, endpoint(), BAD, "failed", null, false],
  ["a test that is refused", sample, endpoint(), REFUSED, "failed", null, false],
  ["a test that succeeds", sample, disabled, OK, "delivered", null, false],
];

describe("the delivery", () => {
  for (const [name, of, at, outcome, state, dueIn, counts] of CASES) {
    test(name, () => {
      const { settled, counts: counted } = decideDeliveryState(of, at, outcome, TERMS);
      const dueAt = dueIn === null ? null : NOW + dueIn;
      expect([settled.state, settled.dueAt, counted]).toEqual([state as Delivery["state"], dueAt, counts]);
      expect(settled.finishedAt).toBe(dueAt === null ? NOW : null);
      expect([settled.status, settled.response]).toEqual([outcome.status ?? null, outcome.response ?? null]);
    });
  }

  test("that fails after its endpoint was disabled has both reasons", () => {
    const { settled } = decideDeliveryState(delivery(), disabled, BAD, TERMS);
    expect(settled.error).toBe("answered 500; the endpoint was disabled");
  });
});

test("the health of the endpoint", () => {
  const TIMEOUT_MS = 10_000;
  const hung = { ok: false, error: "no complete answer", ms: TIMEOUT_MS };
  const healths = [OK, { ...OK, ms: 1_001 }, BAD, { ...BAD, ms: 1_001 }, hung, { ...hung, status: 200 }].map(
    (outcome) => endpointHealthAfter(outcome, "unproven", TIMEOUT_MS),
  );
  expect(healths).toEqual(["proven", "slow", "unproven", "slow", "failing", "failing"]);
  expect([endpointHealthAfter(OK, "failing", TIMEOUT_MS), endpointHealthAfter(BAD, "failing", TIMEOUT_MS)]).toEqual([
    "proven",
    "failing",
  ]);
});
