/** A person works with received mail, in a real browser: they leave its list, see a sender's images, and answer invitations. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { newSigner, signed } from "../harness/mail/dkim-signer.ts";
import { type Invited, invitationMail } from "../harness/mail/invitations.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const IMAGE = '<p>News</p><img width="40" height="40" src="https://track.example/p.gif">';
const signer = newSigner("news.example");

let booted: Booted;
let page: Page;
const complaints: string[] = [];

const told = (text: string | RegExp) => page.getByRole("status").getByText(text).waitFor();
const images = () => page.frameLocator("iframe").locator('img[src^="/app/images?"]');

/** Delivers a message and opens it. `more`: header lines. */
async function open(subject: string, more = "", h = "from:list-unsubscribe:list-unsubscribe-post"): Promise<void> {
  const raw = `From: News <news@news.example>\r\nTo: ${ALICE}\r\nSubject: ${subject}\r\nMessage-ID: <${subject}@x>\r\n${more}MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n${IMAGE}\r\n`;
  await mailer(booted.mx).send({ from: "news@news.example", to: ALICE }, signed(raw, signer, { h }));
  const { body } = await booted.api.get<{ threads: { id: string; subject: string }[] }>("/threads");
  await page.goto(`${booted.http}/mail/inbox/${body.threads.find((thread) => thread.subject === subject)?.id}`);
  await page.frameLocator("iframe").getByText("News").waitFor();
}

