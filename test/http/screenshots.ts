/**
 * Takes the pictures of the README, docs/screenshots/*.webp, of a demo workspace that it starts:
 *
 *   bun test/http/screenshots.ts
 *
 * It needs a browser with fonts for Latin letters, and hides conversations in other scripts, since a machine may lack their
 * fonts.
 */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { closeBrowser, openBrowser } from "../harness/clients/chromium.ts";
import { FROM_SOURCE, serve } from "../harness/servers/process.ts";

const SHOTS = join(import.meta.dir, "../../docs/screenshots");
/** The quality of WebP above which letters look no better. */
const QUALITY = 82;
const WIDE = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 780 };

interface Listed {
  id: string;
  subject: string;
}

const data = mkdtempSync(join(tmpdir(), "mailroom-screenshots-"));
const served = await serve({ data, program: FROM_SOURCE }, "--demo");
const [, key = ""] = /API key +(\S+)/.exec(served.stderr()) ?? [];
const [, email = "", password = ""] = /Sign in +(\S+) +(\S+)/.exec(served.stderr()) ?? [];

async function api<T>(method: string, path: string, body?: object): Promise<T> {
  const answer = await fetch(`${served.http}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${path} was answered ${answer.status}`);
  return (await answer.json()) as T;
}

/** Sends a request as the page would. */
const app = (page: Page, method: string, path: string, body: object) =>
  page.evaluate(
    async ([method, path, body]) => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`/app${path}`, { method: method as string, headers, body: body as string });
      if (!answer.ok) throw new Error(`${path} was answered ${answer.status}`);
      return answer.status === 204 ? undefined : answer.json();
    },
    [method, path, JSON.stringify(body)],
  );

async function shoot(page: Page, name: string): Promise<void> {
  await page.evaluate("document.fonts.ready");
  const session = await page.context().newCDPSession(page);
  const { data: picture } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  await Bun.write(join(SHOTS, `${name}.webp`), Buffer.from(picture, "base64"));
}

/** Leaves the mail that every machine has fonts for. Returns the conversation that an agent has drafted an answer to. */
async function setScene(): Promise<Listed> {
  const { threads } = await api<{ threads: Listed[] }>("GET", "/threads?limit=100");
  for (const { id, subject } of threads) {
    if (/[^\p{Script=Latin}\p{Script=Common}]/u.test(subject))
      await api("PATCH", `/threads/${id}`, { folder: "archive" });
  }
  const asked = threads.find(({ subject }) => subject.startsWith("A lamp"));
  if (!asked) throw new Error("the demo has no such conversation any more");
  return asked;
}

/** Makes a webhook that accepted some deliveries and refused others. */
async function useWebhook(page: Page): Promise<string> {
  let asked = 0;
  const receiver = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response(++asked === 2 ? "the queue is full" : "thank you", { status: asked === 2 ? 503 : 200 }),
  });
  await app(page, "POST", "/me/confirm", { password });
  await app(page, "PATCH", "/settings/server/webhooks.allowNetworks", { value: "127.0.0.0/8" });
  const url = `http://127.0.0.1:${receiver.port}/hooks/mail`;
  const events = ["message.inbound", "message.delivered", "message.bounced"];
  const { id } = (await app(page, "POST", "/settings/webhooks", { url, events })) as { id: string };
  for (const event of ["message.inbound", "message.delivered", "message.bounced"]) {
    await app(page, "POST", `/settings/webhooks/${id}/test`, { event });
  }
  return id;
}

/** Where a program that is on this computer asks to be let in. */
async function consentUrl(): Promise<string> {
  const redirect = "http://localhost:3118/callback";
  const answer = await fetch(`${served.http}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      client_name: "Desk assistant",
      redirect_uris: [redirect],
      token_endpoint_auth_method: "none",
    }),
  });
  const { client_id } = (await answer.json()) as { client_id: string };
  const metadata = await fetch(`${served.http}/.well-known/oauth-protected-resource`);
  const { resource } = (await metadata.json()) as { resource: string };
  const query = new URLSearchParams({
    response_type: "code",
    client_id,
    redirect_uri: redirect,
    code_challenge: createHash("sha256").update("verifier").digest("base64url"),
    code_challenge_method: "S256",
    scope: "read write send",
    state: "state",
    resource,
  });
  return `${served.http}/oauth/authorize?${query}`;
}

async function signIn(context: BrowserContext): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${served.http}/sign-in`);
  await page.getByLabel("Email address").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByLabel("Password").press("Enter");
  await page.getByRole("navigation", { name: "Mail" }).waitFor();
  return page;
}

async function takeAll(): Promise<void> {
  const asked = await setScene();
  const browser = await openBrowser();
  const page = await signIn(await browser.newContext({ viewport: WIDE, deviceScaleFactor: 1.5 }));
  const open = async (subject: string): Promise<void> => {
    await page.getByRole("link").filter({ hasText: subject }).first().click();
    await page.getByRole("article").last().locator("iframe").waitFor();
  };
  await open("Oak boards");
  await shoot(page, "inbox");

  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(`${served.http}/mail/drafts`);
  await page.getByRole("link").filter({ hasText: asked.subject }).first().click();
  await page.getByRole("region", { name: "Draft", exact: true }).waitFor();
  await shoot(page, "draft-of-an-agent");

  await page.setViewportSize(PHONE);
  await page.goto(`${served.http}/mail/inbox`);
  await open("Invoice");
  await shoot(page, "phone");

  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
  await page.goto(`${served.http}/approve`);
  await page.getByRole("list", { name: "Waiting messages" }).getByRole("link").first().click();
  await page.getByRole("region", { name: "What it answers" }).locator("iframe").first().waitFor();
  await shoot(page, "to-approve");

  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.goto(await consentUrl());
    await page.getByRole("button", { name: /^Allow, and go back/ }).waitFor();
    await shoot(page, `consent-${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });

  const webhook = await useWebhook(page);
  await page.goto(`${served.http}/settings/webhooks/${webhook}`);
  await page.getByRole("list", { name: "Deliveries" }).getByText("HTTP 503").waitFor();
  await page.getByRole("region", { name: "Deliveries" }).scrollIntoViewIfNeeded();
  await shoot(page, "webhook");

  await page.goto(`${served.http}/api/docs#sendEmail`);
  await page.getByRole("button", { name: "Copy: Request" }).first().waitFor();
  await shoot(page, "api-reference");
}

mkdirSync(SHOTS, { recursive: true });
try {
  await takeAll();
} finally {
  await closeBrowser();
  await served.kill("SIGTERM");
  rmSync(data, { recursive: true });
}
process.exit();
