/** Filing a message, once (rules: Thread fields, Message fields, Event data, Arrival, Same message, Folders). */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { setThreadSnooze } from "../../../src/mailbox/changing/change.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { fileMessage } from "../../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../../src/mailbox/filing/prepare.ts";
import { searchThreads } from "../../../src/mailbox/reading/listing.ts";
import { listMessages } from "../../../src/mailbox/reading/messages.ts";
import { readMailboxUsage } from "../../../src/mailbox/state/mailboxes.ts";
import {
  mailboxes,
  mailboxUsage,
  messages,
  threadLabels,
  threadReferences,
  threads,
} from "../../../src/store/schema.ts";
import { letter } from "../../harness/mail/mail.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const WITH_FILES = [
  "From: Carol <carol@remote.example>",
  "To: Alice <alice@example.test>, bob@remote.example",
  "Cc: Dave <dave@remote.example>",
  "Subject: Two files",
  "Message-ID: <files@remote.example>",
  "In-Reply-To: <before@remote.example>",
  "Date: Mon, 05 Jan 2026 08:30:00 +0000",
  "MIME-Version: 1.0",
  'Content-Type: multipart/mixed; boundary="b"',
  "",
  "--b",
  "Content-Type: text/plain",
  "",
  "See the files.",
  "--b",
  "Content-Type: text/csv",
  'Content-Disposition: attachment; filename="a.csv"',
  "",
  "1,2,3",
  "--b",
  "Content-Type: application/octet-stream",
  'Content-Disposition: attachment; filename="b.bin"',
  "Content-Transfer-Encoding: base64",
  "",
  "AAEC",
  "--b--",
  "",
].join("\n");

describe("a new message", () => {
  test("starts a conversation in the inbox, unread, with every field of the list", async () => {
    const { receive, thread, box } = createAlice();
    const { threadId, duplicate } = await receive(WITH_FILES);
    expect(duplicate).toBe(false);
    expect(thread(threadId)).toEqual({
      id: threadId,
      mailboxId: box,
      mailbox: "alice@example.test",
      receivedOn: "alice@example.test",
      subject: "Two files",
      snippet: "See the files.",
      from: { email: "carol@remote.example", name: "Carol" },
      participants: [
        { email: "carol@remote.example", name: "Carol" },
        { email: "alice@example.test", name: "Alice" },
        { email: "bob@remote.example" },
        { email: "dave@remote.example", name: "Dave" },
      ],
      folder: "inbox",
      unread: true,
      starred: false,
      labels: [],
      lastMessageAt: "2026-01-05T08:30:00.000Z",
      hasAttachments: true,
      messageCount: 1,
    });
  });

  test("emits message.inbound with every field, in the same transaction", async () => {
    const { receive, events, box, store } = createAlice();
    const { messageId, threadId } = await receive(WITH_FILES);
    expect(events()).toEqual([
      {
        event: "message.inbound",
        data: {
          emailId: messageId,
          threadId,
          mailboxId: box,
          mailbox: "alice@example.test",
          messageId: "<files@remote.example>",
          inReplyTo: "<before@remote.example>",
          from: { email: "carol@remote.example", name: "Carol" },
          to: [{ email: "alice@example.test", name: "Alice" }, { email: "bob@remote.example" }],
          cc: [{ email: "dave@remote.example", name: "Dave" }],
          subject: "Two files",
          snippet: "See the files.",
          hasAttachments: true,
          attachmentCount: 2,
          isSpam: false,
          receivedAt: new Date(START).toISOString(),
        },
      },
    ]);
    expect(store.db.select().from(messages).all()).toHaveLength(1);
  });

  test("leaves nothing behind when its transaction fails", async () => {
    const { core, store, alice, box, receive, events } = createAlice();
    await receive(WITH_FILES);
    const kept = () =>
      store.db.$client
        .query("SELECT (SELECT count(*) FROM threads) AS threads, (SELECT bytes FROM mailbox_usage) AS bytes")
        .get();
    const before = kept();
    const message = await prepareMessage(Buffer.from(letter({ text: "unfiled" })), store.blobs);
    const filing = store.enqueue((tx) => {
      fileMessage(core, tx, { mailboxId: box, receivedOn: "alice@example.test", message, now: START });
      throw new Error("and then the disk was full");
    });
    expect(await filing.catch((error) => error.message)).toBe("and then the disk was full");
    expect(kept()).toEqual(before);
    expect(events()).toHaveLength(1);
    expect((await searchThreads(core, alice, { q: "unfiled", limit: 5 })).threads).toEqual([]);
  });

  for (const [name, date, expected] of [
    ["its Date header", "Sun, 04 Jan 2026 10:00:00 +0200", "2026-01-04T08:00:00.000Z"],
    ["its arrival, when the header is in the future", "Tue, 06 Jan 2026 10:00:00 +0000", new Date(START).toISOString()],
    ["its arrival, when the header is none", "yesterday or so", new Date(START).toISOString()],
  ] as const) {
    test(`is dated by ${name}`, async () => {
      const { receive, messages: messagesOf, thread } = createAlice();
      const { threadId } = await receive({ date });
      expect(messagesOf(threadId)[0]?.date).toBe(expected);
      expect(thread(threadId).lastMessageAt).toBe(expected);
    });
  }

  test("without a From has an address that cannot exist", async () => {
    const { receive, messages: messagesOf } = createAlice();
    const { threadId } = await receive(letter().replace(/^From:.*\n/m, ""));
    expect(messagesOf(threadId)[0]?.from.email).toEndWith(".invalid");
  });

  test("carries the verdicts it arrived with", async () => {
    const { receive, messages: messagesOf } = createAlice();
    const auth = { spf: "pass", dkim: "fail", dmarc: "none" };
    const { threadId } = await receive({}, { auth });
    expect(messagesOf(threadId)[0]?.auth).toEqual(auth);
    const without = await receive({ subject: "Other" });
    expect(messagesOf(without.threadId)[0]).not.toHaveProperty("auth");
  });

  test("into a deleted mailbox fails", async () => {
    const { file } = createAlice();
    expect(await file("mbx_gone", {}).catch((error) => error.message)).toContain("mbx_gone");
  });
});

