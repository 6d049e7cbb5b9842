/** The octets that IMAP serves: what they are, and that they stay. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { unavailable } from "../../../src/base/errors.ts";
import { createLog } from "../../../src/base/log.ts";
import { createImapFolders } from "../../../src/mailbox/imap/imap-folders.ts";
import { createOctets } from "../../../src/mailbox/imap/octets.ts";
import { getRawMessage } from "../../../src/mailbox/reading/messages.ts";
import { attachments, imapMessages, imapOctets, messageBodies, messages } from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

/** Mail from before octets were kept. */
const BEFORE = { withoutOctets: true };

function office() {
  const alice = createAlice(BEFORE);
  const lines: string[] = [];
  const woken: string[] = [];
  const octets = createOctets({
    ...alice.core,
    wake: (job) => woken.push(job),
    log: createLog("info", alice.runtime.now, (line) => lines.push(line)),
  });
  return {
    ...alice,
    lines,
    woken,
    octets,
    sizes: (seq: number, userId: string) => octets.known([seq], userId).get(seq)?.size,
    text: (seq: number, userId = alice.alice.userId) =>
      octets.withContent(seq, userId, ({ bytes }) => bytes.toString()),
  };
}
const digestOf = (text = ""): string => new Bun.CryptoHasher("sha256").update(text).digest("hex");

