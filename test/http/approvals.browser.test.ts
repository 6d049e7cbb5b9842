/** Approving in a real browser what API keys want to send: one and many, by mouse and keyboard, on a phone, live. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import type { Page } from "playwright-core";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import type { Policy } from "../../src/store/schema.ts";
import { barriers } from "../harness/clients/barriers.ts";
import { confirmIn, PASSWORD, setPassword } from "../harness/clients/browser-session.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { ALICE, bootExt, type ExtWorld } from "../harness/servers/ext-world.ts";

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
  await opened.goto(`${world.http}/sign-in?to=/approve`);
  await opened.getByLabel("Email address").fill(ALICE);
  await opened.getByLabel("Password").fill(PASSWORD);
  await opened.getByLabel("Password").press("Enter");
  await opened.getByRole("heading", { name: "To approve" }).waitFor();
  await confirmIn(opened);
  return opened;
}

async function agent(policy: Policy = { send: "hold" }) {
  const { body } = await world.api.post<{ key: string }>("/api/admin/v1/keys", {
    ...{ name: "Agent", scopes: ["read", "send"], policy },
  });
  return world.apiWith(body.key);
}

/** Has an agent send a message, which waits; returns its id. */
async function held(subject: string, more: object = {}): Promise<string> {
  const letter = { from: ALICE, to: "bob@remote.example", subject, text: `About ${subject}`, ...more };
  const { status, body } = await (await agent()).post<{ emailId: string }>("/send", letter);
  expect(status).toBe(202);
  // The longest waiting comes first.
  await world.advance(1000);
  return body.emailId;
}

interface Message {
  folder: string;
  held?: { state: string; reason: string };
  approvedBy?: string;
}
const stateOf = async (id: string) => (await world.api.get<{ message: Message }>(`/messages/${id}`)).body.message;

const rows = () => page.getByRole("list", { name: "Waiting messages" }).getByRole("listitem");
const row = (subject: string) => rows().filter({ hasText: subject });
const link = () => page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name: /^To approve/ });
const button = (name: string) => page.getByRole("button", { name, exact: true });
const whole = () => page.getByRole("region", { name: "The message as it goes out" });
const dialog = () => page.getByRole("dialog");

