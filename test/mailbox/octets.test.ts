/** The octets that IMAP serves: what they are, and that they stay. */
import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { createLog } from "../../src/base/log.ts";
import { createOctets } from "../../src/mailbox/octets.ts";
import { imapOctets, messageBodies, messages } from "../../src/store/schema.ts";
import { createAlice } from "../harness/mailbox-world.ts";

function office() {
  const alice = createAlice();
  const lines: string[] = [];
  const octets = createOctets({
    store: alice.store,
    log: createLog("info", alice.runtime.now, (line) => lines.push(line)),
  });
  return {
    ...alice,
    lines,
    sizes: octets.frozenSizes,
    async text(seq: number, userId = alice.alice.userId) {
      const bytes = await octets.read(seq, userId);
      return bytes && Buffer.from(bytes).toString();
    },
  };
}
const digestOf = (text = ""): string => new Bun.CryptoHasher("sha256").update(text).digest("hex");

test("what arrived is the raw file under our Received and Authentication-Results", async () => {
  const { receive, text, mailbox, alice } = office();
  const { seq, messageId } = await receive({ text: "Hello" }, { auth: { spf: "pass", dkim: "none", dmarc: "pass" } });
  const raw = Buffer.from(await mailbox.getRawMessage(alice, messageId)).toString();
  expect(await text(seq)).toBe(
    `Received: by example.test with ESMTP id ${messageId}\r\n\tfor <alice@example.test>; Mon, 05 Jan 2026 09:00:00 +0000\r\nAuthentication-Results: example.test; spf=pass; dkim=none; dmarc=pass\r\n${raw}`,
  );
});

test("the author sees the Bcc of what they sent, and nobody else; both stay", async () => {
  const { send, text, world, workspaceId, sizes, alice } = office();
  const ben = world.user(workspaceId, "ben@example.test", "admin");
  const { seq } = await send({ text: "Hello" }, { bcc: [{ email: "ben@example.test" }] });
  const [hers, his] = [await text(seq), await text(seq, ben.userId)];
  expect(hers).toContain("Bcc: ben@example.test\r\n");
  expect(his).not.toContain("ben@example.test");
  expect(sizes([seq], alice.userId).get(seq)).toBe(hers?.length);
  expect(sizes([seq], ben.userId).get(seq)).toBe(his?.length);
});

test("a message whose octets change is told, and the size that was told stays", async () => {
  const { receive, text, store, lines, sizes, alice } = office();
  const { seq } = await receive({ text: "Hello" });
  const before = await text(seq);
  expect(await text(seq)).toBe(before);
  expect(lines).toEqual([]);
  store.db.update(messageBodies).set({ text: "Hello, again" }).where(eq(messageBodies.messageSeq, seq)).run();
  await text(seq);
  expect(lines[0]).toContain("no longer what a mail app was told");
  expect(sizes([seq], alice.userId).get(seq)).toBe(before?.length);
});

test("a draft that is written anew is frozen anew, and a deleted message is gone", async () => {
  const { receive, text, store, lines } = office();
  const { seq } = await receive({ text: "Hello" }, { kind: "draft" });
  await text(seq);
  store.db.update(messageBodies).set({ text: "Hello, again" }).where(eq(messageBodies.messageSeq, seq)).run();
  store.db.update(messages).set({ filedAt: 1, size: 5 }).where(eq(messages.seq, seq)).run();
  expect(store.db.select().from(imapOctets).all()).toEqual([]);
  expect(await text(seq)).toContain("Hello, again");
  expect(lines).toEqual([]);
  store.db.delete(messages).where(eq(messages.seq, seq)).run();
  expect(await text(seq)).toBeUndefined();
  expect(store.db.select().from(imapOctets).all()).toEqual([]);
});

/** What composer 1 made when it was released: a mail app may have kept it. Never change these; add a composer instead. */
const KEPT: [name: string, mail: Parameters<ReturnType<typeof office>["receive"]>[0], digest: string][] = [
  ["plain", { text: "Hello", messageId: "<1@x>" }, "9eadf7cca4d1a61ab0f3d79d92b4d8b2c0dc0db1a8dce94ac7e19e188b2c80c5"],
  [
    "long lines and other scripts",
    { text: `${"word ".repeat(300)}\n日本語 Grüße\n.\n`, subject: "=?utf-8?q?Gr=C3=BC=C3=9Fe?=", messageId: "<2@x>" },
    "1168b951ae07db0968a130ffbcffee74ae86b0bf0adf8e00180a5237908fa65c",
  ],
  [
    "HTML, an inline picture and a file",
    [
      "From: Ada <ada@remote.example>",
      "To: alice@example.test",
      "Subject: Parts",
      "Date: Mon, 05 Jan 2026 07:00:00 +0000",
      "Message-ID: <3@x>",
      "MIME-Version: 1.0",
      'Content-Type: multipart/mixed; boundary="b"',
      "",
      "--b",
      'Content-Type: multipart/related; boundary="c"',
      "",
      "--c",
      "Content-Type: text/html; charset=utf-8",
      "",
      '<p>Hi <img src="cid:p"></p>',
      "--c",
      "Content-Type: image/png",
      "Content-ID: <p>",
      "Content-Transfer-Encoding: base64",
      "",
      "iVBORw0KGgo=",
      "--c--",
      "--b",
      'Content-Type: application/pdf; name="plan.pdf"',
      "Content-Disposition: attachment",
      "Content-Transfer-Encoding: base64",
      "",
      "JVBERi0=",
      "--b--",
      "",
    ].join("\n"),
    "d6c4e79a5fee418501173aaf6a8246398bdda23cfb6292386faeb35ac841767e",
  ],
];
for (const [name, mail, digest] of KEPT) {
  test(`composer 1 still makes what it made: ${name}`, async () => {
    const { receive, text, store } = office();
    const { seq } = await receive(mail, { auth: { spf: "pass", dkim: "pass", dmarc: "pass" } });
    store.db.update(messages).set({ id: "msg_kept" }).where(eq(messages.seq, seq)).run();
    expect(digestOf(await text(seq))).toBe(digest);
  });
}
