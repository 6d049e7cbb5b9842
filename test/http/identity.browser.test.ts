/**
 * Identity in a real browser: a second factor from its QR code, recovery codes, an app password that a mail app uses, the list
 * of sessions. A session that ends loses nothing that the person typed.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import type { Page } from "playwright-core";
import { hashPassword } from "../../src/access/credentials.ts";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import * as developers from "../../src/admin/developers.ts";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { readQr } from "./qr-reader.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const STEP = 30_000;
let booted: Booted;
let page: Page;
let secret: string;
let recoveryCodes: string[];
const complaints: string[] = [];

async function newPage(): Promise<Page> {
  const opened = await (await (await openBrowser()).newContext()).newPage();
  opened.on("pageerror", (error) => complaints.push(error.message));
  opened.on("console", (message) => {
    if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
  });
  opened.on("dialog", (dialog) => void dialog.accept());
  return opened;
}

async function givePassword(to: Page, email = ALICE): Promise<void> {
  await to.getByLabel("Email address").fill(email);
  await to.getByLabel("Password").fill(PASSWORD);
  await to.getByLabel("Password").press("Enter");
}
async function confirm(of: Page): Promise<void> {
  const asked = of.getByRole("dialog", { name: "Confirm that it is you" });
  await asked.getByLabel("Your password").fill(PASSWORD);
  await asked.getByLabel("Your password").press("Enter");
  await asked.waitFor({ state: "hidden" });
}
const inMail = (of: Page) => of.getByRole("navigation", { name: "Mail" }).waitFor();
const section = (name: string) => page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name });
const focused = (of: Page) => of.evaluate("document.activeElement?.getAttribute('name')");
/** Gives the next valid code. */
async function nextCode(): Promise<string> {
  await booted.advance(STEP);
  return computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
}

