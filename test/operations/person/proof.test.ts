/**
 * Changes that outlast a session need a recent proof of identity. With a copied cookie alone, nobody gets a key, sets a password,
 * gives access to others or changes the server, and the copy ends when the person gives the proof.
 */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../../src/access/totp.ts";
import * as developers from "../../../src/admin/developers.ts";
import * as domains from "../../../src/admin/domains.ts";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import { hashNewPassword } from "../../../src/admin/people.ts";
import { apiKeys, appPasswords, messages, threads } from "../../../src/store/schema.ts";
import { confirm, PASSWORD, type Page, page, setPassword, signInOnly } from "../../harness/clients/browser-session.ts";
import { type Zone, zone, zoneOf } from "../../harness/peers/dns-server.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";
import { until } from "../../harness/until.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const STEP = 30_000;
const UNCONFIRMED = {
  status: 403,
  body: { error: expect.any(String), code: "forbidden", confirm: { code: false } },
};
let booted: Booted;
let alice: Page;
let bob: string;
let mailbox: string;
let webhook: string;

async function bootBoth(): Promise<void> {
  booted = await boot();
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId, mailboxId } = booted.owner;
  mailbox = mailboxId;
  [bob, webhook] = store.transact((tx) => [
    people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: false }).userId,
    developers.addWebhook(core, tx, { workspaceId, url: "https://one.example.com/", events: ["message.inbound"] }).id,
  ]);
  for (const id of [userId, bob]) await setPassword(booted, id);
  alice = await signInOnly(booted, ALICE);
}

const ask = (by: Page, method: string, path: string, body: object) =>
  method === "GET" ? by.get(path) : by.send(method, path, body);
const paths = (path: string): string =>
  path.replace(":bob", bob).replace(":mailbox", mailbox).replace(":webhook", webhook);

const ASKED: [string, string, object, number][] = [
  ["POST", "/app-passwords", { name: "Phone" }, 200],
  ["POST", "/settings/keys", { name: "Agent", scopes: ["read"] }, 201],
  ["POST", "/settings/people", { email: "eve@example.test", name: "Eve", role: "admin", mailbox: false }, 201],
  ["PATCH", "/settings/people/:bob", { role: "admin" }, 200],
  ["POST", "/settings/people/:bob/password", { password: "known to the thief" }, 200],
  ["DELETE", "/settings/people/:bob/second-factor", {}, 409],
  ["POST", "/settings/people/:bob/link", {}, 201],
  ["POST", "/settings/people/:bob/invite", { inviteTo: "thief@example.com" }, 200],
  ["POST", "/settings/people/:bob/lock", {}, 200],
  ["POST", "/settings/people/:bob/unlock", {}, 200],
  ["POST", "/settings/mailboxes/:mailbox/grants", { user: BOB, access: "full" }, 201],
  ["PATCH", "/settings/mailboxes/:mailbox", { owner: null }, 200],
  ["POST", "/settings/webhooks", { url: "https://two.example.com/", events: ["message.inbound"] }, 201],
  ["PATCH", "/settings/webhooks/:webhook", { url: "https://three.example.com/" }, 200],
  ["GET", "/settings/webhooks/:webhook/secret", {}, 200],
  ["POST", "/settings/webhooks/:webhook/secret", { overlapHours: 0 }, 200],
  ["PATCH", "/settings/server/smtp.relay", { value: "smtp://thief.example.com" }, 200],
  ["DELETE", "/settings/server/smtp.relay", {}, 200],
  [
    "POST",
    "/settings/workspaces",
    { name: "Other", domain: "other.test", email: "eve@other.test", owner: "Eve", password: "of eve alone" },
    201,
  ],
  ["DELETE", "/settings/people/:bob", {}, 204],
];

