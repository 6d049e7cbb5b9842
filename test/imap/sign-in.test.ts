/** Signing in over IMAP: who does, with what, what they may do then, and when their sessions end. */
import { beforeAll, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { hashNewPassword } from "../../src/admin/people.ts";
import { letOthersRun } from "../../src/base/pause.ts";
import { apiKeys, type Policy } from "../../src/store/schema.ts";
import { PASSWORD } from "../harness/clients/browser-session.ts";
import { type ImapAccount, imapAccount, imapStranger } from "../harness/clients/imap-client.ts";
import { letter } from "../harness/mail/mail.ts";
import { type OAuthWorld, startOAuth } from "../harness/servers/oauth.ts";

const ALICE = "alice@example.test";
let world: OAuthWorld;
let port: number;
const start = async () => {
  world = await startOAuth({}, { MAILROOM_IMAPS: "127.0.0.1:0" });
  port = Number(world.ready.imaps?.split(":")[1]);
};
beforeAll(start);

const base64 = (text: string): string => Buffer.from(text, "latin1").toString("base64");
const bearer = (token: string, user = `a=${ALICE}`): string =>
  base64(`n,${user},\x01host=mail.example.test\x01port=993\x01auth=Bearer ${token}\x01\x01`);

const opened = (secret: string) => imapAccount(port, ALICE, secret);
async function trySecret(secret: string, user = ALICE): Promise<string> {
  const app = await imapStranger(port);
  const { status, text } = await app.say(`LOGIN ${user} ${secret}`);
  app.end();
  return `${status} ${text}`;
}
const makeAppPassword = async (access?: string) =>
  (await world.alice.send<{ id: string; password: string }>("POST", "/app-passwords", { name: "Phone", access })).body;
function makeKey(policy: Policy = {}, scopes: ("read" | "write")[] = ["read", "write"]) {
  const { core } = world.opened;
  const { store } = core;
  const { userId } = world.owner;
  return store.transact((tx) => developers.createKey(core, tx, { userId, name: "App", scopes, policy }));
}

/** Waits with IDLE; resolves with what it is told at the end. */
async function idling(secret: string) {
  const app = await opened(secret);
  await app.say("SELECT INBOX");
  app.write("i IDLE\r\n");
  expect(await app.line()).toStartWith("+ ");
  return app;
}
async function expectEnd(app: ImapAccount): Promise<void> {
  await world.advance(1_000);
  expect(await app.line()).toBe("* BYE Sign in again");
  expect(await app.line()).toBeUndefined();
}

describe("with an app password", () => {
  const append = (app: ImapAccount, folder: string) => {
    const text = letter({ subject: "Mine", from: ALICE }).replaceAll(/\r?\n/g, "\r\n");
    return app.say(`APPEND ${folder} {${text.length}+}\r\n${text}`);
  };

  test.each([undefined, "all"])("of access %p a mail app reads and changes mail", async (access) => {
    const app = await opened((await makeAppPassword(access)).password);
    expect((await append(app, "Archive")).status).toBe("OK");
    await app.say("SELECT Archive");
    expect((await app.say("STORE 1 +FLAGS (\\Seen)")).status).toBe("OK");
    app.end();
  });

  test("that only reads, it changes nothing", async () => {
    const app = await opened((await makeAppPassword("read")).password);
    expect((await app.say("SELECT Archive")).status).toBe("OK");
    expect((await app.say("FETCH 1 (FLAGS)")).status).toBe("OK");
    for (const command of ["STORE 1 -FLAGS (\\Seen)", "MOVE 1 INBOX"]) {
      expect(await app.say(command)).toMatchObject({ status: "NO", text: expect.stringContaining("[NOPERM]") });
    }
    expect(await append(app, "Archive")).toMatchObject({ status: "NO" });
    // Reading marks nothing as seen.
    await app.say("FETCH 1 (BODY[TEXT])");
    app.end();
  });

  test("that only sends, it does not sign in; nor with another person's", async () => {
    expect(await trySecret((await makeAppPassword("send")).password)).toStartWith("NO [AUTHENTICATIONFAILED]");
    expect(await trySecret((await makeAppPassword()).password, "bob@example.test")).toStartWith("NO");
    expect((await world.alice.send("POST", "/app-passwords", { name: "Phone", access: "admin" })).status).toBe(400);
  });

  test("its session ends when that is revoked, also while it waits", async () => {
    const { id, password } = await makeAppPassword();
    const [waiting, idle] = [await idling(password), await opened(password)];
    await world.advance(1_000);
    expect((await world.alice.send("DELETE", `/app-passwords/${id}`)).status).toBe(204);
    await expectEnd(waiting);
    await expectEnd(idle);
    expect(await trySecret(password)).toStartWith("NO");
  });
});

describe("with an API key", () => {
  test("the scope read is needed, and write to change anything", async () => {
    const { key } = makeKey({}, ["read"]);
    const app = await opened(key);
    await app.say("SELECT Archive");
    expect(await app.say("STORE 1 +FLAGS (\\Flagged)")).toMatchObject({ status: "NO" });
    app.end();
    expect(await trySecret(makeKey({}, ["write"]).key)).toStartWith("NO");
  });

  test("its policy names the mailboxes that there are", async () => {
    const { core } = world.opened;
    const { store } = core;
    const { workspaceId } = world.owner;
    store.transact((tx) =>
      mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@example.test", name: "Team" }),
    );
    const names = async (policy: Policy) => {
      const app = await opened(makeKey(policy).key);
      const { untagged } = await app.say('LIST "" "*"');
      app.end();
      return untagged.map((line) => /"([^"]+)"$/.exec(line)?.[1]).filter((name) => name !== undefined);
    };
    expect(await names({})).toContain("Shared/team@example.test/INBOX");
    expect(await names({ mailboxes: [ALICE] })).not.toContain("Shared/team@example.test/INBOX");
    expect(await names({ mailboxes: ["team@example.test"] })).toEqual([
      "INBOX",
      "Archive",
      "Drafts",
      "Junk",
      "Sent",
      "Trash",
    ]);
  });

  test.each<[string, Policy]>([
    ["from elsewhere", { networks: ["192.0.2.0/24"] }],
    ["after its end", { expiresAt: "2020-01-01T00:00:00Z" }],
  ])("%s it is refused", async (_, policy) => {
    expect(await trySecret(makeKey(policy).key)).toStartWith("NO [AUTHENTICATIONFAILED]");
  });

  test("one that reads no codes is told why it is refused", async () => {
    expect(await trySecret(makeKey({ codes: false }).key)).toBe(
      "NO [AUTHORIZATIONFAILED] This key reads no codes, and IMAP cannot hide them",
    );
  });

  test.each<[string, { policy?: Policy; pausedAt?: number; revokedAt?: number }]>([
    ["it is paused", { pausedAt: 1 }],
    ["it is revoked", { revokedAt: 1 }],
    ["its policy leaves it no codes", { policy: { codes: false } }],
    ["its policy leaves it no network from here", { policy: { networks: ["192.0.2.0/24"] } }],
  ])("a session ends when %s", async (_, change) => {
    const { key, id } = makeKey();
    const waiting = await idling(key);
    world.core.store.transact((tx) => tx.update(apiKeys).set(change).where(eq(apiKeys.id, id)).run());
    await expectEnd(waiting);
  });
});

