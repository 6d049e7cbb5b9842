/** The installed app in a real browser: its manifest, opening without a connection, and notifications. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createECDH } from "node:crypto";
import type { BrowserContext, Page } from "playwright-core";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const keys = createECDH("prime256v1");
const GIVEN = {
  endpoint: "https://push.example/a",
  keys: { p256dh: keys.generateKeys("base64url"), auth: Buffer.alloc(16, 1).toString("base64url") },
};
let booted: Booted;
let context: BrowserContext;
let page: Page;
const complaints: string[] = [];

const heading = (name: string) => page.getByRole("heading", { name, level: 1 });
const kept = () =>
  page.evaluate(async () => {
    const [name = "", ...others] = await caches.keys();
    const requests = await (await caches.open(name)).keys();
    return { others: others.length, paths: requests.map(({ url }) => new URL(url).pathname) };
  });

describe.skipIf(!chromiumPresent)(`the installed app${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    await mailer(booted.mx).send(
      { from: "bea@remote.example", to: ALICE },
      `From: Bea <bea@remote.example>\nTo: ${ALICE}\nSubject: Boards\nMessage-ID: <1@x>\n\nText`,
    );
    context = await (await openBrowser()).newContext({ serviceWorkers: "allow", permissions: ["notifications"] });
    // A browser without windows asks nobody, and tests reach no push service of its maker.
    await context.addInitScript((given) => {
      const subscription = { ...given, toJSON: () => given, unsubscribe: async () => true };
      Object.defineProperty(Notification, "permission", { get: () => "default" });
      Notification.requestPermission = async () => "granted";
      PushManager.prototype.subscribe = async () => subscription as unknown as PushSubscription;
    }, GIVEN);
    page = await context.newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    await page.goto(`${booted.http}/mail/inbox`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await heading("Inbox").waitFor();
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  }, 120_000);

  test("has a manifest whose icons are there", async () => {
    const path = await page.locator("link[rel=manifest]").getAttribute("href");
    const manifest = await (await fetch(booted.http + path)).json();
    expect(manifest).toMatchObject({ name: "Mailroom", start_url: "/mail/inbox", display: "standalone", scope: "/" });
    for (const { src, sizes } of [...manifest.icons, { src: "/apple-touch-icon.png", sizes: "180x180" }]) {
      const response = await fetch(booted.http + src);
      expect(response.headers.get("content-type")).toBe("image/png");
      const size = new DataView(await response.arrayBuffer()).getUint32(16);
      expect(`${size}x${size}`).toBe(sizes);
    }
  }, 120_000);

  test("keeps the page and its files, and nothing else", async () => {
    const { others, paths } = await kept();
    expect(others).toBe(0);
    expect(paths).toContain("/");
    expect(paths.filter((path) => path !== "/" && !path.startsWith("/assets/"))).toEqual([]);
    expect(paths.length).toBeGreaterThan(5);
  }, 120_000);

  test("opens without a connection, says so, and goes on when it is back", async () => {
    await context.setOffline(true);
    await page.reload();
    await page.getByText("No connection to the server").first().waitFor();
    await context.setOffline(false);
    await page.getByRole("list", { name: "Conversations" }).getByText("Boards").waitFor();
    const { paths } = await kept();
    expect(paths.filter((path) => path.startsWith("/app"))).toEqual([]);
  }, 120_000);

  test("another version replaces the files", async () => {
    await page.evaluate(async () => {
      await caches.open("older");
      const registration = await navigator.serviceWorker.ready;
      await registration.unregister();
    });
    await page.reload();
    await page.waitForFunction(async () => !(await caches.has("older")));
  }, 120_000);

  test("is notified of the mailboxes that the person chooses, until they turn it off", async () => {
    await page.goto(`${booted.http}/settings/notifications`);
    await page.getByLabel("Show sender and subject").check();
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Turn on" }).click();
    await page.getByRole("status").getByText("This browser will be notified").waitFor();
    const rows = () =>
      booted.core.store.db.$client.query("SELECT endpoint, mailboxes, details FROM push_subscriptions").all();
    expect(rows()).toEqual([
      { endpoint: GIVEN.endpoint, mailboxes: JSON.stringify([booted.owner.mailboxId]), details: 1 },
    ]);
    await page.getByRole("button", { name: "Turn off" }).click();
    await page.getByRole("button", { name: "Turn on" }).waitFor();
    expect(rows()).toEqual([]);
  }, 120_000);

  test("shows what is pushed to it, and leads there", async () => {
    await page.goto(`${booted.http}/mail/inbox`);
    await heading("Inbox").waitFor();
    await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
    const session = await context.newCDPSession(page);
    const registrationId = await new Promise<string>((resolve) => {
      session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
        const found = registrations.find(({ isDeleted }) => !isDeleted);
        if (found) resolve(found.registrationId);
      });
      void session.send("ServiceWorker.enable");
    });
    // Another page has the focus.
    const other = await context.newPage();
    await other.goto("about:blank");
    await other.bringToFront();
    const url = `/mail/sent?mailbox=${booted.owner.mailboxId}`;
    const notifications = [{ title: "Bea Brand", body: "Boards", url, tag: "mail 1" }];
    await session.send("ServiceWorker.deliverPushMessage", {
      origin: booted.http,
      registrationId,
      data: JSON.stringify({ notifications }),
    });
    await page.waitForFunction(async () => {
      const registration = await navigator.serviceWorker.ready;
      const [shown] = await registration.getNotifications();
      return shown?.title === "Bea Brand" && shown.body === "Boards";
    });
    // What the worker tells the page when it is pressed.
    await page.evaluate((open) => {
      navigator.serviceWorker.dispatchEvent(new MessageEvent("message", { data: { open } }));
    }, url);
    await heading("Sent").waitFor();
    await other.close();
    expect(complaints).toEqual([]);
  }, 120_000);
});