describe("a session alone", () => {
  beforeAll(bootBoth);
  const kept = () => {
    const { $client } = booted.core.store.db;
    const tables = [
      "users",
      "password_links",
      "api_keys",
      "app_passwords",
      "grants",
      "mailboxes",
      "webhook_endpoints",
      "options",
    ];
    return tables.map((table) => $client.query(`SELECT * FROM ${table}`).all());
  };

  test.each(ASKED)("does not %s %s", async (method, path, body) => {
    const before = kept();
    expect(await ask(alice, method, paths(path), body)).toMatchObject(UNCONFIRMED);
    expect(kept()).toEqual(before);
  });

  test("may make changes that end with it", async () => {
    const { core, opened, owner } = booted;
    const key = core.store.transact((tx) =>
      developers.createKey(opened.core, tx, { userId: owner.userId, name: "x", scopes: ["read"] }),
    );
    for (const [method, path, body, status] of [
      ["PATCH", "/me", { name: "Alice" }, 204],
      ["POST", "/me/second-factor/new", {}, 200],
      ["PATCH", "/settings/mailboxes/:mailbox", { name: "Alice's" }, 200],
      ["POST", "/settings/mailboxes/:mailbox/aliases", { alias: "sales@example.test" }, 201],
      ["PATCH", "/settings/webhooks/:webhook", { url: "https://one.example.com/", enabled: false }, 200],
      ["PATCH", "/settings/workspace", { name: "Renamed" }, 200],
      ["DELETE", `/settings/keys/${key.id}`, {}, 200],
      ["DELETE", "/sessions", {}, 204],
    ] as const) {
      expect([path, (await ask(alice, method, paths(path), body)).status]).toEqual([path, status]);
    }
  });
});

describe("a confirmed session", () => {
  beforeAll(async () => {
    await bootBoth();
    await confirm(alice);
  });

  test.each(ASKED)("does %s %s", async (method, path, body, status) => {
    expect((await ask(alice, method, paths(path), body)).status).toBe(status);
  });

  test("does so for five minutes", async () => {
    const make = async () => (await alice.send("POST", "/app-passwords", { name: "Phone" })).status;
    await confirm(alice);
    await booted.advance(299_999);
    expect(await make()).toBe(200);
    await booted.advance(1);
    expect(await make()).toBe(403);
  });

  test("no longer does so after the clock was set back", async () => {
    await booted.advance(60_000);
    await confirm(alice);
    booted.core.store.db.$client.exec(
      "UPDATE sessions SET confirmed_at = confirmed_at + 1 WHERE confirmed_at IS NOT NULL",
    );
    expect((await alice.send("POST", "/app-passwords", { name: "Phone" })).status).toBe(403);
  });
});

