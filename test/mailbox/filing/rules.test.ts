/** Rules act on mail that arrives (rules: Mail rules, Forwarding). */
import { describe, expect, test } from "bun:test";
import { asc, eq } from "drizzle-orm";
import { deleteThreads, updateThread } from "../../../src/mailbox/changing/threads.ts";
import { undoKeyChanges } from "../../../src/mailbox/changing/undo.ts";
import {
  type GivenRule,
  listRuleQueryNotes,
  MOST_RULES,
  normalizeGivenRules,
  putRules,
} from "../../../src/mailbox/filing/rules.ts";
import { addOutbound } from "../../../src/outbound/queue.ts";
import { automaticMail, domains, mailboxRules } from "../../../src/store/schema.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const rule = (match: string, ...actions: (string | [string, string])[]): GivenRule => ({
  match,
  actions: actions.map((action) => {
    if (typeof action === "string") return { type: action as "star" };
    const [type, value] = action;
    return type === "label" ? { type, label: value } : { type: "forward", to: value };
  }),
});

function world(...rules: GivenRule[]) {
  const alice = createAlice();
  const { store, runtime, box } = alice;
  const set = (given: readonly GivenRule[]) =>
    store.transact((tx) => putRules(tx, box, normalizeGivenRules(given, runtime.now())));
  set(rules);
  return {
    ...alice,
    set,
    /** Lists the mail that is to be forwarded and answered. */
    asked: () =>
      store.db
        .select({ kind: automaticMail.kind, recipient: automaticMail.recipient, passed: automaticMail.passed })
        .from(automaticMail)
        .orderBy(asc(automaticMail.seq))
        .all(),
    verify: () => store.db.update(domains).set({ verifiedAt: 1 }).run(),
    /** A mailbox of the server has forwarded a message under this Message-ID. */
    forwarded: (messageId: string, mailboxId = "mbx_other") =>
      store.transact((tx) =>
        addOutbound(tx, {
          ...{ id: "msg_f", workspaceId: "wsp_1", mailboxId, mailbox: "x@example.test", threadId: "thr_f", messageId },
          ...{
            subject: "",
            domain: "example.test",
            returnPath: "b@example.test",
            acceptedAt: START,
            outsideRecipients: 0,
          },
          ...{ content: { bytes: new Uint8Array() }, recipients: [], automatic: "forward" },
        }),
      ),
  };
}

const FROM_ANN = { from: "Ann <ann@remote.example>", to: "alice@example.test" };

describe("a rule", () => {
  test("labels, stars and archives what it matches, and nothing else", async () => {
    const { receive, thread, messages } = world(
      rule("from:ann", ["label", "Friends"], "star"),
      rule("subject:news", "archive"),
    );
    const ann = await receive({ ...FROM_ANN, messageId: "<1@x>", subject: "News" });
    expect(thread(ann.threadId)).toMatchObject({
      ...{ folder: "archive", starred: true, labels: ["Friends"], unread: true },
    });
    expect(messages(ann.threadId)).toHaveLength(1);
    const bob = await receive({ from: "bob@remote.example", messageId: "<2@x>", subject: "Hello" });
    expect(thread(bob.threadId)).toMatchObject({ folder: "inbox", starred: false, labels: [], unread: true });
  });

  test("is not asked about spam, nor about mail from here", async () => {
    const { receive, send, thread, asked } = world(
      rule("larger:1", ["label", "All"], "archive", ["forward", "x@example.test"]),
    );
    const spam = await receive({ ...FROM_ANN, messageId: "<1@x>" }, { spam: true, reversePath: "ann@remote.example" });
    expect(thread(spam.threadId)).toMatchObject({ folder: "spam", labels: [] });
    const sent = await send({ messageId: "<2@x>" });
    expect(thread(sent.threadId)).toMatchObject({ folder: "sent", labels: [] });
    const notice = await receive({ messageId: "<3@x>" }, { kind: "notice" });
    expect(thread(notice.threadId)).toMatchObject({ folder: "inbox", labels: [] });
    expect(asked()).toEqual([]);
  });

  test("is not asked about an answer in a conversation in spam", async () => {
    const { receive, thread, core, alice, set } = world();
    const first = await receive({ ...FROM_ANN, messageId: "<1@x>", subject: "Oak" });
    updateThread(core, alice, first.threadId, { folder: "spam" });
    set([rule("subject:oak", "archive")]);
    const reply = await receive({
      from: "carol@remote.example",
      messageId: "<2@x>",
      headers: ["In-Reply-To: <1@x>"],
      subject: "Re: Oak",
    });
    expect(thread(reply.threadId).folder).toBe("spam");
  });

  test("that is disabled does nothing", async () => {
    const { receive, thread } = world({ ...rule("from:ann", "star"), enabled: false });
    const { threadId } = await receive({ ...FROM_ANN, messageId: "<1@x>" });
    expect(thread(threadId).starred).toBe(false);
  });

  test("finds words of the conversation, its labels and its state, as search does", async () => {
    const { receive, thread, core, alice } = world(
      rule("label:work", "star"),
      rule("is:starred", ["label", "Starred"]),
      rule("is:unread in:inbox -label:work", ["label", "New"]),
      rule("in:archive", ["label", "Never"]),
      rule("newer_than:1d", ["label", "Today"]),
    );
    const first = await receive({ ...FROM_ANN, messageId: "<1@x>", subject: "Oak" });
    // No rule sees what another did.
    expect(thread(first.threadId)).toMatchObject({ starred: false, labels: ["New", "Today"] });
    updateThread(core, alice, first.threadId, { labels: ["WORK"], folder: "archive" });
    await receive({ ...FROM_ANN, messageId: "<2@x>", headers: ["In-Reply-To: <1@x>"], subject: "Re: Oak" });
    expect(thread(first.threadId)).toMatchObject({ folder: "inbox", starred: true, labels: ["WORK", "Today"] });
  });
});

