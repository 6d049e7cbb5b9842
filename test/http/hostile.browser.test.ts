/**
 * Attacks from other projects wherever the app shows mail outside its frame: subjects, names, snippets, attachment
 * names, labels, searches, suggestions, messages in passing. In the real app, in a real browser, they are text: no
 * script runs, nothing loads, nothing even tries.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { corpusJson, corpusPresent } from "../harness/mail/corpus.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
/** Attacks in one message, each of them in every field. */
const IN_A_LETTER = 12;
/** Attacks that are typed into the search, one after the other. */
const TYPED = 25;
const OWN = [
  `<img src=x onerror="alert(1)">`,
  `"><script>alert(2)</script>`,
  `javascript:alert(3)`,
  `{{constructor.constructor('alert(4)')()}}`,
  `<iframe srcdoc="<script>alert(5)</script>"></iframe>`,
  `<style>@import'http://elsewhere.example/a.css'</style><link rel=stylesheet href=http://elsewhere.example/b.css>`,
];

const stringsIn = (value: unknown): string[] =>
  typeof value === "string"
    ? [value]
    : typeof value === "object" && value !== null
      ? Object.values(value).flatMap(stringsIn)
      : [];

/** Puts text on one line, as in headers and labels. */
const onOneLine = (text: string): string =>
  text
    .replaceAll(/\s+/g, " ")
    .replaceAll(/\p{Cc}/gu, "")
    .trim();

const attacks = !corpusPresent
  ? OWN
  : [
      ...OWN,
      ...(corpusJson("dompurify/expect.json") as { payload: string }[]).map(({ payload }) => payload),
      ...stringsIn(corpusJson("h5sc/items.json")).filter((text) => text.includes("<")),
    ];
const letters = Array.from({ length: Math.ceil(attacks.length / IN_A_LETTER) }, (_, n) =>
  attacks.slice(n * IN_A_LETTER, (n + 1) * IN_A_LETTER),
);

/** Encodes a header as RFC 2047 says, in words of at most 39 bytes. */
function encoded(text: string): string {
  const words: string[] = [];
  let word = "";
  for (const character of text) {
    if (Buffer.byteLength(word + character) > 39) {
      words.push(word);
      word = "";
    }
    word += character;
  }
  return [...words, word].map((one) => `=?utf-8?B?${Buffer.from(one).toString("base64")}?=`).join("\n ");
}

const part = (headers: string, body: string): string =>
  `--b\n${headers}\nContent-Transfer-Encoding: base64\n\n${(
    Buffer.from(body)
      .toString("base64")
      .match(/.{1,76}/g) ?? []
  ).join("\n")}\n`;

/** Makes a message with each attack in its subject, names, text, HTML and attachment names. */
function letterOf(payloads: readonly string[], number: number): string {
  const lines = payloads.map((payload) => onOneLine(payload).slice(0, 300));
  const to = lines.map((line, n) => `${encoded(line.slice(0, 100))} <p${n}@remote.example>`);
  const files = lines.map((line) =>
    part(
      `Content-Type: text/plain\nContent-Disposition: attachment; filename*=UTF-8''${encodeURIComponent(line.toWellFormed())}`,
      "x",
    ),
  );
  return [
    `From: ${encoded(lines[0] ?? "")} <attacker${number}@remote.example>`,
    `To: ${[ALICE, ...to].join(",\n ")}`,
    `Subject: ${encoded(lines.join(" ").slice(0, 5_000))}`,
    `Message-ID: <hostile-${number}@remote.example>`,
    `Date: Mon, 05 Jan 2026 08:${String(number).padStart(2, "0")}:00 +0000`,
    "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b",
    `\n--b\nContent-Type: multipart/alternative; boundary=c\n`,
    part("Content-Type: text/plain; charset=utf-8", payloads.join("\n")).replace("--b", "--c"),
    part("Content-Type: text/html; charset=utf-8", payloads.join("\n")).replace("--b", "--c"),
    "--c--",
    ...files,
    "--b--\n",
  ].join("\n");
}

let booted: Booted;
let page: Page;
const seen: string[] = [];
const shown = new Set<string>();

/** Finds elements that no page of the app has, so that they come from mail. */
const intruders = () =>
  page.evaluate(() => {
    const found: string[] = [];
    for (const element of document.querySelectorAll("*")) {
      const { localName } = element;
      const isOurs = localName === "script" && element.getAttribute("src")?.startsWith("/assets/");
      const isFrame = localName === "iframe" && element.getAttribute("src")?.startsWith("/app/messages/");
      if (
        /^(?:script|iframe|object|embed|base|audio|video|math|template|marquee)$/.test(localName) &&
        !isOurs &&
        !isFrame
      ) {
        found.push(element.outerHTML.slice(0, 200));
      }
      for (const { name, value } of element.attributes) {
        const leads = /^(?:href|xlink:href|src|srcdoc|action|formaction)$/.test(name);
        if (name.startsWith("on") || (leads && /javascript:|vbscript:|data:/i.test(value)))
          found.push(`${localName} ${name}`);
      }
    }
    return found;
  });

