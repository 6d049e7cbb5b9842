/** The administration API's people over HTTP (rules: Administered people): who may make, change and remove whom. */
import { describe, expect, test } from "bun:test";
import * as domains from "../../src/admin/domains.ts";
import * as people from "../../src/admin/people.ts";
import { allPages, bootAdminApi, refusal } from "../harness/servers/admin-api.ts";
import { boot } from "../harness/servers/boot.ts";

interface Person {
  id: string;
  email: string;
  role: string;
}

/** Alice and Olga own the workspace, Ann and Abe administer it, Bob is a member. */
async function office() {
  const it = await bootAdminApi();
  const olga = it.join("olga@example.test", "owner");
  const ann = it.join("ann@example.test", "admin");
  const abe = it.join("abe@example.test", "admin");
  const bob = it.join("bob@example.test", "member");
  return { ...it, olga, ann, abe, bob, asAnn: it.callAs(ann.key) };
}

const NEW = { email: "new@example.test", name: "New", role: "member" };

describe("people are added", () => {
  test("with a mailbox of their own, unless told not to", async () => {
    const it = await office();
    const { status, body } = await it.call("POST", "/people", { ...NEW, email: "New@Example.Test" });
    expect(status).toBe(201);
    expect(body).toEqual({
      ...{ id: expect.stringMatching(/^usr_/), ...NEW, canSignIn: false, locked: false, invitedUntil: null },
      ...{ secondFactor: false, createdAt: expect.stringMatching(/Z$/), mailboxId: expect.stringMatching(/^mbx_/) },
    });
    const { mailboxId, ...person } = body;
    expect((await it.call("GET", `/people/${body.id}`)).body).toEqual(person);
    expect((await it.call("GET", `/mailboxes/${mailboxId}`)).body).toMatchObject({ ownerId: body.id });
    const without = await it.call("POST", "/people", { ...NEW, email: "ext@example.test", mailbox: false });
    expect([without.status, without.body.mailboxId]).toEqual([201, undefined]);
  });

  test("with a role that the caller may give: only owners make owners", async () => {
    const it = await office();
    const add = (call: typeof it.call, role: string) =>
      call("POST", "/people", { ...NEW, role, email: `${role}@example.test` });
    expect(refusal(await add(it.asAnn, "owner"))).toBe("403 forbidden");
    expect((await add(it.asAnn, "admin")).status).toBe(201);
    expect((await add(it.call, "owner")).status).toBe(201);
    expect(refusal(await it.callAs(it.bob.key)("POST", "/people", NEW))).toBe("403 missing_scope");
  });

  test("whole or not at all, and a refusal tells what is wrong", async () => {
    const it = await office();
    for (const [wrong, told] of [
      [{ email: "nobody" }, "400 bad_request"],
      [{ name: " " }, "400 bad_request"],
      [{ role: "king" }, "400 bad_request"],
      [{ mailbox: "yes" }, "400 bad_request"],
      [{ password: "secret" }, "400 bad_request"],
      [{ policy: {} }, "400 bad_request"],
      [{ email: "bob@example.test" }, "409 conflict"],
      [{ email: "zoe@other.test" }, "422 unprocessable"],
      [{ email: "ext@remote.example" }, "422 unprocessable"],
    ] as const) {
      const answer = await it.call("POST", "/people", { ...NEW, ...wrong });
      expect([wrong, refusal(answer)]).toEqual([wrong, told]);
    }
    const { email: _, ...lacking } = NEW;
    expect(refusal(await it.call("POST", "/people", lacking))).toBe("400 bad_request");
    expect((await allPages<Person>(it.call, "/people", "people")).map(({ email }) => email)).not.toContain(
      "ext@remote.example",
    );
  });

  test("at verified domains, beside other workspaces: no answer tells who is in those", async () => {
    const it = await office();
    const { core } = it.opened;
    const { workspaceId } = it.other;
    const there = ["x@other.test", "x@claimed.example", "x@mail.example"];
    it.write((tx) => {
      for (const id of [workspaceId, it.owner.workspaceId]) domains.addDomain(core, tx, id, "claimed.example", []);
      for (const email of there)
        people.addUser(core, tx, { ...NEW, role: "member", workspaceId, email, ownMailbox: false });
    });
    for (const taken of there) {
      for (const mailbox of [true, false]) {
        const add = (email: string) => it.call("POST", "/people", { ...NEW, email, mailbox });
        const refused = await add(taken);
        expect([taken, refusal(refused)]).toEqual([taken, "422 unprocessable"]);
        expect(await add(taken.replace("x@", "free@"))).toEqual(refused);
      }
    }
    const operator = { ...NEW, role: "member", workspaceId: it.owner.workspaceId, ownMailbox: false } as const;
    expect(it.write((tx) => people.addUser(core, tx, { ...operator, email: "free@mail.example" }))).toHaveProperty(
      "userId",
    );
    expect(() => it.write((tx) => people.addUser(core, tx, { ...operator, email: "free@other.test" }))).toThrow(
      "other.test was verified by another workspace",
    );
  });

  test("at any domain, where there is no other workspace", async () => {
    const { opened, owner } = await boot();
    const { core } = opened;
    const { store } = core;
    const { workspaceId, userId: by } = owner;
    const ext = { ...NEW, role: "member", workspaceId, email: "ext@remote.example", ownMailbox: false } as const;
    expect(store.transact((tx) => people.addUser(core, tx, ext, by))).toHaveProperty("userId");
  });

  test("once for one idempotency key", async () => {
    const it = await office();
    const first = await it.call("POST", "/people", NEW, "k");
    const again = await it.call("POST", "/people", NEW, "k");
    expect([again.status, again.replayed, again.body]).toEqual([201, true, first.body]);
    expect(refusal(await it.call("POST", "/people", { ...NEW, role: "admin" }, "k"))).toBe(
      "422 idempotency_key_reused",
    );
  });
});