describe("with OAUTHBEARER", () => {
  const CHALLENGE = { status: "invalid_token", scope: "read" };

  test("a grant signs in, at once or when asked, named or not", async () => {
    const { access } = await world.letIn({ scopes: ["read"] });
    for (const user of [`a=${ALICE}`, ""]) {
      const app = await imapStranger(port);
      expect((await app.say(`AUTHENTICATE OAUTHBEARER ${bearer(access, user)}`)).text).toStartWith("[CAPABILITY ");
      expect((await app.say("SELECT INBOX")).status).toBe("OK");
      app.end();
    }
    const app = await imapStranger(port);
    app.write("a AUTHENTICATE OAUTHBEARER\r\n");
    while ((await app.line()) !== "+ ");
    app.write(`${bearer(access)}\r\n`);
    expect(await app.line()).toStartWith("a OK ");
    app.end();
  });

  test.each([
    ["an unknown token", () => bearer("mro_unknown")],
    ["another person's name", async () => bearer((await world.letIn()).access, "a=bob@example.test")],
    ["a grant that may not read", async () => bearer((await world.letIn({ scopes: ["send"] })).access)],
  ])("%s is challenged, then refused", async (_, response) => {
    const app = await imapStranger(port);
    app.write(`a AUTHENTICATE OAUTHBEARER ${await response()}\r\n`);
    let line = await app.line();
    while (line?.startsWith("* ")) line = await app.line();
    expect(JSON.parse(Buffer.from(line?.slice(2) ?? "", "base64").toString())).toEqual(CHALLENGE);
    app.write("AQ==\r\n");
    expect(await app.line()).toStartWith("a NO [AUTHENTICATIONFAILED]");
    app.end();
  });

  test.each([
    "",
    "=",
    "!",
    base64("n,,\x01\x01"),
    base64("auth=Bearer x\x01\x01"),
    base64("n,,\x01auth=Basic x\x01\x01"),
  ])("%p is malformed", async (response) => {
    const app = await imapStranger(port);
    expect((await app.say(`AUTHENTICATE OAUTHBEARER ${response}`)).status).toBe("BAD");
    app.end();
  });

  test("its session ends with the grant, and with the hour of its token", async () => {
    const waits = async (access: string) => {
      const app = await imapStranger(port);
      await app.say(`AUTHENTICATE OAUTHBEARER ${bearer(access)}`);
      return app;
    };
    const { access, clientId } = await world.letIn();
    const first = await waits(access);
    await world.post("/oauth/revoke", { token: access, client_id: clientId });
    await expectEnd(first);
    const second = await waits((await world.letIn()).access);
    for (const minutes of [29, 30]) {
      await world.advance(minutes * 60_000);
      expect((await second.say("NOOP")).status).toBe("OK");
    }
    await world.advance(59_000);
    await expectEnd(second);
  });
});

