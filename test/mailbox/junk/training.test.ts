/**
 * Training a mailbox's junk filter by moving conversations, archiving and answering: which mail it then files to spam,
 * and which it never does.
 */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { changeMessages } from "../../../src/mailbox/changing/message-changes.ts";
import { deleteMailboxMailPortion } from "../../../src/mailbox/changing/removal.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { prepareMessage } from "../../../src/mailbox/filing/prepare.ts";
import { readJunkSender } from "../../../src/mailbox/junk/senders.ts";
import { listSenderJunkTokens } from "../../../src/mailbox/junk/tokens.ts";
import { NO_SENDER } from "../../../src/message/address.ts";
import { junkFilters, junkTokens, messageJudgements, messages } from "../../../src/store/schema.ts";
import type { Letter } from "../../harness/mail/mail.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const JUNK = "Cheap pills and watches, guaranteed: order now, limited offer, discount pharmacy, no prescription";
const WANTED = "The quarterly report is attached, please review the budget figures before the meeting on Thursday";
const PASS = { spf: "pass", dkim: "pass", dmarc: "pass" };
const FAIL = { spf: "fail", dkim: "none", dmarc: "fail" };

function createReader() {
  const alice = createAlice();
  const { db } = alice.store;
  let count = 0;
  const junk = (more: Letter = {}): Letter => ({
    from: `Pills <offer${++count}@junk${count}.example>`,
    subject: `Pills ${count}`,
    text: `${JUNK} ${count}`,
    ...more,
  });
  const wanted = (more: Letter = {}): Letter => ({
    from: `Ben <ben${++count}@work${count}.example>`,
    subject: `Report ${count}`,
    text: `${WANTED} ${count}`,
    ...more,
  });
  const move = (threadId: string, folder: "inbox" | "archive" | "trash" | "spam") =>
    updateThread(alice.core, alice.alice, threadId, { folder });
  return {
    ...alice,
    db,
    junk,
    wanted,
    move,
    async teach(spam: number, ham: number) {
      for (let i = 0; i < spam; i++) move((await alice.receive(junk())).threadId, "spam");
      for (let i = 0; i < ham; i++) move((await alice.receive(wanted())).threadId, "archive");
    },
    trained: () => {
      const filter = db.select().from(junkFilters).where(eq(junkFilters.mailboxId, alice.box)).get();
      return [filter?.spam ?? 0, filter?.ham ?? 0];
    },
    learned: () => db.select().from(junkTokens).orderBy(junkTokens.filterSeq, junkTokens.token).all(),
    classification: (messageId: string) =>
      db
        .select({ classification: messageJudgements })
        .from(messageJudgements)
        .innerJoin(messages, eq(messages.seq, messageJudgements.messageSeq))
        .where(eq(messages.id, messageId))
        .get()?.classification,
  };
}

test("after 20 messages of each kind, it files similar mail to spam, and records why", async () => {
  const { teach, receive, junk, wanted, thread, classification, events } = createReader();
  await teach(20, 20);
  const bad = await receive(junk());
  expect(thread(bad.threadId)).toMatchObject({ folder: "spam", unread: true });
  expect(events().at(-1)?.data.isSpam).toBe(true);
  const stored = classification(bad.messageId);
  expect(stored).toMatchObject({ filedFor: "junk", trained: null });
  expect(stored?.score).toBeGreaterThan(0.999);
  expect(stored?.clues).toHaveLength(10);
  expect(stored?.clues?.map(({ token }) => token)).toContain("cheap");
  const good = await receive(wanted());
  expect(thread(good.threadId).folder).toBe("inbox");
  expect(events().at(-1)?.data.isSpam).toBe(false);
  expect(classification(good.messageId)).toMatchObject({ filedFor: null, trained: null });
  expect(classification(good.messageId)?.score).toBeLessThan(0.01);
});

test("with fewer messages it has no opinion", async () => {
  for (const [spam, ham] of [
    [19, 25],
    [25, 19],
  ] as const) {
    const { teach, receive, junk, thread, classification } = createReader();
    await teach(spam, ham);
    const { threadId, messageId } = await receive(junk());
    expect(thread(threadId).folder).toBe("inbox");
    expect(classification(messageId)).toBeUndefined();
  }
});

test("training one mailbox does not affect another", async () => {
  const { teach, world, workspaceId, file, junk, events } = createReader();
  const bob = world.box(workspaceId, "bob@example.test");
  await teach(20, 20);
  await file(bob, junk());
  expect(events().at(-1)?.data).toMatchObject({ mailboxId: bob, isSpam: false });
});

test("the threshold is a setting, and off switches the filter off", async () => {
  const { teach, store, options, receive, junk, thread, classification } = createReader();
  await teach(20, 20);
  store.transact((tx) => options.set(tx, "spam.junkThreshold", "off"));
  const off = await receive(junk());
  expect(thread(off.threadId).folder).toBe("inbox");
  expect(classification(off.messageId)).toBeUndefined();
  store.transact((tx) => options.set(tx, "spam.junkThreshold", "0.5"));
  expect(thread((await receive(junk())).threadId).folder).toBe("spam");
});

