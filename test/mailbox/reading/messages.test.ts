/**
 * Single messages, their files and attachments (rules: List of messages, One message, Raw messages, Attachments, Bcc,
 * HTML served).
 */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { getThread, updateThread } from "../../../src/mailbox/changing/threads.ts";
import { toHtmlColumns } from "../../../src/mailbox/filing/prepare.ts";
import { listThreads } from "../../../src/mailbox/reading/listing.ts";
import { getVisibleHtml } from "../../../src/mailbox/reading/masked-codes.ts";
import { getAttachment, getMessage, getRawMessage, listMessages } from "../../../src/mailbox/reading/messages.ts";
import { renewSanitizedHtml } from "../../../src/mailbox/reading/stored-html.ts";
import { parseMessage } from "../../../src/message/parse.ts";
import { packText } from "../../../src/message/reading.ts";
import { SANITIZER_VERSION } from "../../../src/message/sanitize.ts";
import { addresses, attachments, messageBodies, messages } from "../../../src/store/schema.ts";
import { withoutSources } from "../../harness/mail/parsed.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const RICH = [
  "From: Carol <carol@remote.example>",
  "To: alice@example.test",
  "Cc: Dave <dave@remote.example>",
  "Subject: Rich",
  "Message-ID: <rich@remote.example>",
  "Date: Mon, 05 Jan 2026 08:30:00 +0000",
  "X-Kept: as it is",
  "MIME-Version: 1.0",
  'Content-Type: multipart/mixed; boundary="m"',
  "",
  "--m",
  'Content-Type: multipart/related; boundary="r"',
  "",
  "--r",
  "Content-Type: text/html; charset=utf-8",
  "",
  '<p onclick="steal()">Look: <img src="cid:logo@x"></p><script>steal()</script>',
  "--r",
  "Content-Type: image/png",
  "Content-ID: <logo@x>",
  'Content-Disposition: inline; filename="logo.png"',
  "Content-Transfer-Encoding: base64",
  "",
  "iVBORw0KGgo=",
  "--r--",
  "--m",
  "Content-Type: text/csv",
  'Content-Disposition: attachment; filename="a.csv"',
  "",
  "1,2,3",
  "--m--",
  "",
].join("\n");