describe.skipIf(!chromiumPresent)(`received mail${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot(
      {},
      zone({
        "s._domainkey.news.example": { txt: [signer.record] },
        "_dmarc.news.example": { txt: ["v=DMARC1; p=none"] },
        // The answers to invitations wait.
        "remote.example": "SERVFAIL",
      }),
    );
    await setPassword(booted, booted.owner.userId);
    page = await (await (await openBrowser()).newContext({ timezoneId: "Asia/Tokyo", locale: "en-GB" })).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    await page.clock.setFixedTime(booted.runtime.now());
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
  }, 120_000);

  test("a list is left by a message, in one press, and the next message says so", async () => {
    await open("One", "List-Id: <weekly.news.example>\r\nList-Unsubscribe: <mailto:leave@news.example>\r\n");
    await page.getByRole("button", { name: "Unsubscribe", exact: true }).click();
    await told("A message to leave@news.example asks to unsubscribe you.");
    expect(await barriers(page)).toEqual([]);
    await open("Two", "List-Id: <weekly.news.example>\r\nList-Unsubscribe: <mailto:leave@news.example>\r\n");
    await told(/^You unsubscribed on .*2026/);
    await page.getByRole("button", { name: "Unsubscribe again" }).waitFor();
  }, 120_000);

  test("one click that fails says why", async () => {
    const more = "List-Unsubscribe: <https://10.0.0.1/leave>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n";
    await open("Three", more);
    await page.getByRole("button", { name: "Unsubscribe", exact: true }).click();
    await told("10.0.0.1 could not be reached, so you are still subscribed");
  }, 120_000);

  test("a page is opened after a question", async () => {
    await open("Four", "List-Unsubscribe: <https://news.example/leave>\r\n");
    await page.getByRole("button", { name: "Unsubscribe", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Open the page of this list?" });
    expect(await dialog.getByRole("link", { name: "Open it" }).getAttribute("href")).toBe("https://news.example/leave");
    expect(await dialog.getByRole("link").getAttribute("rel")).toBe("noopener noreferrer nofollow");
    expect(await barriers(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Cancel" }).click();
  }, 120_000);

  test("images of a proven sender are always shown once the person says so, until they take it back", async () => {
    await open("Five");
    expect(await page.getByRole("button", { name: "Unsubscribe", exact: true }).count()).toBe(0);
    await page.getByRole("button", { name: "Always from this sender" }).click();
    await images().waitFor({ state: "attached" });
    await told("Images of news@news.example are always shown, as long as the sender is proven");
    await open("Six");
    await images().waitFor({ state: "attached" });
    expect(await page.getByRole("button", { name: "Show images" }).count()).toBe(0);
    await page.getByRole("button", { name: "More about the message of News" }).click();
    await page.getByRole("menuitem", { name: "Stop showing images of this sender" }).click();
    await page.getByRole("button", { name: "Always from this sender" }).click();
    await images().waitFor({ state: "attached" });
    await page.goto(`${booted.http}/settings/profile`);
    await page.getByRole("button", { name: "Stop showing images of news@news.example" }).click();
    await page.getByRole("heading", { name: "Images that are always shown" }).waitFor({ state: "detached" });
    await open("Seven");
    await page.getByRole("button", { name: "Show images" }).waitFor();
    expect(await images().count()).toBe(0);
    expect(complaints).toEqual([]);
  }, 120_000);

  test("a proven sender is a quiet fact, and what deceives is said, whoever sent it", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId } = booted.owner;
    store.transact((tx) =>
      people.addUser(core, tx, {
        workspaceId,
        email: "ada@example.test",
        name: "Ada Lovelace",
        role: "member",
        ownMailbox: true,
      }),
    );
    await open("Quiet");
    await page.getByText("Sent by news.example", { exact: true }).waitFor();
    const warnings = page.getByRole("list", { name: "Warnings" }).getByRole("listitem");
    const raw = [
      ...["From: Ada Lovelace <news@news.example>", `To: ${ALICE}`, "Subject: Urgent", "Message-ID: <urgent@x>"],
      ...["Reply-To: ada@gmail.example", "MIME-Version: 1.0", "Content-Type: text/html", ""],
      ...['<p>News</p><a href="https://evil.example/">https://bank.example/login</a>', ""],
    ].join("\r\n");
    await mailer(booted.mx).send({ from: "news@news.example", to: ALICE }, signed(raw, signer, { h: "from:subject" }));
    const { body } = await booted.api.get<{ messages: { threadId: string }[] }>("/messages?messageId=urgent@x");
    await page.goto(`${booted.http}/mail/inbox/${body.messages[0]?.threadId}`);
    for (const text of [
      "news@news.example is not a known address of Ada Lovelace in your workspace. If in doubt, ask them another way.",
      "Your answer would go to ada@gmail.example, not to news@news.example.",
      "A link says bank.example, but leads to evil.example. Do not sign in or pay there.",
    ]) {
      await warnings.getByText(text, { exact: true }).waitFor();
    }
    expect(await warnings.count()).toBe(3);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  /** Delivers an invitation, and opens its conversation. */
  async function openInvitation(id: string, invited: Invited, headers = ""): Promise<void> {
    await mailer(booted.mx).send(
      { from: "bea@remote.example", to: ALICE },
      invitationMail({ id, headers }, { summary: `Lake ${id}`, uid: id, ...invited }),
    );
    const { body } = await booted.api.get<{ messages: { threadId: string }[] }>(`/messages?messageId=${id}`);
    await page.goto(`${booted.http}/mail/inbox/${body.messages[0]?.threadId}`);
    await card().last().waitFor();
  }
  const card = () => page.getByRole("region", { name: "Invitation" });

  test("an invitation is a card in the reader's zone, and is answered by one press", async () => {
    const lines =
      "DTSTART:20260601T080000Z\nDTEND:20260601T093000Z\nRRULE:FREQ=WEEKLY\nLOCATION:By the lake\nDESCRIPTION:<b>Shoes</b>";
    await openInvitation("one@x", { lines, attendees: [ALICE, "carol@remote.example"] });
    expect((await card().textContent())?.replace(/\s/gu, " ")).toContain("Mon, 1 Jun 2026, 17:00–18:30 (Asia/Tokyo)");
    for (const text of ["Lake one@x", "Bea Brand invites", "Every week", "By the lake", "2 guests"]) {
      await card().getByText(text, { exact: true }).waitFor();
    }
    await card().getByText("so it cannot tell conflicts").waitFor();
    await card().getByText("Description").click();
    await card().getByText("<b>Shoes</b>").waitFor();
    expect(await barriers(page)).toEqual([]);
    await card().getByRole("button", { name: "Accept" }).click();
    await card()
      .getByRole("status")
      .getByText(/^You accepted on /)
      .waitFor();
    expect(await card().getByRole("button", { name: "Accept" }).getAttribute("aria-pressed")).toBe("true");
    await card().getByRole("button", { name: "Decline" }).click();
    await card()
      .getByRole("status")
      .getByText(/^You declined on /)
      .waitFor();
    await page.reload();
    await card()
      .first()
      .getByRole("status")
      .getByText(/^You declined on /)
      .waitFor();
  }, 120_000);

  test("a later version and a cancellation take the place of an invitation", async () => {
    await openInvitation("two@x", { uid: "two" });
    await card().getByRole("button", { name: "Maybe" }).click();
    await card()
      .getByRole("status")
      .getByText(/^You said maybe on /)
      .waitFor();
    await openInvitation(
      "three@x",
      { uid: "two", sequence: 1, lines: "DTSTART;VALUE=DATE:20260602" },
      "In-Reply-To: <two@x>\r\n",
    );
    await card()
      .last()
      .getByText(/^You said maybe on .*, to an earlier version\.$/)
      .waitFor();
    await card().last().getByText("Tue, 2 Jun 2026, all day").waitFor();
    await page.getByRole("button", { name: "Open all" }).click();
    await card().first().getByText("A later message of this conversation replaces it").waitFor();
    expect(await card().first().getByRole("button").count()).toBe(0);
    await openInvitation("four@x", { uid: "two", sequence: 2, method: "CANCEL" }, "In-Reply-To: <two@x>\r\n");
    await card().last().getByText("Cancelled by its organizer").waitFor();
    expect(await card().last().getByRole("button").count()).toBe(0);
    await page.setViewportSize({ width: 360, height: 700 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    expect(await barriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 720 });
  }, 120_000);

  test("an answer that goes to somebody else than the sender says so", async () => {
    await openInvitation("five@x", { organizer: "carol@other.example" });
    await card().getByText("The answer goes to carol@other.example, who did not send this message.").waitFor();
    await openInvitation("six@x", { attendees: ["dan@remote.example"] });
    await card().getByText("This mailbox is not among the guests, or you may not send from it.").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);
});