describe("the archive", () => {
  test("leaves a conversation in the inbox there, and keeps an archived one", async () => {
    const { receive, thread, core, alice, set } = world();
    const { threadId } = await receive({ ...FROM_ANN, messageId: "<1@x>", subject: "Oak" });
    set([rule("from:ann", "archive")]);
    await receive({ ...FROM_ANN, messageId: "<2@x>", headers: ["In-Reply-To: <1@x>"] });
    expect(thread(threadId)).toMatchObject({ folder: "inbox", messageCount: 2 });
    updateThread(core, alice, threadId, { folder: "archive" });
    await receive({ ...FROM_ANN, messageId: "<3@x>", headers: ["In-Reply-To: <1@x>"] });
    expect(thread(threadId)).toMatchObject({ folder: "archive", messageCount: 3 });
    await receive({ from: "bob@remote.example", messageId: "<4@x>", headers: ["In-Reply-To: <1@x>"] });
    expect(thread(threadId)).toMatchObject({ folder: "inbox", messageCount: 4 });
  });

  test("keeps the answer to what was sent out of the inbox", async () => {
    const { receive, send, thread } = world(rule("from:ann", "archive"));
    const { threadId } = await send({ messageId: "<1@x>", to: "ann@remote.example" });
    await receive({ ...FROM_ANN, messageId: "<2@x>", headers: ["In-Reply-To: <1@x>"] });
    expect(thread(threadId)).toMatchObject({ folder: "archive", messageCount: 2 });
  });
});

describe("trash", () => {
  test("takes the message alone, and teaches the junk filter nothing", async () => {
    const { receive, thread, set, store } = world();
    const first = await receive({ from: "bob@remote.example", messageId: "<1@x>", subject: "Oak" });
    set([rule("from:ann", "trash", ["label", "Gone"])]);
    const second = await receive({ ...FROM_ANN, messageId: "<2@x>", headers: ["In-Reply-To: <1@x>"] });
    expect(second.threadId).not.toBe(first.threadId);
    expect(thread(second.threadId)).toMatchObject({ folder: "trash", messageCount: 1, labels: ["Gone"] });
    expect(thread(first.threadId)).toMatchObject({ folder: "inbox", messageCount: 1 });
    const third = await receive({ ...FROM_ANN, messageId: "<3@x>", headers: ["In-Reply-To: <2@x>"] });
    expect(third.threadId).toBe(second.threadId);
    expect(thread(second.threadId)).toMatchObject({ folder: "trash", messageCount: 2 });
    for (const table of ["sender_verdicts", "junk_tokens"]) {
      expect(store.db.$client.query(`SELECT * FROM ${table}`).all()).toEqual([]);
    }
  });

  test("and archive: the first rule decides", async () => {
    const { receive, thread } = world(
      rule("from:ann", "archive"),
      rule("subject:oak", "trash"),
      rule("larger:1", "archive"),
    );
    const folderOf = async (mail: object) => thread((await receive({ ...FROM_ANN, ...mail })).threadId).folder;
    expect(await folderOf({ messageId: "<1@x>", subject: "Oak" })).toBe("archive");
    expect(await folderOf({ from: "bob@remote.example", messageId: "<2@x>", subject: "Oak" })).toBe("trash");
  });
});

