/** The API reference in a real browser: finding, copying, the keyboard, the dark scheme, a phone, and no scripts. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { boot } from "../harness/appliance.ts";
import { barriers } from "../harness/barriers.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/chromium.ts";

describe.skipIf(!chromiumPresent)(`the API reference${chromiumNote}`, () => {
  let url: string;
  let key: string;
  let page: Page;
  const complaints: string[] = [];
  const contents = () => page.getByRole("navigation", { name: "Contents" });
  const sections = () => page.locator("main section:visible").evaluateAll((found) => found.map(({ id }) => id));

  beforeAll(async () => {
    const booted = await boot();
    key = booted.owner.apiKey;
    url = `${booted.http}/api/docs`;
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    await page.goto(url);
  }, 120_000);

  test("has no accessibility barriers, and finds while the reader types", async () => {
    expect(await barriers(page)).toEqual([]);
    const everything = await sections();
    await page.keyboard.press("/");
    await page.keyboard.type("DURABLY idempotency-");
    expect(await sections()).toEqual(["replyToThread", "sendEmail"]);
    expect(await contents().getByRole("link").count()).toBe(2);
    expect(await contents().getByRole("status").textContent()).toBe("2 sections");
    await page.keyboard.press("Escape");
    expect(await sections()).toEqual(everything);
    await page.keyboard.type("quicksilver");
    await contents().getByText("Nothing is called that.").waitFor();
    expect(await sections()).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.type("sendEmail");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${url}#sendEmail`);
    expect(await sections()).toEqual(everything);
  }, 120_000);

  test("copies a command, and marks the reader's place in the contents", async () => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const section = page.locator("#listMailboxes");
    await contents().getByRole("link", { name: "listMailboxes" }).click();
    await contents().locator('[aria-current="true"]').getByText("listMailboxes").waitFor();
    await section.getByRole("button", { name: "Copy: Request, with curl" }).click();
    await section.getByText("Copied").waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toStartWith("curl ");
    await section.getByRole("radio", { name: "curl" }).press("ArrowRight");
    expect(await section.getByRole("radio", { name: "Python" }).isChecked()).toBe(true);
    await section.getByRole("button", { name: "Copy: Request, in Python" }).click();
    await section.getByText("Copied").nth(1).waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toStartWith("import os\n");
    expect(await section.getByRole("button", { name: /^(Copy|Copied): Request/ }).count()).toBe(1);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("tries an operation with the reader's key, which it forgets", async () => {
    const tried = page.locator("#listMailboxes .try");
    await tried.getByText("Try it").click();
    await tried.getByRole("button", { name: "Send" }).click();
    // Without a key the browser asks for one.
    expect(await tried.getByRole("status").textContent()).toBe("");
    await tried.getByLabel("API key").fill("mr_wrong");
    await tried.getByRole("button", { name: "Send" }).click();
    await tried.getByRole("status").getByText(/^401 /).waitFor();
    await tried.getByLabel("API key").fill(key);
    await tried.getByRole("button", { name: "Send" }).click();
    await tried.getByRole("status").getByText(/^200 /).waitFor();
    await tried.getByText('"address": "alice@example.test"').waitFor();
    expect(await barriers(page)).toEqual([]);
    await tried.getByLabel("Path").fill("https://other.example/api/v1/mailboxes");
    await tried.getByRole("button", { name: "Send" }).click();
    await tried.getByText("The path has to begin with /api/").waitFor();
    // Another one has the key already, and says what it would do.
    const sending = page.locator("#sendEmail .try");
    await sending.getByText("Try it").click();
    expect(await sending.getByLabel("API key").inputValue()).toBe(key);
    await sending
      .getByLabel("Body")
      .fill('{"from":"alice@example.test","to":"bea@remote.example","subject":"Tried","text":"x"}');
    await sending.getByRole("button", { name: "Send POST: it acts on your mail" }).click();
    await sending.getByRole("status").getByText(/^202 /).waitFor();
    await page.reload();
    await tried.getByText("Try it").click();
    expect(await tried.getByLabel("API key").inputValue()).toBe("");
    expect(await page.evaluate(() => localStorage.length + sessionStorage.length)).toBe(0);
  }, 120_000);

  test("fits a phone, also in the dark scheme, with the contents behind a button", async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await contents().isVisible()).toBe(false);
    expect(await barriers(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await page.getByRole("button", { name: "Contents" }).click();
    await contents().getByRole("link", { name: "getThread" }).click();
    await contents().waitFor({ state: "hidden" });
  }, 120_000);

  test("can be read without scripts", async () => {
    const plain = await (await (await openBrowser()).newContext({ javaScriptEnabled: false })).newPage();
    await plain.goto(url);
    await plain.getByRole("heading", { name: "Send a message" }).waitFor();
    await plain.getByRole("navigation", { name: "Contents" }).getByRole("link", { name: "sendEmail" }).click();
    expect(plain.url()).toBe(`${url}#sendEmail`);
    expect(await plain.getByRole("searchbox").count()).toBe(0);
    const section = plain.locator("#sendEmail");
    await section.getByText("TypeScript", { exact: true }).click();
    expect(await section.locator(".snippets pre:visible").allTextContents()).toEqual([
      expect.stringContaining("await fetch("),
    ]);
    expect(complaints).toEqual([]);
  }, 120_000);
});