describe("a message", () => {
  test("has its visible HTML, also for a view without HTML", async () => {
    const { receive, core, alice } = createAlice();
    const rich = await receive(RICH);
    const { html } = getMessage(core, alice, rich.messageId, { html: true });
    expect(await getVisibleHtml(core, alice, { id: rich.messageId })).toEqual({ html: html ?? "", hidden: 0 });
    const plain = await receive("From: carol@remote.example\nTo: alice@example.test\nSubject: Plain\n\nx\n");
    expect(await getVisibleHtml(core, alice, { id: plain.messageId })).toBeUndefined();
    for (const { messageId: id, threadId } of [rich, plain]) {
      const views = [
        getMessage(core, alice, id, { html: false }),
        ...getThread(core, alice, threadId, { html: false }).messages,
      ];
      for (const view of views) {
        expect(await getVisibleHtml(core, alice, view)).toEqual(await getVisibleHtml(core, alice, { id }));
      }
    }
  });

  test("has every field that applies", async () => {
    const { receive, core, alice, box } = createAlice();
    const auth = { spf: "pass", dkim: "pass", dmarc: "pass" };
    const { messageId, threadId } = await receive(RICH, { auth });
    const message = getMessage(core, alice, messageId, { html: true });
    const attachment = {
      id: expect.stringMatching(/^att_/),
      url: expect.stringMatching(/^\/api\/v1\/attachments\/att_/),
    };
    expect(message).toEqual({
      id: messageId,
      threadId,
      mailboxId: box,
      direction: "inbound",
      messageId: "<rich@remote.example>",
      from: { email: "carol@remote.example", name: "Carol" },
      to: [{ email: "alice@example.test" }],
      cc: [{ email: "dave@remote.example", name: "Dave" }],
      subject: "Rich",
      date: "2026-01-05T08:30:00.000Z",
      read: false,
      text: expect.stringContaining("Look:"),
      html: expect.stringContaining("cid:logo@x"),
      attachments: expect.arrayContaining([
        { ...attachment, filename: "logo.png", contentType: "image/png", size: 8, inline: true, contentId: "logo@x" },
        { ...attachment, filename: "a.csv", contentType: "text/csv", size: 5, inline: false },
      ]),
      auth,
    });
    for (const { id, url } of message.attachments) expect(url).toBe(`/api/v1/attachments/${id}`);
    expect(getThread(core, alice, threadId, { html: true }).messages).toEqual([message]);
  });

  test("leaves out inapplicable fields", async () => {
    const { receive, core, alice } = createAlice();
    const { messageId } = await receive("From: a@remote.example\nSubject: x\n\nhi\n");
    const { messageId: _, ...message } = getMessage(core, alice, messageId, { html: true });
    expect(Object.keys(message).sort()).toEqual(
      [
        "attachments",
        "cc",
        "date",
        "direction",
        "from",
        "id",
        "mailboxId",
        "read",
        "subject",
        "text",
        "threadId",
        "to",
      ].sort(),
    );
    expect(_).toBeUndefined();
  });

  test("html=false leaves out the HTML, and only that", async () => {
    const { receive, core, alice } = createAlice();
    const { messageId, threadId } = await receive(RICH);
    const { html, ...rest } = getMessage(core, alice, messageId, { html: true });
    expect(html).toContain("<p>");
    expect(getMessage(core, alice, messageId, { html: false })).toEqual(rest);
    expect(getThread(core, alice, threadId, { html: false }).messages).toEqual([rest]);
  });

  test("says when it was delivered", async () => {
    const { send, core, alice, store } = createAlice();
    const { messageId } = await send({});
    store.db.update(messages).set({ deliveredAt: 1_700_000_000_000 }).run();
    expect(getMessage(core, alice, messageId, { html: true }).deliveredAt).toBe("2023-11-14T22:13:20.000Z");
  });
});

describe("HTML", () => {
  test("is served without script and handlers", async () => {
    const { receive, core, alice } = createAlice();
    const { messageId } = await receive(RICH);
    expect(getMessage(core, alice, messageId, { html: true }).html).not.toMatch(/script|onclick|steal/);
  });

  test("from an older policy is renewed from the source, and stored", async () => {
    const { receive, core, alice, store } = createAlice();
    const { messageId, threadId } = await receive(RICH);
    const { html } = getMessage(core, alice, messageId, { html: true });
    const body = () =>
      store.db.select({ html: messageBodies.html, sanitizer: messageBodies.sanitizer }).from(messageBodies).get();
    for (const read of [
      () => getMessage(core, alice, messageId, { html: true }).html,
      () => getThread(core, alice, threadId, { html: true }).messages[0]?.html,
    ]) {
      store.db
        .update(messageBodies)
        .set({ html: "<script>old()</script>", sanitizer: SANITIZER_VERSION - 1 })
        .run();
      expect(read()).not.toContain("script");
      await renewSanitizedHtml(core, messageId);
      expect(read()).toBe(html ?? "");
      expect(body()).toEqual({ html: packText(html ?? ""), sanitizer: SANITIZER_VERSION });
    }
  });
});