describe.skipIf(!chromiumPresent)(`identity${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId, userId } = booted.owner;
    const bobId = store.transact(
      (tx) =>
        people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: true }).userId,
    );
    for (const id of [userId, bobId]) await setPassword(booted, id);
    page = await newPage();
  }, 120_000);

  test("the sign-in page works with password managers, shows a failure, and focuses the field to correct", async () => {
    await page.goto(`${booted.http}/settings/second-factor`);
    await page.getByRole("heading", { name: "Sign in to Mailroom" }).waitFor();
    expect(await focused(page)).toBe("email");
    const hints = await page
      .locator("input")
      .evaluateAll((inputs) => inputs.map((input) => input.getAttribute("autocomplete")));
    expect(hints.slice(0, 2)).toEqual(["username", "current-password"]);
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("Email address and password do not match").waitFor();
    expect([await focused(page), await page.getByLabel("Email address").inputValue()]).toEqual(["password", ALICE]);
    await givePassword(page);
    await page.getByRole("heading", { name: "Two-step sign-in" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/settings/second-factor");
  }, 120_000);

  test("a second factor is added from its QR code, with a code and the password", async () => {
    await page.getByRole("button", { name: "Set it up" }).click();
    await page.emulateMedia({ colorScheme: "dark" });
    const scanned = new URL(await readQr(page.getByRole("img", { name: /^QR code/ })));
    secret = scanned.searchParams.get("secret") ?? "";
    expect(await page.getByLabel("Secret", { exact: true }).inputValue()).toBe(secret);
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Code from the app").fill("000000");
    await page.getByLabel("Your password").fill(PASSWORD);
    await page.getByRole("button", { name: "Turn on" }).click();
    await page.getByText("That code is not right").waitFor();
    await page.getByLabel("Code from the app").fill(await nextCode());
    await page.getByRole("button", { name: "Turn on" }).click();
    const list = page.getByRole("region", { name: "Your recovery codes" }).getByRole("listitem");
    await list.first().waitFor();
    recoveryCodes = await list.allTextContents();
    expect(recoveryCodes).toHaveLength(10);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("signing in then asks for a code in a second step, and takes a recovery code instead", async () => {
    const other = await newPage();
    await other.goto(booted.http);
    await givePassword(other);
    const code = other.getByLabel("Code from your authenticator app");
    await code.waitFor();
    expect(await focused(other)).toBe("code");
    expect([await code.getAttribute("autocomplete"), await code.getAttribute("inputmode")]).toEqual([
      "one-time-code",
      "numeric",
    ]);
    expect(await barriers(other)).toEqual([]);
    await code.fill("000000");
    await code.press("Enter");
    await other.getByRole("alert").getByText("do not match").waitFor();
    expect(await focused(other)).toBe("code");
    await code.fill(await nextCode());
    await code.press("Enter");
    await inMail(other);

    await other.context().clearCookies();
    await other.goto(booted.http);
    await givePassword(other);
    await other.getByRole("button", { name: "Use a recovery code" }).click();
    expect(await focused(other)).toBe("code");
    await other.getByLabel("Recovery code").fill((recoveryCodes[0] ?? "").toUpperCase());
    await other.getByRole("button", { name: "Sign in" }).click();
    await inMail(other);
    await other.context().close();
    await page.reload();
    await page.getByText("9 recovery codes are left").waitFor();
  }, 120_000);

  test("an app password is made, shown once, and used by a mail app until it is revoked", async () => {
    await section("Mail apps").click();
    await page.getByText(String(booted.submissions.port)).waitFor();
    await page.getByText(booted.ready.imaps?.split(":")[1] ?? "", { exact: true }).waitFor();
    await page.getByText("It is not signed").waitFor();
    const [profile] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the profile" }).click(),
    ]);
    expect(profile.suggestedFilename()).toBe(`${ALICE}.mobileconfig`);
    const labels = page.getByLabel("Show labels as folders");
    expect(await labels.isChecked()).toBe(false);
    await labels.click();
    await page.getByText("Changed").waitFor();
    await page.reload();
    expect(await labels.isChecked()).toBe(true);
    await page.getByLabel("Name", { exact: true }).fill("Laptop");
    await page.getByRole("button", { name: "Create app password" }).click();
    const password = await page.getByLabel("New app password", { exact: true }).inputValue();
    expect(await barriers(page)).toEqual([]);
    const send = async (pass: string) => {
      const transport = createTransport({
        host: "127.0.0.1",
        port: booted.submissions.port,
        secure: true,
        auth: { user: ALICE, pass },
        tls: { rejectUnauthorized: false },
      });
      try {
        return (await transport.sendMail({ from: ALICE, to: BOB, subject: "Hi", text: "From a mail app" })).response;
      } catch (error) {
        return (error as { response?: string }).response ?? String(error);
      } finally {
        transport.close();
      }
    };
    expect(await send(password)).toStartWith("250 ");
    expect(await send(PASSWORD)).toStartWith("535 5.7.8");
    await page.reload();
    await page.getByText("last used").waitFor();
    expect(await page.getByText(password).count()).toBe(0);
    await page.getByRole("button", { name: "Revoke Laptop…" }).click();
    await page.getByRole("button", { name: "Revoke app password" }).click();
    await page.getByText("None yet.").waitFor();
    expect(await send(password)).toStartWith("535 5.7.8");
  }, 120_000);

  test("sessions have names, and one is ended", async () => {
    const other = await newPage();
    await other.goto(booted.http);
    await givePassword(other);
    await other.getByLabel("Code from your authenticator app").fill(await nextCode());
    await other.getByRole("button", { name: "Sign in" }).click();
    await inMail(other);
    await section("Sessions").click();
    const rows = page.getByRole("list", { name: "Sessions" }).getByRole("listitem");
    await rows.first().waitFor();
    const before = await rows.count();
    expect(await rows.filter({ hasText: "this one" }).count()).toBe(1);
    expect(await rows.first().textContent()).toMatch(/^Chrome on Linux.*From 127\.0\.0\.1/);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Sign out everywhere else" }).click();
    await page.getByText("Signed out everywhere else").waitFor();
    await rows.nth(1).waitFor({ state: "detached" });
    expect([before > 1, await rows.count()]).toEqual([true, 1]);
    await other.reload();
    await other.getByRole("heading", { name: "Sign in to Mailroom" }).waitFor();
    await other.context().close();
  }, 120_000);

  test("changes that outlast the session need password and code again, by keyboard, and show a failure", async () => {
    await section("Mail apps").click();
    await page.getByText("None yet.").waitFor();
    await booted.advance(300_000);
    const name = page.getByLabel("Name", { exact: true });
    await name.fill("Tablet");
    await name.press("Enter");
    const asked = page.getByRole("dialog", { name: "Confirm that it is you" });
    await asked.waitFor();
    expect(await focused(page)).toBe("password");
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("alert").getByText("Confirm with your password").waitFor();
    expect([await asked.count(), await name.inputValue()]).toEqual([0, "Tablet"]);

    await name.press("Enter");
    await asked.waitFor();
    await page.keyboard.type("wrong");
    await page.keyboard.press("Tab");
    expect(await focused(page)).toBe("code");
    await page.keyboard.type(await nextCode());
    await page.keyboard.press("Enter");
    await asked.getByRole("alert").getByText("The password or the code is not right").waitFor();
    expect(await barriers(page)).toEqual([]);
    await asked.getByLabel("Your password").fill(PASSWORD);
    await asked.getByLabel("Code from the app").fill(await nextCode());
    await page.keyboard.press("Enter");
    await page.getByLabel("New app password", { exact: true }).waitFor();
    expect(await asked.count()).toBe(0);
    await name.fill("Watch");
    await page.getByRole("button", { name: "Create app password" }).click();
    await page.getByRole("button", { name: "Revoke Watch…" }).waitFor();
  }, 120_000);

  test("the password is changed with a code, which ends app passwords if asked", async () => {
    await section("Profile").click();
    await page.getByLabel("Current password").fill(PASSWORD);
    await page.getByLabel("Code from the app").fill(await nextCode());
    await page.getByLabel("New password").fill(PASSWORD);
    await page.getByLabel("End my app passwords and API keys as well").check();
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Change password" }).click();
    await page.getByText("Password changed").waitFor();
    await section("Mail apps").click();
    await page.getByText("None yet.").waitFor();
    const { core } = booted.opened;
    const { store } = core;
    const key = { userId: booted.owner.userId, name: "Another", scopes: ["read"] } as const;
    booted.api = booted.apiWith(store.transact((tx) => developers.createKey(core, tx, key)).key);
  }, 120_000);

  test("an admin resets the second factor of a person who lost it", async () => {
    const { core } = booted.opened;
    const { store } = core;
    store.transact((tx) => people.setRole(tx, people.getUserByAddress(core, BOB).id, "owner"));
    const admin = await newPage();
    await admin.goto(`${booted.http}/settings/people`);
    await givePassword(admin, BOB);
    await admin.getByRole("button", { name: "Reset two-step sign-in of Alice…" }).click();
    await admin.getByRole("button", { name: "Reset two-step sign-in", exact: true }).click();
    await confirm(admin);
    await admin.getByText("Two-step sign-in reset").waitFor();
    expect(people.getUserByAddress(core, ALICE).secondFactor).toBe(false);
    await admin.context().close();
  }, 120_000);

  test("after a session ends during writing, the person signs in again and the message is sent", async () => {
    const writer = await newPage();
    await writer.goto(booted.http);
    await givePassword(writer, BOB);
    await inMail(writer);
    await writer.getByRole("button", { name: "Compose" }).click();
    const box = writer.locator("form").filter({ has: writer.getByLabel("Subject") });
    await box.getByLabel("To", { exact: true }).fill(ALICE);
    await box.getByLabel("Subject").fill("Long thoughts");
    await box.getByLabel("Message").fill("Much that nobody types twice");
    await setPassword(booted, people.getUserByAddress(booted.opened.core, BOB).id);
    await box.getByRole("button", { name: /^Send/ }).first().dispatchEvent("click");
    const again = writer.getByRole("dialog", { name: "You were signed out" });
    await again.waitFor();
    expect(await barriers(writer)).toEqual([]);
    expect([await focused(writer), await again.getByLabel("Email address").inputValue()]).toEqual(["password", BOB]);
    await writer.keyboard.press("Escape");
    await again.getByLabel("Password").fill(PASSWORD);
    await again.getByLabel("Password").press("Enter");
    await again.waitFor({ state: "detached" });
    await box.waitFor({ state: "detached" });
    await booted.advance(60_000);
    const sent = await booted.api.get<{ messages: object[] }>("/messages?folder=sent");
    expect(sent.body.messages).toContainEqual(
      expect.objectContaining({ subject: "Long thoughts", bodyText: expect.stringContaining("nobody types twice") }),
    );
    await writer.context().close();
  }, 120_000);

  test("a sign-in link leads only to pages of this app, an unkept session ends with the browser, and signing in in another tab is enough", async () => {
    const visitor = await newPage();
    for (const [to, path] of [
      ["https://evil.example/mail", "/mail/inbox"],
      ["//evil.example/mail", "/mail/inbox"],
      ["/settings/sessions", "/settings/sessions"],
    ] as const) {
      await visitor.goto(`${booted.http}/sign-in?to=${encodeURIComponent(to)}`);
      const keep = visitor.getByLabel("Keep me signed in");
      await keep.setChecked(path !== "/settings/sessions");
      await givePassword(visitor);
      await visitor.waitForURL((url) => url.pathname !== "/sign-in");
      expect(visitor.url()).toBe(`${booted.http}${path}`);
      const [cookie] = await visitor.context().cookies();
      expect((cookie?.expires ?? -1) > 0).toBe(path !== "/settings/sessions");
    }

    await visitor.context().clearCookies();
    // No click of the mouse, here and above: a request of the page may have opened the dialog already.
    await visitor.getByRole("link", { name: "Mail apps", includeHidden: true }).dispatchEvent("click");
    const again = visitor.getByRole("dialog", { name: "You were signed out" });
    await again.waitFor();
    const tab = await visitor.context().newPage();
    await tab.goto(booted.http);
    await givePassword(tab);
    await inMail(tab);
    await visitor.evaluate("window.dispatchEvent(new Event('focus'))");
    await visitor.getByRole("heading", { name: "Settings for the app" }).waitFor();
    expect(await again.count()).toBe(0);
    await visitor.context().close();
  }, 120_000);

  test("a short password from before still signs in, and its person is asked to change it until they have", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId } = booted.owner;
    const cara = { workspaceId, email: "cara@example.test", name: "Cara", role: "member", ownMailbox: true } as const;
    const passwordHash = await hashPassword("old one");
    store.transact((tx) => people.addUser(core, tx, { ...cara, passwordHash }));
    const visitor = await newPage();
    await visitor.goto(booted.http);
    await visitor.getByLabel("Email address").fill(cara.email);
    await visitor.getByLabel("Password").fill("old one");
    await visitor.getByLabel("Password").press("Enter");
    await inMail(visitor);
    const asked = visitor.getByRole("status").filter({ hasText: "Your password is shorter" });
    await asked.waitFor();
    expect(await barriers(visitor)).toEqual([]);
    await asked.getByRole("link", { name: "Profile" }).click();
    await visitor.getByLabel("Current password").fill("old one");
    await visitor.getByLabel("New password").fill("nine char");
    await visitor.getByRole("button", { name: "Change password" }).click();
    await visitor.getByText("give a password of at least 10 characters").waitFor();
    await visitor.getByLabel("New password").fill("of ten characters");
    await visitor.getByRole("button", { name: "Change password" }).click();
    await visitor.getByText("Password changed.").waitFor();
    await visitor.getByRole("link", { name: "Go to your mail" }).click();
    await inMail(visitor);
    await asked.waitFor({ state: "detached" });
    await visitor.context().close();
  }, 120_000);

  test("the browser refused nothing", () => {
    expect(complaints).toEqual([]);
  });
});
