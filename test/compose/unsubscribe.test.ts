/** Leaving mailing lists: who may, by which way, what the list's server sees, and what is remembered. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Caller } from "../../src/access/caller.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { openUnsubscribing, type Unsubscribing } from "../../src/compose/unsubscribe.ts";
import { receivedMessage } from "../../src/mailbox/state/received.ts";
import { SCOPES } from "../../src/store/schema.ts";
import { type Page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { newSigner, signed } from "../harness/mail/dkim-signer.ts";
import { mailer } from "../harness/mail/mail.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { sendCore } from "../harness/servers/core.ts";
import { until } from "../harness/until.ts";

const ALICE = "alice@example.test";
const BOTH = "from:list-unsubscribe:list-unsubscribe-post";
const signer = newSigner("news.example", { bits: 2_048 });
const dns = zone({
  "s._domainkey.news.example": { txt: [signer.record] },
  "news.example": { a: ["127.0.0.1"] },
  "inner.example": { a: ["10.0.0.1"] },
});

let booted: Booted;
let alice: Page;
let viewer: Page;
let owner: Caller;
let server: Bun.Server<undefined>;
let asked: { path: string; method: string; headers: Headers; body: string }[] = [];
let respond: () => Response | Promise<Response>;
/** May reach the list's server, which is on this machine. */
let unsubscribing: Unsubscribing;
let count = 0;

interface Way {
  images: string;
  unsubscribe?: { by: string; at: string; leftAt?: string };
}

/** Delivers a message of the list, and returns its id. `more`: header lines. */
async function deliver(more: string, { h = BOTH, list = `l${++count}.news.example` } = {}): Promise<string> {
  const raw = `From: News <news@news.example>\r\nTo: ${ALICE}\r\nSubject: News\r\nMessage-ID: <${++count}@news.example>\r\nList-Id: News <${list}>\r\n${more}\r\nHello\r\n`;
  await mailer(booted.mx).send({ from: "news@news.example", to: ALICE }, signed(raw, signer, { h }));
  const { body } = await booted.api.get<{ messages: { id: string }[] }>("/messages?limit=1");
  return body.messages[0]?.id ?? "";
}

const oneClick = (url: string) =>
  `List-Unsubscribe: <mailto:leave@news.example>, <${url}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n`;
const urlOf = (path: string) => `https://news.example:${server.port}${path}`;
const wayOf = async (id: string, page = alice) => (await page.get<Way>(`/messages/${id}/received`)).body.unsubscribe;
const sentMail = async () =>
  (await booted.api.get<{ messages: { to: unknown; subject: string; bodyText: string }[] }>("/messages?folder=sent"))
    .body.messages;

beforeAll(async () => {
  const { pair, authority } = await makeChain("news.example");
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: pair,
    async fetch(request) {
      const { method, headers } = request;
      asked.push({ path: new URL(request.url).pathname, method, headers, body: await request.text() });
      return respond();
    },
  });
  booted = await boot({}, dns, { authorities: [authority] });
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId, mailboxId } = booted.owner;
  const bob = store.transact((tx) =>
    people.addUser(core, tx, { workspaceId, email: "bob@example.test", name: "Bob", role: "member", ownMailbox: true }),
  );
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, bob.userId, "view"));
  for (const id of [userId, bob.userId]) await setPassword(booted, id);
  alice = await signIn(booted, ALICE);
  viewer = await signIn(booted, "bob@example.test");
  owner = { userId, workspaceId, role: "owner", email: ALICE, scopes: new Set(SCOPES) };
  unsubscribing = openUnsubscribing(sendCore(booted.core), () => ["127.0.0.1/32"]);
});
afterAll(() => {
  unsubscribing.close();
  return server.stop(true);
});
beforeEach(() => {
  asked = [];
  respond = () => new Response("Done");
});