/** Finds the attacks that stand on the page as text. */
async function note(): Promise<void> {
  const text = onOneLine(await page.evaluate(() => document.body.textContent ?? ""));
  for (const attack of attacks) if (text.includes(onOneLine(attack).slice(0, 50))) shown.add(attack);
}

const which = corpusPresent ? "" : " (our own attacks alone: no corpus folder beside the project)";

describe.skipIf(!chromiumPresent)(`hostile mail in the app${chromiumNote}${which}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const sender = mailer(booted.mx);
    for (const [number, payloads] of letters.entries()) {
      await sender.send({ from: "attacker@remote.example", to: ALICE }, letterOf(payloads, number));
    }
    const { body } = await booted.api.get<{ threads: { id: string }[] }>("/threads?limit=100");
    expect(body.threads).toHaveLength(letters.length);
    for (const [number, { id }] of body.threads.toReversed().entries()) {
      const labels = (letters[number] ?? []).map((attack) => onOneLine(attack).slice(0, 60).toWellFormed());
      const addLabels = [...new Set(labels)].filter((label) => label.trim() !== "").slice(0, 20);
      expect((await booted.api.patch(`/threads/${id}`, { addLabels })).status).toBe(200);
    }
    const watched = await openBrowser();
    page = await (await watched.newContext()).newPage();
    page.on("dialog", (dialog) => {
      seen.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("pageerror", (error) => seen.push(`error ${error.message}`));
    page.on("console", (message) => {
      // The test's browser has no service workers.
      if (!message.text().startsWith("Service Worker registration blocked")) seen.push(`console ${message.text()}`);
    });
    page.on("popup", (popup) => seen.push(`window ${popup.url()}`));
    page.on("download", (download) => seen.push(`download ${download.url()}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      const isOurs = url.origin === booted.http && /^\/(?:app|assets|mail)\//.test(url.pathname);
      if (!isOurs && url.protocol !== "data:") seen.push(`request ${request.url()}`);
    });
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("list", { name: "Conversations" }).waitFor();
    // The browser reported that nobody was signed in at first, which is not an attack.
    seen.length = 0;
  }, 120_000);

  test("in a list and beside it: subjects, names, snippets, labels", async () => {
    // The labels of these messages are so few that the page shows all.
    if (corpusPresent) await page.getByRole("button", { name: /^\d+ more$/ }).click();
    await page
      .getByRole("checkbox", { name: /^Select / })
      .first()
      .check();
    await page.keyboard.press("l");
    await page.getByRole("listbox", { name: "Labels" }).waitFor();
    await note();
    expect([await intruders(), seen]).toEqual([[], []]);
    // A few labels have the same beginning as another one, and are not shown.
    expect(shown.size).toBeGreaterThan(attacks.length * 0.9);
    await page.keyboard.press("Escape");
    await page.keyboard.press("*");
    await page.keyboard.press("n");
  }, 120_000);

  test("in every conversation: title, recipients, attachments, frame", async () => {
    shown.clear();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    for (let number = letters.length - 1; number >= 0; number--) {
      const start = onOneLine(letters[number]?.[0] ?? "").slice(0, 40);
      await page.waitForFunction((begin) => document.querySelector("#subject")?.textContent?.startsWith(begin), start);
      await page.getByRole("list", { name: "Attachments" }).last().waitFor();
      await note();
      expect([number, await intruders(), seen]).toEqual([number, [], []]);
      if (number > 0) await page.keyboard.press("j");
    }
    expect(shown.size).toBeGreaterThan(attacks.length * 0.9);
  }, 120_000);

  test("in searches: the query, its completion, and remembered searches", async () => {
    const box = page.getByRole("combobox", { name: "Search mail" });
    const { id } = await page.evaluate(async () => (await fetch("/app/me")).json() as Promise<{ id: string }>);
    await page.evaluate(
      ([place, kept]) => localStorage.setItem(place as string, kept as string),
      [`mailroom.searches.${id}`, JSON.stringify(attacks.slice(0, 20))],
    );
    await box.fill("");
    await page.getByRole("option", { name: OWN[0] ?? "" }).waitFor();
    await note();
    for (const attack of attacks.slice(0, TYPED))
      await box.fill(`from:${onOneLine(attack)} label:${onOneLine(attack).slice(0, 20)}`);
    await box.fill(OWN[0] ?? "");
    await box.press("Enter");
    await page.getByRole("heading", { name: "Search" }).waitFor();
    await page.goto(
      `${booted.http}/mail/all?label=${encodeURIComponent(OWN[1] ?? "")}&q=${encodeURIComponent(OWN[0] ?? "")}`,
    );
    await page.getByRole("heading", { name: "Search" }).waitFor();
    expect([await intruders(), seen]).toEqual([[], []]);
  }, 120_000);

  test("in messages that the app shows in passing", async () => {
    await page.goto(`${booted.http}/mail/inbox`);
    await page
      .getByRole("checkbox", { name: /^Select / })
      .first()
      .check();
    await page.keyboard.press("l");
    const find = page.getByRole("combobox", { name: "Find or create a label" });
    await find.fill(`${OWN[0]}!`);
    await find.press("Enter");
    await page.getByText(`Labelled ${OWN[0]}!`).waitFor();
    expect([await intruders(), seen]).toEqual([[], []]);
  }, 120_000);
});
