/**
 * Reading and tidying in a real browser: suggestions, selecting, bulk actions with undo, labels, snoozing, spam and its reasons,
 * deleting for good, changes by others, the delivery of sent mail, shortcuts, and failures.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const DRAWN = "BT /F1 24 Tf 40 120 Td (Oak boards, 18 mm) Tj ET";
const PDF = `%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj
2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] /Contents 4 0 R /Resources <</Font <</F1 5 0 R>>>>>> endobj
4 0 obj <</Length ${DRAWN.length}>> stream
${DRAWN}
endstream endobj
5 0 obj <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>> endobj
trailer <</Root 1 0 R>>
%%EOF`;
let booted: Booted;
let page: Page;
/** Delivers a message. */
let deliver: (letter: {
  subject: string;
  to?: string;
  from?: string;
  text?: string;
  more?: string;
}) => Promise<unknown>;
const complaints: string[] = [];

interface Row {
  id: string;
  subject: string;
  folder: string;
  unread: boolean;
  starred: boolean;
  labels: string[];
  snoozedUntil?: string;
}

const list = () => page.getByRole("list", { name: "Conversations" });
const rowOf = (subject: string) => list().getByRole("listitem").filter({ hasText: subject });
const subjects = () =>
  list()
    .getByRole("link")
    .evaluateAll((links) =>
      links.map((link) => /Letter \d|Cheap pills|Prize|Photo|Fate/.exec(link.textContent ?? "")?.[0] ?? ""),
    );
const toolbar = () => page.getByRole("toolbar", { name: "Selected conversations" });
const told = (text: string | RegExp) => page.getByRole("status").getByText(text).waitFor();
const folderLink = (name: string) => page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name });
const go = async (name: string) => {
  await folderLink(name).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
};

/** Reads a conversation from the server. */
async function rowNamed(subject: string): Promise<Row | undefined> {
  for (const folder of ["all", "trash", "spam"]) {
    const { body } = await booted.api.get<{ threads: Row[] }>(`/threads?mailbox=${ALICE}&folder=${folder}&limit=100`);
    const row = body.threads.find((thread) => thread.subject === subject);
    if (row) return row;
  }
  return undefined;
}

