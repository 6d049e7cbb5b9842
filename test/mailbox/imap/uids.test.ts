/** UIDs, modification sequences and what vanished (RFC 9051 §2.3.1, RFC 7162), whatever changes mail. */
import { describe, expect, test } from "bun:test";
import { asc, eq } from "drizzle-orm";
import fc from "fast-check";
import { changeMessages, expungeMessages } from "../../../src/mailbox/changing/message-changes.ts";
import { getThread, updateThread } from "../../../src/mailbox/changing/threads.ts";
import { createImapFolderRows, createImapFolders } from "../../../src/mailbox/imap/imap-folders.ts";
import { mailFolder, renewUidValidity } from "../../../src/mailbox/imap/uids.ts";
import {
  FOLDERS,
  type Folder,
  imapMessages,
  imapVanished,
  mailboxes,
  messages,
  threads,
} from "../../../src/store/schema.ts";
import { runs } from "../../harness/runs.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

function office() {
  const alice = createAlice();
  const { store, core, box } = alice;
  const folders = createImapFolders(alice.core);
  const state = (folder: Folder) => {
    const found = mailFolder(store.db, box, folder);
    if (!found) throw new Error("the mailbox is not opened");
    return found;
  };
  return {
    ...alice,
    folders,
    state,
    open: (folder: Folder = "inbox") => folders.opened(box, folder),
    numbers: (folder: Folder) =>
      state(folder)
        .numbered()
        .map(({ uid, seq }) => [uid, seq]),
    change: (seqs: number[], change: Parameters<typeof changeMessages>[3]) =>
      store.transact((tx) => changeMessages(tx, alice.alice, seqs, change, core.now())),
    expunge: (seqs: number[]) => store.transact((tx) => expungeMessages(tx, alice.alice, seqs, core.now())),
  };
}

describe("mail that was there before", () => {
  test("nothing is numbered until the mailbox is opened", async () => {
    const { receive, core, alice, store } = office();
    const { threadId } = await receive({});
    updateThread(core, alice, threadId, { folder: "archive", labels: ["A"], unread: false });
    expect(store.db.select().from(imapMessages).all()).toEqual([]);
  });

  test("it gets UIDs in order of arrival, and mail that arrives meanwhile follows", async () => {
    const { receive, runtime, open, numbers, state, store, box } = office();
    const seqs: number[] = [];
    const first = await receive({ messageId: "<1@x>" });
    for (const [i, date] of ["05", "02", "03"].entries()) {
      runtime.setBy(1_000);
      // The last joins the first conversation, and is therefore next to it in the table.
      const { seq } = await receive({
        date: `Mon, ${date} Jan 2026 08:00:00 +0000`,
        from: `f${i}@remote.example`,
        ...(i === 2 && { headers: ["In-Reply-To: <1@x>"] }),
      });
      seqs.push(seq);
    }
    store.transact((tx) => createImapFolderRows(tx, box, runtime.now()));
    const { seq: late } = await receive({ from: "late@remote.example" });
    expect(numbers("inbox")).toEqual([[5, late]]);
    await open();
    expect(numbers("inbox")).toEqual([[1, first.seq], ...seqs.map((seq, i) => [i + 2, seq]), [5, late]]);
    const again = await open();
    expect([again.uidNext, state("inbox").fillNext, again.uidValidity]).toEqual([
      6,
      null,
      Math.floor(START / 1000) + 3,
    ]);
  });

  test("also mail of before 1970", async () => {
    const { receive, open, numbers } = office();
    const { seq } = await receive({ date: "Thu, 1 Jan 1970 00:00:00 +0100" });
    const { seq: older } = await receive({ date: "Thu, 13 Feb 1969 23:32:54 -0330" });
    await open();
    expect(numbers("inbox")).toEqual([
      [1, seq],
      [2, older],
    ]);
  });

  test("a fill that was cut short goes on, around what was moved meanwhile", async () => {
    const { receive, open, numbers, store, box, change, runtime, folders, state } = office();
    const seqs: number[] = [];
    for (let i = 0; i < 4; i++) {
      runtime.setBy(1_000);
      seqs.push((await receive({ from: `f${i}@remote.example` })).seq);
    }
    const [one, two, three, four] = seqs as [number, number, number, number];
    store.transact((tx) => {
      createImapFolderRows(tx, box, runtime.now());
      tx.insert(imapMessages)
        .values({ messageSeq: one, folderId: state("inbox").id, uid: 1, modseq: 1 })
        .run();
      tx.$client.query("UPDATE imap_folders SET fill_next = 2 WHERE folder = 'inbox'").run();
    });
    change([two], { folder: "archive" });
    change([three], { folder: "trash" });
    change([three], { folder: "inbox" });
    await folders.jobs[0]?.runDue(runtime.now());
    expect(numbers("inbox")).toEqual([
      [1, one],
      [2, four],
      [5, three],
    ]);
    await open("archive");
    expect(numbers("archive")).toEqual([[1, two]]);
  });
});

