/** The words that a person reads count, in text, snippets, search, rules and quotations (rules: Text of a message, Search). */
import { beforeAll, describe, expect, test } from "bun:test";
import { normalizeGivenRules, putRules } from "../../src/mailbox/filing/rules.ts";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";

interface Threads {
  threads: {
    id: string;
    subject: string;
    snippet: string;
    labels: string[];
    highlights?: { field: string; snippet: string; ranges: [number, number][] }[];
  }[];
  messages: { id: string }[];
}

interface Alternative {
  subject: string;
  text: string;
  html: string;
}

const both = ({ subject, text, html }: Alternative): string => `From: Shop <shop@remote.example>
To: ${ALICE}
Subject: ${subject}
Message-ID: <${subject}@remote.example>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

${text}
--b
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: 8bit

${html}
--b--
`;

const PADDING = "&#847;&zwnj;&nbsp;".repeat(60);
const MAIL: readonly Alternative[] = [
  {
    subject: "stub",
    text: "View this email in your browser: https://shop.example/v?id=7",
    html: `<div>Marzipan is <b>cheap</b></div>${PADDING}<p>Order <span style="display:none">quicksand</span> today, says the <a href="https://shop.example/">pastry shop</a></p>`,
  },
  { subject: "white", text: "\u00a0\u200b \u200c", html: "<p>Nougat for everybody</p>" },
  {
    subject: "short",
    text: "Nutmeg is here.",
    html: `<p>Nutmeg is here.</p><table><tr><td>Freight paid by cinnamon merchants</td></tr></table><p style="font-size:0">driftwood</p>`,
  },
  { subject: "alike", text: "Cardamom arrives\non Monday", html: "<p>Cardamom arrives <b>on Monday</b></p>" },
  { subject: "apart", text: "Only in words: saffron", html: "<p>Only in HTML: turmeric</p>" },
];

let app: Booted;
let client: ImapAccount;
const idOf: Record<string, { threadId: string; emailId: string }> = {};

beforeAll(async () => {
  app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  const { store } = app.core;
  const rules = normalizeGivenRules(
    ["merchants", '"nougat for everybody"', "saffron", "turmeric", "driftwood", "quicksand"].map((match) => ({
      match,
      actions: [{ type: "label" as const, label: match.replaceAll('"', "") }],
    })),
    app.runtime.now(),
  );
  store.transact((tx) => putRules(tx, app.owner.mailboxId, rules));
  const sender = mailer(app.mx, { starttls: false });
  for (const mail of MAIL)
    expect((await sender.send({ from: "shop@remote.example", to: ALICE }, both(mail))).reply).toStartWith("250");
  sender.close();
  await app.server.settled();
  for (const { subject } of MAIL) {
    const [thread] = (await app.api.get<Threads>(`/search?q=subject:${subject}`)).body.threads;
    const { messages } = (await app.api.get<Threads>(`/threads/${thread?.id}`)).body;
    idOf[subject] = { threadId: thread?.id ?? "", emailId: messages[0]?.id ?? "" };
  }
  client = await imapAccount(Number(app.ready.imaps?.split(":")[1]), ALICE, app.owner.apiKey);
  await client.say("SELECT INBOX");
}, 20_000);

const search = async (q: string) => (await app.api.get<Threads>(`/search?q=${encodeURIComponent(q)}`)).body.threads;
const found = async (q: string): Promise<string[]> => (await search(q)).map(({ subject }) => subject).sort();
const textOf = async (emailId = "") =>
  (await app.api.get<{ message: { text: string } }>(`/messages/${emailId}`)).body.message.text;

test("text and snippet come from the HTML where the text part is a stub, and begin with visible words", async () => {
  expect(await textOf(idOf.stub?.emailId)).toMatch(
    /^Marzipan is cheap\n[\s\S]*Order today, says the pastry shop <https:\/\/shop\.example\/>$/,
  );
  expect(await textOf(idOf.white?.emailId)).toBe("Nougat for everybody");
  expect(await textOf(idOf.short?.emailId)).toBe("Nutmeg is here.");
  const { threads } = (await app.api.get<Threads>("/threads")).body;
  const snippets = Object.fromEntries(threads.map(({ subject, snippet }) => [subject, snippet]));
  expect(snippets).toMatchObject({
    stub: "Marzipan is cheap Order today, says the pastry shop",
    white: "Nougat for everybody",
    short: "Nutmeg is here. Freight paid by cinnamon merchants",
  });
});

