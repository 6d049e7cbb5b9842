/**
 * A conversation in a real browser: read messages above the first unread one are folded, the subject stays in sight,
 * keys move among the messages, wide mail fits, and links in spam do not open.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const LINES = "A line of the message.\n".repeat(40);
const WIDE = `<table width="1400"><tr><td style="width:1400px">Wide <b>news</b></td></tr></table>`;
const SUBJECT = "A plan for the boards of the house by the lake, which takes a while to say";

let booted: Booted;
let page: Page;
const complaints: string[] = [];
const ids = new Map<string, string>();

const messages = () => page.getByRole("article", { name: "Message of Bea Brand" });
const shown = () => messages().evaluateAll((cards) => cards.map((card) => card.querySelector("time")?.dateTime));
/** The top of each message, from the top of what scrolls. */
const tops = () =>
  page.locator("li[data-message]").evaluateAll((cards) => {
    const top = cards[0]?.closest(".overflow-y-auto")?.getBoundingClientRect().top ?? 0;
    return cards.map((card) => Math.round(card.getBoundingClientRect().top - top));
  });
const topmost = async () => (await tops()).findIndex((top) => top >= 0);
const focused = () =>
  page.evaluate(() => document.activeElement?.closest("[data-message]")?.querySelector("time")?.dateTime.slice(14, 16));
