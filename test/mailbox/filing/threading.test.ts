/** Which conversation a message belongs to (rules: Conversations, Spam). */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LONGEST_CONVERSATION } from "../../../src/mailbox/filing/threading.ts";
import { threadReferences, threads } from "../../../src/store/schema.ts";
import type { Letter } from "../../harness/mail/mail.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const DAY_MS = 86_400_000;
const daysBefore = (days: number) => new Date(Date.parse("2026-01-05T08:00:00Z") - days * DAY_MS).toUTCString();
const inReplyTo = (...ids: string[]) => [`In-Reply-To: ${ids.join(" ")}`];
const references = (...ids: string[]) => [`References: ${ids.join(" ")}`];

describe("mail joins a conversation by References and In-Reply-To", () => {
  const cases: [string, Letter, Letter, boolean][] = [
    ["an answer by In-Reply-To", { messageId: "<a@x>" }, { headers: inReplyTo("<a@x>") }, true],
    ["an answer by References", { messageId: "<a@x>" }, { headers: references("<0@x>", "<a@x>") }, true],
    ["an answer whatever its subject", { messageId: "<a@x>" }, { headers: inReplyTo("<a@x>"), subject: "Else" }, true],
    ["siblings with an unseen parent", { headers: references("<p@x>") }, { headers: references("<p@x>") }, true],
    ["the parent after its answer", { headers: inReplyTo("<a@x>") }, { messageId: "<a@x>" }, true],
    ["no reference in common", { messageId: "<a@x>" }, { messageId: "<b@x>", headers: references("<c@x>") }, false],
    ["nothing at all in common", { messageId: "<a@x>" }, { messageId: "<b@x>", subject: "Else" }, false],
    [
      "a reply that names another parent, though the subject is the same",
      { messageId: "<a@x>" },
      { subject: "Re: Hello", headers: inReplyTo("<elsewhere@x>") },
      false,
    ],
  ];
  for (const [name, first, second, together] of cases) {
    test(`${name}: ${together ? "one conversation" : "two"}`, async () => {
      const { receive } = createAlice();
      const [one, two] = [await receive(first), await receive(second)];
      expect(two.threadId === one.threadId).toBe(together);
    });
  }

  test("the message replied to counts more than earlier ones", async () => {
    const { receive } = createAlice();
    await receive({ messageId: "<old@x>" });
    const near = await receive({ messageId: "<near@x>", subject: "Else" });
    const answer = await receive({ headers: ["References: <near@x> <old@x>", "In-Reply-To: <near@x>"] });
    expect(answer.threadId).toBe(near.threadId);
  });

  test("a chain is one conversation in any order of arrival", async () => {
    const chain = Array.from({ length: 5 }, (_, i): Letter => {
      const earlier = Array.from({ length: i }, (_, n) => `<m${n}@x>`);
      return { messageId: `<m${i}@x>`, headers: i === 0 ? [] : references(...earlier) };
    });
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(chain, { minLength: chain.length }), async (order) => {
        const { receive, messages } = createAlice();
        const filed = [];
        for (const mail of order) filed.push(await receive(mail));
        expect(new Set(filed.map(({ threadId }) => threadId)).size).toBe(1);
        expect(messages(filed[0]?.threadId ?? "")).toHaveLength(chain.length);
      }),
      { numRuns: 20 },
    );
  });

  test("only references to messages that the conversation lacks are stored", async () => {
    const { receive, store } = createAlice();
    const stored = () =>
      store.db
        .select()
        .from(threadReferences)
        .all()
        .map(({ messageId }) => messageId);
    await receive({ messageId: "<a@x>" });
    await receive({ messageId: "<b@x>", headers: references("<a@x>") });
    await receive({ messageId: "<c@x>", headers: references("<a@x>", "<b@x>") });
    expect(stored()).toEqual([]);
    await receive({ messageId: "<e@x>", headers: references("<a@x>", "<d@x>", "<d@x>") });
    expect(stored()).toEqual(["<d@x>"]);
  });

  test("a conversation from before that rule, whose own Message-IDs are stored, is joined", async () => {
    const { receive, store, box } = createAlice();
    const one = await receive({ messageId: "<a@x>" });
    const { seq } = store.db.select().from(threads).get() ?? { seq: 0 };
    store.db.insert(threadReferences).values({ mailboxId: box, messageId: "<a@x>", threadSeq: seq }).run();
    expect((await receive({ headers: inReplyTo("<a@x>") })).threadId).toBe(one.threadId);
  });

  test("the newest of the conversations that have or mention the message", async () => {
    const { receive, store } = createAlice();
    await receive({ messageId: "<a@x>" });
    store.db.update(threads).set({ messageCount: LONGEST_CONVERSATION }).run();
    const copy = await receive({ messageId: "<a@x>", text: "Another copy" });
    expect((await receive({ headers: inReplyTo("<a@x>") })).threadId).toBe(copy.threadId);
    store.db.update(threads).set({ messageCount: LONGEST_CONVERSATION }).run();
    const mention = await receive({ headers: references("<a@x>") });
    expect((await receive({ headers: inReplyTo("<a@x>") })).threadId).toBe(mention.threadId);
  });

  test("within one mailbox only", async () => {
    const { receive, file, world, workspaceId } = createAlice();
    const bob = world.box(workspaceId, "bob@example.test");
    const one = await receive({ messageId: "<a@x>" });
    const two = await file(bob, { headers: inReplyTo("<a@x>") });
    expect(two.threadId).not.toBe(one.threadId);
  });
});

