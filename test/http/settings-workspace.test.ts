/**
 * Settings of a workspace over HTTP: rights, separation from other workspaces, and the function of each part. Alice owns the
 * first workspace, Ann is an admin there, Bob a member; Zoe owns the second.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import * as domains from "../../src/admin/domains.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import type { DomainView } from "../../src/operations/admin/domain-administration.ts";
import type { MailboxAdminView } from "../../src/operations/admin/mailbox-administration.ts";
import type { PersonView } from "../../src/operations/admin/people-administration.ts";
import type { QueueEntryView } from "../../src/operations/admin/queue-administration.ts";
import type { SuppressionView } from "../../src/operations/admin/suppressions.ts";
import type { AnswerOf } from "../../src/operations/operation.ts";
import type { addWorkspace } from "../../src/operations/operator/all-workspaces.ts";
import type { getServer } from "../../src/operations/operator/server-settings.ts";
import type { Role } from "../../src/store/schema.ts";
import { type Page, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

/** DNS fails for remote.example, and has no other names at first. */
const published: Zone = { "remote.example": "silence" };

type ServerView = AnswerOf<typeof getServer>;
type SettingView = ServerView["settings"][number];
type WorkspaceEntryView = AnswerOf<typeof addWorkspace>;

let booted: Booted;
let alice: Page;
let ann: Page;
let bob: Page;
let zoe: Page;
const ids: Record<string, string> = {};

beforeAll(async () => {
  booted = await boot({}, zone(published));
  const { core } = booted.opened;
  const { store } = core;
  ids.alice = booted.owner.userId;
  const add = async (workspaceId: string, email: string, role: Role): Promise<void> => {
    const name = email.split("@")[0] ?? "";
    const person = { workspaceId, email, name, role, ownMailbox: true };
    ids[name] = store.transact((tx) => people.addUser(core, tx, person)).userId;
  };
  const other = store.transact((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Other");
    domains.markDomainVerified(core, tx, domains.addDomain(core, tx, id, "other.test", []).id);
    return id;
  });
  await add(booted.owner.workspaceId, "ann@example.test", "admin");
  await add(booted.owner.workspaceId, "bob@example.test", "member");
  await add(other, "zoe@other.test", "owner");
  for (const id of Object.values(ids)) await setPassword(booted, id);
  [alice, ann, bob, zoe] = (await Promise.all(
    ["alice@example.test", "ann@example.test", "bob@example.test", "zoe@other.test"].map((who) => signIn(booted, who)),
  )) as [Page, Page, Page, Page];
});

const read = async <T>(page: Page, path: string): Promise<T> => (await page.get<T>(`/settings${path}`)).body;
const act = (page: Page, method: string, path: string, body?: unknown) => page.send(method, `/settings${path}`, body);
const status = async (asked: Promise<{ status: number }>): Promise<number> => (await asked).status;

const queueOf = async (page: Page) => (await read<{ queue: QueueEntryView[] }>(page, "/queue")).queue;
const mailboxes = async (page: Page) => (await read<{ mailboxes: MailboxAdminView[] }>(page, "/mailboxes")).mailboxes;
const mailboxOf = async (page: Page, address: string) =>
  (await mailboxes(page)).find((mailbox) => mailbox.address === address);
const personOf = async (page: Page, email: string) =>
  (await read<{ people: PersonView[] }>(page, "/people")).people.find((person) => person.email === email);

/** Sends a message to an address whose server cannot be found now. Returns the id of its queue entry. */
async function sendOut(to: string): Promise<string> {
  const mail = { from: "alice@example.test", to: [to], subject: "Hello", text: "Hello" };
  expect(await status(alice.send("POST", "/send", mail))).toBe(202);
  const entry = (await queueOf(alice)).find(({ recipient }) => recipient === to);
  return entry?.id ?? "";
}

