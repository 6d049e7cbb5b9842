/** The app in a real browser, as people use it: signing in, reading, searching, moving with undo, answering, new mail. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer, type Sender } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let sender: Sender;
let page: Page;
/** Problems that the browser reported: script errors, and violations of the policy. */
const complaints: string[] = [];

const letter = (subject: string, text: string, more = "") =>
  `From: Bea Brand <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\nMessage-ID: <${subject.replaceAll(/\W/g, "")}@remote.example>\nDate: Mon, 05 Jan 2026 08:00:00 +0000\n${more}\n${text}\n`;
const deliver = (subject: string, text: string, more?: string) =>
  sender.send({ from: "bea@remote.example", to: ALICE }, letter(subject, text, more));

const conversations = () => page.getByRole("list", { name: "Conversations" });
const folderLink = (name: string) => page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name });
const folderOf = async (subject: string) => {
  const { body } = await booted.api.get<{ threads: { subject: string; folder: string }[] }>("/search?q=&folder=all");
  return body.threads.find((thread) => thread.subject === subject)?.folder;
};

describe.skipIf(!chromiumPresent)(`the app${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const {
      core: { store },
    } = booted.opened;
    // Other tests cover undo.
    store.transact((tx) => people.setUndoSeconds(tx, booted.owner.userId, 0));
    sender = mailer(booted.mx);
    await deliver("Oak boards", "They come on Friday. A zebra brings them.");
    await deliver("Lamps", "Do you engrave lamps?");
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
  }, 120_000);

  test("a wrong password is refused, the right one opens the inbox", async () => {
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    expect(await page.getByRole("alert").textContent()).toBe("Email address and password do not match");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await conversations().waitFor();
    expect(await conversations().getByRole("link").count()).toBe(2);
    expect(await page.getByRole("main").getByText("No conversation selected").isVisible()).toBe(true);
    expect(await folderLink("Inbox").textContent()).toBe("Inbox2 unread");
  }, 120_000);

  test("opening a conversation marks it as read", async () => {
    await conversations().getByRole("link", { name: "Oak boards" }).click();
    const frame = page.frameLocator("iframe");
    await frame.getByText("A zebra brings them.").waitFor();
    await page.waitForFunction(() => !document.querySelector('[aria-current="true"]')?.textContent?.includes("Unread"));
    await page.getByText("Inbox1 unread", { exact: true }).or(folderLink("Inbox")).first().waitFor();
    const { body } = await booted.api.get<{ unread: number }>("/threads");
    expect(body.unread).toBe(1);
  }, 120_000);

  test("a search finds the conversation, by the keyboard alone", async () => {
    await page.keyboard.press("u");
    await page.keyboard.press("/");
    await page.keyboard.type("zebra");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Search" }).waitFor();
    await conversations().getByRole("link", { name: "Oak boards" }).waitFor();
    expect(await conversations().getByRole("link").count()).toBe(1);
    await page.getByRole("button", { name: "Clear search" }).click();
    await conversations().getByRole("link", { name: "Lamps" }).waitFor();
  }, 120_000);

  test("e archives, and Undo takes it back", async () => {
    await conversations().getByRole("link", { name: "Lamps" }).click();
    await page.getByRole("heading", { name: "Lamps" }).waitFor();
    await page.keyboard.press("e");
    await page.getByText("Archived").waitFor();
    expect(await folderOf("Lamps")).toBe("archive");
    await page.getByRole("button", { name: "Undo" }).click();
    await conversations().getByRole("link", { name: "Lamps" }).waitFor();
    expect(await folderOf("Lamps")).toBe("inbox");
  }, 120_000);

  test("a reply goes to the author and stands in the conversation", async () => {
    await conversations().getByRole("link", { name: "Oak boards" }).click();
    await page.getByRole("heading", { name: "Oak boards" }).waitFor();
    await page.keyboard.press("r");
    const box = page.getByRole("region", { name: "Reply" });
    await box.getByLabel("Message").waitFor();
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await barriers(page)).toEqual([]);
    }
    await box.getByRole("list", { name: "To: recipients" }).getByTitle("Bea Brand <bea@remote.example>").waitFor();
    await box.getByLabel("Message").fill("Friday it is.");
    await box.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByText("Sent", { exact: true }).nth(1).waitFor();
    await page.getByRole("article", { name: "Message of Alice" }).waitFor();
    const { body } = await booted.api.get<{ messages: { bodyText: string; to: { email: string; name?: string }[] }[] }>(
      "/messages?direction=outbound",
    );
    expect(body.messages[0]?.to).toEqual([{ email: "bea@remote.example", name: "Bea Brand" }]);
    expect(body.messages[0]?.bodyText).toStartWith("Friday it is.");
  }, 120_000);

  test("an agent's draft is reviewed, with its Bcc, changed and sent", async () => {
    const { body: found } = await booted.api.get<{ threads: { id: string }[] }>("/search?q=lamps");
    await booted.api.post(`/threads/${found.threads[0]?.id}/draft`, {
      text: "We do.",
      to: ALICE,
      bcc: "boss@example.test",
    });
    await folderLink("Drafts").click();
    await conversations().getByRole("link", { name: "Re: Lamps" }).click();
    const draft = page.getByRole("region", { name: "Draft" });
    await draft.getByRole("button", { name: "Remove boss@example.test" }).click();
    await draft.getByLabel("Message").fill("We do, on oak.");
    expect(await barriers(page)).toEqual([]);
    await draft.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByText("Nothing here").waitFor();
    const { body } = await booted.api.get<{ messages: { bodyText: string }[] }>("/messages?direction=outbound");
    expect(body.messages[0]?.bodyText).toStartWith("We do, on oak.");
    await folderLink("Inbox").click();
  }, 120_000);

  test("new mail appears without reloading", async () => {
    await page.keyboard.press("u");
    await deliver("News of the lamps", "They are done.");
    // Pages get events at most four times a second, by the appliance's clock.
    await booted.advance(1_000);
    await conversations().getByRole("link", { name: "News of the lamps" }).waitFor();
  }, 120_000);

  test("markup in a subject and a name is text", async () => {
    const markup = `<img src=x onerror="document.title='ran'">`;
    await sender.send(
      { from: "bea@remote.example", to: ALICE },
      letter(markup, "x").replace("Bea Brand", `"${markup.replaceAll('"', '\\"')}"`),
    );
    await booted.advance(1_000);
    await conversations().getByRole("link", { name: markup }).first().click();
    await page.getByRole("heading", { name: markup }).waitFor();
    expect(await page.locator("img").count()).toBe(0);
  }, 120_000);

  test("on a phone, list and conversation take turns, and folders lie over the list", async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    await page.getByRole("link", { name: "Back to the list" }).click();
    expect(await barriers(page)).toEqual([]);
    expect(await page.getByRole("main").getByRole("list", { name: "Conversations" }).isVisible()).toBe(true);
    expect(await folderLink("Starred").isVisible()).toBe(false);
    await page.getByRole("button", { name: "Folders" }).click();
    expect(await barriers(page)).toEqual([]);
    await folderLink("Starred").click();
    await page.getByRole("heading", { name: "Starred" }).waitFor();
    expect(await folderLink("Inbox").isVisible()).toBe(false);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await page.setViewportSize({ width: 1280, height: 800 });
  }, 120_000);

  test("mail that could not be loaded is loaded when the person tries again", async () => {
    await page.route("**/app/me", (route) => route.abort());
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByRole("alert").getByText("The server is not responding").waitFor();
    await page.unroute("**/app/me");
    await page.getByRole("button", { name: "Try again" }).click();
    await conversations().waitFor();
  }, 120_000);

  test("a sign-out that fails is told, and one that succeeds saves what is being written", async () => {
    async function signOut(): Promise<void> {
      await page.getByRole("button", { name: /^Account of Alice/ }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).click();
    }
    await page.route("**/app/sign-out", (route) => route.abort());
    await signOut();
    await page.getByRole("status").getByText("The server is not responding").waitFor();
    await page.unroute("**/app/sign-out");
    await page.keyboard.press("c");
    await page.getByRole("region", { name: "New message" }).getByLabel("Subject").fill("Begun");
    await signOut();
    await page.getByRole("heading", { name: "Sign in to Mailroom" }).waitFor();
    const { body } = await booted.api.get<{ threads: { subject: string }[] }>("/threads?folder=drafts");
    expect(body.threads.map(({ subject }) => subject)).toContain("Begun");
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByRole("heading", { name: "Sign in to Mailroom" }).waitFor();
  }, 120_000);

  test("the browser reported no errors and no violations of the policy", () => {
    expect(complaints).toEqual([]);
  });
});