test("a large folder is numbered and read in portions that do not grow with it", async () => {
  const { receive, store, open } = office();
  await receive({});
  // Copies of one row.
  store.db.$client.exec(`
    DROP TRIGGER messages_leave_index;
    CREATE TEMP TABLE copy AS SELECT * FROM messages;
    INSERT INTO messages SELECT seq + n, id || n, thread_seq, mailbox_id, kind, folder, read, date, filed_at - n, message_id || n, in_reply_to,
      "from", "to", cc, bcc, reply_to, subject, snippet, received_on, sent_by, size, fingerprint, has_attachments, auth, delivered_at, list_signer, flagged, by_key, apart
      FROM copy, (WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 40000) SELECT n FROM numbers)`);
  const started = performance.now();
  const folder = await open();
  const rows = folder.numbered();
  expect(rows).toHaveLength(40_001);
  for (let next = 0; next < rows.length; next += 200) {
    expect(folder.states(rows.slice(next, next + 200).map(({ seq }) => seq))[0]?.uid).toBeDefined();
  }
  // One that reads the whole folder for each portion takes a minute.
  expect(performance.now() - started).toBeLessThan(15_000);
}, 60_000);

test("random changes agree with a model", async () => {
  const which = fc.nat(9);
  const step = fc.oneof(
    fc.record({ kind: fc.constant("receive" as const), joins: fc.boolean() }),
    fc.record({
      kind: fc.constant("move" as const),
      which,
      folder: fc.constantFrom<Folder>("inbox", "archive", "trash", "spam"),
    }),
    fc.record({
      kind: fc.constant("patch" as const),
      which,
      folder: fc.constantFrom("inbox" as const, "archive" as const, "trash" as const),
    }),
    fc.record({ kind: fc.constant("flag" as const), which, flagged: fc.boolean() }),
    fc.record({ kind: fc.constant("read" as const), which, unread: fc.boolean() }),
    fc.record({ kind: fc.constant("label" as const), which, label: fc.constantFrom("A", "B") }),
    fc.record({ kind: fc.constant("delete" as const), which }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const { receive, send, core, alice, store, folders, state, open, change, expunge } = office();
      await receive({ messageId: "<root@x>" });
      await send({ headers: ["In-Reply-To: <root@x>"] });
      await open();
      for (const folder of FOLDERS) await folders.opened(state("inbox").mailboxId, folder);
      /** A client's knowledge of each folder, and the modification sequence by which it has it. */
      const known = new Map(
        FOLDERS.map((folder) => [folder, { modseq: 0, uids: new Map<number, string>(), highest: 0 }]),
      );
      const describeOf = (seq: number): string => {
        const row = store.db
          .select()
          .from(messages)
          .innerJoin(threads, eq(threads.seq, messages.threadSeq))
          .where(eq(messages.seq, seq))
          .get();
        if (!row) throw new Error("a number of no message");
        const labels = getThread(core, alice, row.threads.id, { html: false }).thread.labels;
        return JSON.stringify([row.messages.id, row.messages.folder, row.messages.read, row.messages.flagged, labels]);
      };
      for (const [n, one] of [undefined, ...steps].entries()) {
        const all = store.db.select().from(messages).orderBy(asc(messages.seq)).all();
        const picked = one && "which" in one ? all[one.which % all.length] : undefined;
        const threadId = picked && store.db.select().from(threads).where(eq(threads.seq, picked.threadSeq)).get()?.id;
        if (one?.kind === "receive")
          await receive({
            from: `f${n}@remote.example`,
            text: `${n}`,
            headers: one.joins ? ["In-Reply-To: <root@x>"] : [],
          });
        else if (one && picked && threadId) {
          if (one.kind === "move") change([picked.seq], { folder: one.folder });
          if (one.kind === "flag") change([picked.seq], { flagged: one.flagged });
          if (one.kind === "patch") updateThread(core, alice, threadId, { folder: one.folder });
          if (one.kind === "read") updateThread(core, alice, threadId, { unread: one.unread });
          if (one.kind === "label") updateThread(core, alice, threadId, { labels: [one.label] });
          if (one.kind === "delete" && (picked.folder === "trash" || picked.folder === "spam")) expunge([picked.seq]);
        }
        for (const folder of FOLDERS) {
          const present = state(folder);
          const mine = known.get(folder) as { modseq: number; uids: Map<number, string>; highest: number };
          // A client learns everything from what changed and what vanished since it last asked.
          for (const uid of present.vanishedSince(mine.modseq) ?? []) mine.uids.delete(uid);
          for (const { uid, seq, modseq } of present.changedSince(mine.modseq)) {
            expect(modseq).toBeLessThanOrEqual(present.modseq);
            if (!mine.uids.has(uid)) expect(uid).toBeGreaterThan(mine.highest);
            mine.uids.set(uid, describeOf(seq));
          }
          mine.highest = Math.max(mine.highest, ...mine.uids.keys());
          expect(mine.highest).toBeLessThan(present.uidNext);
          mine.modseq = present.modseq;
          const there = store.db
            .select()
            .from(messages)
            .where(eq(messages.folder, folder))
            .all()
            .map(({ seq }) => seq);
          const numbered = present.numbered();
          expect(numbered.map(({ seq }) => seq).sort()).toEqual(there.sort());
          expect([...mine.uids].sort(([a], [b]) => a - b)).toEqual(
            numbered.map(({ uid, seq }) => [uid, describeOf(seq)]),
          );
        }
      }
    }),
    { numRuns: runs(20) },
  );
}, 60_000);