test("a member is refused on every route, whatever the request names", async () => {
  const asked: [string, string, unknown?][] = [
    ["GET", "/people"],
    ["POST", "/people", { email: "eve@example.test", name: "Eve", role: "owner", mailbox: true }],
    ["PATCH", `/people/${ids.bob}`, { role: "owner" }],
    ["DELETE", `/people/${ids.ann}`],
    ["GET", "/mailboxes"],
    ["POST", "/mailboxes", { address: "x@example.test", name: "X" }],
    ["PATCH", `/mailboxes/${booted.owner.mailboxId}`, { pausedReason: "no" }],
    ["POST", `/mailboxes/${booted.owner.mailboxId}/aliases`, { alias: "a@example.test" }],
    ["POST", `/mailboxes/${booted.owner.mailboxId}/grants`, { user: "bob@example.test", access: "full" }],
    ["GET", "/domains"],
    ["POST", "/domains", { name: "evil.test" }],
    ["GET", "/suppressions"],
    ["POST", "/suppressions", { address: "x@remote.example", reason: "no" }],
    ["GET", "/queue"],
    ["GET", "/server"],
    ["DELETE", `/mailboxes/${booted.owner.mailboxId}`],
    ["GET", "/workspace"],
    ["PATCH", "/workspace", { name: "Mine" }],
    ["GET", "/workspaces"],
    ["PATCH", `/workspaces/${booted.owner.workspaceId}`, { pausedReason: "no" }],
    ["PATCH", "/server/smtp.relay", { value: "smtp://evil.test" }],
  ];
  for (const [method, path, body] of asked) {
    const answer = await (method === "GET" ? bob.get(`/settings${path}`) : act(bob, method, path, body));
    expect({ path, status: answer.status }).toEqual({ path, status: 403 });
  }
});

describe("suppression list", () => {
  const listed = async (page: Page) =>
    (await read<{ suppressions: SuppressionView[] }>(page, "/suppressions")).suppressions;

  test("an address is added with a reason, refused in sending, and removed", async () => {
    const address = "Moved+now@remote.example";
    expect(await status(act(ann, "POST", "/suppressions", { address, reason: " Asked us to stop " }))).toBe(201);
    const entries = await listed(alice);
    expect(entries).toEqual([
      {
        id: expect.any(String),
        address: "moved+now@remote.example",
        reason: "Asked us to stop",
        createdAt: expect.stringMatching(/Z$/),
      },
    ]);
    const at = `/suppressions/${entries[0]?.id}`;
    const mail = { from: "alice@example.test", to: [address], subject: "Hello", text: "Hello" };
    expect(await status(alice.send("POST", "/send", mail))).toBe(422);
    expect(await status(act(ann, "DELETE", at))).toBe(204);
    expect(await listed(alice)).toEqual([]);
    expect(await status(act(ann, "DELETE", at))).toBe(404);
  });
  test("the list belongs to the workspace alone", async () => {
    await act(zoe, "POST", "/suppressions", { address: "q@remote.example", reason: "Asked" });
    const [theirs] = await listed(zoe);
    expect(theirs?.address).toBe("q@remote.example");
    expect(await listed(alice)).toEqual([]);
    expect(await status(act(alice, "DELETE", `/suppressions/${theirs?.id}`))).toBe(404);
  });
  test.each([
    [{ address: "nobody", reason: "x" }, /not an address/],
    [{ address: "a@remote.example", reason: " " }, /give a reason/],
    [{ reason: "x" }, /address is required/],
  ])("%p is refused", async (given, says) => {
    expect(await act(alice, "POST", "/suppressions", given)).toMatchObject({
      status: 400,
      body: { error: expect.stringMatching(says) },
    });
  });
});