describe("the same message again", () => {
  test("is not filed or announced twice, and the first is returned", async () => {
    const { receive, events, thread, core, box } = createAlice();
    const mail = letter({ messageId: "<once@remote.example>" });
    const first = await receive(mail);
    const used = readMailboxUsage(core, box).bytes;
    const retried = `Received: from relay.example by mx; Mon, 5 Jan 2026 09:00:01 +0000\n${mail}`;
    for (const again of [mail, retried]) {
      expect(await receive(again)).toEqual({ ...first, duplicate: true });
    }
    expect(events()).toHaveLength(1);
    expect(thread(first.threadId).messageCount).toBe(1);
    expect(readMailboxUsage(core, box).bytes).toBe(used);
  });

  test("is filed once when it is filed twice at once", async () => {
    const { receive, events } = createAlice();
    const mail = letter({ messageId: "<twice@remote.example>" });
    const filed = await Promise.all([receive(mail), receive(mail), receive(mail)]);
    expect(filed.map(({ duplicate }) => duplicate).sort()).toEqual([false, true, true]);
    expect(events()).toHaveLength(1);
  });

  test("in another mailbox is another message", async () => {
    const { receive, file, workspaceId, world, events } = createAlice();
    const bob = world.box(workspaceId, "bob@example.test");
    const mail = letter({ messageId: "<both@remote.example>" });
    const [one, two] = [await receive(mail), await file(bob, mail)];
    expect([one.duplicate, two.duplicate]).toEqual([false, false]);
    expect(events().map(({ data }) => data.mailbox)).toEqual(["alice@example.test", "bob@example.test"]);
  });

  test("with other content is another message, of the same conversation", async () => {
    const { receive } = createAlice();
    const one = await receive({ messageId: "<m@remote.example>", text: "one" });
    const two = await receive({ messageId: "<m@remote.example>", text: "two" });
    expect(two.duplicate).toBe(false);
    expect(two.threadId).toBe(one.threadId);
  });

  test("without a Message-ID never counts as a retry", async () => {
    const { receive, events } = createAlice();
    const mail = letter().replace(/^Message-ID:.*\n/m, "");
    const [one, two] = [await receive(mail), await receive(mail)];
    expect(two.duplicate).toBe(false);
    expect(two.messageId).not.toBe(one.messageId);
    expect(events().map(({ data }) => data.messageId)).toEqual(["", ""]);
  });

  test("that was sent is not a duplicate of a received one", async () => {
    const { receive, send, events } = createAlice();
    const mail = { from: "alice@example.test", to: "alice@example.test", messageId: "<self@example.test>" };
    const sent = await send(mail);
    const received = await receive(mail);
    expect(received.duplicate).toBe(false);
    expect(received.threadId).toBe(sent.threadId);
    expect(events()).toHaveLength(1);
  });
});