const idOf = (subject: string) => ids.get(subject) ?? "";
async function open(subject: string, hash = "", within = "inbox"): Promise<void> {
  await page.goto("about:blank");
  await page.goto(`${booted.http}/mail/${within}/${idOf(subject)}${hash && `#${hash}`}`);
  await page.getByRole("heading", { name: subject, level: 1 }).waitFor();
  await page.locator("iframe").first().waitFor();
}

describe.skipIf(!chromiumPresent)(`a conversation${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const sender = mailer(booted.mx);
    let count = 0;
    const deliver = (subject: string, body: string, more = "") => {
      const minute = String(++count).padStart(2, "0");
      const raw = `From: Bea Brand <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\nMessage-ID: <${count}@x>\nDate: Sun, 04 Jan 2026 08:${minute}:00 +0000\n${more}\n${body}\n`;
      return sender.send({ from: "bea@remote.example", to: ALICE }, raw);
    };
    const list = async () =>
      (await booted.api.get<{ threads: { id: string; subject: string }[] }>("/threads?folder=all&limit=50")).body
        .threads;
    await deliver(SUBJECT, LINES);
    for (let n = 2; n <= 8; n++) await deliver(`Re: ${SUBJECT}`, LINES, "In-Reply-To: <1@x>\n");
    for (const { id } of await list()) await booted.api.patch(`/threads/${id}`, { unread: false });
    for (let n = 9; n <= 11; n++) await deliver(`Re: ${SUBJECT}`, LINES, "In-Reply-To: <1@x>\n");
    await deliver("News", WIDE, "MIME-Version: 1.0\nContent-Type: text/html\n");
    await deliver(
      "Prize",
      `<a href="https://prize.example/x?a=1&amp;b=2">Take it</a> https://other.example/`,
      "MIME-Version: 1.0\nContent-Type: text/html\n",
    );
    await deliver("Plain prize", "Take it at https://prize.example/ now");
    for (const { id, subject } of await list()) {
      ids.set(subject, id);
      if (subject.endsWith("rize")) await booted.api.patch(`/threads/${id}`, { folder: "spam" });
    }
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    await page.clock.setFixedTime(booted.runtime.now());
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("list", { name: "Conversations" }).waitFor();
  }, 120_000);

  test("begins with the first unread message, and folds those above it", async () => {
    await open(SUBJECT);
    await page.getByRole("button", { name: "8 earlier messages" }).waitFor();
    expect((await shown()).map((date) => date?.slice(14, 16))).toEqual(["09", "10", "11"]);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "8 earlier messages" }).click();
    await messages().nth(10).waitFor();
    await page.waitForFunction(() => document.activeElement?.matches("li:first-child > article"));
    // The folded ones are still closed.
    expect(await page.locator("iframe").count()).toBe(3);
    await page.getByRole("button", { name: "Open all" }).click();
    await page.waitForFunction(() => document.querySelectorAll("iframe").length === 11);
    await page.getByRole("button", { name: "Close all" }).click();
    await page.waitForFunction(() => document.querySelectorAll("iframe").length === 0);
  }, 120_000);

  test("folds none of a short one, and nothing below the match of a search", async () => {
    const { body } = await booted.api.get<{ messages: { id: string }[] }>(`/threads/${idOf(SUBJECT)}`);
    await open(SUBJECT, body.messages[2]?.id);
    expect(await messages().count()).toBe(11);
    await open(SUBJECT, body.messages[4]?.id);
    await page.getByRole("button", { name: "4 earlier messages" }).waitFor();
    expect(await messages().count()).toBe(7);
    expect(await topmost()).toBe(0);
  }, 120_000);

  test("keeps its subject in sight", async () => {
    await page.setViewportSize({ width: 400, height: 700 });
    await open(SUBJECT);
    await page.getByRole("button", { name: "Open all" }).click();
    await page.locator("iframe").nth(5).waitFor();
    await page.locator("li[data-message]").last().scrollIntoViewIfNeeded();
    const line = page.locator("p", { hasText: SUBJECT }).first();
    await line.waitFor();
    const box = await line.boundingBox();
    expect(box?.height).toBeLessThan(48);
    // A screen reader has the heading alone.
    expect(await page.getByRole("article", { name: SUBJECT }).getByText(SUBJECT).count()).toBe(2);
    expect(await line.evaluate((element) => element.closest("[aria-hidden]") !== null)).toBe(true);
    await page.setViewportSize({ width: 1280, height: 720 });
  }, 120_000);

  test("is read by n, p and Space", async () => {
    await booted.api.patch(`/threads/${idOf(SUBJECT)}`, { unread: false });
    await open(SUBJECT);
    // All are read, so it begins with the newest.
    await page.getByRole("button", { name: "10 earlier messages" }).click();
    await page.waitForFunction(() => document.activeElement?.matches("li:first-child > article"));
    await page.keyboard.press("n");
    expect(await focused()).toBe("02");
    await page.frameLocator("iframe").first().getByText("A line of the message.").first().waitFor();
    const [, top = 0] = await tops();
    expect(top).toBeGreaterThan(30);
    expect(top).toBeLessThan(80);
    await page.keyboard.press("n");
    expect(await focused()).toBe("03");
    await page.keyboard.press("p");
    expect(await focused()).toBe("02");
    // It has two pages.
    await page.keyboard.press("Space");
    expect(await focused()).toBe("02");
    expect((await tops())[1]).toBeLessThan(-300);
    await page.keyboard.press("Shift+Space");
    expect((await tops())[1]).toBeGreaterThan(-10);
    await page.keyboard.press("Space");
    await page.keyboard.press("Space");
    expect(await focused()).toBe("03");
    // Also from inside a message.
    await page.frameLocator("iframe").nth(1).getByText("A line of the message.").first().click();
    await page.keyboard.press("n");
    expect(await focused()).toBe("04");
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("Next, previous message").waitFor();
    await page.keyboard.press("Escape");
  }, 120_000);

  test("shows wide mail in the width of the page, with its text selectable, or at full size", async () => {
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 720 });
      await open("News");
      const body = page.frameLocator("iframe").locator("main");
      const overflow = () => body.evaluate((main) => main.scrollWidth > main.clientWidth);
      await page.getByRole("button", { name: "Show at full size" }).waitFor();
      // Text does not become unreadable: on a phone the rest is scrolled to.
      expect(await overflow()).toBe(width === 390);
      expect(await body.evaluate((main) => Number(main.style.zoom))).toBeGreaterThanOrEqual(0.35);
      const text = body.getByText("news");
      await text.dblclick();
      expect(await text.evaluate((element) => String(element.ownerDocument.getSelection()).trim())).toBe("news");
      await page.getByRole("button", { name: "Show at full size" }).click();
      await page.getByRole("button", { name: "Fit to the width" }).waitFor();
      expect(await overflow()).toBe(true);
      expect(await body.evaluate((main) => main.style.zoom)).toBe("");
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
      expect(await barriers(page)).toEqual([]);
    }
    await page.setViewportSize({ width: 1280, height: 720 });
  }, 120_000);

  test("opens no links while it is in spam", async () => {
    await open("Prize", "", "spam");
    const link = page.frameLocator("iframe").locator("a");
    expect(await link.getAttribute("href")).toBeNull();
    expect(await link.getAttribute("title")).toBe("https://prize.example/x?a=1&b=2");
    await page.getByText("Why is this in spam?").click();
    await page.getByText("Its links do not open as long as it is here.").waitFor();
    await open("Plain prize", "", "spam");
    await page.frameLocator("iframe").getByText("https://prize.example/").waitFor();
    expect(await page.frameLocator("iframe").locator("a").count()).toBe(0);
    await page.getByRole("button", { name: "Not spam" }).first().click();
    await open("Plain prize");
    expect(await page.frameLocator("iframe").locator("a").getAttribute("href")).toBe("https://prize.example/");
    expect(complaints).toEqual([]);
  }, 120_000);
});