describe("a message counts", () => {
  const MOVES: [name: string, moves: ("inbox" | "archive" | "trash" | "spam")[], spam: number, ham: number][] = [
    ["as spam, moved to spam", ["spam"], 1, 0],
    ["once, moved to spam twice", ["spam", "spam"], 1, 0],
    ["as ham, moved from spam to the inbox", ["spam", "inbox"], 0, 1],
    ["as spam again", ["spam", "inbox", "spam"], 1, 0],
    ["as ham, archived", ["archive"], 0, 1],
    ["once, archived twice", ["archive", "inbox", "archive"], 0, 1],
    ["as spam, archived by mistake", ["archive", "spam"], 1, 0],
    ["as nothing, archived out of spam", ["spam", "archive"], 0, 0],
    ["as what it was, moved to trash", ["spam", "trash"], 1, 0],
    ["as nothing, moved to trash", ["trash", "inbox"], 0, 0],
  ];
  test.each(MOVES)("%s", async (_, moves, spam, ham) => {
    const { receive, wanted, move, trained, learned } = createReader();
    const { threadId } = await receive(wanted());
    for (const folder of moves) move(threadId, folder);
    expect(trained()).toEqual([spam, ham]);
    const rows = learned();
    expect(rows.every((row) => row.spam === spam && row.ham === ham)).toBe(true);
    expect(rows.length > 0).toBe(spam + ham > 0);
  });

  test("as spam, while its conversation is archived without it", async () => {
    const { store, core, alice, receive, wanted, move, trained } = createReader();
    const { seq, threadId } = await receive(wanted({ messageId: "<first@x>" }));
    await receive(wanted({ headers: ["In-Reply-To: <first@x>"] }));
    store.transact((tx) => changeMessages(tx, alice, [seq], { folder: "spam" }, core.now()));
    move(threadId, "archive");
    expect(trained()).toEqual([1, 1]);
  });

  test("is unlearned without a trace", async () => {
    const { receive, wanted, move, teach, learned, trained } = createReader();
    await teach(3, 3);
    const before = learned();
    const { threadId } = await receive(wanted({ text: `${WANTED} ${JUNK} unheard of` }), { auth: PASS });
    move(threadId, "spam");
    expect(learned().length).toBeGreaterThan(before.length);
    move(threadId, "archive");
    expect(learned()).toEqual(before);
    expect(trained()).toEqual([3, 3]);
  });
});

describe("a stored message has the tokens it had on arrival", () => {
  const MESSAGES: [name: string, from: string, lines: string[]][] = [
    [
      "with HTML beyond what is looked at, an attachment and characters of two code units",
      "=?utf-8?q?M=C3=BCller?= <m@new.example>",
      [
        "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMessage-ID: <odd@new.example>\nReply-To: x@else.example\nX-Mailer: Odd 1",
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html; charset=utf-8\n",
        '<p style="display:none">x</p><a href="http://pills.example/">ü 发票代开</a>',
        Array.from({ length: 9_000 }, (_, i) => `wörd${i} 😀`).join(" "),
        "--b\nContent-Type: application/pdf; name=a.pdf\nContent-Disposition: attachment\n\nx\n--b--\n",
      ],
    ],
    ["without a From", "", ["Message-ID: <odd@new.example>", "", "Anonymous words"]],
    [
      "too large for its HTML to be looked at",
      "m@new.example",
      ["Content-Type: text/html", "", "<form>x".repeat(200_000)],
    ],
    ["without anything", "m@new.example", ["", ""]],
  ];
  test.each(MESSAGES)("%s", async (_, from, lines) => {
    const { receive, move, learned, store } = createReader();
    const raw = [...(from === "" ? [] : [`From: ${from}`]), "To: alice@example.test", ...lines].join("\n");
    const { threadId } = await receive(raw, { auth: PASS });
    move(threadId, "spam");
    const message = await prepareMessage(Buffer.from(raw.replaceAll("\n", "\r\n")), store.blobs);
    const seen = message.junkTokens?.split(" ") ?? [];
    const tokens = [...seen, ...listSenderJunkTokens(readJunkSender(message.from ?? NO_SENDER, PASS), PASS)];
    const hashes = tokens.map((token) => Bun.hash.xxHash32(token) | 0).sort((x, y) => x - y);
    expect(learned().map(({ token }) => token)).toEqual(hashes);
    move(threadId, "archive");
    expect(learned()).toEqual([]);
  });
});