test("the queue lists, retries and cancels deliveries of the workspace alone", async () => {
  const id = await sendOut("max@remote.example");
  await booted.advance(0);
  expect((await queueOf(ann)).find((entry) => entry.id === id)).toMatchObject({
    recipient: "max@remote.example",
    field: "to",
    mailbox: "alice@example.test",
    state: "waiting",
    attempts: 1,
    attempting: false,
    nextAttemptAt: expect.stringMatching(/Z$/),
  });
  expect(await queueOf(zoe)).toEqual([]);
  expect(await status(act(zoe, "POST", `/queue/${id}/retry`))).toBe(404);
  expect(await status(act(zoe, "POST", `/queue/${id}/cancel`))).toBe(404);

  expect(await status(act(ann, "POST", `/queue/${id}/retry`))).toBe(200);
  await booted.advance(0);
  expect((await queueOf(ann)).find((entry) => entry.id === id)).toMatchObject({ attempts: 2 });
  expect(await status(act(ann, "POST", `/queue/${id}/cancel`))).toBe(200);
  expect(await queueOf(ann)).toEqual([]);
  expect(await status(act(ann, "POST", `/queue/${id}/retry`))).toBe(409);
});

test("the queue shows a Bcc recipient to the sender of the message alone", async () => {
  const mail = { from: "alice@example.test", to: "open@remote.example", bcc: "secret@remote.example", text: "Hello" };
  expect(await status(alice.send("POST", "/send", mail))).toBe(202);
  await booted.advance(0);
  const seen = async (page: Page) => (await queueOf(page)).map(({ recipient, field }) => [recipient, field]);
  expect(await seen(alice)).toEqual([
    ["open@remote.example", "to"],
    ["secret@remote.example", "bcc"],
  ]);
  expect(await seen(ann)).toEqual([
    ["open@remote.example", "to"],
    ["a Bcc recipient", "bcc"],
  ]);
  expect(JSON.stringify(await queueOf(ann))).not.toContain("secret");
  for (const { id } of await queueOf(ann)) expect(await status(act(ann, "POST", `/queue/${id}/cancel`))).toBe(200);
});

test("domains have records to copy, with their state after a lookup, and are verified when DNS has the records", async () => {
  // Lists are in order of time, so this domain must be later than the first.
  await booted.advance(1);
  const added = await act(ann, "POST", "/domains", { name: "Shop.test" });
  const { id, records } = added.body as unknown as DomainView;
  expect(added.body).toMatchObject({ name: "shop.test", verifiedAt: null, state: "unverified", takesMail: false });
  expect(records.map(({ purpose }) => purpose)).toEqual(["mx", "spf", "dkim", "dkim", "dmarc", "ownership"]);
  expect(await status(act(ann, "POST", "/domains", { name: "other.test" }))).toBe(409);
  // Another workspace may add the same domain, with records of its own, until one of the two is verified.
  const claimed = (await act(zoe, "POST", "/domains", { name: "shop.test" })).body as unknown as DomainView;
  expect(claimed.records.find(({ purpose }) => purpose === "ownership")?.value).not.toBe(
    records.find(({ purpose }) => purpose === "ownership")?.value,
  );

  const statesOf = async (page: Page): Promise<DomainView> => read(page, `/domains/${id}`);
  expect(new Set((await statesOf(ann)).records.map(({ state }) => state))).toEqual(new Set(["missing"]));
  const unseen = (await act(ann, "POST", `/domains/${id}/verify`)).body as unknown as DomainView;
  expect(unseen.verifiedAt).toBeNull();
  expect(new Set(unseen.records.map(({ state }) => state))).toEqual(new Set(["missing"]));

  for (const { purpose, name, value } of records) {
    if (purpose === "dkim" || purpose === "ownership") published[name] = { txt: [value] };
  }
  // A lookup changes nothing.
  expect((await statesOf(ann)).records.filter(({ state }) => state === "found")).toHaveLength(3);
  expect((await statesOf(ann)).verifiedAt).toBeNull();
  const seen = (await act(ann, "POST", `/domains/${id}/verify`)).body as unknown as DomainView;
  expect(seen.verifiedAt).toMatch(/Z$/);
  expect(seen).toMatchObject({ state: "verified", takesMail: true });
  expect(await read(zoe, `/domains/${claimed.id}`)).toMatchObject({ state: "lost", takesMail: false });
  expect(await status(act(zoe, "POST", `/domains/${claimed.id}/verify`))).toBe(200);
  expect(await status(act(zoe, "DELETE", `/domains/${claimed.id}`))).toBe(204);
  expect(seen.records.filter(({ state }) => state === "missing").map(({ purpose }) => purpose)).toEqual([
    "mx",
    "spf",
    "dmarc",
  ]);
  const listed = (await read<{ domains: DomainView[] }>(alice, "/domains")).domains;
  expect(listed.map(({ name }) => name)).toEqual(["example.test", "shop.test"]);
  expect(await status(act(zoe, "POST", `/domains/${id}/verify`))).toBe(404);
  expect((await zoe.get(`/settings/domains/${id}`)).status).toBe(404);
  expect(await status(act(zoe, "DELETE", `/domains/${id}`))).toBe(404);
  expect(await status(act(ann, "DELETE", `/domains/${id}`))).toBe(204);
  expect(await status(act(ann, "DELETE", `/domains/${listed[0]?.id}`))).toBe(409);
});

