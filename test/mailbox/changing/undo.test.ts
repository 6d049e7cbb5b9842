/** Taking back what a key did to conversations: what is left and why, and what it taught the spam filter (rules: Undo). */
import { describe, expect, test } from "bun:test";
import { eq, isNull } from "drizzle-orm";
import type { Caller } from "../../../src/access/caller.ts";
import { readChanges } from "../../../src/mailbox/changing/change-feed.ts";
import { deleteConversations } from "../../../src/mailbox/changing/removal.ts";
import {
  changeThreads,
  snoozeThread,
  undoChange,
  updateThread,
  updateThreads,
} from "../../../src/mailbox/changing/threads.ts";
import type { Undone } from "../../../src/mailbox/changing/undo.ts";
import { undoKeyChanges } from "../../../src/mailbox/changing/undo.ts";
import { replaceLabel } from "../../../src/mailbox/state/labels.ts";
import type { ThreadPatch } from "../../../src/mailbox/state/views.ts";
import {
  apiKeys,
  grants,
  journalEntries,
  junkFilters,
  junkTokens,
  keyChanges,
  mailboxes,
  messageJudgements,
  senderVerdicts,
  threads,
} from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const AGENT = "key_agent";
const HOUR_MS = 3_600_000;

function createAgent() {
  const it = createAlice();
  const { alice, core, store, runtime, workspaceId } = it;
  const agent: Caller = { ...alice, keyId: AGENT };
  const key = { id: AGENT, userId: alice.userId, name: "Agent", hash: "", hint: "", scopes: [], createdAt: 0 };
  store.db.insert(apiKeys).values(key).run();
  return {
    ...it,
    agent,
    /** The agent changes a conversation. */
    change: (id: string, patch: ThreadPatch) => updateThread(core, agent, id, patch),
    /** Alice does, a minute later. */
    meddle(id: string, patch: ThreadPatch) {
      runtime.setBy(60_000);
      updateThread(core, alice, id, patch);
      runtime.setBy(60_000);
    },
    /** Takes back everything that a key did. `person`: alice unless given; null is the operator. */
    undo: (
      given: { person?: Caller | null; dryRun?: boolean; since?: number; keyId?: string } = {},
    ): Promise<Undone> => {
      const { person = alice, dryRun = false, since = 0, keyId = AGENT } = given;
      return undoKeyChanges(
        core,
        { workspaceId, keyId, since },
        { ...(person && { person: () => person }), face: "app", dryRun },
      );
    },
    stateOf(id: string) {
      const { folder, starred, labels, unread } = it.thread(id);
      return { folder, starred, labels, unread };
    },
    /** Everything that the mailbox learned. */
    learned: () => [
      store.db.select().from(senderVerdicts).all(),
      store.db
        .select({ spam: junkFilters.spam, ham: junkFilters.ham })
        .from(junkFilters)
        .all()
        .filter(({ spam, ham }) => spam + ham > 0),
      store.db
        .select()
        .from(junkTokens)
        .all()
        .filter(({ spam, ham }) => spam + ham > 0),
      store.db
        .select({ seq: messageJudgements.messageSeq, trained: messageJudgements.trained })
        .from(messageJudgements)
        .all()
        .filter(({ trained }) => trained !== null),
    ],
  };
}

const summary = ({ threads: count, changes, left }: Undone) => ({
  threads: count,
  changes,
  left: left.map(({ field, label, reason }) => [label === undefined ? field : `${field} ${label}`, reason].join(": ")),
});