describe("the proof", () => {
  beforeEach(bootBoth);
  const prove = (by: Page, given: object) => by.send<{ error: string }>("POST", "/me/confirm", given);

  test("gives the browser another cookie, and ends copies of the old one with their streams", async () => {
    const thief = page(booted, alice.cookie);
    const stream = await thief.fetch("/live");
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader();
    let heard = "";
    const ended = (async () => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        heard += new TextDecoder().decode(value);
      }
    })();
    await until(() => heard.includes("event: hello"));
    await confirm(alice);
    expect([(await thief.get("/me")).status, (await alice.get("/me")).status]).toEqual([401, 200]);
    await booted.api.post("/send", { from: ALICE, to: ALICE, subject: "secret", text: "x" });
    await booted.advance(25_000);
    await ended;
    expect(heard).not.toContain("event: mail");
  });

  test("of another session does not confirm this session, and no other site can send it", async () => {
    const elsewhere = await signInOnly(booted, ALICE);
    await confirm(elsewhere);
    expect(await alice.send("POST", "/app-passwords", { name: "Phone" })).toMatchObject(UNCONFIRMED);
    const forged = await alice.fetch("/me/confirm", {
      method: "POST",
      headers: { origin: "https://evil.example", "content-type": "application/json" },
      body: JSON.stringify({ password: PASSWORD }),
    });
    expect([forged.status, forged.headers.get("set-cookie")]).toEqual([403, null]);
    expect((await alice.get("/me")).status).toBe(200);
  });

  test("cannot be given with an API key, which cannot make keys either", async () => {
    const bearer = { authorization: `Bearer ${booted.owner.apiKey}` };
    for (const path of ["/me/confirm", "/settings/keys", "/app-passwords"]) {
      const answer = await page(booted).fetch(path, { method: "POST", headers: bearer, body: "{}" });
      expect(answer.status).toBe(401);
    }
    for (const path of ["/settings/keys", "/app-passwords"]) {
      expect((await booted.api.post(path, {})).status).toBe(404);
    }
  });

  test("is slowed for guesses, by source and account, as at sign-in", async () => {
    const guesses = Array.from({ length: 5 }, () => prove(alice, { password: "guess" }));
    expect(new Set((await Promise.all(guesses)).map(({ status }) => status))).toEqual(new Set([403]));
    const atTheDoor = Array.from({ length: 15 }, () =>
      page(booted).send("POST", "/sign-in", { email: "nobody@example.test", password: "guess" }),
    );
    await Promise.all(atTheDoor);
    const before = booted.runtime.timers().length;
    let told = false;
    const last = prove(alice, { password: "guess" }).finally(() => {
      told = true;
    });
    await until(() => booted.runtime.timers().length !== before || told);
    expect(told).toBe(false);
    await booted.advance(2_000);
    expect((await last).status).toBe(403);
  }, 120_000);

  test("needs a code of a person with a second factor, once, and a refusal does not tell which part was wrong", async () => {
    const { secret } = (await alice.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = () => computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
    const on = await alice.send<{ recoveryCodes: string[] }>("POST", "/me/second-factor", {
      ...{ secret, code: code(), password: PASSWORD },
    });
    await booted.advance(300_000);
    expect(await alice.send("POST", "/app-passwords", { name: "x" })).toMatchObject({
      status: 403,
      body: { confirm: { code: true } },
    });
    const refused = await prove(alice, { password: PASSWORD });
    expect(refused.status).toBe(403);
    for (const given of [
      { password: PASSWORD, code: "000000" },
      { password: "wrong", code: code() },
    ]) {
      expect(await prove(alice, given)).toMatchObject({ status: 403, body: refused.body });
    }
    expect((await prove(alice, { password: PASSWORD, code: code() })).status).toBe(204);
    expect((await prove(alice, { password: PASSWORD, code: code() })).status).toBe(403);
    await booted.advance(STEP);
    const atTheDoor = { email: ALICE, password: PASSWORD, code: code() };
    expect((await page(booted).send("POST", "/sign-in", atTheDoor)).status).toBe(204);
    expect((await prove(alice, { password: PASSWORD, code: code() })).status).toBe(403);
    const [recovery] = on.body.recoveryCodes;
    expect((await prove(alice, { password: PASSWORD, code: recovery })).status).toBe(204);
    expect((await alice.send("POST", "/app-passwords", { name: "x" })).status).toBe(200);
  }, 120_000);

  test("with one code counts once, also in two requests at the same time", async () => {
    const { secret } = (await alice.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = () => computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
    await alice.send("POST", "/me/second-factor", { secret, code: code(), password: PASSWORD });
    await booted.advance(STEP);
    const elsewhere = page(booted, alice.cookie);
    const both = [alice, elsewhere].map((by) => prove(by, { password: PASSWORD, code: code() }));
    // For the other request, the code is used, or the session has another cookie.
    expect((await Promise.all(both)).map(({ status }) => status === 204).sort()).toEqual([false, true]);
  });

  test("is logged, without password and code", async () => {
    await prove(alice, { password: "tried-in-vain" });
    await confirm(alice);
    const lines = booted.lines.filter(({ message }) => /^confirm/.test(String(message)));
    expect(lines.map(({ message }) => message)).toEqual(["confirmation failed", "confirmed"]);
    expect(JSON.stringify(booted.lines)).not.toContain("tried-in-vain");
  });
});