describe("people", () => {
  test("a person is added with a mailbox and a password, signs in, changes role and leaves", async () => {
    const password = "a new person's password";
    const given = { email: "cy@example.test", name: "Cy", role: "member", mailbox: true, password };
    const added = await act(ann, "POST", "/people/with-password", given);
    expect(added.body).toMatchObject({ email: "cy@example.test", name: "Cy", role: "member", canSignIn: true });
    expect(await mailboxOf(ann, "cy@example.test")).toMatchObject({ owner: "cy@example.test" });
    const trial = { email: "cy@example.test", password };
    expect(await status(page(booted).send("POST", "/sign-in", trial))).toBe(204);
    const { id } = added.body as unknown as PersonView;
    await act(ann, "POST", `/people/${id}/password`, { password: "quite another one" });
    expect(await status(page(booted).send("POST", "/sign-in", trial))).toBe(401);
    expect((await act(ann, "PATCH", `/people/${id}`, { role: "admin" })).body).toMatchObject({ role: "admin" });
    expect(await status(act(ann, "POST", `/people/${id}/password`, { password }))).toBe(403);
    expect(await status(act(ann, "DELETE", `/people/${id}`))).toBe(204);
    expect(await mailboxOf(ann, "cy@example.test")).toMatchObject({ owner: null });
  });
  test.each([
    ["an admin makes an owner", "ann", "PATCH", "bob", { role: "owner" }, 403],
    ["an admin demotes an owner", "ann", "PATCH", "alice", { role: "member" }, 403],
    ["an admin takes over an owner's account", "ann", "POST", "alice/password", { password: "mine from now on" }, 403],
    ["an admin removes an owner", "ann", "DELETE", "alice", undefined, 403],
    ["one's own role", "ann", "PATCH", "ann", { role: "member" }, 403],
    ["one's own password, without the present one", "ann", "POST", "ann/password", { password: "another one" }, 403],
    ["oneself", "alice", "DELETE", "alice", undefined, 403],
    ["somebody of another workspace", "alice", "PATCH", "zoe", { role: "member" }, 404],
    ["somebody of another workspace, removed", "alice", "DELETE", "zoe", undefined, 404],
    ["no such role", "alice", "PATCH", "bob", { role: "king" }, 400],
    ["a password that is none", "alice", "POST", "bob/password", { password: "" }, 400],
  ])("refused: %s", async (_, by, method, path, body, expected) => {
    const [who = "", ...rest] = path.split("/");
    const before = await read(alice, "/people");
    expect(
      await status(act(by === "ann" ? ann : alice, method, `/people/${[ids[who], ...rest].join("/")}`, body)),
    ).toBe(expected);
    expect(await read<unknown>(alice, "/people")).toEqual(before);
  });
  test("an admin adds no owner", async () => {
    const eve = { email: "eve@example.test", name: "Eve", role: "owner", mailbox: false };
    expect(await status(act(ann, "POST", "/people", eve))).toBe(403);
    expect(await personOf(ann, "eve@example.test")).toBeUndefined();
  });
});

