/** Browsers are told of news by Web Push: whom it reaches, and what becomes of push services that fail. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createECDH } from "node:crypto";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import type { Notification } from "../../src/push/push.ts";
import { type Page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { mailer } from "../harness/mail/mail.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";
import { decrypt } from "./http-ece.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let alice: Page;
let bob: Page;
let mailboxId: string;
let bobId: string;
let bobMailboxId: string;
let server: Bun.Server<undefined>;
let pushed: { path: string; headers: Headers; body: Uint8Array }[] = [];
let status = 201;
/** A promise that the push service waits for before it answers requests to these paths. */
let held: { paths: RegExp; until: Promise<void> } | undefined;
let count = 0;

const keys = createECDH("prime256v1");
const p256dh = keys.generateKeys("base64url");
const auth = Buffer.alloc(16, 7).toString("base64url");
const told = (): Notification[] =>
  pushed.flatMap(({ body }) => {
    const text = decrypt(Buffer.from(body), { version: "aes128gcm", privateKey: keys, authSecret: auth });
    return JSON.parse(text.toString()).notifications;
  });

const subscribe = (page: Page, more: object = {}) =>
  page.send<{ code: string }>("POST", "/me/push", {
    endpoint: `https://push.example:${server.port}/${page === alice ? "alice" : "bob"}`,
    ...{ p256dh, auth, mailboxes: [mailboxId], details: false },
    ...more,
  });
const choice = async (page: Page) => (await page.get<{ choice: object | null }>("/me/push")).body.choice;
const deliver = (subject = `Letter ${++count}`, to = ALICE) =>
  mailer(booted.mx).send(
    { from: "bea@remote.example", to },
    `From: Bea Brand <bea@remote.example>\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${++count}@x>\n\nText\n`,
  );
/** Lets the news be gathered. */
const pass = () => booted.advance(2_100);
/** Lets so much time pass that a browser may be told again. To be called when no request is under way. */
const rest = (ms = 12_000) => booted.advance(ms);
const arrives = (many: number) => until(() => pushed.length >= many);
const countSent = async (): Promise<number> => {
  const text = await (await fetch(`${booted.http}/metrics`)).text();
  return Number(/^mailroom_push_total\{outcome="sent"\} (\d+)/m.exec(text)?.[1] ?? 0);
};
const rows = () =>
  booted.core.store.db.$client.query("SELECT endpoint, failures, rests_until FROM push_subscriptions").all() as {
    endpoint: string;
    failures: number;
    rests_until: number;
  }[];

beforeAll(async () => {
  const { pair, authority } = await makeChain("push.example");
  server = Bun.serve({
    hostname: "127.0.0.2",
    port: 0,
    tls: pair,
    async fetch(request) {
      const path = new URL(request.url).pathname;
      pushed.push({ path, headers: request.headers, body: await request.bytes() });
      if (held?.paths.test(path)) await held.until;
      return new Response(null, { status, headers: status === 307 ? { location: "/elsewhere" } : {} });
    },
  });
  booted = await boot({}, zone({ "push.example": { a: ["127.0.0.2"] }, "inner.example": { a: ["127.0.0.1"] } }), {
    authorities: [authority],
    allow: ["127.0.0.2/32"],
  });
  const { core } = booted.opened;
  const { store } = core;
  mailboxId = booted.owner.mailboxId;
  const second = store.transact((tx) =>
    people.addUser(core, tx, {
      workspaceId: booted.owner.workspaceId,
      email: "bob@example.test",
      name: "Bob",
      role: "member",
      ownMailbox: true,
    }),
  );
  bobId = second.userId;
  bobMailboxId = second.mailboxId ?? "";
  for (const id of [booted.owner.userId, bobId]) await setPassword(booted, id);
  alice = await signIn(booted, ALICE);
  bob = await signIn(booted, "bob@example.test");
});
afterAll(() => server.stop(true));
beforeEach(async () => {
  for (const page of [alice, bob]) await page.send("DELETE", "/me/push");
  await rest();
  pushed = [];
  status = 201;
  held = undefined;
});

