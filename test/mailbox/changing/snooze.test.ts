/** Snoozing (rules: Snooze): out of the inbox until a time, then back, unread. */
import { describe, expect, test } from "bun:test";
import { setThreadSnooze, wakeSnoozed } from "../../../src/mailbox/changing/change.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listThreads } from "../../../src/mailbox/reading/listing.ts";
import { listMessages } from "../../../src/mailbox/reading/messages.ts";
import { listMailboxes } from "../../../src/mailbox/state/mailboxes.ts";
import { FOLDERS, messages, threads } from "../../../src/store/schema.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const HOUR_MS = 3_600_000;

async function snoozed(until = START + HOUR_MS) {
  const alice = createAlice();
  const { receive, core, store } = alice;
  const { threadId: id } = await receive({ messageId: "<1@x>" });
  updateThread(core, alice.alice, id, { read: true });
  store.transact((tx) => setThreadSnooze(tx, id, until));
  const job = wakeSnoozed(core);
  return { ...alice, id, job };
}

test("a snoozed conversation is listed under snoozed and all, not inbox, with its time", async () => {
  const { id, listed, thread, core, alice } = await snoozed();
  expect(await listed({ folder: "snoozed" })).toEqual([id]);
  expect(await listed({ folder: "all" })).toEqual([id]);
  expect(await listed({ folder: "inbox" })).toEqual([]);
  expect(thread(id).snoozedUntil).toBe(new Date(START + HOUR_MS).toISOString());
  updateThread(core, alice, id, { unread: true });
  expect((await listThreads(core, alice, { folder: "inbox", limit: 5 })).unread).toBe(0);
  expect((await listThreads(core, alice, { folder: "all", limit: 5 })).unread).toBe(1);
  expect(listMailboxes(core, alice)[0]?.unread).toBe(0);
});

test("it returns on time, not before: to the inbox, unread", async () => {
  const { id, listed, thread, messages, job } = await snoozed();
  expect(await job.runDue(START + HOUR_MS - 1)).toBe(START + HOUR_MS);
  expect(await listed({ folder: "snoozed" })).toEqual([id]);
  expect(await job.runDue(START + HOUR_MS)).toBeNull();
  expect(await listed({ folder: "snoozed" })).toEqual([]);
  expect(await listed({ folder: "inbox" })).toEqual([id]);
  expect(thread(id).unread).toBe(true);
  expect(messages(id).map(({ read }) => read)).toEqual([false]);
});

test("many due conversations return in portions, and the job returns the next due time", async () => {
  const { receive, store, listed, job } = await snoozed(START + 2 * HOUR_MS);
  for (let i = 0; i < 120; i++) {
    const { threadId } = await receive({ subject: `${i}` });
    store.transact((tx) => setThreadSnooze(tx, threadId, START + i));
  }
  const at = START + HOUR_MS;
  const next = await job.runDue(at);
  expect(next).toBeLessThan(at);
  expect(await job.runDue(at)).toBe(START + 2 * HOUR_MS);
  expect(await listed({ folder: "snoozed" })).toHaveLength(1);
  expect(await job.runDue(START + 2 * HOUR_MS)).toBeNull();
});

describe("what can be snoozed", () => {
  for (const folder of FOLDERS) {
    const can = folder === "inbox" || folder === "archive" || folder === "sent";
    test(`a conversation in ${folder}: ${can ? "yes, it returns to the inbox" : "conflict"}`, async () => {
      const { receive, store, core, thread, listed, alice } = createAlice();
      const { threadId } = await receive({});
      updateThread(core, alice, threadId, { folder: "archive" });
      store.db.update(threads).set({ folder }).run();
      store.db.update(messages).set({ folder }).run();
      const act = () => store.transact((tx) => setThreadSnooze(tx, threadId, START + 1));
      if (!can) {
        expect(act).toThrow(expect.objectContaining({ code: "conflict" }));
        expect(thread(threadId)).not.toHaveProperty("snoozedUntil");
        return;
      }
      act();
      expect(await listed({ folder: "snoozed" })).toEqual([threadId]);
      expect(thread(threadId).folder).toBe("inbox");
      if (folder !== "inbox") expect(listMessages(core, alice, { folder: "inbox", limit: 5 })).toHaveLength(1);
    });
  }

  test("an unknown conversation: not found", () => {
    const { store } = createAlice();
    expect(() => store.transact((tx) => setThreadSnooze(tx, "thr_none", START))).toThrow(
      expect.objectContaining({ code: "not_found" }),
    );
  });
});
