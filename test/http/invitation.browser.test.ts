/**
 * Links to choose a password and locks in a real browser: an owner makes a link, whoever it is for chooses a password and is in;
 * a reset keeps the second factor; a lock ends the page that is open.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import * as people from "../../src/admin/people.ts";
import { barriers } from "../harness/clients/barriers.ts";
import {
  confirm,
  confirmIn,
  PASSWORD,
  page as pageOf,
  setPassword,
  signInOnly,
} from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const BOB = "bob@example.test";
const CHOSEN = "a password of my own";
let booted: Booted;
let alice: Page;
let bob: Page;
const asked: string[] = [];
const complaints: string[] = [];

async function newPage(): Promise<Page> {
  const opened = await (await (await openBrowser()).newContext()).newPage();
  opened.on("pageerror", (error) => complaints.push(error.message));
  opened.on("console", (message) => {
    if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
  });
  opened.on("request", (request) => asked.push(`${request.url()} ${request.headers().referer ?? ""}`));
  return opened;
}
const press = (name: string) => alice.getByRole("button", { name, exact: true }).click();
const openBobsPart = () => alice.getByText("Password and access of Bob", { exact: true }).click();
/** The path and token of the link that the page shows. */
async function shownLink(): Promise<string> {
  const link = await alice.getByLabel("Link for Bob", { exact: true }).inputValue();
  return link.slice(link.indexOf("/password#"));
}
const inMail = () => bob.getByRole("navigation", { name: "Mail" }).waitFor();

describe.skipIf(!chromiumPresent)(`links and locks${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    [alice, bob] = [await newPage(), await newPage()];
    await alice.goto(`${booted.http}/sign-in?to=/settings/people`);
    await alice.getByLabel("Email address").fill("alice@example.test");
    await alice.getByLabel("Password").fill(PASSWORD);
    await alice.getByLabel("Password").press("Enter");
    await alice.getByRole("button", { name: "Add a person" }).waitFor();
    await confirmIn(alice);
  }, 120_000);

  test("a person is added, and chooses a password with the link that is shown", async () => {
    await press("Add a person");
    await alice.getByLabel("Name", { exact: true }).fill("Bob");
    await alice.getByLabel("Email address").fill(BOB);
    await press("Add person");
    const path = await shownLink();
    const token = path.slice(path.indexOf("#") + 1);
    expect(await barriers(alice)).toEqual([]);

    await bob.goto(`${booted.http}/password`);
    await bob.getByRole("alert").getByText("Open the whole link that you were given.").waitFor();
    await bob.goto("about:blank");
    await bob.goto(booted.http + path);
    await bob.getByRole("heading", { name: "Welcome, Bob" }).waitFor();
    expect([bob.url(), await bob.getByLabel("Email address").inputValue()]).toEqual([`${booted.http}/password`, BOB]);
    expect(await barriers(bob)).toEqual([]);
    await bob.getByLabel("New password").fill("short");
    await bob.getByRole("button", { name: "Set password and sign in" }).click();
    await bob.getByText("give a password of at least 10 characters").waitFor();
    await bob.getByLabel("New password").fill(CHOSEN);
    await bob.getByRole("button", { name: "Set password and sign in" }).click();
    await inMail();
    expect(asked.filter((line) => line.includes(token))).toEqual([]);
    expect(asked.filter((line) => !line.startsWith(booted.http) && !/^(?:blob|data):/.test(line))).toEqual([]);
    expect(JSON.stringify(booted.lines)).not.toContain(token);

    await bob.goto("about:blank");
    await bob.goto(booted.http + path);
    await bob.getByRole("alert").getByText("This link no longer works").waitFor();
    expect(await bob.getByLabel("New password").count()).toBe(0);
  }, 120_000);

  test("a reset keeps the second factor: the code is asked for, and nothing else again", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const { id } = people.getUserByAddress(core, BOB);
    await setPassword(booted, id);
    const phone = await signInOnly(booted, BOB);
    await confirm(phone);
    const { secret } = (await phone.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = () => computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
    await phone.send("POST", "/me/second-factor", { secret, code: code(), password: PASSWORD });
    await booted.advance(30_000);

    await alice.reload();
    await openBobsPart();
    await confirmIn(alice);
    await press("Make a link for Bob");
    const path = await shownLink();
    await bob.goto("about:blank");
    await bob.goto(booted.http + path);
    await bob.getByRole("heading", { name: "Choose a password" }).waitFor();
    await bob.getByLabel("New password").fill(`${CHOSEN}, again`);
    await bob.getByRole("button", { name: "Set password and sign in" }).click();
    expect(await bob.getByLabel("Password", { exact: true }).count()).toBe(0);
    await bob.getByLabel("Code from your authenticator app").fill(code());
    await bob.getByRole("button", { name: "Sign in" }).click();
    await inMail();
    expect((await phone.get("/me")).status).toBe(401);
    expect(store.db.$client.query("SELECT * FROM password_links").all()).toEqual([]);
  }, 120_000);

  test("a lock ends the page that is open, lists what else it ended, and is lifted", async () => {
    await inMail();
    await alice.reload();
    await openBobsPart();
    await confirmIn(alice);
    await press("Lock Bob…");
    await press("Lock Bob");
    await alice
      .getByRole("list", { name: "Ended with the lock of Bob" })
      .getByText("Signed out: Chrome on Linux")
      .waitFor();
    await alice.getByText("locked", { exact: true }).waitFor();
    expect(await barriers(alice)).toEqual([]);
    // By the next look at changes, which is long before the next heartbeat.
    await booted.advance(1_000);
    await bob.getByRole("dialog", { name: "You were signed out" }).waitFor();
    const visitor = pageOf(booted);
    const password = `${CHOSEN}, again`;
    expect((await visitor.send("POST", "/sign-in", { email: BOB, password })).status).toBe(401);

    await press("Unlock Bob");
    await alice.getByText("Unlocked", { exact: true }).waitFor();
    expect((await visitor.send("POST", "/sign-in", { email: BOB, password })).body).toEqual({ next: "code" });
    expect(complaints).toEqual([]);
  }, 120_000);
});
