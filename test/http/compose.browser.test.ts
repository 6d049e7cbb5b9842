/** Writing mail in a real browser: attachments, saving while typing, forwarding, agents' drafts, undo. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Locator, Page } from "playwright-core";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const UNDO_MS = 10_000;
let booted: Booted;
let page: Page;
/** Problems that the browser reported: script errors, and violations of the policy. */
const complaints: string[] = [];

const MAIL = [
  "From: Bea Brand <bea@remote.example>",
  `To: ${ALICE}`,
  "Subject: Oak boards",
  "MIME-Version: 1.0",
  "Date: Mon, 05 Jan 2026 08:00:00 +0000",
  'Content-Type: multipart/mixed; boundary="m"',
  "",
  "--m",
  "Content-Type: text/html; charset=utf-8",
  "",
  '<p>They come on <b>Friday</b>.</p><table><tr><td bgcolor="#ccffee">12</td></tr></table>',
  "--m",
  "Content-Type: text/csv",
  "Content-Disposition: attachment; filename=figures.csv",
  "",
  "a,b",
  "--m--",
];

interface Message {
  id: string;
  threadId: string;
  subject: string;
  text: string;
  html?: string;
  to: { email: string }[];
  bcc?: { email: string }[];
  attachments: { filename: string; size: number }[];
}

/** Finds the newest sent message. */
async function lastSent(): Promise<Message> {
  const { body } = await booted.api.get<{ messages: Message[] }>("/messages?direction=outbound&folder=sent&limit=1");
  return (await booted.api.get<{ message: Message }>(`/messages/${body.messages[0]?.id}`)).body.message;
}
const threadsIn = async (folder: string) =>
  (await booted.api.get<{ threads: { id: string; subject: string; snippet: string }[] }>(`/threads?folder=${folder}`))
    .body.threads;

const region = (name: string): Locator => page.getByRole("region", { name, exact: true });
const conversations = () => page.getByRole("list", { name: "Conversations" });
const folderLink = (name: string) => page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name });
const rich = (box: Locator) => box.frameLocator('iframe[title="Message"]').getByRole("textbox", { name: "Message" });
const undoButton = () => page.getByRole("button", { name: "Undo", exact: true });
/** The recipients that were entered in a field. */
const recipients = async (box: Locator, field: string) => {
  await box.getByRole("combobox", { name: field }).waitFor();
  const chips = await box
    .getByRole("list", { name: `${field}: recipients` })
    .getByRole("button")
    .all();
  const titles = await Promise.all(chips.map((chip) => chip.getAttribute("title")));
  return titles.filter((title) => title !== null);
};
const saved = (box: Locator) => box.getByText("Saved", { exact: true }).waitFor();

async function openOak(): Promise<void> {
  await conversations().getByRole("link", { name: "Oak boards" }).click();
  await page.getByRole("heading", { name: "Oak boards" }).waitFor();
}

/** Keeps requests to a URL waiting. `held` resolves at the first one; `release` lets them go on. */
async function hold(url: string): Promise<{ held: Promise<unknown>; release: () => Promise<void> }> {
  const first = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  await page.route(url, async (route) => {
    first.resolve();
    await released.promise;
    await route.continue();
  });
  return {
    held: first.promise,
    async release() {
      released.resolve();
      await page.unrouteAll({ behavior: "wait" });
    },
  };
}

/** Waits until the message has left and the page knows it. */
async function settle(): Promise<void> {
  await undoButton().waitFor();
  await booted.advance(UNDO_MS);
  await booted.advance(1_000);
}