describe("takes back", () => {
  test("every field of every conversation, and says which", async () => {
    const { receive, change, undo, stateOf, runtime } = createAgent();
    const [a, b] = [(await receive({})).threadId, (await receive({ subject: "Other" })).threadId];
    const before = [stateOf(a), stateOf(b)];
    change(a, { folder: "archive", starred: true, unread: false, addLabels: ["News", "Later"] });
    runtime.setBy(1);
    change(b, { folder: "trash" });
    const wouldBe = await undo({ dryRun: true });
    expect([stateOf(a).folder, stateOf(b).folder]).toEqual(["archive", "trash"]);
    const done = await undo();
    expect(done).toEqual(wouldBe);
    expect(done).toEqual({
      threads: 2,
      changes: 7,
      fields: expect.arrayContaining([
        { threadId: b, field: "folder" },
        { threadId: a, field: "training" },
        { threadId: a, field: "folder" },
        { threadId: a, field: "starred" },
        { threadId: a, field: "unread" },
        { threadId: a, field: "label", label: "news" },
        { threadId: a, field: "label", label: "later" },
      ]),
      leftChanges: 0,
      left: [],
    });
    expect([stateOf(a), stateOf(b)]).toEqual(before);
    expect(summary(await undo())).toEqual({ threads: 0, changes: 0, left: [] });
  });

  test("to the value before the first change since the time", async () => {
    const { receive, change, undo, stateOf, runtime } = createAgent();
    const { threadId } = await receive({});
    for (const folder of ["archive", "trash", "spam"] as const) {
      change(threadId, { folder });
      runtime.setBy(HOUR_MS);
    }
    await undo({ since: runtime.now() - 2 * HOUR_MS });
    expect(stateOf(threadId).folder).toBe("archive");
    await undo();
    expect(stateOf(threadId).folder).toBe("inbox");
  });

  test("labels to their places and spellings", async () => {
    const { receive, change, undo, stateOf, core, alice } = createAgent();
    const { threadId } = await receive({});
    updateThread(core, alice, threadId, { labels: ["One", "Two", "Three", "Four"] });
    change(threadId, { labels: ["four", "Five", "Two"] });
    await undo();
    expect(stateOf(threadId).labels).toEqual(["One", "Two", "Three", "Four"]);
  });

  test("a snooze that a move ended, or that it made", async () => {
    const { receive, change, undo, agent, alice, core, runtime, thread } = createAgent();
    const [a, b] = [(await receive({})).threadId, (await receive({ subject: "Other" })).threadId];
    const until = runtime.now() + HOUR_MS;
    snoozeThread(core, alice, a, until);
    change(a, { folder: "archive" });
    updateThread(core, alice, b, { folder: "archive" });
    snoozeThread(core, agent, b, until);
    await undo();
    expect(thread(a)).toMatchObject({ folder: "inbox", snoozedUntil: new Date(until).toISOString() });
    expect(thread(b).folder).toBe("archive");
    expect(thread(b).snoozedUntil).toBeUndefined();
  });

  test("read marks message by message, and leaves those of newer mail", async () => {
    const { receive, change, undo, messages, core, alice } = createAgent();
    const { threadId } = await receive({ messageId: "<1@x>" });
    updateThread(core, alice, threadId, { read: true });
    await receive({ headers: ["In-Reply-To: <1@x>"], text: "two" });
    change(threadId, { read: true });
    await receive({ headers: ["In-Reply-To: <1@x>"], text: "three" });
    await undo();
    expect(messages(threadId).map(({ read }) => read)).toEqual([true, false, false]);
  });

  test("a draft from the trash; it is not sent after that", async () => {
    const { receive, change, undo, stateOf } = createAgent();
    const { threadId } = await receive({}, { kind: "draft" });
    change(threadId, { folder: "trash" });
    await undo();
    expect(stateOf(threadId).folder).toBe("drafts");
  });

  test("although the mailbox is full", async () => {
    const { receive, change, undo, stateOf, store, box } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "trash", addLabels: ["News"] });
    store.db.update(mailboxes).set({ quotaBytes: 1 }).where(eq(mailboxes.id, box)).run();
    await undo();
    expect(stateOf(threadId)).toMatchObject({ folder: "inbox", labels: [] });
  });

  test("and another key's changes come back with its own undo", async () => {
    const { receive, change, undo, stateOf, core, alice } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "archive" });
    updateThread(core, { ...alice, keyId: "key_other" }, threadId, { folder: "trash" });
    expect(summary(await undo())).toEqual({ threads: 1, changes: 1, left: ["folder: key"] });
    expect(stateOf(threadId).folder).toBe("trash");
    await undo({ keyId: "key_other" });
    expect(stateOf(threadId).folder).toBe("archive");
    await undo();
    expect(stateOf(threadId).folder).toBe("inbox");
  });

  test("in short portions, of few messages each", async () => {
    const { receive, agent, undo, core, store } = createAgent();
    const ids: string[] = [];
    for (let i = 0; i < 60; i++) ids.push((await receive({ subject: `Number ${i}` })).threadId);
    for (const folder of ["trash", "spam"] as const) {
      updateThreads(core, agent, ids, { folder });
      const portions: number[] = [];
      const stopListening = store.onCommit(() => {
        const left = store.db.select().from(keyChanges).where(isNull(keyChanges.settledBy)).all().length;
        portions.push(left);
      });
      expect(await undo()).toMatchObject({ threads: 60 });
      stopListening();
      const sizes = portions.map((left, i) => (portions[i - 1] ?? (folder === "spam" ? 120 : 60)) - left);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(30);
      expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(folder === "spam" ? 120 : 60);
    }
  });

  test("so that those who follow changes learn of it", async () => {
    const { receive, change, undo, core, alice } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "trash" });
    const { next } = readChanges(core, alice, {});
    await undo();
    expect(readChanges(core, alice, { after: next }).changes).toMatchObject([{ threadId, kind: "upserted" }]);
  });

  test("with an entry in the key's journal, by the person who undid", async () => {
    const { receive, change, undo, alice, store, runtime } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { starred: true });
    const before = store.db.select().from(journalEntries).all().length;
    await undo({ dryRun: true });
    await undo();
    await undo();
    expect(store.db.select().from(journalEntries).all().slice(before)).toEqual([
      expect.objectContaining({
        at: runtime.now(),
        keyId: AGENT,
        userId: alice.userId,
        operation: "undo",
        face: "app",
        ids: [threadId],
        changes: 0,
      }),
    ]);
  });
});

