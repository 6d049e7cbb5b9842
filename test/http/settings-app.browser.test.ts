/** Settings in a real browser: API keys, webhooks with tests and log, and the pages that each role sees. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as developers from "../../src/admin/developers.ts";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { confirmIn, PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Receiver, startReceiver } from "../harness/peers/receiver.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
let booted: Booted;
let page: Page;
let receiver: Receiver;
/** Problems that the browser reported: script errors, and violations of the policy. */
const complaints: string[] = [];

async function signIn(email: string): Promise<Page> {
  const opened = await (await (await openBrowser()).newContext()).newPage();
  opened.on("pageerror", (error) => complaints.push(error.message));
  opened.on("console", (message) => {
    if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
  });
  await opened.goto(`${booted.http}/sign-in`);
  await opened.getByLabel("Email address").fill(email);
  await opened.getByLabel("Password").fill(PASSWORD);
  await opened.getByLabel("Password").press("Enter");
  await opened.getByRole("navigation", { name: "Mail" }).waitFor();
  await confirmIn(opened);
  return opened;
}

const section = (name: string) => page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name });
/** Presses a button in the open dialog. */
const agree = (deed: string) => page.getByRole("dialog").getByRole("button", { name: deed, exact: true }).click();
const log = () => page.getByRole("list", { name: "Deliveries" }).getByRole("listitem");