describe("Bcc", () => {
  const BCC = ["Bcc: Alice <ALICE@example.test>, Sales <sales@example.test>, Eve <eve@remote.example>"];

  /** Lists the Bcc of a message that each person sees, on every path. */
  async function seenBy(sentByAlice: boolean) {
    const office = createAlice();
    const { world, workspaceId, box, core, alice } = office;
    world.alias(box, "sales@example.test");
    const admin = world.user(workspaceId, "admin@example.test", "admin");
    const eve = world.user(workspaceId, "eve@remote.example", "member");
    const mate = world.user(workspaceId, "mate@example.test", "member");
    for (const person of [eve, mate]) world.grant(box, person, "full");
    const { messageId, threadId } = await (sentByAlice ? office.send : office.receive)({ headers: BCC });
    return {
      office,
      admin,
      seen: async (name: "alice" | "admin" | "eve" | "mate") => {
        const caller = { alice, admin, eve, mate }[name];
        const ofMessage = getMessage(core, caller, messageId, { html: true }).bcc;
        const ofThread = getThread(core, caller, threadId, { html: true }).messages[0]?.bcc;
        expect(ofThread).toEqual(ofMessage as NonNullable<typeof ofMessage>);
        const raw = await parseMessage(await getRawMessage(core, caller, messageId));
        expect(raw.bcc).toEqual(ofMessage ?? []);
        return ofMessage?.map(({ email }) => email.toLowerCase());
      },
    };
  }

  test("of a received message: a Bcc recipient sees only their own addresses, others see none", async () => {
    const { seen } = await seenBy(false);
    expect(await seen("alice")).toEqual(["alice@example.test", "sales@example.test"]);
    expect(await seen("eve")).toEqual(["eve@remote.example"]);
    expect(await seen("admin")).toBeUndefined();
    expect(await seen("mate")).toBeUndefined();
  });

  test("of a sent message: the sender sees all, a Bcc recipient their own, others see none", async () => {
    const { seen } = await seenBy(true);
    expect(await seen("alice")).toEqual(["alice@example.test", "sales@example.test", "eve@remote.example"]);
    expect(await seen("eve")).toEqual(["eve@remote.example"]);
    expect(await seen("admin")).toBeUndefined();
    expect(await seen("mate")).toBeUndefined();
  });

  test("of a sent message: an address from after it was sent shows nobody that it was there", async () => {
    const { office, admin, seen } = await seenBy(true);
    const { store, runtime, world, workspaceId } = office;
    const theirs = world.box(workspaceId, "admin@example.test", admin);
    const setAt = (createdAt: number) =>
      store.db
        .update(addresses)
        .set({ address: "eve@remote.example", createdAt })
        .where(eq(addresses.mailboxId, theirs))
        .run();
    setAt(runtime.now() + 1);
    expect(await seen("admin")).toBeUndefined();
    setAt(0);
    expect(await seen("admin")).toEqual(["eve@remote.example"]);
  });

  test("matches with a tag, and in any spelling of the address", async () => {
    const { world, workspaceId, box, core, alice, receive } = createAlice();
    const eve = world.user(workspaceId, "eve@example.test", "admin");
    const { messageId } = await receive({
      headers: ["Bcc: Alice+Lists@EXAMPLE.test, eve+x@example.test, al@example.test"],
    });
    const seen = (caller: typeof alice) => getMessage(core, caller, messageId, { html: true }).bcc;
    expect(seen(alice)).toEqual([{ email: "Alice+Lists@EXAMPLE.test" }]);
    expect(seen(eve)).toEqual([{ email: "eve+x@example.test" }]);
    world.alias(box, "al@example.test");
    expect(seen(alice)).toEqual([{ email: "Alice+Lists@EXAMPLE.test" }, { email: "al@example.test" }]);
  });

  test("is in no list, search or event", async () => {
    const { office } = await seenBy(true);
    const { core, alice, events, listed } = office;
    const shown = [
      await listThreads(core, alice, { folder: "all", limit: 9 }),
      listMessages(core, alice, { limit: 9 }),
      events(),
    ];
    expect(JSON.stringify(shown)).not.toContain("eve@remote");
    for (const q of ["eve", "to:eve@remote.example", "to:sales@example.test"]) expect(await listed({ q })).toEqual([]);
  });
});

describe("the raw file", () => {
  test("has the stored headers, the body as received and the attachments", async () => {
    const { receive, core, alice } = createAlice();
    const { messageId } = await receive(`Received: from relay.example by mx; Mon, 5 Jan 2026 09:00:01 +0000\n${RICH}`);
    const bytes = await getRawMessage(core, alice, messageId);
    const raw = new TextDecoder().decode(bytes);
    expect(raw).toContain("X-Kept: as it is\r\n");
    expect(raw).not.toContain("Received:");
    const [again, first] = [await parseMessage(bytes), await parseMessage(Buffer.from(RICH))];
    expect(withoutSources({ ...again, attachments: [] })).toEqual(withoutSources({ ...first, attachments: [] }));
    const files = (parsed: typeof again) =>
      withoutSources(parsed).attachments.map((file) => ({
        ...file,
        content: Buffer.from(file.content).toString("base64"),
      }));
    expect(files(again).sort((a, b) => a.filename.localeCompare(b.filename))).toEqual(
      files(first).sort((a, b) => a.filename.localeCompare(b.filename)),
    );
  });
});