test("webhooks hear of ruled mail as of any other", async () => {
  const { receive, events } = world(rule("from:ann", "trash"));
  await receive({ ...FROM_ANN, messageId: "<1@x>" });
  expect(events()).toMatchObject([{ event: "message.inbound", data: { isSpam: false, messageId: "<1@x>" } }]);
});

test("the same message again changes nothing", async () => {
  const { receive, thread, core, alice } = world(rule("from:ann", "star"));
  const { threadId } = await receive({ ...FROM_ANN, messageId: "<1@x>" });
  updateThread(core, alice, threadId, { starred: false });
  expect((await receive({ ...FROM_ANN, messageId: "<1@x>" })).duplicate).toBe(true);
  expect(thread(threadId).starred).toBe(false);
});

test("a change of a key that a rule set again is not taken back", async () => {
  const { receive, thread, core, alice, workspaceId, set, runtime } = world();
  const { threadId } = await receive({ ...FROM_ANN, messageId: "<1@x>" });
  const key = { ...alice, keyId: "key_one" };
  updateThread(core, key, threadId, { addLabels: ["A", "B"], starred: true });
  set([rule("from:ann", ["label", "A"], "star")]);
  await receive({ ...FROM_ANN, messageId: "<2@x>", headers: ["In-Reply-To: <1@x>"] });
  await undoKeyChanges(
    core,
    { workspaceId, keyId: "key_one", since: runtime.now() - 1 },
    { person: () => alice, face: "app", dryRun: false },
  );
  expect(thread(threadId)).toMatchObject({ labels: ["A"], starred: true });
});

describe("forwarding", () => {
  const toBob = rule("from:ann", ["forward", "Bob@Example.test"]);
  const arrives = { reversePath: "ann@remote.example" };

  test("is asked for in the transaction of the mail, within verified domains", async () => {
    const { receive, asked, verify } = world(toBob);
    await receive({ ...FROM_ANN, messageId: "<1@x>" }, arrives);
    expect(asked()).toEqual([]);
    verify();
    await receive({ ...FROM_ANN, messageId: "<2@x>" }, arrives);
    expect(asked()).toEqual([{ kind: "forward", recipient: "Bob@example.test", passed: [] }]);
  });

  test("goes outside only while the setting allows it", async () => {
    const { receive, asked, options, store } = world(rule("from:ann", ["forward", "ann@away.example"]));
    await receive({ ...FROM_ANN, messageId: "<1@x>" }, arrives);
    expect(asked()).toEqual([]);
    store.transact((tx) => options.set(tx, "rules.forwardOutside", "true"));
    await receive({ ...FROM_ANN, messageId: "<2@x>" }, arrives);
    expect(asked()).toHaveLength(1);
    store.transact((tx) => options.set(tx, "rules.forwardOutside", "false"));
    await receive({ ...FROM_ANN, messageId: "<3@x>" }, arrives);
    expect(asked()).toHaveLength(1);
  });

  const refused: [why: string, mail: object, filing: object][] = [
    ["bounces", {}, { reversePath: "" }],
    ["mail that did not arrive", {}, {}],
    ["answers of programs", { headers: ["Auto-Submitted: auto-replied"] }, arrives],
  ];
  const passed: [why: string, fields: string[]][] = [
    ["here", ["Delivered-To: alice+tag@example.test"]],
    ["there", ["Delivered-To: bob@example.test"]],
    ["ten mailboxes", Array.from({ length: 10 }, (_, n) => `Delivered-To: n${n}@x.example`)],
  ];
  test.each(passed)("leaves out mail that this server forwarded and that passed %s before", async (_, headers) => {
    const { receive, asked, verify, forwarded } = world(toBob);
    verify();
    await receive({ ...FROM_ANN, messageId: "<1@x>", headers }, arrives);
    expect(asked()).toMatchObject([{ passed: [] }]);
    forwarded("<2@x>");
    await receive({ ...FROM_ANN, messageId: "<2@x>", headers }, arrives);
    expect(asked()).toHaveLength(1);
  });

  test("leaves out what this mailbox forwarded and comes back, itself or a program's answer to it", async () => {
    const { receive, asked, verify, forwarded, box } = world(toBob);
    verify();
    forwarded("<1@x>", box);
    await receive({ ...FROM_ANN, messageId: "<1@x>" }, arrives);
    const answers = "In-Reply-To: <1@x>";
    const program = "Auto-Submitted: auto-generated";
    await receive({ ...FROM_ANN, messageId: "<2@x>", headers: [answers, program] }, arrives);
    expect(asked()).toEqual([]);
    await receive({ ...FROM_ANN, messageId: "<3@x>", headers: [answers] }, arrives);
    expect(asked()).toHaveLength(1);
  });
  test.each(refused)("leaves out %s", async (_, mail, filing) => {
    const { receive, asked, verify } = world(toBob);
    verify();
    await receive({ ...FROM_ANN, messageId: "<1@x>", ...mail }, filing);
    expect(asked()).toEqual([]);
  });

  test("tells through which mailboxes the message came", async () => {
    const { receive, asked, verify, forwarded } = world(toBob);
    verify();
    forwarded("<1@x>");
    const headers = ["Auto-Submitted: auto-generated", "Delivered-To: carol@remote.example"];
    await receive({ ...FROM_ANN, messageId: "<1@x>", headers }, arrives);
    expect(asked()).toMatchObject([{ passed: ["carol@remote.example"] }]);
  });

  test("ends with the message and the mailbox", async () => {
    const { receive, asked, verify, core, alice, store, box } = world(toBob);
    verify();
    const { threadId } = await receive({ ...FROM_ANN, messageId: "<1@x>" }, arrives);
    updateThread(core, alice, threadId, { folder: "trash" });
    await deleteThreads(core, alice, [threadId]);
    expect(asked()).toEqual([]);
    store.db.$client.query("DELETE FROM mailboxes WHERE id = ?").run(box);
    expect(store.db.select().from(mailboxRules).all()).toEqual([]);
  });
});