test("what arrived is the raw file under our Received and Authentication-Results", async () => {
  const { receive, text, core, alice } = office();
  const { seq, messageId } = await receive({ text: "Hello" }, { auth: { spf: "pass", dkim: "none", dmarc: "pass" } });
  const raw = Buffer.from(await getRawMessage(core, alice, messageId)).toString();
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
  expect(sizes(seq, alice.userId)).toBe(hers?.length);
  expect(sizes(seq, ben.userId)).toBe(his?.length);
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
  expect(sizes(seq, alice.userId)).toBe(before?.length);
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

describe("mail of a mailbox that was opened over IMAP", () => {
  async function opened(count: number, mail: Parameters<ReturnType<typeof office>["receive"]>[0] = { text: "Hello" }) {
    const one = office();
    const filed = [];
    for (let i = 0; i < count; i++) filed.push(await one.receive(mail, { now: i }));
    const folder = await createImapFolders(one.core).opened(one.box, "inbox");
    const states = () =>
      one.store.db
        .select()
        .from(imapMessages)
        .all()
        .map(({ octets }) => octets);
    return { ...one, filed, folder, states };
  }

  test("is frozen in portions, and again what came since; nothing else is", async () => {
    const { octets, states, receive, send, woken, runtime, store } = await opened(70);
    const job = () => octets.job.runDue(runtime.now());
    expect(await job()).toBe(runtime.now());
    expect(states().filter((state) => state === 1)).toHaveLength(64);
    await job();
    expect([await job(), new Set(states())]).toEqual([null, new Set([1])]);
    woken.length = 0;
    const { seq } = await receive({ text: "News" });
    await send({ text: "Written" }, { bcc: [{ email: "ben@example.test" }] });
    runtime.advanceTo(runtime.now() + 2_000);
    expect(woken).toEqual(["freeze-octets"]);
    await job();
    expect(new Set(states())).toEqual(new Set([1]));
    const rows = store.db.select().from(imapOctets).all();
    expect(rows.filter(({ author }) => author)).toHaveLength(1);
    expect(rows).toHaveLength(73);
    expect(rows.find((row) => row.messageSeq === seq)?.structure).toMatch(/^\("text" "plain"/);
  });

  test("is frozen from the newest on", async () => {
    const { octets, filed, store, runtime } = await opened(70);
    await octets.job.runDue(runtime.now());
    const waiting = store.db.select().from(imapMessages).where(eq(imapMessages.octets, 0)).all();
    expect(waiting.map(({ messageSeq }) => messageSeq)).toEqual(filed.slice(0, 6).map(({ seq }) => seq));
  });

  test.each([
    ["back by an hour", -3_600_000],
    ["ahead by a day", 86_400_000],
  ])("rests no longer when the clock is set %s", async (_, by) => {
    const alice = createAlice(BEFORE);
    const { core, runtime, box } = alice;
    const octets = createOctets({
      ...core,
      parser: {
        ...core.parser,
        composeStored: (parts, source) => {
          if ("text" in parts && parts.text.includes("First")) {
            runtime.setBy(by);
            runtime.advanceTo(runtime.now() + 100);
          }
          return core.parser.composeStored(parts, source);
        },
      },
    });
    await alice.receive({ text: "First" });
    for (let i = 0; i < 64; i++) await alice.receive({ text: "Next" });
    await createImapFolders(core).opened(box, "inbox");
    // The oldest comes last.
    await octets.job.runDue(runtime.now());
    expect((await octets.job.runDue(runtime.now())) ?? 0).toBeWithin(runtime.now() - 3_600_000, runtime.now() + 10_000);
  });

  test("what cannot be composed holds up nothing, and what a store lacks for a moment is composed later", async () => {
    const [fails, later] = [new Error("gone"), unavailable("later")];
    const alice = createAlice(BEFORE);
    let error: unknown;
    const octets = createOctets({
      ...alice.core,
      parser: {
        ...alice.core.parser,
        composeStored: (parts, source) =>
          error && "text" in parts && parts.text.includes("Odd")
            ? Promise.reject(error)
            : alice.core.parser.composeStored(parts, source),
      },
    });
    await alice.receive({ text: "Odd" });
    await alice.receive({ text: "Even" });
    await createImapFolders(alice.core).opened(alice.box, "inbox");
    const freeze = () => octets.job.runDue(alice.runtime.now());
    const states = () =>
      alice.store.db
        .select()
        .from(imapMessages)
        .all()
        .map(({ octets }) => octets);
    error = later;
    await expect(freeze()).rejects.toThrow("later");
    expect(states()).toEqual([0, 1]);
    error = fails;
    await freeze();
    expect(states()).toEqual([2, 1]);
  });

  test("a draft that is written anew waits anew, and octets that change are noted", async () => {
    const { octets, receive, states, store, text, runtime, core, box } = await opened(0);
    await createImapFolders(core).opened(box, "drafts");
    const { seq } = await receive({ text: "Hello" }, { kind: "draft" });
    await octets.job.runDue(runtime.now());
    expect(states()).toEqual([1]);
    store.db.update(messages).set({ filedAt: 1, size: 5 }).where(eq(messages.seq, seq)).run();
    expect(states()).toEqual([0]);
    await octets.job.runDue(runtime.now());
    store.db.update(messageBodies).set({ text: "Hello, again" }).where(eq(messageBodies.messageSeq, seq)).run();
    await text(seq);
    expect(states()).toEqual([3]);
  });
});

test("the header alone is that of the whole", async () => {
  const alice = office();
  for (const mail of [{ text: "Hello" }, { text: "Grüße ".repeat(20_000) }, ...KEPT.map(([, mail]) => mail)]) {
    const { seq } = await alice.receive(mail, { auth: { spf: "pass", dkim: "pass", dmarc: "pass" } });
    const whole = (await alice.text(seq)) ?? "";
    const header = await alice.octets.header(seq, alice.alice.userId);
    expect(header?.toString()).toBe(whole.slice(0, whole.indexOf("\r\n\r\n") + 4));
  }
});

/**
 * Digests of the octets that composer 1 made when it was released: a mail app may have kept these octets. Never change them;
 * add a composer instead.
 */
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
test("what is known of files is in the octets, and stays", async () => {
  const { receive, text, store } = office();
  const mail = [
    "From: Ada <ada@remote.example>",
    "Date: Mon, 05 Jan 2026 07:00:00 +0000",
    "Message-ID: <4@x>",
    'Content-Type: multipart/alternative; boundary="b"',
    "",
    "--b",
    "",
    "Come.",
    "--b",
    "Content-Type: text/calendar; method=REQUEST; x-title*=utf-8''Gr%C3%BC%C3%9Fe",
    "",
    "BEGIN:VCALENDAR",
    "--b--",
    "",
  ].join("\n");
  const { seq } = await receive(mail, {});
  store.db.update(messages).set({ id: "msg_kept" }).where(eq(messages.seq, seq)).run();
  const octets = (await text(seq)) ?? "";
  expect(octets).toContain("text/calendar; method=REQUEST;\r\n x-title*0*=utf-8''Gr%C3%BC%C3%9Fe\r\n");
  expect(digestOf(octets)).toBe("64b4dd428e8714683e69923a73d11a90b36516f669ee6ee19a57a1d0e2a3c090");
});

for (const [name, mail, digest] of KEPT) {
  test(`composer 1 still makes what it made: ${name}`, async () => {
    const { receive, text, store } = office();
    const { seq } = await receive(mail, { auth: { spf: "pass", dkim: "pass", dmarc: "pass" } });
    store.db.update(messages).set({ id: "msg_kept" }).where(eq(messages.seq, seq)).run();
    // What was not known of its files.
    store.db.update(attachments).set({ parameters: [], unnamed: false, alternative: false }).run();
    expect(digestOf(await text(seq))).toBe(digest);
  });
}