describe("a search finds", () => {
  test("the words of the text part, and the visible words of the HTML", async () => {
    expect(await found("marzipan")).toEqual(["stub"]);
    expect(await found("merchants")).toEqual(["short"]);
    expect(await found("nutmeg merchants")).toEqual(["short"]);
    expect(await found("saffron turmeric")).toEqual(["apart"]);
    expect(await found('"cinnamon merchants"')).toEqual(["short"]);
    expect(await found('"here freight paid by cinnamon merchants"')).toEqual(["short"]);
    expect(await found('"marzipan is cheap order today"')).toEqual(["stub"]);
    expect(await found("only -turmeric")).toEqual([]);
  });

  test("no hidden words, and no phrase of which each has a part", async () => {
    expect(await found("quicksand")).toEqual([]);
    expect(await found("driftwood")).toEqual([]);
    expect(await found('"saffron only in html"')).toEqual([]);
  });

  test("and its highlights show them", async () => {
    const shown = async (q: string) =>
      (await search(q)).flatMap(({ highlights = [] }) =>
        highlights.map(({ field, snippet, ranges }) => [field, ...ranges.map(([from, to]) => snippet.slice(from, to))]),
      );
    expect(await shown("merchants")).toEqual([["text", "merchants"]]);
    expect(await shown("turmeric saffron")).toEqual([
      ["text", "saffron"],
      ["text", "turmeric"],
    ]);
    expect(await shown('"freight paid"')).toEqual([["text", "Freight paid"]]);
  });

  test("the same over IMAP, also phrases and parts of words", async () => {
    const subjects = async (key: string) => {
      const { untagged } = await client.say(`SEARCH ${key}`);
      const numbers = (untagged.find((line) => line.startsWith("* SEARCH")) ?? "").split(" ").slice(2).map(Number);
      return numbers.map((n) => MAIL[n - 1]?.subject);
    };
    expect(await subjects("BODY merchants")).toEqual(["short"]);
    expect(await subjects('BODY "cinnamon merchants"')).toEqual(["short"]);
    expect(await subjects("BODY innamo")).toEqual(["short"]);
    expect(await subjects("TEXT saffron")).toEqual(["apart"]);
    expect(await subjects("BODY turmeric")).toEqual(["apart"]);
    expect(await subjects("BODY quicksand")).toEqual([]);
  });
});

test("rules find the same", async () => {
  const { threads } = (await app.api.get<Threads>("/threads")).body;
  expect(Object.fromEntries(threads.map(({ subject, labels }) => [subject, labels.toSorted()]))).toEqual({
    stub: [],
    white: ["nougat for everybody"],
    short: ["merchants"],
    alike: [],
    apart: ["saffron", "turmeric"],
  });
});

test("a model is given the visible words of the HTML", async () => {
  const agent = await connectMcp(app.http, app.owner.apiKey);
  for (const [subject, words] of [
    ["stub", "Marzipan is cheap"],
    ["short", "cinnamon merchants"],
  ] as const) {
    const { content } = await agent.call("get_thread", { id: idOf[subject]?.threadId });
    expect(JSON.stringify(content)).toContain(words);
    expect(JSON.stringify(content)).not.toMatch(/quicksand|driftwood|View this email/);
  }
  await agent.close();
});

describe("where the text part is a stub,", () => {
  test("a reply quotes what a person sees", async () => {
    const { threadId } = idOf.stub ?? {};
    const { body } = await app.api.post<{ emailId: string }>(`/threads/${threadId}/reply`, {
      text: "Two, please.",
      quote: true,
    });
    const text = await textOf(body.emailId);
    expect(text).toContain("> Marzipan is cheap\n");
    expect(text).toContain("> Order today, says the pastry shop");
    expect(text).not.toMatch(/quicksand|View this email/);
  });

  test("a forwarded message shows it", async () => {
    const { body } = await app.api.post<{ emailId: string }>("/send", {
      from: ALICE,
      to: ALICE,
      subject: "Fwd: white",
      text: "Look:",
      forward: idOf.white?.emailId,
    });
    expect(await textOf(body.emailId)).toMatch(/^Look:\n[\s\S]*Subject: white[\s\S]*Nougat for everybody/);
  });
});
