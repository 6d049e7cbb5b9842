/** Ctrl+K in a real browser: any action, folder, label, mailbox, setting and person by name; and what is fetched ahead. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let page: Page;

const list = () => page.getByRole("list", { name: "Conversations" });
const rowOf = (subject: string) => list().getByRole("listitem").filter({ hasText: subject });
const field = () => page.getByRole("combobox", { name: "Find an action, folder, label, person or setting" });
const heading = (name: string) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

/** Runs what is found first. `name`: which that has to be. */
async function run(typed: string, name: string): Promise<void> {
  await page.keyboard.press("Control+k");
  await field().fill(typed);
  await page.getByRole("option", { selected: true }).filter({ hasText: name }).waitFor();
  await page.keyboard.press("Enter");
  await field().waitFor({ state: "detached" });
}

describe.skipIf(!chromiumPresent)(`finding by name${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId } = booted.owner;
    store.transact(
      (tx) => void mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@example.test", name: "Team" }),
    );
    for (const subject of ["Oak", "Ash", "Elm"]) {
      await mailer(booted.mx).send(
        { from: "bea@remote.example", to: ALICE },
        `From: Bea Brand <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\n\nBoards`,
      );
    }
    const { body } = await booted.api.get<{ threads: { id: string }[] }>("/threads");
    await booted.api.patch(`/threads/${body.threads[0]?.id}`, { addLabels: ["Orders"] });
    page = await (await (await openBrowser()).newContext({ viewport: { width: 1280, height: 800 } })).newPage();
    await page.goto(`${booted.http}/sign-in`);
    await page.keyboard.press("Control+k");
    expect(await field().count()).toBe(0);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await list().waitFor();
  }, 120_000);
  beforeEach(async () => {
    await page.goto(`${booted.http}/mail/inbox`);
    await list().waitFor();
  }, 120_000);

  test("folders, labels, mailboxes, settings and people", async () => {
    await page.keyboard.press("Control+k");
    await field().fill("a");
    await page.getByRole("option").first().waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await run("snoozed", "Snoozed");
    await heading("Snoozed");
    await run("orders", "Orders");
    await heading("Orders");
    await rowOf("Elm").waitFor();
    await run("team", "Team");
    await page.waitForURL(/mailbox=mbx_/);
    await run("two-step", "Two-step sign-in");
    await heading("Two-step sign-in");
    await run("storage.mailbox", "storage.mailboxBytes");
    await heading("Limits and server");
    await run("inbox", "Inbox");
    await heading("Inbox");
    await run("mail with bea", "Mail with Bea Brand");
    await heading("Search");
    await rowOf("Oak").waitFor();
    await run("write bea", "Write to Bea Brand");
    const box = page.getByRole("region", { name: "New message" });
    await box.getByRole("list", { name: "To: recipients" }).getByText("Bea Brand").waitFor();
  }, 120_000);

  test("Ctrl+K in the moment in which a choice closes it opens it again", async () => {
    await page.keyboard.press("Control+k");
    await field().fill("snoozed");
    await field().evaluate((input) => {
      for (const init of [{ key: "Enter" }, { key: "k", ctrlKey: true }]) {
        input.dispatchEvent(new KeyboardEvent("keydown", { ...init, bubbles: true, cancelable: true }));
      }
    });
    await heading("Snoozed");
    await field().fill("inbox");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await field().fill("inbox");
  }, 120_000);

  test("actions that the page offers, by any of their names, and no others", async () => {
    await page.keyboard.press("Control+k");
    await field().fill("approve");
    await page.getByRole("option", { name: /^To approve/ }).waitFor();
    expect(await page.getByRole("option", { name: /^Approve/ }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await rowOf("Oak").getByRole("link").click();
    await heading("Oak");
    await run("done", "Archive");
    await page.getByRole("status").getByText("Archived", { exact: true }).waitFor();
    await rowOf("Oak").waitFor({ state: "detached" });
    await run("undo", "Undo");
    await rowOf("Oak").waitFor();
    await run("answer", "Reply");
    await page.getByRole("region", { name: "Reply", exact: true }).waitFor();
    await run("density", "Compact lists");
    await run("density", "Comfortable lists");
    await run("keyboard", "Keyboard shortcuts");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  }, 120_000);

  test("the neighbours of an open conversation are fetched ahead", async () => {
    const ids = new Map<string, string>();
    for (const subject of ["Oak", "Ash", "Elm"]) {
      const href = await rowOf(subject).getByRole("link").getAttribute("href");
      ids.set(subject, href?.split(/[/#?]/).at(3) ?? "");
    }
    const asked = (subject: string) =>
      page.waitForResponse((response) => response.url().includes(`/app/threads/${ids.get(subject)}?`));
    const both = Promise.all([asked("Oak"), asked("Elm")]);
    await page.goto(`${booted.http}/mail/inbox/${ids.get("Ash")}`);
    await both;
    // They show without asking again.
    await page.route("**/app/threads/thr_*", (route) => route.abort());
    await page.keyboard.press("k");
    await heading("Elm");
    await page.keyboard.press("j");
    await heading("Ash");
    await page.keyboard.press("j");
    await heading("Oak");
    await page.unrouteAll({ behavior: "wait" });
  }, 120_000);
});
