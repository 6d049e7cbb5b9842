/** PATCH of a conversation (rules: Changing a conversation, Labels, Folders). */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { setThreadSnooze } from "../../../src/mailbox/changing/change.ts";
import { getThread, updateThread } from "../../../src/mailbox/changing/threads.ts";
import { getMessage, getRawMessage, listMessages } from "../../../src/mailbox/reading/messages.ts";
import type { ThreadPatch } from "../../../src/mailbox/state/views.ts";
import { FOLDERS, messages, threads } from "../../../src/store/schema.ts";
import { START } from "../../harness/runtime.ts";
import { codeOf, createAlice } from "../../harness/servers/mailbox-world.ts";

/** A read conversation with two received messages and a sent one. */
async function conversation() {
  const alice = createAlice();
  const { receive, send, core } = alice;
  const { threadId: id } = await receive({ messageId: "<1@x>", text: "one" });
  await receive({ headers: ["In-Reply-To: <1@x>"], text: "two", date: "Mon, 05 Jan 2026 08:10:00 +0000" });
  await send({ headers: ["In-Reply-To: <1@x>"], text: "three", date: "Mon, 05 Jan 2026 08:20:00 +0000" });
  updateThread(core, alice.alice, id, { read: true });
  return { ...alice, id, update: (patch: ThreadPatch) => updateThread(core, alice.alice, id, patch) };
}

describe("read and unread", () => {
  for (const [patch, unread] of [
    [{ unread: true }, true],
    [{ read: false }, true],
    [{ unread: true, read: false }, true],
    [{ unread: false }, false],
    [{ read: true }, false],
  ] as const) {
    test(`${JSON.stringify(patch)}: ${unread ? "unread" : "read"}, and nothing else`, async () => {
      const { update, thread, id } = await conversation();
      const before = thread(id);
      expect(update(patch)).toEqual({ ...before, unread });
      expect(thread(id)).toEqual({ ...before, unread });
    });
  }

  test("unread marks the newest received message, read marks all", async () => {
    const { update, messages: messagesOf, id } = await conversation();
    const unreadTexts = () => messagesOf(id).flatMap(({ read, text }) => (read ? [] : [text]));
    update({ unread: true });
    expect(unreadTexts()).toEqual(["two"]);
    update({ unread: false });
    expect(unreadTexts()).toEqual([]);
  });

  test("unread for an unread conversation changes no message", async () => {
    const { receive, core, alice, messages: messagesOf } = createAlice();
    const { threadId } = await receive({});
    updateThread(core, alice, threadId, { unread: true });
    expect(messagesOf(threadId).map(({ read }) => read)).toEqual([false]);
  });

  test("unread for a conversation of sent mail marks the sent message", async () => {
    const { send, core, alice, messages: messagesOf } = createAlice();
    const { threadId } = await send({});
    expect(updateThread(core, alice, threadId, { unread: true }).unread).toBe(true);
    expect(messagesOf(threadId).map(({ read }) => read)).toEqual([false]);
  });

  test("contradicting values are refused before any other check", async () => {
    const { core, alice } = createAlice();
    for (const read of [true, false]) {
      expect(codeOf(() => updateThread(core, alice, "thr_none", { read, unread: read }))).toBe("bad_request");
    }
  });

  test("reading never marks anything read", async () => {
    const { receive, core, alice, thread, listed } = createAlice();
    const { threadId, messageId } = await receive({});
    getThread(core, alice, threadId, { html: true });
    getMessage(core, alice, messageId, { html: true });
    await getRawMessage(core, alice, messageId);
    listMessages(core, alice, { limit: 10 });
    await listed({ q: "hello" });
    expect(thread(threadId).unread).toBe(true);
  });
});