describe("one click", () => {
  test("posts what RFC 8058 says, without anything of the person, and is remembered for the list", async () => {
    const id = await deliver(oneClick(urlOf("/leave?u=1")), { list: "weekly.news.example" });
    expect(await wayOf(id)).toEqual({ by: "post", at: `news.example:${server.port}` });
    expect(await unsubscribing.leave(owner, id)).toMatchObject({ by: "post", leftAt: "2026-01-05T09:00:00.000Z" });
    expect(asked.map(({ method, path, body }) => [method, path, body])).toEqual([
      ["POST", "/leave", "List-Unsubscribe=One-Click"],
    ]);
    const names = [...(asked[0]?.headers.keys() ?? [])].sort();
    expect(names).toEqual([
      "accept",
      "accept-encoding",
      "connection",
      "content-length",
      "content-type",
      "host",
      "user-agent",
    ]);
    expect(asked[0]?.headers.get("content-type")).toBe("application/x-www-form-urlencoded");
    const later = await deliver(oneClick(urlOf("/leave?u=2")), { list: "weekly.news.example" });
    expect((await wayOf(later))?.leftAt).toBe("2026-01-05T09:00:00.000Z");
    expect((await wayOf(await deliver(oneClick(urlOf("/"))), alice))?.leftAt).toBeUndefined();
  });

  test("follows no redirect, and says what failed", async () => {
    const id = await deliver(oneClick(urlOf("/leave")));
    respond = () => Response.redirect(urlOf("/elsewhere"), 307);
    const said = (code: number) => `news.example:${server.port} did not unsubscribe you: it answered ${code}`;
    expect(unsubscribing.leave(owner, id)).rejects.toThrow(said(307));
    await unsubscribing.leave(owner, id).catch(() => {});
    respond = () => new Response(null, { status: 500 });
    expect(unsubscribing.leave(owner, id)).rejects.toThrow(said(500));
    await unsubscribing.leave(owner, id).catch(() => {});
    expect(asked.every(({ path }) => path === "/leave")).toBe(true);
    expect((await wayOf(id))?.leftAt).toBeUndefined();
  });

  test("reaches no private address", async () => {
    for (const url of [urlOf("/leave"), "https://inner.example/", "https://10.0.0.1/", "https://[::1]/"]) {
      const id = await deliver(oneClick(url));
      const { status, body } = await alice.send<{ code: string }>("POST", `/messages/${id}/unsubscribe`);
      expect([status, body.code]).toEqual([502, "upstream_failed"]);
    }
    expect(asked).toEqual([]);
  });

  test("is asked for a few at once by the people of a workspace, and by the others in turn", async () => {
    const id = await deliver(oneClick(urlOf("/leave")));
    const answering = Promise.withResolvers<void>();
    respond = () => answering.promise.then(() => new Response("Done"));
    const leaving = Array.from({ length: 12 }, (_, n) => unsubscribing.leave({ ...owner, userId: `usr_${n}` }, id));
    await until(() => asked.length >= 6);
    // Whoever would be asked beside them would be by the time that another request of this process is answered.
    await wayOf(id);
    expect(asked).toHaveLength(6);
    answering.resolve();
    expect(await Promise.all(leaving)).toHaveLength(12);
    expect(asked).toHaveLength(12);
  });

  const unsigned: [name: string, more: string, h: string][] = [
    ["a signature that leaves out List-Unsubscribe", oneClick("https://news.example/"), "from:list-unsubscribe-post"],
    ["one that leaves out List-Unsubscribe-Post", oneClick("https://news.example/"), "from:list-unsubscribe"],
    [
      "a second field that the signature does not cover",
      `List-Unsubscribe: <https://other.example/>\r\n${oneClick("https://news.example/")}`,
      BOTH,
    ],
  ];
  for (const [name, more, h] of unsigned) {
    test(`needs more than ${name}`, async () => expect((await wayOf(await deliver(more, { h })))?.by).not.toBe("post"));
  }

  test("needs a signature that holds", async () => {
    const raw = signed(
      `From: news@news.example\r\nTo: ${ALICE}\r\nSubject: Was\r\nMessage-ID: <broken@news.example>\r\n${oneClick("https://news.example/")}\r\nHello\r\n`,
      signer,
      { h: BOTH },
    ).replace("Hello", "Other");
    await mailer(booted.mx).send({ from: "news@news.example", to: ALICE }, raw);
    const { body } = await booted.api.get<{ messages: { id: string }[] }>("/messages?limit=1");
    expect(receivedMessage(booted.core.store.db, owner, body.messages[0]?.id ?? "")?.isListSigned).toBe(false);
  });
});

describe("a message", () => {
  test("is sent from the mailbox, with subject and body bounded and without further fields", async () => {
    const query = `subject=Leave%0D%0ABcc:%20x@y.example&body=${"a%0A".repeat(5_000)}&bcc=z@z.example&cc=z@z.example`;
    const id = await deliver(`List-Unsubscribe: <mailto:leave+a@news.example?${query.slice(0, 1_800)}>\r\n`);
    expect(await wayOf(id)).toEqual({ by: "mail", at: "leave+a@news.example" });
    const { status } = await alice.send("POST", `/messages/${id}/unsubscribe`);
    expect(status).toBe(200);
    const [sent] = await sentMail();
    expect(sent).toMatchObject({ to: [{ email: "leave+a@news.example" }], subject: "Leave Bcc: x@y.example" });
    expect(sent?.bodyText.length).toBeLessThan(2_001);
    expect((await wayOf(id))?.leftAt).toBeDefined();
  });

  test("has the word as subject and body where the list names none", async () => {
    const id = await deliver("List-Unsubscribe: <mailto:leave@news.example>\r\n");
    await alice.send("POST", `/messages/${id}/unsubscribe`);
    expect((await sentMail())[0]).toMatchObject({ subject: "unsubscribe", bodyText: "unsubscribe" });
  });
});

test("a page is named, and not asked for", async () => {
  const id = await deliver("List-Unsubscribe: <http://news.example/a>, <https://news.example/b>\r\n");
  expect(await wayOf(id)).toEqual({ by: "link", at: "https://news.example/b" });
  expect((await alice.send("POST", `/messages/${id}/unsubscribe`)).status).toBe(409);
});

test("nobody leaves a list of spam, or without the right to send", async () => {
  const id = await deliver("List-Unsubscribe: <mailto:leave@news.example>\r\n");
  expect(await wayOf(id, viewer)).toBeUndefined();
  expect((await viewer.send("POST", `/messages/${id}/unsubscribe`)).status).toBe(403);
  const { body } = await booted.api.get<{ message: { threadId: string } }>(`/messages/${id}`);
  await booted.api.patch(`/threads/${body.message.threadId}`, { folder: "spam" });
  expect(await wayOf(id)).toBeUndefined();
  expect((await alice.send("POST", `/messages/${id}/unsubscribe`)).status).toBe(409);
});
