/** Settings over HTTP: roles, the person's own profile, API keys, webhooks and their log. */
import { beforeAll, describe, expect, test } from "bun:test";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { confirm, type Page, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { startReceiver } from "../harness/peers/receiver.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const CAROL = "carol@other.test";
let booted: Booted;
/** Owner, member, and the owner of another workspace. */
let alice: Page;
let bob: Page;
let carol: Page;

beforeAll(async () => {
  booted = await boot();
  const { core } = booted.opened;
  const { store, options } = core;
  const ids = store.transact((tx) => {
    options.set(tx, "webhooks.allowNetworks", "127.0.0.0/8");
    options.set(tx, "webhooks.disableAfter", "1");
    options.set(tx, "webhooks.retrySeconds", "60");
    const other = workspaceAdmin.addWorkspace(core, tx, "Other").id;
    const add = (workspaceId: string, email: string, name: string, role: "member" | "owner") =>
      people.addUser(core, tx, { workspaceId, email, name, role, ownMailbox: false }).userId;
    return [add(booted.owner.workspaceId, BOB, "Bob", "member"), add(other, CAROL, "Carol", "owner")];
  });
  for (const id of [booted.owner.userId, ...ids]) await setPassword(booted, id);
  [alice, bob, carol] = await Promise.all([signIn(booted, ALICE), signIn(booted, BOB), signIn(booted, CAROL)]);
}, 120_000);

const statusOf = async (asked: Promise<{ status: number }>) => (await asked).status;

test.each<[string, string, object]>([
  ["GET", "/settings/keys", {}],
  ["POST", "/settings/keys", { name: "x", scopes: ["read"] }],
  ["POST", "/settings/keys", { malformed: true }],
  ["DELETE", "/settings/keys/key_1", {}],
  ["PATCH", "/settings/keys/key_1", { paused: true }],
  ["GET", "/settings/keys/key_1/journal", {}],
  ["POST", "/settings/keys/key_1/undo", { since: "2026-01-05T09:00:00Z" }],
  ["GET", "/settings/key-pause", {}],
  ["PATCH", "/settings/key-pause", { paused: true }],
  ["GET", "/settings/webhooks", {}],
  ["POST", "/settings/webhooks", {}],
  ["GET", "/settings/webhooks/whk_1", {}],
  ["DELETE", "/settings/webhooks/whk_1", {}],
  ["GET", "/settings/webhooks/whk_1/secret", {}],
  ["POST", "/settings/webhooks/whk_1/secret", {}],
  ["POST", "/settings/webhooks/whk_1/test", {}],
  ["PATCH", "/settings/webhooks/whk_1", { enabled: false }],
  ["GET", "/settings/webhooks/whk_1/deliveries", {}],
  ["POST", "/settings/webhooks/whk_1/deliveries/whd_1/resend", {}],
])("%s %s needs an owner or an admin, with a session", async (method, path, body) => {
  const ask = (as: Page) => statusOf(method === "GET" ? as.get(path) : as.send(method, path, body));
  expect([await ask(bob), await ask(page(booted))]).toEqual([403, 401]);
});

describe("a person's own profile", () => {
  test("every person may change their name", async () => {
    expect(await statusOf(bob.send("PATCH", "/me", { name: " Robert " }))).toBe(204);
    expect((await bob.get("/me")).body).toMatchObject({ name: "Robert", email: BOB });
    expect(await statusOf(bob.send("PATCH", "/me", { name: "" }))).toBe(400);
    expect(await statusOf(bob.send("PATCH", "/me", { name: "a\nb" }))).toBe(400);
  });

  test("changing the password needs the current one, and ends the other sessions", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const email = "dora@example.test";
    const { userId } = store.transact((tx) =>
      people.addUser(core, tx, {
        workspaceId: booted.owner.workspaceId,
        email,
        name: "Dora",
        role: "member",
        ownMailbox: false,
      }),
    );
    await setPassword(booted, userId);
    const [here, elsewhere] = [await signIn(booted, email), await signIn(booted, email)];
    const change = (present: string, next: string) => here.send("POST", "/me/password", { present, next });
    expect(await change("wrong", "a new one of mine")).toMatchObject({
      status: 403,
      body: { error: "That password is not right" },
    });
    expect(await statusOf(elsewhere.get("/me"))).toBe(200);
    expect(await statusOf(change("correct horse battery staple", ""))).toBe(400);
    expect(await statusOf(change("correct horse battery staple", "a new one of mine"))).toBe(204);
    expect([await statusOf(here.get("/me")), await statusOf(elsewhere.get("/me"))]).toEqual([200, 401]);
    const signedIn = (password: string) => statusOf(page(booted).send("POST", "/sign-in", { email, password }));
    expect([await signedIn("a new one of mine"), await signedIn("correct horse battery staple")]).toEqual([204, 401]);
  }, 120_000);
});

