/** App passwords: people make and revoke them over HTTP, and mail apps use them over SMTP, where they cannot give a second factor. */
import { beforeAll, describe, expect, test } from "bun:test";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../../src/access/totp.ts";
import * as people from "../../../src/admin/people.ts";
import { appPasswords } from "../../../src/store/schema.ts";
import { PASSWORD, type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { connectSmtp, type SmtpClient } from "../../harness/clients/smtp-client.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";
import { authPlain, brief } from "../../harness/servers/submission-rig.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const REFUSAL = { code: 535, status: "5.7.8", lines: ["5.7.8 Address or password is wrong"] };
const MESSAGE = `From: ${ALICE}\r\nTo: ${BOB}\r\nSubject: hello\r\n\r\nHow are you?`;

interface Made {
  id: string;
  password: string;
}
interface Listed {
  appPasswords: { id: string; name: string; access: string; createdAt: string; lastUsedAt: string | null }[];
  mailApps: Record<string, unknown>;
}

let booted: Booted;
let alice: Page;
let bob: Page;

async function bootBoth(): Promise<void> {
  booted = await boot();
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId } = booted.owner;
  const bobs = store.transact((tx) =>
    people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: true }),
  );
  for (const id of [userId, bobs.userId]) await setPassword(booted, id);
  [alice, bob] = [await signIn(booted, ALICE), await signIn(booted, BOB)];
}
beforeAll(bootBoth);

const make = async (by: Page, name = "Phone") => (await by.send<Made>("POST", "/app-passwords", { name })).body;
const list = async (by: Page) => (await by.get<Listed>("/app-passwords")).body;
const revoke = (by: Page, id: string) => by.send("DELETE", `/app-passwords/${id}`);

async function openApp(): Promise<SmtpClient> {
  return connectSmtp(booted.submissions, { tls: true });
}
const tryApp = async (username: string, secret: string) => {
  const client = await openApp();
  const reply = await authPlain(client, username, secret);
  client.destroy();
  return reply;
};

describe("an app password", () => {
  test("is shown once, is easy to type, and is stored as a hash", async () => {
    const { id, password } = await make(alice);
    expect(password).toMatch(/^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){4}$/);
    expect(JSON.stringify(await list(alice))).not.toContain(password);
    const rows = JSON.stringify(booted.core.store.db.select().from(appPasswords).all());
    for (const form of [password, password.replaceAll("-", "")]) expect(rows).not.toContain(form);
    expect(id).toStartWith("apw_");
    expect((await make(alice)).password).not.toBe(password);
  });

  test("signs in only its person, with any spacing and case", async () => {
    const { password } = await make(alice);
    for (const typed of [
      password,
      password.toUpperCase(),
      password.replaceAll("-", " "),
      password.replaceAll("-", ""),
    ]) {
      expect(brief(await tryApp(ALICE, typed))).toBe("235 2.7.0");
    }
    expect(await tryApp(BOB, password)).toEqual(REFUSAL);
    expect(await tryApp(ALICE, `${password.slice(0, -1)}${password.endsWith("0") ? "1" : "0"}`)).toEqual(REFUSAL);
    const client = await openApp();
    await authPlain(client, ALICE, password);
    expect((await client.deliver({ from: ALICE, to: BOB }, MESSAGE)).code).toBe(250);
    client.destroy();
  });

  test("is neither a password of the web app nor an API key", async () => {
    const { password } = await make(alice);
    await expect(signInWith(password)).resolves.toBe(401);
    expect((await booted.apiWith(password).get("/mailboxes")).status).toBe(401);
  });

  test("no longer signs in once it is revoked, and its open sessions end", async () => {
    const { id, password } = await make(alice);
    const client = await openApp();
    expect((await authPlain(client, ALICE, password)).code).toBe(235);
    expect((await client.deliver({ from: ALICE, to: BOB }, MESSAGE)).code).toBe(250);
    expect((await revoke(alice, id)).status).toBe(204);
    expect(brief(await client.command(`MAIL FROM:<${ALICE}>`))).toBe("421 4.7.0");
    await client.closed;
    expect(await tryApp(ALICE, password)).toEqual(REFUSAL);
    expect((await revoke(alice, id)).status).toBe(404);
  });

  test("is listed only to its person, and revoked only by them", async () => {
    const { id } = await make(bob, "Bob's tablet");
    expect((await list(bob)).appPasswords).toEqual([
      {
        id,
        name: "Bob's tablet",
        access: "all",
        createdAt: new Date(booted.runtime.now()).toISOString(),
        lastUsedAt: null,
      },
    ]);
    expect((await list(alice)).appPasswords.map((one) => one.id)).not.toContain(id);
    expect((await revoke(alice, id)).status).toBe(404);
    expect((await list(bob)).appPasswords).toHaveLength(1);
  });

  test("has the time of its last use, to the minute, written once for many messages", async () => {
    await bootBoth();
    const { store } = booted.core;
    const { password } = await make(alice);
    const client = await openApp();
    await authPlain(client, ALICE, password);
    const used = async () => {
      await store.enqueue(() => undefined);
      return (await list(alice)).appPasswords[0]?.lastUsedAt;
    };
    expect(await used()).toBeNull();
    const first = new Date(booted.runtime.now()).toISOString();
    await client.expect(250, `MAIL FROM:<${ALICE}>`);
    expect(await used()).toBe(first);
    await booted.advance(59_000);
    await client.expect(250, "RSET");
    await client.expect(250, `MAIL FROM:<${ALICE}>`);
    expect(await used()).toBe(first);
    await booted.advance(1_000);
    await client.expect(250, "RSET");
    await client.expect(250, `MAIL FROM:<${ALICE}>`);
    expect(await used()).toBe(new Date(booted.runtime.now()).toISOString());
    client.destroy();
  });

  test.each([{}, { name: "" }, { name: "two\nlines" }, { name: "x".repeat(121) }])(
    "of %j is refused",
    async (given) => {
      expect((await alice.send("POST", "/app-passwords", given)).status).toBe(400);
    },
  );

  test("a person may have fifty", async () => {
    await bootBoth();
    for (let i = 0; i < 50; i++) await make(alice, `${i}`);
    expect((await alice.send("POST", "/app-passwords", { name: "one more" })).status).toBe(409);
    expect((await list(alice)).appPasswords).toHaveLength(50);
  });

  test("is removed with its person", async () => {
    const { password } = await make(bob);
    const { core } = booted.opened;
    const { store } = core;
    expect((await tryApp(BOB, password)).code).toBe(235);
    store.transact((tx) => people.removeUser(tx, people.getUserByAddress(core, BOB).id));
    expect(await tryApp(BOB, password)).toEqual(REFUSAL);
    expect(
      store.db
        .select()
        .from(appPasswords)
        .all()
        .filter(({ name }) => name === "Phone"),
    ).toEqual([]);
  });
});

