/** The mailboxes of labels, below IMAP. */
import { expect, test } from "bun:test";
import { changeMessages } from "../../../src/mailbox/changing/message-changes.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { findLabelledThreads } from "../../../src/mailbox/imap/folder-search.ts";
import { createImapFolders } from "../../../src/mailbox/imap/imap-folders.ts";
import { deleteLabelFolderPortion } from "../../../src/mailbox/imap/label-folders.ts";
import { replaceLabel, writeLabels } from "../../../src/mailbox/state/labels.ts";
import { toThreadSeq } from "../../../src/search/document-number.ts";
import type { Db } from "../../../src/store/store.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

/** Conversations of one message each, with those labels. */
async function labelled(...labels: string[][]) {
  const world = createAlice();
  const seqs: number[] = [];
  for (const [i, given] of labels.entries()) {
    const { seq, threadId } = await world.receive({ from: `f${i}@remote.example` });
    updateThread(world.core, world.alice, threadId, { labels: given });
    seqs.push(seq);
  }
  return { ...world, seqs };
}

test("a label that is renamed to one in use while its mail is numbered has the mail of both", async () => {
  const { core, alice, store, box, seqs } = await labelled(["A"], ["B"]);
  const { db, enqueue } = store;
  const begun = db.$client.prepare("SELECT 1 FROM imap_labels WHERE label_key = 'a'");
  let isRenamed = false;
  const enqueueLate: typeof enqueue = async (work) => {
    if (begun.get() && !isRenamed) {
      isRenamed = true;
      await replaceLabel(core, alice, { label: "A", replacement: "B" });
    }
    return enqueue(work);
  };
  await createImapFolders({ ...core, store: { ...store, enqueue: enqueueLate } }).opened(box, undefined, "A");
  const folders = createImapFolders(core);
  const folder = await folders.opened(box, undefined, "B");
  expect(folder.numbered().map(({ seq }) => seq)).toEqual(seqs);
});

/** Adds copies of the row of a table with that number, each with what `change` gives for 1, 2, … */
function copyRow({ $client }: Db, table: string, seq: number, count: number, change: (n: number) => object): void {
  const row = $client.query<Record<string, string>, [number]>(`SELECT * FROM ${table} WHERE seq = ?`).get(seq);
  const names = Object.keys(row ?? {});
  const insert = $client.prepare(
    `INSERT INTO ${table} (${names.map((name) => `"${name}"`).join()}) VALUES (${names.map(() => "?").join()})`,
  );
  $client.transaction(() => {
    for (let n = 1; n <= count; n++) insert.run(...names.map((name) => ({ ...row, ...change(n) })[name] as string));
  })();
}

/** So many messages vanish from each label. */
const vanish = ({ $client }: Db, count: number): void =>
  void $client.run(
    `INSERT INTO imap_label_vanished SELECT id, n, n FROM imap_labels,
       (WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) SELECT n FROM numbers)`,
    [count],
  );

