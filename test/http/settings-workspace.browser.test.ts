/** Settings of a workspace in a real browser: each page works, and has no barriers for a screen reader. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import * as domains from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import * as removals from "../../src/admin/removals.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { confirmIn, PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";

/** DNS fails for remote.example, and has no other names at first. */
const published: Zone = { "remote.example": "silence" };

let booted: Booted;
let page: Page;
const complaints: string[] = [];

const section = (name: string) =>
  page.getByRole("navigation", { name: "Settings" }).getByRole("link", { name, exact: true }).click();
const box = (name: string) => page.getByRole("region", { name, exact: true });
const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
/** Presses a button in the open dialog. */
const agree = (deed: string) => page.getByRole("dialog").getByRole("button", { name: deed, exact: true }).click();
const row = (list: string, text: string) =>
  page.getByRole("list", { name: list, exact: true }).getByRole("listitem").filter({ hasText: text });

describe.skipIf(!chromiumPresent)(`settings of a workspace${chromiumNote}`, () => {
  beforeAll(async () => {
    booted = await boot({}, zone(published));
    await setPassword(booted, booted.owner.userId);
    page = await (await (await openBrowser()).newContext()).newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      if (/Content.Security|Trusted|violates/i.test(message.text())) complaints.push(message.text());
    });
    await page.goto(`${booted.http}/sign-in`);
    await page.getByLabel("Email address").fill("alice@example.test");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("navigation", { name: "Mail" }).waitFor();
    await confirmIn(page);
    await page.goto(`${booted.http}/settings`);
  }, 120_000);

  test("people: a person is added, made admin, and removed, and a refusal stands at its field", async () => {
    await section("People");
    await page.getByRole("listitem").filter({ hasText: "another admin changes your role" }).waitFor();
    await press("Add a person");
    await page.getByLabel("Name", { exact: true }).fill("Bob");
    const email = page.getByLabel("Email address");
    await email.fill("alice@example.test");
    expect(await barriers(page)).toEqual([]);
    await agree("Add person");
    await page.getByText("there is a user alice@example.test already").waitFor();
    expect(await email.getAttribute("aria-invalid")).toBe("true");
    expect(await page.evaluate("document.activeElement.name")).toBe("email");
    expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Bob");
    await email.fill("bob@example.test");
    await agree("Add person");
    await row("People", "bob@example.test").getByText("no password").waitFor();
    await page.getByLabel("Role of Bob").selectOption("admin");
    await page.getByText("Changed", { exact: true }).waitFor();
    expect(people.getUserByAddress(booted.opened.core, "bob@example.test").role).toBe("admin");
    expect(await barriers(page)).toEqual([]);
    await press("Remove Bob…");
    await agree("Cancel");
    await press("Remove Bob…");
    await agree("Remove Bob");
    await row("People", "bob@example.test").waitFor({ state: "detached" });
  }, 120_000);

  test("mailboxes: one is made, renamed, given an alias and a quota, paused and removed", async () => {
    await section("Mailboxes");
    await press("Add a mailbox");
    await page.getByLabel("Address").fill("team@example.test");
    await page.getByLabel("Name", { exact: true }).fill("Team");
    await agree("Add mailbox");
    await row("Mailboxes", "team@example.test").getByText("Team, without an owner").waitFor();
    await page.getByRole("link", { name: "team@example.test" }).click();
    const general = box("Name and owner");
    await general.getByLabel("Name", { exact: true }).fill("The team");
    await press("Save name");
    await page.getByText("Name changed").waitFor();
    await general.getByLabel(/^Owner/).selectOption({ label: "Alice, alice@example.test" });
    await page.getByText("Owner changed").waitFor();
    await page.getByLabel("Alias", { exact: true }).fill("alice@example.test");
    await press("Add alias");
    await page.getByText("alice@example.test is a mailbox already").waitFor();
    await page.getByLabel("Alias", { exact: true }).fill("info@example.test");
    await press("Add alias");
    await page.getByRole("button", { name: "Remove alias info@example.test" }).waitFor();
    await page.getByText("0 B of 5.4 GB used").waitFor();
    await page.getByLabel("Quota in GB").fill("0.5");
    await press("Save quota");
    await page.getByText("0 B of 500.0 MB used").waitFor();
    await page.getByLabel(/^Reason/).fill("Under review");
    await press("Pause sending");
    await box("Sending is paused").getByText("Under review").waitFor();
    expect(mailboxAdmin.getMailboxByAddress(booted.opened.core, "team@example.test")).toMatchObject({
      name: "The team",
      owner: "alice@example.test",
      aliases: ["info@example.test"],
      quotaBytes: 500_000_000,
      pausedReason: "Under review",
    });
    expect(await barriers(page)).toEqual([]);
    await press("Resume sending");
    await box("Sending is paused").waitFor({ state: "detached" });
    await press("Remove mailbox…");
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/aliases info@example.test is refused from now on/).waitFor();
    const removal = dialog.getByRole("button", { name: "Remove mailbox and mail" });
    expect(await removal.isDisabled()).toBe(true);
    await dialog.getByLabel("Type team@example.test to go on").fill("team@example.test");
    await removal.click();
    await row("Mailboxes", "alice@example.test").waitFor();
    await row("Mailboxes", "team@example.test").waitFor({ state: "detached" });
  }, 120_000);

  test("mailboxes: an expiry is set and removed", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId } = booted.owner;
    const address = "brief@example.test";
    store.transact((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address, name: "Brief" }));
    await section("Mailboxes");
    await page.reload();
    await page.getByRole("link", { name: address }).click();
    await page.getByLabel("Expires at").fill("2000-01-01T00:00");
    await press("Save expiry");
    await page.getByText("a mailbox expires at a time to come").waitFor();
    await page.getByLabel("Expires at").fill("2031-05-06T07:08");
    await press("Save expiry");
    await page.getByText("Expiry changed").waitFor();
    expect(mailboxAdmin.getMailboxByAddress(core, address).expiresAt).toBe(new Date("2031-05-06T07:08").getTime());
    expect(await barriers(page)).toEqual([]);
    await section("Mailboxes");
    await row("Mailboxes", address).getByText("expires 6 May 2031").or(page.getByText("expires May 6, 2031")).waitFor();
    await page.getByRole("link", { name: address }).click();
    await page.getByLabel("Expires at").fill("");
    await press("Save expiry");
    await until(() => mailboxAdmin.getMailboxByAddress(core, address).expiresAt === null);
    await removals.removeMailbox(core, mailboxAdmin.getMailboxByAddress(core, address).id);
  }, 120_000);

  test("a mailbox with mail is shown as being removed until its last message is gone", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId } = booted.owner;
    const address = "old@example.test";
    store.transact((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address, name: "Old" }));
    const letter = { from: "alice@example.test", to: [address], subject: "Farewell", text: "Goodbye" };
    expect((await booted.api.post("/send", letter)).status).toBe(202);
    await booted.advance(0);
    await section("Mailboxes");
    await page.reload();
    await page.getByRole("link", { name: address }).click();
    await press("Remove mailbox…");
    await page.getByLabel(`Type ${address} to go on`).fill(address);
    await agree("Remove mailbox and mail");
    await row("Mailboxes", address).getByText("being removed").waitFor();
    await page.getByRole("link", { name: address }).click();
    await page.getByRole("heading", { name: "This mailbox is being removed" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await press("Continue removal");
    await page.getByText("Removal resumed").waitFor();
    while (mailboxAdmin.listMailboxes(core).some((mailbox) => mailbox.address === address)) await booted.advance(25);
    await page.getByRole("heading", { name: "Mailbox not found" }).waitFor();
  }, 120_000);

  test("the workspace is renamed, and the operator pauses it, resumes it, and adds another", async () => {
    await section("Workspace");
    await page.getByLabel("Name of the workspace").fill("Example and sons");
    await press("Save name");
    await page.getByText("Name changed").waitFor();
    await page.getByLabel(/^Reason/).fill("Moving house");
    await press("Pause sending");
    await page.getByText("Moving house", { exact: true }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await press("Let Example and sons send again");
    await page.getByLabel(/^Reason/).waitFor();
    await section("Workspaces");
    await press("Add a workspace");
    await page.getByLabel("Name of the workspace").fill("Other");
    await page.getByLabel("Domain", { exact: true }).fill("other.test");
    await page.getByLabel("Owner's name").fill("Zoe");
    await page.getByLabel(/^Owner's address/).fill("zoe@other.test");
    await page.getByLabel("Their first password").fill(PASSWORD);
    await agree("Add workspace");
    await row("Workspaces", "Other").getByText("other.test · 1 person · 1 mailbox · 0 B").waitFor();
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("domains: records to copy, with their state in DNS", async () => {
    await section("Domains");
    await press("Add a domain");
    await page.getByLabel("Domain", { exact: true }).fill("shop.test");
    await agree("Add domain");
    const shown = box("shop.test");
    await shown.getByText("not verified").waitFor();
    const token = shown.getByRole("textbox", { name: "value of the ownership record, _mailroom.shop.test" });
    expect(await token.inputValue()).toStartWith("mailroom-verify=");
    await shown.getByText("6 of 6 records missing").waitFor();
    await shown.getByText("Until shop.test is verified no mail comes to its addresses").waitFor();
    await shown.getByRole("button", { name: "Verify shop.test" }).click();
    await page.getByText("shop.test is not verified yet").waitFor();
    for (const { name, value, purpose } of domains.listDomainRecords(
      booted.opened.core,
      domains.getDomainByName(booted.opened.core, "shop.test").id,
    )) {
      if (purpose === "dkim" || purpose === "ownership") published[name] = { txt: [value] };
    }
    await shown.getByRole("button", { name: "Check again: shop.test" }).click();
    await shown.getByText("3 of 6 records missing").waitFor();
    // Looking at the records does not verify the domain.
    await shown.getByText("not verified", { exact: true }).waitFor();
    await shown.getByRole("button", { name: "Verify shop.test" }).click();
    // Its mail comes nowhere yet.
    await shown.getByText("verified, records missing", { exact: true }).waitFor();
    expect(await barriers(page)).toEqual([]);
  }, 120_000);

  test("domains: a notice about an unverified domain stands above the mail of people who can verify it", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const other = store.transact((tx) => {
      const { id } = workspaceAdmin.addWorkspace(core, tx, "Rival");
      domains.addDomain(core, tx, booted.owner.workspaceId, "new.test", []);
      const claimed = domains.addDomain(core, tx, booted.owner.workspaceId, "old.test", []);
      domains.addDomain(core, tx, booted.owner.workspaceId, "lost.test", []);
      domains.markDomainVerified(core, tx, domains.addDomain(core, tx, id, "lost.test", []).id);
      return claimed.id;
    });
    store.db.$client.query("UPDATE domains SET accepts_unverified = 1 WHERE id = ?").run(other);
    await page.goto(`${booted.http}/mail/inbox`);
    const told = page.getByRole("status").filter({ hasText: "new.test" });
    await told.getByText("Until new.test is verified no mail comes to its addresses").waitFor();
    await told.getByText("old.test takes mail without being verified").waitFor();
    await told.getByText("Another workspace verified lost.test").waitFor();
    expect(await told.getByText("shop.test").count()).toBe(0);
    expect(await barriers(page)).toEqual([]);
    await told.getByRole("link", { name: "Domains" }).first().click();
    await box("lost.test").getByText("verified by another workspace", { exact: true }).waitFor();
    expect(await box("lost.test").getByRole("button", { name: "Verify lost.test" }).count()).toBe(0);

    const mia = store.transact((tx) => {
      const member = { workspaceId: booted.owner.workspaceId, email: "mia@example.test", name: "Mia" } as const;
      return people.addUser(core, tx, { ...member, role: "member", ownMailbox: true }).userId;
    });
    await setPassword(booted, mia);
    const theirs = await (await (await openBrowser()).newContext()).newPage();
    const asked: string[] = [];
    theirs.on("request", (request) => void asked.push(new URL(request.url()).pathname));
    await theirs.goto(`${booted.http}/sign-in`);
    await theirs.getByLabel("Email address").fill("mia@example.test");
    await theirs.getByLabel("Password").fill(PASSWORD);
    await theirs.getByLabel("Password").press("Enter");
    await theirs.getByRole("navigation", { name: "Mail" }).waitFor();
    await theirs.getByRole("main").waitFor();
    expect(await theirs.getByText("new.test").count()).toBe(0);
    expect(asked.filter((path) => path.startsWith("/app/settings"))).toEqual([]);
    await theirs.context().close();
  }, 120_000);

  test("the suppression list: an address is added with a reason, and removed", async () => {
    await section("Outbound mail");
    await page.getByText("The queue is empty").waitFor();
    await page.getByLabel("Address", { exact: true }).fill("max@remote.example");
    await page.getByLabel("Reason").fill("Asked us to stop");
    await press("Add");
    await row("Suppression list", "Asked us to stop").waitFor();
    expect(await barriers(page)).toEqual([]);
    await press("Remove max@remote.example…");
    await agree("Remove from the list");
    await page.getByText("The list is empty").waitFor();
  }, 120_000);

  test("the queue: a delivery is retried now, and another is cancelled", async () => {
    const mail = { from: "alice@example.test", to: ["zoe@remote.example"], subject: "Hello", text: "Hello" };
    expect((await booted.api.post("/send", mail)).status).toBe(202);
    await booted.advance(0);
    await page.reload();
    await row("Queue", "1 attempt, next").waitFor();
    expect(await barriers(page)).toEqual([]);
    await press("Try again: zoe@remote.example");
    await page.getByText("Retrying now").waitFor();
    await booted.advance(0);
    await page.reload();
    await row("Queue", "2 attempts").waitFor();
    await press("Give up zoe@remote.example…");
    await agree("Give up");
    await page.getByText("The queue is empty").waitFor();
  }, 120_000);

  test("limits: one is changed, a bad value is refused with a reason, and the default returns", async () => {
    await section("Limits and server");
    const limit = page.getByLabel("sending.mailboxPerHour");
    const item = page.getByRole("listitem").filter({ has: limit });
    await limit.fill("many");
    await item.getByRole("button", { name: "Save" }).click();
    await page.getByText(/sending.mailboxPerHour cannot be "many"/).waitFor();
    await page.getByText("Searches are answered by the embedded index.").waitFor();
    await limit.fill("7");
    await item.getByRole("button", { name: "Save" }).click();
    await item.getByText("The default is 100.").waitFor();
    expect(booted.core.options.get("sending.mailboxPerHour")).toBe(7);
    expect(await barriers(page)).toEqual([]);
    await press("Back to the default: sending.mailboxPerHour");
    await item.getByText("The default.").waitFor();
    expect(booted.core.options.get("sending.mailboxPerHour")).toBe(100);
  }, 120_000);

  test("the browser reported no errors and no violations of the policy", () => {
    expect(complaints).toEqual([]);
  });
});
