/** The key that the API reference makes for who is signed in (rules: Reference key): who gets it, what it may do, when it ends. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../../src/access/totp.ts";
import * as people from "../../../src/admin/people.ts";
import {
  confirm,
  PASSWORD,
  type Page,
  page,
  setPassword,
  signIn,
  signInOnly,
} from "../../harness/clients/browser-session.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const PATH = "/reference-key";
const MINUTE = 60_000;
const DAY = 86_400_000;

interface Made {
  key: string;
  expiresAt: string;
  seconds: number;
}
interface Listed {
  id: string;
  name: string;
  hint: string;
  scopes: string[];
  revokedAt: string | null;
}

let booted: Booted;
let alice: Page;
beforeAll(async () => {
  booted = await boot();
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId } = booted.owner;
  const { userId: bob } = store.transact((tx) =>
    people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: true }),
  );
  for (const id of [booted.owner.userId, bob]) await setPassword(booted, id);
});
beforeEach(async () => {
  alice = await signIn(booted, ALICE);
});

const make = async (scopes: string[] = [], by = alice): Promise<Made> => {
  const { status, body } = await by.send<Made>("POST", PATH, { scopes });
  expect([status, body]).toEqual([201, body]);
  return body;
};
const statusWith = async ({ key }: Made, path = "/mailboxes") => (await booted.apiWith(key).get(path)).status;
const listed = async (): Promise<Listed[]> => {
  const { body } = await booted.api.get<{ keys: Listed[] }>("/api/admin/v1/keys");
  return body.keys.filter(({ name }) => name.startsWith("API reference"));
};
const ofKey = async ({ key }: Made): Promise<Listed | undefined> =>
  (await listed()).find(({ hint, revokedAt }) => key.startsWith(hint) && revokedAt === null);

describe("making one", () => {
  test("takes an owner or admin, with a proof of identity, on a page of this server", async () => {
    const unproved = await signInOnly(booted, ALICE);
    expect(await unproved.send("POST", PATH, { scopes: [] })).toMatchObject({
      status: 403,
      body: { code: "forbidden", confirm: { code: false } },
    });
    expect((await (await signIn(booted, BOB)).send("POST", PATH, { scopes: [] })).status).toBe(403);
    expect((await page(booted).send("POST", PATH, { scopes: [] })).status).toBe(401);
    const foreign = { method: "POST", body: '{"scopes":[]}', headers: { origin: "https://evil.example" } };
    expect((await alice.fetch(PATH, foreign)).status).toBe(403);
    expect((await alice.get(PATH)).status).toBe(405);
    for (const scopes of [["approve"], ["read"], "write"]) {
      expect([scopes, (await alice.send("POST", PATH, { scopes })).status]).toEqual([scopes, 400]);
    }
    expect(await listed()).toEqual([]);
  });

  test("gives a key that reads, and does more only if that is chosen", async () => {
    const reads = await make();
    expect(await ofKey(reads)).toMatchObject({ scopes: ["read"] });
    expect([await statusWith(reads), await statusWith(reads, "/api/admin/v1/keys")]).toEqual([200, 403]);
    const all = await make(["write", "send", "admin"]);
    expect(await ofKey(all)).toMatchObject({ scopes: ["read", "write", "send", "admin"] });
    expect(await statusWith(all, "/api/admin/v1/keys")).toBe(200);
  });

  test("ends the session's key before, and no other session's", async () => {
    const other = await signIn(booted, ALICE);
    const [first, others] = [await make(), await make([], other)];
    const second = await make();
    expect([await statusWith(first), await statusWith(second), await statusWith(others)]).toEqual([401, 200, 200]);
  });

  test("is named with its end, and told once", async () => {
    const made = await make();
    expect(made.key).toMatch(/^mr_[A-Za-z0-9]{43}$/);
    expect(Date.parse(made.expiresAt) - booted.runtime.now()).toBe(3_600_000);
    expect(made.seconds).toBe(3_600);
    const key = await ofKey(made);
    expect(key?.name).toBe(`API reference, until ${made.expiresAt.slice(11, 16)} UTC`);
    expect(JSON.stringify(await listed())).not.toContain(made.key);
    await booted.apiWith(made.key).get("/threads");
    await booted.advance(1 * MINUTE);
    const { body } = await booted.api.get<{ entries: object[] }>(`/api/admin/v1/keys/${key?.id}/journal`);
    expect(body.entries).toMatchObject([{ operation: "listThreads", face: "rest" }]);
  });
});

describe("it ends", () => {
  const ways: [string, (session: Page) => unknown][] = [
    ["when the page ends it", (session) => session.send("DELETE", PATH)],
    ["when the person signs out", (session) => session.send("POST", "/sign-out")],
    [
      "when the browser is signed in again",
      (session) => session.send("POST", "/sign-in", { email: ALICE, password: PASSWORD }),
    ],
    ["when another session ends this one", async () => (await signIn(booted, ALICE)).send("DELETE", "/sessions")],
    ["when the password is replaced", () => setPassword(booted, booted.owner.userId)],
  ];
  test.each(ways)("%s", async (_, end) => {
    const made = await make();
    expect(await statusWith(made)).toBe(200);
    await end(alice);
    expect([await statusWith(made), await ofKey(made)]).toEqual([401, undefined]);
  });

  test("after an hour, and leaves the list: at once if it was never used, else with its journal", async () => {
    const [used, unused] = [await make(), await make([], await signIn(booted, ALICE))];
    expect(await statusWith(used)).toBe(200);
    const ids = [await ofKey(used), await ofKey(unused)].map((key) => key?.id ?? "");
    const left = async () => ids.map((id) => listed().then((keys) => keys.find((key) => key.id === id)?.revokedAt));
    await booted.advance(61 * MINUTE);
    expect(await statusWith(used)).toBe(401);
    await booted.advance(10 * MINUTE);
    expect(await Promise.all(await left())).toEqual([expect.any(String), undefined]);
    await booted.advance(90 * DAY);
    expect(await Promise.all(await left())).toEqual([undefined, undefined]);
  });

  test("within the hour in any case: it gives itself and others no longer life", async () => {
    const made = await make(["admin"]);
    const { id } = (await ofKey(made)) as Listed;
    const api = booted.apiWith(made.key);
    const keys = "/api/admin/v1/keys";
    expect((await api.patch(`${keys}/${id}`, { policy: {} })).status).toBe(403);
    expect((await api.post(keys, { name: "Longer", scopes: ["read"] })).status).toBe(403);
  });
});

test("a person's second factor is asked for, too", async () => {
  const { secret } = (await alice.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
  const code = () => computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
  expect((await alice.send("POST", "/me/second-factor", { secret, code: code(), password: PASSWORD })).status).toBe(
    200,
  );
  await booted.advance(6 * MINUTE);
  expect(await alice.send("POST", PATH, { scopes: [] })).toMatchObject({
    status: 403,
    body: { confirm: { code: true } },
  });
  await confirm(alice, code());
  expect(await make()).toMatchObject({ key: expect.stringMatching(/^mr_/) });
});