/** How often others run meanwhile. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let isDone = false;
  const ended = work.finally(() => {
    isDone = true;
  });
  let turns = 0;
  for (; !isDone; turns++) await new Promise((resolve) => setImmediate(resolve));
  await ended;
  return turns;
}

test("a label is looked for in its mailbox alone, in portions of what others have of it", async () => {
  const { world, workspaceId, alice, store, box, core, seqs } = await labelled(["Work"], []);
  const other = world.box(workspaceId, "other@example.test", alice);
  const { seq, threadId } = await world.file(other, { from: "f@remote.example" });
  updateThread(core, alice, threadId, { labels: ["Work"] });
  copyRow(store.db, "threads", toThreadSeq(seq), 5_000, (n) => ({ seq: toThreadSeq(seq) + n, id: `copy-${n}` }));
  store.db.$client.run("INSERT INTO thread_labels SELECT seq, 'work', 'Work', 0 FROM threads WHERE id LIKE 'copy-%'");
  const found = findLabelledThreads(core, box, "Work");
  expect(await turnsDuring(found)).toBeGreaterThan(4);
  const threads = await found;
  expect([...seqs, seq].map((one) => threads.has(toThreadSeq(one)))).toEqual([true, false, false]);
  // The mailbox does not have it.
  store.db.$client.run("DELETE FROM thread_labels WHERE thread_seq = ?", [toThreadSeq(seqs[0] as number)]);
  expect(await turnsDuring(findLabelledThreads(core, box, "Work"))).toBeLessThan(4);
});

test("of conversations with many messages, all are in the label's mailbox, in portions", async () => {
  const { core, alice, store, box, seqs, receive } = await labelled(["Work"]);
  const [first] = seqs as [number];
  const copy = (n: number): object => ({ seq: first + n, id: `copy-${n}`, message_id: `<${n}@copy>`, filed_at: n });
  copyRow(store.db, "messages", first, 2_500, copy);
  const { seq, threadId } = await receive({ from: "last@remote.example" });
  updateThread(core, alice, threadId, { labels: ["Work"] });
  const folders = createImapFolders(core);
  const folder = await folders.opened(box, undefined, "Work");
  const copies = Array.from({ length: 2_500 }, (_, i) => first + i + 1);
  expect(folder.numbered().map((one) => one.seq)).toEqual([...copies, first, seq]);
});

test("a change of messages with many labels is looked at in portions", async () => {
  const names = Array.from({ length: 40 }, (_, i) => `Label ${i}`);
  const { core, store, box, seqs } = await labelled(names);
  const [first] = seqs as [number];
  copyRow(store.db, "messages", first, 299, (n) => ({ seq: first + n, id: `copy-${n}`, message_id: `<${n}@copy>` }));
  const folders = createImapFolders(core);
  for (const name of names) await folders.opened(box, undefined, name);
  const folder = await folders.opened(box, undefined, names[0]);
  const rows = folder.numbered();
  store.transact((tx) => writeLabels(tx, toThreadSeq(first), names.slice(0, -1)));
  expect(await turnsDuring(folder.updated())).toBeGreaterThan(5);
  expect(folder.present()?.modseq).toBeGreaterThan(folder.modseq);
  expect(folder.numbered().map(({ uid, seq }) => [uid, seq])).toEqual(rows.map(({ uid, seq }) => [uid, seq]));
});

test("what is not seen is counted, whether the label has less mail than the mailbox has unread, or more", async () => {
  const { core, store, box, alice, receive, seqs } = await labelled(["Work"], ["Work"], ["Work"]);
  const folders = createImapFolders(core);
  const counts = async () => {
    const folder = await folders.opened(box, undefined, "Work");
    const { messages } = folder.counts();
    return [folder.counts(), folder.firstUnseen(messages)];
  };
  const read = (...of: number[]) => store.transact((tx) => changeMessages(tx, alice, of, { read: true }, core.now()));
  expect(await counts()).toEqual([{ messages: 3, unseen: 3 }, 1]);
  read(...seqs.slice(0, 1));
  expect(await counts()).toEqual([{ messages: 3, unseen: 2 }, 2]);
  // Few others, then many.
  for (const [from, to] of [
    [0, 4],
    [4, 60],
  ] as const) {
    for (let i = from; i < to; i++) await receive({ from: `other${i}@remote.example` });
    expect(await counts()).toEqual([{ messages: 3, unseen: 2 }, 2]);
  }
  read(...seqs);
  expect(await counts()).toEqual([{ messages: 3, unseen: 0 }, undefined]);
});

test("what vanished is forgotten in portions, of labels that are there and that are gone", async () => {
  const { core, store, box, runtime } = await labelled(["Kept", "Gone"]);
  const { db, enqueue } = store;
  const folders = createImapFolders(core);
  for (const label of ["Kept", "Gone"]) await folders.opened(box, undefined, label);
  vanish(db, 23_000);
  db.$client.run("UPDATE imap_labels SET modseq = 23000, label_key = iif(label_key = 'gone', NULL, label_key)");
  const rows = db.$client.prepare<{ count: number; least: number }, []>(
    "SELECT count(*) AS count, min(modseq) AS least FROM imap_label_vanished",
  );
  const most = { atOnce: 0 };
  const enqueueCounted: typeof enqueue = async (work) => {
    const before = rows.get()?.count ?? 0;
    const done = await enqueue(work);
    most.atOnce = Math.max(most.atOnce, before - (rows.get()?.count ?? 0));
    return done;
  };
  const [, forgets] = createImapFolders({ ...core, store: { ...store, enqueue: enqueueCounted } }).jobs;
  await forgets?.runDue(runtime.now());
  expect([rows.get(), most.atOnce]).toEqual([{ count: 20_000, least: 3_001 }, 1_000]);
  const folder = await folders.opened(box, undefined, "Kept");
  expect([folder.vanishedSince(2_999), folder.vanishedSince(3_000)?.length]).toEqual([undefined, 20_000]);
});

test("what is kept for a mailbox that is removed goes in portions, what vanished, too", async () => {
  const { core, store, box } = await labelled(["One", "Two"], ["One"]);
  const folders = createImapFolders(core);
  for (const label of ["One", "Two"]) await folders.opened(box, undefined, label);
  vanish(store.db, 450);
  const counts: number[] = [];
  for (let count = 1; count > 0; counts.push(count))
    count = store.transact((tx) => deleteLabelFolderPortion(tx, box, 200));
  expect(counts).toEqual([3, 200, 200, 200, 200, 100, 0]);
  expect(store.db.$client.query("SELECT 1 FROM imap_label_vanished").all()).toEqual([]);
});