describe.skipIf(!chromiumPresent)(`writing${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    const { core } = booted.opened;
    const { store } = core;
    await setPassword(booted, booted.owner.userId);
    const { workspaceId } = booted.owner;
    store.transact((tx) =>
      people.addUser(core, tx, { workspaceId, role: "member", ownMailbox: true, email: BOB, name: "Bob Benn" }),
    );
    await mailer(booted.mx).send({ from: "bea@remote.example", to: ALICE }, MAIL.join("\n"));
    await booted.api.post("/send", { from: ALICE, to: `Bob Benn <${BOB}>`, subject: "Before", text: "x" });
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    page.on("dialog", (dialog) => void dialog.accept());
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await conversations().waitFor();
  }, 120_000);
  beforeEach(async () => {
    await page.goto(`${booted.http}/mail/inbox`);
    await conversations().waitFor();
  }, 120_000);

  test("a new message: recipients are suggested, a file is attached, the keyboard sends it", async () => {
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByRole("combobox", { name: "To" }).pressSequentially("ben");
    await box.getByRole("option", { name: "Bob Benn" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Enter");
    expect(await recipients(box, "To")).toEqual([`Bob Benn <${BOB}>`]);
    expect(await box.getByRole("combobox", { name: "To" }).inputValue()).toBe("");
    await box.getByLabel("Subject").fill("With a file");
    await box.locator("input[type=file]").setInputFiles([
      { name: '<img src=x onerror="x()">.txt', mimeType: "text/plain", buffer: Buffer.from("Notes") },
      { name: "unwanted.txt", mimeType: "text/plain", buffer: Buffer.from("No") },
    ]);
    await box.getByRole("button", { name: "Remove unwanted.txt" }).click();
    await box.getByRole("link", { name: "unwanted.txt" }).first().waitFor({ state: "hidden" });
    await box.getByRole("textbox", { name: "Message" }).fill("See the file.");
    await page.keyboard.press("Control+Enter");
    await settle();
    expect(await lastSent()).toMatchObject({
      subject: "With a file",
      text: "See the file.",
      to: [{ email: BOB }],
      attachments: [{ filename: '<img src=x onerror="x()">.txt', size: 5 }],
    });
  }, 120_000);

  test("an invalid address and a file that is too large are refused before sending", async () => {
    const { core } = booted;
    const set = (bytes: string) => core.store.transact((tx) => core.options.set(tx, "smtp.maxMessageBytes", bytes));
    set("20000");
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByRole("combobox", { name: "To" }).fill("bob, cy@remote.example");
    await box.getByLabel("Subject").fill("To nobody");
    await box.getByText("“bob” is not an email address").waitFor();
    await box
      .locator("input[type=file]")
      .setInputFiles([{ name: "large.bin", mimeType: "application/zip", buffer: Buffer.alloc(30_000) }]);
    await box
      .getByRole("alert")
      .getByText(/“large.bin” is 30 kB; at most \d+ kB more can be attached/)
      .waitFor();
    await box.getByRole("button", { name: "Send", exact: true }).click();
    await box.getByRole("alert").getByText('recipient "bob" is not an email address').waitFor();
    set("26214400");
    await box.getByRole("button", { name: "Discard" }).click();
    await box.waitFor({ state: "hidden" });
  }, 120_000);

  test("a draft is saved while it is typed, survives closing the page, and is discarded", async () => {
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByLabel("Subject").fill("Half a thought");
    await box.getByRole("textbox", { name: "Message" }).fill("It begins");
    await saved(box);
    expect((await threadsIn("drafts")).map(({ subject, snippet }) => [subject, snippet])).toEqual([
      ["Half a thought", "It begins"],
    ]);
    await box.getByRole("textbox", { name: "Message" }).pressSequentially(" and goes on");
    await page.reload();
    await folderLink("Drafts").click();
    await conversations().getByRole("link", { name: "Half a thought" }).click();
    const draft = region("Draft");
    expect(await draft.getByRole("textbox", { name: "Message" }).inputValue()).toBe("It begins and goes on");
    expect(await barriers(page)).toEqual([]);
    await draft.getByRole("button", { name: "Discard" }).click();
    await page.getByText("Nothing here").waitFor();
    expect(await threadsIn("drafts")).toEqual([]);
  }, 120_000);

  test("a new message is open again after a visit to the settings", async () => {
    await page.keyboard.press("c");
    await region("New message").getByLabel("Subject").fill("Kept");
    await page.getByRole("button", { name: /^Account of Alice/ }).click();
    await page.getByRole("menuitem", { name: "Settings" }).click();
    await page.getByRole("link", { name: "Go to your mail" }).click();
    const box = region("Draft");
    expect(await box.getByLabel("Subject").inputValue()).toBe("Kept");
    await box.getByRole("button", { name: "Discard" }).click();
    await box.waitFor({ state: "hidden" });
  }, 120_000);

  test("a draft that was changed elsewhere shows a conflict, and nothing is lost", async () => {
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByLabel("Subject").fill("Both");
    await saved(box);
    const [draft] = await threadsIn("drafts");
    const other = await page.context().newPage();
    await other.goto(`${booted.http}/mail/drafts/${draft?.id}`);
    const there = other.getByRole("region", { name: "Draft", exact: true });
    await there.getByRole("textbox", { name: "Message" }).fill("Theirs");
    await saved(there);
    await other.close();
    await box.getByRole("textbox", { name: "Message" }).fill("Mine");
    await box
      .getByRole("alert")
      .getByText(/changed elsewhere/)
      .waitFor();
    await box.getByRole("button", { name: "Save mine as another draft" }).click();
    await saved(box);
    await box.getByRole("button", { name: "Save and close" }).click();
    expect((await threadsIn("drafts")).map(({ snippet }) => snippet).sort()).toEqual(["Mine", "Theirs"]);
    for (const { id } of await threadsIn("drafts")) await booted.api.patch(`/threads/${id}`, { folder: "trash" });
  }, 120_000);

  test("discarding asks about what is not saved yet, and leaves no draft of a save under way", async () => {
    const { release, held } = await hold("**/app/drafts");
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByLabel("Subject").fill("Unwanted");
    await held;
    const asked = page.waitForEvent("dialog");
    await box.getByRole("button", { name: "Discard" }).click();
    expect((await asked).message()).toStartWith("Discard this draft?");
    await release();
    await box.waitFor({ state: "hidden" });
    expect(await threadsIn("drafts")).toEqual([]);
  }, 120_000);

  test("text that is typed while it becomes formatted text is kept", async () => {
    const { release, held } = await hold("**/app/drafts");
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByRole("textbox", { name: "Message" }).fill("Begun");
    await box.getByRole("button", { name: "Format text" }).click();
    await held;
    await box.getByRole("textbox", { name: "Message" }).fill("Begun and ended");
    await release();
    await rich(box).getByText("Begun and ended").waitFor();
    await box.getByRole("button", { name: "Discard" }).click();
    await box.waitFor({ state: "hidden" });
  }, 120_000);

  test("a page that cannot be loaded again stays, and so does the message being written", async () => {
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByLabel("Subject").fill("Still here");
    await page.route("**/app/mailboxes", (route) => route.abort());
    let failures = 0;
    const lost = page.waitForEvent("requestfailed", { predicate: () => ++failures === 3 });
    await conversations().getByRole("button", { name: "Star Oak boards" }).click();
    await lost;
    await page.unroute("**/app/mailboxes");
    expect(await box.getByLabel("Subject").inputValue()).toBe("Still here");
    await box.getByRole("button", { name: "Discard" }).click();
    await box.waitFor({ state: "hidden" });
  }, 120_000);

  test("a scheduled message that is discarded is gone from the page", async () => {
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByRole("combobox", { name: "To" }).fill(BOB);
    await box.getByLabel("Subject").fill("Next week");
    await box.getByRole("button", { name: "Send later" }).click();
    await page.getByRole("menuitem", { name: "Choose a time…" }).click();
    const inAWeek = new Date(booted.runtime.now() + 7 * 86_400_000);
    await page.getByLabel("Send at").fill(inAWeek.toISOString().slice(0, 16));
    await page.getByRole("button", { name: "Send then" }).click();
    await box.waitFor({ state: "hidden" });
    await folderLink("Scheduled").click();
    await page.getByRole("list", { name: "Scheduled messages" }).getByRole("link", { name: "Next week" }).click();
    await region("Scheduled message")
      .getByText(/^It is sent|^Sending…/)
      .waitFor();
    await region("Scheduled message").getByRole("button", { name: "Discard" }).click();
    await page.getByText("Nothing is scheduled").waitFor();
    expect(await threadsIn("drafts")).toEqual([]);
  }, 120_000);

  test("a reply that cannot be begun is begun when the person tries again", async () => {
    await page.route("**/answer?*", (route) => route.abort());
    await openOak();
    await page.keyboard.press("r");
    const box = region("Reply");
    await box.getByRole("alert").getByText("The server is not responding").waitFor();
    await page.unroute("**/answer?*");
    await box.getByRole("button", { name: "Try again" }).click();
    await box.getByRole("combobox", { name: "To" }).waitFor();
  }, 120_000);

  test.each(["text", "HTML"])(
    "%s that could not be saved when it was left is open again, and saved then",
    async (kind) => {
      await page.keyboard.press("c");
      const box = region("New message");
      await box.getByLabel("Subject").fill("Offline");
      await box.getByRole("textbox", { name: "Message" }).fill("Begun");
      if (kind === "HTML") await box.getByRole("button", { name: "Format text" }).click();
      await saved(box);
      const editor = (of: Locator) => (kind === "HTML" ? rich(of) : of.getByRole("textbox", { name: "Message" }));
      await editor(box).click();
      await page.route("**/app/drafts/**", (route) =>
        route.request().method() === "PATCH" ? route.abort() : route.continue(),
      );
      await page.keyboard.press("End");
      await page.keyboard.type(" and ended");
      await box.getByRole("button", { name: "Save and close" }).click();
      await page
        .getByText(/^Not saved: The server is not responding/)
        .first()
        .waitFor();
      await page.unroute("**/app/drafts/**");
      const again = region("Draft");
      if (kind === "HTML") await rich(again).getByText("Begun and ended").waitFor();
      else expect(await editor(again).inputValue()).toBe("Begun and ended");
      await saved(again);
      expect((await threadsIn("drafts")).map(({ subject, snippet }) => [subject, snippet])).toEqual([
        ["Offline", "Begun and ended"],
      ]);
      await page.getByRole("button", { name: /^Account of Alice/ }).click();
      await page.getByRole("menuitem", { name: "Settings" }).click();
      await page.getByRole("link", { name: "Go to your mail" }).click();
      await editor(again).click();
      await page.keyboard.press("End");
      await page.keyboard.type("!");
      await saved(again);
      await again.getByRole("button", { name: "Discard" }).click();
      await again.waitFor({ state: "hidden" });
    },
    120_000,
  );

  test("a reply is undone, edited, and sent into its conversation", async () => {
    await openOak();
    await page.keyboard.press("r");
    const box = region("Reply");
    expect(await recipients(box, "To")).toEqual(["Bea Brand <bea@remote.example>"]);
    await box.getByRole("textbox", { name: "Message" }).fill("Friday it si.");
    await box.getByRole("button", { name: "Send", exact: true }).click();
    await undoButton().click();
    const draft = region("Draft").filter({ has: page.getByRole("button", { name: "Send", exact: true }) });
    expect((await draft.getByRole("textbox", { name: "Message" }).inputValue()).trimEnd()).toBe(
      "Friday it si.\n\nOn Mon, 5 Jan 2026 at 08:00 UTC, Bea Brand <bea@remote.example> wrote:\n> They come on Friday.\n>\n> 12",
    );
    await draft.getByRole("textbox", { name: "Message" }).fill("Friday it is.");
    await draft.getByRole("button", { name: "Send", exact: true }).click();
    await settle();
    const [thread] = (await threadsIn("inbox")).filter(({ subject }) => subject === "Oak boards");
    expect(await lastSent()).toMatchObject({ text: "Friday it is.", threadId: thread?.id });
    await page.getByRole("article", { name: "Message of Alice" }).waitFor();
  }, 120_000);

  test("an agent's draft stands in its conversation with the name of its key, and is sent as edited, with its HTML", async () => {
    const [thread] = (await threadsIn("inbox")).filter(({ subject }) => subject === "Oak boards");
    await booted.api.post(`/threads/${thread?.id}/draft`, {
      to: BOB,
      bcc: "boss@example.test",
      replyTo: "Alice <elsewhere@remote.example>",
      html: '<p>Dear <b>Bea</b></p><table><tr><td bgcolor="#ccffee">13</td></tr></table>',
    });
    // Pages get events at most four times a second, by the appliance's clock.
    await booted.advance(1_000);
    await folderLink("Drafts").click();
    await conversations().getByText("By agent “Tests”").waitFor();
    await folderLink("Inbox").click();
    await openOak();
    const draft = region("Draft of an agent");
    const editor = await hold("**/app/drafts/*/editor?*");
    await draft.getByRole("button", { name: /Tests/ }).click();
    await draft.getByText("Drafted by an agent, with the API key “Tests” of Alice.").waitFor();
    await draft.getByText("It also goes out with Reply-To: Alice <elsewhere@remote.example>").waitFor();
    const bcc = draft.getByRole("combobox", { name: "Bcc" });
    expect(await recipients(draft, "Bcc")).toEqual(["boss@example.test"]);
    await bcc.press("Backspace");
    await page.keyboard.press("Backspace");
    expect(await recipients(draft, "Bcc")).toEqual([]);
    await bcc.focus();
    await editor.held;
    await editor.release();
    await rich(draft).getByText("Bea").waitFor();
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    // The text that comes late takes no keys from the field.
    expect(await bcc.evaluate((field) => field === document.activeElement)).toBeTrue();
    await rich(draft).getByText("Bea").click();
    await page.keyboard.press("End");
    await page.keyboard.type(" Brand");
    expect(await barriers(page)).toEqual([]);
    await saved(draft);
    await draft.getByRole("button", { name: "Send", exact: true }).click();
    await settle();
    const sent = await lastSent();
    expect(sent.html).toContain(
      '<p>Dear <b>Bea Brand</b></p><table><tbody><tr><td bgcolor="#ccffee">13</td></tr></tbody></table>',
    );
    expect(sent).toMatchObject({ to: [{ email: BOB }], threadId: thread?.id });
    expect(sent.bcc).toBeUndefined();
  }, 120_000);

  test("forwarding includes HTML and files, and leaves no draft when it is closed unchanged", async () => {
    const before = await threadsIn("drafts");
    await openOak();
    await page.keyboard.press("f");
    const box = region("Draft").filter({ has: page.getByRole("button", { name: "Save and close" }) });
    await rich(box).getByText("Forwarded message").waitFor();
    await box.getByRole("button", { name: "Save and close" }).click();
    await box.waitFor({ state: "hidden" });
    await page.getByRole("heading", { name: "Oak boards" }).waitFor();
    await expectEventually(async () => (await threadsIn("drafts")).length, before.length);
  }, 120_000);

  test("the newest message is forwarded below the words that were typed", async () => {
    const { messages } = (await booted.api.get<{ messages: Message[] }>(`/threads/${(await lastSent()).threadId}`))
      .body;
    expect(messages[0]?.attachments).toHaveLength(1);
    const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
    const made = await fetch(`${booted.http}/app/messages/${messages[0]?.id}/forward`, {
      method: "POST",
      headers: { cookie, origin: booted.http },
    });
    const { draftId } = (await made.json()) as { draftId: string };
    await page.goto(`${booted.http}/mail/drafts/${draftId}`);
    const draft = region("Draft");
    await draft.getByRole("link", { name: "figures.csv" }).first().waitFor();
    await rich(draft).click({ position: { x: 20, y: 20 } });
    await page.keyboard.type("For you");
    await draft.getByRole("combobox", { name: "To" }).fill(BOB);
    await draft.getByRole("button", { name: "Send", exact: true }).click();
    await settle();
    const sent = await lastSent();
    expect(sent).toMatchObject({ subject: "Fwd: Oak boards", attachments: [{ filename: "figures.csv" }] });
    expect(sent.html).toContain("For you");
    expect(sent.html).toContain('<td bgcolor="#ccffee">12</td>');
    expect(sent.text).toContain("From: Bea Brand <bea@remote.example>");
  }, 120_000);

  test("a message refused when it was due shows the reason when the draft is opened", async () => {
    await page.keyboard.press("c");
    const box = region("New message");
    await box.getByRole("combobox", { name: "To" }).fill(BOB);
    await box.getByLabel("Subject").fill("Too late");
    await box.getByRole("button", { name: "Send", exact: true }).click();
    await undoButton().waitFor();
    const {
      core: { store },
    } = booted.opened;
    store.transact((tx) => mailboxAdmin.pauseMailbox(tx, booted.owner.mailboxId, "an audit"));
    await booted.advance(UNDO_MS);
    store.transact((tx) => mailboxAdmin.resumeMailbox(tx, booted.owner.mailboxId));
    await folderLink("Drafts").click();
    await conversations().getByRole("link", { name: "Too late" }).click();
    await region("Draft")
      .getByText(/It was not sent\..*an audit/)
      .waitFor();
  }, 120_000);

  test("the browser reported no errors and no violations of the policy", () => {
    expect(complaints).toEqual([]);
  });
});

/** Asks until the answer is `wanted`. The time limit of the test ends it. */
async function expectEventually(ask: () => Promise<number>, wanted: number): Promise<void> {
  while ((await ask()) !== wanted) await page.evaluate("new Promise((done) => requestAnimationFrame(done))");
}