test("the people of a workspace, and no others, are listed page by page", async () => {
  const it = await office();
  const people = await allPages<Person>(it.call, "/people", "people");
  expect(people.map(({ email }) => email).sort()).toEqual(
    ["abe", "alice", "ann", "bob", "olga"].map((name) => `${name}@example.test`),
  );
  const at = `/people/${it.other.userId}`;
  for (const [method, path, body] of [
    ["GET", at],
    ["PATCH", at, { role: "member" }],
    ["DELETE", at],
    ["GET", "/people/usr_none"],
  ] as const) {
    expect([method, refusal(await it.call(method, path, body))]).toEqual([method, "404 not_found"]);
  }
  expect(refusal(await it.call("GET", "/people?limit=x"))).toBe("400 bad_request");
});

describe("people are changed", () => {
  test("in name and role", async () => {
    const it = await office();
    const at = `/people/${it.bob.userId}`;
    const renamed = await it.asAnn("PATCH", at, { name: " Robert " });
    expect([renamed.status, renamed.body]).toEqual([200, expect.objectContaining({ name: "Robert", role: "member" })]);
    expect((await it.asAnn("PATCH", at, { role: "admin" })).body).toMatchObject({ name: "Robert", role: "admin" });
    const both = await it.call("PATCH", at, { name: "Bob", role: "owner" });
    expect(both.body).toMatchObject({ name: "Bob", role: "owner" });
    for (const wrong of [{}, { role: "king" }, { name: "" }, { email: "x@example.test" }, { paused: true }]) {
      expect([wrong, refusal(await it.call("PATCH", at, wrong))]).toEqual([wrong, "400 bad_request"]);
    }
  });

  test("if they are owners, by owners alone, and never by themselves", async () => {
    const it = await office();
    const change = (call: typeof it.call, id: string, body: object) => call("PATCH", `/people/${id}`, body);
    for (const body of [{ name: "X" }, { role: "member" }]) {
      expect(refusal(await change(it.asAnn, it.olga.userId, body))).toBe("403 forbidden");
      expect(refusal(await change(it.asAnn, it.ann.userId, body))).toBe("403 forbidden");
      expect(refusal(await change(it.call, it.owner.userId, body))).toBe("403 forbidden");
    }
    expect(refusal(await change(it.asAnn, it.bob.userId, { role: "owner" }))).toBe("403 forbidden");
    expect((await change(it.asAnn, it.abe.userId, { role: "member" })).status).toBe(200);
    expect((await change(it.call, it.olga.userId, { name: "Olga", role: "admin" })).body).toMatchObject({
      ...{ name: "Olga", role: "admin" },
    });
  });

  test("whole or not at all", async () => {
    const it = await office();
    expect(refusal(await it.asAnn("PATCH", `/people/${it.bob.userId}`, { name: "King", role: "owner" }))).toBe(
      "403 forbidden",
    );
    expect((await it.call("GET", `/people/${it.bob.userId}`)).body).toMatchObject({ name: "bob@example.test" });
  });
});

test("people are removed with their keys; their mailboxes stay", async () => {
  const it = await office();
  for (const [call, id, told] of [
    [it.asAnn, it.olga.userId, "403 forbidden"],
    [it.asAnn, it.ann.userId, "403 forbidden"],
    [it.call, it.owner.userId, "403 forbidden"],
  ] as const) {
    expect(refusal(await call("DELETE", `/people/${id}`))).toBe(told);
  }
  const removed = await it.asAnn("DELETE", `/people/${it.bob.userId}`);
  expect([removed.status, removed.body]).toEqual([200, { ok: true }]);
  expect(refusal(await it.asAnn("DELETE", `/people/${it.bob.userId}`))).toBe("404 not_found");
  expect((await it.apiWith(it.bob.key).get("/mailboxes")).status).toBe(401);
  expect((await it.call("GET", `/mailboxes/${it.bob.mailboxId}`)).body).toMatchObject({ owner: null, removing: false });
  expect((await it.call("DELETE", `/people/${it.olga.userId}`)).status).toBe(200);
});
