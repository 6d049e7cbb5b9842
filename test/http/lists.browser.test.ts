/** Lists of conversations in a real browser: density, buttons under the mouse, recipients, direction, and labels. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Locator, Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let page: Page;

const nav = () => page.getByRole("navigation", { name: "Mail" });
const list = () => page.getByRole("list", { name: "Conversations" });
const rowOf = (subject: string) => list().getByRole("listitem").filter({ hasText: subject });
const told = (words: string) => page.getByRole("status").getByText(words, { exact: true }).waitFor();
const threads = async (folder = "all") =>
  (
    await booted.api.get<{
      threads: { id: string; subject: string; folder: string; unread: boolean; labels: string[] }[];
    }>(`/threads?folder=${folder}&limit=100`)
  ).body.threads;
const threadOf = async (subject: string) => (await threads()).find((thread) => thread.subject === subject);

async function deliver(subject: string, text = "Boards"): Promise<void> {
  await mailer(booted.mx).send(
    { from: "bea@remote.example", to: ALICE },
    `From: Bea <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\nContent-Type: text/plain; charset=utf-8\n\n${text}`,
  );
}

describe.skipIf(!chromiumPresent)(`lists${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot({}, zone({ "remote.example": "SERVFAIL" }));
    await setPassword(booted, booted.owner.userId);
    for (const subject of ["Oak", "Ash", "Elm"]) await deliver(subject);
    await deliver("שלום", "שלום עולם");
    for (const [subject, labels] of [
      ["Oak", ["Billing", "Urgent"]],
      ["Ash", ["billing"]],
    ] as const) {
      await booted.api.patch(`/threads/${(await threadOf(subject))?.id}`, { addLabels: labels });
    }
    page = await (await (await openBrowser()).newContext({ viewport: { width: 1280, height: 800 } })).newPage();
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await list().waitFor();
  }, 120_000);
  beforeEach(async () => {
    await page.mouse.move(0, 0);
    await page.goto(`${booted.http}/mail/inbox`);
    await list().waitFor();
  }, 120_000);

  test("compact lists have lower rows, and stay compact", async () => {
    const heightOf = async () => (await rowOf("Elm").boundingBox())?.height ?? 0;
    const choose = async (name: string) => {
      await page.getByRole("button", { name: /^Account of Alice/ }).click();
      await page.getByRole("menuitem", { name }).click();
    };
    const before = await heightOf();
    await choose("Compact lists");
    await page.waitForFunction((most) => (document.querySelector("main li")?.clientHeight ?? 0) < most, before * 0.75);
    expect(await barriers(page)).toEqual([]);
    await page.reload();
    await rowOf("Elm").waitFor();
    expect(await heightOf()).toBeLessThan(before * 0.75);
    await choose("Comfortable lists");
    await page.waitForFunction((least) => (document.querySelector("main li")?.clientHeight ?? 0) > least, before * 0.9);
  }, 120_000);

  test("a row under the mouse has buttons that act on it, and nothing opens", async () => {
    const row = rowOf("Elm");
    const act = (name: string) => row.getByRole("button", { name, exact: true });
    expect(await act("Archive").count()).toBe(0);
    await row.hover();
    expect(await barriers(page)).toEqual([]);
    await act("Mark as read").click();
    await told("Marked as read");
    expect((await threadOf("Elm"))?.unread).toBe(false);
    await act("Archive").click();
    await told("Archived");
    expect((await threadOf("Elm"))?.folder).toBe("archive");
    await page.keyboard.press("z");
    await row.hover();
    await act("Snooze").click();
    await page.getByRole("menuitem", { name: "In a month" }).hover();
    await page.getByRole("menuitem", { name: "In a month" }).click();
    await row.waitFor({ state: "detached" });
    await page.keyboard.press("z");
    await row.hover();
    await act("Move to trash").click();
    await told("Moved to trash");
    await nav().getByRole("link", { name: "Trash" }).click();
    await row.hover();
    await act("Move to inbox").click();
    await told("Moved to inbox");
    expect(new URL(page.url()).pathname).toBe("/mail/trash");
  }, 120_000);

  test("drafts and sent conversations name all their recipients", async () => {
    const ext = (body: object) =>
      fetch(`${booted.http}/api/ext/v1/drafts`, {
        method: "POST",
        headers: { authorization: `Bearer ${booted.owner.apiKey}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    await ext({ subject: "To nobody", text: "x" });
    await ext({
      subject: "To two",
      to: "Bob Benn <bob@remote.example>",
      cc: "cy@remote.example",
      bcc: "dan@remote.example",
      text: "x",
    });
    await booted.api.post("/send", {
      from: ALICE,
      to: ["bob@remote.example", "Eve Ek <eve@remote.example>"],
      subject: "Fwd: Oak",
      text: "x",
    });
    // Pages get events at most four times a second, by the appliance's clock.
    await booted.advance(1_000);
    await nav().getByRole("link", { name: "Drafts" }).click();
    await rowOf("To nobody").getByText("No recipients yet").waitFor();
    await rowOf("To two").getByText("To Bob Benn, cy", { exact: true }).waitFor();
    await nav().getByRole("link", { name: "Sent" }).click();
    await rowOf("Fwd: Oak").getByText("To bob, Eve Ek", { exact: true }).waitFor();
  }, 120_000);

  test("a row has the direction of its content", async () => {
    const directionOf = (of: Locator) => of.evaluate((element) => getComputedStyle(element).direction);
    const hebrew = rowOf("שלום");
    expect(await directionOf(hebrew.getByText("שלום עולם", { exact: true }))).toBe("rtl");
    expect(await directionOf(rowOf("Ash").getByText("Boards", { exact: true }))).toBe("ltr");
    await hebrew.getByRole("link").click();
    expect(await directionOf(page.getByRole("heading", { level: 1, name: "שלום" }))).toBe("rtl");
  }, 120_000);

  test("a label gets a colour, another name, and is deleted, in its menu", async () => {
    const menu = async (label: string, item: string) => {
      await nav()
        .getByRole("button", { name: `Change label ${label}` })
        .click();
      await page.getByRole("menuitem", { name: item }).click();
    };
    const chip = rowOf("Ash").locator(".label-chip");
    const backgroundOf = () => chip.evaluate((element) => getComputedStyle(element).backgroundColor);
    const plain = await backgroundOf();
    await menu("Billing", "Blue");
    await rowOf("Ash").locator("[data-colour=blue]").waitFor();
    expect(await backgroundOf()).not.toBe(plain);
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await barriers(page)).toEqual([]);
    }
    await nav().getByRole("link", { name: "Billing" }).click();
    await page.getByRole("heading", { level: 1, name: "Billing" }).waitFor();
    await menu("Billing", "Rename…");
    await page.getByRole("dialog", { name: "Rename Billing" }).getByLabel("Name").fill("Invoices");
    await page.keyboard.press("Enter");
    await told("Label renamed to Invoices");
    await page.getByRole("heading", { level: 1, name: "Invoices" }).waitFor();
    await rowOf("Ash").locator("[data-colour=blue]").getByText("Invoices").waitFor();
    expect((await threadOf("Oak"))?.labels).toEqual(["Invoices", "Urgent"]);
    await menu("Invoices", "Delete label…");
    await page.getByRole("dialog", { name: "Delete Invoices?" }).getByRole("button", { name: "Delete label" }).click();
    await told("Label Invoices removed from 2 conversations");
    await page.getByRole("heading", { level: 1, name: "Inbox" }).waitFor();
    expect((await threadOf("Oak"))?.labels).toEqual(["Urgent"]);
  }, 120_000);

  test("what agents wrote is counted, marked at what it answers, and read beside it", async () => {
    await booted.api.post(`/threads/${(await threadOf("Oak"))?.id}/draft`, { text: "Of an agent" });
    const { body: agent } = await booted.api.post<{ key: string }>("/api/admin/v1/keys", {
      ...{ name: "Agent", scopes: ["read", "send"], policy: { send: "hold" } },
    });
    await booted.apiWith(agent.key).post(`/threads/${(await threadOf("Ash"))?.id}/reply`, { text: "Waits" });
    await booted.advance(1_000);
    await rowOf("Oak").getByText("Agent’s draft").waitFor();
    await rowOf("Ash").getByText("Waits for approval").waitFor();
    await nav()
      .getByRole("link", { name: /^To approve 1 waiting/ })
      .waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1500, height: 800 });
    await nav()
      .getByRole("link", { name: /^Drafts \d+ by agents, of ?\d+ drafts/ })
      .click();
    await rowOf("Re: Oak").getByRole("link").click();
    const draft = page.getByRole("region", { name: "Draft", exact: true });
    const original = page.getByRole("region", { name: "What it answers" });
    await original.frameLocator("iframe").first().getByText("Boards").waitFor();
    const [at, beside] = [await draft.boundingBox(), await original.boundingBox()];
    expect([at?.y === beside?.y, (at?.x ?? 0) + (at?.width ?? 0) < (beside?.x ?? 0)]).toEqual([true, true]);
    expect(await barriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
  }, 120_000);

  test("on a phone, a message is begun from the first screen", async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    await page.getByRole("button", { name: "Compose" }).click();
    await page.getByRole("region", { name: "New message" }).getByRole("combobox", { name: "To" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
  }, 120_000);
});