describe("mailboxes", () => {
  test("a mailbox is made, aliased, shared, limited and paused, and each change is undone", async () => {
    const made = await act(ann, "POST", "/mailboxes", { address: "team@example.test", name: "Team" });
    expect(made.body).toMatchObject({ address: "team@example.test", owner: null, quotaBytes: null, usedBytes: 0 });
    const at = `/mailboxes/${(made.body as unknown as MailboxAdminView).id}`;
    await act(ann, "POST", `${at}/aliases`, { alias: "sales@example.test" });
    await act(ann, "POST", `${at}/aliases`, { alias: "*@example.test" });
    await act(ann, "POST", `${at}/grants`, { user: "bob@example.test", access: "view" });
    await act(ann, "POST", `${at}/grants`, { user: "bob@example.test", access: "send" });
    await act(ann, "PATCH", at, { quotaBytes: 1_000, pausedReason: "Under review" });
    expect(await mailboxOf(ann, "team@example.test")).toMatchObject({
      aliases: ["sales@example.test"],
      catchAlls: ["*@example.test"],
      grants: [{ user: "bob@example.test", access: "send" }],
      quotaBytes: 1_000,
      pausedReason: "Under review",
    });
    const letter = { from: "team@example.test", to: ["alice@example.test"], subject: "Hello", text: "Hello" };
    expect(await status(bob.send("POST", "/send", letter))).toBe(423);

    await act(ann, "PATCH", at, { quotaBytes: null, pausedReason: null });
    expect(await status(bob.send("POST", "/send", letter))).toBe(202);
    for (const path of ["/aliases/sales@example.test", "/aliases/*@example.test", "/grants/bob@example.test"]) {
      expect(await status(act(ann, "DELETE", `${at}${path}`))).toBe(204);
      expect(await status(act(ann, "DELETE", `${at}${path}`))).toBe(404);
    }
    expect(await mailboxOf(ann, "team@example.test")).toMatchObject({
      aliases: [],
      catchAlls: [],
      grants: [],
      quotaBytes: null,
      pausedReason: null,
    });
  });
  test("a mailbox expires at a future time, a later time, or never", async () => {
    const made = await act(ann, "POST", "/mailboxes", { address: "brief@example.test", name: "Brief" });
    expect(made.body).toMatchObject({ expiresAt: null });
    const at = `/mailboxes/${(made.body as unknown as MailboxAdminView).id}`;
    const now = booted.runtime.now();
    const inAnHour = new Date(now + 3_600_000).toISOString();
    expect((await act(ann, "PATCH", at, { expiresAt: inAnHour })).body).toMatchObject({ expiresAt: inAnHour });
    for (const refused of [new Date(now).toISOString(), "2026-13-01T00:00:00Z", "tomorrow", "2030-01-01", "", 5]) {
      expect(await status(act(ann, "PATCH", at, { expiresAt: refused }))).toBe(400);
    }
    expect(await mailboxOf(ann, "brief@example.test")).toMatchObject({ expiresAt: inAnHour });
    const east = await act(ann, "PATCH", at, { expiresAt: "2030-01-31T17:00:00+02:00" });
    expect(east.body).toMatchObject({ expiresAt: "2030-01-31T15:00:00.000Z" });
    expect(await status(act(zoe, "PATCH", at, { expiresAt: null }))).toBe(404);
    expect((await act(ann, "PATCH", at, { expiresAt: null })).body).toMatchObject({ expiresAt: null });
    expect(await status(act(ann, "DELETE", at))).toBe(204);
  });
  test("a mailbox is renamed, given to a person, and taken from them", async () => {
    const made = await act(ann, "POST", "/mailboxes", { address: "desk@example.test", name: "Desk" });
    const at = `/mailboxes/${(made.body as unknown as MailboxAdminView).id}`;
    const given = await act(ann, "PATCH", at, { name: " Front desk ", owner: ids.bob });
    expect(given.body).toMatchObject({ name: "Front desk", owner: "bob@example.test", ownerId: ids.bob });
    const letter = { from: "desk@example.test", to: ["alice@example.test"], subject: "Hello", text: "Hello" };
    expect(await status(bob.send("POST", "/send", letter))).toBe(202);
    expect((await act(ann, "PATCH", at, { owner: null })).body).toMatchObject({ owner: null });
    expect(await status(bob.send("POST", "/send", letter))).toBe(422);
    expect(await status(act(ann, "PATCH", at, { owner: ids.zoe }))).toBe(422);
    expect(await status(act(ann, "PATCH", at, { name: "" }))).toBe(400);
  });
  test("a mailbox is removed with its mail, mail to it is refused, and its address is free", async () => {
    const made = await act(ann, "POST", "/mailboxes", { address: "old@example.test", name: "Old" });
    const { id } = made.body as unknown as MailboxAdminView;
    const letter = { from: "alice@example.test", to: ["old@example.test"], subject: "Farewell", text: "Goodbye" };
    expect(await status(alice.send("POST", "/send", letter))).toBe(202);
    await booted.advance(0);
    const found = async () =>
      (await booted.api.get<{ threads: { mailboxId: string }[] }>("/search?q=Farewell")).body.threads.filter(
        ({ mailboxId }) => mailboxId === id,
      ).length;
    expect(await found()).toBe(1);
    expect(await status(act(zoe, "DELETE", `/mailboxes/${id}`))).toBe(404);
    // The response comes at once. The server removes the mail in portions, with pauses in between.
    expect(await status(act(ann, "DELETE", `/mailboxes/${id}`))).toBe(204);
    expect(await mailboxOf(ann, "old@example.test")).toMatchObject({ id, removing: true });
    expect(await status(act(ann, "POST", "/mailboxes", { address: "old@example.test", name: "New" }))).toBe(409);
    // A second request meanwhile does not fail.
    expect(await status(act(ann, "DELETE", `/mailboxes/${id}`))).toBe(204);
    while (await mailboxOf(ann, "old@example.test")) await booted.advance(25);
    expect([await found(), await mailboxOf(ann, "old@example.test")]).toEqual([0, undefined]);
    expect(await status(act(ann, "DELETE", `/mailboxes/${id}`))).toBe(404);
    expect(await status(act(ann, "POST", "/mailboxes", { address: "old@example.test", name: "New" }))).toBe(201);
  });
  test("a mailbox shows its quota, or the server's default, with its use", async () => {
    const { defaultQuotaBytes } = await read<{ defaultQuotaBytes: number }>(ann, "/workspace");
    expect(defaultQuotaBytes).toBe(5_368_709_120);
    expect((await mailboxOf(ann, "alice@example.test"))?.usedBytes).toBeGreaterThan(0);
  });
  test.each([
    ["POST", "/aliases", { alias: "alice2@example.test" }],
    ["POST", "/grants", { user: "zoe@other.test", access: "full" }],
    ["PATCH", "", { quotaBytes: 1 }],
  ])("a mailbox of another workspace is not found: %s %s", async (method, path, body) => {
    expect(await status(act(zoe, method, `/mailboxes/${booted.owner.mailboxId}${path}`, body))).toBe(404);
  });
  test("people and domains of another workspace get no share and no mailbox", async () => {
    const share = { user: "zoe@other.test", access: "full" };
    expect(await status(act(alice, "POST", `/mailboxes/${booted.owner.mailboxId}/grants`, share))).toBe(404);
    expect(await status(act(alice, "POST", "/mailboxes", { address: "x@other.test", name: "X" }))).toBe(422);
  });
});