describe("a message in a conversation", () => {
  const reply = { subject: "Re: Hello", headers: ["In-Reply-To: <1@remote.example>"] };

  test("is shown in the list if it is newer", async () => {
    const { receive, thread } = createAlice();
    const { threadId } = await receive({ messageId: "<1@remote.example>", text: "first" });
    await receive({
      ...reply,
      from: "Dave <dave@remote.example>",
      text: "second",
      date: "Mon, 05 Jan 2026 08:10:00 +0000",
    });
    expect(thread(threadId)).toMatchObject({
      subject: "Hello",
      snippet: "second",
      from: { email: "dave@remote.example", name: "Dave" },
      lastMessageAt: "2026-01-05T08:10:00.000Z",
      messageCount: 2,
    });
  });

  test("gives the conversation only its subject if it is the oldest and arrives late", async () => {
    const { receive, thread, messages: messagesOf } = createAlice();
    const { threadId } = await receive({ ...reply, from: "Dave <dave@remote.example>", text: "second" });
    await receive({ messageId: "<1@remote.example>", text: "first", date: "Mon, 05 Jan 2026 07:00:00 +0000" });
    expect(thread(threadId)).toMatchObject({
      subject: "Hello",
      snippet: "second",
      from: { email: "dave@remote.example", name: "Dave" },
      lastMessageAt: "2026-01-05T08:00:00.000Z",
    });
    expect(messagesOf(threadId).map(({ text }) => text)).toEqual(["first", "second"]);
  });

  test("makes the conversation one with attachments if it has any", async () => {
    const { receive, thread } = createAlice();
    const { threadId } = await receive({ messageId: "<before@remote.example>" });
    expect(thread(threadId).hasAttachments).toBe(false);
    await receive(WITH_FILES);
    expect(thread(threadId).hasAttachments).toBe(true);
    await receive({ headers: ["In-Reply-To: <before@remote.example>"] });
    expect(thread(threadId).hasAttachments).toBe(true);
  });

  test("participants are distinct by address without case, with the first name given", async () => {
    const { receive, thread } = createAlice();
    const { threadId } = await receive({ messageId: "<1@remote.example>", from: "carol@remote.example" });
    await receive({ ...reply, from: "Carol <CAROL@remote.example>", to: "Alice <alice@example.test>" });
    await receive({ ...reply, from: "Caroline <carol@remote.example>", cc: "eve@remote.example" });
    expect(thread(threadId).participants).toEqual(
      [
        { email: "carol@remote.example", name: "Carol" },
        { email: "alice@example.test", name: "Alice" },
        { email: "eve@remote.example" },
      ].map((expected) =>
        expect.objectContaining({ ...expected, email: expect.stringMatching(new RegExp(`^${expected.email}$`, "i")) }),
      ),
    );
  });

  test("Bcc is never a participant", async () => {
    const { receive, thread, events } = createAlice();
    const { threadId } = await receive({ headers: ["Bcc: Secret <secret@remote.example>"] });
    expect(JSON.stringify(thread(threadId))).not.toContain("secret");
    expect(JSON.stringify(events())).not.toContain("ecret");
  });

  test("participants are bounded, and the latest author is always one", async () => {
    const { receive, thread } = createAlice();
    const many = Array.from({ length: 600 }, (_, i) => `p${i}@remote.example`).join(",\n ");
    const { threadId } = await receive({ messageId: "<1@remote.example>", to: many });
    expect(thread(threadId).participants).toHaveLength(500);
    await receive({ ...reply, from: "Late <late@remote.example>" });
    expect(thread(threadId).participants).toHaveLength(500);
    expect(thread(threadId).participants).toContainEqual({ email: "late@remote.example", name: "Late" });
  });

  test("participants with long names are fewer", async () => {
    const { receive, thread } = createAlice();
    const name = "n".repeat(400);
    const many = Array.from({ length: 300 }, (_, i) => `${name} <p${i}@remote.example>`).join(",\n ");
    const { threadId } = await receive({ messageId: "<1@remote.example>", to: many });
    await receive({ ...reply, from: "Late <late@remote.example>", to: many.replaceAll("remote", "other") });
    const { participants } = thread(threadId);
    expect(JSON.stringify(participants).length).toBeWithin(45_000, 60_000);
    expect(participants).toContainEqual({ email: "late@remote.example", name: "Late" });
  });
});