const signInWith = (password: string): Promise<number> =>
  fetch(`${booted.http}/app/sign-in`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: booted.http },
    body: JSON.stringify({ email: ALICE, password }),
  }).then(({ status }) => status);

describe("with a second factor", () => {
  async function turnOn(): Promise<string> {
    const { secret } = (await alice.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
    expect((await alice.send("POST", "/me/second-factor", { secret, code, password: PASSWORD })).status).toBe(200);
    return secret;
  }

  test("the password alone no longer signs mail apps in, and their open sessions end", async () => {
    await bootBoth();
    const open = await openApp();
    expect((await authPlain(open, ALICE, PASSWORD)).code).toBe(235);
    const secret = await turnOn();
    expect(brief(await open.command(`MAIL FROM:<${ALICE}>`))).toBe("421 4.7.0");
    await open.closed;
    await booted.advance(30_000);
    const code = computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
    for (const secret of [PASSWORD, "wrong", code, `${PASSWORD}${code}`])
      expect(await tryApp(ALICE, secret)).toEqual(REFUSAL);
    expect((await tryApp(BOB, PASSWORD)).code).toBe(235);
  });

  test("an app password and an API key still work", async () => {
    expect((await tryApp(ALICE, (await make(alice)).password)).code).toBe(235);
    expect((await tryApp(ALICE, booted.owner.apiKey)).code).toBe(235);
  });
});

test("whether mail apps see labels as folders is set by each person for themselves", async () => {
  const shown = async (): Promise<boolean[]> =>
    Promise.all(
      [alice, bob].map(async (page) => (await page.get<{ labelFolders: boolean }>("/app-passwords")).body.labelFolders),
    );
  expect(await shown()).toEqual([false, false]);
  expect((await alice.send("PATCH", "/me/mail-apps", { labelFolders: true })).status).toBe(204);
  expect(await shown()).toEqual([true, false]);
  expect((await alice.send("PATCH", "/me/mail-apps", { labelFolders: 1 })).status).toBe(400);
  expect((await alice.send("PATCH", "/me/mail-apps", { labelFolders: false })).status).toBe(204);
  expect(await shown()).toEqual([false, false]);
});

describe("the page shows", () => {
  test("where mail apps find the server", async () => {
    expect((await list(alice)).mailApps).toEqual({
      host: "localhost",
      imap: null,
      imaps: null,
      profile: false,
      submission: booted.submission.port,
      submissions: booted.submissions.port,
    });
  });

  test("which listeners are off", async () => {
    const half = await boot({ MAILROOM_SUBMISSION: "off", MAILROOM_HOSTNAME: "mail.example.test" });
    await setPassword(half, half.owner.userId);
    expect((await list(await signIn(half, ALICE))).mailApps).toEqual({
      host: "mail.example.test",
      imap: null,
      imaps: null,
      profile: false,
      submission: null,
      submissions: half.submissions.port,
    });
  });
});
