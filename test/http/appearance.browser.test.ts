/** Every page of the app in a real browser: in light and dark colours, and at 200 % zoom. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page, Request } from "playwright-core";
import { barriers, covered } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { ALICE, bootExt, type ExtWorld } from "../harness/servers/ext-world.ts";
import { until } from "../harness/until.ts";

const WIDE = { width: 1280, height: 800 };
/** Size of such a window at 200 %, in CSS pixels. */
const ZOOMED = { width: 640, height: 400 };

let world: ExtWorld;
let page: Page;
let threadId: string;
let heldId: string;
let keyId: string;

interface Shown {
  name: string;
  path: () => string;
  heading: string;
  /** Steps to do on the page. */
  more?: () => Promise<unknown>;
}

const settings = (path: string, heading: string): Shown => ({
  name: `settings: ${heading}`,
  path: () => `/settings/${path}`,
  heading,
});

const PAGES: Shown[] = [
  { name: "a list", path: () => "/mail/inbox", heading: "Inbox" },
  { name: "a conversation", path: () => `/mail/inbox/${threadId}`, heading: "Oak boards" },
  {
    name: "a reply",
    path: () => `/mail/inbox/${threadId}`,
    heading: "Oak boards",
    async more() {
      await page.keyboard.press("r");
      await page.getByRole("region", { name: "Reply" }).getByLabel("Message").waitFor();
    },
  },
  { name: "a search", path: () => "/mail/search?q=oak", heading: "Search" },
  { name: "what waits for approval", path: () => "/approve", heading: "To approve" },
  { name: "a message that waits", path: () => `/approve/${heldId}`, heading: "Held" },
  settings("profile", "Profile"),
  settings("writing", "Signature and templates"),
  settings("second-factor", "Two-step sign-in"),
  settings("app-passwords", "Mail apps"),
  settings("notifications", "Notifications"),
  settings("sessions", "Sessions"),
  settings("rules", "Rules and absence"),
  settings("workspace", "Workspace"),
  settings("people", "People"),
  settings("mailboxes", "Mailboxes"),
  settings("domains", "Domains"),
  settings("outbound", "Outbound mail"),
  settings("keys", "API keys"),
  settings("webhooks", "Webhooks"),
  settings("server", "Limits and server"),
  settings("doctor", "Doctor"),
  settings("workspaces", "Workspaces"),
  { name: "the page of a key", path: () => `/settings/keys/${keyId}`, heading: "Agent" },
];

/** Requests of the page that are not answered yet, but for the stream of news. */
const asked = new Set<Request>();

async function open({ path, heading, more }: Shown): Promise<void> {
  await page.goto(world.http + path());
  await page.getByRole("heading", { name: heading }).first().waitFor();
  await until(() => asked.size === 0);
  await more?.();
}

/** CSS pixels by which the page is wider than the window, so that reading it takes scrolling in both directions. */
const sideways = () => page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

/** Names the buttons that are beside the window, where nobody can scroll to them. */
function beside(buttons: Element[]): string[] {
  const scrolls = (element: Element | null): boolean =>
    element !== null &&
    ((element.scrollWidth > element.clientWidth && /auto|scroll/.test(getComputedStyle(element).overflowX)) ||
      scrolls(element.parentElement));
  return buttons
    .filter((button) => button.checkVisibility() && !scrolls(button))
    .filter((button) => {
      const { left, right } = button.getBoundingClientRect();
      return left < -1 || right > innerWidth + 1;
    })
    .map((button) => button.textContent || button.getAttribute("aria-label") || "");
}

describe.skipIf(!chromiumPresent)(`the pages of the app${chromiumNote}`, () => {
  beforeAll(async () => {
    world = await bootExt({}, zone({ "remote.example": "SERVFAIL" }));
    await setPassword(world, world.owner.userId);
    ({ threadId } = await world.receive(ALICE, "Oak boards", { text: "They come on Friday." }));
    await world.receive(ALICE, "Lamps");
    const { body } = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", {
      ...{ name: "Agent", scopes: ["read", "send"], policy: { send: "hold" } },
    });
    keyId = body.id;
    const held = { from: ALICE, to: "bob@remote.example", subject: "Held", text: "It waits." };
    heldId = (await world.apiWith(body.key).post<{ emailId: string }>("/send", held)).body.emailId;
    await world.api.post("/api/admin/v1/webhooks", { url: "https://hook.example/a", events: ["message.inbound"] });
    page = await (await (await openBrowser()).newContext({ viewport: WIDE })).newPage();
    page.on("request", (request) => {
      if (!new URL(request.url()).pathname.endsWith("/live")) asked.add(request);
    });
    page.on("requestfinished", (request) => asked.delete(request));
    page.on("requestfailed", (request) => asked.delete(request));
    await page.goto(`${world.http}/sign-in`);
  }, 120_000);

  test("signing in", async () => {
    await page.getByLabel("Email address").waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect([colorScheme, await barriers(page)]).toEqual([colorScheme, []]);
    }
    await page.setViewportSize(ZOOMED);
    expect(await sideways()).toBe(0);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("list", { name: "Conversations" }).waitFor();
  }, 120_000);

  test.each(PAGES.map((shown) => [shown.name, shown] as const))(
    "%s",
    async (_, shown) => {
      await page.setViewportSize(WIDE);
      await open(shown);
      expect(await covered(page)).toEqual([]);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect([colorScheme, await barriers(page)]).toEqual([colorScheme, []]);
      }
      await page.setViewportSize(ZOOMED);
      expect(await sideways()).toBe(0);
      expect(await barriers(page)).toEqual([]);
      expect(await page.getByRole("button").evaluateAll(beside)).toEqual([]);
    },
    120_000,
  );
});
