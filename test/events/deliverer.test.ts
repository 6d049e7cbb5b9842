/** The deliverer on a real store and real sockets: how it stops, and how endpoints share slots. */
import { expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { type Runtime, systemRuntime } from "../../src/base/runtime.ts";
import { createScheduler } from "../../src/base/scheduler.ts";
import { createDeliverer } from "../../src/events/deliverer.ts";
import { hasNewEvents, rescheduleEndpoint } from "../../src/events/delivery-queue.ts";
import { setEndpointDisabled } from "../../src/events/endpoints.ts";
import { openHttpClient } from "../../src/net/http-client.ts";
import type { Store } from "../../src/store/store.ts";
import { type Receiver, startReceiver } from "../harness/peers/receiver.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";
import { openDeliveries } from "./delivery-rig.ts";

type Rig = ReturnType<typeof openDeliveries>;

/** Every endpoint of the rig leads to the receiver, with a path of its own. */
function leadTo(receiver: Receiver, { store }: Rig): void {
  store.db.$client.run("UPDATE webhook_endpoints SET url = ? || '/' || seq", [receiver.url]);
}

/** A deliverer under the scheduler, which wakes it when more is due. `clock`: replaces the one that stands still. */
function deliver({ store }: Rig, mostSlots = 192, clock: Partial<Runtime> = {}) {
  const runtime = fakeRuntime(clock);
  const log = createLog("error", runtime.now, () => {});
  const scheduler = createScheduler(runtime, log);
  const core = { ...coreOver(store, runtime), log, wake: () => scheduler.wake() };
  const http = openHttpClient({ runtime, allow: () => ["127.0.0.0/8"] });
  const deliverer = createDeliverer(core, { http, mostSlots });
  scheduler.add([deliverer.job]);
  scheduler.start();
  return deliverer;
}

/** A receiver whose first response is OK, and whose others wait for `release`. */
function startHeld() {
  const receiver = startReceiver();
  const held = Promise.withResolvers<void>();
  receiver.answer = (_, nth) => (nth === 1 ? new Response("ok") : held.promise.then(() => new Response("ok")));
  return { receiver, release: held.resolve };
}

test("a stop lets attempts end, gives back what was claimed ahead, and the next start sends nothing twice", async () => {
  const rig = openDeliveries(1);
  const { receiver, release } = startHeld();
  leadTo(receiver, rig);
  rig.happen(20);
  const first = deliver(rig);
  await receiver.waitFor(9);
  expect(rig.rows().filter(({ leased }) => leased)).toHaveLength(19);
  const stopped = first.stop(60_000);
  release();
  await stopped;
  expect(rig.rows().map(({ state, leased }) => [state, leased])).toEqual(
    Array.from({ length: 20 }, (_, i) => [i < 9 ? "delivered" : "pending", false]),
  );
  const second = deliver(rig);
  await receiver.waitFor(20);
  await second.stop(60_000);
  expect(rig.rows().every(({ state, attempts }) => state === "delivered" && attempts === 1)).toBeTrue();
  expect(new Set(receiver.hooks.map(({ headers }) => headers.get("webhook-id"))).size).toBe(20);
  expect(receiver.hooks).toHaveLength(20);
});

test("a stop without grace gives attempts under way back, uncounted, and records those that ended", async () => {
  const rig = openDeliveries(1);
  const { receiver } = startHeld();
  leadTo(receiver, rig);
  rig.happen(20);
  const deliverer = deliver(rig);
  await receiver.waitFor(9);
  await deliverer.stop(0);
  expect(rig.rows().map(({ state, leased, attempts }) => [state, leased, attempts])).toEqual(
    Array.from({ length: 20 }, (_, i) => (i === 0 ? ["delivered", false, 1] : ["pending", false, 0])),
  );
  expect(rig.due(START)).toEqual([1]);
});

test("deliveries that a killed process had claimed are attempted at the next start", async () => {
  const rig = openDeliveries(1);
  const receiver = startReceiver();
  leadTo(receiver, rig);
  rig.happen(3);
  rig.fan();
  expect(rig.claim(1, 2)).toHaveLength(2);
  const deliverer = deliver(rig);
  await receiver.waitFor(3);
  await deliverer.stop(60_000);
  expect(rig.rows().every(({ state, attempts }) => state === "delivered" && attempts === 1)).toBeTrue();
});

test("endpoints that compete for slots take turns, even when many deliveries wait for one", async () => {
  const rig = openDeliveries(6);
  const receiver = startReceiver();
  leadTo(receiver, rig);
  // A quarter of the slots, two, for each kind of endpoint. On a busy machine there can be endpoints of all three kinds.
  let [now, most] = [0, 0];
  receiver.answer = async () => {
    most = Math.max(most, ++now);
    await Bun.sleep(2);
    now--;
    return new Response("ok");
  };
  rig.happen(30);
  const deliverer = deliver(rig, 8, { now: Date.now, setTimer: systemRuntime().setTimer });
  await receiver.waitFor(180);
  await deliverer.stop(60_000);
  expect(rig.rows().every(({ state, attempts }) => state === "delivered" && attempts === 1)).toBeTrue();
  expect(most).toBeLessThanOrEqual(6);
  const paths = receiver.hooks.map(({ path }) => path);
  const half = Map.groupBy(paths.slice(0, 90), (path) => path);
  expect(half.size).toBe(6);
  for (const hooks of half.values()) expect(hooks.length).toBeWithin(8, 24);
});

test("endpoints that are being swept do not take the turns of others", async () => {
  const rig = openDeliveries(20);
  const receiver = startReceiver();
  leadTo(receiver, rig);
  rig.happen(60);
  while (hasNewEvents(rig.store.db)) rig.fan();
  // More endpoints than one turn claims for, each with more deliveries to fail than one turn sweeps.
  const many = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
    INSERT INTO webhook_deliveries (id, endpoint_seq, event_seq, event_id, event, state, due_at, created_at)
    SELECT 'whd_' || e.seq || '_' || i, e.seq, 1, 'evt_1', 'message.outbound', 'pending', 1, 1
    FROM webhook_endpoints e, n WHERE e.seq < 20`;
  rig.store.db.$client.run(many);
  rig.store.transact((tx) => {
    for (let seq = 1; seq < 20; seq++) {
      setEndpointDisabled(tx, { seq }, START, false);
      rescheduleEndpoint(tx, seq, 1);
    }
  });
  let [turns, firstClaim] = [0, 0];
  const enqueue: Store["enqueue"] = async (work) => {
    const done = await rig.store.enqueue(work);
    turns++;
    const leased = rig.store.db.$client.query(
      "SELECT 1 FROM webhook_deliveries WHERE due_at IS NOT NULL AND leased = 1",
    );
    if (firstClaim === 0 && leased.get() !== null) firstClaim = turns;
    return done;
  };
  const deliverer = deliver({ ...rig, store: { ...rig.store, enqueue } });
  await receiver.waitFor(60);
  await deliverer.idle();
  await deliverer.stop(60_000);
  // The first two commits look for strays and for leases of the process before.
  expect(firstClaim).toBe(3);
  expect(new Set(receiver.hooks.map(({ path }) => path)).size).toBe(1);
  expect(rig.rows().filter(({ state }) => state === "pending")).toEqual([]);
});

test("a delivery that becomes due during a look is claimed at once", async () => {
  for (let ms = 0; ms < 16; ms++) {
    const rig = openDeliveries(1);
    rig.happen();
    rig.fan(START + ms);
    let now = START;
    const runtime = fakeRuntime({ now: () => now++ });
    let sent = false;
    const deliverer = createDeliverer(coreOver(rig.store, runtime), {
      mostSlots: 8,
      http: {
        send: async () => {
          sent = true;
          return new Response("ok");
        },
        within: (_, work) => work(new AbortController().signal),
        close: () => {},
      },
    });
    const next = await deliverer.job.runDue(START, false);
    expect([ms, sent || next === START + ms]).toEqual([ms, true]);
    await deliverer.stop(0);
  }
});

test("an endpoint whose failure cannot be recorded gets the rest of what was claimed for it", async () => {
  const rig = openDeliveries(1);
  const receiver = startReceiver();
  leadTo(receiver, rig);
  rig.happen(20);
  let broken = 0;
  // All attempts under way fail, and no outcome is recorded.
  receiver.answer = (_, nth) => {
    if (nth < 2 || nth > 9) return new Response("ok");
    if (nth === 9) broken = 8;
    return new Response("no", { status: 500 });
  };
  const enqueue: Store["enqueue"] = (work) =>
    broken-- > 0 ? Promise.reject(new Error("no such row")) : rig.store.enqueue(work);
  const runtime = fakeRuntime();
  const core = {
    ...coreOver({ ...rig.store, enqueue }, runtime),
    wake: () => void Promise.resolve().then(run),
  };
  const http = openHttpClient({ runtime, allow: () => ["127.0.0.0/8"] });
  const deliverer = createDeliverer(core, { http, mostSlots: 192 });
  // The scheduler runs the job again after an error.
  const run = async (): Promise<void> => {
    await Promise.resolve(deliverer.job.runDue(START)).catch(() => Bun.sleep(5).then(run));
  };
  await run();
  await receiver.waitFor(20);
  await deliverer.stop(60_000);
  expect(new Set(receiver.hooks.map(({ headers }) => headers.get("webhook-id"))).size).toBe(20);
});