test("a draft that is written anew has another UID", async () => {
  const { receive, open, numbers, store, state } = office();
  const draft = await receive({}, { kind: "draft" });
  await open("drafts");
  const { modseq } = state("drafts");
  store.db.update(messages).set({ size: 9, filedAt: 9 }).where(eq(messages.seq, draft.seq)).run();
  expect(numbers("drafts")).toEqual([[2, draft.seq]]);
  expect(state("drafts").vanishedSince(modseq)).toEqual([1]);
});

test("flags of IMAP alone are kept, and \\Deleted not in another folder", async () => {
  const { receive, open, store, state, change } = office();
  const { seq } = await receive({});
  const folder = await open();
  const flags = () => store.db.select().from(imapMessages).get()?.flags;
  const set = (add: number, remove = 0) => store.transact((tx) => folder.setFlags(tx, [seq], { add, remove }));
  set(7);
  const { modseq } = state("inbox");
  set(1);
  expect(store.db.select().from(imapMessages).get()?.modseq).toBeLessThanOrEqual(modseq);
  set(0, 4);
  expect(flags()).toBe(3);
  expect(store.db.select().from(imapMessages).get()?.modseq).toBeGreaterThan(modseq);
  change([seq], { folder: "archive" });
  expect(flags()).toBe(2);
});

test("what vanished is kept for the latest, and known to be incomplete before", async () => {
  const { store, folders, open, state } = office();
  const { id } = await open();
  const rows = Array.from({ length: 20_003 }, (_, i) => ({ folderId: id, modseq: i + 2, uid: i + 1 }));
  store.transact((tx) => {
    for (let i = 0; i < rows.length; i += 1_000)
      tx.insert(imapVanished)
        .values(rows.slice(i, i + 1_000))
        .run();
  });
  expect(state("inbox").vanishedSince(0)).toHaveLength(20_003);
  await folders.jobs[1]?.runDue(START);
  expect(state("inbox").vanishedSince(3)).toBeUndefined();
  expect(state("inbox").vanishedSince(4)).toHaveLength(20_000);
});

test("a mailbox that is removed takes its numbers along", async () => {
  const { receive, open, store, box, expunge, change } = office();
  const { seq } = await receive({});
  await receive({ from: "other@remote.example" });
  await open();
  change([seq], { folder: "trash" });
  expunge([seq]);
  store.db.delete(threads).run();
  store.db.delete(mailboxes).where(eq(mailboxes.id, box)).run();
  for (const table of ["imap_folders", "imap_messages", "imap_vanished"]) {
    expect([table, store.db.$client.query(`SELECT count(*) AS n FROM ${table}`).get()]).toEqual([table, { n: 0 }]);
  }
});

test("UIDs begin anew after a restore", async () => {
  const { open, store, state } = office();
  const { uidValidity } = await open();
  store.transact((tx) => renewUidValidity(tx, START));
  expect(state("inbox").uidValidity).toBe(uidValidity + 1);
  store.transact((tx) => renewUidValidity(tx, START + 5_000));
  const renewed = state("inbox").uidValidity;
  expect(renewed).toBeGreaterThanOrEqual(uidValidity + 5);
  // No two are alike: a name may come to mean another mailbox.
  expect(state("archive").uidValidity).not.toBe(renewed);
});
