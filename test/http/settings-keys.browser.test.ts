/** API keys in the settings, in a real browser: purposes, policies, pauses of one key and of all. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as developers from "../../src/admin/developers.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { confirmIn, PASSWORD, setPassword, signInOnly } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

let world: ExtWorld;
let page: Page;
/** Problems that the browser reported: script errors, and violations of the policy. */
const complaints: string[] = [];

async function signIn(options: object = {}): Promise<Page> {
  const opened = await (await (await openBrowser()).newContext(options)).newPage();
  opened.on("pageerror", (error) => complaints.push(error.message));
  opened.on("console", (message) => {
    if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
  });
  await opened.goto(`${world.http}/sign-in?to=/settings/keys`);
  await opened.getByLabel("Email address").fill(ALICE);
  await opened.getByLabel("Password").fill(PASSWORD);
  await opened.getByLabel("Password").press("Enter");
  await opened.getByRole("heading", { name: "API keys" }).waitFor();
  return opened;
}

const keyOf = (name: string) =>
  developers.listKeys(world.opened.core, world.owner.workspaceId).find((key) => key.name === name);
const button = (name: string | RegExp) => page.getByRole("button", { name, exact: true });
const row = (name: string) =>
  page.getByRole("list", { name: "API keys" }).getByRole("listitem").filter({ hasText: name });
/** The sentences below the form of a policy. */
const said = () => page.getByRole("status").filter({ hasText: /^(It |No |Nothing|Everything)/ });

