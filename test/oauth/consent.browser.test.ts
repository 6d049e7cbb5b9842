/** A person lets programs in, in a real browser (rules: OAuth requests). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type OAuthWorld, startOAuth } from "../harness/servers/oauth.ts";

let world: OAuthWorld;
let page: Page;
let program: Bun.Server<undefined>;
let callback: string;
let clientId: string;
const complaints: string[] = [];

const urlFor = (fields: Record<string, string | undefined> = {}, id = clientId) =>
  `${world.origin}/oauth/authorize?${world.queryOf(id, { redirect_uri: callback, ...fields })}`;
const fact = (name: string) =>
  page.locator("dt", { hasText: name }).locator("xpath=following-sibling::dd[1]").textContent();
const letIn = () => page.getByRole("button", { name: /^Allow, and go back/ });

async function signIn(): Promise<void> {
  await page.getByLabel("Email address").fill("alice@example.test");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByLabel("Password").press("Enter");
}
async function givePassword(code?: string): Promise<void> {
  const asked = page.getByRole("dialog", { name: "Confirm that it is you" });
  await asked.getByLabel("Your password").fill(PASSWORD);
  if (code !== undefined) await asked.getByLabel("Code from the app").fill(code);
  await asked.getByRole("button", { name: "Confirm" }).click();
}

describe.skipIf(!chromiumPresent)(`consent${chromiumNote}`, () => {
  beforeAll(async () => {
    program = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch({ url }) {
        const { pathname, searchParams } = new URL(url);
        const body =
          pathname === "/frame"
            ? `<iframe src="${searchParams.get("of")?.replaceAll("&", "&amp;")}"></iframe>`
            : "<h1>Back</h1>";
        return new Response(body, { headers: { "content-type": "text/html" } });
      },
    });
    callback = `http://127.0.0.1:${program.port}/callback`;
    world = await startOAuth();
    clientId = (await world.register({ client_name: "Helper", redirect_uris: [callback] })).body.client_id;
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
  }, 120_000);
  afterAll(() => program?.stop(true));

  test("a person who is not signed in signs in first, and is shown who asks", async () => {
    await page.goto(urlFor({ state: "1e5" }));
    await page.getByRole("heading", { name: "Sign in to Mailroom" }).waitFor();
    expect(await page.getByText("Helper").count()).toBe(0);
    await signIn();
    await page.getByRole("heading", { name: "Give this program access to your mail?" }).waitFor();
    expect(await fact("It calls itself")).toContain("Helper");
    expect(await fact("It calls itself")).toContain("not verified");
    expect(await fact("Its host")).toContain("it registered itself");
    // Of a name on this computer nothing is verified.
    expect(await fact("It sends you back to")).toBe(`A program on this computer, at 127.0.0.1:${program.port}`);
    expect(await fact("You are")).toContain("alice@example.test");
    await page.getByText("Any program on this device can use this name").waitFor();
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("reading and drafting are suggested, with sends held; the scopes are sentences", async () => {
    const ticked = await page
      .locator("input[name=scopes]")
      .evaluateAll((boxes) => boxes.map((box) => [box.getAttribute("value"), (box as { checked?: boolean }).checked]));
    expect(ticked).toEqual([
      ["read", true],
      ["send", false],
      ["write", true],
    ]);
    await page.getByText("see mailboxes, conversations, messages and attachments, and search").waitFor();
    await page.getByText("Everything it sends waits for approval.").waitFor();
  }, 120_000);

  test("with the mailboxes that they choose and their password they let it in", async () => {
    await page.getByRole("combobox", { name: "Mailboxes" }).selectOption("some");
    await page.getByLabel("alice@example.test").check();
    await letIn().click();
    await givePassword();
    await page.getByRole("heading", { name: "Back" }).waitFor();
    const back = new URL(page.url());
    expect(back.origin + back.pathname).toBe(callback);
    // As the program gave it, though it looks like a number.
    expect(back.searchParams.get("state")).toBe("1e5");
    expect(back.searchParams.get("iss")).toBe(world.origin);
    const code = back.searchParams.get("code") ?? "";
    const { status, body } = await world.exchange(clientId, code, { redirect_uri: callback });
    expect([status, body.scope]).toEqual([200, "read write"]);
    expect(await world.tryToken(body.access_token)).toBe(200);
    const grant = (await world.keys()).find(({ client }) => client);
    expect(grant?.policy).toEqual({ mailboxes: [world.owner.mailboxId], send: "hold" });
  }, 120_000);

  test("the grant stands among the keys, with its program and host", async () => {
    await page.goto(`${world.origin}/settings/keys`);
    const row = page.getByRole("list", { name: "API keys" }).getByRole("listitem").filter({ hasText: "Helper" });
    await row
      .getByText(`Given over OAuth to a program that calls itself “Helper”, of 127.0.0.1:${program.port}`)
      .waitFor();
    await row.getByRole("button", { name: "Pause Helper" }).click();
    await row.getByText("paused").waitFor();
    await row.getByRole("link", { name: "Helper" }).click();
    await page.getByRole("heading", { name: "Helper" }).waitFor();
    await page.getByText("Given over OAuth").waitFor();
  }, 120_000);

  test("its access is removed beside the sessions", async () => {
    await page.goto(`${world.origin}/settings/sessions`);
    await page.getByRole("button", { name: "Remove the access of Helper" }).click();
    await page.getByRole("heading", { name: "Programs" }).waitFor({ state: "hidden" });
    expect((await world.keys()).find(({ client }) => client)?.revokedAt).not.toBeNull();
  }, 120_000);

  test("they refuse", async () => {
    await page.goto(urlFor());
    await page.getByRole("button", { name: "Refuse" }).click();
    await page.getByRole("heading", { name: "Back" }).waitFor();
    expect(new URL(page.url()).searchParams.get("error")).toBe("access_denied");
  }, 120_000);

  test("a faulty request leads nowhere by itself, and back by a button; a false address nowhere at all", async () => {
    await page.goto(urlFor({ response_type: "token" }));
    await page.getByText("unsupported_response_type").waitFor();
    expect(new URL(page.url()).pathname).toBe("/oauth/authorize");
    expect(await letIn().count()).toBe(0);
    await page.getByRole("button", { name: /^Go back/ }).click();
    await page.getByRole("heading", { name: "Back" }).waitFor();
    expect(new URL(page.url()).searchParams.get("error")).toBe("unsupported_response_type");
    await page.goto(urlFor({ redirect_uri: "https://evil.example/" }));
    await page.getByText("Nothing was sent to the program").waitFor();
    expect(await page.getByRole("button").count()).toBe(0);
    expect(await page.getByText("evil.example").count()).toBe(0);
  }, 120_000);

  test("no page frames it (clickjacking)", async () => {
    await page.goto(`http://127.0.0.1:${program.port}/frame?of=${encodeURIComponent(urlFor())}`);
    const [, frame] = page.frames();
    expect(await frame?.locator("body").textContent()).not.toContain("Give this program");
    expect(await frame?.getByRole("button").count()).toBe(0);
    complaints.length = 0;
  }, 120_000);

  test("with a second factor, the proof takes a code", async () => {
    const { body } = await world.alice.send<{ secret: string }>("POST", "/me/second-factor/new");
    const code = () => computeTotpCode(readTotpSecret(body.secret) as Uint8Array, totpStepAt(world.runtime.now()));
    const added = await world.alice.send("POST", "/me/second-factor", {
      secret: body.secret,
      code: code(),
      password: PASSWORD,
    });
    expect(added.status).toBeLessThan(300);
    // Adding it ended the other sessions. Each code counts once.
    await world.advance(30_000);
    await page.goto(urlFor());
    await signIn();
    await page.getByLabel("Code from your authenticator app").fill(code());
    await page.getByRole("button", { name: "Sign in" }).click();
    await letIn().click();
    await world.advance(30_000);
    await givePassword(code());
    await page.getByRole("heading", { name: "Back" }).waitFor();
    expect(new URL(page.url()).searchParams.get("code")).not.toBeNull();
  }, 120_000);

  test("the browser complained of nothing", () => {
    expect(complaints).toEqual([]);
  });
});
