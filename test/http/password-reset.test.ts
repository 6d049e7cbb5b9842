/**
 * Replacing a password ends all that the old one gave access to: sessions, app passwords, API keys, and their open connections.
 * The person gets a mail about it.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import * as developers from "../../src/admin/developers.ts";
import * as people from "../../src/admin/people.ts";
import { hashNewPassword } from "../../src/admin/people.ts";
import { accessNotices } from "../../src/store/schema.ts";
import { PASSWORD, type Page, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { authPlain } from "../harness/servers/submission-rig.ts";
import { until } from "../harness/until.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
let booted: Booted;
let alice: Page;
let bob: Page;
let bobId: string;
let appPassword: string;
let key: string;

beforeEach(async () => {
  booted = await boot();
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId } = booted.owner;
  bobId = store.transact((tx) => {
    const { userId } = people.addUser(core, tx, {
      workspaceId,
      email: BOB,
      name: "Bob",
      role: "admin",
      ownMailbox: true,
    });
    developers.addWebhook(core, tx, { workspaceId, url: "https://one.example.com/", events: ["message.inbound"] });
    return userId;
  });
  for (const id of [userId, bobId]) await setPassword(booted, id);
  [alice, bob] = await Promise.all([signIn(booted, ALICE), signIn(booted, BOB)]);
  appPassword = (await bob.send<{ password: string }>("POST", "/app-passwords", { name: "Phone" })).body.password;
  await bob.send("POST", "/app-passwords", { name: "Laptop" });
  key = (await bob.send<{ key: string }>("POST", "/settings/keys", { name: "Agent", scopes: ["read", "send"] })).body
    .key;
});

async function mailApp(secret: string): Promise<SmtpClient | undefined> {
  const client = await connectSmtp(booted.submissions, { tls: true });
  if ((await authPlain(client, BOB, secret)).code === 235) return client;
  client.destroy();
  return undefined;
}
const tryIn = async (password: string) =>
  (await page(booted).send("POST", "/sign-in", { email: BOB, password })).status;
/** Gives Bob each kind of credential. */
async function lets(password: string) {
  const [byApp, byKey] = [await mailApp(appPassword), await mailApp(key)];
  const smtp = [byApp !== undefined, byKey !== undefined];
  byApp?.destroy();
  byKey?.destroy();
  return {
    browser: (await bob.get("/me")).status,
    password: await tryIn(password),
    appPassword: smtp[0],
    key: [smtp[1], (await booted.apiWith(key).get("/mailboxes")).status],
  };
}
interface Notice {
  from: { email: string };
  subject: string;
  text: string;
}
async function notices(): Promise<Notice[]> {
  await booted.advance(10_000);
  const { body } = await booted.api.get<{ messages: { id: string }[] }>(
    `/messages?mailbox=${BOB}&from=postmaster@example.test`,
  );
  return Promise.all(
    body.messages.map(async ({ id }) => (await booted.api.get<{ message: Notice }>(`/messages/${id}`)).body.message),
  );
}
const replace = (given: object) =>
  alice.send("POST", `/settings/people/${bobId}/password`, { password: "another one", ...given });
const NOTHING = { browser: 401, appPassword: false, key: [false, 401] };