describe("a request that began before the change", () => {
  beforeEach(bootBoth);
  /** Begins a request, and holds back its last byte. */
  function begin(path: string, body: object, cookie: string, { at = "/app", method = "POST", more = "x: y" } = {}) {
    const { host, port, origin } = new URL(booted.http);
    const text = JSON.stringify(body);
    const socket = connect(Number(port), "127.0.0.1");
    let answer = "";
    socket.on("data", (data) => {
      answer += data;
    });
    const head = [
      `${method} ${at}${path} HTTP/1.1`,
      more,
      `host: ${host}`,
      `origin: ${origin}`,
      `cookie: ${cookie}`,
      "content-type: application/json",
    ];
    socket.write(
      `${head.join("\r\n")}\r\ncontent-length: ${text.length}\r\nconnection: close\r\n\r\n${text.slice(0, -1)}`,
    );
    return async () => {
      socket.write(text.slice(-1));
      await until(() => answer.includes("\r\n\r\n"));
      socket.destroy();
      return answer.split("\r\n", 1)[0];
    };
  }
  const made = () => {
    const { db } = booted.core.store;
    return [db.select().from(appPasswords).all(), db.select().from(apiKeys).all()].map((rows) => rows.length);
  };

  test.each([
    ["/app-passwords", { name: "Phone" }],
    ["/settings/keys", { name: "Agent", scopes: ["read"] }],
  ])("%s does nothing when its session ended meanwhile, or its person gave the proof elsewhere", async (path, body) => {
    const before = made();
    await confirm(alice);
    const [ends, copied] = [begin(path, body, alice.cookie), begin(path, body, alice.cookie)];
    // Both requests have arrived.
    for (let i = 0; i < 3; i++) await alice.get("/me");
    await confirm(alice);
    expect(await copied()).toContain("401");
    await setPassword(booted, booted.owner.userId);
    expect(await ends()).toContain("401");
    expect(made()).toEqual(before);
  });

  test.each([
    ["/send", { from: ALICE, to: ALICE, subject: "x", text: "x" }],
    ["/drafts", { from: ALICE, to: ALICE, subject: "x", text: "x" }],
    ["/settings/mailboxes", { address: "new@example.test", name: "New" }],
  ])("%s does nothing, too", async (path, body) => {
    const ends = begin(path, body, alice.cookie);
    for (let i = 0; i < 3; i++) await alice.get("/me");
    await setPassword(booted, booted.owner.userId);
    expect(await ends()).toContain("401");
    expect(booted.core.store.db.select().from(messages).all()).toEqual([]);
    expect(mailboxAdmin.listMailboxes(booted.opened.core)).toHaveLength(1);
  });

  test.each([
    ["PATCH", "/threads/:thread", { starred: true }],
    ["POST", "/threads/:thread/draft", { text: "x" }],
    [
      "POST",
      "/mcp",
      { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_mailboxes", arguments: {} } },
    ],
  ])("%s %s with a key that was revoked meanwhile does nothing", async (method, path, body) => {
    await booted.api.post("/send", { from: ALICE, to: ALICE, subject: "x", text: "x" });
    await booted.advance(0);
    const listed = await booted.api.get<{ threads: { id: string }[] }>("/threads?folder=all");
    const to = path.replace(":thread", listed.body.threads[0]?.id ?? "");
    const more = `authorization: Bearer ${booted.owner.apiKey}`;
    const ends = begin(to, body, "", { at: path === "/mcp" ? "/api" : "/api/v1", method, more });
    for (let i = 0; i < 3; i++) await alice.get("/me");
    const { core } = booted.opened;
    const { store } = core;
    const passwordHash = await hashNewPassword("another one");
    const before = store.db.select().from(messages).all();
    store.transact((tx) => people.replacePassword(core, tx, booted.owner.userId, { passwordHash }));
    expect(await ends()).toContain("401");
    expect(store.db.select().from(messages).all()).toEqual(before);
    expect(store.db.select().from(threads).all()).toMatchObject([{ starred: false }]);
  });

  test("and waits for DNS does nothing when its session ended in that time", async () => {
    const published: Zone = {};
    const looked = Promise.withResolvers<void>();
    const answers = Promise.withResolvers<void>();
    const hold = () => {
      looked.resolve();
      return answers.promise;
    };
    const waiting = await boot({}, zone(published, { hold }));
    const { core } = waiting.opened;
    const { store } = core;
    await setPassword(waiting, waiting.owner.userId);
    const page = await signInOnly(waiting, ALICE);
    const { id } = store.transact((tx) => domains.addDomain(core, tx, waiting.owner.workspaceId, "new.test", []));
    Object.assign(published, zoneOf(domains.listDomainRecords(core, id)));
    const verifying = page.send("POST", `/settings/domains/${id}/verify`);
    await looked.promise;
    await setPassword(waiting, waiting.owner.userId);
    answers.resolve();
    expect((await verifying).status).toBe(401);
    expect(domains.getDomainById(core, waiting.owner.workspaceId, id).state).toBe("unverified");
  });

  test("is refused when its person is no longer an admin", async () => {
    const { core } = booted.opened;
    const { store } = core;
    store.transact((tx) => people.setRole(tx, bob, "admin"));
    const admin = await signInOnly(booted, BOB);
    const ends = begin("/settings/mailboxes", { address: "new@example.test", name: "New" }, admin.cookie);
    for (let i = 0; i < 3; i++) await admin.get("/me");
    store.transact((tx) => people.setRole(tx, bob, "member"));
    expect(await ends()).toContain("403");
    expect(mailboxAdmin.listMailboxes(core)).toHaveLength(1);
  });
});
