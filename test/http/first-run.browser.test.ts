/** The first run in a real browser: from the link that the server prints to the mail of the owner. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { bootEmpty } from "../harness/servers/boot.ts";

const PASSWORD = "correct horse battery staple";
let booted: Awaited<ReturnType<typeof bootEmpty>>;
let page: Page;
const asked: string[] = [];
const complaints: string[] = [];

describe.skipIf(!chromiumPresent)(`the first run${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await bootEmpty();
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    page.on("request", (request) => asked.push(`${request.url()} ${request.headers().referer ?? ""}`));
  }, 120_000);

  test("without the right link, / says the next step and nothing is set up", async () => {
    await page.goto(booted.http);
    await page.getByRole("heading", { name: "Mailroom is not set up yet" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.goto(`${booted.http}/setup`);
    await page.getByRole("alert").getByText("Open the whole link").waitFor();
    await page.goto(`${booted.http}/setup#${"x".repeat(43)}`);
    await page.reload();
    await page.getByRole("alert").waitFor();
    expect(await page.getByLabel("Password").count()).toBe(0);
  }, 120_000);

  test("the link shows a form that says what to correct, and then gives the owner a key, DNS records and a session", async () => {
    const token = booted.opened.firstRun.issueToken() ?? "";
    await page.goto("about:blank");
    // The page no longer has the token in its URL, so loading it again would not do.
    await page.route("**/app/setup/token", (route) => route.abort());
    await page.goto(`${booted.http}/setup#${token}`);
    await page.getByRole("alert").getByText("The server is not responding").waitFor();
    await page.unroute("**/app/setup/token");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByLabel("Domain for mail").fill("acme.test");
    expect(page.url()).toBe(`${booted.http}/setup`);
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Your name").fill("Ada");
    await page.getByLabel("Your email address").fill("ada@other.test");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Set up" }).click();
    await page.getByRole("alert").getByText("ada@other.test is not at acme.test").waitFor();
    await page.getByLabel("Your email address").fill("ada@acme.test");
    await page.getByRole("button", { name: "Set up" }).click();
    await page.getByRole("heading", { name: "Mailroom is set up" }).waitFor();
    const key = await page.getByLabel("API key", { exact: true }).inputValue();
    expect((await booted.apiWith(key).get("/mailboxes")).status).toBe(200);
    expect(await page.getByRole("list", { name: "DNS records" }).getByRole("listitem").count()).toBe(6);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Go to your mail" }).click();
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
    expect(asked.filter((line) => line.includes(token))).toEqual([]);
    expect(JSON.stringify(booted.lines)).not.toContain(token);
  }, 120_000);

  test("afterwards the link leads to signing in", async () => {
    await page.goto("about:blank");
    await page.goto(`${booted.http}/setup#${"x".repeat(43)}`);
    await page.getByRole("alert").getByText("This server is already set up").waitFor();
    await page.context().clearCookies();
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("Email address").fill("ada@acme.test");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);
});
