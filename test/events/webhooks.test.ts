/** Webhooks from outside: receivers on sockets, and a clock that stands until moved (rules: Events). */
import { describe, expect, spyOn, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as outbound from "../../src/admin/outbound.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { unavailable } from "../../src/base/errors.ts";
import { type Hook, startReceiver } from "../harness/peers/receiver.ts";
import { START } from "../harness/runtime.ts";
import { openRig, WITH_MX } from "../harness/servers/webhook-rig.ts";
import { until } from "../harness/until.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const FAILS = () => new Response("not now", { status: 503 });
const bodyOf = (hook: Hook | undefined) => JSON.parse(hook?.body ?? "null");
const attemptsOf = (hooks: readonly Hook[]) => hooks.map(({ headers }) => headers.get("x-service-attempt"));

describe("an event is delivered", () => {
  test("as soon as mail arrives, in its envelope and with its headers", async () => {
    const { receive, arrive, settled, log, owner } = await openRig({}, WITH_MX);
    const receiver = receive(["message.inbound"]);
    await arrive("Hello");
    await settled();
    const [hook, ...more] = receiver.hooks;
    expect(more).toEqual([]);
    const { id, ...envelope } = bodyOf(hook);
    expect(envelope).toEqual({
      event: "message.inbound",
      createdAt: "2026-01-05T09:00:00.000Z",
      data: expect.objectContaining({ mailboxId: owner.mailboxId, subject: "Hello", cc: [], inReplyTo: null }),
    });
    expect(Object.fromEntries(hook?.headers ?? [])).toMatchObject({
      "content-type": "application/json",
      "x-service-event": "message.inbound",
      "x-service-delivery": id,
      "x-service-attempt": "1",
      "x-service-timestamp": String(START / 1_000),
      "x-service-signature": expect.stringMatching(new RegExp(`^t=${START / 1_000},v1=[0-9a-f]{64}$`)),
      "webhook-id": id,
      "webhook-timestamp": String(START / 1_000),
      "webhook-signature": expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
    });
    expect(log(receiver.id)).toMatchObject([
      { eventId: id, state: "delivered", attempts: 1, status: 200, response: "ok", error: null, finishedAt: START },
    ]);
  });

  test("to each endpoint of the workspace that chose its kind, from the time the endpoint was added", async () => {
    const { receive, happen, settled, core, opened, add, owner } = await openRig();
    happen("message.inbound");
    const [all, bounces] = [receive(), receive(["message.bounced", "message.complaint"])];
    const elsewhere = startReceiver();
    const other = core.store.transact((tx) => workspaceAdmin.addWorkspace(opened.core, tx, "Other").id);
    add(elsewhere.url, undefined, other);
    expect(other).not.toBe(owner.workspaceId);
    for (const event of ["message.outbound", "message.bounced", "message.delivered"] as const) happen(event);
    await settled();
    const told = (hooks: Hook[]) => hooks.map(({ headers }) => headers.get("x-service-event")).sort();
    expect(told(all.hooks)).toEqual(["message.bounced", "message.delivered", "message.outbound"]);
    expect(told(bounces.hooks)).toEqual(["message.bounced"]);
    expect(elsewhere.hooks).toEqual([]);
  });

  test("within two seconds to an endpoint that a command adds beside the server", async () => {
    const { receive, happen, advance } = await openRig();
    const receiver = receive();
    happen("message.inbound");
    await advance(2_000);
    expect(receiver.hooks).toHaveLength(1);
  });
});

describe("the schedule", () => {
  test("makes seven attempts, 0, 1, 5 and 30 minutes, 2, 6 and 12 hours after one another, to the second", async () => {
    const { receive, happen, advance, settled, log, runtime, opened } = await openRig();
    const receiver = receive();
    receiver.answer = FAILS;
    const id = happen("message.outbound");
    await settled();
    expect(log(receiver.id)).toMatchObject([{ state: "retrying", attempts: 1, dueAt: START + MINUTE_MS, status: 503 }]);
    for (const [i, seconds] of [60, 300, 1_800, 7_200, 21_600, 43_200].entries()) {
      await advance(seconds * 1_000 - 1);
      expect(receiver.hooks).toHaveLength(i + 1);
      await advance(1);
      expect(receiver.hooks).toHaveLength(i + 2);
    }
    const last = { state: "failed", attempts: 7, dueAt: null, error: "answered 503", finishedAt: runtime.now() };
    expect(log(receiver.id)).toMatchObject([last]);
    await advance(7 * DAY_MS);
    expect(attemptsOf(receiver.hooks)).toEqual(["1", "2", "3", "4", "5", "6", "7"]);

    // The same bytes under the same id, each signed afresh.
    expect(new Set(receiver.hooks.map(({ body }) => body)).size).toBe(1);
    expect(new Set(receiver.hooks.map(({ headers }) => headers.get("x-service-delivery")))).toEqual(new Set([id]));
    expect(new Set(receiver.hooks.map(({ headers }) => headers.get("x-service-signature"))).size).toBe(7);
    const first = START / 1_000;
    const sums = [0, 60, 360, 2_160, 9_360, 30_960, 74_160].map((seconds) => String(first + seconds));
    expect(receiver.hooks.map(({ headers }) => headers.get("x-service-timestamp"))).toEqual(sums);
    expect(developers.getWebhookEndpoint(opened.core, receiver.id).exhausted).toBe(1);
  });

  test("follows the setting, in fractions of seconds too", async () => {
    const { receive, happen, advance, settled, log } = await openRig({ "webhooks.retrySeconds": "0.5,2" });
    const receiver = receive();
    receiver.answer = FAILS;
    happen("message.outbound");
    await settled();
    await advance(500);
    await advance(2_000);
    await advance(DAY_MS);
    expect(attemptsOf(receiver.hooks)).toEqual(["1", "2", "3"]);
    expect(log(receiver.id)).toMatchObject([{ state: "failed" }]);
  });

  test("an attempt that hangs does not delay retries of the same endpoint", async () => {
    const { receive, happen, advance, settled, runtime } = await openRig();
    const receiver = receive();
    const answers = [FAILS, () => new Response("ok"), () => new Promise<Response>(() => {})];
    receiver.answer = (_, nth) => answers[nth - 1]?.() ?? new Response("ok");
    happen("message.outbound");
    await settled();
    await advance(MINUTE_MS - 5_000);
    happen("message.outbound");
    happen("message.outbound");
    await receiver.waitFor(3);
    runtime.advanceTo(START + MINUTE_MS);
    await receiver.waitFor(4);
    expect(runtime.now()).toBe(START + MINUTE_MS);
    expect(attemptsOf(receiver.hooks)).toEqual(["1", "1", "1", "2"]);
    receiver.stop();
    await settled();
  });

  test("ends with any 2xx response", async () => {
    const { receive, happen, advance, settled, log } = await openRig();
    const receiver = receive();
    receiver.answer = (_, nth) => new Response(null, { status: nth === 1 ? 500 : 204 });
    happen("message.outbound");
    await settled();
    await advance(MINUTE_MS);
    expect(log(receiver.id)).toMatchObject([
      { state: "delivered", attempts: 2, status: 204, response: "", error: null },
    ]);
  });

  const FAILURES: [name: string, answer: () => Response, row: object][] = [
    ["404", () => new Response("gone", { status: 404 }), { status: 404, response: "gone", error: "answered 404" }],
    [
      "a redirect, which is not followed",
      () => new Response(null, { status: 302, headers: { location: "/elsewhere" } }),
      { status: 302, error: "answered 302, and redirects are not followed" },
    ],
  ];
  for (const [name, answer, row] of FAILURES) {
    test(`${name} is retried`, async () => {
      const { receive, happen, settled, log } = await openRig();
      const receiver = receive();
      receiver.answer = answer;
      happen("message.outbound");
      await settled();
      expect(log(receiver.id)).toMatchObject([{ state: "retrying", attempts: 1, ...row }]);
      expect(receiver.hooks.map(({ path }) => path)).toEqual(["/hook"]);
    });
  }

  test("a failed connection is retried", async () => {
    const { receive, happen, settled, log } = await openRig();
    const receiver = receive();
    receiver.stop();
    happen("message.outbound");
    await settled();
    expect(log(receiver.id)).toMatchObject([
      { state: "retrying", attempts: 1, status: null, response: null, error: "connection refused" },
    ]);
  });

  test("a response that is incomplete after ten seconds is retried", async () => {
    const { receive, happen, settled, log, runtime } = await openRig();
    const receiver = receive();
    receiver.answer = () => new Promise(() => {});
    happen("message.outbound");
    await receiver.waitFor(1);
    runtime.advanceTo(START + 9_999);
    expect(log(receiver.id)).toMatchObject([{ state: "pending", leased: true, attempts: 0 }]);
    runtime.advanceTo(START + 10_000);
    await settled();
    const error = "no complete answer within 10 seconds";
    expect(log(receiver.id)).toMatchObject([
      { state: "retrying", attempts: 1, error, dueAt: START + 10_000 + MINUTE_MS },
    ]);
  });

  test("a destination that is refused fails at once", async () => {
    const { receive, happen, settled, log, core, opened } = await openRig();
    const receiver = receive();
    core.store.transact((tx) => core.options.set(tx, "webhooks.allowNetworks", "none"));
    happen("message.outbound");
    await settled();
    const [row] = log(receiver.id);
    expect(row).toMatchObject({ state: "failed", attempts: 1, status: null, finishedAt: START });
    expect(row?.error).toContain("loopback");
    expect(receiver.hooks).toEqual([]);
    expect(developers.getWebhookEndpoint(opened.core, receiver.id).exhausted).toBe(1);
  });

  test("4 KiB of the response are kept", async () => {
    const { receive, happen, settled, log } = await openRig();
    const receiver = receive();
    receiver.answer = () => new Response("é".repeat(10_000));
    happen("message.outbound");
    await settled();
    expect(log(receiver.id)).toMatchObject([{ state: "delivered", response: "é".repeat(2_048) }]);
  });
});

describe("an endpoint that fails", () => {
  const ONE_ATTEMPT = { "webhooks.retrySeconds": "1" };

  /** Lets `count` deliveries fail, or succeed. */
  async function exhaust(rig: Awaited<ReturnType<typeof openRig>>, count: number): Promise<void> {
    for (let i = 0; i < count; i++) rig.happen("message.outbound");
    await rig.settled();
    await rig.advance(1_000);
  }

  test("is disabled after 15 deliveries in a row, and its admins are mailed once", async () => {
    const rig = await openRig({ ...ONE_ATTEMPT, "sending.mailboxPerHour": "0", "sending.workspacePerHour": "0" });
    const { opened, receive, owner, api, advance, log } = rig;
    const { core } = opened;
    const { store } = core;
    store.transact((tx) => {
      const added = { workspaceId: owner.workspaceId, name: "Somebody", ownMailbox: true } as const;
      people.addUser(core, tx, { ...added, email: "bob@example.test", role: "admin" });
      people.addUser(core, tx, { ...added, email: "max@example.test", role: "member" });
      workspaceAdmin.pauseWorkspace(tx, owner.workspaceId, "Nothing leaves");
    });
    const receiver = receive();
    receiver.answer = FAILS;
    await exhaust(rig, 14);
    expect(developers.getWebhookEndpoint(core, receiver.id)).toMatchObject({ state: "active", exhausted: 14 });
    await exhaust(rig, 1);
    expect(developers.getWebhookEndpoint(core, receiver.id)).toMatchObject({ state: "disabled", exhausted: 15 });
    // A disabled endpoint gets no events, also none about the notice.
    await exhaust(rig, 3);
    await advance(DAY_MS);
    expect(log(receiver.id)).toHaveLength(15);
    expect(receiver.hooks).toHaveLength(30);

    const { body } = await api.get<{ threads: { mailbox: string; id: string; subject: string }[] }>("/threads");
    expect(body.threads.map(({ mailbox }) => mailbox).sort()).toEqual(["alice@example.test", "bob@example.test"]);
    const detail = await api.get<{ messages: Record<string, unknown>[] }>(`/threads/${body.threads[0]?.id}`);
    expect(detail.body.messages).toMatchObject([
      {
        from: { email: "postmaster@example.test" },
        to: [{ email: "alice@example.test" }, { email: "bob@example.test" }],
        subject: expect.stringContaining("Webhook switched off: 127.0.0.1"),
        text: expect.stringContaining(`mailroom webhook enable ${receiver.id}`),
      },
    ]);
    // The notice has no Sent copy, and no event about its sending or delivery.
    const names = store.db.$client.query("SELECT DISTINCT event FROM events ORDER BY event").values().flat();
    expect(names).toEqual(["message.inbound", "message.outbound"]);
    const counted = store.db.$client.query("SELECT sum(recipients) FROM outbound_messages").values().flat();
    expect(counted).toEqual([0]);
  });

  test("is disabled with its waiting deliveries: they fail, uncounted, and stay failed when it is enabled", async () => {
    const rig = await openRig({ "webhooks.disableAfter": "1" });
    const { receive, happen, settled, log, core, opened, advance, runtime } = rig;
    const receiver = receive();
    receiver.answer = FAILS;
    const first = happen("message.outbound");
    await settled();
    for (const seconds of [60, 300, 1_800, 7_200, 21_600]) await advance(seconds * 1_000);
    happen("message.inbound");
    happen("message.inbound");
    await settled();
    await advance(43_200_000 - 1);
    expect(log(receiver.id).map(({ state }) => state)).toEqual(["retrying", "retrying", "retrying"]);
    await advance(1);
    const disabledAt = runtime.now();
    expect(developers.getWebhookEndpoint(opened.core, receiver.id)).toMatchObject({
      state: "disabled",
      disabledAt,
      exhausted: 1,
    });
    expect(log(receiver.id)).toMatchObject([
      { eventId: first, state: "failed", error: "answered 503" },
      { state: "failed", error: "the endpoint was disabled", dueAt: null, finishedAt: disabledAt },
      { state: "failed", error: "the endpoint was disabled", dueAt: null, finishedAt: disabledAt },
    ]);
    const attempts = receiver.hooks.length;
    core.store.transact((tx) => developers.enableWebhook(tx, receiver.id));
    expect(developers.getWebhookEndpoint(opened.core, receiver.id)).toMatchObject({
      state: "active",
      exhausted: 0,
      disabledAt: null,
    });
    await advance(7 * DAY_MS);
    expect(receiver.hooks).toHaveLength(attempts);
    // The endpoint gets later events again.
    receiver.answer = () => new Response("ok");
    happen("message.complaint");
    await settled();
    expect(log(receiver.id).at(-1)).toMatchObject({ event: "message.complaint", state: "delivered" });
  });

  test("may be disabled while the deliverer works: the deliverer sweeps its waiting deliveries, and ends", async () => {
    const { add, happen, settled, log, opened } = await openRig();
    const { core } = opened;
    const { store } = core;
    const receiver = startReceiver();
    // One endpoint more than one turn claims for: the last is due, and not claimed.
    const ids = Array.from({ length: 17 }, () => add(receiver.url).id);
    const last = ids.at(-1) ?? "";
    const stopListening = store.onCommit(() => {
      if (log(last).length === 0) return;
      stopListening();
      queueMicrotask(() => store.transact((tx) => developers.disableWebhook(core, tx, last)));
    });
    happen("message.outbound");
    await settled();
    expect(log(last)).toMatchObject([{ state: "failed", attempts: 0, error: "the endpoint was disabled" }]);
    expect(log(ids[0] ?? "")).toMatchObject([{ state: "delivered" }]);
    expect(receiver.hooks).toHaveLength(16);
    receiver.stop();
  });

  test("counts from zero after a success, and after it was enabled", async () => {
    const rig = await openRig({ ...ONE_ATTEMPT, "webhooks.disableAfter": "3" });
    const { receive, core, opened } = rig;
    const receiver = receive();
    const exhausted = () => developers.getWebhookEndpoint(opened.core, receiver.id).exhausted;
    receiver.answer = FAILS;
    await exhaust(rig, 2);
    expect(exhausted()).toBe(2);
    receiver.answer = () => new Response("ok");
    await exhaust(rig, 1);
    expect(exhausted()).toBe(0);
    receiver.answer = FAILS;
    await exhaust(rig, 2);
    expect(developers.getWebhookEndpoint(opened.core, receiver.id)).toMatchObject({ state: "active", exhausted: 2 });
    await exhaust(rig, 1);
    expect(developers.getWebhookEndpoint(opened.core, receiver.id)).toMatchObject({ state: "disabled", exhausted: 3 });
    core.store.transact((tx) => developers.enableWebhook(tx, receiver.id));
    await exhaust(rig, 2);
    expect(developers.getWebhookEndpoint(opened.core, receiver.id)).toMatchObject({ state: "active", exhausted: 2 });
  });

  test("is reported to an admin without a mailbox here, too; no further notice follows one that bounces", async () => {
    const rig = await openRig({ ...ONE_ATTEMPT, "webhooks.disableAfter": "1", "smtp.relay": "smtp://127.0.0.1:1" });
    const { core, opened, receive, owner, advance } = rig;
    const { store } = core;
    store.transact((tx) => {
      const far = { workspaceId: owner.workspaceId, email: "far@remote.example", name: "Far", role: "admin" } as const;
      people.addUser(core, tx, { ...far, ownMailbox: false });
      core.options.set(tx, "smtp.retrySeconds", "1");
    });
    receive().answer = FAILS;
    await exhaust(rig, 1);
    const [waiting] = [...outbound.listQueue(opened.core)];
    expect(waiting).toMatchObject({ recipient: "far@remote.example", mailbox: "postmaster@example.test" });
    await advance(10_000);
    expect([...outbound.listQueue(opened.core)]).toEqual([]);
    const bounced = store.db.$client.query("SELECT count(*) FROM events WHERE event = 'message.bounced'").values();
    expect(bounced.flat()).toEqual([0]);
    expect(outbound.listSuppressions(opened.core)).toEqual([]);
  });
});

describe("isolation", () => {
  test("an endpoint that hangs delays no other, and gets one attempt at a time", async () => {
    const { receive, happen, runtime, log, settled } = await openRig();
    const [hanging, working] = [receive(), receive()];
    hanging.answer = () => new Promise(() => {});
    for (let i = 0; i < 100; i++) happen("message.outbound");
    await working.waitFor(100);
    await hanging.waitFor(1);
    runtime.advanceTo(runtime.now() + 10_000);
    await hanging.waitFor(2);
    expect(hanging.hooks).toHaveLength(2);
    expect(log(hanging.id).filter(({ leased }) => leased).length).toBeLessThan(4);
    hanging.stop();
    await settled();
  });

  test("more hanging endpoints than slots delay a working one by a second, once", async () => {
    const { add, receive, happen, log, runtime, settled } = await openRig();
    const hanging = startReceiver();
    hanging.answer = () => new Promise(() => {});
    // 32 slots are for attempts that have not taken long.
    const endpoints = Array.from({ length: 60 }, () => add(hanging.url));
    const working = receive();
    happen("message.outbound");
    await hanging.waitFor(32);
    expect(working.hooks).toEqual([]);
    // No further endpoint finds a slot until those that hang count as slow. The scheduler looks at other processes' work before.
    for (const at of [START + 600, START + 1_000]) {
      await until(() => runtime.timers().includes(at));
      runtime.advanceTo(at);
    }
    await until(() => log(working.id)[0]?.state === "delivered");
    await hanging.waitFor(60);
    // Once they count as slow, they hold up no other.
    runtime.advanceTo(START + 20_000);
    await until(() => endpoints.every(({ id }) => log(id)[0]?.attempts === 1));
    for (let i = 2; i < 10; i++) {
      happen("message.outbound");
      await working.waitFor(i);
    }
    hanging.stop();
    await settled();
  });

  test("new endpoints that hang do not delay one that has worked", async () => {
    const { add, receive, happen, log, settled } = await openRig();
    const working = receive();
    happen("message.outbound");
    await settled();
    const hanging = startReceiver();
    hanging.answer = () => new Promise(() => {});
    for (let i = 0; i < 60; i++) add(hanging.url);
    happen("message.outbound");
    await hanging.waitFor(32);
    await until(() => log(working.id).every(({ state }) => state === "delivered"));
    expect(hanging.hooks).toHaveLength(32);
    hanging.stop();
    await settled();
  });

  test("an endpoint that works gets at most eight attempts at a time", async () => {
    const { receive, happen, settled, log } = await openRig();
    const receiver = receive();
    let [now, most] = [0, 0];
    // The first response proves that it works; the next eight wait for one another.
    const eight = receiver.waitFor(9);
    receiver.answer = async (_, nth) => {
      most = Math.max(most, ++now);
      if (nth > 1) await eight;
      now--;
      return new Response("ok");
    };
    for (let i = 0; i < 300; i++) happen("message.outbound");
    await settled();
    expect(most).toBe(8);
    expect(new Set(receiver.hooks.map(({ headers }) => headers.get("webhook-id"))).size).toBe(300);
    expect(receiver.hooks).toHaveLength(300);
    expect(log(receiver.id).every(({ state, attempts }) => state === "delivered" && attempts === 1)).toBeTrue();
  });
});

test("a delivery claimed for an endpoint that then became slow is sent once, even if its lease runs out first", async () => {
  const { receive, happen, runtime, settled } = await openRig();
  const receiver = receive();
  const held: (() => void)[] = [];
  receiver.answer = (_, nth) => {
    if (nth <= 8) return new Response("ok");
    return new Promise((resolve) => held.push(() => resolve(new Response("ok"))));
  };
  const count = 700;
  for (let i = 0; i < count; i++) happen("message.outbound");
  while (receiver.hooks.length < count) {
    const open = Math.min(8, count - receiver.hooks.length + held.length);
    await until(() => {
      // Outcomes wait to be recorded together.
      runtime.advanceTo(runtime.now() + 1);
      return held.length >= open;
    });
    runtime.advanceTo(runtime.now() + 9_000);
    for (const answer of held.splice(0)) answer();
  }
  receiver.answer = () => new Response("ok");
  for (const answer of held.splice(0)) answer();
  await settled();
  expect(new Set(receiver.hooks.map(({ headers }) => headers.get("webhook-id"))).size).toBe(count);
  expect(receiver.hooks).toHaveLength(count);
});

test("an outcome that cannot be recorded on a full disk is recorded later, without a second attempt", async () => {
  const { receive, happen, settled, log, core, runtime } = await openRig();
  const { store } = core;
  const enqueue = spyOn(store, "enqueue");
  const receiver = receive();
  const full = Promise.withResolvers<void>();
  receiver.answer = () => {
    enqueue.mockImplementation(async () => {
      full.resolve();
      throw unavailable("The disk is full");
    });
    return new Response("ok");
  };
  happen("message.outbound");
  await full.promise;
  expect(log(receiver.id)).toMatchObject([{ state: "pending", leased: true, attempts: 0 }]);
  // The store refused this commit, and perhaps those of jobs before it: it is tried again after half a second.
  await until(() => runtime.timers().includes(START + 500));
  enqueue.mockRestore();
  runtime.advanceTo(START + 1_000);
  await settled();
  expect(log(receiver.id)).toMatchObject([{ state: "delivered", attempts: 1 }]);
  expect(receiver.hooks).toHaveLength(1);
});

test("a lease starts when its commit succeeds, also after a full disk", async () => {
  const { receive, happen, settled, core, runtime } = await openRig();
  const enqueue = spyOn(core.store, "enqueue");
  const receiver = receive();
  const [full, looked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  receiver.answer = async (_, nth) => {
    if (nth > 1) await looked.promise;
    else {
      enqueue.mockImplementation(async () => {
        full.resolve();
        throw unavailable("The disk is full");
      });
    }
    return new Response("ok");
  };
  happen("message.outbound");
  happen("message.outbound");
  await full.promise;
  // Another job may be the first that the disk is full for.
  await until(() => runtime.timers().includes(START + 500));
  enqueue.mockRestore();
  runtime.advanceTo(START + 20 * 60_000);
  await receiver.waitFor(2);
  happen("message.outbound");
  await receiver.waitFor(3);
  looked.resolve();
  await settled();
  expect(new Set(receiver.hooks.map(({ headers }) => headers.get("webhook-id"))).size).toBe(3);
  expect(receiver.hooks).toHaveLength(3);
});

describe("at the request of an admin", () => {
  test("a delivery in any state is resent once, with the same payload and id", async () => {
    const { receive, happen, settled, log, opened, advance, runtime } = await openRig({
      "webhooks.retrySeconds": "60",
      "webhooks.disableAfter": "2",
    });
    const { core } = opened;
    const { store } = core;
    const receiver = receive();
    happen("message.outbound");
    await settled();
    const [{ id }] = log(receiver.id) as [{ id: string }, ...unknown[]];
    const resend = async () => {
      store.transact((tx) => developers.resendDelivery(core, tx, id));
      await settled();
    };
    await resend();
    expect(attemptsOf(receiver.hooks)).toEqual(["1", "2"]);
    expect(receiver.hooks[1]?.body).toBe(receiver.hooks[0]?.body as string);
    expect(log(receiver.id)).toMatchObject([{ state: "delivered", attempts: 2 }]);

    // A failed replay is not repeated, and changes neither count nor state.
    receiver.answer = FAILS;
    await advance(1_000);
    await resend();
    await advance(DAY_MS);
    expect(attemptsOf(receiver.hooks)).toEqual(["1", "2", "3"]);
    expect(log(receiver.id)).toMatchObject([{ state: "delivered", attempts: 3, status: 503, dueAt: null }]);
    expect(developers.getWebhookEndpoint(core, receiver.id).exhausted).toBe(0);

    // A successful replay turns a failed delivery into a delivered one, and resets the endpoint's count.
    happen("message.inbound");
    await settled();
    await advance(60_000);
    const failed = log(receiver.id).at(-1);
    expect([failed?.state, failed?.attempts]).toEqual(["failed", 2]);
    expect(developers.getWebhookEndpoint(core, receiver.id).exhausted).toBe(1);
    receiver.answer = () => new Response("ok");
    store.transact((tx) => developers.resendDelivery(core, tx, failed?.id ?? ""));
    await settled();
    expect(log(receiver.id).at(-1)).toMatchObject({ state: "delivered", attempts: 3, finishedAt: runtime.now() });
    expect(developers.getWebhookEndpoint(core, receiver.id).exhausted).toBe(0);
  });

  test("resending a waiting delivery makes its next attempt now; during an attempt it is refused", async () => {
    const { receive, happen, settled, log, opened, advance, runtime } = await openRig();
    const { core } = opened;
    const { store } = core;
    const receiver = receive();
    receiver.answer = FAILS;
    happen("message.outbound");
    await settled();
    await advance(5_000);
    const [{ id }] = log(receiver.id) as [{ id: string }, ...unknown[]];
    store.transact((tx) => developers.resendDelivery(core, tx, id));
    await settled();
    expect(log(receiver.id)).toMatchObject([{ state: "retrying", attempts: 2, dueAt: runtime.now() + 300_000 }]);

    receiver.answer = () => new Promise(() => {});
    runtime.advanceTo(runtime.now() + 300_000);
    await receiver.waitFor(3);
    expect(() => store.transact((tx) => void developers.resendDelivery(core, tx, id))).toThrow("is under way");
    receiver.stop();
    await settled();
  });

  test("a test is a signed sample, sent once, which changes no count and reaches a disabled endpoint", async () => {
    const { receive, settled, log, opened, advance, happen } = await openRig({ "webhooks.disableAfter": "1" });
    const { core } = opened;
    const { store } = core;
    const receiver = receive(["message.bounced", "message.delivered"]);
    const send = async (event?: string) => {
      store.transact((tx) => developers.testWebhook(core, tx, receiver.id, event));
      await settled();
    };
    await send();
    await send("message.inbound");
    expect(receiver.hooks.map(({ headers }) => headers.get("x-service-event"))).toEqual([
      "message.delivered",
      "message.inbound",
    ]);
    expect(bodyOf(receiver.hooks[1])).toMatchObject({
      id: receiver.hooks[1]?.headers.get("x-service-delivery"),
      event: "message.inbound",
      data: { cc: [] },
    });
    receiver.answer = FAILS;
    await send();
    await advance(DAY_MS);
    expect(receiver.hooks).toHaveLength(3);
    expect(log(receiver.id).at(-1)).toMatchObject({ state: "failed", attempts: 1, error: "answered 503" });
    expect(developers.getWebhookEndpoint(core, receiver.id)).toMatchObject({ state: "active", exhausted: 0 });

    happen("message.delivered");
    await settled();
    for (const seconds of [60, 300, 1_800, 7_200, 21_600, 43_200]) await advance(seconds * 1_000);
    expect(developers.getWebhookEndpoint(core, receiver.id)).toMatchObject({ state: "disabled", exhausted: 1 });
    receiver.answer = () => new Response("ok");
    await send();
    expect(log(receiver.id).at(-1)).toMatchObject({ state: "delivered", status: 200 });
    expect(developers.getWebhookEndpoint(core, receiver.id)).toMatchObject({ state: "disabled", exhausted: 1 });
    expect(() => store.transact((tx) => void developers.testWebhook(core, tx, receiver.id, "mail"))).toThrow(
      "no event",
    );
  });

  test("removing an endpoint removes its deliveries", async () => {
    const { receive, happen, settled, opened, advance } = await openRig();
    const { core } = opened;
    const { store } = core;
    const [removed, kept] = [receive(), receive()];
    removed.answer = FAILS;
    happen("message.outbound");
    await settled();
    store.transact((tx) => developers.removeWebhook(core, tx, removed.id));
    expect(() => developers.getWebhookEndpoint(core, removed.id)).toThrow("no webhook endpoint");
    expect(developers.listWebhooks(core).map(({ id }) => id)).toEqual([kept.id]);
    await settled();
    await advance(DAY_MS);
    expect(removed.hooks).toHaveLength(1);
    const left = store.db.$client.query("SELECT count(*) FROM webhook_deliveries").values().flat();
    expect([left, store.db.$client.query("SELECT count(*) FROM webhook_endpoints").values().flat()]).toEqual([
      [1],
      [1],
    ]);
  });

  test("a workspace has at most 100 endpoints, which may be identical", async () => {
    const { add } = await openRig();
    for (let i = 0; i < 100; i++) add("https://example.com/hook");
    expect(() => add("https://example.com/hook")).toThrow("at most 100");
  });
});

describe("the server keeps", () => {
  test("finished deliveries for 30 days, and the events behind them", async () => {
    const { receive, happen, settled, log, advance, core, runtime } = await openRig();
    const count = () => core.store.db.$client.query("SELECT count(*) FROM events").values().flat()[0];
    happen("message.inbound");
    const receiver = receive();
    receiver.answer = (_, nth) => new Response(null, { status: nth === 1 ? 500 : 200 });
    happen("message.outbound");
    await settled();
    await advance(MINUTE_MS);
    const finishedAt = runtime.now();
    expect(log(receiver.id)).toMatchObject([{ state: "delivered", finishedAt }]);
    await advance(30 * DAY_MS - HOUR_MS);
    expect([log(receiver.id).length, count()]).toEqual([1, 2]);
    await advance(2 * HOUR_MS);
    expect([log(receiver.id).length, count()]).toEqual([0, 0]);
  });

  test("deliveries and events for as long as the setting says, which may be fractions of days", async () => {
    const { receive, happen, settled, log, advance } = await openRig({ "retention.deliveryLogDays": "0.0001" });
    await advance(HOUR_MS);
    const receiver = receive();
    happen("message.outbound");
    await settled();
    await advance(8_000);
    expect(log(receiver.id)).toHaveLength(1);
    await advance(2_000);
    expect(log(receiver.id)).toEqual([]);
  });

  test("unfinished deliveries, whatever their age", async () => {
    const { receive, happen, settled, log, advance, core } = await openRig({
      "webhooks.retrySeconds": "864000",
      "retention.deliveryLogDays": "1",
    });
    const receiver = receive();
    receiver.answer = (_, nth) => new Response(null, { status: nth === 1 ? 500 : 200 });
    happen("message.outbound");
    await settled();
    await advance(9 * DAY_MS);
    expect(log(receiver.id)).toMatchObject([{ state: "retrying" }]);
    await advance(DAY_MS);
    expect(receiver.hooks[1]?.body).toBe(receiver.hooks[0]?.body as string);
    await advance(2 * DAY_MS);
    expect(log(receiver.id)).toEqual([]);
    expect(core.store.db.$client.query("SELECT count(*) FROM events").values().flat()).toEqual([0]);
  });

  test("few deliveries of a long backlog in memory, and the backlog delays no other endpoint", async () => {
    const { receive, happen, core, runtime, owner } = await openRig();
    const { store } = core;
    const [dead, working] = [receive(["message.inbound"]), receive(["message.outbound"])];
    dead.answer = () => new Promise(() => {});
    const backlog = store.db.$client.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
       INSERT INTO events (id, workspace_id, event, created_at, data)
       SELECT 'evt_' || i, ?, 'message.inbound', ?, '{}' FROM n`,
    );
    store.transact(() => void backlog.run(owner.workspaceId, runtime.now()));
    await dead.waitFor(1);
    happen("message.outbound");
    await working.waitFor(1);
    const leased = store.db.$client.query("SELECT count(*) FROM webhook_deliveries WHERE leased = 1").values().flat();
    expect(leased[0]).toBeLessThan(4);
    dead.stop();
  });

  test("at most 64 claimed deliveries of a working endpoint, and only the bodies under way", async () => {
    const { receive, happen, core, settled } = await openRig();
    const receiver = receive();
    // The first response proves that it works; the others wait.
    const looked = Promise.withResolvers<void>();
    receiver.answer = (_, nth) => (nth === 1 ? new Response("ok") : looked.promise.then(() => new Response("ok")));
    for (let i = 0; i < 200; i++) happen("message.outbound", { subject: "x".repeat(30_000) });
    await receiver.waitFor(9);
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
    const { $client } = core.store.db;
    expect($client.query("SELECT count(*) FROM webhook_deliveries WHERE leased = 1").values()).toEqual([[64]]);
    // The body is read from the event when the attempt begins.
    $client.run("UPDATE events SET data = '{}' WHERE seq = 60");
    looked.resolve();
    await settled();
    expect(receiver.hooks).toHaveLength(200);
    expect(receiver.hooks.filter(({ body }) => body.length < 1_000)).toHaveLength(1);
  });
});
