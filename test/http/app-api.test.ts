/** The app's mail over HTTP: the operations of the API for a session, reach, snoozing, deleting, events. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { threads } from "../../src/store/schema.ts";
import { type Page, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { mailer, type Sender } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
let booted: Booted;
let sender: Sender;
let alice: Page;
let bob: Page;
let bobBox: string;
let count = 0;

beforeAll(async () => {
  booted = await boot();
  const { userId, mailboxId } = booted.join(BOB, "member", { name: "Bob" });
  bobBox = mailboxId;
  for (const id of [booted.owner.userId, userId]) await setPassword(booted, id);
  sender = mailer(booted.mx);
});
beforeEach(async () => {
  alice = await signIn(booted, ALICE);
  bob = await signIn(booted, BOB);
});

interface Row {
  id: string;
  subject: string;
  folder: string;
  snoozedUntil?: string;
  unread: boolean;
}

/** Delivers mail from outside. Returns its conversation. */
async function arrive(to = ALICE): Promise<Row> {
  const subject = `Subject ${++count}`;
  await sender.send(
    { from: "bea@remote.example", to },
    `From: Bea <bea@remote.example>\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${count}@remote.example>\nDate: Mon, 05 Jan 2026 08:00:00 +0000\n\nText\n`,
  );
  const { body } = await booted.api.get<{ threads: Row[] }>(`/threads?mailbox=${to}&limit=100`);
  const row = body.threads.find((thread) => thread.subject === subject);
  if (!row) throw new Error("it was not filed");
  return row;
}

test("an operation is refused to everybody whom it is not for, whatever they send", async () => {
  const { core } = booted.opened;
  const { store } = core;
  const { userId } = store.transact((tx) => {
    const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, "Other");
    return people.addUser(core, tx, {
      workspaceId,
      email: "zoe@other.test",
      name: "Zoe",
      role: "owner",
      ownMailbox: false,
    });
  });
  await setPassword(booted, userId);
  const zoe = await signIn(booted, "zoe@other.test");
  const foreign = { origin: "https://evil.example" };

  for (const { name, audience, method, path } of [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS, ...APP_OPERATIONS]) {
    const administers = audience === "admin" || audience === "operator";
    const filled = `${administers ? "/settings" : ""}${path.replaceAll(/:\w+/g, "x")}`;
    const body = method === "GET" || method === "DELETE" ? {} : { body: "no JSON" };
    const ask = async (who: Page, headers = {}) => (await who.fetch(filled, { method, ...body, headers })).status;
    const answers = { name, foreign: await ask(alice, foreign), visitor: 401, member: 403, otherOwner: 403 };
    if (audience !== "visitor") answers.visitor = await ask(page(booted));
    if (administers) answers.member = await ask(bob);
    if (audience === "operator") answers.otherOwner = await ask(zoe);
    expect(answers).toEqual({ name, foreign: 403, visitor: 401, member: 403, otherOwner: 403 });
  }
});

const statusOf = async (asked: Promise<{ status: number }>) => (await asked).status;

test("a session performs the operations of the API, with the same responses", async () => {
  const { id } = await arrive();
  for (const path of ["/mailboxes", "/threads", `/threads/${id}`, "/messages", "/search?q=subject"]) {
    expect((await alice.get(path)).body).toEqual((await booted.api.get(path)).body);
  }
  expect(await alice.send("PATCH", `/threads/${id}`, { starred: true })).toMatchObject({
    status: 200,
    body: { thread: { starred: true } },
  });
  expect(await statusOf(alice.send("PATCH", `/threads/${id}`, { folder: "nowhere" }))).toBe(400);
  expect(await statusOf(alice.get("/threads?limit=1000"))).toBe(400);
});

test("pages of other origins are refused and read nothing, listed or not", async () => {
  const origin = "https://app.example.com";
  const { store, options } = booted.core;
  store.transact((tx) => options.set(tx, "api.allowOrigins", origin));
  const headers = { origin, "access-control-request-method": "GET" };
  for (const [init, status] of [
    [{ headers }, 403],
    [{ headers, method: "OPTIONS" }, 405],
  ] as const) {
    const answer = await alice.fetch("/threads", init);
    expect([answer.status, answer.headers.get("vary")]).toEqual([status, null]);
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  }
  store.transact((tx) => options.reset(tx, "api.allowOrigins"));
});