describe("folder", () => {
  for (const from of FOLDERS.filter((folder) => folder !== "drafts")) {
    for (const to of ["inbox", "archive", "trash", "spam"] as const) {
      test(`${from} to ${to}`, async () => {
        const { update, thread, id, store, listed, core, alice } = await conversation();
        store.db.update(threads).set({ folder: from }).where(eq(threads.id, id)).run();
        expect(update({ folder: to }).folder).toBe(to);
        expect(thread(id).folder).toBe(to);
        expect(await listed({ folder: to })).toEqual([id]);
        // A message's own folder: sent for outgoing mail, unless all of it is in trash or spam.
        if (from !== to) {
          const folders = listMessages(core, alice, { limit: 10 }).map(({ folder }) => folder);
          expect(folders).toEqual(to === "inbox" || to === "archive" ? ["sent", to, to] : [to, to, to]);
        }
      });
    }
  }

  for (const to of ["inbox", "archive", "spam", "trash"] as const) {
    for (const from of ["drafts", "trash"] as const) {
      test(`a draft in ${from} to ${to}: ${to === "trash" ? "moved" : "conflict"}`, async () => {
        const { update, thread, id, store, receive } = await conversation();
        store.db.update(threads).set({ folder: from }).where(eq(threads.id, id)).run();
        store.db.update(messages).set({ kind: "draft", folder: from }).run();
        if (to === "trash") {
          expect(update({ folder: to }).folder).toBe("trash");
        } else {
          expect(codeOf(() => update({ folder: to, starred: true, unread: true }))).toBe("conflict");
          expect(thread(id)).toMatchObject({ folder: from, starred: false, unread: false });
          // Nothing was learned about any sender.
          expect(thread((await receive({ subject: "New" })).threadId).folder).toBe("inbox");
        }
      });
    }
  }

  test("clears the snooze for every folder", async () => {
    for (const folder of ["inbox", "archive"] as const) {
      const { update, store, id, listed } = await conversation();
      store.transact((tx) => setThreadSnooze(tx, id, START + 1000));
      expect(await listed({ folder: "snoozed" })).toEqual([id]);
      expect(update({ folder })).not.toHaveProperty("snoozedUntil");
      expect(await listed({ folder: "snoozed" })).toEqual([]);
      expect(await listed({ folder })).toEqual([id]);
    }
  });

  test("another change leaves the snooze", async () => {
    const { update, store, id } = await conversation();
    store.transact((tx) => setThreadSnooze(tx, id, START + 1000));
    expect(update({ starred: true }).snoozedUntil).toBe(new Date(START + 1000).toISOString());
  });
});

test("starred is set and cleared", async () => {
  const { update, listed, id } = await conversation();
  expect(update({ starred: true }).starred).toBe(true);
  expect(await listed({ folder: "starred" })).toEqual([id]);
  expect(update({ starred: false }).starred).toBe(false);
  expect(await listed({ folder: "starred" })).toEqual([]);
});

describe("labels", () => {
  const cases: [string, string[], ThreadPatch, string[]][] = [
    ["replace all", ["a", "b"], { labels: ["c"] }, ["c"]],
    ["replace by none", ["a", "b"], { labels: [] }, []],
    ["are added after the others", ["b"], { addLabels: ["a", "c"] }, ["b", "a", "c"]],
    ["are there once, as first written", ["Work"], { addLabels: ["WORK", "work", "new", "New"] }, ["Work", "new"]],
    ["are removed without case", ["Work", "Straße", "x"], { removeLabels: ["wORK", "STRASSE"] }, ["x"]],
    ["that are not there are removed in peace", ["a"], { removeLabels: ["b", ""] }, ["a"]],
    [
      "all three: replaced, added, removed",
      ["a"],
      { labels: ["b", "c"], addLabels: ["d"], removeLabels: ["b"] },
      ["c", "d"],
    ],
    ["lose the spaces around them", [], { labels: [" a  b "] }, ["a  b"]],
    ["with separators in them stay apart", ["a\nb"], { labels: ["a", "b"] }, ["a", "b"]],
    ["with a new spelling are spelled so", ["work"], { labels: ["Work"] }, ["Work"]],
  ];
  for (const [name, before, patch, after] of cases) {
    test(name, async () => {
      const { update, thread, id } = await conversation();
      update({ labels: before });
      expect(update(patch).labels).toEqual(after);
      expect(thread(id).labels).toEqual(after);
    });
  }

  test("of only spaces are refused before the conversation is looked up", async () => {
    const { core, alice } = createAlice();
    for (const patch of [{ labels: ["a", " "] }, { addLabels: [""] }]) {
      expect(codeOf(() => updateThread(core, alice, "thr_none", patch))).toBe("bad_request");
    }
  });

  test("accumulate up to a hundred; more is unprocessable and changes nothing", async () => {
    const { update, thread, id } = await conversation();
    const labels = Array.from({ length: 100 }, (_, i) => `l${i}`);
    expect(update({ addLabels: labels }).labels).toEqual(labels);
    expect(codeOf(() => update({ addLabels: ["one more"], starred: true }))).toBe("unprocessable");
    expect(thread(id)).toMatchObject({ labels, starred: false });
  });
});

test("a patch may name all fields at once, and returns the changed conversation", async () => {
  const { update, thread, id } = await conversation();
  const answer = update({ unread: true, starred: true, folder: "archive", labels: ["x"] });
  expect(answer).toMatchObject({ unread: true, starred: true, folder: "archive", labels: ["x"] });
  expect(thread(id)).toEqual(answer);
});

test("a change emits no event", async () => {
  const { update, events } = await conversation();
  const before = events().length;
  update({ unread: true, starred: true, folder: "spam", labels: ["x"] });
  expect(events()).toHaveLength(before);
});