describe.skipIf(!chromiumPresent)(`what waits for approval${chromiumNote}`, () => {
  beforeAll(async () => {
    // Mail to it waits, since its DNS fails.
    world = await bootExt({}, zone({ "remote.example": "SERVFAIL" }));
    await setPassword(world, world.owner.userId);
    page = await signIn();
  }, 120_000);

  test("shows in the sidebar as it comes, and whole: recipients, Bcc, text, files, key, policy and reason", async () => {
    await page.getByText("Nothing to approve", { exact: true }).waitFor();
    expect(await barriers(page)).toEqual([]);
    const { threadId } = await world.receive(ALICE, "A question", { text: "What does it cost?" });
    const { body } = await (await agent({ recipients: ["thread"], otherwise: "hold" })).post<{ emailId: string }>(
      `/threads/${threadId}/reply`,
      {
        ...{ html: "<p>It costs <b>nothing</b>.</p>", cc: "Bob <bob@remote.example>", bcc: "eve@remote.example" },
        attachments: [{ filename: "prices.csv", text: "a,b" }],
      },
    );
    await row("Re: A question").click();
    await page.getByRole("link", { name: "To approve 1 waiting" }).waitFor();
    for (const text of ["carol@remote.example", "Bob <bob@remote.example>", "eve@remote.example", "prices.csv"]) {
      await whole().getByText(text).waitFor();
    }
    await whole().frameLocator("iframe").getByText("It costs nothing.").waitFor();
    const why = page.getByRole("region", { name: "Why it waits" });
    await why.getByText(`Written by the agent “Agent” (key of ${ALICE})`).waitFor();
    await why.getByText(/needs approval to write to bob@remote\.example/).waitFor();
    await why.getByText("The key’s policy").click();
    await why.getByText(/people who took part in the conversation/).waitFor();
    const answered = page.getByRole("region", { name: "What it answers" });
    await answered.frameLocator("iframe").getByText("What does it cost?").waitFor();
    expect(await barriers(page)).toEqual([]);
    await answered.getByRole("link", { name: "A question" }).click();
    await page.getByRole("link", { name: /^An answer of “Agent” waits for approval/ }).click();
    await whole().frameLocator("iframe").getByText("It costs nothing.").waitFor();
    await button("Approve").click();
    await page.getByText("Approved", { exact: true }).waitFor();
    await page.getByText("Nothing to approve", { exact: true }).waitFor();
    expect(await stateOf(body.emailId)).toMatchObject({ folder: "sent", approvedBy: world.owner.userId });
    await page.goto(`${world.http}/mail/inbox/${threadId}`);
    await page.getByText("Approved by Alice").waitFor();
  }, 120_000);

  test("shows where answers and receipts go, added fields, who is only named, and a text that says something else", async () => {
    const { body } = await world.api.post<{ key: string }>("/api/admin/v1/keys", {
      ...{ name: "Mail app", scopes: ["send"], policy: { send: "hold" } },
    });
    const { host, port } = world.submission;
    const auth = { user: ALICE, pass: body.key };
    const client = createTransport({ host, port, auth, tls: { rejectUnauthorized: false } });
    await client.sendMail({
      envelope: { from: ALICE, to: ["bob@remote.example", "dora@remote.example"] },
      ...{ from: ALICE, to: ["bob@remote.example", "boss@remote.example"], subject: "More than meets the eye" },
      ...{ text: "Send the money to Eve.", html: "<p>Send the money to Bob.</p>" },
      replyTo: "Alice <reply@evil.example>",
      headers: {
        ...{ "Mail-Followup-To": "followup@evil.example", "Mail-Reply-To": "mailreply@evil.example" },
        ...{ "Disposition-Notification-To": "read@evil.example", "Return-Receipt-To": "receipt@evil.example" },
        "X-Campaign": "spring",
      },
    });
    client.close();
    await page.goto(`${world.http}/approve`);
    await row("More than meets the eye").click();
    const named = [
      "bob@remote.example",
      "dora@remote.example",
      "boss@remote.example (named as recipients in the message)",
    ];
    const redirected = [
      "Alice <reply@evil.example>",
      ...["followup", "mailreply", "read", "receipt"].map((name) => `${name}@evil.example`),
    ];
    const fields = ["Bcc", "Not sent to", "Reply-To", "Disposition-Notification-To", "Return-Receipt-To", "X-Campaign"];
    for (const text of [...named, ...redirected, ...fields, "spring"]) {
      await whole().getByText(text, { exact: true }).waitFor();
    }
    await whole().frameLocator("iframe").getByText("Send the money to Bob.").waitFor();
    await page.getByRole("region", { name: "The plain text" }).getByText("Send the money to Eve.").waitFor();
    expect(await barriers(page)).toEqual([]);
    await button("Reject…").last().click();
    await dialog().getByRole("button", { name: "Reject", exact: true }).click();
    await page.getByText("Nothing to approve", { exact: true }).waitFor();
  }, 120_000);

  test("is rejected with a reason, by keyboard", async () => {
    const [first, second] = [await held("First"), await held("Second")];
    await page.keyboard.press("g");
    await page.keyboard.press("w");
    await row("First").waitFor();
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "First" }).waitFor();
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "Second" }).waitFor();
    await page.keyboard.press("k");
    await page.getByRole("heading", { name: "First" }).waitFor();
    await whole().frameLocator("iframe").getByText("About First").waitFor();
    await page.keyboard.press("n");
    await dialog()
      .getByLabel(/^Reason/)
      .fill("The price is wrong");
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Second" }).waitFor();
    expect((await stateOf(first)).held).toMatchObject({ state: "rejected", reason: "The price is wrong" });
    await whole().frameLocator("iframe").getByText("About Second").waitFor();
    await page.evaluate(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "y", repeat: true }))`);
    expect((await stateOf(second)).held?.state).toBe("waiting");
    await page.keyboard.press("y");
    await page.getByText("Nothing to approve", { exact: true }).waitFor();
    expect((await stateOf(second)).folder).toBe("sent");
  }, 120_000);

  test("stays with the refusal of a guardrail beside it; many are decided at once", async () => {
    const [sent, kept, last] = [
      await held("To be sent"),
      await held("To be kept", { to: "eve@remote.example" }),
      await held("Last"),
    ];
    await world.api.post("/api/admin/v1/suppressions", { address: "eve@remote.example" });
    await row("Last").waitFor();
    await page.getByLabel("Select To be sent").check();
    await page.getByLabel("Select To be kept").check();
    await page.getByText("2 selected").waitFor();
    await page.keyboard.press("y");
    await dialog().getByText("To be kept").waitFor();
    await button("Approve 2 messages").click();
    await row("To be kept")
      .getByText(/^Not sent: .*suppress/)
      .waitFor();
    await page.getByText("Approved: 1 message. Not done: 1; the list shows why").waitFor();
    expect((await stateOf(sent)).folder).toBe("sent");
    expect((await stateOf(kept)).held?.state).toBe("waiting");
    await row("To be kept").click();
    await page
      .getByRole("alert")
      .getByText(/^It still waits: /)
      .waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Select all").check();
    await button("Reject…").first().click();
    await button("Reject 2 messages").click();
    await page.getByText("Nothing to approve", { exact: true }).waitFor();
    for (const id of [kept, last]) expect((await stateOf(id)).held?.state).toBe("rejected");
  }, 120_000);

  test("is edited as a copy, which is the person's own draft, and waits on", async () => {
    const id = await held("An offer", { bcc: "secret@remote.example", html: "<p>An <i>offer</i></p>" });
    await row("An offer").click();
    await page.getByRole("heading", { name: "An offer" }).waitFor();
    await button("Edit a copy").click();
    await page.getByText(/^This copy is yours\./).waitFor();
    const draft = page.getByRole("region", { name: "Draft", exact: true });
    await draft.getByText("secret@remote.example").or(draft.getByLabel("Bcc")).first().waitFor();
    const { body } = await world.api.get<{ threads: { subject: string; id: string }[] }>("/threads?folder=drafts");
    expect(body.threads.filter(({ subject }) => subject === "An offer")).toHaveLength(2);
    await draft.getByRole("button", { name: "Save and close" }).click();
    expect((await stateOf(id)).held?.state).toBe("waiting");
  }, 120_000);

  test("stands among the drafts as one that waits, and opens where it is approved", async () => {
    await page.getByRole("navigation", { name: "Mail" }).getByRole("link", { name: "Drafts" }).click();
    const drafts = page.getByRole("list", { name: "Conversations" }).getByRole("listitem");
    await drafts
      .filter({ hasText: "Waits for approval" })
      .getByRole("link", { name: /An offer/ })
      .click();
    await page.getByRole("region", { name: "Why it waits" }).waitFor();
    expect(new URL(page.url()).pathname).toStartWith("/approve/msg_");
    // Somebody else decides: the open page says so.
    const [id = ""] = new URL(page.url()).pathname.split("/").slice(-1);
    const reviewer = world.apiWith(world.keyOf(world.maxId, ["approve"]));
    world.core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, world.maxId, "send"));
    expect((await reviewer.post(`/api/admin/v1/holds/${id}/reject`, { reason: "Not now" })).status).toBe(200);
    // Open pages hear of changes four times a second.
    await world.advance(1000);
    await page.getByText(/^Rejected by Max .*: Not now$/).waitFor();
    expect(await button("Approve").count()).toBe(0);
  }, 120_000);

  test("can be approved on a phone, in the dark", async () => {
    const id = await held("On the way");
    const desk = page;
    page = await signIn({ viewport: { width: 360, height: 740 }, colorScheme: "dark", hasTouch: true });
    await row("On the way").click();
    await page.getByRole("heading", { name: "On the way" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    expect(await barriers(page)).toEqual([]);
    await whole().frameLocator("iframe").getByText("About On the way").waitFor();
    await button("Approve").click();
    await page.getByText("Nothing to approve", { exact: true }).waitFor();
    expect((await stateOf(id)).folder).toBe("sent");
    await page.getByRole("button", { name: "Folders" }).click();
    await link().waitFor();
    await page.context().close();
    page = desk;
  }, 120_000);

  test("the browser had nothing to complain of", () => {
    expect(complaints).toEqual([]);
  });
});