describe("new mail", () => {
  test("is told by the mailbox alone, unless the person wants sender and subject", async () => {
    expect((await subscribe(alice)).status).toBe(204);
    await deliver("Secret plans");
    await pass();
    await arrives(1);
    expect(told()).toEqual([
      { title: "New mail", body: ALICE, url: expect.stringMatching(/^\/mail\/inbox\/thr_/), tag: `mail ${mailboxId}` },
    ]);
    await subscribe(alice, { details: true });
    await rest();
    await deliver("Secret plans");
    await pass();
    await arrives(2);
    expect(told()[1]).toMatchObject({ title: "Bea Brand", body: "Secret plans" });
    expect(pushed[0]?.headers.get("cookie")).toBeNull();
  });

  test("that comes together is told together, and so is what comes just after", async () => {
    await subscribe(alice, { details: true });
    for (let n = 0; n < 3; n++) await deliver();
    await booted.advance(2_100);
    await arrives(1);
    expect(told()[0]).toMatchObject({ title: "3 new messages", body: ALICE, url: `/mail/inbox?mailbox=${mailboxId}` });
    for (let n = 0; n < 2; n++) await deliver();
    await booted.advance(2_100);
    expect(pushed).toHaveLength(1);
    await rest();
    await arrives(2);
    expect(told()[1]?.title).toBe("2 new messages");
  });

  test("is not told of other mailboxes, spam, or what was read or put away meanwhile", async () => {
    await subscribe(alice);
    await deliver("To Bob", "bob@example.test");
    await deliver("Read");
    await deliver("Archived");
    const { body } = await booted.api.get<{ threads: { id: string; subject: string }[] }>(
      `/threads?mailbox=${mailboxId}`,
    );
    const idOf = (subject: string) => body.threads.find((thread) => thread.subject === subject)?.id;
    await booted.api.patch(`/threads/${idOf("Read")}`, { unread: false });
    await booted.api.patch(`/threads/${idOf("Archived")}`, { folder: "archive" });
    await pass();
    await deliver("Last");
    await pass();
    await arrives(1);
    expect(told()).toHaveLength(1);
  });

  test("reaches those who reach the mailbox, as long as they do", async () => {
    const {
      core: { store },
    } = booted.opened;
    expect((await subscribe(bob)).status).toBe(404);
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, bobId, "view"));
    expect((await subscribe(bob)).status).toBe(204);
    await deliver();
    await pass();
    await arrives(1);
    store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, mailboxId, bobId));
    await rest();
    await deliver();
    await pass();
    await subscribe(alice);
    await deliver();
    await pass();
    await arrives(2);
    expect(pushed.map(({ path }) => path)).toEqual(["/bob", "/alice"]);
  });
});

test("what waits for approval is told to those who may approve it", async () => {
  await subscribe(alice, { details: true });
  const { body } = await booted.api.post<{ key: string }>("/api/admin/v1/keys", {
    name: "Agent",
    scopes: ["read", "send"],
    policy: { send: "hold" },
  });
  await booted.apiWith(body.key).post("/send", { from: ALICE, to: "dan@remote.example", subject: "Held", text: "x" });
  await pass();
  await arrives(1);
  expect(told()[0]).toMatchObject({ title: "A message waits for approval", body: "Held", url: "/approve" });
});

test("mail that could not be delivered is told, without its recipients", async () => {
  await subscribe(alice, { details: true });
  await booted.api.post("/send", { from: ALICE, to: "dan@nowhere.example", subject: "Lost", text: "x" });
  await pass();
  // The server's notice of what waits may come first.
  await arrives(1);
  await rest();
  const news = () => told().find(({ title }) => title === "A message could not be delivered");
  await until(news);
  expect(news()?.body).toBe("Lost");
  expect(JSON.stringify(news())).not.toContain("dan@");
});