test("PLAIN takes three fields in base64, and a client may cancel", async () => {
  const app = await imapStranger(port);
  for (const response of [base64(`\0${ALICE}`), base64(`\0${ALICE}\0a\0b`), "%"]) {
    expect((await app.say(`AUTHENTICATE PLAIN ${response}`)).status).toBe("BAD");
  }
  expect(await app.say("AUTHENTICATE CRAM-MD5")).toMatchObject({ status: "NO" });
  app.end();
  const other = await imapStranger(port);
  other.write("a AUTHENTICATE PLAIN\r\n");
  while ((await other.line()) !== "+ ");
  other.write("*\r\n");
  expect(await other.line()).toStartWith("a BAD ");
  other.end();
});

test("a source, and a person, have so many connections", async () => {
  await start();
  const apps: ImapAccount[] = [];
  for (let i = 0; i < 32; i++) apps.push(await opened(world.owner.apiKey));
  expect(await trySecret(world.owner.apiKey)).toBe("NO [LIMIT] Too many connections");
  apps.pop()?.end();
  // Of strangers alone, and neither of this host, where a proxy may stand, nor of networks that are trusted.
  for (let i = 0; i < 100; i++) apps.push(await imapStranger(port, "127.0.0.2"));
  const greeting = (from: string) =>
    imapStranger(port, from).then(
      (app) => {
        apps.push(app);
        return "greeted";
      },
      () => "refused",
    );
  expect(await greeting("127.0.0.2")).toBe("refused");
  expect(await greeting("127.0.0.3")).toBe("greeted");
  for (let i = 0; i < 101; i++) expect(await greeting("127.0.0.1")).toBe("greeted");
  for (const app of apps) app.end();
});

test("guesses are answered more and more slowly, as at submission", async () => {
  await start();
  for (let i = 0; i < 20; i++) expect(await trySecret(`guess-${i}`)).toStartWith("NO");
  let isAnswered = false;
  const guess = trySecret("guess").then((reply) => {
    isAnswered = true;
    return reply;
  });
  // Another one of the same source is served meanwhile.
  expect(await trySecret(world.owner.apiKey)).toStartWith("OK");
  expect(isAnswered).toBe(false);
  // The server may begin to wait only after a step of the clock; in three minutes it ends who has not signed in.
  while (!isAnswered) {
    await world.advance(1);
    await letOthersRun();
  }
  expect(await guess).toStartWith("NO");
});
describe("with the password of the web app", () => {
  test("a person signs in, and their sessions end when it is replaced", async () => {
    await start();
    const waiting = await idling(JSON.stringify(PASSWORD));
    const { core } = world.opened;
    const { store } = core;
    const hash = await hashNewPassword("another password");
    store.transact((tx) => people.replacePassword(core, tx, world.owner.userId, { passwordHash: hash }));
    await expectEnd(waiting);
  });

  test("a person with a second factor does not, but with an app password; sessions from before end", async () => {
    await start();
    const waiting = await idling(JSON.stringify(PASSWORD));
    const { secret } = (await world.alice.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(world.runtime.now()));
    await world.alice.send("POST", "/me/second-factor", { secret, code, password: PASSWORD });
    await expectEnd(waiting);
    expect(await trySecret(JSON.stringify(PASSWORD))).toStartWith("NO");
    expect(await trySecret((await makeAppPassword()).password)).toStartWith("OK");
  });
});
