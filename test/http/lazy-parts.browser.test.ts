/** Parts of the app that load when a person needs them, in a real browser: early enough, and after an upgrade too. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { BrowserContext, Page } from "playwright-core";
import { appScripts } from "../harness/clients/app-scripts.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let context: BrowserContext;
let page: Page;
/** Path of the script with the pages of settings. */
let settings: string;

const mail = () => page.getByRole("navigation", { name: "Mail" });
const drafts = async () => (await booted.api.get<{ threads: { subject: string }[] }>("/threads?folder=drafts")).body;
async function toSettings(): Promise<void> {
  await page.getByRole("button", { name: /^Account of Alice/ }).click();
  await page.getByRole("menuitem", { name: "Settings" }).click();
}
/** Acts as a server that no longer has the file. Otherwise browsers keep it for good. */
async function lose(path: string): Promise<void> {
  await page.route(`**${path}`, (route) => route.fulfill({ status: 404 }));
}

describe.skipIf(!chromiumPresent)(`parts of the app${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const scripts = (await appScripts(booted.http)).later.map(async (path) => ({
      path,
      text: await (await fetch(booted.http + path)).text(),
    }));
    settings = (await Promise.all(scripts)).find(({ text }) => text.includes("Remove this mailbox"))?.path ?? "";
  }, 120_000);

  beforeEach(async () => {
    await context?.close();
    context = await (await openBrowser()).newContext();
    page = await context.newPage();
    await page.goto(`${booted.http}/sign-in`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
  }, 120_000);
  const signIn = async () => {
    await page.getByLabel("Password").press("Enter");
    await mail().waitFor();
  };

  test("are not loaded to sign in, and are loaded before a person needs them", async () => {
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    expect(await page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")).not.toContain(
      booted.http + settings,
    );
    const loaded = page.waitForResponse((answer) => answer.url().endsWith(settings));
    await signIn();
    expect((await loaded).status()).toBe(200);
  }, 120_000);

  test("that the upgraded server no longer has make the page load again, once, and the draft is saved", async () => {
    await lose(settings);
    await signIn();
    let loads = 0;
    page.on("load", () => loads++);
    await page.route(`${booted.http}/`, async (route) => {
      // The server has the files of the new page.
      await page.unroute(`**${settings}`);
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: (await answer.text()).replace(/src="[^"]+"/, 'src="/other.js"') });
    });
    await page.getByRole("button", { name: "Compose" }).click();
    await page.getByLabel("Subject").fill("Before the upgrade");
    await toSettings();
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    expect(loads).toBe(1);
    expect((await drafts()).threads.map(({ subject }) => subject)).toEqual(["Before the upgrade"]);
  }, 120_000);

  test("that cannot be loaded say so, and load when the person tries again", async () => {
    await lose(settings);
    await signIn();
    await toSettings();
    await page.getByText("This part of the page could not be loaded").waitFor();
    await page.unroute(`**${settings}`);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "Profile" }).waitFor();
  }, 120_000);
});