describe.skipIf(!chromiumPresent)(`API keys in the settings${chromiumNote}`, () => {
  beforeAll(async () => {
    world = await bootExt();
    await setPassword(world, world.owner.userId);
    const past = {
      userId: world.owner.userId,
      name: "Past",
      scopes: ["read"],
      policy: { expiresAt: "2020-01-07T08:00:00Z" },
    };
    world.core.store.transact((tx) => developers.createKey(world.opened.core, tx, past as never));
    page = await signIn();
  }, 120_000);

  test("a key that has expired says so", async () => {
    await row("Past").getByText("expired", { exact: true }).waitFor();
    expect(await row("Past").getByText("revoked", { exact: true }).count()).toBe(0);
  }, 120_000);

  test("a purpose proposes scopes and policy, which read as sentences and can be changed", async () => {
    await page.getByRole("radio", { name: /^Answering agent/ }).check();
    await said().getByText("It may write to people who took part in the conversation.").waitFor();
    expect(await page.getByRole("checkbox", { name: /^send/ }).isChecked()).toBe(true);
    expect(await page.getByRole("checkbox", { name: /^approve/ }).isChecked()).toBe(false);
    await page.getByRole("radio", { name: /^Reading assistant/ }).check();
    await said().getByText("No further restrictions.").waitFor();
    expect(await page.getByRole("checkbox", { name: /^send/ }).isChecked()).toBe(false);
    await page.getByRole("radio", { name: /^Answering agent/ }).check();
    await page.getByLabel("Name", { exact: true }).fill("Agent");
    await page.getByRole("combobox", { name: "Mailboxes" }).selectOption("Only these");
    await page.getByRole("checkbox", { name: MAX }).check();
    await page.getByLabel("Addresses, and domains").fill("bob@remote.example @partner.example");
    await page.getByLabel("Most recipients in 24 hours").fill("5");
    await page.getByLabel("Allowed networks").fill("10.0.0.0/33");
    await said().getByText(`It reaches only ${MAX}.`).waitFor();
    await said().getByText("everybody at partner.example").waitFor();
    expect(await barriers(page)).toEqual([]);
    // The proof of identity is asked for by the server.
    await button("Create key").click();
    await page.getByRole("dialog").getByLabel("Your password").fill(PASSWORD);
    await button("Confirm").click();
    await page
      .getByRole("alert")
      .getByText(/networks/)
      .waitFor();
    await page.getByLabel("Allowed networks").fill("127.0.0.0/8");
    await button("Create key").click();
    await page.getByLabel("New API key", { exact: true }).waitFor();
    expect(keyOf("Agent")).toMatchObject({
      scopes: ["read", "send", "write"],
      policy: {
        mailboxes: [world.maxMailboxId],
        recipients: ["thread", "bob@remote.example", "@partner.example"],
        otherwise: "hold",
        recipientsPerDay: 5,
        networks: ["127.0.0.0/8"],
      },
    });
    await row("Agent").getByText("It writes to at most 5 recipients in 24 hours.").waitFor();
  }, 120_000);

  test("a key's policy is replaced; giving more takes the password again", async () => {
    await row("Agent").getByRole("link", { name: "Agent" }).click();
    await page.getByRole("heading", { name: "Agent" }).waitFor();
    await button("Change policy").click();
    await page.getByRole("combobox", { name: "Sending", exact: true }).selectOption("Everything needs approval");
    await button("Save policy").click();
    await page.getByText("Policy changed").waitFor();
    expect(keyOf("Agent")?.policy).toMatchObject({ send: "hold", recipientsPerDay: 5 });
    await world.advance(10 * 60_000);
    await button("Change policy").click();
    await page.getByRole("combobox", { name: "Recipients" }).selectOption("Anybody");
    await page.getByLabel("Most recipients in 24 hours").fill("");
    await said().getByText("Everything it sends waits for approval.").waitFor();
    await button("Save policy").click();
    await page.getByRole("dialog").getByLabel("Your password").fill(PASSWORD);
    const saved = page.waitForResponse((answer) => answer.request().method() === "PATCH" && answer.ok());
    await button("Confirm").click();
    await saved;
    expect(keyOf("Agent")?.policy).toEqual({
      mailboxes: [world.maxMailboxId],
      send: "hold",
      networks: ["127.0.0.0/8"],
    });
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("somebody else's key is not given more", async () => {
    await page.goto(`${world.http}/settings/keys/${world.maxKeyId}`);
    await button("Change policy").click();
    await page.getByRole("combobox", { name: "Sending", exact: true }).selectOption("Everything needs approval");
    await button("Save policy").click();
    await page.getByText("Policy changed").waitFor();
    await button("Change policy").click();
    await page.getByRole("combobox", { name: "Sending", exact: true }).selectOption("Sends without approval");
    await button("Save policy").click();
    await page
      .getByRole("alert")
      .getByText(/restrict the key of somebody else further/)
      .waitFor();
    expect(keyOf("Max's tests")?.policy).toEqual({ send: "hold" });
  }, 120_000);

  test("one key is paused and resumed", async () => {
    const used = async () => (await world.asMax.get("/mailboxes")).status;
    await button("Pause Max's tests").click();
    await page.getByText("paused", { exact: true }).waitFor();
    expect(await used()).toBe(403);
    await page.getByRole("link", { name: "All API keys" }).click();
    await row("Max's tests").getByRole("button", { name: "Resume Max's tests" }).click();
    await row("Max's tests").getByRole("button", { name: "Pause Max's tests" }).waitFor();
    expect(await used()).toBe(200);
  }, 120_000);

  test("its journal tells what a key did, and an undo first tells what it would take back", async () => {
    const { core } = world.opened;
    const { store } = core;
    const { id, key } = store.transact((tx) =>
      developers.createKey(core, tx, {
        ...{ userId: world.owner.userId, name: "Tidier", scopes: ["read", "send", "write"] },
        policy: { recipients: [MAX] },
      }),
    );
    const tidier = world.apiWith(key);
    const threads: string[] = [];
    for (const subject of ["Oak boards", "An invoice", "A question"]) {
      threads.push((await world.receive(ALICE, subject)).threadId);
    }
    const [oak = "", invoice = "", question = ""] = threads;
    await tidier.patch(`/threads/${oak}`, { folder: "trash" });
    await tidier.patch(`/threads/${invoice}`, { starred: true, addLabels: ["Bills"] });
    await tidier.patch(`/threads/${question}`, { starred: true });
    await tidier.post("/send", { from: ALICE, to: MAX, subject: "Done", text: "Done" });
    await tidier.post("/send", { from: ALICE, to: "eve@evil.example", subject: "Out", text: "Out" });
    // A person confirms one of its changes.
    await world.server.settled();
    const alice = await signInOnly(world, ALICE);
    await alice.send("POST", "/threads/change", { ids: [question], starred: true });

    await page.goto(`${world.http}/settings/keys/${id}`);
    const entries = page.getByRole("list", { name: "Journal" }).locator(":scope > li");
    await entries.filter({ hasText: "Sent a message to 1 recipient." }).waitFor();
    expect(await entries.filter({ hasText: "Changed a conversation." }).count()).toBe(3);
    await page.getByRole("combobox", { name: "What", exact: true }).selectOption("Refused by its policy");
    await entries.filter({ hasText: "Changed a conversation." }).first().waitFor({ state: "detached" });
    await entries.getByText("Would have sent a message, but its policy does not allow it.").waitFor();
    await page.getByRole("combobox", { name: "Outcome", exact: true }).selectOption("Waits for approval");
    await page.getByText("No entries.").waitFor();
    await page.getByRole("combobox", { name: "Outcome", exact: true }).selectOption("Any outcome");
    await page.getByRole("combobox", { name: "What", exact: true }).selectOption("Changes");
    await entries
      .filter({ hasText: "Changed a conversation." })
      .last()
      .getByText(/^\d+ ids?$/)
      .click();
    await entries.last().getByRole("link", { name: oak }).waitFor();
    expect(await barriers(page)).toEqual([]);

    await entries
      .last()
      .getByRole("button", { name: /^Undo from here/ })
      .click();
    const dialog = page.getByRole("dialog", { name: "Undo what Tidier did" });
    await dialog.getByText(/^Will be undone: 3 changes of 2 conversations since/).waitFor();
    await dialog.getByText("Oak boards: folder").waitFor();
    await dialog.getByText(/^An invoice: .*the label “bills”/i).waitFor();
    await dialog.getByText("1 change: a person changed or confirmed it since").waitFor();
    await dialog.getByText("Already sent, which cannot be undone: 1 message to 1 recipient").waitFor();
    expect(await barriers(page)).toEqual([]);
    const folder = async () =>
      (await world.api.get<{ thread: { folder: string } }>(`/threads/${oak}`)).body.thread.folder;
    expect(await folder()).toBe("trash");
    await dialog.getByRole("button", { name: "Undo 3 changes" }).click();
    await dialog.getByText(/^Undone: 3 changes of 2 conversations since/).waitFor();
    expect(await folder()).toBe("inbox");
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("combobox", { name: "What", exact: true }).selectOption("Everything");
    await entries.first().getByText("Its changes were undone").waitFor();
  }, 120_000);

  test("all are paused from any settings page in two clicks, which every page says, and resumed", async () => {
    const used = async () => (await world.api.get("/mailboxes")).status;
    await page.goto(`${world.http}/settings/profile`);
    await button("Pause all agents…").click();
    await button("Pause all").click();
    await page.getByText(/^All API keys are paused since/).waitFor();
    expect(await used()).toBe(403);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name: "Webhooks" }).click();
    await page.getByRole("heading", { name: "Webhooks" }).waitFor();
    await page.getByText(/^All API keys are paused since/).waitFor();
    await button("Resume all").click();
    await button("Pause all agents…").waitFor();
    expect(await used()).toBe(200);
  }, 120_000);

  test("all of it fits a phone, in the dark", async () => {
    const desk = page;
    page = await signIn({ viewport: { width: 360, height: 740 }, colorScheme: "dark", hasTouch: true });
    await confirmIn(page);
    await page.getByRole("radio", { name: /^Answering agent/ }).check();
    const isNarrow = () => page.evaluate("document.documentElement.scrollWidth <= innerWidth");
    expect(await isNarrow()).toBe(true);
    expect(await barriers(page)).toEqual([]);
    await button("Pause all agents…").click();
    await button("Cancel").click();
    await row("Agent").getByRole("link", { name: "Agent" }).click();
    await button("Change policy").click();
    await button("Save policy").waitFor();
    expect(await isNarrow()).toBe(true);
    expect(await barriers(page)).toEqual([]);
    await page.context().close();
    page = desk;
  }, 120_000);

  test("the browser had nothing to complain of", () => {
    expect(complaints).toEqual([]);
  });
});
