/** The doctor in a real browser: started by keyboard, during and after the examination, on a phone, in the dark scheme. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import type { Finding } from "../../src/doctor/check.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const TODO = "Ask the provider to open port 25: mailroom settings set smtp.relay smtps://USER:PASSWORD@HOST";
const BLOCKED: Finding = { id: "outbound", name: "Outbound mail", state: "bad", detail: "no answer", todo: TODO };
const LOW: Finding = { id: "disk", name: "Disk space", state: "warning", detail: "1.0 GB of 50.0 GB free" };
const KEPT: Finding = { id: "clock", name: "Clock", state: "ok", detail: "it follows a time server" };
const UNASKED: Finding = { id: "ptr", name: "Reverse DNS", state: "unknown", detail: "no resolver answers" };

let booted: Booted;
let page: Page;
let answer = Promise.withResolvers<Finding[]>();

/** Reads the lines of each entry of a list. */
const texts = async (list: string) =>
  (await page.getByRole("list", { name: list, exact: true }).getByRole("listitem").allInnerTexts()).map((text) =>
    text.replace(/\n+/g, "\n"),
  );
const widerThanScreen = () =>
  page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth");

describe.skipIf(!chromiumPresent)(`the doctor in the settings${chromiumNote}`, () => {
  beforeAll(async () => {
    const checks = {
      disk: () => [LOW],
      clock: () => [KEPT],
      "reverse-dns": () => [UNASKED],
      outbound: () => answer.promise,
    };
    booted = await boot({}, undefined, { checks });
    await setPassword(booted, booted.owner.userId);
    page = await (await (await openBrowser()).newContext()).newPage();
    await page.goto(`${booted.http}/sign-in?to=/settings/doctor`);
    await page.getByLabel("Email address").fill("alice@example.test");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("heading", { name: "Doctor" }).waitFor();
  }, 120_000);

  test("the page shows the state before, during and after the examination", async () => {
    await page.getByText("No checks have run yet.").waitFor();
    await page.getByText(/daily checks have not run yet/).waitFor();
    await page.getByRole("button", { name: "Run checks" }).focus();
    await page.keyboard.press("Enter");
    await page
      .getByRole("status")
      .getByText(/^Running checks/)
      .waitFor();
    await page.getByText("3 of 4 checks done; waiting for outbound").waitFor();
    const progress = page.getByRole("progressbar", { name: "Checks done" });
    expect([await progress.getAttribute("value"), await progress.getAttribute("max")]).toEqual(["3", "4"]);
    expect(await barriers(page)).toEqual([]);
    // Another page that opens meanwhile shows the same examination.
    await page.reload();
    await page.getByText("3 of 4 checks done; waiting for outbound").waitFor();
    answer.resolve([BLOCKED]);
    await page
      .getByRole("status")
      .getByText(/^1 thing needs attention, 1 warning\. Checked /)
      .waitFor();
    await progress.waitFor({ state: "detached" });
    // The worst finding comes first, with its remedy.
    expect(await texts("Needs attention")).toEqual([
      `Outbound mail bad\nno answer\n${TODO}`,
      "Disk space warning\n1.0 GB of 50.0 GB free",
    ]);
    expect(await texts("Passed")).toEqual([
      "Reverse DNS not known\nno resolver answers",
      "Clock ok\nit follows a time server",
    ]);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("the button keeps the focus during the examination, and starts no second one", async () => {
    answer = Promise.withResolvers();
    await page.getByRole("button", { name: "Run checks" }).focus();
    await page.keyboard.press("Enter");
    const button = page.getByRole("button", { name: "Checking…" });
    await button.waitFor();
    expect(await button.getAttribute("aria-disabled")).toBe("true");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Checking…");
    answer.resolve([KEPT]);
    await page.getByRole("button", { name: "Run checks" }).waitFor();
    await page
      .getByRole("status")
      .getByText(/^1 warning\. Checked /)
      .waitFor();
  }, 120_000);

  test("on a phone and in the dark scheme nothing is cut off, and there are no barriers", async () => {
    await booted.advance(3_600_000);
    await page.setViewportSize({ width: 390, height: 780 });
    await page.emulateMedia({ colorScheme: "dark" });
    await page.reload();
    await page.getByText(/Last daily checks: .*, 0 bad, 1 warning\./).waitFor();
    expect(await widerThanScreen()).toBe(false);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);
});
