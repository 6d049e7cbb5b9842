/** A session's cookie in a real browser, against scripts, plain HTTP and pages of other origins. */
import { afterAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";

async function signIn(page: Page, origin: string): Promise<void> {
  await page.goto(`${origin}/sign-in`);
  await page.getByLabel("Email address").fill(ALICE);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByLabel("Password").press("Enter");
  await page.getByRole("navigation", { name: "Mail" }).waitFor();
}

/** Another origin of the same site (the port is no part of a site): a browser sends it even SameSite=Strict cookies. */
const neighbours: { stop(closing: boolean): unknown }[] = [];
afterAll(async () => {
  for (const server of neighbours.splice(0)) await server.stop(true);
});

describe.skipIf(!chromiumPresent)(`a session's cookie${chromiumNote}`, () => {
  test("is hidden from scripts, and pages of another port cannot use it for changes", async () => {
    const booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const evil = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () =>
        new Response(
          `<form id="f" method="post" action="${booted.http}/app/sign-out" enctype="text/plain"><input name="x"></form>`,
          { headers: { "content-type": "text/html" } },
        ),
    });
    neighbours.push(evil);
    const page = await (await (await openBrowser()).newContext()).newPage();
    await signIn(page, booted.http);
    expect(await page.evaluate("document.cookie")).toBe("");

    await page.goto(`http://127.0.0.1:${evil.port}/`);
    const asked = await page.evaluate(`Promise.all([
      fetch("${booted.http}/app/me", { credentials: "include" }),
      fetch("${booted.http}/app/sign-out", { method: "POST", credentials: "include", mode: "no-cors" }),
      fetch("${booted.http}/app/sessions", { method: "DELETE", credentials: "include" }),
    ].map((answer) => answer.then(() => "answered", () => "refused")))`);
    expect(asked).toEqual(["refused", "refused", "refused"]);
    const [posted] = await Promise.all([
      page.waitForResponse(`${booted.http}/app/sign-out`),
      page.waitForURL(`${booted.http}/app/sign-out`),
      page.evaluate("document.getElementById('f').submit()"),
    ]);
    expect(posted.status()).toBe(403);
    await page.goto(booted.http);
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
    await page.context().close();
  }, 120_000);

  test("under https is sent over TLS to this host alone", async () => {
    const booted = await boot({ MAILROOM_HTTPS: "127.0.0.1:0", MAILROOM_BASE_URL: "https://mail.example.test" });
    await setPassword(booted, booted.owner.userId);
    const page = await (await (await openBrowser()).newContext({ ignoreHTTPSErrors: true })).newPage();
    await signIn(page, `https://${booted.ready.https}`);
    expect(await page.context().cookies()).toEqual([
      expect.objectContaining({
        name: "__Host-mailroom",
        path: "/",
        domain: "127.0.0.1",
        secure: true,
        httpOnly: true,
        sameSite: "Strict",
      }),
    ]);
    await page.context().close();
  }, 120_000);
});
