/** Reports between mail systems are filed as read; no other mail is. */
import { expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { listMailboxes } from "../../../src/mailbox/state/mailboxes.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

function report(headers: string[] = []): string {
  const name = "receiver.example!example.test!1700000000!1700086399.xml.gz";
  return [
    "From: noreply@receiver.example",
    "To: alice@example.test",
    "Subject: Report Domain: example.test Submitter: receiver.example Report-ID: <1@receiver.example>",
    ...headers,
    "MIME-Version: 1.0",
    `Content-Type: application/gzip; name="${name}"`,
    `Content-Disposition: attachment; filename="${name}"`,
    "Content-Transfer-Encoding: base64",
    "",
    gzipSync("<feedback/>").toString("base64"),
    "",
  ].join("\n");
}

test("a report arrives read, in the inbox, with a label, and is announced", async () => {
  const { receive, thread, messages, core, alice, events } = createAlice();
  const { threadId, messageId } = await receive(report());
  expect(thread(threadId)).toMatchObject({ folder: "inbox", unread: false, labels: ["Reports"] });
  expect(messages(threadId)[0]?.read).toBe(true);
  expect(listMailboxes(core, alice)[0]?.unread).toBe(0);
  expect(events()).toMatchObject([{ event: "message.inbound", data: { emailId: messageId, isSpam: false } }]);
});

test("a report that replies in a conversation is ordinary mail", async () => {
  const { receive, thread } = createAlice();
  const { threadId } = await receive({ messageId: "<talk@x>" });
  expect((await receive(report(["In-Reply-To: <talk@x>"]))).threadId).toBe(threadId);
  expect(thread(threadId)).toMatchObject({ unread: true, labels: [] });
});

test("a report classified as spam is spam", async () => {
  const { receive, thread } = createAlice();
  const { threadId } = await receive(report(), { spam: true });
  expect(thread(threadId)).toMatchObject({ folder: "spam", unread: true, labels: [] });
});

test("a reply in its conversation is unread", async () => {
  const { receive, thread } = createAlice();
  const { threadId } = await receive(report(["Message-ID: <report@x>"]));
  await receive({ headers: ["In-Reply-To: <report@x>"] });
  expect(thread(threadId)).toMatchObject({ unread: true, labels: ["Reports"] });
});