describe.skipIf(!chromiumPresent)(`settings${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    receiver = startReceiver();
    receiver.answer = (_, nth) =>
      new Response(nth === 1 ? "not today" : "thank you", { status: nth === 1 ? 503 : 200 });
    const { core } = booted.opened;
    const { options, store } = core;
    const bobId = store.transact((tx) => {
      options.set(tx, "webhooks.allowNetworks", "127.0.0.0/8");
      const { workspaceId } = booted.owner;
      return people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: true })
        .userId;
    });
    for (const id of [booted.owner.userId, bobId]) await setPassword(booted, id);
    page = await signIn(ALICE);
  }, 120_000);

  test("are reached from the mail page, and show the person's profile", async () => {
    await page.getByRole("button", { name: /^Account of Alice/ }).click();
    await page.getByRole("menuitem", { name: "Settings" }).click();
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Name shown to others here").fill("Alice Archer");
    await page.getByRole("button", { name: "Save name" }).click();
    await page.getByText("Name changed").waitFor();
    expect((await people.listUsers(booted.opened.core)).map(({ name }) => name)).toContain("Alice Archer");
  }, 120_000);

  test("a wrong current password is refused", async () => {
    await page.getByLabel("Current password").fill("wrong");
    await page.getByLabel("New password").fill("something else");
    await page.getByRole("button", { name: "Change password" }).click();
    await page.getByText("That password is not right").waitFor();
  }, 120_000);

  test("an API key is made, shown once, used and revoked", async () => {
    await section("API keys").click();
    await page.getByRole("radio", { name: /^Full access/ }).check();
    await page.getByLabel("Name", { exact: true }).fill("Agent");
    await page.getByRole("checkbox", { name: "write" }).uncheck();
    // The list cannot be loaded again. The key is shown all the same.
    await page.route("**/app/settings/keys?*", (route) => route.abort());
    let failures = 0;
    const lost = page.waitForEvent("requestfailed", { predicate: () => ++failures === 3 });
    await page.getByRole("button", { name: "Create key" }).click();
    await lost;
    await page.unroute("**/app/settings/keys?*");
    const key = await page.getByLabel("New API key", { exact: true }).inputValue();
    const used = async () => (await booted.apiWith(key).get("/mailboxes")).status;
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy: New API key" }).click();
    await page.getByText("Copied").waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe(key);
    expect(await used()).toBe(200);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("radio", { name: /^Reading/ }).check();
    await page.getByLabel("Name", { exact: true }).fill("Another");
    await page.getByRole("button", { name: "Create key" }).click();
    // The button spoke of the first key.
    await page.getByRole("button", { name: "Copy: New API key" }).waitFor();
    await page.reload();
    const row = page.getByRole("list", { name: "API keys" }).getByRole("listitem").filter({ hasText: "Agent" });
    await row.getByText(/last used/).waitFor();
    expect(await row.textContent()).not.toContain("write");
    expect(await page.content()).not.toContain(key);
    const { $client } = booted.core.store.db;
    $client.run("UPDATE api_keys SET made_by = (SELECT id FROM api_keys WHERE name = 'Agent') WHERE name = 'Another'");
    await row.getByRole("button", { name: "Revoke Agent…" }).click();
    await agree("Revoke key");
    await page.getByText("What it made goes on: the key Another. End what you do not know.").waitFor();
    await row.getByText("revoked", { exact: true }).waitFor();
    expect(await used()).toBe(401);
  }, 120_000);

  test("a webhook is added, gets a test delivery, shows its log, and sends again", async () => {
    await section("Webhooks").click();
    await page.getByRole("button", { name: "Add an endpoint" }).click();
    await page.getByLabel("URL").fill("http://10.0.0.1/");
    await agree("Add endpoint");
    await page.getByRole("dialog").getByRole("alert").waitFor();
    await page.getByLabel("URL").fill(receiver.url);
    await agree("Add endpoint");
    await page.getByRole("button", { name: "Send a test" }).click();
    await receiver.waitFor(1);
    await booted.advance(0);
    await log().getByText("failed", { exact: true }).waitFor();
    expect(await log().textContent()).toContain("HTTP 503 · 1 attempt");
    await log().getByText("Response and ids").click();
    await log().getByText("not today").waitFor();
    expect(await barriers(page)).toEqual([]);
    await log().getByRole("button", { name: "Resend message.inbound" }).click();
    await receiver.waitFor(2);
    await booted.advance(0);
    await log().getByText("delivered", { exact: true }).waitFor();
    expect(await log().textContent()).toContain("HTTP 200 · 2 attempts");
  }, 120_000);

  test("the webhook gets another kind of test, is changed, paused and enabled again", async () => {
    await page.getByLabel("A signed sample of").selectOption("message.bounced");
    await page.getByRole("button", { name: "Send a test" }).click();
    await receiver.waitFor(3);
    await booted.advance(0);
    await log().getByText("message.bounced").waitFor();
    await page.getByRole("checkbox", { name: "message.inbound" }).uncheck();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("Saved").waitFor();
    const [endpoint] = developers.listWebhooks(booted.opened.core);
    expect(endpoint?.events).not.toContain("message.inbound");
    await page.getByRole("button", { name: "Pause…" }).click();
    await agree("Pause it");
    await page.getByText("disabled", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Enable" }).click();
    await page.getByText("active", { exact: true }).waitFor();
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("the webhook's secret is shown on request, and rotated", async () => {
    await page.getByRole("button", { name: "Show secret" }).click();
    const secret = page.getByLabel("Signing secret", { exact: true }).and(page.locator("input"));
    const before = await secret.inputValue();
    await page.getByLabel("Keep the current secret valid for").selectOption("an hour");
    await page.getByRole("button", { name: "Rotate…" }).click();
    await page.getByText("Both are valid for an hour").waitFor();
    await agree("Make a new secret");
    expect(await page.getByLabel("Former secret", { exact: true }).inputValue()).toBe(before);
    expect(await secret.inputValue()).not.toBe(before);
    await page.getByRole("button", { name: "Remove endpoint…" }).click();
    await agree("Remove endpoint");
    await page.getByText("None yet.").waitFor();
  }, 120_000);

  test("fit a phone and the dark scheme", async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    await page.emulateMedia({ colorScheme: "dark" });
    for (const name of ["Webhooks", "API keys", "Profile"]) {
      await section(name).click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
      expect(await barriers(page)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    }
    await page.goto(`${booted.http}/settings/webhooks`);
    await page.getByRole("heading", { level: 1, name: "Webhooks" }).waitFor();
    const { x = 0, width = 0 } = (await section("Webhooks").boundingBox()) ?? {};
    expect(x + width).toBeWithin(1, 391);
  }, 120_000);

  test("fit a window of 320 pixels, as a wide one has at 400 % zoom", async () => {
    await page.setViewportSize({ width: 320, height: 700 });
    const sections = page.getByRole("navigation", { name: "Settings" }).getByRole("link");
    const names = await sections.allTextContents();
    expect(names.length).toBeGreaterThan(12);
    for (const name of names) {
      await sections.filter({ hasText: new RegExp(`^${name}$`) }).click();
      await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
      const beyond = await page.evaluate<number>(
        "Math.max(...[document.documentElement, document.querySelector('main')].map((e) => e.scrollWidth - e.clientWidth))",
      );
      expect([name, beyond]).toEqual([name, 0]);
    }
  }, 120_000);

  test("a member sees only their own settings", async () => {
    page = await signIn(BOB);
    await page.goto(`${booted.http}/settings/keys`);
    await page.getByRole("heading", { name: "Profile" }).waitFor();
    const sections = page.getByRole("navigation", { name: "Settings" }).getByRole("link");
    expect(await sections.allTextContents()).toEqual([
      "Profile",
      "Signature and templates",
      "Two-step sign-in",
      "Mail apps",
      "Notifications",
      "Sessions",
      "Rules and absence",
    ]);
  }, 120_000);

  test("the browser reported no errors and no violations of the policy", () => {
    expect(complaints).toEqual([]);
  });
});
