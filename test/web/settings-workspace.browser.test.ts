/** Settings of a workspace in a real browser: each page does its work, and has no barrier for a screen reader. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import type { DnsResolver } from "../../src/runtime.ts";
import { type Booted, boot } from "../harness/appliance.ts";
import { barriers } from "../harness/barriers.ts";
import { PASSWORD, setPassword } from "../harness/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/chromium.ts";

/** Nobody answers about remote.example; no other name exists. */
const dns = new Proxy({} as DnsResolver, {
  get: () => async (name: string) => {
    throw Object.assign(new Error("no DNS"), { code: name === "remote.example" ? "ETIMEOUT" : "ENOTFOUND" });
  },
});

let booted: Booted;
let page: Page;
const complaints: string[] = [];

const section = (name: string) =>
  page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name }).click();
const box = (name: string) => page.getByRole("region", { name, exact: true });
const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
const row = (list: string, text: string) =>
  page.getByRole("list", { name: list, exact: true }).getByRole("listitem").filter({ hasText: text });

describe.skipIf(!chromiumPresent)(`settings of a workspace${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot({}, dns);
    await setPassword(booted, booted.owner.userId);
    page = await (await (await openBrowser()).newContext()).newPage();
    page.setDefaultTimeout(10_000);
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    page.on("dialog", (dialog) => void dialog.accept());
    await page.goto(`${booted.http}/sign-in`);
    await page.getByLabel("Email address").fill("alice@example.test");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
    await page.goto(`${booted.http}/settings`);
  }, 60_000);

  test("people: one is added, made admin, and removed; one's own role stays", async () => {
    await section("People");
    await page.getByLabel("Name", { exact: true }).fill("Bob");
    await page.getByLabel("Email address").fill("bob@example.test");
    await press("Add person");
    await row("People", "bob@example.test").getByText("no password").waitFor();
    await page.getByLabel("Role of Bob").selectOption("admin");
    await page.getByText("Changed", { exact: true }).waitFor();
    expect(booted.appliance.people.userAt("bob@example.test").role).toBe("admin");
    await page.getByLabel("Role of Alice").selectOption("member");
    await page.getByText(/ask another admin/).waitFor();
    expect(await page.getByLabel("Role of Alice").inputValue()).toBe("owner");
    expect(await barriers(page)).toEqual([]);
    await press("Remove Bob");
    await row("People", "bob@example.test").waitFor({ state: "detached" });
  }, 30_000);

  test("mailboxes: aliased, limited and paused", async () => {
    await section("Mailboxes");
    const shown = box("alice@example.test");
    await shown.getByText("0 B of 5.4 GB used").waitFor();
    await shown.getByText("Change alice@example.test").click();
    await shown.getByLabel(/^Alias;/).fill("info@example.test");
    await shown.getByRole("button", { name: "Add alias" }).click();
    await shown.getByRole("button", { name: "Remove alias info@example.test" }).waitFor();
    await shown.getByLabel(/^Quota/).fill("0.5");
    await shown.getByRole("button", { name: "Save quota" }).click();
    await shown.getByText("0 B of 500.0 MB used").waitFor();
    await shown.getByLabel(/^Why nothing/).fill("Under review");
    await shown.getByRole("button", { name: "Pause sending" }).click();
    await shown.getByText("paused: Under review").waitFor();
    expect(await barriers(page)).toEqual([]);
    await shown.getByRole("button", { name: "Let it send again" }).click();
    await shown.getByText("paused: Under review").waitFor({ state: "detached" });
  }, 30_000);

  test("domains: records to copy, and what the world sees of them", async () => {
    await section("Domains");
    await page.getByLabel("Domain", { exact: true }).fill("shop.test");
    await press("Add domain");
    const shown = box("shop.test");
    await shown.getByText("not verified").waitFor();
    const token = shown.getByRole("textbox", { name: "value of the ownership record, _mailroom.shop.test" });
    expect(await token.inputValue()).toStartWith("mailroom-verify=");
    await shown.getByText("missing").nth(5).waitFor();
    booted.appliance.store.transact((tx) => {
      const { domains } = booted.appliance;
      domains.markVerified(tx, domains.domainNamed("shop.test").id);
    });
    await shown.getByRole("button", { name: "Look up records of shop.test" }).click();
    await shown.getByText("verified", { exact: true }).waitFor();
    expect(await barriers(page)).toEqual([]);
  }, 30_000);

  test("the suppression list: added with a reason, and removed", async () => {
    await section("Outbound mail");
    await page.getByText("Nothing waits").waitFor();
    await page.getByLabel("Address", { exact: true }).fill("max@remote.example");
    await page.getByLabel("Reason").fill("Asked us to stop");
    await press("Add");
    await row("Suppression list", "Asked us to stop").waitFor();
    expect(await barriers(page)).toEqual([]);
    await press("Remove max@remote.example");
    await page.getByText("Nobody is on it").waitFor();
  }, 30_000);

  test("the queue: tried again now, and given up", async () => {
    const mail = { from: "alice@example.test", to: ["zoe@remote.example"], subject: "Hello", text: "Hello" };
    expect((await booted.api.post("/send", mail)).status).toBe(202);
    await booted.advance(0);
    await page.reload();
    await row("Queue", "1 attempt, next").waitFor();
    expect(await barriers(page)).toEqual([]);
    await press("Try again: zoe@remote.example");
    await page.getByText("It is being tried again").waitFor();
    await booted.advance(0);
    await page.reload();
    await row("Queue", "2 attempts").waitFor();
    await press("Give up zoe@remote.example");
    await page.getByText("Nothing waits").waitFor();
  }, 30_000);

  test("limits: changed, refused in words, and brought back", async () => {
    await section("Limits and server");
    const limit = page.getByLabel("sending.mailboxPerHour");
    const item = page.getByRole("listitem").filter({ has: limit });
    await limit.fill("many");
    await item.getByRole("button", { name: "Save" }).click();
    await page.getByText(/sending.mailboxPerHour cannot be "many"/).waitFor();
    await limit.fill("7");
    await item.getByRole("button", { name: "Save" }).click();
    await item.getByRole("button", { name: "Back to 100" }).waitFor();
    expect(booted.appliance.options.get("sending.mailboxPerHour")).toBe(7);
    expect(await barriers(page)).toEqual([]);
    await item.getByRole("button", { name: "Back to 100" }).click();
    await item.getByText("the default").waitFor();
    expect(booted.appliance.options.get("sending.mailboxPerHour")).toBe(100);
  }, 30_000);

  test("the browser had nothing to complain of", () => {
    expect(complaints).toEqual([]);
  });
});