test("an attachment returns its bytes", async () => {
  const { receive, core, alice } = createAlice();
  const { messageId } = await receive(RICH);
  for (const attachment of getMessage(core, alice, messageId, { html: false }).attachments) {
    const { content, ...rest } = await getAttachment(core, alice, attachment.id);
    const { filename, contentType, size } = attachment;
    expect(rest).toEqual({ emailId: messageId, filename, contentType, parameters: [], size });
    const bytes = await content.bytes();
    expect(bytes.byteLength).toBe(attachment.size);
    expect(Buffer.from(bytes).toString("base64")).toBe(attachment.inline ? "iVBORw0KGgo=" : btoa("1,2,3"));
  }
});

describe("recent messages", () => {
  async function several() {
    const office = createAlice();
    const { receive, send, file, world, workspaceId, core, alice } = office;
    const bob = world.box(workspaceId, "bob@example.test");
    const minute = (n: number) => `Mon, 05 Jan 2026 08:0${n}:00 +0000`;
    await receive({ subject: "in 1", date: minute(1), cc: "dave@remote.example" });
    await file(bob, { subject: "bob 2", date: minute(2) });
    await send({ subject: "out 3", date: minute(3) });
    const { threadId } = await receive({ subject: "junk 4", from: "junk@remote.example", date: minute(4) });
    updateThread(core, alice, threadId, { folder: "spam" });
    await receive({ subject: "in 0", date: minute(0) });
    return {
      ...office,
      subjects: (filters: Partial<Parameters<typeof listMessages>[2]>) =>
        listMessages(core, alice, { limit: 25, ...filters }).map(({ subject }) => subject),
    };
  }

  test("outgoing mail counts as that in every folder that it can be in", async () => {
    const { subjects, send, core, alice } = await several();
    for (const folder of ["archive", "trash", "spam"] as const) {
      const { threadId } = await send({ subject: folder, date: "Mon, 05 Jan 2026 08:05:00 +0000" });
      updateThread(core, alice, threadId, { folder });
    }
    expect(subjects({ direction: "outbound" })).toEqual(["spam", "trash", "archive", "out 3"]);
  });

  const cases: [Parameters<Awaited<ReturnType<typeof several>>["subjects"]>[0], string[]][] = [
    [{}, ["junk 4", "out 3", "bob 2", "in 1", "in 0"]],
    [{ limit: 2 }, ["junk 4", "out 3"]],
    [{ mailbox: "bob@example.test" }, ["bob 2"]],
    [{ folder: "inbox" }, ["bob 2", "in 1", "in 0"]],
    [{ folder: "sent" }, ["out 3"]],
    [{ folder: "spam" }, ["junk 4"]],
    [{ folder: "drafts" }, []],
    [{ direction: "inbound" }, ["junk 4", "bob 2", "in 1", "in 0"]],
    [{ direction: "outbound" }, ["out 3"]],
    [{ direction: "outbound", folder: "inbox" }, []],
    [{ direction: "inbound", folder: "inbox", mailbox: "alice@example.test", limit: 1 }, ["in 1"]],
  ];
  for (const [filters, expected] of cases) {
    test(`${JSON.stringify(filters)}: ${expected.join(", ") || "none"}`, async () => {
      expect((await several()).subjects(filters)).toEqual(expected);
    });
  }

  test("have every field of the summary", async () => {
    const { core, alice } = await several();
    const [summary] = listMessages(core, alice, { mailbox: "alice@example.test", folder: "inbox", limit: 1 });
    expect(summary).toEqual({
      id: expect.stringMatching(/^msg_/),
      threadId: expect.stringMatching(/^thr_/),
      mailbox: "alice@example.test",
      folder: "inbox",
      direction: "inbound",
      from: { email: "carol@remote.example", name: "Carol" },
      to: [{ email: "alice@example.test" }],
      cc: [{ email: "dave@remote.example" }],
      subject: "in 1",
      snippet: "How are you?",
      bodyText: "How are you?",
      date: "2026-01-05T08:01:00.000Z",
      read: false,
      headerMessageId: expect.stringMatching(/^<.*>$/),
    });
    const [, without] = listMessages(core, alice, { mailbox: "alice@example.test", folder: "inbox", limit: 2 });
    expect(without).not.toHaveProperty("cc");
  });

  test("show only part of a very long text; the message itself has all of it", async () => {
    const { receive, core, alice } = createAlice();
    const line = `${"word ".repeat(15)}\n`;
    const { messageId } = await receive({ text: line.repeat(2_000) });
    const [summary] = listMessages(core, alice, { limit: 1 });
    const { text } = getMessage(core, alice, messageId, { html: false });
    expect(text.length).toBeGreaterThan(140_000);
    expect(summary?.bodyText).toBe(text.slice(0, 100_000));
  });
});