describe("leaves", () => {
  test("what a person changed or confirmed after the key, field by field", async () => {
    const { receive, change, meddle, undo, stateOf } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "trash", starred: true, unread: false, labels: ["News", "Later"] });
    meddle(threadId, { folder: "archive", unread: false, removeLabels: ["news"] });
    expect(summary(await undo())).toEqual({
      threads: 1,
      changes: 2,
      left: ["label news: person", "folder: person", "unread: person"],
    });
    expect(stateOf(threadId)).toEqual({ folder: "archive", starred: false, unread: false, labels: [] });
  });

  test("but takes back what the key did after the person", async () => {
    const { receive, change, meddle, undo, stateOf } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "trash" });
    meddle(threadId, { folder: "archive" });
    change(threadId, { folder: "spam" });
    await undo();
    expect(stateOf(threadId).folder).toBe("archive");
  });

  test("labels that a person replaced as a whole", async () => {
    const { receive, change, meddle, undo, stateOf } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { labels: ["News", "Later"] });
    meddle(threadId, { labels: ["News"] });
    expect(summary(await undo()).left).toEqual(["label news: person", "label later: person"]);
    expect(stateOf(threadId).labels).toEqual(["News"]);
  });

  test("what a person took back in the app", async () => {
    const { receive, change, undo, stateOf, core, alice } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "archive", addLabels: ["News"] });
    const { undo: mine } = changeThreads(core, alice, [threadId], { folder: "trash", removeLabels: ["News"] });
    undoChange(core, alice, mine ?? "");
    expect(summary(await undo()).left).toEqual(["label news: person", "folder: person"]);
    expect(stateOf(threadId)).toMatchObject({ folder: "archive", labels: ["News"] });
  });

  test("a conversation that new mail brought back", async () => {
    const { receive, change, undo, stateOf } = createAgent();
    const { threadId } = await receive({ messageId: "<1@x>" });
    change(threadId, { folder: "archive" });
    await receive({ headers: ["In-Reply-To: <1@x>"], text: "two" });
    expect(summary(await undo()).left).toEqual(["folder: mail"]);
    expect(stateOf(threadId).folder).toBe("inbox");
  });

  test("one that was deleted for good", async () => {
    const { receive, change, undo, store, box } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "trash" });
    const row = store.db.select({ seq: threads.seq }).from(threads).where(eq(threads.id, threadId)).get();
    store.transact((tx) => deleteConversations(tx, box, [row?.seq ?? 0]));
    for (let i = 0; i < 2; i++)
      expect(summary(await undo())).toEqual({ threads: 0, changes: 0, left: ["folder: deleted"] });
  });

  test("what the undoing person may not change", async () => {
    const { world, receive, undo, stateOf, core, alice, box, workspaceId, store } = createAgent();
    const max = world.user(workspaceId, "max@example.test", "member");
    world.grant(box, max, "full");
    const { threadId } = await receive({});
    updateThread(core, { ...max, keyId: AGENT }, threadId, { folder: "archive", unread: false });
    store.db.update(grants).set({ access: "view" }).where(eq(grants.userId, max.userId)).run();
    expect(summary(await undo({ person: max }))).toEqual({
      threads: 1,
      changes: 1,
      left: ["training: out_of_reach", "folder: out_of_reach"],
    });
    expect(stateOf(threadId)).toMatchObject({ folder: "archive", unread: true });
    store.db.delete(grants).where(eq(grants.userId, max.userId)).run();
    expect(summary(await undo({ person: max, dryRun: true })).left).toHaveLength(2);
    await undo({ person: alice });
    expect(stateOf(threadId).folder).toBe("inbox");
  });

  test("nothing to the operator", async () => {
    const { receive, change, undo, stateOf, store } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "spam", starred: true });
    expect(summary(await undo({ person: null })).left).toEqual([]);
    expect(stateOf(threadId)).toMatchObject({ folder: "inbox", starred: false });
    expect(store.db.select({ userId: journalEntries.userId }).from(journalEntries).all().at(-1)).toEqual({
      userId: null,
    });
  });

  test("a label that somebody removed or renamed everywhere since", async () => {
    for (const replacement of [undefined, "Press"]) {
      const { receive, change, undo, stateOf, core, alice } = createAgent();
      const [a, b] = [(await receive({})).threadId, (await receive({ subject: "Other" })).threadId];
      for (const id of [a, b]) updateThread(core, alice, id, { labels: ["News"] });
      change(a, { removeLabels: ["News"] });
      await replaceLabel(core, alice, { label: "news", replacement });
      expect(summary(await undo()).left).toEqual(["label news: person"]);
      expect(stateOf(a).labels).toEqual([]);
    }
  });

  test("a label for which there is no room any more", async () => {
    const { receive, change, meddle, undo, stateOf } = createAgent();
    const { threadId } = await receive({});
    const many = Array.from({ length: 100 }, (_, i) => `Label ${i}`);
    meddle(threadId, { labels: ["News"] });
    change(threadId, { removeLabels: ["News"] });
    meddle(threadId, { addLabels: many });
    expect(summary(await undo()).left).toEqual(["label news: too_many_labels"]);
    expect(stateOf(threadId).labels).toEqual(many);
    meddle(threadId, { removeLabels: many.slice(1) });
    await undo();
    expect(stateOf(threadId).labels).toEqual(["News", "Label 0"]);
  });
});

