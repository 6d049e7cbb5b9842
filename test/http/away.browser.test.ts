/** A person works on while the server does not answer, in a real browser. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const LOST = "No connection to the server.";
let booted: Booted;
let page: Page;

const rows = () => page.getByRole("list", { name: "Conversations" });
const row = (subject: string) => rows().getByRole("link", { name: subject });
const folderLink = (name: string) => page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name });
const told = (text: string) => page.getByRole("status").getByText(text, { exact: true }).waitFor();
const folders = async () => {
  const { body } = await booted.api.get<{ threads: { subject: string; folder: string; starred: boolean }[] }>(
    "/threads?folder=all",
  );
  return Object.fromEntries(
    body.threads.map(({ subject, folder, starred }) => [subject, starred ? `${folder}, starred` : folder]),
  );
};

/** Makes the server unreachable for the page, or reachable again. */
const setAway = (away: boolean) => page.context().setOffline(away);
async function back(): Promise<void> {
  await setAway(false);
  await page.getByText(LOST).waitFor({ state: "detached" });
}

describe.skipIf(!chromiumPresent)(`while the server is away${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    for (const subject of ["Oak", "Ash", "Elm", "Fir"]) {
      await mailer(booted.mx).send(
        { from: "bea@remote.example", to: ALICE },
        `From: Bea <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\n\nBoards of ${subject}`,
      );
    }
    page = await (await (await openBrowser()).newContext()).newPage();
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await rows().waitFor();
  }, 120_000);
  beforeEach(async () => {
    await page.goto(`${booted.http}/mail/inbox`);
    await row("Fir").waitFor();
  }, 120_000);

  test("changes wait in their order, and are sent by themselves when it is back", async () => {
    await setAway(true);
    await row("Oak").locator("..").getByRole("checkbox").check();
    await page.keyboard.press("s");
    await page.keyboard.press("e");
    await row("Oak").waitFor({ state: "detached" });
    await page.getByText(`${LOST} 2 changes will be sent when it is back.`).waitFor();
    expect(await barriers(page)).toEqual([]);
    expect((await folders()).Oak).toBe("inbox");
    await back();
    await told("Archived");
    expect((await folders()).Oak).toBe("archive, starred");
    await page.keyboard.press("z");
    await told("Undone");
    expect((await folders()).Oak).toBe("inbox, starred");
  }, 120_000);

  test("a folder and a conversation say that they wait, and show when it is back", async () => {
    await setAway(true);
    await folderLink("Archive").click();
    await page
      .getByRole("status", { name: "Loading conversations" })
      .getByText("The server is not responding")
      .waitFor();
    await page.goBack();
    await row("Elm").click();
    await page
      .getByRole("status", { name: "Loading the conversation" })
      .getByText("This appears when it is back")
      .waitFor();
    await page.getByText(LOST).waitFor();
    expect(await page.getByRole("button", { name: "Try again" }).isVisible()).toBe(false);
    expect(await rows().isVisible()).toBe(true);
    await back();
    await page.getByRole("heading", { name: "Elm" }).waitFor();
    await page.frameLocator("iframe").getByText("Boards of Elm").waitFor();
  }, 120_000);

  test("a conversation that was fetched ahead is readable, as text until it is back", async () => {
    const id = (await row("Elm").getAttribute("href"))?.split(/[/#?]/).at(3);
    const ahead = page.waitForResponse((response) => response.url().includes(`/app/threads/${id}?`));
    await row("Fir").click();
    await page.frameLocator("iframe").getByText("Boards of Fir").waitFor();
    await (await ahead).finished();
    await setAway(true);
    await page.getByText(LOST).waitFor();
    await page.keyboard.press("j");
    await page.getByRole("main").getByRole("article").getByText("Boards of Elm").first().waitFor();
    expect(await page.locator("iframe").count()).toBe(0);
    await back();
    await page.frameLocator("iframe").getByText("Boards of Elm").waitFor();
  }, 120_000);

  test("a message is not sent, says so in a line, keeps its text and is saved when it is back", async () => {
    await page.keyboard.press("c");
    const box = page.getByRole("region", { name: "New message" });
    await box.getByRole("combobox", { name: "To" }).fill("bea@remote.example");
    await box.getByLabel("Subject").fill("Hello");
    await setAway(true);
    await box.getByRole("textbox", { name: "Message" }).fill("As before");
    await page.keyboard.press("Control+Enter");
    await box.getByRole("alert").getByText("Not sent: the server is not responding.").waitFor();
    await back();
    await box.getByRole("alert").waitFor({ state: "detached" });
    await box.getByText("Saved", { exact: true }).waitFor();
    expect(await box.getByRole("textbox", { name: "Message" }).inputValue()).toBe("As before");
  }, 120_000);

  test("a proxy that cannot reach the server is a server that is away", async () => {
    await page.route("**/{app/**,healthz}", (route) => route.fulfill({ status: 502, body: "<h1>Bad Gateway</h1>" }));
    await row("Ash").locator("..").getByRole("button", { name: "Star Ash" }).click();
    await page.getByText(`${LOST} 1 change will be sent when it is back.`).waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await page.getByText(LOST).waitFor({ state: "detached" });
    expect((await folders()).Ash).toBe("inbox, starred");
  }, 120_000);
});
