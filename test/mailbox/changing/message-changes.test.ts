/** Single messages are moved, flagged, read and deleted (rules: Folder of a message). */
import { describe, expect, test } from "bun:test";
import { asc, eq } from "drizzle-orm";
import fc from "fast-check";
import type { Caller } from "../../../src/access/caller.ts";
import { latestChange } from "../../../src/mailbox/changing/change-feed.ts";
import type { MessageChange } from "../../../src/mailbox/changing/message-changes.ts";
import { changeMessages, expungeMessages } from "../../../src/mailbox/changing/message-changes.ts";
import { deleteDiscarded } from "../../../src/mailbox/changing/removal.ts";
import {
  changeThreads,
  emptyFolder,
  snoozeThread,
  undoChange,
  updateThread,
} from "../../../src/mailbox/changing/threads.ts";
import { undoKeyChanges } from "../../../src/mailbox/changing/undo.ts";
import { readMailboxUsage } from "../../../src/mailbox/state/mailboxes.ts";
import { type Folder, holds, messages, threads } from "../../../src/store/schema.ts";
import { runs } from "../../harness/runs.ts";
import { START } from "../../harness/runtime.ts";
import { codeOf, createAlice } from "../../harness/servers/mailbox-world.ts";

const DAY_MS = 86_400_000;

function office() {
  const alice = createAlice();
  const { store, core, receive, send } = alice;
  const rows = (threadId: string) =>
    store.db
      .select({ message: messages, thread: threads })
      .from(messages)
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .where(eq(threads.id, threadId))
      .orderBy(asc(messages.seq))
      .all();
  return {
    ...alice,
    rows,
    folders: (threadId: string) => rows(threadId).map(({ message }) => message.folder),
    change: (seqs: number[], change: MessageChange, caller: Caller = alice.alice) =>
      store.transact((tx) => changeMessages(tx, caller, seqs, change, core.now())),
    expunge: (seqs: number[], caller: Caller = alice.alice) =>
      store.transact((tx) => expungeMessages(tx, caller, seqs, core.now())),
    /** Two received messages, and a sent one between them. */
    async conversation() {
      const one = await receive({
        messageId: "<1@x>",
        subject: "Tea",
        text: "one",
        date: "Mon, 05 Jan 2026 07:00:00 +0000",
      });
      const two = await send({
        headers: ["In-Reply-To: <1@x>"],
        subject: "Re: Tea",
        text: "two",
        date: "Mon, 05 Jan 2026 07:10:00 +0000",
      });
      const three = await receive({
        headers: ["In-Reply-To: <1@x>"],
        subject: "Re: Tea",
        from: "Ben <ben@remote.example>",
        text: "three",
        date: "Mon, 05 Jan 2026 07:20:00 +0000",
      });
      return { id: one.threadId, seqs: [one.seq, two.seq, three.seq] as [number, number, number] };
    },
  };
}