test("a key that is paused meanwhile renames no label further", async () => {
  const { receive, core, alice, agent, store, stateOf } = createAgent();
  const { threadId } = await receive({});
  updateThread(core, alice, threadId, { labels: ["News"] });
  store.db.update(apiKeys).set({ pausedAt: 0 }).run();
  expect(await replaceLabel(core, agent, { label: "news", replacement: "Press" }).catch(({ code }) => code)).toBe(
    "forbidden",
  );
  expect(stateOf(threadId).labels).toEqual(["News"]);
});

test("takes back a label that the key renamed or removed everywhere", async () => {
  const { receive, undo, stateOf, core, alice, agent } = createAgent();
  const ids = [(await receive({})).threadId, (await receive({ subject: "Other" })).threadId];
  updateThread(core, alice, ids[0] ?? "", { labels: ["News", "Later"] });
  updateThread(core, alice, ids[1] ?? "", { labels: ["Press", "News"] });
  const before = ids.map(stateOf);
  await replaceLabel(core, agent, { label: "news", replacement: "Press" });
  await replaceLabel(core, agent, { label: "press" });
  await undo();
  expect(ids.map(stateOf)).toEqual(before);
});

describe("what it taught the spam filter", () => {
  test("about many conversations of one sender, whatever the order", async () => {
    const { receive, change, undo, learned, runtime } = createAgent();
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) ids.push((await receive({ subject: `Offer ${i}`, text: `Cheap ${i}` })).threadId);
    const before = learned();
    for (const n of [3, 7, 1, 3, 11, 0, 7, 5]) {
      runtime.setBy(1_000);
      change(ids[n] ?? "", { folder: n % 2 ? "spam" : "archive" });
      runtime.setBy(1_000);
      if (n === 7) change(ids[n] ?? "", { folder: "inbox" });
    }
    expect(learned()).not.toEqual(before);
    await undo();
    expect(learned()).toEqual(before);
  });

  test("is kept where a person confirmed it", async () => {
    const { receive, change, meddle, undo, learned } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "spam" });
    meddle(threadId, { folder: "spam" });
    const before = learned();
    expect(summary(await undo())).toEqual({ threads: 0, changes: 0, left: ["training: person", "folder: person"] });
    expect(learned()).toEqual(before);
  });

  test("goes where a person moved the conversation for another reason", async () => {
    const { receive, change, meddle, undo, store } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "spam" });
    meddle(threadId, { folder: "archive" });
    expect(summary(await undo())).toEqual({ threads: 1, changes: 1, left: ["folder: person"] });
    expect(store.db.select().from(senderVerdicts).all()).toEqual([]);
  });

  test("goes although the conversation was deleted", async () => {
    const { receive, change, undo, store, box } = createAgent();
    const { threadId } = await receive({});
    change(threadId, { folder: "spam" });
    const row = store.db.select({ seq: threads.seq }).from(threads).where(eq(threads.id, threadId)).get();
    store.transact((tx) => deleteConversations(tx, box, [row?.seq ?? 0]));
    await undo();
    expect(store.db.select().from(senderVerdicts).all()).toEqual([]);
  });
});

test("what a person does is not kept", async () => {
  const { receive, meddle, store } = createAgent();
  const { threadId } = await receive({});
  meddle(threadId, { folder: "spam", starred: true, labels: ["News"] });
  expect(store.db.select().from(keyChanges).all()).toEqual([]);
});
