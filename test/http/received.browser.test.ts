/** What a person does with received mail, in a real browser: leave its list, always see a sender's images. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { type Booted, boot } from "../harness/appliance.ts";
import { barriers } from "../harness/barriers.ts";
import { PASSWORD, setPassword } from "../harness/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/chromium.ts";
import { newSigner, signed } from "../harness/dkim-signer.ts";
import { zone } from "../harness/dns-server.ts";
import { mailer } from "../harness/mail.ts";

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
      }),
    );
    await setPassword(booted, booted.owner.userId);
    page = await (await (await openBrowser()).newContext()).newPage();
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
    await told("10.0.0.1 could not be reached to unsubscribe");
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
});