describe.skipIf(!chromiumPresent)(`reading${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const sender = mailer(booted.mx);
    let count = 0;
    deliver = ({ subject, to = ALICE, from = "Bea Brand <bea@remote.example>", text = "Text", more = "" }) => {
      count++;
      const minute = String(count % 60).padStart(2, "0");
      const raw = `From: ${from}\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${count}@remote.example>\nDate: Sun, 04 Jan 2026 08:${minute}:00 +0000\n${more}\n${text}\n`;
      return sender.send({ from: "bea@remote.example", to }, raw);
    };
    for (let n = 1; n <= 6; n++) await deliver({ subject: `Letter ${n}` });
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    page.on("dialog", (dialog) => dialog.accept());
    await page.clock.setFixedTime(booted.runtime.now());
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await rowOf("Letter 6").waitFor();
  }, 120_000);

  test("several conversations are archived by the keyboard, and z restores all of them", async () => {
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("Shift+X");
    await toolbar().getByText("3 selected").waitFor();
    await page.keyboard.press("e");
    await told("Archived: 3 conversations");
    expect(await subjects()).toEqual(["Letter 3", "Letter 2", "Letter 1"]);
    expect((await rowNamed("Letter 5"))?.folder).toBe("archive");
    await page.keyboard.press("z");
    await told("Undone: 3 conversations");
    await rowOf("Letter 5").waitFor();
    expect(await subjects()).toEqual([6, 5, 4, 3, 2, 1].map((n) => `Letter ${n}`));
    expect(await toolbar().count()).toBe(0);
  }, 120_000);

  test("all are selected with one box, marked read and starred, and a refused one is reported", async () => {
    await rowOf("Letter 1").getByRole("checkbox").check();
    await rowOf("Letter 3")
      .getByRole("checkbox")
      .click({ modifiers: ["Shift"] });
    await toolbar().getByText("3 selected").waitFor();
    await toolbar().getByRole("checkbox").check();
    await toolbar().getByText("6 selected").waitFor();
    await toolbar().getByRole("button", { name: "Mark as read" }).click();
    await told("Marked as read: 6 conversations");
    await toolbar().getByRole("button", { name: "Star" }).click();
    await told("Starred: 6 conversations");
    // Another person deletes one of them meanwhile.
    const gone = await rowNamed("Letter 1");
    await booted.api.patch(`/threads/${gone?.id}`, { folder: "trash" });
    booted.core.store.db.$client.run("DELETE FROM threads WHERE id = ?", [gone?.id ?? ""]);
    await toolbar().getByRole("button", { name: "Remove star" }).click();
    await told(/^Star removed: 5 conversations\. Not done: There is no such thread/);
    await page.keyboard.press("*");
    await page.keyboard.press("n");
    await toolbar().waitFor({ state: "detached" });
    expect(await rowNamed("Letter 2")).toMatchObject({ unread: false, starred: false });
  }, 120_000);

  test("a label is made by typing, added to several, listed, filtered by, and removed", async () => {
    await booted.advance(1_000);
    for (const n of [2, 3]) await rowOf(`Letter ${n}`).getByRole("checkbox").check();
    await page.keyboard.press("l");
    const find = page.getByRole("combobox", { name: "Find or create a label" });
    await find.pressSequentially("To do");
    await page.getByRole("option", { name: "Create “To do”" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await find.press("Enter");
    await told("Labelled To do: 2 conversations");
    await find.fill("x".repeat(60));
    await page.getByText("A label has at most 60 characters.").waitFor();
    await find.press("Escape");
    await toolbar().getByRole("button", { name: "Select none" }).click();
    await folderLink("To do").click();
    await page.getByRole("heading", { name: "To do", level: 1 }).waitFor();
    await page.waitForFunction(() => document.querySelectorAll('ul[aria-label="Conversations"] > li').length === 2);
    expect(await subjects()).toEqual(["Letter 3", "Letter 2"]);
    await rowOf("Letter 3").getByRole("link").click();
    await page.getByRole("button", { name: "Remove label To do" }).click();
    await told("Label To do removed");
    expect((await rowNamed("Letter 3"))?.labels).toEqual([]);
    await page.keyboard.press("z");
    await told("Undone");
    expect((await rowNamed("Letter 3"))?.labels).toEqual(["To do"]);
    await page.keyboard.press("g");
    await page.keyboard.press("i");
    await page.getByRole("heading", { name: "Inbox", level: 1 }).waitFor();
  }, 120_000);

  test("a snoozed conversation, also with a chosen date, returns to its folder by undo", async () => {
    await rowOf("Letter 4").getByRole("link").click();
    await page.getByRole("heading", { name: "Letter 4" }).waitFor();
    await page.keyboard.press("b");
    await page.getByRole("menuitem", { name: "Next Monday" }).waitFor();
    await page.getByRole("menuitem", { name: "Pick date and time…" }).click();
    const pick = page.getByRole("dialog", { name: "Snooze until" });
    await pick.getByLabel("Date and time").fill("2001-01-01T09:30");
    expect(await pick.getByRole("button", { name: "Snooze" }).isDisabled()).toBe(true);
    expect(await barriers(page)).toEqual([]);
    await pick.getByLabel("Date and time").fill("2026-02-03T09:30");
    await pick.getByRole("button", { name: "Snooze" }).click();
    await told(/^Snoozed until/);
    const snoozed = (await rowNamed("Letter 4"))?.snoozedUntil;
    expect(snoozed).toStartWith("2026-02-03T");
    await go("Snoozed");
    await rowOf("Letter 4").getByRole("checkbox").check();
    await toolbar().getByRole("button", { name: "Move to inbox" }).click();
    await told("Moved to inbox");
    expect((await rowNamed("Letter 4"))?.snoozedUntil).toBeUndefined();
    await page.keyboard.press("z");
    await rowOf("Letter 4").waitFor();
    expect(await rowNamed("Letter 4")).toMatchObject({ folder: "inbox", snoozedUntil: snoozed });
  }, 120_000);

  test("a search is completed by people, operators and labels, remembered, and explains a bad date", async () => {
    await go("Inbox");
    await page.keyboard.press("/");
    const box = page.getByRole("combobox", { name: "Search mail" });
    const option = (name: string | RegExp) =>
      page.getByRole("listbox", { name: "Suggestions" }).getByRole("option", { name });
    await option("has:attachment").waitFor();
    expect(await barriers(page)).toEqual([]);
    // No typed letter acts as a shortcut.
    await box.pressSequentially("exj#!bra");
    await option("from:bea@remote.example Bea Brand").waitFor({ state: "detached" });
    await box.fill("bra");
    await option("from:bea@remote.example Bea Brand").waitFor();
    await box.press("ArrowDown");
    expect(await box.getAttribute("aria-activedescendant")).toEndWith("-0");
    await box.press("Enter");
    expect(await box.inputValue()).toBe("from:bea@remote.example ");
    await box.pressSequentially("label:to");
    await option(/^label:"To do"/).waitFor();
    await box.press("ArrowDown");
    await box.press("Enter");
    await box.press("Enter");
    await page.getByRole("heading", { name: "Search" }).waitFor();
    await rowOf("Letter 2").waitFor();
    expect(await subjects()).toEqual(["Letter 3", "Letter 2"]);

    await box.fill("before:2026-02-30");
    await box.press("Enter");
    await page.getByText("Check your search").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain(
      '"before:2026-02-30" needs a date that exists, as YYYY-MM-DD',
    );
    await page.getByRole("button", { name: "Edit search" }).click();
    await box.fill("");
    await option(/^from:bea@remote\.example label:"To do"/).waitFor();
    await box.press("Escape");
    await page.getByRole("button", { name: "Clear search" }).click();
    await page.getByRole("heading", { name: "Inbox", level: 1 }).waitFor();
  }, 120_000);

  test("spam gives its reason, Not spam takes it back, and trash is emptied for good", async () => {
    const from = "Max <max@junk.example>";
    await deliver({ subject: "Cheap pills", from });
    await booted.advance(1_000);
    await rowOf("Cheap pills").getByRole("link").click();
    await page.getByRole("heading", { name: "Cheap pills" }).waitFor();
    await page.keyboard.press("!");
    await told("Marked as spam");
    await deliver({ subject: "Prize", from });
    await booted.advance(1_000);
    await go("Spam");
    await rowOf("Prize").getByRole("link").click();
    await page.getByText("Why is this in spam?").click();
    await page.getByText("Mail from max@junk.example was marked as spam in this mailbox before.").waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Not spam" }).first().click();
    await told("Not spam");
    expect((await rowNamed("Prize"))?.folder).toBe("inbox");
    await rowOf("Cheap pills").getByRole("checkbox").check();
    await toolbar().getByRole("button", { name: "Delete for good" }).click();
    await told("Deleted for good");
    expect(await rowNamed("Cheap pills")).toBeUndefined();
    await go("Inbox");
    await rowOf("Prize").getByRole("link").click();
    await page.getByRole("heading", { name: "Prize" }).waitFor();
    await page.keyboard.press("#");
    await told("Moved to trash");
    await go("Trash");
    await rowOf("Prize").waitFor();
    await page.getByRole("button", { name: "Empty trash" }).click();
    await told("1 conversation deleted for good");
    await page.getByText("The trash is empty.").waitFor();
    expect(await rowNamed("Prize")).toBeUndefined();
    expect(await page.getByRole("meter", { name: "Storage used" }).count()).toBe(1);
  }, 120_000);

  test("all matches are selected, also those not shown, archived in portions, and undone at once", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const bob = {
      workspaceId: booted.owner.workspaceId,
      email: "bob@example.test",
      name: "Bob",
      role: "member",
    } as const;
    store.transact((tx) => people.addUser(core, tx, { ...bob, ownMailbox: true }));
    await Promise.all(Array.from({ length: 45 }, (_, n) => deliver({ subject: `Letter ${n % 9}`, to: bob.email })));
    const archived = async () =>
      (await booted.api.get<{ threads: Row[] }>(`/threads?mailbox=${bob.email}&folder=archive&limit=100`)).body.threads
        .length;
    await page.goto(`${booted.http}/mail/inbox?mailbox=${bob.email}`);
    await page.getByRole("link", { name: /^Bob/ }).click();
    await rowOf("Letter 8").first().getByRole("checkbox").check();
    await page.keyboard.press("*");
    await page.keyboard.press("a");
    const [shown = 0] =
      (
        (await toolbar()
          .getByText(/^All \d+ that are shown/)
          .textContent()) ?? ""
      )
        .match(/\d+/)
        ?.map(Number) ?? [];
    if (shown < 45) {
      await toolbar().getByRole("button", { name: "Select all that match" }).click();
      await toolbar().getByText("All 45 that match are selected.").waitFor();
    }
    await page.keyboard.press("e");
    await told("Archived: 45 conversations");
    expect([shown, await archived()]).toEqual([40, 45]);
    await page.keyboard.press("z");
    await told("Undone: 45 conversations");
    expect(await archived()).toBe(0);
    await page.getByRole("link", { name: /^Alice/ }).click();
    await rowOf("Letter 6").waitFor();
  }, 120_000);

  test("changes by others appear without reloading: moves, labels, read state, a draft", async () => {
    await go("Inbox");
    await rowOf("Letter 6").waitFor();
    const [five, six] = [await rowNamed("Letter 5"), await rowNamed("Letter 6")];
    await booted.api.patch(`/threads/${six?.id}`, { folder: "archive" });
    await booted.api.patch(`/threads/${five?.id}`, { unread: true, addLabels: ["From an agent"] });
    await booted.advance(1_000);
    await rowOf("Letter 6").waitFor({ state: "detached" });
    await rowOf("Letter 5").getByText("From an agent").waitFor();
    await rowOf("Letter 5").getByText("Unread.").waitFor({ state: "attached" });
    await folderLink("From an agent").waitFor();
    await go("Drafts");
    await page.getByText("Nothing here").waitFor();
    await booted.api.post(`/threads/${five?.id}/draft`, { text: "Dear Bea" });
    await booted.advance(1_000);
    await rowOf("Letter 5").waitFor();
  }, 120_000);

  test("a sent message shows its delivery, to its sender also that of a Bcc", async () => {
    await booted.api.post("/send", {
      from: ALICE,
      to: "cy@nowhere.invalid",
      bcc: "secret@hidden.invalid",
      subject: "Fate",
      text: "x",
    });
    await booted.advance(1_000);
    await go("All mail");
    await rowOf("Fate").getByRole("link").click();
    await page.getByRole("button", { name: "Alice", exact: true }).click();
    await page.getByText("Not delivered to 2 of 2").waitFor();
    const recipients = page.getByRole("list", { name: "Recipients" });
    expect(await recipients.getByRole("listitem").allTextContents()).toEqual([
      expect.stringMatching(/^cy@nowhere\.invalid Could not be delivered/),
      expect.stringMatching(/^secret@hidden\.invalid \(Bcc\) Could not be delivered/),
    ]);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("an image opens, the original is readable, and the sender's verdicts are shown in plain words", async () => {
    await deliver({
      subject: "Photo",
      text: `--b\nContent-Type: text/plain\n\nSee this\n--b\nContent-Type: image/png; name="oak.png"\nContent-Disposition: attachment; filename="oak.png"\nContent-Transfer-Encoding: base64\n\n${PNG}\n--b--`,
      more: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n",
    });
    await booted.advance(1_000);
    await rowOf("Photo").getByRole("link").click();
    await page.getByRole("heading", { name: "Photo" }).waitFor();
    await page.getByText("We couldn’t verify this came from remote.example.").click();
    await page.getByText("It has no signature.").waitFor();
    await page.getByRole("button", { name: /^oak\.png/ }).click();
    const image = page.getByRole("dialog", { name: "oak.png" }).getByRole("img", { name: "oak.png" });
    await image.waitFor();
    await page.waitForFunction(() => document.querySelector<HTMLImageElement>("dialog[open] img")?.naturalWidth === 1);
    await page.getByRole("dialog", { name: "oak.png" }).getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "More about the message of Bea Brand" }).click();
    await page.getByRole("menuitem", { name: "Show original" }).click();
    const original = page.getByRole("textbox", { name: "Original message" });
    await original.waitFor();
    expect(await original.inputValue()).toMatch(/^(?:.*\r?\n)*Subject: Photo\r?\n/);
    await page.getByRole("dialog", { name: "Original message" }).getByRole("button", { name: "Close" }).click();
  }, 120_000);

  test("a PDF is drawn in an origin of its own, and one that cannot be drawn can be downloaded", async () => {
    const attach = (name: string, content: string) =>
      `--b\nContent-Type: application/pdf; name="${name}"\nContent-Disposition: attachment; filename="${name}"\nContent-Transfer-Encoding: base64\n\n${btoa(content)}\n`;
    await deliver({
      subject: "Letter 7",
      text: `${attach("quote.pdf", PDF)}${attach("broken.pdf", "%PDF-1.4 and no more")}--b--`,
      more: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n",
    });
    await booted.advance(1_000);
    await go("Inbox");
    await rowOf("Letter 7").getByRole("link").click();
    await page.getByRole("button", { name: /^quote\.pdf/ }).click();
    const viewer = page.frameLocator('iframe[title="quote.pdf"]');
    await viewer.getByText("Oak boards, 18 mm").waitFor({ state: "attached" });
    expect(await viewer.locator("canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).width)).toBeGreaterThan(
      100,
    );
    const frame = page.frames().find((one) => one.url().endsWith("/pdf-viewer"));
    expect(await frame?.evaluate(() => origin)).toBe("null");
    expect(
      await frame?.evaluate(() =>
        fetch("/app/me").then(
          () => "reached",
          () => "held",
        ),
      ),
    ).toBe("held");
    expect(complaints.splice(0).every((text) => text.includes("connect-src") || text.includes("/app/me"))).toBe(true);
    await page.getByRole("dialog", { name: "quote.pdf" }).getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: /^broken\.pdf/ }).click();
    const broken = page.getByRole("dialog", { name: "broken.pdf" });
    await broken.getByRole("link", { name: "Download it" }).waitFor();
    await broken.getByRole("button", { name: "Close" }).click();
  }, 120_000);

  test("every shortcut stands in the help, and none acts within it", async () => {
    await page.keyboard.press("?");
    const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    const keys = await help.locator("kbd").allTextContents();
    expect(keys.join(" ")).toBe(
      "j / k o / Enter u g then i g then s g then b g then d g then t g then a g then w / n / p Space Shift + Space x Shift + x * then a / n e [ / ] # ! s l b Shift + i / u z c r a f Ctrl + Enter Ctrl + Shift + Enter Esc y n m Ctrl + k ?",
    );
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("e");
    await help.getByRole("button", { name: "Close" }).click();
    expect((await rowNamed("Letter 7"))?.folder).toBe("inbox");
    await page.emulateMedia({ media: "print" });
    expect(await page.getByRole("navigation", { name: "Mail" }).isVisible()).toBe(false);
    expect(await list().isVisible()).toBe(false);
    expect(await page.getByRole("heading", { name: "Letter 7" }).isVisible()).toBe(true);
    await page.emulateMedia({ media: "screen" });
    await page.keyboard.press("]");
    await told("Archived");
    expect(await page.getByRole("heading", { level: 1 }).allTextContents()).not.toContain("Letter 7");
  }, 120_000);

  test("a list that cannot be loaded says so and retries, and after a lost connection nothing is missed", async () => {
    await page.route("**/app/threads?*folder=starred*", (route) =>
      route.fulfill({ status: 400, body: `{"error":"Broken"}` }),
    );
    await folderLink("Starred").click();
    await page.getByRole("alert").getByText("Broken").waitFor();
    await page.unroute("**/app/threads?*folder=starred*");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("Nothing here").waitFor();

    await page.route("**/app/threads?*folder=archive*", async (route) => {
      if (route.request().url().includes("cursor=")) return route.fulfill({ status: 400, body: `{"error":"Broken"}` });
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), nextCursor: "next" } });
    });
    await folderLink("Archive").click();
    await page.getByRole("alert").getByText("Broken").waitFor();
    expect(await page.getByRole("list", { name: "Conversations" }).isVisible()).toBe(true);
    await page.unroute("**/app/threads?*folder=archive*");

    await page.context().setOffline(true);
    await page.getByText("No connection to the server. This page may be out of date.").waitFor();
    await deliver({ subject: "Letter 9" });
    await booted.advance(1_000);
    await page.context().setOffline(false);
    await page.getByText("No connection to the server").waitFor({ state: "detached" });
    await go("Inbox");
    await rowOf("Letter 9").waitFor();
  }, 120_000);

  test("the browser reported no errors and no violations of the policy", () => {
    expect(complaints).toEqual([]);
  });
});
