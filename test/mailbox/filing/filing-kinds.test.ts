/** Mail that the appliance files itself: Sent copies, drafts and notices (rules: Folders, Bcc, Failure). */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { setThreadSnooze } from "../../../src/mailbox/changing/change.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listMessages, markDelivered } from "../../../src/mailbox/reading/messages.ts";
import { messages, threadReferences, threads } from "../../../src/store/schema.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const ROOT = { messageId: "<1@remote.example>", from: "Carol <carol@remote.example>", subject: "Plans" };
const NOTICE = {
  from: "Mail Delivery <MAILER-DAEMON@example.test>",
  to: "alice@example.test",
  subject: "Not delivered",
  date: "Mon, 05 Jan 2026 08:50:00 +0000",
};

describe("a notice", () => {
  async function told(folder?: "archive" | "trash" | "spam") {
    const it = createAlice();
    const { threadId } = await it.receive(ROOT);
    updateThread(it.core, it.alice, threadId, { read: true, ...(folder && { folder }) });
    const before = it.thread(threadId);
    const filed = await it.receive(NOTICE, { kind: "notice", threadId });
    return { ...it, threadId, before, filed };
  }

  test("is unread in the conversation, leaves its participants, and is not announced as mail", async () => {
    const { threadId, thread, before, filed, messages: shown, events } = await told();
    expect(filed.threadId).toBe(threadId);
    expect(thread(threadId)).toEqual({
      ...before,
      unread: true,
      messageCount: 2,
      snippet: "How are you?",
      lastMessageAt: "2026-01-05T08:50:00.000Z",
    });
    expect(shown(threadId)[1]).toMatchObject({ direction: "inbound", read: false, subject: "Not delivered" });
    expect(events().map(({ event, data }) => [event, data.subject])).toEqual([["message.inbound", "Plans"]]);
  });

  for (const [folder, expected] of [
    ["archive", "inbox"],
    ["trash", "inbox"],
    ["spam", "spam"],
  ] as const) {
    test(`puts a conversation in ${folder}, with its messages, into ${expected}`, async () => {
      const { threadId, thread, core, alice } = await told(folder);
      expect(thread(threadId)).toMatchObject({ folder: expected, unread: true });
      expect(listMessages(core, alice, { limit: 9 }).map((message) => message.folder)).toEqual([expected, expected]);
    });
  }

  test("wakes a snoozed conversation, and brings one of sent mail to the inbox with the same counterpart", async () => {
    const it = createAlice();
    const { threadId } = await it.send({ messageId: "<s@example.test>" });
    it.store.transact((tx) => setThreadSnooze(tx, threadId, START + 1));
    await it.receive(NOTICE, { kind: "notice", threadId });
    expect(it.thread(threadId)).toMatchObject({
      folder: "inbox",
      unread: true,
      from: { email: "carol@remote.example" },
    });
    expect(it.thread(threadId)).not.toHaveProperty("snoozedUntil");
    await it.send({
      headers: ["In-Reply-To: <s@example.test>"],
      to: "dave@remote.example",
      date: "Mon, 05 Jan 2026 08:55:00 +0000",
    });
    expect(it.thread(threadId).from.email).toBe("dave@remote.example");
  });

  test("does not count as the latest mail: older mail that arrives late is still shown as that", async () => {
    const { receive, threadId, thread } = await told();
    const late = { from: "Dave <dave@remote.example>", date: "Mon, 05 Jan 2026 08:30:00 +0000" };
    await receive({ ...late, headers: ["References: <1@remote.example>"] });
    expect(thread(threadId).from).toEqual({ email: "dave@remote.example", name: "Dave" });
  });

  test("teaches nothing about its sender", async () => {
    const { core, alice, threadId, receive, thread } = await told();
    updateThread(core, alice, threadId, { folder: "spam" });
    const fromCarol = await receive({ ...ROOT, messageId: "<2@remote.example>", subject: "Other" });
    const fromDaemon = await receive({ ...NOTICE, messageId: "<3@remote.example>" });
    expect(thread(fromCarol.threadId).folder).toBe("spam");
    expect(thread(fromDaemon.threadId).folder).toBe("inbox");
  });
});

