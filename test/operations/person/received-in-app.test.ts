/** Remote images that a person always sees: for senders that DMARC proves, for that person, and until taken back. */
import { beforeAll, expect, test } from "bun:test";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import { changeMessages } from "../../../src/mailbox/changing/message-changes.ts";
import { trustImages } from "../../../src/mailbox/state/received.ts";
import { type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { newSigner, signed } from "../../harness/mail/dkim-signer.ts";
import { mailer } from "../../harness/mail/mail.ts";
import { zone } from "../../harness/peers/dns-server.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const signer = newSigner("news.example", { bits: 2_048 });
let booted: Booted;
let alice: Page;
let bob: Page;
let bobId: string;
let count = 0;

/** Delivers a message with a remote image, and returns its id. */
async function deliver({ from = "news@news.example", isSigned = true } = {}): Promise<string> {
  const raw = `From: News <${from}>\r\nTo: ${ALICE}\r\nSubject: News\r\nMessage-ID: <${++count}@x>\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<img src="https://track.example/p.gif">\r\n`;
  await mailer(booted.mx).send({ from, to: ALICE }, isSigned ? signed(raw, signer, { h: "from:subject" }) : raw);
  const { body } = await booted.api.get<{ messages: { id: string }[] }>("/messages?limit=1");
  return body.messages[0]?.id ?? "";
}
const shows = async (id: string, page = alice) =>
  (await (await page.fetch(`/messages/${id}/frame`)).text()).includes('src="/app/images?');
const stateOf = async (id: string, page = alice) =>
  (await page.get<{ images: string }>(`/messages/${id}/received`)).body.images;
const senders = async (page = alice) => (await page.get<{ senders: string[] }>("/me/image-senders")).body.senders;

beforeAll(async () => {
  booted = await boot(
    {},
    zone({
      "s._domainkey.news.example": { txt: [signer.record] },
      "_dmarc.news.example": { txt: ["v=DMARC1; p=none"] },
    }),
  );
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId, mailboxId } = booted.owner;
  const second = store.transact((tx) =>
    people.addUser(core, tx, { workspaceId, email: "bob@example.test", name: "Bob", role: "member", ownMailbox: true }),
  );
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, second.userId, "view"));
  for (const id of [userId, second.userId]) await setPassword(booted, id);
  bobId = second.userId;
  alice = await signIn(booted, ALICE);
  bob = await signIn(booted, "bob@example.test");
});

test("are those of a sender that was proven, also in later mail, for the person who chose it", async () => {
  const id = await deliver({ from: "News@News.example" });
  expect([await stateOf(id), await shows(id)]).toEqual(["offered", false]);
  expect((await alice.send("POST", `/messages/${id}/images`, { always: true })).status).toBe(204);
  const later = await deliver();
  expect([await stateOf(later), await shows(later), await shows(id)]).toEqual(["always", true, true]);
  expect([await stateOf(later, bob), await shows(later, bob)]).toEqual(["offered", false]);
  expect([await senders(), await senders(bob)]).toEqual([["news@news.example"], []]);
});

test("are not those of mail that only says that it is from that sender, or of another address there", async () => {
  const forged = await deliver({ isSigned: false });
  expect([await stateOf(forged), await shows(forged)]).toEqual(["asked", false]);
  expect((await alice.send("POST", `/messages/${forged}/images`, { always: true })).status).toBe(409);
  expect(await shows(await deliver({ from: "other@news.example" }))).toBe(false);
});

test("of a message that a mail app moved to spam alone are not shown, and the page is told where it is", async () => {
  const raw = (id: string, more = "") =>
    `From: News <news@news.example>\r\nTo: ${ALICE}\r\nSubject: Talk\r\nMessage-ID: <${id}@x>\r\n${more}\r\nHello\r\n`;
  const send = (text: string) =>
    mailer(booted.mx).send({ from: "news@news.example", to: ALICE }, signed(text, signer, { h: "from:subject" }));
  await send(raw("talk-1"));
  await send(raw("talk-2", "In-Reply-To: <talk-1@x>\r\n"));
  const { body } = await booted.api.get<{ messages: { id: string; threadId: string }[] }>("/messages?limit=2");
  const [later, first] = body.messages.map(({ id }) => id) as [string, string];
  expect(body.messages[0]?.threadId).toBe(body.messages[1]?.threadId as string);
  const { core } = booted.opened;
  const { store } = core;
  const { userId, workspaceId } = booted.owner;
  const { seq } = store.db.$client.query("SELECT seq FROM messages WHERE id = ?").get(later) as { seq: number };
  const caller = { userId, workspaceId, role: "owner", email: ALICE, scopes: new Set(["read", "write"]) } as const;
  store.transact((tx) => changeMessages(tx, caller as never, [seq], { folder: "spam" }, core.now()));
  const received = async (id: string) => (await alice.get(`/messages/${id}/received`)).body;
  expect([await received(first), await received(later)]).toEqual([
    { images: "always" },
    { images: "asked", apartIn: "spam" },
  ]);
});

test("are not those of spam", async () => {
  const id = await deliver();
  const { body } = await booted.api.get<{ message: { threadId: string } }>(`/messages/${id}`);
  await booted.api.patch(`/threads/${body.message.threadId}`, { folder: "spam" });
  expect([await stateOf(id), await shows(id)]).toEqual(["asked", false]);
  await booted.api.patch(`/threads/${body.message.threadId}`, { folder: "inbox" });
  expect(await shows(id)).toBe(true);
});

test("are taken back at a message or in the list", async () => {
  const id = await deliver();
  await alice.send("POST", `/messages/${id}/images`, { always: false });
  expect(await shows(id)).toBe(false);
  await alice.send("POST", `/messages/${id}/images`, { always: true });
  expect((await alice.send("DELETE", "/me/image-senders/news%40news.example")).status).toBe(204);
  expect([await senders(), await shows(id)]).toEqual([[], false]);
});

test("have a bound, and end with the person", async () => {
  const {
    core: { store },
  } = booted.opened;
  store.transact((tx) => {
    for (let n = 0; n < 1_000; n++) trustImages(tx, { userId: bobId, sender: `${n}@x.example`, now: 0 });
  });
  const { status } = await bob.send("POST", `/messages/${await deliver()}/images`, { always: true });
  expect(status).toBe(409);
  const rows = () => store.db.$client.query("SELECT count(*) AS count FROM image_senders").get();
  expect(rows()).toEqual({ count: 1_000 });
  store.transact((tx) => people.removeUser(tx, bobId));
  expect(rows()).toEqual({ count: 0 });
});
