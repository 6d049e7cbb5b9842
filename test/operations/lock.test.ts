/** Locking a person out and in again (rules: Lock): what ends, in every protocol, what is told of it, and who may. */
import { describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as locks from "../../src/admin/locks.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { PASSWORD, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { bootAdminApi, refusal } from "../harness/servers/admin-api.ts";
import { startOAuth } from "../harness/servers/oauth.ts";
import { authPlain } from "../harness/servers/submission-rig.ts";
import { until } from "../harness/until.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const AWAY = { match: "from:ann", actions: [{ type: "forward", to: "team@example.test" }] };

/** Bob, who administers Alice's workspace, has one of each kind of access, and Alice locks him. */
async function start() {
  const it = await startOAuth({ dns: zone({ "far.test": "SERVFAIL" }) }, { MAILROOM_IMAPS: "127.0.0.1:0" });
  const { core } = it.opened;
  const { store } = core;
  const { workspaceId, apiKey } = it.owner;
  it.set("oauth.grants", "everyone");
  const { userId, mailboxId = "" } = store.transact((tx) => {
    mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@example.test", name: "Team" });
    const bob = people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: true });
    mailboxAdmin.grantMailboxAccess(tx, it.owner.mailboxId, bob.userId, "view");
    return bob;
  });
  await setPassword(it, userId);
  const bob = await signIn(it, BOB);
  const { password: appPassword } = (await bob.send<{ password: string }>("POST", "/app-passwords", { name: "Phone" }))
    .body;
  const { key } = store.transact((tx) =>
    developers.createKey(core, tx, { userId, name: "Agent", scopes: ["read", "send", "write"] }),
  );
  const clientId: string = (await it.register({ client_name: "Program" })).body.client_id;
  const code = (await it.approve(it.queryOf(clientId), {}, bob)).searchParams.get("code") ?? "";
  const { access_token: token, refresh_token: refreshToken } = (await it.exchange(clientId, code)).body;
  const imap = (secret: string): Promise<ImapAccount> =>
    imapAccount(Number(it.ready.imaps?.split(":")[1]), BOB, `"${secret}"`);
  const submission = async (secret: string) => {
    const client = await connectSmtp(it.submissions, { tls: true });
    return { client, code: (await authPlain(client, BOB, secret)).code };
  };
  const admin = async (method: string, path: string, body?: object, as = apiKey) => {
    const answer = await fetch(`${it.http}/api/admin/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${as}`, ...(body && { "content-type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: answers are looked into as JSON.
    return { status: answer.status, body: (await answer.json()) as any };
  };
  return {
    ...it,
    ...{ userId, mailboxId, bob, appPassword, key, token, refreshToken, clientId, imap, submission, admin },
    lock: () => admin("POST", `/people/${userId}/lock`),
    /** Tries each credential of Bob's and returns the answers. */
    async lets() {
      const visitor = page(it);
      const [byPassword, byApp] = [await submission(PASSWORD), await submission(appPassword)];
      for (const { client } of [byPassword, byApp]) client.destroy();
      return {
        signIn: (await visitor.send("POST", "/sign-in", { email: BOB, password: PASSWORD })).status,
        session: (await bob.get("/me")).status,
        submission: [byPassword.code, byApp.code],
        key: await it.tryToken(key),
        grant: await it.tryToken(token),
        renewal: (await it.refresh(clientId, refreshToken)).status,
      };
    },
  };
}

const OUT = { signIn: 401, session: 401, submission: [535, 535], key: 401, grant: 401, renewal: 400 };

describe("a lock", () => {
  test("ends all by which the person or a program of theirs gets in, and lists it; unlocking gives sign-in back alone", async () => {
    const it = await start();
    const rules = `/mailboxes/${it.mailboxId}/rules`;
    const label = { match: "from:eve", actions: [{ type: "label", label: "eve" }], enabled: true };
    expect((await it.admin("PUT", rules, { rules: [AWAY, label] })).status).toBe(200);
    it.core.store.transact((tx) => people.inviteUser(it.opened.core, tx, it.userId));
    const { status, body } = await it.lock();
    const browser = expect.any(String);
    expect([status, body]).toEqual([
      200,
      {
        ...{ id: it.userId, email: BOB, name: "Bob", role: "member", secondFactor: false },
        ...{ canSignIn: false, locked: true, invitedUntil: null, createdAt: expect.any(String) },
        ended: {
          sessions: [{ id: expect.stringMatching(/^ses_/), browser }],
          appPasswords: [{ id: expect.stringMatching(/^apw_/), name: "Phone" }],
          keys: [{ id: expect.stringMatching(/^key_/), name: "Agent" }],
          grants: [{ id: expect.stringMatching(/^key_/), name: "Program" }],
          forwarding: [{ mailboxId: it.mailboxId, mailbox: BOB, match: "from:ann", to: ["team@example.test"] }],
        },
      },
    ]);
    expect(await it.lets()).toEqual(OUT);
    expect((await it.admin("GET", rules)).body.rules).toMatchObject([{ ...AWAY, enabled: false }, label]);
    expect((await it.admin("GET", `/mailboxes/${it.owner.mailboxId}`)).body.grants).toMatchObject([{ user: BOB }]);
    expect((await it.admin("GET", `/people/${it.userId}`)).body).toMatchObject({ locked: true, canSignIn: false });

    const again = await it.lock();
    const nothing = { sessions: [], appPasswords: [], keys: [], grants: [], forwarding: [] };
    expect([again.status, again.body.ended]).toEqual([200, nothing]);
    for (const [path, given] of [
      ["/keys", { name: "K", scopes: ["read"], user: BOB }],
      [`/people/${it.userId}/invite`, { inviteTo: ALICE }],
    ] as const) {
      expect([path, (await it.admin("POST", path, given)).status]).toEqual([path, 409]);
    }

    const unlocked = await it.admin("POST", `/people/${it.userId}/unlock`);
    expect([unlocked.status, unlocked.body.locked, unlocked.body.canSignIn]).toEqual([200, false, true]);
    expect(await it.lets()).toEqual({ ...OUT, signIn: 204, submission: [235, 535] });
    expect((await it.admin("GET", rules)).body.rules).toMatchObject([{ enabled: false }, label]);
    expect((await it.admin("POST", `/people/${it.userId}/unlock`)).status).toBe(200);
  }, 60_000);

  test("ends what is open: IMAP sessions in a command and in IDLE, submission, the live page, requests that wait", async () => {
    const it = await start();
    const [byPassword, idles] = [await it.imap(PASSWORD), await it.imap(it.appPassword)];
    expect([(await byPassword.say("SELECT INBOX")).status, (await idles.say("SELECT INBOX")).status]).toEqual([
      "OK",
      "OK",
    ]);
    idles.write("i IDLE\r\n");
    expect(await idles.line()).toStartWith("+ ");
    const { client: sends } = await it.submission(it.key);
    for (const line of [`MAIL FROM:<${BOB}>`, "RCPT TO:<x@far.test>", "DATA"]) await sends.command(line);
    const live = ((await it.bob.fetch("/live")).body as ReadableStream<Uint8Array>).getReader();
    await live.read();
    const waits = it.apiWith(it.key).get("/messages?waitSeconds=50&after=2027-01-01T00:00:00Z");
    const mcp = await connectMcp(it.http, it.token);
    const called = mcp.call("list_messages", { waitSeconds: 50 });
    const held = /^mailroom_shared\{pool="waits",kind="held"\} 2$/m;
    await until(async () => held.test(await (await fetch(`${it.http}/metrics`)).text()));

    expect((await it.lock()).status).toBe(200);
    // Less than any wait or heartbeat.
    await it.advance(2_000);
    expect((await byPassword.say("NOOP")).status).toBe("BYE");
    for (let line = await idles.line(); line !== undefined; line = await idles.line())
      expect(line).toStartWith("* BYE");
    expect((await sends.command(`Subject: late\r\n\r\nlate\r\n.`)).code).toBe(421);
    while (!(await live.read()).done);
    expect((await waits).status).toBe(401);
    expect((await called).isError).toBe(true);
    expect(it.core.store.db.$client.query("SELECT * FROM outbound_messages").all()).toEqual([]);
  }, 60_000);

  test("stops forwarding, also what waits to be written or for another server; the rest that was accepted is sent", async () => {
    const it = await start();
    it.set("rules.forwardOutside", "true");
    const to = "bob@far.test";
    const page = await it.bob.send("PUT", `/mailboxes/${it.mailboxId}/rules`, {
      rules: [{ match: "from:alice", actions: [{ type: "forward", to }] }],
    });
    expect(page.status).toBe(204);
    const states = () =>
      it.core.store.db.$client
        .query<{ recipient: string; state: string }, []>(
          "SELECT recipient, state FROM queue_entries ORDER BY recipient",
        )
        .all()
        .filter(({ recipient }) => recipient.endsWith("far.test"))
        .map(({ recipient, state }) => `${recipient} ${state}`);
    await it.apiWith(it.key).post("/send", { from: BOB, to: "client@far.test", subject: "Accepted", text: "x" });
    await it.api.post("/send", { from: ALICE, to: BOB, subject: "One", text: "x" });
    await it.advance(1_000);
    await until(() => states().includes(`${to} waiting`));
    expect(states()).toEqual([`${to} waiting`, "client@far.test waiting"]);
    await it.lock();
    expect(states()).toEqual([`${to} cancelled`, "client@far.test waiting"]);
    await it.api.post("/send", { from: ALICE, to: BOB, subject: "Two", text: "x" });
    const inbox = async () => (await it.api.get<{ messages: object[] }>(`/messages?mailbox=${BOB}&folder=inbox`)).body;
    while ((await inbox()).messages.length < 2) await it.advance(1_000);
    await it.advance(60_000);
    expect(states()).toHaveLength(2);
  }, 60_000);

  test("keeps what the person scheduled from being sent, and holds what their key scheduled", async () => {
    const it = await start();
    const sendAt = new Date(it.runtime.now() + 3_600_000).toISOString();
    const given = { from: BOB, to: "client@far.test", text: "x" };
    expect((await it.apiWith(it.key).post("/send", { ...given, subject: "Of a key", sendAt })).status).toBe(202);
    const own = { from: BOB, to: "client@far.test", subject: "Own", text: "x" };
    const { draftId } = (await it.bob.send<{ draftId: string }>("POST", "/drafts", own)).body;
    const { revision } = (await it.bob.get<{ revision: number }>(`/drafts/${draftId}`)).body;
    const scheduled = { ...own, revision, attachments: [], at: sendAt };
    expect((await it.bob.send("POST", `/drafts/${draftId}/send`, scheduled)).body).toMatchObject({ due: {} });
    await it.lock();
    await it.advance(3_700_000);
    const { $client } = it.core.store.db;
    expect($client.query("SELECT * FROM queue_entries WHERE recipient = 'client@far.test'").all()).toEqual([]);
    expect((await it.admin("GET", "/holds")).body.holds).toMatchObject([
      { mailbox: BOB, reason: "The key was revoked before the message was due" },
    ]);
    expect(JSON.stringify((await it.alice.get(`/drafts/${draftId}`)).body)).toContain(
      "The person who pressed Send is locked",
    );
  }, 60_000);
});

test("what keys of the person made is named, and notices and mail to postmaster go to those who can sign in", async () => {
  const it = await bootAdminApi();
  const olga = it.join("olga@example.test", "owner");
  const bob = it.join("bob@example.test", "member");
  const asOlga = it.callAs(olga.key);
  const given = { name: "Of Bob", scopes: ["read"], user: bob.userId };
  const key = (await asOlga("POST", "/keys", given)).body;
  const url = "https://one.example.com/";
  const webhook = (await asOlga("POST", "/webhooks", { url, events: ["message.inbound"] })).body;
  // The older mailbox of an owner at the address of the owner is Alice's.
  expect((await it.callAs(olga.key)("POST", `/people/${it.owner.userId}/lock`)).body).not.toHaveProperty("goesOn");
  const deliver = mailer(it.mx);
  const arrived = async (mailbox: string) =>
    (
      await it.apiWith(olga.key).get<{ messages: { subject: string }[] }>(`/messages?mailbox=${mailbox}`)
    ).body.messages.map(({ subject }) => subject);
  await deliver.send({ from: "x@far.test", to: "postmaster@example.test" }, "Subject: To postmaster\n\nx\n");
  expect([await arrived("alice@example.test"), await arrived("olga@example.test")]).toEqual([[], ["To postmaster"]]);
  await asOlga("POST", `/people/${it.owner.userId}/unlock`);
  await setPassword(it, it.owner.userId);
  const alice = await signIn(it, "alice@example.test");
  expect((await alice.send("POST", `/settings/people/${olga.userId}/lock`)).body).toMatchObject({
    goesOn: [
      { kind: "key", id: key.id, name: "Of Bob" },
      { kind: "webhook", id: webhook.id, name: url },
    ],
  });
});

test("owners lock everybody, admins all but owners, nobody themselves; the last owner is locked by nobody", async () => {
  const it = await bootAdminApi();
  const olga = it.join("olga@example.test", "owner");
  const ann = it.join("ann@example.test", "admin");
  const abe = it.join("abe@example.test", "admin");
  const bob = it.join("bob@example.test", "member");
  const asAnn = it.callAs(ann.key);
  const lock = async (call: typeof it.call, { userId }: { userId: string }, what = "lock") =>
    refusal(await call("POST", `/people/${userId}/${what}`));
  expect(await lock(asAnn, olga)).toBe("403 forbidden");
  expect(await lock(asAnn, ann)).toBe("403 forbidden");
  expect(await lock(it.callAs(bob.key), abe)).toBe("403 missing_scope");
  expect(await lock(it.callAs(it.other.key), bob)).toBe("404 not_found");
  expect(await lock(it.call, it.owner)).toBe("403 forbidden");
  for (const who of [abe, bob]) expect((await asAnn("POST", `/people/${who.userId}/lock`)).status).toBe(200);
  expect((await it.call("POST", `/people/${olga.userId}/lock`, {}, "once")).status).toBe(200);
  expect(await lock(asAnn, olga, "unlock")).toBe("403 forbidden");
  expect(await it.call("POST", `/people/${olga.userId}/lock`, {}, "once")).toMatchObject({
    status: 200,
    replayed: true,
  });

  // An owner who is locked counts for nothing.
  expect(await lock(it.call, it.owner)).toBe("409 conflict");
  expect(await lock(asAnn, it.owner)).toBe("409 conflict");
  const {
    core: { store },
  } = it.opened;
  for (const work of [
    () => it.write((tx) => locks.lockUser(tx, it.owner.userId, 0)),
    () => it.write((tx) => people.setRole(tx, it.owner.userId, "admin")),
    () => it.write((tx) => people.removeUser(tx, it.owner.userId)),
  ]) {
    expect(work).toThrow(/is the last owner of the workspace/);
  }
  expect(
    store.db.$client.query("SELECT * FROM users WHERE id = ? AND locked_at IS NULL").all(it.owner.userId),
  ).toHaveLength(1);
  expect((await it.call("GET", "/people")).status).toBe(200);
});
