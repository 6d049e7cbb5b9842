/** The composer's windows, recipients, signatures, templates and times, in a real browser. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Locator, Page } from "playwright-core";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const TEAM = "team@example.test";
const BOB = "bob@remote.example";
const HOUR = 3_600_000;
let booted: Booted;
let page: Page;
let team: string;

const region = (name: string) => page.getByRole("region", { name, exact: true });
const field = (box: Locator, name: string) => box.getByRole("combobox", { name });
const text = (box: Locator) => box.getByRole("textbox", { name: "Message" });
const chips = (box: Locator, name = "To") =>
  box
    .getByRole("list", { name: `${name}: recipients` })
    .getByRole("listitem")
    .allTextContents();
const button = (name: string) => page.getByRole("button", { name, exact: true });
const folderLink = (name: string) => page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name });
const told = (words: string | RegExp) => page.getByRole("status").getByText(words).waitFor();
const threadsIn = async (folder: string, mailbox = ALICE) =>
  (
    await booted.api.get<{ threads: { id: string; subject: string; folder: string }[] }>(
      `/threads?folder=${folder}&mailbox=${mailbox}`,
    )
  ).body.threads;
const draftText = async (id: string | undefined) =>
  (await booted.api.get<{ messages: { text: string }[] }>(`/threads/${id}`)).body.messages[0]?.text;

/** Waits until what is being sent has left. */
async function leave(): Promise<void> {
  await told("Sending…");
  await booted.advance(10_000);
  await booted.advance(1_000);
}

async function write(subject: string, words = "Hello", to = BOB): Promise<Locator> {
  await button("Compose").click();
  const box = page.getByRole("region", { name: /^(New message|Draft)$/ }).last();
  await field(box, "To").fill(to);
  await box.getByLabel("Subject").fill(subject);
  await text(box).fill(words);
  return box;
}

