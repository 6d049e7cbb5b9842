/** Spam training (rules: Changing a conversation, Spam): what is learned, where, and how it is forgiven. */
import { describe, expect, test } from "bun:test";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { senderVerdicts } from "../../../src/store/schema.ts";
import { letter } from "../../harness/mail/mail.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const JUNK = { from: "Junk <JUNK@bad.example>" };

test("mail of a sender trained as spam is filed to spam from then on, in any case of the address", async () => {
  const { receive, core, alice, thread, events } = createAlice();
  const first = await receive(JUNK);
  expect(thread(first.threadId).folder).toBe("inbox");
  updateThread(core, alice, first.threadId, { folder: "spam" });
  const second = await receive({ from: "junk@Bad.example", subject: "New" });
  expect(second.threadId).not.toBe(first.threadId);
  expect(thread(second.threadId)).toMatchObject({ folder: "spam", unread: true });
  expect(events().map(({ data }) => data.isSpam)).toEqual([false, true]);
});

test.each([
  ["Junk@B\u00fccher.example", "junk@xn--bcher-kva.example"],
  ["junk@xn--bcher-kva.example", "junk@bu\u0308cher.example"],
  ["junk@bad.example", "junk@bad.example."],
  ["junk@bad.example", "junk@b\u00adad\u3002example"],
])("%s, trained as spam, is the same sender as %s", async (trained, other) => {
  const { receive, core, alice, thread } = createAlice();
  updateThread(core, alice, (await receive({ from: trained })).threadId, { folder: "spam" });
  expect(thread((await receive({ from: other, subject: "New" })).threadId).folder).toBe("spam");
});

test("other senders, and the same sender in other mailboxes, are not touched", async () => {
  const { receive, file, core, alice, thread, world, workspaceId, events } = createAlice();
  const bob = world.box(workspaceId, "bob@example.test");
  updateThread(core, alice, (await receive(JUNK)).threadId, { folder: "spam" });
  const other = await receive({ from: "x.junk@bad.example", subject: "Other" });
  expect(thread(other.threadId).folder).toBe("inbox");
  await file(bob, { ...JUNK, subject: "To Bob" });
  expect(events().map(({ data }) => data.isSpam)).toEqual([false, false, false]);
});

test("moving the conversation from spam to the inbox forgives the sender", async () => {
  const { receive, core, alice, thread } = createAlice();
  const { threadId } = await receive(JUNK);
  updateThread(core, alice, threadId, { folder: "spam" });
  updateThread(core, alice, threadId, { folder: "inbox" });
  expect(thread((await receive({ ...JUNK, subject: "Again" })).threadId).folder).toBe("inbox");
});

describe("moving it elsewhere does not forgive", () => {
  for (const folder of ["archive", "trash"] as const) {
    test(folder, async () => {
      const { receive, core, alice, thread } = createAlice();
      const { threadId } = await receive(JUNK);
      updateThread(core, alice, threadId, { folder: "spam" });
      updateThread(core, alice, threadId, { folder });
      updateThread(core, alice, threadId, { folder: "inbox" });
      expect(thread((await receive({ ...JUNK, subject: "Again" })).threadId).folder).toBe("spam");
    });
  }
});

test("a forgiven sender can be trained again", async () => {
  const { receive, core, alice, thread } = createAlice();
  const { threadId } = await receive(JUNK);
  for (const folder of ["spam", "inbox", "spam"] as const) updateThread(core, alice, threadId, { folder });
  expect(thread((await receive({ ...JUNK, subject: "Again" })).threadId).folder).toBe("spam");
});

test("trains the latest sender; forgives every sender in the conversation", async () => {
  const { receive, core, alice, thread } = createAlice();
  const { threadId } = await receive({ messageId: "<a@x>", from: "good@remote.example" });
  await receive({ ...JUNK, headers: ["In-Reply-To: <a@x>"], date: "Mon, 05 Jan 2026 08:10:00 +0000" });
  updateThread(core, alice, threadId, { folder: "spam" });
  const folderOf = async (from: string, subject: string) => thread((await receive({ from, subject })).threadId).folder;
  expect(await folderOf("good@remote.example", "1")).toBe("inbox");
  expect(await folderOf("junk@bad.example", "2")).toBe("spam");
  await receive({
    from: "good@remote.example",
    headers: ["In-Reply-To: <a@x>"],
    date: "Mon, 05 Jan 2026 08:20:00 +0000",
  });
  updateThread(core, alice, threadId, { folder: "inbox" });
  expect(await folderOf("junk@bad.example", "3")).toBe("inbox");
});

test("a conversation of only sent mail teaches nothing", async () => {
  const { send, receive, core, alice, thread } = createAlice();
  updateThread(core, alice, (await send({})).threadId, { folder: "spam" });
  expect(thread((await receive({ from: "carol@remote.example", subject: "Hi" })).threadId).folder).toBe("inbox");
  expect(thread((await receive({ from: "alice@example.test", subject: "Ho" })).threadId).folder).toBe("inbox");
});

describe("anonymous mail teaches nothing", () => {
  const headers: [name: string, from: string][] = [
    ["without a From", ""],
    ["with a From of a name only", "From: A Stranger\n"],
    ["with a From without a domain", "From: MAILER-DAEMON\n"],
  ];
  for (const [name, from] of headers) {
    test(name, async () => {
      const { receive, core, alice, thread, store } = createAlice();
      const anonymous = (messageId: string) =>
        receive(letter({ messageId, subject: messageId }).replace(/^From:.*\n/m, from));
      const { threadId } = await anonymous("<1@x>");
      updateThread(core, alice, threadId, { folder: "spam" });
      expect(store.db.select().from(senderVerdicts).all()).toEqual([]);
      const next = await anonymous("<2@x>");
      expect(next.threadId).not.toBe(threadId);
      expect(thread(next.threadId)).toMatchObject({
        folder: "inbox",
        from: { email: expect.stringMatching(/\.invalid$/) },
      });
    });
  }

  test("earlier training on it does not count", async () => {
    const { receive, thread, store, box } = createAlice();
    const sender = "unknown@unknown.invalid";
    store.db
      .insert(senderVerdicts)
      .values({ mailboxId: box, sender, spoofed: false, verdict: "spam", trainedAt: 0 })
      .run();
    const { threadId } = await receive(letter().replace(/^From:.*\n/m, ""));
    expect(thread(threadId)).toMatchObject({ folder: "inbox", from: { email: sender } });
  });
});