test("guesses of the current password are slowed, as at sign-in", async () => {
  const slow = await boot();
  await setPassword(slow, slow.owner.userId);
  const guesser = await signIn(slow, ALICE);
  const guess = () => statusOf(guesser.send("POST", "/me/password", { present: "guess", next: "anything else" }));
  const none = { email: "nobody@example.test", password: "guess" };
  const atTheDoor = Array.from({ length: 20 }, () => statusOf(page(slow).send("POST", "/sign-in", none)));
  expect(new Set(await Promise.all(atTheDoor))).toEqual(new Set([401]));
  const before = slow.runtime.timers().length;
  let told = false;
  const last = guess().finally(() => {
    told = true;
  });
  await until(() => slow.runtime.timers().length !== before || told);
  expect(told).toBe(false);
  await slow.advance(2_000);
  expect(await last).toBe(403);
}, 120_000);

interface Keys {
  keys: Record<string, unknown>[];
}

describe("API keys", () => {
  test("are shown once, act for their creator, and have the time of their last use", async () => {
    const made = await alice.send<{ id: string; key: string }>("POST", "/settings/keys", {
      name: "Reader",
      scopes: ["read"],
    });
    const { id, key } = made.body;
    const api = booted.apiWith(key);
    expect((await api.get("/mailboxes")).status).toBe(200);
    expect((await api.post("/send", {})).status).toBe(403);
    // No response waits for the commit of the use.
    await booted.core.store.enqueue(() => undefined);
    const { status, body } = await alice.get<Keys>("/settings/keys");
    expect(status).toBe(200);
    const now = new Date(booted.runtime.now()).toISOString();
    expect(body.keys.find((listed) => listed.id === id)).toEqual({
      policy: {},
      paused: false,
      client: null,
      id,
      name: "Reader",
      user: ALICE,
      userId: booted.owner.userId,
      scopes: ["read"],
      hint: key.slice(0, 7),
      createdAt: now,
      lastUsedAt: now,
      revokedAt: null,
    });
    expect(JSON.stringify(body)).not.toContain(key);
  });

  test("end at once when revoked, and another workspace cannot revoke them", async () => {
    const made = await alice.send<{ id: string; key: string }>("POST", "/settings/keys", {
      name: "x",
      scopes: ["read"],
    });
    const { id, key } = made.body;
    const used = () => statusOf(booted.apiWith(key).get("/mailboxes"));
    expect([await statusOf(carol.send("DELETE", `/settings/keys/${id}`)), await used()]).toEqual([404, 200]);
    expect((await carol.get<Keys>("/settings/keys")).body.keys).toEqual([]);
    expect([await statusOf(alice.send("DELETE", `/settings/keys/${id}`)), await used()]).toEqual([200, 401]);
    expect(await statusOf(alice.send("DELETE", `/settings/keys/${id}`))).toBe(404);
  });

  test.each([
    { name: "", scopes: ["read"] },
    { name: "x", scopes: [] },
    { name: "x", scopes: ["all"] },
    { scopes: ["read"] },
  ])("%j makes no key", async (given) => {
    expect(await statusOf(alice.send("POST", "/settings/keys", given))).toBe(400);
  });
});

interface Webhook {
  id: string;
  url: string;
  enabled: boolean;
}
interface Delivered {
  id: string;
  state: string;
  attempts: number;
  nextAttemptAt: string | null;
}