describe("workspaces", () => {
  const all = async () => (await read<{ workspaces: WorkspaceEntryView[] }>(ann, "/workspaces")).workspaces;

  test("a workspace has a unique name, which its owner changes", async () => {
    expect(await read<unknown>(zoe, "/workspace")).toMatchObject({
      name: "Other",
      pausedReason: null,
      operator: false,
    });
    expect((await act(zoe, "PATCH", "/workspace", { name: " Others " })).body).toMatchObject({ name: "Others" });
    expect((await act(zoe, "PATCH", "/workspace", { name: "others" })).body).toMatchObject({ name: "others" });
    expect(await status(act(zoe, "PATCH", "/workspace", { name: "EXAMPLE" }))).toBe(409);
    expect(await status(act(zoe, "PATCH", "/workspace", { name: "" }))).toBe(400);
    expect(await read<unknown>(ann, "/workspace")).toMatchObject({ name: "Example", operator: true });
  });

  test("the operator sees all workspaces and pauses them, and a paused one cannot resume itself", async () => {
    const [own, other] = await all();
    expect(own).toMatchObject({ name: "Example", domains: ["example.test"], people: 3 });
    expect(own?.usedBytes).toBeGreaterThan(0);
    expect(other).toMatchObject({ name: "others", domains: ["other.test"], people: 1, mailboxes: 1, usedBytes: 0 });
    const at = `/workspaces/${other?.id}`;
    const paused = await act(ann, "PATCH", at, { pausedReason: "Unpaid" });
    expect(paused.body).toMatchObject({ pausedReason: "Unpaid" });
    const letter = { from: "zoe@other.test", to: ["zoe@other.test"], subject: "Hello", text: "Hello" };
    booted.core.store.transact((tx) => {
      const { core } = booted.opened;
      domains.markDomainVerified(core, tx, domains.getDomainByName(core, "other.test").id);
    });
    expect(await status(zoe.send("POST", "/send", letter))).toBe(423);
    expect(await status(act(zoe, "PATCH", at, { pausedReason: null }))).toBe(403);
    expect((await zoe.get("/settings/workspaces")).status).toBe(403);
    expect(await read<unknown>(zoe, "/workspace")).toMatchObject({ pausedReason: "Unpaid" });
    await act(ann, "PATCH", at, { pausedReason: null });
    expect((await zoe.send("POST", "/send", letter)).body).toMatchObject({ ok: true });
    expect(await status(act(ann, "PATCH", "/workspaces/wsp_none", { pausedReason: null }))).toBe(404);
  });

  test("the operator adds a workspace whose owner signs in, or nothing is added", async () => {
    const given = {
      name: "Third",
      domain: "third.test",
      email: "tim@third.test",
      owner: "Tim",
      password: "tim's password",
    };
    // Messages of earlier tests are on their way to mailboxes that are counted.
    await booted.advance(0);
    const before = await all();
    for (const [wrong, expected] of [
      [{ domain: "other.test" }, 409],
      [{ email: "tim@elsewhere.test" }, 422],
      [{ name: "others" }, 409],
      [{ password: "" }, 400],
    ] as const) {
      expect(await status(act(ann, "POST", "/workspaces", { ...given, ...wrong }))).toBe(expected);
    }
    expect(await all()).toEqual(before);
    expect(await status(act(zoe, "POST", "/workspaces", given))).toBe(403);
    expect((await act(ann, "POST", "/workspaces", given)).body).toMatchObject({
      name: "Third",
      people: 1,
      mailboxes: 1,
    });
    expect(await status(bob.send("POST", "/sign-in", { email: given.email, password: given.password }))).toBe(204);
  });
});