describe("sent mail", () => {
  test("alone: folder sent, read, without event, from is the first recipient", async () => {
    const { send, thread, messages: messagesOf, events, listed } = createAlice();
    const { threadId } = await send({ messageId: "<s@example.test>" }, { receivedOn: "alias@example.test" });
    expect(thread(threadId)).toMatchObject({
      folder: "sent",
      unread: false,
      from: { email: "carol@remote.example", name: "Carol" },
      receivedOn: "alias@example.test",
    });
    expect(messagesOf(threadId)[0]).toMatchObject({ direction: "outbound", read: true });
    expect(events()).toEqual([]);
    expect(await listed({ folder: "sent" })).toEqual([threadId]);
  });

  test("a reply brings it to the inbox; the sent message stays sent", async () => {
    const { send, receive, thread, core, alice } = createAlice();
    const { threadId } = await send({ messageId: "<s@example.test>" });
    const answer = await receive({ headers: ["In-Reply-To: <s@example.test>"], from: "Dave <dave@remote.example>" });
    expect(answer.threadId).toBe(threadId);
    expect(thread(threadId)).toMatchObject({
      folder: "inbox",
      unread: true,
      from: { email: "dave@remote.example", name: "Dave" },
    });
    const folders = listMessages(core, alice, { limit: 10 }).map(({ direction, folder }) => [direction, folder]);
    expect(folders.sort()).toEqual([
      ["inbound", "inbox"],
      ["outbound", "sent"],
    ]);
  });

  test("in a conversation does not change its folder, read state or counterpart", async () => {
    const { send, receive, thread, core, alice } = createAlice();
    const { threadId } = await receive({ messageId: "<1@remote.example>", from: "Dave <dave@remote.example>" });
    updateThread(core, alice, threadId, { folder: "archive", read: true });
    await send({ headers: ["In-Reply-To: <1@remote.example>"], date: "Mon, 05 Jan 2026 08:30:00 +0000" });
    expect(thread(threadId)).toMatchObject({
      folder: "archive",
      unread: false,
      from: { email: "dave@remote.example", name: "Dave" },
      messageCount: 2,
    });
  });

  test("to Bcc only shows no recipient", async () => {
    const { send, thread } = createAlice();
    const { threadId } = await send({ to: "undisclosed-recipients:;", headers: ["Bcc: secret@remote.example"] });
    expect(JSON.stringify(thread(threadId))).not.toContain("secret");
    expect(thread(threadId).from.email).toBe("alice@example.test");
  });
});