describe("a draft", () => {
  test("always starts a conversation, which nothing joins by reference or subject", async () => {
    const { receive, file, box, alice, thread, store } = createAlice();
    const root = await receive(ROOT);
    const known = store.db.select().from(threadReferences).all();
    const draft = await file(
      box,
      {
        from: "alice@example.test",
        to: "carol@remote.example",
        subject: "Re: Plans",
        messageId: "<d@example.test>",
        headers: ["In-Reply-To: <1@remote.example>"],
      },
      { kind: "draft", sentBy: alice.userId, threadId: root.threadId },
    );
    expect(draft.threadId).not.toBe(root.threadId);
    expect(thread(draft.threadId)).toMatchObject({
      folder: "drafts",
      unread: false,
      subject: "Re: Plans",
      from: { email: "carol@remote.example" },
    });
    expect(store.db.select().from(threadReferences).all()).toEqual(known);
    for (const folder of ["trash", "drafts"] as const) {
      store.db.update(threads).set({ folder }).where(eq(threads.id, draft.threadId)).run();
      for (const headers of [["In-Reply-To: <d@example.test>"], []]) {
        const answer = await receive({ from: "Carol <carol@remote.example>", subject: "Re: Plans", headers });
        expect(answer.threadId).not.toBe(draft.threadId);
      }
    }
  });
});

describe("mail joins the named conversation", () => {
  const sent = (it: ReturnType<typeof createAlice>, threadId: string) =>
    it.send({ to: "erin@remote.example", subject: "Something else" }, { threadId });

  test("in spite of the headers", async () => {
    const it = createAlice();
    const { threadId } = await it.receive(ROOT);
    expect((await sent(it, threadId)).threadId).toBe(threadId);
  });

  test("also in spam and trash, where it stays", async () => {
    for (const folder of ["spam", "trash"] as const) {
      const it = createAlice();
      const { threadId } = await it.receive(ROOT);
      updateThread(it.core, it.alice, threadId, { folder });
      expect((await sent(it, threadId)).threadId).toBe(threadId);
      expect(it.thread(threadId).folder).toBe(folder);
    }
  });

  test("unless it is unknown, another mailbox's, a draft or full: then the headers decide", async () => {
    const it = createAlice();
    const root = await it.receive(ROOT);
    const elsewhere = await it.file(it.world.box(it.workspaceId, "bob@example.test"), ROOT);
    const draft = await it.file(it.box, { subject: "Draft" }, { kind: "draft" });
    const trashed = await it.file(it.box, { subject: "Draft" }, { kind: "draft" });
    updateThread(it.core, it.alice, trashed.threadId, { folder: "trash" });
    const full = await it.receive({ subject: "Long" });
    it.store.db.update(threads).set({ messageCount: 1_000 }).where(eq(threads.id, full.threadId)).run();
    for (const threadId of ["thr_none", elsewhere.threadId, draft.threadId, trashed.threadId, full.threadId]) {
      const filed = await it.send({ headers: ["In-Reply-To: <1@remote.example>"] }, { threadId });
      expect(filed.threadId).toBe(root.threadId);
    }
  });
});

test("a given Bcc replaces the one in the message", async () => {
  const it = createAlice();
  const bcc = [{ email: "erin@remote.example", name: "Erin" }];
  const { threadId } = await it.send({ headers: ["Bcc: dave@remote.example"] }, { bcc });
  const none = await it.send({ headers: ["Bcc: dave@remote.example"] }, { bcc: [] });
  expect(it.messages(threadId)[0]?.bcc).toEqual(bcc);
  expect(it.messages(none.threadId)[0]).not.toHaveProperty("bcc");
});

test("a message sent twice is filed twice", async () => {
  const it = createAlice();
  const mail = { messageId: "<s@example.test>" };
  const [one, two] = [await it.send(mail), await it.send(mail)];
  expect([one.duplicate, two.duplicate]).toEqual([false, false]);
  expect(two.threadId).toBe(one.threadId);
});

describe("deliveredAt", () => {
  test("is the time of the first delivery; received mail has none", async () => {
    const it = createAlice();
    const sent = await it.send({});
    const received = await it.receive({});
    for (const now of [START + 5_000, START + 1_000]) {
      it.store.transact((tx) => {
        markDelivered(tx, sent.messageId, now);
        markDelivered(tx, received.messageId, now);
        markDelivered(tx, "msg_none", now);
      });
    }
    const dates = it.store.db.select({ id: messages.id, at: messages.deliveredAt }).from(messages).all();
    expect(new Map(dates.map(({ id, at }) => [id, at]))).toEqual(
      new Map([
        [sent.messageId, START + 5_000],
        [received.messageId, null],
      ]),
    );
    expect(it.messages(sent.threadId)[0]?.deliveredAt).toBe(new Date(START + 5_000).toISOString());
  });
});
