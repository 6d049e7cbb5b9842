/** The demo workspace: its content, and the data folders that accept it. */
import { expect, test } from "bun:test";
import { inflateSync } from "node:zlib";
import { eq } from "drizzle-orm";
import { findCaller, verifyPassword } from "../../src/access/credentials.ts";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { hashNewPassword } from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { describeDemo, loadDemo } from "../../src/demo/demo.ts";
import { ADA, BEN, lampPicture, makeOnePagePdf } from "../../src/demo/demo-mail.ts";
import { markedDrafts } from "../../src/mailbox/changing/drafts.ts";
import { heldMarks, holdsAmong } from "../../src/mailbox/changing/holds.ts";
import { getThread } from "../../src/mailbox/changing/threads.ts";
import { listThreads, searchThreads } from "../../src/mailbox/reading/listing.ts";
import { getAttachment } from "../../src/mailbox/reading/messages.ts";
import { apiKeys, users } from "../../src/store/schema.ts";
import { openInMemory } from "../harness/servers/core.ts";

async function openDemo() {
  const opened = openInMemory();
  const { core } = opened;
  const demo = await loadDemo(opened.core);
  const caller = findCaller(core.store.db, demo.key);
  if (!caller) throw new Error("the demo's key is nobody's");
  return { opened, core, demo, caller };
}

test("the demo has people, a share, and mail of every kind", async () => {
  const { opened, caller } = await openDemo();
  const { core } = opened;
  expect(caller).toMatchObject({ role: "owner" });
  expect(caller.scopes).toEqual(new Set(["read", "send", "write"]));
  expect(workspaceAdmin.listWorkspaces(core)).toMatchObject([{ name: "Demo" }]);
  expect(domains.listDomains(core)).toMatchObject([{ name: "example.test", verifiedAt: expect.any(Number) }]);
  expect(people.listUsers(core).map(({ email, role }) => [email, role])).toEqual([
    ["ada@example.test", "owner"],
    ["ben@example.test", "member"],
  ]);
  expect(mailboxAdmin.listMailboxes(core).flatMap(({ aliases }) => aliases)).toHaveLength(4);
  expect(mailboxAdmin.getMailboxByAddress(core, "support@example.test").grants).toMatchObject([
    { user: "ben@example.test", access: "full" },
  ]);

  const listed = async (folder: "all" | "inbox" | "sent" | "archive" | "spam" | "trash" | "snoozed") =>
    (await listThreads(core, caller, { folder, limit: 100 })).threads;
  const all = await listed("all");
  expect(all.length).toBeGreaterThanOrEqual(12);
  for (const folder of ["inbox", "sent", "archive", "spam", "trash", "snoozed"] as const) {
    expect([folder, (await listed(folder)).length]).not.toEqual([folder, 0]);
  }
  const some = (wanted: (thread: (typeof all)[number]) => boolean): number => all.filter(wanted).length;
  expect(some(({ unread }) => unread)).toBeGreaterThan(3);
  expect(some(({ unread }) => !unread)).toBeGreaterThan(3);
  expect(some(({ starred }) => starred)).toBeGreaterThan(1);
  expect(some(({ labels }) => labels.length > 0)).toBeGreaterThan(4);
  expect(some(({ messageCount }) => messageCount >= 9)).toBe(1);
  expect(some(({ receivedOn, mailbox: address }) => receivedOn !== address)).toBeGreaterThan(3);
  expect(some(({ subject }) => /[\u3040-\u30ff\u4e00-\u9fff]/.test(subject))).toBe(1);
  for (const q of ["展示会", "โคมไฟ", "gruss", "grandmother"]) {
    const { threads } = await searchThreads(core, caller, { q: `${q} -in:drafts`, limit: 10 });
    expect([q, threads.length]).toEqual([q, q === "gruss" ? 0 : 1]);
  }
});

test("an agent has drafted an answer, and another one waits for approval", async () => {
  const { opened, caller } = await openDemo();
  const { core } = opened;
  const { store } = core;
  const { threads: inbox } = await listThreads(core, caller, { folder: "inbox", limit: 100 });
  const idOf = (subject: string) => inbox.find((thread) => thread.subject.startsWith(subject))?.id;
  expect(markedDrafts(core, caller, ADA).filter(({ agent }) => agent)).toMatchObject([
    {
      agent: { key: "Answering agent", person: "Ada Okafor" },
      answers: idOf("A lamp"),
      to: [{ email: "mira@example.net" }],
    },
  ]);
  const [held, ...others] = heldMarks(core, caller, ADA);
  expect([held, others]).toMatchObject([{ state: "waiting", answers: idOf("Invoice BL-0417") }, []]);
  const [waiting] = holdsAmong(store.db, [mailboxAdmin.getMailboxByAddress(opened.core, ADA).id], "waiting", {
    after: undefined,
    most: 2,
  });
  expect(waiting?.recipients).toEqual([
    { field: "to", email: "priya@brightledger.example", name: "Priya Raman" },
    { field: "cc", email: BEN, name: "Ben Lindqvist" },
  ]);
});