describe("new mail", () => {
  for (const folder of ["archive", "trash"] as const) {
    test(`returns a whole conversation from ${folder} to the inbox, unread`, async () => {
      const { receive, thread, core, alice } = createAlice();
      const { threadId } = await receive({ messageId: "<1@remote.example>" });
      updateThread(core, alice, threadId, { folder, read: true });
      await receive({ headers: ["References: <1@remote.example>"] });
      expect(thread(threadId)).toMatchObject({ folder: "inbox", unread: true, messageCount: 2 });
      expect(listMessages(core, alice, { folder: "inbox", limit: 10 })).toHaveLength(2);
      expect(listMessages(core, alice, { folder, limit: 10 })).toEqual([]);
    });
  }

  test("wakes a snoozed conversation at once, unread", async () => {
    const { receive, thread, core, alice, store, listed } = createAlice();
    const { threadId } = await receive({ messageId: "<1@remote.example>" });
    updateThread(core, alice, threadId, { read: true });
    store.transact((tx) => setThreadSnooze(tx, threadId, START + 1_000_000));
    await receive({ headers: ["References: <1@remote.example>"] });
    expect(thread(threadId)).toMatchObject({ folder: "inbox", unread: true });
    expect(thread(threadId)).not.toHaveProperty("snoozedUntil");
    expect(await listed()).toEqual([threadId]);
  });
});

test("usage is the sum of the sizes as received", async () => {
  const { receive, core, box } = createAlice();
  expect(readMailboxUsage(core, box)).toEqual({ bytes: 0, quotaBytes: 5_368_709_120 });
  const mails = [letter(), WITH_FILES];
  for (const mail of mails) await receive(mail);
  const size = mails.reduce((sum, mail) => sum + Buffer.byteLength(mail.replaceAll(/\r?\n/g, "\r\n")), 0);
  expect(readMailboxUsage(core, box).bytes).toBe(size);
});

test("the quota is the mailbox's own, else the setting", () => {
  const { store, core, box } = createAlice();
  store.db.update(mailboxes).set({ quotaBytes: 1234 }).where(eq(mailboxes.id, box)).run();
  expect(readMailboxUsage(core, box).quotaBytes).toBe(1234);
});

test("a mailbox that is deleted takes all its mail along", async () => {
  const { receive, core, alice, store, box } = createAlice();
  const { threadId } = await receive(WITH_FILES);
  updateThread(core, alice, threadId, { labels: ["x"] });
  store.db.delete(mailboxes).where(eq(mailboxes.id, box)).run();
  const left = (table: string) => store.db.$client.query(`SELECT count(*) AS n FROM ${table}`).get();
  for (const table of ["threads", "messages", "message_bodies", "attachments", "thread_labels", "thread_references"]) {
    expect([table, left(table)]).toEqual([table, { n: 0 }]);
  }
  expect(store.db.select().from(mailboxUsage).all()).toEqual([]);
  expect(store.db.$client.query("SELECT rowid FROM message_index WHERE message_index MATCH 'files'").all()).toEqual([]);
  expect(store.db.select().from(threadLabels).all()).toEqual([]);
});

test("messages filed at once are all filed, in the right number of conversations", async () => {
  const { receive, store, events, box } = createAlice();
  const filed = await Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      receive({ messageId: `<c${i}@remote.example>`, headers: [`References: <root-${i % 4}@remote.example>`] }),
    ),
  );
  expect(new Set(filed.map(({ messageId }) => messageId)).size).toBe(60);
  expect(store.db.select().from(messages).where(eq(messages.mailboxId, box)).all()).toHaveLength(60);
  const counts = store.db.select({ count: threads.messageCount }).from(threads).all();
  expect(counts).toEqual(Array.from({ length: 4 }, () => ({ count: 15 })));
  expect(events()).toHaveLength(60);
  expect(store.db.select().from(threadReferences).all()).toHaveLength(4);
});
