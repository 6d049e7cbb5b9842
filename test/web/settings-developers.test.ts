/** Settings over HTTP: who is let in, one's own profile, API keys. */
import { beforeAll, describe, expect, test } from "bun:test";
import { type Booted, boot } from "../harness/appliance.ts";
import { type Page, page, setPassword, signIn } from "../harness/browser-session.ts";

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
  const { people, store } = booted.appliance;
  const ids = store.transact((tx) => {
    const other = people.addWorkspace(tx, "Other").id;
    const add = (workspaceId: string, email: string, name: string, role: "member" | "owner") =>
      people.addUser(tx, { workspaceId, email, name, role, ownMailbox: false }).userId;
    return [add(booted.owner.workspaceId, BOB, "Bob", "member"), add(other, CAROL, "Carol", "owner")];
  });
  for (const id of [booted.owner.userId, ...ids]) await setPassword(booted, id);
  [alice, bob, carol] = await Promise.all([signIn(booted, ALICE), signIn(booted, BOB), signIn(booted, CAROL)]);
}, 30_000);

const statusOf = async (asked: Promise<{ status: number }>) => (await asked).status;

test.each<[string, string, object]>([
  ["GET", "/settings/keys", {}],
  ["POST", "/settings/keys", { name: "x", scopes: ["read"] }],
  ["POST", "/settings/keys", { malformed: true }],
  ["DELETE", "/settings/keys/key_1", {}],
])("%s %s takes an owner or an admin, and a session", async (method, path, body) => {
  const ask = (as: Page) => statusOf(method === "GET" ? as.get(path) : as.send(method, path, body));
  expect([await ask(bob), await ask(page(booted))]).toEqual([403, 401]);
});

describe("one's own profile", () => {
  test("the name is changed by whoever it is", async () => {
    expect(await statusOf(bob.send("PATCH", "/me", { name: " Robert " }))).toBe(204);
    expect((await bob.get("/me")).body).toMatchObject({ name: "Robert", email: BOB });
    expect(await statusOf(bob.send("PATCH", "/me", { name: "" }))).toBe(400);
    expect(await statusOf(bob.send("PATCH", "/me", { name: "a\nb" }))).toBe(400);
  });

  test("the password takes the present one, and ends the other sessions", async () => {
    const { people, store } = booted.appliance;
    const email = "dora@example.test";
    const { userId } = store.transact((tx) =>
      people.addUser(tx, {
        workspaceId: booted.owner.workspaceId,
        ...{ email, name: "Dora", role: "member", ownMailbox: false },
      }),
    );
    await setPassword(booted, userId);
    const [here, elsewhere] = [await signIn(booted, email), await signIn(booted, email)];
    const change = (present: string, next: string) => here.send("POST", "/me/password", { present, next });
    expect(await change("wrong", "new one")).toMatchObject({
      status: 403,
      body: { error: "The present password is not right" },
    });
    expect(await statusOf(elsewhere.get("/me"))).toBe(200);
    expect(await statusOf(change("correct horse battery staple", ""))).toBe(400);
    expect(await statusOf(change("correct horse battery staple", "new one"))).toBe(204);
    expect([await statusOf(here.get("/me")), await statusOf(elsewhere.get("/me"))]).toEqual([200, 401]);
    const signedIn = (password: string) => statusOf(page(booted).send("POST", "/sign-in", { email, password }));
    expect([await signedIn("new one"), await signedIn("correct horse battery staple")]).toEqual([204, 401]);
  }, 20_000);
});

interface Keys {
  scopes: string[];
  keys: Record<string, unknown>[];
}

describe("API keys", () => {
  test("are seen once, act for who made them, and tell when they were used", async () => {
    const made = await alice.send<{ id: string; key: string }>("POST", "/settings/keys", {
      name: "Reader",
      scopes: ["read"],
    });
    const { id, key } = made.body;
    const api = booted.apiWith(key);
    expect((await api.get("/mailboxes")).status).toBe(200);
    expect((await api.post("/send", {})).status).toBe(403);
    await booted.advance(0);
    const { status, body } = await alice.get<Keys>("/settings/keys");
    expect([status, body.scopes]).toEqual([200, ["read", "send", "write"]]);
    const now = new Date(booted.runtime.now()).toISOString();
    expect(body.keys.find((listed) => listed.id === id)).toEqual({
      ...{ id, name: "Reader", user: ALICE, scopes: ["read"], hint: key.slice(0, 7) },
      ...{ createdAt: now, lastUsedAt: now, revokedAt: null },
    });
    expect(JSON.stringify(body)).not.toContain(key);
  });

  test("end at once when they are revoked, by nobody of another workspace", async () => {
    const made = await alice.send<{ id: string; key: string }>("POST", "/settings/keys", {
      name: "x",
      scopes: ["read"],
    });
    const { id, key } = made.body;
    const used = () => statusOf(booted.apiWith(key).get("/mailboxes"));
    expect([await statusOf(carol.send("DELETE", `/settings/keys/${id}`)), await used()]).toEqual([404, 200]);
    expect((await carol.get<Keys>("/settings/keys")).body.keys).toEqual([]);
    expect([await statusOf(alice.send("DELETE", `/settings/keys/${id}`)), await used()]).toEqual([204, 401]);
    expect(await statusOf(alice.send("DELETE", `/settings/keys/${id}`))).toBe(404);
  });

  test.each([
    { name: "", scopes: ["read"] },
    { name: "x", scopes: [] },
    { name: "x", scopes: ["all"] },
    { scopes: ["read"] },
  ])("%j is no key", async (given) => {
    expect(await statusOf(alice.send("POST", "/settings/keys", given))).toBe(400);
  });
});