test("responses are not compressed", async () => {
  for (let i = 0; i < 5; i++) await arrive();
  const answer = await alice.fetch("/threads", { decompress: false } as RequestInit);
  expect(answer.headers.get("content-encoding")).toBeNull();
  expect((await answer.text()).length).toBeGreaterThan(1_024);
});

test("mail out of a person's reach is not found, on any route", async () => {
  const { id } = await arrive();
  const { body } = await alice.get<{ messages: { id: string }[] }>(`/threads/${id}`);
  const answers = await Promise.all([
    bob.get(`/threads/${id}`),
    bob.get(`/messages/${body.messages[0]?.id}`),
    bob.get(`/messages/${body.messages[0]?.id}/frame`),
    bob.get(`/threads?mailbox=${ALICE}`),
    bob.get(`/threads/${id}/answer`),
    bob.get(`/drafts/${id}`),
    bob.send("PATCH", `/threads/${id}`, { folder: "trash" }),
    bob.send("POST", `/threads/${id}/reply`, { text: "x" }),
    bob.send("POST", "/trash/empty", { mailbox: ALICE }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
  expect((await alice.get<{ thread: Row }>(`/threads/${id}`)).body.thread.folder).toBe("inbox");
});

describe("emptying", () => {
  test("empties a folder of one mailbox, and no other", async () => {
    const [one, two, kept, bobs] = [await arrive(), await arrive(), await arrive(), await arrive(BOB)];
    for (const { id } of [one, two, bobs]) await alice.send("PATCH", `/threads/${id}`, { folder: "trash" });
    expect(await alice.send("POST", "/trash/empty", { mailbox: ALICE })).toMatchObject({
      status: 200,
      body: { deleted: 2 },
    });
    const left = booted.core.store.db.select({ id: threads.id }).from(threads).all();
    const ids = left.map(({ id }) => id);
    expect([one, two, kept, bobs].map(({ id }) => ids.includes(id))).toEqual([false, false, true, true]);
    expect((await bob.get<{ threads: Row[] }>("/threads?folder=trash")).body.threads).toHaveLength(1);
  });

  test("needs manage access", async () => {
    const { core, owner } = booted;
    const bobId = (await bob.get<{ id: string }>("/me")).body.id;
    core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, bobId, "send"));
    expect(await statusOf(bob.send("POST", "/spam/empty", { mailbox: owner.mailboxId }))).toBe(403);
    core.store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, owner.mailboxId, bobId));
  });
});

describe("events for the page", () => {
  /** Opens a stream, with its text so far and a way to wait for more. */
  async function listen(page: Page) {
    const answer = await page.fetch("/live");
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let said = "";
    return {
      answer,
      async until(pattern: RegExp): Promise<string> {
        while (!pattern.test(said)) {
          const { value, done } = await reader.read();
          if (done) throw new Error(`the stream ended after ${said}`);
          said += new TextDecoder().decode(value);
        }
        return said;
      },
      async end(): Promise<string> {
        for (;;) {
          const { value, done } = await reader.read();
          if (done) return said;
          said += new TextDecoder().decode(value);
        }
      },
      close: () => reader.cancel(),
    };
  }

  test("name conversations with new mail to people who reach them, with heartbeats in between", async () => {
    const [hers, his] = [await listen(alice), await listen(bob)];
    expect(hers.answer.headers.get("content-type")).toBe("text/event-stream");
    const { id } = await arrive();
    await booted.advance(1_000);
    expect(await hers.until(/event: mail/)).toContain(JSON.stringify({ threadIds: [id] }));
    const own = await arrive(BOB);
    await booted.advance(1_000);
    const heard = await his.until(/event: mail/);
    expect(heard).toContain(own.id);
    expect(heard).not.toContain(id);
    await booted.advance(25_000);
    await his.until(/event: beat/);
    await Promise.all([hers.close(), his.close()]);
  });

  test("end with the session", async () => {
    const stream = await listen(bob);
    await bob.send("POST", "/sign-out");
    await booted.advance(25_000);
    expect(await stream.end()).not.toContain("beat");
  });

  test("are limited for each person", async () => {
    const streams = await Promise.all(Array.from({ length: 12 }, () => listen(bob)));
    expect(await statusOf(bob.get("/live"))).toBe(429);
    await Promise.all(streams.map(({ close }) => close()));
    expect(bobBox).toStartWith("mbx_");
  });
});