test("messages at the same time are in the order of their filing, both ways", async () => {
  const { receive, core, alice, messages: messagesOf, store } = createAlice();
  const { threadId } = await receive({ messageId: "<1@x>", text: "1" });
  for (const text of ["2", "3"]) await receive({ headers: ["References: <1@x>"], text });
  expect(messagesOf(threadId).map(({ text }) => text)).toEqual(["1", "2", "3"]);
  expect(listMessages(core, alice, { limit: 9 }).map(({ bodyText }) => bodyText)).toEqual(["3", "2", "1"]);
  expect(store.db.select().from(messages).where(eq(messages.kind, "received")).all()).toHaveLength(3);
});

test("a conversation too large to return whole marks its oldest messages as cut, and each is whole on its own", async () => {
  const { receive, core, alice, store } = createAlice();
  const html = (n: number): string => `<p>${`Part ${n} `.repeat(500_000)}</p>`;
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    const { messageId } = await receive(
      [
        "From: carol@remote.example",
        "To: alice@example.test",
        "Subject: Large",
        `Message-ID: <large-${n}@x>`,
        ...(n === 0 ? [] : ["In-Reply-To: <large-0@x>"]),
        `Date: Mon, 05 Jan 2026 08:3${n}:00 +0000`,
        'Content-Type: multipart/alternative; boundary="b"',
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        `Text ${n}`,
        "--b",
        "Content-Type: text/html",
        "",
        `<p>Part ${n}</p>`,
        "--b--",
        "",
      ].join("\n"),
    );
    ids.push(messageId);
    const seq = store.db.select().from(messages).where(eq(messages.id, messageId)).get()?.seq ?? 0;
    store.db
      .update(messageBodies)
      .set(toHtmlColumns(html(n)))
      .where(eq(messageBodies.messageSeq, seq))
      .run();
  }
  const { threadId } = getMessage(core, alice, ids[0] ?? "", { html: false });
  const { messages: all } = getThread(core, alice, threadId, { html: true });
  expect(all.map(({ id, truncated }) => [id, truncated])).toEqual([
    [ids[0], true],
    [ids[1], undefined],
    [ids[2], undefined],
    [ids[3], undefined],
    [ids[4], undefined],
  ] as [string, true | undefined][]);
  // The text of a cut message is its snippet, which is taken from the HTML.
  expect(all.map(({ text }) => text.slice(0, 6))).toEqual(["Part 0", "Text 1", "Text 2", "Text 3", "Text 4"]);
  expect(all.map((message) => message.html?.length)).toEqual([undefined, ...Array(4).fill(html(1).length)]);

  // HTML that is not requested does not count.
  const { messages: texts } = getThread(core, alice, threadId, { html: false });
  expect(texts.some(({ truncated }) => truncated)).toBe(false);
  const whole = getMessage(core, alice, ids[0] ?? "", { html: true });
  expect([whole.truncated, whole.html?.length]).toEqual([undefined, html(0).length]);
});

