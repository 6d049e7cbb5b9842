/** The app of a standby: it says what it is, and opening mail asks for nothing that it refuses. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail/mail.ts";
import { boot } from "../harness/servers/boot.ts";
import { followStopped } from "../harness/servers/standby.ts";

describe.skipIf(!chromiumPresent)(`the app of a standby${chromiumNote}`, () => {
  test("shows mail under a banner that says where the server is", async () => {
    const data = temporaryFolder();
    const server = await boot({ MAILROOM_DATA: data }, undefined, { file: join(data, "mailroom.db") });
    await setPassword(server, server.owner.userId);
    const sender = mailer(server.mx);
    const letter = "From: ben@elsewhere.test\r\nSubject: Contract\r\n\r\nSigned.\r\n";
    await sender.send({ from: "ben@elsewhere.test", to: "alice@example.test" }, letter);
    sender.close();
    const { http } = await followStopped(server, () => ({
      ...{ epoch: 1, lagSeconds: 2.2 },
      server: { url: "https://mail.example.test", epoch: 1, released: false, heardSecondsAgo: 1 },
    }));
    const page = await (await (await openBrowser()).newContext()).newPage();
    const refused: string[] = [];
    page.on("response", (response) => {
      if (response.status() >= 400) refused.push(`${response.request().method()} ${response.url()}`);
    });
    await page.goto(`${http}/sign-in`);
    const banner = page.getByText("This is a standby, 3 seconds behind.");
    await banner.waitFor();
    await page.getByLabel("Email address").fill("alice@example.test");
    await page.getByLabel("Password").fill(PASSWORD);
    refused.length = 0;
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
    await banner.waitFor();
    expect(await page.getByRole("link", { name: "https://mail.example.test" }).getAttribute("href")).toBe(
      "https://mail.example.test",
    );
    await page.getByText("Contract").first().click();
    await page.getByText("Signed.").last().waitFor();
    expect(refused).toEqual([]);
    await page.context().close();
  }, 120_000);
});