describe("webhooks", () => {
  async function register(events = ["message.inbound"]) {
    const receiver = startReceiver();
    await confirm(alice);
    const { status, body } = await alice.send<Webhook>("POST", "/settings/webhooks", { url: receiver.url, events });
    expect(status).toBe(201);
    const at = `/settings/webhooks/${body.id}`;
    const log = async () => (await alice.get<{ deliveries: Delivered[] }>(`${at}/deliveries`)).body.deliveries;
    return { receiver, webhook: body, at, log };
  }

  test("are added with events, and listed in their workspace alone, without a secret", async () => {
    const { webhook, receiver } = await register(["message.bounced", "message.inbound"]);
    const { body } = await alice.get<{ webhooks: Webhook[] }>("/settings/webhooks");
    expect(body.webhooks.find(({ id }) => id === webhook.id)).toEqual({
      id: webhook.id,
      url: receiver.url,
      enabled: true,
      description: "",
      events: ["message.inbound", "message.bounced"],
      disabledAt: null,
      exhausted: 0,
      createdAt: new Date(booted.runtime.now()).toISOString(),
    } as Webhook);
    expect(JSON.stringify(body)).not.toContain("whsec_");
    expect((await carol.get<{ webhooks: Webhook[] }>("/settings/webhooks")).body.webhooks).toEqual([]);
  });

  test.each<[string, object, number]>([
    ["no event", { url: "https://hooks.example", events: [] }, 400],
    ["an event there is none of", { url: "https://hooks.example", events: ["message.read"] }, 400],
    ["no URL", { url: "", events: ["message.inbound"] }, 422],
    ["a private address", { url: "http://10.0.0.1/", events: ["message.inbound"] }, 422],
  ])("with %s are refused", async (_, given, status) => {
    expect(await statusOf(alice.send("POST", "/settings/webhooks", given))).toBe(status);
  });

  test("get a test, which the log shows, and which is sent again on request", async () => {
    const { receiver, at, log } = await register();
    receiver.answer = (_, nth) => new Response("as you say", { status: nth === 1 ? 200 : 503 });
    expect(await statusOf(alice.send("POST", `${at}/test`))).toBe(202);
    await booted.advance(0);
    const [sent] = await log();
    expect(sent).toMatchObject({
      event: "message.inbound",
      test: true,
      state: "delivered",
      attempts: 1,
      attempting: false,
      nextAttemptAt: null,
      status: 200,
      response: "as you say",
      error: null,
    });
    const resent = await alice.send<Delivered>("POST", `${at}/deliveries/${sent?.id}/resend`);
    expect(resent).toMatchObject({
      status: 202,
      body: { id: sent?.id, nextAttemptAt: new Date(booted.runtime.now()).toISOString() },
    });
    await booted.advance(0);
    expect(await log()).toMatchObject([{ id: sent?.id, state: "delivered", attempts: 2, status: 503 }]);
    expect(receiver.hooks.map(({ headers }) => headers.get("webhook-id"))).toEqual(
      Array(2).fill((sent as unknown as { eventId: string }).eventId),
    );
  });

  test("that fail for long are disabled, and can be enabled again", async () => {
    const { receiver, at, log } = await register();
    receiver.answer = () => new Response("", { status: 500 });
    const { status } = await booted.api.post("/send", { from: ALICE, to: ALICE, subject: "x", text: "x" });
    expect(status).toBe(202);
    await booted.advance(0);
    const [first] = await log();
    expect(first).toMatchObject({ state: "retrying", attempts: 1, status: 500 });
    expect(first?.nextAttemptAt).toBeString();
    await booted.advance(120_000);
    expect(await log()).toMatchObject([{ state: "failed", attempts: 2, nextAttemptAt: null }]);
    expect((await alice.get(at)).body).toMatchObject({ enabled: false, exhausted: 1, disabledAt: expect.any(String) });
    const enabled = await alice.send("PATCH", at, { enabled: true });
    expect(enabled.body).toMatchObject({ enabled: true, exhausted: 0 });
  });

  test("can get another URL and other events, within the same limits as new ones", async () => {
    const { at, log } = await register();
    const { receiver } = await register();
    const changed = await alice.send("PATCH", at, { url: receiver.url, events: ["message.bounced"] });
    expect(changed).toMatchObject({ status: 200, body: { url: receiver.url, events: ["message.bounced"] } });
    for (const [given, status] of [
      [{}, 400],
      [{ events: [] }, 400],
      [{ events: ["message.read"] }, 400],
      [{ url: "http://10.0.0.1/" }, 422],
    ] as const) {
      expect(await statusOf(alice.send("PATCH", at, given))).toBe(status);
    }
    expect((await alice.get(at)).body).toEqual(changed.body);
    await alice.send("POST", `${at}/test`);
    await booted.advance(0);
    expect(await log()).toMatchObject([{ event: "message.bounced", state: "delivered" }]);
    expect(receiver.hooks).toHaveLength(1);
  });

  test("at another URL count failures from zero", async () => {
    const { receiver, at } = await register();
    receiver.answer = () => new Response("", { status: 500 });
    await alice.send("PATCH", at, { events: ["message.outbound"] });
    booted.core.store.transact((tx) => booted.core.options.set(tx, "webhooks.disableAfter", "3"));
    await booted.api.post("/send", { from: ALICE, to: ALICE, subject: "x", text: "x" });
    await booted.advance(0);
    await booted.advance(120_000);
    expect((await alice.get(at)).body).toMatchObject({ enabled: true, exhausted: 1 });
    const elsewhere = await alice.send("PATCH", at, { url: `${receiver.url}/new` });
    expect(elsewhere.body).toMatchObject({ enabled: true, exhausted: 0 });
    booted.core.store.transact((tx) => booted.core.options.reset(tx, "webhooks.disableAfter"));
  });

  test("that a person disables get no events, and no notice is sent", async () => {
    const { receiver, at, log } = await register();
    const inbox = async () => (await booted.api.get<{ threads: unknown[] }>("/threads?q=webhook")).body.threads.length;
    const before = await inbox();
    expect((await alice.send("PATCH", at, { enabled: false })).body).toMatchObject({ enabled: false, exhausted: 0 });
    await booted.api.post("/send", { from: ALICE, to: ALICE, subject: "x", text: "x" });
    await booted.advance(60_000);
    expect([await log(), receiver.hooks, await inbox()]).toEqual([[], [], before]);
    expect((await alice.send("PATCH", at, { enabled: true })).body).toMatchObject({ enabled: true });
  });

  test("get a test with the chosen event", async () => {
    const { receiver, at } = await register();
    await alice.send("POST", `${at}/test`, { event: "message.complaint" });
    await booted.advance(0);
    expect(receiver.hooks.map(({ headers }) => headers.get("x-service-event"))).toEqual(["message.complaint"]);
    expect(await statusOf(alice.send("POST", `${at}/test`, { event: "message.read" }))).toBe(400);
  });

  test("have a secret that can be rotated, after which both are valid for a while", async () => {
    const { at } = await register();
    const before = (await alice.get<{ secret: string }>(`${at}/secret`)).body;
    expect(before).toEqual({ secret: expect.stringMatching(/^whsec_/) });
    const rotate = (overlapHours: unknown) => alice.send<{ secret: string }>("POST", `${at}/secret`, { overlapHours });
    const { body } = await rotate(2);
    const until = new Date(booted.runtime.now() + 7_200_000).toISOString();
    expect(body).toMatchObject({ secret: expect.any(String), previousUntil: until });
    expect(body.secret).not.toBe(before.secret);
    const shown = (await alice.get(`${at}/secret`)).body;
    expect(shown).toEqual({ secret: body.secret, previous: { secret: before.secret, until } });
    expect([await statusOf(rotate(2)), await statusOf(rotate(-1)), await statusOf(rotate("2"))]).toEqual([
      409, 400, 400,
    ]);
    await booted.advance(7_200_000);
    await confirm(alice);
    expect((await alice.get(`${at}/secret`)).body).toEqual({ secret: body.secret });
  });

  test("of another workspace are not found", async () => {
    const { at, log } = await register();
    await alice.send("POST", `${at}/test`);
    await booted.advance(0);
    const [sent] = await log();
    const answers = await Promise.all([
      ...[at, `${at}/secret`, `${at}/deliveries`].map((path) => carol.get(path)),
      ...[`${at}/test`, `${at}/deliveries/${sent?.id}/resend`].map((path) => carol.send("POST", path)),
      carol.send("PATCH", at, { enabled: false }),
      carol.send("POST", `${at}/secret`, { overlapHours: 0 }),
      carol.send("DELETE", at),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    expect(await log()).toHaveLength(1);
  });

  test("are removed with their log", async () => {
    const { at } = await register();
    expect(await statusOf(alice.send("DELETE", at))).toBe(204);
    expect([await statusOf(alice.get(at)), await statusOf(alice.get(`${at}/deliveries`))]).toEqual([404, 404]);
  });
});