describe("a push service", () => {
  test("that does not know the browser any more ends it", async () => {
    await subscribe(alice);
    status = 410;
    await deliver();
    await pass();
    await until(async () => (await choice(alice)) === null);
  });

  test("that fails rests ever longer, and what happens meanwhile is not told", async () => {
    await subscribe(alice);
    status = 500;
    await deliver();
    await pass();
    await until(() => rows()[0]?.failures === 1);
    await rest();
    await deliver();
    await pass();
    await rest(30_000);
    expect(pushed).toHaveLength(1);
    status = 307;
    await deliver();
    await pass();
    await until(() => rows()[0]?.failures === 2);
    await rest(60_000);
    status = 201;
    await deliver();
    await pass();
    await until(() => rows()[0]?.failures === 0);
    expect(pushed.map(({ path }) => path)).toEqual(["/alice", "/alice", "/alice"]);
  });

  test("gets messages of a size that it takes, whatever strangers write; what is left follows", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const workspaceId = booted.owner.workspaceId;
    const names = Array.from({ length: 6 }, (_, n) => `box-${n}@example.test`);
    const boxes = store.transact((tx) =>
      names.map((address) =>
        mailboxAdmin.addMailbox(core, tx, { workspaceId, address, name: "Box", ownerId: booted.owner.userId }),
      ),
    );
    await subscribe(alice, { mailboxes: boxes, details: true });
    for (const address of names) await deliver("\u{6f22}".repeat(190), address);
    const before = await countSent();
    await pass();
    await until(async () => (await countSent()) === before + 1);
    expect(told().length).toBeLessThan(6);
    await rest();
    await until(async () => (await countSent()) === before + 2);
    expect(pushed.every(({ body }) => body.length <= 4_096)).toBe(true);
    expect(new Set(told().map(({ tag }) => tag)).size).toBe(6);
    expect(rows()[0]?.failures).toBe(0);
  });

  test("that is slow to answer does not hold up those of others", async () => {
    const answering = Promise.withResolvers<void>();
    held = { paths: /slow/, until: answering.promise };
    const pages: Page[] = [];
    for (let n = 0; n < 8; n++) {
      const page = await signIn(booted, ALICE);
      await subscribe(page, { endpoint: `https://push.example:${server.port}/slow-${n}` });
      pages.push(page);
    }
    await deliver();
    await pass();
    await until(() => pushed.length >= 4);
    await subscribe(bob, { mailboxes: [bobMailboxId] });
    await deliver("For Bob", "bob@example.test");
    await pass();
    await until(() => pushed.some(({ path }) => path === "/bob"));
    answering.resolve();
    await arrives(9);
    expect(new Set(pushed.map(({ path }) => path)).size).toBe(9);
    for (const page of pages) await page.send("DELETE", "/me/push");
  });

  test("is public, by https", async () => {
    const port = server.port;
    for (const endpoint of [
      "http://push.example/a",
      "https://10.0.0.1/a",
      "ftp://x",
      "nothing",
      `https://127.0.0.1:${port}/`,
    ]) {
      expect((await subscribe(alice, { endpoint })).status).toBe(422);
    }
    await subscribe(alice, { endpoint: `https://inner.example:${port}/a` });
    await deliver();
    await pass();
    await until(() => rows()[0]?.failures === 1);
    expect(pushed).toEqual([]);
  });

  test("gets messages for keys of the right form", async () => {
    expect((await subscribe(alice, { p256dh: "AAAA" })).status).toBe(422);
    expect((await subscribe(alice, { auth: "AAAA" })).status).toBe(422);
    expect((await subscribe(alice, { mailboxes: [] })).status).toBe(400);
  });
});

describe("a subscription", () => {
  test("ends with its session, and another person's replaces it in the same browser", async () => {
    const other = await signIn(booted, ALICE);
    await subscribe(other, { details: true });
    expect(await choice(other)).toEqual({ mailboxes: [mailboxId], details: true });
    await other.send("POST", "/sign-out");
    expect(rows()).toEqual([]);
    await subscribe(alice);
    const {
      core: { store },
    } = booted.opened;
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, bobId, "view"));
    await subscribe(bob, { endpoint: `https://push.example:${server.port}/alice` });
    expect(await choice(alice)).toBeNull();
    expect(rows()).toHaveLength(1);
  });

  test("is one of at most twenty of a person", async () => {
    for (let n = 0; n < 22; n++) {
      const page = await signIn(booted, ALICE);
      await subscribe(page, { endpoint: `https://push.example:${server.port}/${n}` });
    }
    expect(rows()).toHaveLength(20);
    expect(rows().map(({ endpoint }) => endpoint)).not.toContain(`https://push.example:${server.port}/0`);
  });

  test("shares one key of the server, which stays", async () => {
    const keyOf = async (page: Page) => (await page.get<{ publicKey: string }>("/me/push")).body.publicKey;
    expect(await keyOf(alice)).toBe(await keyOf(bob));
    expect(Buffer.from(await keyOf(alice), "base64url")).toHaveLength(65);
  });
});

test("metrics count what was handed over, and the browsers", async () => {
  const text = await (await fetch(`${booted.http}/metrics`)).text();
  expect(text).toMatch(/^mailroom_push_total\{outcome="sent"\} [1-9]/m);
  expect(text).toMatch(/^mailroom_push_subscriptions \d+$/m);
});
