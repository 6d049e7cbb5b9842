/** Warnings about received mail (rules: Warnings): who poses as somebody of the workspace, where answers and links lead. */
import { beforeAll, describe, expect, test } from "bun:test";
import * as people from "../../../src/admin/people.ts";
import { type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { newSigner, signed } from "../../harness/mail/dkim-signer.ts";
import { mailer } from "../../harness/mail/mail.ts";
import { zone } from "../../harness/peers/dns-server.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const DAY = 86_400_000;
const signer = newSigner("news.example", { bits: 2_048 });
let booted: Booted;
let alice: Page;
let count = 0;

interface Mail {
  from?: string;
  headers?: string[];
  html?: string;
  isSigned?: boolean;
}

/** Delivers a message; returns what its reader is warned of. */
async function warningsOf({ from = "news@news.example", headers = [], html = "<p>Hello</p>", isSigned }: Mail) {
  const fields = [`From: ${from}`, `To: ${ALICE}`, "Subject: News", `Message-ID: <${++count}@x>`, ...headers];
  const raw = [...fields, "MIME-Version: 1.0", "Content-Type: text/html; charset=utf-8", "", html, ""].join("\r\n");
  await mailer(booted.mx).send(
    { from: "bounces@news.example", to: ALICE },
    isSigned ? signed(raw, signer, { h: "from:subject" }) : raw,
  );
  const { body } = await booted.api.get<{ messages: { id: string }[] }>(`/messages?limit=1&messageId=${count}@x`);
  const answer = await alice.get<{ warnings: object[] }>(`/messages/${body.messages[0]?.id}/warnings`);
  expect(answer.status).toBe(200);
  return answer.body.warnings;
}

beforeAll(async () => {
  booted = await boot(
    {},
    zone({
      "s._domainkey.news.example": { txt: [signer.record] },
      "_dmarc.news.example": { txt: ["v=DMARC1; p=none"] },
      "remote.example": "SERVFAIL",
      "gmail.example": "SERVFAIL",
    }),
  );
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId } = booted.owner;
  store.transact((tx) => {
    people.addUser(core, tx, {
      workspaceId,
      email: "ada@example.test",
      name: "Ada Lovelace",
      role: "member",
      ownMailbox: true,
    });
    people.addUser(core, tx, { workspaceId, email: "zoe@example.test", name: "Zoë", role: "member", ownMailbox: true });
  });
  await booted.api.post("/api/admin/v1/mailboxes", { address: "help@example.test", name: "Support" });
  await setPassword(booted, userId);
  alice = await signIn(booted, ALICE);
});

describe("the name of somebody in the workspace", () => {
  const name = [{ kind: "name", name: "Ada Lovelace" }];
  const POSING = ["Ada Lovelace", "LOVELACE, Ada", "Dr. Ada Lovelace (CEO)", "Adа Lovеlace", "Áda  Lovelace"];
  test.each(POSING)("%s, at a stranger's address", async (given) => {
    const from = `=?utf-8?B?${Buffer.from(given).toString("base64")}?= <ada@gmail.example>`;
    expect(await warningsOf({ from })).toEqual(name);
  });

  test("of one word, alone", async () => {
    expect(await warningsOf({ from: "Zoe <zoe@gmail.example>" })).toEqual([{ kind: "name", name: "Zoë" }]);
    expect(await warningsOf({ from: "Zoe Miller <zoe@gmail.example>" })).toEqual([]);
  });

  test("is no warning at an address of the workspace, nor that of a mailbox in one word, nor another name", async () => {
    for (const from of [
      "Ada Lovelace <ada@example.test>",
      "Support <support@shop.example>",
      "Ada Byron <a@x.example>",
    ]) {
      expect([from, await warningsOf({ from })]).toEqual([from, []]);
    }
  });

  test("is none at an address that wrote a month ago, or that the mailbox has written to", async () => {
    const from = "Ada Lovelace <notes@code.example>";
    expect(await warningsOf({ from })).toEqual(name);
    await booted.advance(31 * DAY);
    alice = await signIn(booted, ALICE);
    expect(await warningsOf({ from })).toEqual([]);
    const { db } = booted.core.store;
    const known = "INSERT INTO known_recipients (mailbox_id, address) VALUES (?, 'ada@home.example')";
    db.$client.query(known).run(booted.owner.mailboxId);
    expect(await warningsOf({ from: "Ada Lovelace <Ada+x@home.example>" })).toEqual([]);
  });
});

describe("answers", () => {
  const replyTo = [{ kind: "replyTo", address: "eve@evil.example" }];
  const to = (...more: string[]) => ["Reply-To: Eve <eve@evil.example>", ...more];

  test("that go to another organisation", async () => {
    expect(await warningsOf({ headers: to() })).toEqual(replyTo);
    expect(await warningsOf({ headers: to(), isSigned: true })).toEqual(replyTo);
    expect(await warningsOf({ headers: ["Reply-To: a@news.example, eve@evil.example"] })).toEqual(replyTo);
    expect(await warningsOf({ headers: to("List-Id: <weekly.other.example>") })).toEqual(replyTo);
  });

  test("that stay in the organisation, or in the workspace", async () => {
    for (const address of ["answers@mail.news.example", "ada@example.test"]) {
      expect(await warningsOf({ headers: [`Reply-To: ${address}`] })).toEqual([]);
    }
  });

  test("of a mailing list go to the list, or to the author behind it", async () => {
    const list = "talk@lists.gnu.example";
    const headers = [`Reply-To: ${list}`, `List-Post: <mailto:${list}>`];
    expect(await warningsOf({ from: "bob@remote.example", headers })).toEqual([]);
    const munged = { from: `Bob via talk <${list}>`, headers: to("List-Id: Talk <talk.lists.gnu.example>") };
    expect(await warningsOf(munged)).toEqual([]);
  });
});

describe("links", () => {
  const html = '<p><a href="https://click.mailer.example/x">www.news.example</a></p>';

  test("that lead elsewhere than they say; a proven author may say its own name", async () => {
    const link = { kind: "link", said: "www.news.example", leadsTo: "click.mailer.example" };
    expect(await warningsOf({ html })).toEqual([link]);
    expect(await warningsOf({ html, isSigned: true })).toEqual([]);
    const other = html.replace("www.news.example", "https://bank.example/");
    expect(await warningsOf({ html: other, isSigned: true })).toEqual([{ ...link, said: "bank.example" }]);
  });

  test("that lead to a host in letters of two alphabets, as that of an author", async () => {
    const mixed = '<a href="https://pаypal.example/">Sign in</a>';
    const host = "xn--pypal-4ve.example";
    expect(await warningsOf({ html: mixed })).toEqual([{ kind: "lookalike", host }]);
    expect(await warningsOf({ from: `PayPal <service@${host}>` })).toEqual([{ kind: "lookalike", host }]);
  });
});

test("there are none about mail that does not exist, or that was sent", async () => {
  expect((await alice.get("/messages/msg_none/warnings")).body).toEqual({ warnings: [] });
  const { body } = await booted.api.post<{ emailId: string }>("/send", {
    ...{ from: ALICE, to: "bob@remote.example", subject: "x", html: '<a href="https://evil.example">bank.example</a>' },
  });
  expect((await alice.get(`/messages/${body.emailId}/warnings`)).body).toEqual({ warnings: [] });
});
