/** Labels of a mailbox in the app: renamed, removed and coloured (rules: Label colours). */
import { beforeAll, describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import { type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
let booted: Booted;
let alice: Page;
let bob: Page;

type Label = { label: string; threads: number; colour: string | null };
const labelsOf = async (mailbox: string) =>
  (await alice.get<{ labels: Label[] }>(`/labels?mailbox=${mailbox}`)).body.labels.map(
    ({ label, threads, colour }) => `${label} ${threads} ${colour}`,
  );

/** Sends a message from a mailbox to itself, and gives its conversation labels. */
async function labelled(mailbox: string, labels: string[]): Promise<void> {
  const { body } = await booted.api.post<{ threadId: string }>("/send", {
    from: mailbox,
    to: mailbox,
    subject: labels.join(),
    text: "x",
  });
  await booted.api.patch(`/threads/${body.threadId}`, { addLabels: labels });
}

beforeAll(async () => {
  booted = await boot();
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId } = booted.owner;
  const { userId: bobId } = store.transact((tx) => {
    const made = people.addUser(core, tx, { workspaceId, role: "member", ownMailbox: true, email: BOB, name: "Bob" });
    mailboxAdmin.grantMailboxAccess(tx, booted.owner.mailboxId, made.userId, "send");
    return made;
  });
  for (const id of [userId, bobId]) await setPassword(booted, id);
  alice = await signIn(booted, ALICE);
  bob = await signIn(booted, BOB);
  await labelled(ALICE, ["Billing", "Urgent"]);
  await labelled(ALICE, ["billing"]);
  await labelled(BOB, ["Billing"]);
});

describe("a label of a mailbox", () => {
  test("has a colour there, and loses it", async () => {
    expect((await alice.send("PATCH", "/labels/BILLING", { mailbox: ALICE, colour: "red" })).status).toBe(200);
    expect(await labelsOf(ALICE)).toEqual(["Billing 2 red", "Urgent 1 null"]);
    expect(await labelsOf(BOB)).toEqual(["Billing 1 null"]);
    await alice.send("PATCH", "/labels/Billing", { mailbox: ALICE, colour: null });
    expect(await labelsOf(ALICE)).toEqual(["Billing 2 null", "Urgent 1 null"]);
    expect((await alice.send("PATCH", "/labels/Billing", { mailbox: ALICE, colour: "mauve" })).status).toBe(400);
  });

  test("is renamed there alone, with its colour", async () => {
    await alice.send("PATCH", "/labels/billing", { mailbox: ALICE, colour: "blue" });
    const { body } = await alice.send("PATCH", "/labels/billing", { mailbox: ALICE, name: "Invoices" });
    expect(body).toEqual({ threads: 2 });
    expect(await labelsOf(ALICE)).toEqual(["Invoices 2 blue", "Urgent 1 null"]);
    expect(await labelsOf(BOB)).toEqual(["Billing 1 null"]);
    await alice.send("PATCH", "/labels/Invoices", { mailbox: ALICE, name: "INVOICES" });
    expect(await labelsOf(ALICE)).toEqual(["INVOICES 2 blue", "Urgent 1 null"]);
  });

  test("that takes the name of another has that one's colour", async () => {
    await alice.send("PATCH", "/labels/Urgent", { mailbox: ALICE, colour: "green" });
    await labelled(ALICE, ["Soon"]);
    await alice.send("PATCH", "/labels/Soon", { mailbox: ALICE, colour: "pink" });
    await alice.send("PATCH", "/labels/Soon", { mailbox: ALICE, name: "urgent" });
    expect(await labelsOf(ALICE)).toEqual(["INVOICES 2 blue", "urgent 2 green"]);
  });

  test("is removed with its colour", async () => {
    const { body } = await alice.send<{ threads: number }>("DELETE", `/labels/invoices?mailbox=${ALICE}`);
    expect(body).toEqual({ threads: 2 });
    await labelled(ALICE, ["Invoices"]);
    expect(await labelsOf(ALICE)).toEqual(["Invoices 1 null", "urgent 2 green"]);
  });

  test("is not changed by somebody who may not manage the mailbox, nor one that is not there", async () => {
    for (const change of [{ colour: "red" }, { name: "Mine" }]) {
      expect((await bob.send("PATCH", "/labels/Invoices", { mailbox: ALICE, ...change })).status).toBe(403);
      expect((await alice.send("PATCH", "/labels/Gone", { mailbox: ALICE, ...change })).status).toBe(404);
    }
    expect((await bob.send("DELETE", `/labels/Invoices?mailbox=${ALICE}`)).status).toBe(403);
    expect(await labelsOf(ALICE)).toEqual(["Invoices 1 null", "urgent 2 green"]);
  });
});