describe("a reply", () => {
  const answerTo = (messageId: string, headers: string[] = []): Letter => ({
    subject: "Re: Report",
    headers: [`In-Reply-To: ${messageId}`, ...headers],
  });

  test("teaches that the message was wanted, once", async () => {
    const { receive, wanted, send, trained } = createReader();
    await receive(wanted({ messageId: "<q@x>" }));
    await send(answerTo("<q@x>"));
    await send(answerTo("<q@x>"));
    expect(trained()).toEqual([0, 1]);
  });

  test("exempts the sender's mail from the junk filter", async () => {
    const { teach, receive, junk, send, thread, classification, store, options } = createReader();
    await teach(20, 20);
    store.transact((tx) => options.set(tx, "spam.junkThreshold", "0.9"));
    const from = "Ann <ann@friend.example>";
    await receive({ from, messageId: "<q@x>", text: "Hello" }, { auth: PASS });
    await send(answerTo("<q@x>"));
    const known = await receive(junk({ from }), { auth: PASS });
    expect(thread(known.threadId).folder).toBe("inbox");
    expect(classification(known.messageId)?.score).toBeGreaterThan(0.9);
    const spoofed = await receive(junk({ from }), { auth: FAIL });
    expect(thread(spoofed.threadId).folder).toBe("spam");
  });

  test.each([
    ["that a program wrote", "Auto-Submitted: auto-replied"],
    ["that a program generated", "auto-submitted: auto-generated; x=y"],
  ])("%s teaches nothing", async (_, header) => {
    const { receive, wanted, send, trained } = createReader();
    await receive(wanted({ messageId: "<q@x>" }));
    await send(answerTo("<q@x>", [header]));
    expect(trained()).toEqual([0, 0]);
  });

  test("to a message in spam or to an unknown one teaches nothing, nor does a message that replies to none", async () => {
    const { receive, wanted, send, move, trained } = createReader();
    const { threadId } = await receive(wanted({ messageId: "<q@x>" }));
    move(threadId, "spam");
    await send(answerTo("<q@x>"));
    await send(answerTo("<unknown@x>"));
    await send({ subject: "New" });
    expect(trained()).toEqual([1, 0]);
  });

  test("a draft teaches nothing", async () => {
    const { receive, wanted, send, trained } = createReader();
    await receive(wanted({ messageId: "<q@x>" }));
    await send(answerTo("<q@x>"), { kind: "draft" });
    expect(trained()).toEqual([0, 0]);
  });
});

test("after a move from spam to the inbox, the sender's mail is not classified as junk again", async () => {
  const { teach, receive, junk, move, thread } = createReader();
  await teach(20, 20);
  const from = "News <news@paper.example>";
  const { threadId } = await receive(junk({ from, subject: "One" }));
  expect(thread(threadId).folder).toBe("spam");
  move(threadId, "inbox");
  expect(thread((await receive(junk({ from, subject: "Two" }))).threadId).folder).toBe("inbox");
});

test("the verdict on the sender and the arrival take precedence over the score, and are recorded separately", async () => {
  const { receive, wanted, move, classification } = createReader();
  const from = "bad@bad.example";
  const { threadId } = await receive(wanted({ from }));
  move(threadId, "spam");
  expect(classification((await receive(wanted(), { spam: true })).messageId)?.filedFor).toBe("arrival");
  expect(classification((await receive(wanted({ from }), { spam: true })).messageId)?.filedFor).toBe("sender");
});

test("mail classified as junk joins only conversations in spam", async () => {
  const { teach, receive, wanted, junk, thread } = createReader();
  await teach(20, 20);
  const first = await receive(wanted({ messageId: "<talk@x>", from: "x@talk.example" }));
  const second = await receive(junk({ headers: ["In-Reply-To: <talk@x>"] }));
  expect(second.threadId).not.toBe(first.threadId);
  expect(thread(first.threadId).folder).toBe("inbox");
  expect(thread(second.threadId).folder).toBe("spam");
});

test("moving a long conversation teaches its newest 10 messages, and moving it back reverts that", async () => {
  const { receive, move, trained, learned } = createReader();
  const { threadId } = await receive({ messageId: "<m0@x>" });
  for (let i = 1; i < 25; i++) {
    await receive({ messageId: `<m${i}@x>`, headers: ["In-Reply-To: <m0@x>"], text: `unique${i}` });
  }
  move(threadId, "spam");
  expect(trained()).toEqual([10, 0]);
  move(threadId, "archive");
  expect(trained()).toEqual([0, 0]);
  expect(learned()).toEqual([]);
});

test("words of wanted mail around junk weaken its score; random words around it do not", async () => {
  const { teach, receive, junk, thread, classification } = createReader();
  await teach(40, 40);
  const padded = await receive(junk({ text: `${WANTED} ${JUNK}` }));
  expect(thread(padded.threadId).folder).toBe("inbox");
  expect(classification(padded.messageId)?.score).toBeGreaterThan(0.1);
  const random = Array.from({ length: 3_000 }, (_, i) => `random${i}`).join(" ");
  const padding = await receive(junk({ text: `${JUNK} ${random}` }));
  expect(thread(padding.threadId).folder).toBe("spam");
});

describe("removing a mailbox", () => {
  test("removes its junk filter, in portions", async () => {
    const { teach, learned, store, box, db } = createReader();
    await teach(2, 2);
    expect(learned().length).toBeGreaterThan(0);
    let portions = 0;
    while (store.transact((tx) => deleteMailboxMailPortion(tx, box, 100))) portions++;
    expect(portions).toBeGreaterThan(1);
    expect(learned()).toEqual([]);
    expect(db.select().from(messageJudgements).all()).toEqual([]);
  });
});
