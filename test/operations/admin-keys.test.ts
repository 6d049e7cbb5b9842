/** API keys over the administration API. */
import { describe, expect, test } from "bun:test";
import { listEndpoints } from "../../src/events/endpoints.ts";
import { accessNotices, apiKeys, idempotencyKeys, type Scope } from "../../src/store/schema.ts";
import { startAdmin } from "../harness/servers/admin-world.ts";

interface Made {
  id: string;
  key: string;
}

const READER = { name: "Reader", scopes: ["read"] };

test("a key is created, works, is renamed and revoked", async () => {
  const { call, as, ask } = await startAdmin();
  const made = await call("POST", "/keys", READER);
  expect(made.status).toBe(201);
  const { key, ...shown } = made.body as { key: string; id: string };
  expect(key).toMatch(/^mr_[A-Za-z0-9]{40,}$/);
  expect(shown).toEqual({
    ...{ id: expect.stringMatching(/^key_/), name: "Reader", userId: "olga", user: "olga@example.test" },
    ...{ scopes: ["read"], hint: key.slice(0, 7), createdAt: expect.stringMatching(/Z$/) },
    ...{ lastUsedAt: null, revokedAt: null, policy: {}, paused: false, client: null },
  });
  expect((await ask("/mailboxes", { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
  expect((await as(key, "GET", "/keys")).body.code).toBe("missing_scope");

  const renamed = await call("PATCH", `/keys/${shown.id}`, { name: " Reads " });
  expect([renamed.status, renamed.body.name]).toEqual([200, "Reads"]);
  expect((await call("GET", `/keys/${shown.id}`)).body).toEqual(renamed.body);
  expect((await call("GET", "/keys")).body.keys).toContainEqual(renamed.body);

  const revoked = await call("DELETE", `/keys/${shown.id}`);
  expect([revoked.status, revoked.body]).toEqual([200, { ok: true }]);
  expect((await ask("/mailboxes", { headers: { authorization: `Bearer ${key}` } })).status).toBe(401);
  expect((await call("GET", `/keys/${shown.id}`)).body.revokedAt).toEqual(expect.stringMatching(/Z$/));
  expect((await call("DELETE", `/keys/${shown.id}`)).body.code).toBe("not_found");
  expect((await call("PATCH", `/keys/${shown.id}`, { name: "x" })).body.code).toBe("not_found");
});

test("the key is shown once: neither a replay, nor a row, nor the log has it", async () => {
  const { call, store, lines } = await startAdmin();
  const once = { "idempotency-key": "k" };
  const made = await call("POST", "/keys", READER, once);
  const again = await call("POST", "/keys", READER, once);
  const { key, ...rest } = made.body as { key: string };
  expect([again.status, again.headers.get("idempotency-replayed"), again.body]).toEqual([201, "true", rest]);
  const rows = JSON.stringify([store.db.select().from(idempotencyKeys).all(), store.db.select().from(apiKeys).all()]);
  expect(rows).toContain("Reader");
  expect(rows).not.toContain(key);
  expect(JSON.stringify(lines)).not.toContain(key);
});

test("whoever gets a key from an admin is told; one's own key is no news", async () => {
  const { call, store } = await startAdmin();
  await call("POST", "/keys", READER);
  await call("POST", "/keys", { ...READER, user: "max" });
  const owed = store.db.select().from(accessNotices).all();
  expect(owed).toMatchObject([{ userId: "max", change: "key", doneBy: "admin" }]);
});

describe("creating", () => {
  type Case = [who: string, body: object, status: number, code?: string | undefined, scopes?: Scope[]];
  const cases: Case[] = [
    ["olga", { ...READER, user: "olga" }, 201],
    ["olga", { ...READER, user: "MAX@example.test" }, 201],
    ["olga", { ...READER, scopes: ["admin"] }, 201],
    ["olga", { ...READER, scopes: ["admin"], user: "max" }, 403, "forbidden"],
    ["olga", { ...READER, user: "ada" }, 403, "forbidden"],
    ["ada", { ...READER, user: "max@example.test" }, 201],
    ["ada", { ...READER, scopes: ["read", "admin"] }, 201],
    ["ada", { ...READER, user: "olga" }, 403, "forbidden"],
    ["ada", { ...READER, user: "eve@other.test" }, 404, "not_found"],
    ["ada", { ...READER, user: "eve" }, 404, "not_found"],
    ["ada", { ...READER, user: "nobody@example.test" }, 404, "not_found"],
    ["ada", READER, 403, "forbidden", ["admin"]],
    ["ada", { ...READER, scopes: ["admin"] }, 201, undefined, ["admin"]],
    ["ada", { ...READER, scopes: ["approve"] }, 403, "forbidden"],
    ["ada", { ...READER, scopes: ["delete"] }, 400, "bad_request"],
    ["ada", { ...READER, scopes: [] }, 400, "bad_request"],
    ["ada", { ...READER, name: "  " }, 400, "bad_request"],
    ["ada", { ...READER, policy: {} }, 201],
    ["ada", { ...READER, policy: { mailbox: "x" } }, 400, "bad_request"],
    ["ada", { ...READER, paused: false }, 400, "bad_request"],
    ["ada", { name: "Reader" }, 400, "bad_request"],
  ];
  for (const [who, body, status, code, scopes] of cases) {
    test(`${who}${scopes ? ` with ${scopes}` : ""}: ${JSON.stringify(body)} is ${status}`, async () => {
      const { as, keyFor } = await startAdmin();
      const answer = await as(keyFor(who, scopes), "POST", "/keys", body);
      expect([answer.status, answer.body.code]).toEqual([status, code]);
      expect(Object.hasOwn(answer.body, "key")).toBe(status === 201);
    });
  }
});

test("an admin changes their own keys and those of members, an owner all keys", async () => {
  const { as, keyFor, store } = await startAdmin();
  const idOf = (userId: string) =>
    store.db
      .select()
      .from(apiKeys)
      .all()
      .find((key) => key.userId === userId)?.id as string;
  const [olga, ada] = [keyFor("olga"), keyFor("ada")];
  keyFor("max", ["read"]);
  for (const method of ["PATCH", "DELETE"]) {
    const body = method === "PATCH" ? { name: "Other" } : undefined;
    const refused = await as(ada, method, `/keys/${idOf("olga")}`, body);
    expect([refused.status, refused.body.code]).toEqual([403, "forbidden"]);
    expect((await as(ada, method, `/keys/${idOf("max")}`, body)).status).toBe(200);
  }
  expect((await as(olga, "PATCH", `/keys/${idOf("ada")}`, { name: "Ada's" })).status).toBe(200);
  expect((await as(olga, "DELETE", `/keys/${idOf("ada")}`)).status).toBe(200);
  expect((await as(ada, "GET", "/keys")).status).toBe(401);
});

test("a key revokes itself, and is refused from then on", async () => {
  const { as, keyFor, call, store } = await startAdmin();
  const own = keyFor("ada");
  const { id } =
    store.db
      .select()
      .from(apiKeys)
      .all()
      .find(({ userId }) => userId === "ada") ?? {};
  expect(await as(own, "DELETE", `/keys/${id}`)).toMatchObject({ status: 200, body: { ok: true } });
  expect((await as(own, "GET", "/keys")).status).toBe(401);
  expect((await call("GET", `/keys/${id}`)).body.revokedAt).toEqual(expect.stringMatching(/Z$/));
});

test("revoking a key names what it made and goes on, and what that made", async () => {
  const { as, call } = await startAdmin();
  const create = async (by: string, name: string) => {
    const { status, body } = await as(by, "POST", "/keys", { name, scopes: ["read", "admin"] });
    expect(status).toBe(201);
    return body as { id: string; key: string };
  };
  const add = async (by: string, path: string) => {
    const { body } = await as(by, "POST", "/webhooks", {
      url: `https://remote.example/${path}`,
      events: ["message.inbound"],
    });
    return body as { id: string; url: string };
  };
  const root = (await call("POST", "/keys", { name: "Root", scopes: ["read", "admin"] })).body as unknown as Made;
  const [child, gone, expired] = [
    await create(root.key, "Child"),
    await create(root.key, "Gone"),
    await create(root.key, "Expired"),
  ];
  const grandchild = await create(gone.key, "Grandchild");
  await as(root.key, "PATCH", `/keys/${expired.id}`, { policy: { expiresAt: "2020-01-01T00:00:00Z" } });
  const hook = await add(grandchild.key, "grandchild");
  const [disabled, ours, moved] = [await add(root.key, "off"), await add(root.key, "ours"), await add(root.key, "a")];
  const another = await create(root.key, "Unrelated to the webhook");
  await call("PATCH", `/webhooks/${disabled.id}`, { enabled: false });
  // Who sets the URL decides who is told.
  await as(another.key, "PATCH", `/webhooks/${moved.id}`, { url: "https://remote.example/b" });
  expect((await call("DELETE", `/keys/${gone.id}`)).body).toEqual({
    ok: true,
    goesOn: [
      { kind: "key", id: grandchild.id, name: "Grandchild" },
      { kind: "webhook", id: hook.id, name: hook.url },
    ],
  });
  expect((await call("DELETE", `/keys/${another.id}`)).body.goesOn).toEqual([
    { kind: "webhook", id: moved.id, name: "https://remote.example/b" },
  ]);
  const { goesOn } = (await call("DELETE", `/keys/${root.id}`)).body as { goesOn: { id: string }[] };
  expect(goesOn.map(({ id }) => id).sort()).toEqual([child.id, grandchild.id, hook.id, ours.id, moved.id].sort());
});

test("revoking a key names no webhook that the one who asks may not know", async () => {
  const { as, call } = await startAdmin();
  const maker = (await call("POST", "/keys", { name: "Maker", scopes: ["read", "admin"] })).body as unknown as Made;
  await as(maker.key, "POST", "/webhooks", { url: "https://remote.example/", events: ["message.inbound"] });
  const policy = { mailboxes: ["olga@example.test"] };
  const narrow = (await call("POST", "/keys", { name: "Narrow", scopes: ["admin"], policy })).body as unknown as Made;
  expect((await as(narrow.key, "DELETE", `/keys/${maker.id}`)).body).toEqual({ ok: true });
});

test("what a key made is limited as it is, also later", async () => {
  const { as, call, store } = await startAdmin();
  const create = async (by: string, name: string, policy: object = {}) =>
    (await as(by, "POST", "/keys", { name, scopes: ["read", "admin"], policy })).body as unknown as Made;
  const add = async (by: string) => {
    const asked = { url: "https://remote.example/", events: ["message.inbound"] };
    return (await as(by, "POST", "/webhooks", asked)).body.id as string;
  };
  const policyOf = async ({ id }: Made) => (await call("GET", `/keys/${id}`)).body.policy;
  const root = (await call("POST", "/keys", { name: "Root", scopes: ["read", "admin"] })).body as unknown as Made;
  const wide = await create(root.key, "Wide");
  const grandchild = await create(wide.key, "Grandchild", { send: "hold", expiresAt: "2029-01-01T00:00:00.000Z" });
  const own = { recipients: ["@a.example", "x@b.example"], changesPerHour: 5, mailboxes: ["max@example.test"] };
  const other = await create(root.key, "Other", own);
  const [hook, boxed, off] = [await add(wide.key), await add(other.key), await add(root.key)];
  const stranger = await add((await call("POST", "/keys", { name: "x", scopes: ["admin"] })).body.key as string);
  await call("PATCH", `/webhooks/${off}`, { enabled: false });

  const policy = {
    ...{ mailboxes: ["olga@example.test"], recipients: ["y@a.example", "@b.example"], otherwise: "hold" },
    ...{ recipientsPerDay: 10, changesPerHour: 100, expiresAt: "2030-01-01T00:00:00.000Z", networks: ["127.0.0.0/8"] },
  };
  expect((await call("PATCH", `/keys/${root.id}`, { policy })).status).toBe(200);
  // It refuses what is outside, which is narrower than to hold it.
  const { otherwise: _, ...limits } = policy;
  expect(await policyOf(wide)).toEqual(limits);
  expect(await policyOf(grandchild)).toEqual({ ...limits, send: "hold", expiresAt: "2029-01-01T00:00:00.000Z" });
  const rest = { recipientsPerDay: 10, expiresAt: limits.expiresAt, networks: limits.networks };
  expect(await policyOf(other)).toEqual({ mailboxes: [], recipients: ["x@b.example"], changesPerHour: 5, ...rest });
  const endpoints = () => new Map(listEndpoints(store.db, "wsp_1").map((one) => [one.id, one]));
  const told = (ids: string[]) => ids.map((id) => endpoints().get(id)?.mailboxes);
  expect(told([hook, boxed, off, stranger])).toEqual([["olga@example.test"], [], ["olga@example.test"], null]);

  // A wider policy gives back nothing.
  await call("PATCH", `/keys/${root.id}`, { policy: {} });
  expect(await policyOf(wide)).toEqual(limits);
  await call("PATCH", `/keys/${root.id}`, { policy: { codes: false } });
  expect(await policyOf(wide)).toEqual({ ...limits, codes: false });
  const states = [hook, boxed, off, stranger].map((id) => endpoints().get(id)?.state);
  expect(states).toEqual(["disabled", "disabled", "disabled", "active"]);
});

test("PATCH takes name, policy and paused, and refuses others", async () => {
  const { call } = await startAdmin();
  const { id } = (await call("POST", "/keys", READER)).body;
  for (const body of [{}, { policy: { otherwise: "ask" } }, { paused: 1 }, { scopes: ["read"] }, { name: "a\nb" }]) {
    expect([body, (await call("PATCH", `/keys/${id}`, body)).body.code]).toEqual([body, "bad_request"]);
  }
});

test("keys of another workspace are not found", async () => {
  const { call, keyFor, store, pagesOf } = await startAdmin();
  keyFor("eve");
  const theirs = store.db
    .select()
    .from(apiKeys)
    .all()
    .find(({ userId }) => userId === "eve")?.id;
  for (const [method, body] of [["GET"], ["PATCH", { name: "x" }], ["DELETE"]] as const) {
    expect((await call(method, `/keys/${theirs}`, body)).body.code).toBe("not_found");
  }
  const mine = await pagesOf<{ id: string }>("/keys", "keys");
  expect(mine.map(({ id }) => id)).not.toContain(theirs as string);
  expect(mine).toHaveLength(2);
});

test("pages are newest first", async () => {
  const { call, pagesOf, runtime } = await startAdmin();
  for (const name of ["A", "B", "C"]) {
    runtime.advanceTo(runtime.now() + 1_000);
    await call("POST", "/keys", { ...READER, name });
  }
  const names = (await pagesOf<{ name: string }>("/keys", "keys")).map(({ name }) => name);
  expect(names.slice(0, 3)).toEqual(["C", "B", "A"]);
});