describe("addresses and attachments count towards what one answer gives whole", () => {
  const MB = 1_000_000;

  /** A conversation of so many messages, oldest first. */
  async function conversationOf(count: number) {
    const office = createAlice();
    const seqs: number[] = [];
    const ids: string[] = [];
    for (let n = 0; n < count; n++) {
      const headers = n === 0 ? [] : ["References: <0@x>"];
      const { messageId } = await office.receive({
        messageId: `<${n}@x>`,
        headers,
        cc: "dan@remote.example",
        text: `${n}`,
      });
      ids.push(messageId);
      seqs.push(office.store.db.select().from(messages).where(eq(messages.id, messageId)).get()?.seq ?? 0);
      office.runtime.advanceTo(office.runtime.now() + 1_000);
    }
    const { threadId } = getMessage(office.core, office.alice, ids[0] ?? "", { html: false });
    const thread = () => getThread(office.core, office.alice, threadId, { html: true }).messages;
    const list = () => listMessages(office.core, office.alice, { limit: 100 }).toReversed();
    const whole = (n: number) => getMessage(office.core, office.alice, ids[n] ?? "", { html: true });
    return { ...office, seqs, thread, list, whole };
  }

  /** Some bytes of addresses as they are stored. */
  const addressesOf = (bytes: number) =>
    Array.from({ length: bytes / 100 }, (_, i) => ({ email: `${i}`.padStart(70, "a"), name: "Somebody" }));

  test("long lists of addresses", async () => {
    const { store, seqs, thread, list, whole } = await conversationOf(6);
    const to = addressesOf(5 * MB);
    for (const seq of seqs) store.db.update(messages).set({ to }).where(eq(messages.seq, seq)).run();
    // Three fit into 16 MB; of the others the long list is left out, and the short one is there.
    const counts = [0, 0, 0, to.length, to.length, to.length];
    for (const given of [thread(), list()]) {
      expect(given.map(({ to }) => to.length)).toEqual(counts);
      expect(given.map(({ truncated }) => truncated ?? false)).toEqual(counts.map((count) => count === 0));
      expect(given.map(({ cc }) => cc?.length)).toEqual([1, 1, 1, 1, 1, 1]);
    }
    expect(list().map(({ bodyText }) => bodyText.trim())).toEqual(["0", "1", "2", "3", "4", "5"]);
    expect([whole(0).to.length, whole(0).truncated]).toEqual([to.length, undefined]);
  });

  test("attachments", async () => {
    const { store, seqs, thread, whole } = await conversationOf(3);
    for (const messageSeq of seqs) {
      const row = { messageSeq, contentType: "a/b", size: 1, inline: false, blob: "b" };
      store.db
        .insert(attachments)
        .values({ ...row, id: `att_${messageSeq}_0`, position: 0, filename: "0.txt" })
        .run();
      store.db.$client.run(
        `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5999)
         INSERT INTO attachments (id, message_seq, content_type, size, inline, blob, position, filename)
         SELECT 'att_' || message_seq || '_' || n, message_seq, content_type, size, inline, blob, n, n || '.txt'
         FROM attachments, numbers WHERE message_seq = ?`,
        [messageSeq],
      );
    }
    expect(thread().map(({ attachments, truncated }) => [attachments.length, truncated ?? false])).toEqual([
      [10, true],
      [6_000, false],
      [6_000, false],
    ]);
    expect(thread()[0]?.attachments.at(-1)?.filename).toBe("9.txt");
    expect(whole(0).attachments).toHaveLength(6_000);
  });

  test("a message that is too large by itself is cut alone", async () => {
    const { store, seqs, thread, list, whole } = await conversationOf(3);
    const text = "x".repeat(17 * MB);
    store.db
      .update(messageBodies)
      .set({ text })
      .where(eq(messageBodies.messageSeq, seqs[1] ?? 0))
      .run();
    for (const given of [thread(), list()]) {
      expect(given.map(({ truncated }) => truncated ?? false)).toEqual([false, true, false]);
    }
    expect(list()[1]?.bodyText).toBe("1");
    expect(whole(1).text).toHaveLength(text.length);
  });
});