describe("what a rule may be", () => {
  const now = Date.UTC(2026, 0, 1);
  const wrong: [why: string, given: GivenRule[], message: RegExp][] = [
    ["all mail", [rule("  ", "star")], /all mail/],
    ["punctuation", [rule("***", "star")], /all mail/],
    ["a bad date", [rule("before:2026-02-30", "star")], /match: .*date/],
    ["no action", [rule("ann")], /at least one action/],
    ["two folders", [rule("ann", "archive", "trash")], /not to both/],
    ["a label without a name", [rule("ann", "label")], /label/],
    ["a blank label", [rule("ann", ["label", "  "])], /label/],
    ["a forward to nobody", [rule("ann", "forward")], /to/],
    ["a forward to no address", [rule("ann", ["forward", "bob"])], /no address/],
    ["a forward to a host by number", [rule("ann", ["forward", "bob@[192.0.2.1]"])], /no address/],
    ["a star with an address", [{ match: "ann", actions: [{ type: "star", to: "a@b.example" }] }], /forward/],
    ["very long queries", Array.from({ length: 21 }, () => rule("x".repeat(500), "star")), /10000 is the most/],
    [
      "eleven addresses",
      Array.from({ length: 11 }, (_, n) => rule("ann", ["forward", `n${n}@b.example`])),
      /10 addresses/,
    ],
  ];
  test.each(wrong)("%s: no", (_, given, message) => expect(() => normalizeGivenRules(given, now)).toThrow(message));

  test("is kept in one spelling", () => {
    expect(
      normalizeGivenRules(
        [{ name: " N ", ...rule(" from:ann ", ["label", " A "], ["label", "a"], "star", ["forward", "B@Ä.example"]) }],
        now,
      ),
    ).toEqual([
      {
        name: "N",
        match: "from:ann",
        actions: [{ type: "label", label: "A" }, { type: "star" }, { type: "forward", to: "B@xn--4ca.example" }],
        enabled: true,
      },
    ]);
    expect(
      normalizeGivenRules(
        Array.from({ length: MOST_RULES }, () => rule("ann", "star")),
        now,
      ),
    ).toHaveLength(MOST_RULES);
  });
});

test("a query says what is never true of mail that arrives", () => {
  const notes = (match: string) => listRuleQueryNotes(match, 0);
  expect(notes("in:inbox is:unread is:starred in:starred -in:spam label:x in:all ann")).toEqual([]);
  expect(notes("in:archive is:read -in:inbox -is:unread fro:ann")).toEqual([
    '"fro:ann" was searched as text: fro: is no operator',
    ...["in:archive", "is:read", "-in:inbox"].map((term) => `"${term}" is never true of mail that arrives`),
  ]);
});

test.each(["[1]", '[{"match": 1}]', '[{"match": "ann", "enabled": true}]', "{}", "no JSON"])(
  "rules that nobody can read keep no mail out: %s",
  async (json) => {
    const { receive, thread, store, box } = world();
    store.db.$client.query("INSERT INTO mailbox_rules VALUES (?, ?)").run(box, json);
    const { threadId } = await receive({ ...FROM_ANN, messageId: "<1@x>" });
    expect(thread(threadId).folder).toBe("inbox");
  },
);

test("a mailbox without rules has no row", () => {
  const { set, store, box } = world(rule("ann", "star"));
  set([]);
  expect(store.db.select().from(mailboxRules).where(eq(mailboxRules.mailboxId, box)).all()).toEqual([]);
});