test("its mail is filed like all mail: attachments open, inline pictures are linked, replies are threaded", async () => {
  const { opened, caller } = await openDemo();
  const { threads } = await searchThreads(opened.core, caller, { q: 'subject:"oak boards"', limit: 10 });
  const { messages } = getThread(opened.core, caller, threads[0]?.id ?? "", { html: true });
  expect(messages.map(({ direction }) => direction)).toEqual([
    "outbound",
    "inbound",
    "outbound",
    "inbound",
    "outbound",
    "inbound",
    "outbound",
    "inbound",
    "inbound",
  ]);
  const last = messages.at(-1);
  expect(last).toMatchObject({ read: false, from: { email: "ines@nordwood.example", name: "Inês Carvalho" } });
  const picture = last?.attachments[0];
  expect(picture).toMatchObject({ inline: true, contentType: "image/png" });
  expect(last?.html).toContain(`cid:${picture?.contentId}`);
  const { content } = await getAttachment(opened.core, caller, picture?.id ?? "");
  expect(await content.bytes()).toEqual(new Uint8Array(lampPicture(96, 64, [222, 184, 135])));
});

test("on the demo's own data folder, mail, key and password stay, and sessions go on", async () => {
  const { core, opened, demo, caller } = await openDemo();
  const before = await listThreads(opened.core, caller, { folder: "all", limit: 100 });
  const people = () => core.store.db.select().from(users).all();
  const keys = () => core.store.db.select().from(apiKeys).all();
  const [peopleBefore, keysBefore] = [people(), keys()];
  expect(await loadDemo(opened.core)).toEqual(demo);
  // A new hash would end Ada's sessions.
  expect([people(), keys()]).toEqual([peopleBefore, keysBefore]);
  expect(await listThreads(opened.core, caller, { folder: "all", limit: 100 })).toEqual(before);
});

test("key and password are the same in every demo, and say that they are public", async () => {
  const [first, second] = [await openDemo(), await openDemo()];
  expect(second.demo).toEqual(first.demo);
  expect(first.demo.key).toMatch(/^mr_demo[A-Za-z0-9]*Public[A-Za-z0-9]*$/);
  expect(first.demo.key.length).toBeGreaterThanOrEqual("mr_".length + 40);
  expect(first.demo.password).toMatch(/public.*demo/i);
  expect(describeDemo(first.demo, "off")).toContain("Key and password are those of every demo.");
});

test("a demo from before gets key and password; a revoked key and a changed password work again", async () => {
  const { opened, demo, caller } = await openDemo();
  const { core } = opened;
  const { store } = core;
  const isOpen = async () => {
    const ada = store.db.select().from(users).where(eq(users.email, ADA)).get();
    return {
      key: findCaller(store.db, demo.key)?.email,
      password: await verifyPassword(demo.password, ada?.passwordHash ?? null),
    };
  };
  const changed = await hashNewPassword("something else");
  store.transact((tx) => {
    people.setPassword(core, tx, caller.userId, changed);
    developers.revokeKey(core, tx, caller.keyId ?? "");
  });
  expect(await isOpen()).toEqual({ key: undefined, password: false });
  expect(await loadDemo(opened.core)).toEqual(demo);
  expect(await isOpen()).toEqual({ key: ADA, password: true });
  // The key had no fixed value once.
  store.transact((tx) => tx.delete(apiKeys).run());
  await loadDemo(opened.core);
  expect(await isOpen()).toEqual({ key: ADA, password: true });
});

test("key and password are those of another owner once Ada is gone", async () => {
  const { opened, demo, caller } = await openDemo();
  const { core } = opened;
  const { store } = core;
  store.transact((tx) => {
    people.setRole(tx, people.getUserByAddress(core, BEN).id, "owner");
    people.removeUser(tx, caller.userId);
  });
  expect(findCaller(store.db, demo.key)).toBeUndefined();
  expect(await loadDemo(opened.core)).toEqual({ ...demo, address: BEN });
  expect(findCaller(store.db, demo.key)).toMatchObject({ email: BEN, role: "owner" });
});

test("a data folder in use is refused and left as it is", async () => {
  const opened = openInMemory();
  opened.core.store.transact((tx) => workspaceAdmin.addWorkspace(opened.core, tx, "Acme").id);
  await expect(loadDemo(opened.core)).rejects.toThrow(/--demo needs an empty data folder/);
  expect(workspaceAdmin.listWorkspaces(opened.core)).toHaveLength(1);
  // A name alone does not make it the demo.
  const other = openInMemory();
  other.core.store.transact((tx) => workspaceAdmin.addWorkspace(other.core, tx, "Demo").id);
  await expect(loadDemo(other.core)).rejects.toThrow(/--demo needs an empty data folder/);
});

test("the command on the terminal can be pasted", () => {
  const demo = { address: "ada@example.test", password: "p", key: "mr_k" };
  expect(describeDemo(demo, "127.0.0.1:8025")).toContain(
    "curl -H 'Authorization: Bearer mr_k' http://127.0.0.1:8025/api/v1/threads",
  );
  expect(describeDemo(demo, "off")).not.toContain("curl");
});

test("the attached files are valid", () => {
  const pdf = Buffer.from(makeOnePagePdf(["Total (net)", "a\\b"])).toString("latin1");
  expect(pdf).toContain("(Total \\(net\\)) Tj");
  const start = Number(/startxref\n(\d+)\n%%EOF\n$/.exec(pdf)?.[1]);
  expect(pdf.slice(start)).toStartWith("xref\n0 6\n");
  const offsets = [...pdf.slice(start).matchAll(/^(\d{10}) 00000 n /gm)].map((match) => Number(match[1]));
  expect(offsets.map((offset, i) => pdf.startsWith(`${i + 1} 0 obj\n`, offset))).toEqual(Array(5).fill(true));

  const png = Buffer.from(lampPicture(4, 3, [200, 100, 0]));
  expect(png.subarray(12, 16).toString()).toBe("IHDR");
  expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([4, 3]);
  const length = png.readUInt32BE(33);
  expect(inflateSync(png.subarray(41, 41 + length))).toHaveLength(3 * (1 + 4 * 3));
});