describe("mail joins a conversation by subject, if a mailer omits the references", () => {
  const first: Letter = { messageId: "<a@x>", subject: "Invoice 7", cc: "dave@remote.example" };
  const cases: [string, Letter, boolean][] = [
    ["a reply from the same person", { subject: "Re: Invoice 7" }, true],
    ["a reply from somebody who had a copy", { subject: "RE: invoice 7", from: "dave@remote.example" }, true],
    [
      "a reply that only has a participant in copy",
      { subject: "Re: Invoice 7", from: "e@x.example", cc: "dave@remote.example" },
      true,
    ],
    ["a reply from a stranger", { subject: "Re: Invoice 7", from: "eve@elsewhere.example" }, false],
    [
      "a reply from a stranger to a tagged address of ours",
      { subject: "Re: Invoice 7", from: "eve@elsewhere.example", to: "alice+x@example.test, sales@example.test" },
      false,
    ],
    ["the same subject without a reply prefix", { subject: "Invoice 7" }, false],
    ["another subject", { subject: "Re: Invoice 8" }, false],
    ["a reply that names its parent", { subject: "Re: Invoice 7", headers: inReplyTo("<unknown@x>") }, false],
    ["an empty subject", { subject: "Re:" }, false],
  ];
  test("anonymous senders are distinct: two conversations", async () => {
    const { receive } = createAlice();
    const one = await receive({ messageId: "<a@x>", subject: "Invoice 7", from: "Anna Example" });
    const two = await receive({ messageId: "<b@x>", subject: "Re: Invoice 7", from: "Berta Example" });
    expect(two.threadId).not.toBe(one.threadId);
  });

  for (const [name, second, together] of cases) {
    test(`${name}: ${together ? "one conversation" : "two"}`, async () => {
      const { receive, world, box } = createAlice();
      world.alias(box, "sales@example.test");
      const one = await receive({ ...first, to: "alice@example.test, alice+x@example.test, sales@example.test" });
      const two = await receive(second);
      expect(two.threadId === one.threadId).toBe(together);
    });
  }

  for (const [days, together] of [
    [29.9, true],
    [30.1, false],
  ] as const) {
    test(`${days} days later: ${together ? "one conversation" : "two"}`, async () => {
      const { receive } = createAlice();
      const one = await receive({ ...first, date: daysBefore(days) });
      const two = await receive({ subject: "Re: Invoice 7", date: daysBefore(0) });
      expect(two.threadId === one.threadId).toBe(together);
    });
  }

  test.each(["AW", "Vá", "Ang", "Отв", "Re[2]"])("a reply with %s joins sent mail", async (prefix) => {
    const { send, receive } = createAlice();
    const sent = await send({ subject: "Offer" });
    const answer = await receive({ subject: `${prefix}: Offer`, from: "carol@remote.example" });
    expect(answer.threadId).toBe(sent.threadId);
  });

  test("a reply joins the most recent of several conversations", async () => {
    const { receive } = createAlice();
    await receive({ subject: "Weekly", date: daysBefore(8) });
    const recent = await receive({ subject: "Weekly", date: daysBefore(1) });
    expect((await receive({ subject: "Re: Weekly" })).threadId).toBe(recent.threadId);
  });
});