describe("a password replaced by an admin", () => {
  test("ends sessions, app passwords and API keys with their connections, and webhooks stay", async () => {
    const [byPassword, byApp, byKey] = [await mailApp(PASSWORD), await mailApp(appPassword), await mailApp(key)];
    const mcp = await connectMcp(booted.http, key);
    const waits = mcp.call("list_messages", { waitSeconds: 50 });
    const stream = ((await bob.fetch("/live")).body as ReadableStream<Uint8Array>).getReader();
    let heard = "";
    const ended = (async () => {
      for (;;) {
        const { done, value } = await stream.read();
        if (done) return;
        heard += new TextDecoder().decode(value);
      }
    })();
    await until(() => heard.includes("event: hello"));

    expect((await replace({})).status).toBe(200);
    expect(await lets("another one")).toEqual({ ...NOTHING, password: 204 });
    expect(await tryIn(PASSWORD)).toBe(401);
    for (const client of [byPassword, byApp, byKey]) {
      expect((await client?.command(`MAIL FROM:<${BOB}>`))?.code).toBe(421);
      await client?.closed;
    }
    await booted.api.post("/send", { from: ALICE, to: BOB, subject: "secret", text: "x" });
    await booted.advance(50_000);
    await ended;
    expect(heard).not.toContain("event: mail");
    const waited = await waits;
    expect([waited.isError, JSON.stringify(waited)]).toEqual([true, expect.not.stringContaining("secret")]);
    expect(developers.listWebhooks(booted.opened.core)).toMatchObject([{ state: "active" }]);
    expect((await booted.api.get("/mailboxes")).status).toBe(200);
  }, 120_000);

  test("keeps the API keys if asked", async () => {
    expect((await replace({ keepKeys: true })).status).toBe(200);
    expect(await lets("another one")).toEqual({ ...NOTHING, password: 204, key: [true, 200] });
    expect((await notices())[0]?.text).toContain("2 app passwords and 0 API keys were ended");
  });

  test("gives the person one mail from postmaster@, and the log has the change, without secrets", async () => {
    await replace({});
    const told = await notices();
    expect(told).toMatchObject([{ subject: "Your password was changed", from: { email: "postmaster@example.test" } }]);
    expect(told[0]?.text).toContain("by an owner or admin of your workspace");
    expect(told[0]?.text).toContain("signed out in every browser; 2 app passwords and 1 API key were ended");
    expect(await notices()).toHaveLength(1);
    expect(booted.lines).toContainEqual(
      expect.objectContaining({
        message: "access changed",
        userId: bobId,
        deed: "password",
        doneBy: "admin",
        appPasswords: 2,
        keys: 1,
      }),
    );
    for (const secret of ["another one", appPassword, key]) expect(JSON.stringify(booted.lines)).not.toContain(secret);
  });

  test("ends nothing when it is the first password", async () => {
    booted.core.store.db.$client.exec("UPDATE users SET password_hash = NULL WHERE email = 'bob@example.test'");
    expect((await replace({})).status).toBe(200);
    expect(await lets("another one")).toMatchObject({ password: 204, appPassword: true, key: [true, 200] });
    expect(await notices()).toEqual([]);
  });
});

test("a password replaced by the operator ends the same", async () => {
  const { core } = booted.opened;
  const { store } = core;
  const open = await mailApp(appPassword);
  const passwordHash = await hashNewPassword("from the operator");
  store.transact((tx) => people.replacePassword(core, tx, bobId, { passwordHash }));
  expect((await open?.command(`MAIL FROM:<${BOB}>`))?.code).toBe(421);
  expect(await lets("from the operator")).toEqual({ ...NOTHING, password: 204 });
  expect((await notices())[0]?.text).toContain("by the operator of the server");
});

describe("a password changed by its person", () => {
  const change = (given: object) =>
    bob.send("POST", "/me/password", { present: PASSWORD, next: "my own one", ...given });

  test("ends the other sessions, and gives this session another cookie", async () => {
    const [elsewhere, copy] = [await signIn(booted, BOB), page(booted, bob.cookie)];
    expect((await change({})).status).toBe(204);
    expect([(await elsewhere.get("/me")).status, (await copy.get("/me")).status]).toEqual([401, 401]);
    expect(await lets("my own one")).toEqual({ browser: 200, password: 204, appPassword: true, key: [true, 200] });
    const [told] = await notices();
    expect(told?.text).toContain("by somebody who was signed in as you");
    expect(told?.text).toContain("every other browser; 0 app passwords and 0 API keys were ended");
  });

  test("ends app passwords and API keys too, if asked", async () => {
    expect((await change({ endAppsAndKeys: "yes" })).status).toBe(400);
    expect((await change({ endAppsAndKeys: true })).status).toBe(204);
    expect(await lets("my own one")).toEqual({ ...NOTHING, browser: 200, password: 204 });
    expect((await notices())[0]?.text).toContain("2 app passwords and 1 API key were ended");
  });
});

test.each(["admin", "operator"])(
  "a second factor reset by the %s ends sessions and app passwords, not API keys",
  async (by) => {
    const { secret } = (await bob.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
    expect((await bob.send("POST", "/me/second-factor", { secret, code, password: PASSWORD })).status).toBe(200);
    if (by === "admin")
      expect((await alice.send("DELETE", `/settings/people/${bobId}/second-factor`)).status).toBe(204);
    else booted.core.store.transact((tx) => people.resetSecondFactor(booted.opened.core, tx, bobId));
    expect(await lets(PASSWORD)).toEqual({ ...NOTHING, password: 204, key: [true, 200] });
    expect(await notices()).toMatchObject([
      {
        subject: "Your two-step sign-in was reset",
        text: expect.stringContaining("2 app passwords and 0 API keys"),
      },
    ]);
  },
);

test("a pending notice is removed with its person, and delays no other notice", async () => {
  await replace({});
  const {
    core: { store },
  } = booted.opened;
  expect(store.db.select().from(accessNotices).all()).toHaveLength(1);
  // An erasure removes it in the same way.
  store.transact((tx) => people.removeUser(tx, bobId));
  expect(store.db.select().from(accessNotices).all()).toEqual([]);
  await booted.advance(10_000);
  expect(booted.lines.filter(({ level }) => level === "error")).toEqual([]);
});
