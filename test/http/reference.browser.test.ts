/** The API reference in a real browser: finding, copying, the keyboard, the dark scheme, a phone, and no scripts. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

describe.skipIf(!chromiumPresent)(`the API reference${chromiumNote}`, () => {
  let booted: Booted;
  let url: string;
  let key: string;
  let page: Page;
  const complaints: string[] = [];
  const contents = () => page.getByRole("navigation", { name: "Contents" });
  const sections = () => page.locator("main section:visible").evaluateAll((found) => found.map(({ id }) => id));

  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
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
    await contents().getByRole("link", { name: "List mailboxes" }).click();
    await contents().locator('[aria-current="true"]').getByText("List mailboxes").waitFor();
    await section.getByRole("button", { name: "Copy: Request, with curl" }).click();
    await section.getByText("Copied").waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toStartWith("curl ");
    await section.getByRole("radio", { name: "curl" }).press("ArrowRight");
    expect(await section.getByRole("radio", { name: "Python" }).isChecked()).toBe(true);
    await section.getByRole("button", { name: "Copy: Request, in Python" }).click();
    await section.getByText("Copied").nth(1).waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toStartWith("import os\n");
    expect(await section.getByRole("button", { name: /^(Copy|Copied): Request/ }).count()).toBe(1);
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
    // What the address needs has fields of its own.
    const reading = page.locator("#listThreads .try");
    await reading.getByText("Try it").click();
    await reading.getByLabel("folder").selectOption("archive");
    await reading.getByLabel("unread").selectOption("");
    const [asked] = await Promise.all([
      page.waitForRequest(/\/api\/v1\/threads/),
      reading.getByRole("button", { name: "Send" }).click(),
    ]);
    expect(new URL(asked.url()).searchParams.get("folder")).toBe("archive");
    expect(new URL(asked.url()).searchParams.has("unread")).toBe(false);
    await reading.getByRole("status").getByText(/^200 /).waitFor();
    const one = page.locator("#getThread .try");
    await one.getByText("Try it").click();
    await one.getByLabel("id", { exact: true }).fill("../mailboxes");
    await one.getByRole("button", { name: "Send" }).click();
    await one.getByRole("status").getByText(/^404 /).waitFor();
    // Another one has the key already, and says what it would do.
    const sending = page.locator("#sendEmail .try");
    await sending.getByText("Try it").click();
    expect(await sending.getByLabel("API key").inputValue()).toBe(key);
    await sending
      .getByLabel("Body")
      .fill('{"from":"alice@example.test","to":"bea@remote.example","subject":"Tried","text":"x"}');
    await sending.getByRole("button", { name: "Send POST: it takes effect" }).click();
    await sending.getByRole("status").getByText(/^202 /).waitFor();
    await page.reload();
    await tried.getByText("Try it").click();
    expect(await tried.getByLabel("API key").inputValue()).toBe("");
    expect(await page.evaluate(() => localStorage.length + sessionStorage.length)).toBe(0);
  }, 120_000);

  test("gets a key of the person who is signed in, for the examples and for trying", async () => {
    await page.goto(url);
    const secretOf = () => page.locator("#listMailboxes .snippets pre:visible").textContent();
    const button = page.getByRole("button", { name: "Use my key" });
    const dialog = page.getByRole("dialog", { name: "Use my key" });
    await button.press("Enter");
    await dialog.getByRole("button", { name: "Make a key" }).click();
    await dialog.getByText("You are not signed in here.").waitFor();
    expect(await dialog.getByRole("link", { name: "Sign in" }).getAttribute("href")).toBe("/sign-in");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });

    const signedIn = await page.evaluate(
      ([email, password]) =>
        fetch("/app/sign-in", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ email, password }),
        }).then(({ status }) => status),
      ["alice@example.test", PASSWORD],
    );
    expect(signedIn).toBe(204);
    const requests: string[] = [];
    page.on("request", (request) => requests.push(`${request.method()} ${request.url()}`));
    await button.press("Enter");
    await dialog.getByLabel("Organise mail, and draft").press("Space");
    await page.keyboard.press("Enter");
    await dialog.getByText("Show that it is you:").waitFor();
    await page.keyboard.type("not my password");
    await page.keyboard.press("Enter");
    await dialog.getByText("That password is not right").waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "hidden" });
    await page
      .getByRole("status")
      .getByText(/^Your key, until \d/)
      .waitFor();
    const made = /Bearer (mr_[A-Za-z0-9]{43})"/.exec((await secretOf()) ?? "")?.[1] ?? "";
    expect(made).not.toBe("");
    for (const name of ["Python", "JavaScript"]) {
      await page.locator("#listMailboxes").getByRole("radio", { name }).check();
      expect(await secretOf()).toMatch(new RegExp(`Authorization"?: "Bearer ${made}"`));
      // The whole page speaks that language.
      expect(await page.locator("#sendEmail").getByRole("radio", { name }).isChecked()).toBe(true);
    }
    await page
      .locator("#listMailboxes")
      .getByRole("button", { name: /^Copy: Request, in JavaScript/ })
      .click();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toContain(made);
    const tried = page.locator("#updateThread .try");
    await tried.getByText("Try it").click();
    expect(await tried.getByLabel("API key").inputValue()).toBe(made);
    await tried.getByLabel("id", { exact: true }).fill("thr_none");
    await tried.getByRole("button", { name: "Send PATCH: it takes effect" }).click();
    // It may write; there is no such conversation.
    await tried.getByRole("status").getByText(/^404 /).waitFor();
    expect(await barriers(page)).toEqual([]);

    expect(requests.filter((request) => request.includes(made))).toEqual([]);
    expect(JSON.stringify(booted.lines)).not.toContain(made);
    expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).toBe("{}");
    const status = () =>
      booted
        .apiWith(made)
        .get("/mailboxes")
        .then((answer) => answer.status);
    expect(await status()).toBe(200);
    const [, ended] = await Promise.all([
      page.getByRole("button", { name: "Forget key" }).click(),
      page.waitForResponse((response) => response.url().endsWith("/app/reference-key")),
    ]);
    expect([ended.status(), await status()]).toEqual([204, 401]);
    expect(await secretOf()).not.toContain("mr_");
    expect(await tried.getByLabel("API key").inputValue()).toBe("");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Use my key");
  }, 120_000);

  test.each(["light", "dark"] as const)(
    "has no barriers and no sideways scrolling at 200 %%, %s",
    async (colorScheme) => {
      // A window of 1280 pixels, zoomed to 200 %, has 640 CSS pixels.
      await page.setViewportSize({ width: 640, height: 400 });
      await page.emulateMedia({ colorScheme });
      for (const section of ["errors", "sendEmail", "signatures", "search_mail", "Message"]) {
        await page.goto(`${url}#${section}`);
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(640);
      }
      expect(await barriers(page)).toEqual([]);
      await page.getByRole("button", { name: "Use my key" }).click();
      const { bottom, height } = await page.evaluate(() => {
        const { bottom } = (document.querySelector("dialog") as HTMLElement).getBoundingClientRect();
        return { bottom, height: innerHeight };
      });
      expect(bottom).toBeLessThanOrEqual(height);
      expect(await barriers(page)).toEqual([]);
      await page.keyboard.press("Escape");
    },
    120_000,
  );

  test("fits a phone, also in the dark scheme, with the contents behind a button", async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await contents().isVisible()).toBe(false);
    expect(await barriers(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await page.getByRole("button", { name: "Contents" }).click();
    await contents().getByRole("link", { name: "Get thread" }).click();
    await contents().waitFor({ state: "hidden" });
  }, 120_000);

  test("can be read without scripts", async () => {
    const plain = await (await (await openBrowser()).newContext({ javaScriptEnabled: false })).newPage();
    await plain.goto(url);
    await plain.getByRole("heading", { name: "Send a message" }).waitFor();
    await plain.getByRole("navigation", { name: "Contents" }).getByRole("link", { name: "Send email" }).click();
    expect(plain.url()).toBe(`${url}#sendEmail`);
    expect(await plain.getByRole("searchbox").count()).toBe(0);
    const section = plain.locator("#sendEmail");
    await section.getByText("JavaScript", { exact: true }).click();
    expect(await section.locator(".snippets pre:visible").allTextContents()).toEqual([
      expect.stringContaining("await fetch("),
    ]);
    expect(complaints).toEqual([]);
  }, 120_000);
});