describe("mail never joins", () => {
  test("a draft", async () => {
    const { receive, store } = createAlice();
    const draft = await receive({ headers: references("<p@x>") });
    store.db.update(threads).set({ folder: "drafts" }).run();
    expect((await receive({ headers: references("<p@x>") })).threadId).not.toBe(draft.threadId);
  });

  test("a full conversation; the next message starts another, which is then continued", async () => {
    const { receive, store } = createAlice();
    const full = await receive({ messageId: "<a@x>" });
    store.db.update(threads).set({ messageCount: LONGEST_CONVERSATION }).run();
    const next = await receive({ headers: inReplyTo("<a@x>") });
    expect(next.threadId).not.toBe(full.threadId);
    expect((await receive({ headers: inReplyTo("<a@x>") })).threadId).toBe(next.threadId);
  });
});

describe("spam and other mail", () => {
  const SPAM = { spam: true };

  test("spam joins only conversations in spam", async () => {
    const { receive, thread } = createAlice();
    const good = await receive({ messageId: "<a@x>" });
    const joining: Letter[] = [
      { headers: inReplyTo("<a@x>") },
      { headers: references("<a@x>") },
      { subject: "Re: Hello" },
      { messageId: "<a@x>", text: "another content" },
    ];
    for (const mail of joining) {
      const { threadId } = await receive(mail, SPAM);
      expect(threadId).not.toBe(good.threadId);
      expect(thread(threadId).folder).toBe("spam");
    }
    expect(thread(good.threadId)).toMatchObject({ folder: "inbox", messageCount: 1 });
  });

  test("spam joins a conversation in spam", async () => {
    const { receive } = createAlice();
    const junk = await receive({ messageId: "<a@x>" }, SPAM);
    expect((await receive({ headers: inReplyTo("<a@x>") }, SPAM)).threadId).toBe(junk.threadId);
  });

  test("other mail joins the conversation outside spam, in any order of arrival", async () => {
    for (const spamFirst of [false, true]) {
      const { receive } = createAlice();
      const file = (spam: boolean) => receive({ headers: references("<p@x>") }, { spam });
      const filed = [await file(spamFirst), await file(!spamFirst)];
      const good = filed[spamFirst ? 1 : 0];
      expect((await receive({ headers: references("<p@x>") })).threadId).toBe(good?.threadId ?? "");
    }
  });

  test("a reply to a message in spam stays there, and is announced as spam", async () => {
    const { receive, thread, events } = createAlice();
    const junk = await receive({ messageId: "<a@x>" }, SPAM);
    const answer = await receive({ headers: inReplyTo("<a@x>") });
    expect(answer.threadId).toBe(junk.threadId);
    expect(thread(junk.threadId)).toMatchObject({ folder: "spam", unread: true, messageCount: 2 });
    expect(events().map(({ data }) => data.isSpam)).toEqual([true, true]);
  });

  test("a mention in spam does not draw in the message, a reply to it, or mail with its subject", async () => {
    const { receive, thread } = createAlice();
    await receive({ subject: "Invoice", headers: references("<real@x>") }, SPAM);
    for (const mail of [
      { messageId: "<real@x>" },
      { headers: references("<real@x>") },
      { subject: "Re: Invoice" },
    ] as Letter[]) {
      expect(thread((await receive(mail)).threadId).folder).toBe("inbox");
    }
  });
});
