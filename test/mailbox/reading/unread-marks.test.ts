/** Kept marks agree with the rows after any change. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { findUnreadThreadSet } from "../../../src/mailbox/reading/listing.ts";
import { intersectFolderTerms, listUnreadThreads, type Selection } from "../../../src/mailbox/reading/walk.ts";
import { isInSeqSet } from "../../../src/search/sets.ts";
import { mailboxes, threads, workspaces } from "../../../src/store/schema.ts";
import type { Store } from "../../../src/store/store.ts";
import { storeInMemory } from "../../harness/data/database.ts";

const IDS = ["mbx_1", "mbx_2", "mbx_3"];
const SELECTIONS: Selection[] = (["all", "inbox", "archive", "trash", "starred", "snoozed"] as const).flatMap(
  (folder) => [
    { ...intersectFolderTerms([{ folder, negated: false }]), unread: false, hasAttachments: undefined },
    { ...intersectFolderTerms([{ folder, negated: false }]), unread: false, hasAttachments: true },
  ],
);

function storeWithMailboxes(): Store {
  const store = storeInMemory();
  store.db.insert(workspaces).values({ id: "wsp_1", name: "One", createdAt: 0 }).run();
  for (const id of IDS) {
    store.db
      .insert(mailboxes)
      .values({ id, workspaceId: "wsp_1", address: `${id}@a.example`, name: id, createdAt: 0 })
      .run();
  }
  return store;
}

const addThread = ({ db }: Store, seq: number, row: Partial<typeof threads.$inferInsert> = {}): void => {
  db.insert(threads)
    .values({
      seq,
      id: `thr_${seq}`,
      mailboxId: "mbx_1",
      folder: "inbox",
      unread: true,
      starred: false,
      lastMessageAt: seq,
      hasAttachments: false,
      messageCount: 1,
      nextOrdinal: 1,
      receivedOn: "",
      subject: "",
      subjectKey: "",
      snippet: "",
      counterpart: { email: "a@b.example" },
      participants: [],
      ...row,
    })
    .run();
};

/** Read from the rows, and from the marks. */
function bothWays(store: Store, ids: readonly string[], selection: Selection) {
  const byRows = listUnreadThreads(store.db, ids, selection).sort((a, b) => a - b);
  const unread = findUnreadThreadSet(store.db, ids, selection);
  const last = Math.max(
    0,
    ...store.db
      .select({ seq: threads.seq })
      .from(threads)
      .all()
      .map(({ seq }) => seq),
  );
  return {
    byRows,
    byMarks: Array.from({ length: last + 100 }, (_, seq) => seq).filter((seq) => isInSeqSet(unread, seq)),
  };
}

function expectAlike(...parts: Parameters<typeof bothWays>): void {
  const { byRows, byMarks } = bothWays(...parts);
  expect(byMarks).toEqual(byRows);
}

const change = fc.oneof(
  fc.constantFrom("unread = 1", "unread = 0", "starred = 1 - starred", "snoozed_until = 5", "snoozed_until = NULL"),
  fc.constantFrom("folder = 'archive'", "folder = 'inbox'", "folder = 'trash'"),
  fc.constant("has_attachments = 1, message_count = message_count + 1"),
  fc.constantFrom("deleted", "added", "a mailbox"),
);

test("unread marks agree with the rows after any changes", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(change, fc.integer({ min: 1, max: 12 })), { maxLength: 25 }), (changes) => {
      const store = storeWithMailboxes();
      for (let seq = 1; seq <= 12; seq++) addThread(store, seq, { mailboxId: IDS[seq % 3] ?? "" });
      let next = 13;
      let second = "mbx_2";
      for (const [what, seq] of changes) {
        if (what === "deleted") store.db.$client.run(`DELETE FROM threads WHERE seq = ${seq}`);
        else if (what === "a mailbox") {
          // Rarely, because little would be left to change.
          if (seq !== 1) continue;
          store.db.$client.run("DELETE FROM mailboxes WHERE id = 'mbx_2'");
          // No other conversation is left to add to.
          second = "mbx_1";
        } else if (what === "added") {
          next += seq * 50;
          addThread(store, next, { mailboxId: seq % 2 === 0 ? second : "mbx_1" });
        } else store.db.$client.run(`UPDATE threads SET ${what} WHERE seq = ${seq}`);
        for (const selection of SELECTIONS.slice(0, seq)) expectAlike(store, IDS.slice(0, 2), selection);
      }
      for (const selection of SELECTIONS) expectAlike(store, IDS.slice(0, 2), selection);
      store.close();
    }),
    { numRuns: 30 },
  );
}, 120_000);

test("unread marks agree with the rows after more changes than are applied, and more than the feed keeps", () => {
  const store = storeWithMailboxes();
  const [all] = SELECTIONS as [Selection];
  addThread(store, 1);
  expectAlike(store, IDS, all);
  let seq = 1;
  for (const many of [999, 1_000]) {
    store.transact(() => {
      for (let n = 0; n < many; n++) addThread(store, ++seq, { unread: n % 3 === 0 });
    });
    store.db.$client.run("UPDATE threads SET unread = 1 - unread WHERE seq < 10");
    expectAlike(store, IDS, all);
  }
  // As if so much had changed by then that the first changes are gone.
  store.db.$client.run("UPDATE threads SET unread = 1 - unread WHERE seq < 20");
  store.db.$client.run("DELETE FROM thread_changes");
  store.db.$client.run("UPDATE sqlite_sequence SET seq = seq + 30000 WHERE name = 'thread_changes'");
  addThread(store, ++seq);
  expectAlike(store, IDS, all);
}, 120_000);

test("unread marks agree with the rows for more lists than are kept", () => {
  const store = storeWithMailboxes();
  addThread(store, 1);
  const some = [[1], [2], [3], [1, 2], [1, 3], [2, 3]].map((numbers) => numbers.map((number) => `mbx_${number}`));
  const lists = some.flatMap((ids) => SELECTIONS.map((selection) => ({ ids, selection })));
  expect(lists.length).toBeGreaterThan(64);
  for (const unread of [true, false]) {
    store.db.update(threads).set({ unread }).run();
    for (const { ids, selection } of [...lists, ...lists]) expectAlike(store, ids, selection);
  }
});
