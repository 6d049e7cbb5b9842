/** Rules and out-of-office in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { readMailboxRules } from "../../src/mailbox/filing/rules.ts";
import { accessNotices } from "../../src/store/schema.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let page: Page;
const complaints: string[] = [];

async function arrive(from: string, subject: string): Promise<void> {
  const sender = mailer(booted.mx, { starttls: false });
  await sender.send({ from, to: ALICE }, letter({ from, to: ALICE, subject }));
  sender.close();
}

const stored = () => readMailboxRules(booted.core.store.db, booted.owner.mailboxId);
const rules = () => page.getByRole("list", { name: "Rules" }).getByRole("listitem");
const making = () => page.getByRole("region", { name: "New rule" });

describe.skipIf(!chromiumPresent)(`rules${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot();
    await setPassword(booted, booted.owner.userId);
    for (const n of [1, 2]) await arrive("news@remote.example", `Issue ${n}`);
    await arrive("bob@remote.example", "Lunch");
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    await page.goto(`${booted.http}/sign-in`);
    await page.getByLabel("Email address").fill(ALICE);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
  }, 120_000);

  test("begin with the sender of a conversation, and tell how much past mail they find", async () => {
    await page.getByText("Issue 2").click();
    await page.getByRole("link", { name: "Make a rule" }).click();
    const search = making().getByLabel("Mail that matches this search");
    expect(await search.inputValue()).toBe("from:news@remote.example");
    await making().getByText("2 conversations of past mail match").waitFor();
    await search.fill("from:bob@remote.example");
    await making().getByText("1 conversation of past mail match").waitFor();
    expect(await barriers(page)).toEqual([]);
    await search.fill("from:news@remote.example");
    await making().getByLabel("Label it").fill("News");
    await making().getByLabel("Its place").selectOption("archive");
    await making().getByRole("button", { name: "Make rule" }).click();
    await rules()
      .getByText("Mail that matches from:news@remote.example: label it News and keep it out of the inbox.")
      .waitFor();
    expect(stored()).toEqual([
      {
        match: "from:news@remote.example",
        enabled: true,
        actions: [{ type: "label", label: "News" }, { type: "archive" }],
      },
    ]);
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("are applied to past mail, which can be undone", async () => {
    await page.getByRole("button", { name: "Apply to past mail…, from:news@remote.example" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Do it" }).click();
    await page.getByText("Archived: 2 conversations").waitFor();
    const archived = async () => {
      const { body } = await booted.api.get<{ threads: object[] }>("/threads?folder=archive&label=News");
      return body.threads.length;
    };
    expect(await archived()).toBe(2);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Undone: 2 conversations").waitFor();
    expect(await archived()).toBe(0);
  }, 120_000);

  test("begin with a search, are ordered, changed, turned off and removed", async () => {
    await page.goto(`${booted.http}/mail/all?q=subject%3Alunch`);
    await page.getByRole("link", { name: "Make a rule" }).first().click();
    expect(await making().getByLabel("Mail that matches this search").inputValue()).toBe("subject:lunch");
    await making().getByLabel("Star it").check();
    await making().getByLabel("Name, if you like").fill("Food");
    await making().getByRole("button", { name: "Make rule" }).click();
    await page.getByText("Rule made").waitFor();
    await page.getByRole("button", { name: "Move Food up" }).click();
    await rules().first().getByText("Food").waitFor();
    expect(stored().map(({ match }) => match)).toEqual(["subject:lunch", "from:news@remote.example"]);
    await page.getByRole("button", { name: "Turn off Food" }).click();
    await rules().first().getByText("off", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Change Food" }).click();
    await rules().first().getByLabel("Label it").fill("Meals");
    await page.getByRole("button", { name: "Save rule" }).click();
    await page.getByText("Rule changed").waitFor();
    expect(stored()[0]).toEqual({
      ...{ name: "Food", match: "subject:lunch", enabled: false },
      actions: [{ type: "label", label: "Meals" }, { type: "star" }],
    });
    await page.getByRole("button", { name: "Remove Food" }).click();
    await rules().first().getByText("from:news@remote.example").waitFor();
    expect(stored()).toHaveLength(1);
  }, 120_000);

  test("forward outside once the setting allows it and the person has given the password; the owner is told", async () => {
    const { store, options } = booted.core;
    await making().getByLabel("Mail that matches this search").fill("subject:oak");
    await making().getByLabel("Forward it to").fill("ann@away.example");
    await making().getByRole("button", { name: "Make rule" }).click();
    await making()
      .getByRole("alert")
      .getByText(/rules\.forwardOutside/)
      .waitFor();
    store.transact((tx) => options.set(tx, "rules.forwardOutside", "true"));
    await making().getByRole("button", { name: "Make rule" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(/password/i).fill(PASSWORD);
    await dialog.getByRole("button", { name: /confirm|go on|continue/i }).click();
    await page.getByText("Rule made").waitFor();
    expect(stored().at(-1)).toMatchObject({ actions: [{ type: "forward", to: "ann@away.example" }] });
    const told = store.db.select().from(accessNotices).all();
    expect(told).toMatchObject([
      { change: "forwarding", doneBy: "self", detail: expect.stringContaining("ann@away.example") },
    ]);
    for (let second = 0; second < 12; second++) await booted.advance(1_000);
    const { body } = await booted.api.get<{ threads: { subject: string }[] }>("/threads");
    expect(body.threads.map(({ subject }) => subject)).toContain(`Mail to ${ALICE} is forwarded`);
    expect(complaints).toEqual([]);
  }, 120_000);

  test("an out-of-office is set and ended", async () => {
    const away = page.getByRole("region", { name: "Out of office" });
    await away.getByLabel("From").fill("2026-02-01T08:00");
    await away.getByLabel("Until").fill("2026-01-01T08:00");
    await away.getByLabel("Text").fill("Back in March.");
    await away.getByRole("button", { name: "Set out-of-office" }).click();
    await away.getByRole("alert").getByText(/until/).waitFor();
    await away.getByLabel("Until").fill("2026-03-01T08:00");
    await away.getByRole("button", { name: "Set out-of-office" }).click();
    await away.getByRole("button", { name: "End it" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    const { body } = await booted.api.get(`/api/admin/v1/mailboxes/${booted.owner.mailboxId}/absence`);
    expect(body).toMatchObject({ text: "Back in March." });
    await away.getByRole("button", { name: "End it" }).click();
    await page.getByText("Out-of-office ended").waitFor();
    await away.getByRole("button", { name: "Set out-of-office" }).waitFor();
  }, 120_000);
});