describe("moving", () => {
  for (const [places, folder] of [
    [["archive", "sent", "inbox"], "inbox"],
    [["archive", "sent", "archive"], "archive"],
    [["trash", "sent", "archive"], "archive"],
    [["trash", "sent", "trash"], "sent"],
    [["trash", "archive", "trash"], "archive"],
    [["trash", "inbox", "trash"], "sent"],
    [["trash", "trash", "trash"], "trash"],
    [["spam", "spam", "spam"], "spam"],
    [["spam", "trash", "spam"], "trash"],
  ] as const) {
    test(`${places.join(", ")}: the conversation is in ${folder}`, async () => {
      const { conversation, change, thread, folders } = office();
      const { id, seqs } = await conversation();
      for (const [i, place] of places.entries()) change([seqs[i] as number], { folder: place });
      expect(thread(id).folder).toBe(folder);
      expect(folders(id)).toEqual([...places]);
    });
  }

  test("random moves of messages, PATCHes and arriving mail agree with a model", async () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant("one" as const),
        which: fc.nat(9),
        folder: fc.constantFrom<Folder>("inbox", "archive", "trash", "spam", "sent"),
      }),
      fc.record({
        kind: fc.constant("all" as const),
        folder: fc.constantFrom("inbox" as const, "archive" as const, "trash" as const, "spam" as const),
      }),
      fc.record({ kind: fc.constant("mail" as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const { conversation, change, core, alice, receive, thread, rows } = office();
        const { id } = await conversation();
        const model = {
          folder: "inbox" as Folder,
          messages: [
            { kind: "received", folder: "inbox", apart: false },
            { kind: "sent", folder: "sent", apart: false },
            { kind: "received", folder: "inbox", apart: false },
          ] as { kind: "received" | "sent"; folder: Folder; apart: boolean }[],
        };
        const discards = (folder: Folder): boolean => folder === "trash" || folder === "spam";
        const implied = (kind: "received" | "sent"): Folder =>
          kind === "sent" && !discards(model.folder) ? "sent" : model.folder;
        const derive = (): Folder => {
          const alive = model.messages.filter(({ folder }) => !discards(folder));
          if (alive.length === 0) return model.messages.some(({ folder }) => folder === "trash") ? "trash" : "spam";
          if (alive.some(({ kind, folder }) => kind === "received" && folder === "inbox")) return "inbox";
          return alive.some(({ folder }) => folder === "archive") ? "archive" : "sent";
        };
        for (const [n, one] of steps.entries()) {
          if (one.kind === "one") {
            const which = one.which % model.messages.length;
            const message = model.messages[which] as (typeof model.messages)[number];
            const act = () => change([rows(id)[which]?.message.seq as number], { folder: one.folder });
            if (one.folder === "sent" && message.kind === "received") expect(codeOf(act)).toBe("conflict");
            else {
              act();
              message.apart ||= message.folder !== one.folder;
              message.folder = one.folder;
              model.folder = derive();
              // What is left behind is apart as well.
              for (const other of model.messages) other.apart ||= other.folder !== implied(other.kind);
            }
          } else if (one.kind === "all") {
            updateThread(core, alice, id, { folder: one.folder });
            const from = model.folder;
            model.folder = one.folder;
            for (const message of model.messages) {
              const goes = !message.apart || message.folder === from || discards(one.folder);
              const stays = message.folder === one.folder || message.folder === implied(message.kind);
              if (goes && !stays) Object.assign(message, { folder: implied(message.kind), apart: false });
            }
          } else {
            const filed = await receive({
              headers: ["In-Reply-To: <1@x>"],
              from: `new-${n}@remote.example`,
              text: `mail ${n}`,
            });
            expect(filed.threadId).toBe(id);
            if (model.folder !== "spam") model.folder = "inbox";
            for (const message of model.messages) if (!message.apart) message.folder = implied(message.kind);
            model.messages.push({ kind: "received", folder: model.folder, apart: false });
          }
          const present = rows(id).map(({ message: { kind, folder, apart } }) => ({ kind, folder, apart }));
          expect([thread(id).folder, present]).toEqual([model.folder, model.messages]);
        }
      }),
      { numRuns: runs(25) },
    );
  }, 30_000);

  test("a PATCH to the archive leaves there what we wrote, and one to the inbox puts it into sent again", async () => {
    const { conversation, change, core, alice, folders } = office();
    const { id, seqs } = await conversation();
    change([...seqs], { folder: "archive" });
    updateThread(core, alice, id, { folder: "archive" });
    expect(folders(id)).toEqual(["archive", "archive", "archive"]);
    updateThread(core, alice, id, { folder: "inbox" });
    expect(folders(id)).toEqual(["inbox", "sent", "inbox"]);
  });

  test("a person takes a PATCH back, and each message is where it was", async () => {
    const { conversation, change, core, alice, thread, folders } = office();
    const { id, seqs } = await conversation();
    change([seqs[0]], { folder: "trash" });
    const { undo = "" } = changeThreads(core, alice, [id], { folder: "archive" });
    expect(folders(id)).toEqual(["trash", "sent", "archive"]);
    undoChange(core, alice, undo);
    expect([thread(id).folder, folders(id)]).toEqual(["inbox", ["trash", "sent", "inbox"]]);
  });

  test("it is not taken back over a message that was moved since", async () => {
    const { conversation, change, core, alice } = office();
    const { id, seqs } = await conversation();
    const { undo = "" } = changeThreads(core, alice, [id], { folder: "archive" });
    change([seqs[0]], { folder: "trash" });
    expect(undoChange(core, alice, undo).refused.map(({ code }) => code)).toEqual(["conflict"]);
  });

  test("undo of a key puts single messages back, and what they taught", async () => {
    const { conversation, change, core, alice, workspaceId, thread, folders, store } = office();
    const { id, seqs } = await conversation();
    change([seqs[0]], { folder: "archive" });
    const key = { ...alice, keyId: "key_one" };
    change([seqs[2]], { folder: "spam" }, key);
    updateThread(core, key, id, { folder: "trash" });
    const verdicts = () => store.db.$client.query("SELECT sender FROM sender_verdicts WHERE verdict = 'spam'").all();
    expect(verdicts()).toEqual([{ sender: "ben@remote.example" }]);
    const undone = await undoKeyChanges(
      core,
      { workspaceId, keyId: "key_one", since: 0 },
      { person: () => alice, face: "app", dryRun: false },
    );
    expect(undone.fields.map(({ field }) => field)).toEqual(["training", "folder"]);
    expect([thread(id).folder, folders(id)]).toEqual(["inbox", ["archive", "sent", "inbox"]]);
    expect(verdicts()).toEqual([]);
  });

  test("it is in the journal of a key, and in the feed of changes", async () => {
    const { conversation, change, alice, store } = office();
    const { id, seqs } = await conversation();
    const before = latestChange(store.db);
    change([seqs[0]], { folder: "trash" }, { ...alice, keyId: "key_one" });
    expect(latestChange(store.db)).toBeGreaterThan(before);
    expect(store.db.$client.query("SELECT ids, changes FROM journal_entries").all()).toEqual([
      { ids: JSON.stringify([id]), changes: 1 },
    ]);
  });

  test("a message put into the inbox ends a snooze, another move in it does not", async () => {
    const { conversation, change, core, alice, thread, folders } = office();
    const { id, seqs } = await conversation();
    change([seqs[0]], { folder: "trash" });
    snoozeThread(core, alice, id, START + DAY_MS);
    expect(folders(id)).toEqual(["trash", "sent", "inbox"]);
    change([seqs[1]], { folder: "archive" });
    expect(thread(id).snoozedUntil).toBeDefined();
    change([seqs[0]], { folder: "inbox" });
    expect(thread(id).snoozedUntil).toBeUndefined();
  });

  test("a draft goes to trash and back, and nothing else goes to drafts", async () => {
    const { receive, change, thread, conversation } = office();
    const draft = await receive({}, { kind: "draft" });
    expect(codeOf(() => change([draft.seq], { folder: "inbox" }))).toBe("conflict");
    change([draft.seq], { folder: "trash" });
    expect(thread(draft.threadId).folder).toBe("trash");
    change([draft.seq], { folder: "drafts" });
    expect(thread(draft.threadId).folder).toBe("drafts");
    const { seqs } = await conversation();
    expect(codeOf(() => change([seqs[0]], { folder: "drafts" }))).toBe("conflict");
    expect(codeOf(() => change([seqs[0]], { folder: "sent" }))).toBe("conflict");
  });
});