describe.skipIf(!chromiumPresent)(`the composer${chromiumNote}`, () => {
  beforeAll(async () => {
    // Mail to it waits, since its DNS fails.
    booted = await boot({}, zone({ "remote.example": "SERVFAIL" }));
    const { core } = booted.opened;
    const { store } = core;
    await setPassword(booted, booted.owner.userId);
    const { workspaceId } = booted.owner;
    team = store.transact((tx) => ({
      id: mailboxAdmin.addMailbox(core, tx, { workspaceId, address: TEAM, name: "Team" }),
    })).id;
    await mailer(booted.mx).send(
      { from: "bea@remote.example", to: ALICE },
      `From: Bea Brand <bea@remote.example>\nTo: ${ALICE}\nSubject: Oak boards\n\nOn Friday?`,
    );
    page = await (await (await openBrowser()).newContext({ viewport: { width: 1280, height: 800 } })).newPage();
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await folderLink("Inbox").waitFor();
    // Times to come are the same for the page and the server.
    await page.clock.setSystemTime(booted.runtime.now());
  }, 120_000);
  beforeEach(async () => {
    for (const { id } of await threadsIn("drafts")) await booted.api.patch(`/threads/${id}`, { folder: "trash" });
    await page.goto(`${booted.http}/mail/inbox`);
    await folderLink("Inbox").waitFor();
  }, 120_000);

  test("a recipient becomes a chip that is checked, edited, moved over by keys and removed", async () => {
    const box = await write("Chips", "Hello", "");
    const to = field(box, "To");
    await to.pressSequentially("bo@remote.example,nobody;");
    await box.getByText("“nobody” is not an email address").waitFor();
    expect(await barriers(page)).toEqual([]);
    await to.evaluate((input) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", "Cy <cy@remote.example>\nBO@remote.example");
      input.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    });
    expect(await chips(box)).toEqual(["bo@remote.example", "nobody", "Cy"]);
    await box.getByRole("button", { name: "nobody", exact: true }).click();
    expect(await to.inputValue()).toBe("nobody");
    await to.pressSequentially("@remote.example ");
    expect(await chips(box)).toEqual(["bo@remote.example", "Cy", "nobody@remote.example"]);
    await page.keyboard.press("Backspace");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Delete");
    expect(await chips(box)).toEqual(["bo@remote.example", "nobody@remote.example"]);
    await box.getByRole("button", { name: "Remove bo@remote.example" }).click();
    expect(await chips(box)).toEqual(["nobody@remote.example"]);
    await to.fill("dan@remote.example");
    await box.getByLabel("Subject").focus();
    expect(await chips(box)).toEqual(["nobody@remote.example", "dan@remote.example"]);
    await box.getByText("Saved", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.reload();
    await folderLink("Drafts").click();
    await page.getByRole("link", { name: "Chips" }).click();
    await field(region("Draft"), "To").waitFor();
    expect(await chips(region("Draft"))).toEqual(["nobody@remote.example", "dan@remote.example"]);
  }, 120_000);

  test("several windows are open at once, minimised and enlarged, and keep what was written", async () => {
    const first = await write("First", "One");
    await write("Second", "Two");
    const windows = page.getByRole("region", { name: /^(New message|Draft)$/ });
    const [one, two] = [windows.nth(0), windows.nth(1)];
    // The older one has no room beside the other.
    await one.getByRole("button", { name: "First" }).waitFor();
    expect(await text(one).isVisible()).toBe(false);
    expect(await barriers(page)).toEqual([]);
    await one.getByRole("button", { name: "First" }).click();
    expect([await text(one).inputValue(), await text(two).isVisible()]).toEqual(["One", false]);
    await one.getByRole("button", { name: "Make larger" }).click();
    const { width = 0, height = 0 } = (await one.boundingBox()) ?? {};
    expect([width > 900, height > 700]).toEqual([true, true]);
    await one.getByRole("button", { name: "Make smaller" }).click();
    await one.getByRole("button", { name: "Minimise" }).click();
    await page.setViewportSize({ width: 390, height: 800 });
    await two.getByRole("button", { name: "Second" }).click();
    expect(await two.boundingBox()).toMatchObject({ x: 0, width: 390 });
    expect(await barriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
    for (const box of [
      two,
      first
        .page()
        .getByRole("region", { name: /^(New message|Draft)$/ })
        .first(),
    ]) {
      await box.getByRole("button", { name: "Save and close" }).click();
    }
    await page
      .getByRole("region", { name: /^(New message|Draft)$/ })
      .first()
      .waitFor({ state: "detached" });
    expect((await threadsIn("drafts")).map(({ subject }) => subject).sort()).toEqual(["First", "Second"]);
  }, 120_000);

  test("Escape closes and saves, from any field, and first closes what is open in the window", async () => {
    const box = await write("Escaped", "By a key");
    await box.getByRole("button", { name: "Send later" }).click();
    await page.getByRole("menu").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
    expect(await text(box).isVisible()).toBe(true);
    await text(box).focus();
    await page.keyboard.press("Escape");
    await box.waitFor({ state: "detached" });
    await folderLink("Drafts").click();
    await page.getByRole("link", { name: "Escaped" }).click();
    await text(region("Draft")).waitFor();
    expect(await text(region("Draft")).inputValue()).toBe("By a key");
    await folderLink("Inbox").click();
    await page.getByRole("link", { name: "Oak boards" }).click();
    await button("Reply").click();
    await text(region("Reply")).fill("Yes");
    await page.keyboard.press("Escape");
    await region("Reply").waitFor({ state: "detached" });
    await region("Draft")
      .getByRole("button", { name: /^Draft Yes/ })
      .waitFor();
  }, 120_000);

  test("the direction of a field is that of its content", async () => {
    const box = await write("שלום", "שלום עולם");
    const directionOf = (of: Locator) => of.evaluate((element) => getComputedStyle(element).direction);
    expect([await directionOf(text(box)), await directionOf(box.getByLabel("Subject"))]).toEqual(["rtl", "rtl"]);
    await text(box).fill("Hello");
    expect(await directionOf(text(box))).toBe("ltr");
  }, 120_000);

  test("an empty subject and a file that was forgotten are asked about", async () => {
    const box = await write("", "The plan is attached.");
    await box.getByRole("button", { name: "Send", exact: true }).click();
    const asks = page.getByRole("dialog", { name: "Send it like this?" });
    await asks.getByText("The subject is empty.").waitFor();
    await asks.getByText("You mention an attachment, but no file is attached.").waitFor();
    expect(await barriers(page)).toEqual([]);
    await asks.getByRole("button", { name: "Go back" }).click();
    await box.getByLabel("Subject").fill("Plan");
    await box
      .locator("input[type=file]")
      .setInputFiles([{ name: "plan.txt", mimeType: "text/plain", buffer: Buffer.from("Plan") }]);
    await box.getByRole("link", { name: "plan.txt" }).first().waitFor();
    await page.keyboard.press("Control+Enter");
    await told("Sending…");
    await button("Undo").click();
    const again = region("Draft");
    await again.getByRole("button", { name: "Remove plan.txt" }).click();
    await again.getByRole("link", { name: "plan.txt" }).first().waitFor({ state: "detached" });
    await again.getByRole("button", { name: "Send", exact: true }).click();
    await asks.getByRole("button", { name: "Send anyway" }).click();
    await leave();
    expect((await threadsIn("sent")).map(({ subject }) => subject)).toContain("Plan");
  }, 120_000);

  test("each mailbox has its signature, which changes with the sender and stands above a quotation", async () => {
    await page.goto(`${booted.http}/settings/writing`);
    await page.getByRole("textbox", { name: "Signature" }).fill("Alice\nExample");
    await button("Save signature").click();
    await told("Signature saved");
    await page.getByLabel("Mailbox").selectOption(team);
    await page.getByRole("textbox", { name: "Signature" }).fill("The team");
    await button("Save signature").click();
    await told("Signature saved");
    expect(await barriers(page)).toEqual([]);
    await page.goto(`${booted.http}/mail/inbox`);
    await button("Compose").click();
    const box = region("New message");
    await page.waitForFunction(() => document.querySelector("textarea")?.value === "\n\n-- \nAlice\nExample");
    // What nobody wrote is no draft.
    await box.getByRole("button", { name: "Save and close" }).click();
    await button("Compose").click();
    await text(box).focus();
    await page.keyboard.type("Hello");
    await box.getByLabel("From").selectOption(TEAM);
    await page.waitForFunction(() => document.querySelector("textarea")?.value === "Hello\n\n-- \nThe team");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Oak boards" }).click();
    await button("Reply").click();
    await page.waitForFunction(() => document.querySelector("textarea")?.value.endsWith("Example"));
    await text(region("Reply")).focus();
    await page.keyboard.type("Yes.");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Draft Yes/ }).waitFor();
    const drafts = await threadsIn("drafts");
    const reply = await draftText(drafts.find(({ subject }) => subject === "Re: Oak boards")?.id);
    expect(reply).toMatch(/^Yes\.\n\n-- \nAlice\nExample\n\nOn .* wrote:\n> On Friday\?/);
    expect(drafts).toHaveLength(1);
    expect((await threadsIn("drafts", TEAM)).length).toBe(1);
  }, 120_000);

  test("a template is saved from a message, put into another, edited and deleted", async () => {
    const box = await write("Delay", "It takes a week more.");
    await box.getByRole("button", { name: "Templates" }).click();
    await page.getByRole("menuitem", { name: "Save as template…" }).click();
    await page.getByRole("dialog", { name: "Save as template" }).getByLabel("Name").fill("Delayed");
    await page.keyboard.press("Enter");
    await told("Template saved");
    await box.getByRole("button", { name: "Save and close" }).click();
    await button("Compose").click();
    const next = region("New message");
    await next.getByRole("button", { name: "Templates" }).click();
    await page.getByRole("menuitem", { name: "Delayed" }).click();
    expect(await next.getByLabel("Subject").inputValue()).toBe("Delay");
    expect(await text(next).inputValue()).toStartWith("It takes a week more.");
    await next.getByRole("button", { name: "Templates" }).click();
    await page.getByRole("menuitem", { name: "Signature and templates" }).click();
    await button("Edit Delayed").click();
    await page.getByLabel("Name", { exact: true }).fill("Late");
    await button("Save template").click();
    await button("Delete Late").click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await told("Template deleted");
    await page.getByText("None yet.").waitFor();
  }, 120_000);

  test("send and archive: the conversation leaves the inbox, and comes back when it is undone", async () => {
    await page.getByRole("link", { name: "Oak boards" }).click();
    await button("Reply to all").click();
    const box = region("Reply to all");
    await text(box).fill("On Friday.");
    await box.getByRole("button", { name: "Send and archive" }).click();
    await page
      .getByRole("list", { name: "Conversations" })
      .getByRole("link", { name: "Oak boards" })
      .waitFor({ state: "detached" });
    await button("Undo").click();
    await page.getByRole("list", { name: "Conversations" }).getByRole("link", { name: "Oak boards" }).waitFor();
    const draft = region("Draft");
    await text(draft).waitFor();
    await draft.getByRole("button", { name: "Save and close" }).click();
    await page.getByRole("link", { name: "Oak boards" }).click();
    await page.getByRole("button", { name: /^Draft On Friday/ }).click();
    await text(draft).focus();
    await page.keyboard.press("Control+Shift+Enter");
    await leave();
    await page
      .getByRole("list", { name: "Conversations" })
      .getByRole("link", { name: "Oak boards" })
      .waitFor({ state: "detached" });
    const [sent] = (await threadsIn("archive")).filter(({ subject }) => subject === "Oak boards");
    expect(await draftText(sent?.id)).toBe("On Friday?");
    await booted.api.patch(`/threads/${sent?.id}`, { folder: "inbox" });
  }, 120_000);

  test("what the page tells covers no button", async () => {
    const box = await write("Covered");
    await page.getByRole("list", { name: "Conversations" }).getByRole("button", { name: "Star Oak boards" }).click();
    await box.getByRole("button", { name: "Send later" }).click();
    await page.getByRole("menuitem", { name: "Tomorrow morning" }).click();
    await told(/^Scheduled for/);
    await button("Compose").click();
    const toast = await page
      .getByRole("status")
      .filter({ has: button("Dismiss") })
      .boundingBox();
    const covered = await page.getByRole("button").evaluateAll(
      (buttons, top) =>
        buttons
          .filter((one) => one.checkVisibility() && !one.closest("[role=status]"))
          .filter((one) => one.getBoundingClientRect().bottom > top + 0.5)
          .map((one) => one.getAttribute("aria-label") ?? one.textContent),
      toast?.y ?? 0,
    );
    expect(covered).toEqual([]);
  }, 120_000);

  test("scheduled mail has its own page, with what goes out, to whom and when, to the minute", async () => {
    const { body } = await booted.api.post<{ scheduled: boolean }>("/send", {
      from: ALICE,
      to: `Bob Benn <${BOB}>`,
      cc: "cy@remote.example",
      bcc: "dan@remote.example",
      subject: "In a day",
      text: "As planned",
      sendAt: new Date(booted.runtime.now() + 24 * HOUR + 7 * 60_000).toISOString(),
    });
    expect(body).toMatchObject({ scheduled: true });
    const at = await page.evaluate(
      (ms) =>
        new Date(ms).toLocaleString(undefined, {
          ...({ weekday: "short", day: "numeric", month: "short", year: "numeric" } as const),
          ...({ hour: "numeric", minute: "2-digit" } as const),
        }),
      booted.runtime.now() + 24 * HOUR + 7 * 60_000,
    );
    await page.reload();
    await folderLink("Drafts").click();
    await page
      .getByText("Nothing here")
      .or(page.getByRole("list", { name: "Conversations" }))
      .first()
      .waitFor();
    expect(await page.getByRole("link", { name: "In a day" }).count()).toBe(0);
    await folderLink("Scheduled").click();
    const list = page.getByRole("list", { name: "Scheduled messages" });
    const row = list.getByRole("link", { name: "In a day" });
    expect(await row.textContent()).toContain(`To Bob Benn, cy${at}In a dayAs planned`);
    await row.click();
    const message = region("Scheduled message");
    await message.getByText(`It is sent ${at}.`).waitFor();
    expect(await message.locator("dd").allTextContents()).toEqual([
      ALICE,
      `Bob Benn <${BOB}>`,
      "cy@remote.example",
      "dan@remote.example",
      "In a day",
    ]);
    await message.frameLocator("iframe").getByText("As planned").waitFor();
    expect(await barriers(page)).toEqual([]);
    await message.getByRole("button", { name: "Change time" }).click();
    const later = new Date(booted.runtime.now() + 48 * HOUR).toISOString();
    await page.getByLabel("Send at").fill(later.slice(0, 16));
    await button("Send then").click();
    await told(/^Scheduled for/);
    await page.waitForURL("**/mail/scheduled");
    await row.filter({ hasNotText: at }).waitFor();
    await row.click();
    await message.getByRole("button", { name: "Cancel and edit" }).click();
    await text(message).fill("Sooner");
    await message.getByRole("button", { name: "Send", exact: true }).click();
    await leave();
    expect((await threadsIn("sent")).map(({ subject }) => subject)).toContain("In a day");

    const box = await write("Right now");
    await box.getByRole("button", { name: "Send later" }).click();
    await page.getByRole("menuitem", { name: "In a month" }).click();
    await list.getByRole("link", { name: "Right now" }).click();
    await message.getByRole("button", { name: "Send now" }).click();
    await leave();
    expect((await threadsIn("sent")).map(({ subject }) => subject)).toContain("Right now");
  }, 120_000);
});