describe("settings of the server", () => {
  const settingOf = async (name: string) =>
    (await read<{ settings: SettingView[] }>(ann, "/server")).settings.find((setting) => setting.name === name);

  test("each setting has a default and a meaning, is changed and reset", async () => {
    const name = "sending.mailboxPerHour";
    const before = { name, value: "100", default: "100", description: expect.stringContaining("60 minutes") };
    expect(await settingOf(name)).toEqual(before as unknown as SettingView);
    expect((await act(ann, "PATCH", `/server/${name}`, { value: "7" })).body).toMatchObject({ value: "7" });
    expect(booted.core.options.get(name)).toBe(7);
    expect((await act(ann, "DELETE", `/server/${name}`)).body).toMatchObject({ value: "100" });
    expect(booted.core.options.get(name)).toBe(100);
  });
  test("commands and paths of the server cannot be changed here", async () => {
    for (const name of ["search.meilisearchPath", "backup.folder"] as const) {
      expect(await settingOf(name)).toMatchObject({ commandLine: true });
      expect(await act(ann, "PATCH", `/server/${name}`, { value: "/tmp/evil" })).toMatchObject({
        status: 403,
        body: { error: expect.stringContaining(`mailroom settings set ${name}`) },
      });
      expect(await status(act(ann, "DELETE", `/server/${name}`))).toBe(403);
    }
    expect(booted.core.options.get("backup.folder")).toBe("off");
  });

  test("the smarthost's password is never shown, and saving the shown value keeps it", async () => {
    const { store, options } = booted.core;
    const secret = "smtp://us:hunter2@relay.example:587";
    const shown = "smtp://us:***@relay.example:587";
    store.transact((tx) => options.set(tx, "smtp.relay", secret));
    expect(JSON.stringify(await read(ann, "/server"))).not.toContain("hunter2");
    expect(await settingOf("smtp.relay")).toMatchObject({ value: shown });
    expect(await act(ann, "PATCH", "/server/smtp.relay", { value: shown })).toMatchObject({ body: { value: shown } });
    expect(options.get("smtp.relay")).toBe(secret);
    const elsewhere = await act(ann, "PATCH", "/server/smtp.relay", { value: "smtp://us:***@evil.example:587" });
    expect(elsewhere).toMatchObject({ status: 400, body: { error: expect.stringContaining("give the password") } });
    const wrong = await act(ann, "PATCH", "/server/smtp.relay", { value: "smtp://us:hunter3@relay.example/x" });
    expect([wrong.status, JSON.stringify(wrong.body)]).toEqual([400, expect.not.stringContaining("hunter3")]);
    expect(options.get("smtp.relay")).toBe(secret);
    expect(JSON.stringify(booted.lines)).not.toContain("hunter");
    store.transact((tx) => options.reset(tx, "smtp.relay"));
  });

  test("the search engine in use is shown, with the reason when it is not the chosen one", async () => {
    const answering = async () => (await read<ServerView>(ann, "/server")).search;
    expect(await answering()).toEqual({ engine: "fts5" });
    const url = "http://127.0.0.1:1";
    await act(ann, "PATCH", "/server/search.meilisearchUrl", { value: url });
    await act(ann, "PATCH", "/server/search.engine", { value: "meilisearch" });
    expect(await answering()).toEqual({ engine: "fts5", reason: expect.stringContaining("meilisearch") });
    await act(ann, "DELETE", "/server/search.meilisearchUrl");
    const { store, options } = booted.core;
    store.transact((tx) => options.set(tx, "search.meilisearchPath", "/nowhere"));
    // Another task looks for the process.
    let said = await answering();
    while (!said.reason?.includes("/nowhere")) said = await answering();
    expect(said).toEqual({
      engine: "fts5",
      reason: "meilisearch does not run: search.meilisearchPath names /nowhere, which is not there",
    });
    await act(ann, "DELETE", "/server/search.engine");
    store.transact((tx) => options.reset(tx, "search.meilisearchPath"));
    expect(await answering()).toEqual({ engine: "fts5" });
  });
  test("a bad value and an unknown name are refused with a reason", async () => {
    expect(await act(ann, "PATCH", "/server/spam.rejectDmarc", { value: "maybe" })).toMatchObject({
      status: 400,
      body: { error: 'spam.rejectDmarc cannot be "maybe": give true or false' },
    });
    expect(await status(act(ann, "PATCH", "/server/no.such", { value: "1" }))).toBe(400);
  });
  test("other workspaces than the first neither see nor change them", async () => {
    expect((await zoe.get("/settings/server")).status).toBe(403);
    expect(await status(act(zoe, "PATCH", "/server/smtp.relay", { value: "smtp://evil.test" }))).toBe(403);
    expect(await status(act(zoe, "DELETE", "/server/smtp.relay"))).toBe(403);
    expect(booted.core.options.get("smtp.relay")).toBe("none");
  });
});