describe("access", () => {
  test("a view share reads, and does nothing else; a stranger finds nothing; a held message stays", async () => {
    const { world, workspaceId, box, conversation, change, expunge, store, receive } = office();
    const { seqs } = await conversation();
    const ben = world.user(workspaceId, "ben@example.test", "member");
    expect(codeOf(() => change([seqs[0]], { read: true }, ben))).toBe("not_found");
    world.grant(box, ben, "view");
    change([seqs[0]], { read: true }, ben);
    expect(codeOf(() => change([seqs[0]], { flagged: true }, ben))).toBe("forbidden");
    expect(codeOf(() => change([seqs[0]], { folder: "trash" }, ben))).toBe("forbidden");
    expect(codeOf(() => expunge([seqs[0]], ben))).toBe("forbidden");

    const held = await receive({}, { kind: "draft", held: true });
    store.db
      .insert(holds)
      .values({
        messageSeq: held.seq,
        messageId: held.messageId,
        mailboxId: box,
        keyId: "key_one",
        userId: ben.userId,
        state: "waiting",
        reason: "",
        since: 0,
        recipients: [],
        dsn: {},
      })
      .run();
    expect(codeOf(() => change([held.seq], { folder: "trash" }))).toBe("conflict");
    expect(codeOf(() => expunge([held.seq]))).toBe("conflict");
  });
});

describe("flags and read state", () => {
  test("a conversation is starred while any message is flagged", async () => {
    const { conversation, change, core, alice, thread, rows } = office();
    const { id, seqs } = await conversation();
    const flagged = () => rows(id).map(({ message }) => message.flagged);
    change([seqs[0], seqs[1]], { flagged: true });
    expect(thread(id).starred).toBe(true);
    change([seqs[0]], { flagged: false });
    expect(thread(id).starred).toBe(true);
    updateThread(core, alice, id, { starred: true });
    expect(flagged()).toEqual([false, true, false]);
    updateThread(core, alice, id, { starred: false });
    expect(flagged()).toEqual([false, false, false]);
    updateThread(core, alice, id, { starred: true });
    expect(flagged()).toEqual([false, false, true]);
    change([seqs[2]], { flagged: false });
    expect(thread(id).starred).toBe(false);
  });

  test("a conversation is unread while any message is", async () => {
    const { conversation, change, thread } = office();
    const { id, seqs } = await conversation();
    change([seqs[0]], { read: true });
    expect(thread(id).unread).toBe(true);
    change([seqs[2]], { read: true });
    expect(thread(id).unread).toBe(false);
    change([seqs[1]], { read: false });
    expect(thread(id).unread).toBe(true);
  });
});

