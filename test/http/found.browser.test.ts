/**
 * Searching in a real browser: a match is marked, leads to its message, and is shown as text. A search without results
 * suggests another one, for keyboards and screen readers too.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const MARKUP = "<b>sycamore</b> <img src=x onerror=alert(1)>";

let page: Page;
const complaints: string[] = [];

const rows = () => page.getByRole("list", { name: "Conversations" }).getByRole("listitem");
const marks = () => rows().locator("mark").allTextContents();
const box = () => page.getByRole("combobox", { name: "Search mail" });
async function search(q: string): Promise<void> {
  await box().fill(q);
  await box().press("Escape");
  await box().press("Enter");
}

describe.skipIf(!chromiumPresent)(`the result of a search${chromiumNote}`, () => {
  beforeAll(async () => {
    const booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const sender = mailer(booted.mx);
    let count = 0;
    const deliver = (subject: string, text: string, more = "") => {
      const raw = `From: Bea Brand <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\nMessage-ID: <${++count}@x>\nDate: Sun, 04 Jan 2026 08:0${count}:00 +0000\n${more}\n${text}\n`;
      return sender.send({ from: "bea@remote.example", to: ALICE }, raw);
    };
    await deliver("Boards", `The sycamore is here.\n${"Line.\n".repeat(60)}`);
    for (const n of [1, 2, 3])
      await deliver("Re: Boards", `Answer ${n}.\n${"Line.\n".repeat(60)}`, "In-Reply-To: <1@x>\n");
    await deliver("Sycamore", MARKUP);
    await deliver("Oak", "Short.");
    await deliver("Trees", `An oak among others.\n${"Line.\n".repeat(60)}`);
    for (const { id } of (await booted.api.get<{ threads: { id: string }[] }>("/threads")).body.threads) {
      await booted.api.patch(`/threads/${id}`, { unread: false });
    }
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("dialog", (dialog) => {
      complaints.push(dialog.message());
      void dialog.dismiss();
    });
    await page.clock.setFixedTime(booted.runtime.now());
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await rows().filter({ hasText: "Boards" }).waitFor();
  }, 120_000);

  test("is marked in place of the conversation's snippet, as text", async () => {
    expect(await marks()).toEqual([]);
    await search("sycamore");
    await rows().locator("mark").first().waitFor();
    expect(await marks()).toEqual(["Sycamore", "sycamore", "sycamore"]);
    expect(await rows().first().textContent()).toContain(MARKUP);
    expect(await rows().locator("img, b").count()).toBe(0);
    expect(await rows().last().textContent()).toContain("The sycamore is here.");
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("leads to the message with the match", async () => {
    await rows().last().getByRole("link").click();
    const opened = page.getByRole("article", { name: "Message of Bea Brand" });
    await opened.first().locator("iframe").waitFor();
    // The newest message and the match are open, and those between them are not.
    expect(await opened.locator("iframe").count()).toBe(2);
    await page.waitForFunction(() => {
      const { top } = document.querySelector("article article")?.getBoundingClientRect() ?? { top: -1 };
      return top >= 0 && top < window.innerHeight / 2;
    });
  }, 120_000);

  test("without matches suggests another search, which the keyboard starts", async () => {
    await search("form:bea sycamroe");
    const meant = page.getByRole("link", { name: "from:bea sycamore" });
    await meant.waitFor();
    expect(await page.getByRole("status").filter({ hasText: "Did you mean" }).textContent()).toContain(
      "Nothing found for “form:bea sycamroe”",
    );
    expect(await barriers(page)).toEqual([]);
    await meant.focus();
    await page.keyboard.press("Enter");
    await rows().first().waitFor();
    expect(await box().inputValue()).toBe("from:bea sycamore");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("content");
    await search("xylophone");
    await page.getByText("Every word has to match.").waitFor();
    expect(await page.getByText("Did you mean").count()).toBe(0);
  }, 120_000);

  test("names the words that were found when typos were forgiven", async () => {
    await page.route("**/app/threads?*q=sycamroe*", async (route) => {
      const answer = await route.fetch({ url: route.request().url().replace("sycamroe", "sycamore") });
      await route.fulfill({ response: answer, json: { ...(await answer.json()), nearWords: ["sycamore"] } });
    });
    await search("sycamroe");
    await page.getByRole("status").getByText("Showing results for sycamore.").waitFor();
    expect(await rows().count()).toBe(2);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("is sorted newest or best first, as chosen, and the URL keeps the order", async () => {
    const chosen = page.getByRole("group", { name: "Order of results" }).getByRole("button", { pressed: true });
    const first = async (subject: string) =>
      void (await rows().filter({ hasText: subject }).and(rows().first()).waitFor());
    const sort = () => new URL(page.url()).searchParams.get("sort");
    await search("oak");
    await first("Trees");
    expect([await chosen.allTextContents(), sort()]).toEqual([["Newest"], null]);
    await page.getByRole("button", { name: "Best match" }).focus();
    await page.keyboard.press("Enter");
    await first("Oak");
    expect(await chosen.allTextContents()).toEqual(["Best match"]);
    expect(await barriers(page)).toEqual([]);
    await page.reload();
    await first("Oak");
    // The next search has the same order.
    await search("sycamore");
    await first("Sycamore");
    expect([await chosen.allTextContents(), sort()]).toEqual([["Best match"], "relevance"]);
    await search("oak");
    await first("Oak");
    await page.getByRole("button", { name: "Newest" }).click();
    await first("Trees");
    expect(sort()).toBeNull();
    await page.getByRole("button", { name: "Clear search" }).click();
    await rows().filter({ hasText: "Boards" }).waitFor();
    expect(await chosen.count()).toBe(0);
  }, 60_000);

  test("causes no errors in the browser", () => {
    expect(complaints).toEqual([]);
  });
});