describe("deleting", () => {
  test("only what is in trash or spam", async () => {
    const { conversation, expunge } = office();
    const { seqs } = await conversation();
    expect(codeOf(() => expunge([seqs[0]]))).toBe("conflict");
  });

  test("the rest of the conversation is as if the message had never come", async () => {
    const { conversation, change, expunge, thread, core, box, receive, world } = office();
    const bytes = () => readMailboxUsage(core, box).bytes;
    const { id, seqs } = await conversation();
    const before = thread(id);
    const last = await receive({
      headers: ["In-Reply-To: <1@x>"],
      from: "Zed <zed@remote.example>",
      subject: "Re: Tea",
      messageId: "<4@x>",
      text: "four",
      date: "Mon, 05 Jan 2026 07:30:00 +0000",
    });
    expect(thread(id)).not.toEqual(before);
    const size = bytes();
    change([last.seq], { folder: "trash" });
    expunge([last.seq]);
    expect(thread(id)).toEqual(before);
    expect(bytes()).toBeLessThan(size);
    const answer = await receive({ headers: ["In-Reply-To: <4@x>"], from: "other@remote.example", text: "answer" });
    expect(answer.threadId).toBe(id);

    change([...seqs, answer.seq], { folder: "trash" });
    expunge([...seqs, answer.seq]);
    expect(bytes()).toBe(0);
    expect(codeOf(() => thread(id))).toBe("not_found");
    expect(world.store.db.$client.query("SELECT count(*) AS n FROM discarded_messages").get()).toEqual({ n: 0 });
  });

  test("emptying the trash deletes single messages, too", async () => {
    const { conversation, change, core, alice, box, folders } = office();
    const { id, seqs } = await conversation();
    change([seqs[0]], { folder: "trash" });
    expect(await emptyFolder(core, alice, box, "trash")).toBe(0);
    expect(folders(id)).toEqual(["sent", "inbox"]);
  });

  test("retention.trashDays deletes single messages after that time in trash, and not those that came back", async () => {
    const { core, conversation, change, store, options, folders } = office();
    store.transact((tx) => options.set(tx, "retention.trashDays", "2"));
    const job = deleteDiscarded(core);
    const { id, seqs } = await conversation();
    change([seqs[0], seqs[2]], { folder: "trash" });
    await job.runDue(START);
    change([seqs[2]], { folder: "archive" });
    await job.runDue(START + 2 * DAY_MS - 1);
    expect(folders(id)).toEqual(["trash", "sent", "archive"]);
    await job.runDue(START + 2 * DAY_MS);
    expect(folders(id)).toEqual(["sent", "archive"]);
    await job.runDue(START + 9 * DAY_MS);
    expect(folders(id)).toEqual(["sent", "archive"]);
  });

  test("the time of a message that went to trash alone goes on when its conversation goes there, and comes back", async () => {
    const { core, conversation, change, store, options, folders, alice, receive } = office();
    store.transact((tx) => options.set(tx, "retention.trashDays", "2"));
    const job = deleteDiscarded(core);
    const { id, seqs } = await conversation();
    change([seqs[0]], { folder: "trash" });
    await job.runDue(START);
    change([seqs[1]], { folder: "spam" });
    await job.runDue(START + DAY_MS / 2);
    updateThread(core, alice, id, { folder: "trash" });
    await job.runDue(START + DAY_MS);
    expect(folders(id)).toEqual(["trash", "trash", "trash"]);
    await job.runDue(START + 2 * DAY_MS);
    expect(folders(id)).toEqual(["trash", "trash"]);
    change([seqs[2]], { folder: "archive" });
    change([seqs[2]], { folder: "trash" });
    await job.runDue(START + 2 * DAY_MS);
    await receive({ headers: ["In-Reply-To: <1@x>"], from: "new@remote.example", text: "four" });
    expect(folders(id)).toEqual(["trash", "trash", "inbox"]);
    await job.runDue(START + 4 * DAY_MS);
    expect(folders(id)).toEqual(["inbox"]);
  });

  test("what was in trash with its conversation stays for that time after a mail app took the others out", async () => {
    const { core, conversation, change, store, options, folders, alice } = office();
    store.transact((tx) => options.set(tx, "retention.trashDays", "2"));
    const job = deleteDiscarded(core);
    const { id, seqs } = await conversation();
    change([seqs[0]], { folder: "trash" });
    await job.runDue(START);
    updateThread(core, alice, id, { folder: "trash" });
    updateThread(core, alice, id, { folder: "inbox" });
    updateThread(core, alice, id, { folder: "trash" });
    change([seqs[2]], { folder: "archive" });
    await job.runDue(START + DAY_MS);
    await job.runDue(START + 3 * DAY_MS - 1);
    expect(folders(id)).toEqual(["trash", "trash", "archive"]);
    await job.runDue(START + 3 * DAY_MS);
    expect(folders(id)).toEqual(["archive"]);
  });
});
