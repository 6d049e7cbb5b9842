/** A mailbox as a session sees it, over a folder that changes beside it. */
import { expect, test } from "bun:test";
import type { Parser } from "../../src/imap/grammar.ts";
import type { Named } from "../../src/imap/mailbox-names.ts";
import {
  applyViewChanges,
  type Changes,
  findViewChanges,
  listRowsInSequenceSet,
  openImapView,
  type View,
} from "../../src/imap/view.ts";
import type { ImapFolders } from "../../src/mailbox/imap/imap-folders.ts";
import type { ImapFolder, Numbered } from "../../src/mailbox/imap/uids.ts";

/** A folder in memory. `reads`: how often all of it was read. */
function folderOf(count: number) {
  let rows: Numbered[] = Array.from({ length: count }, (_, i) => ({ uid: i + 1, seq: 100 + i, modseq: 1 }));
  const gone: { uid: number; modseq: number }[] = [];
  let reads = 0;
  const folder = {
    objectId: "mbx_inbox",
    mailboxId: "mbx",
    folder: "inbox",
    modseq: 1,
    uidNext: count + 1,
    present: () => ({ ...folder }),
    numbered: () => {
      reads++;
      return rows;
    },
    changedSince: (modseq: number) => rows.filter((row) => row.modseq > modseq),
    vanishedSince: (modseq: number) => gone.filter((one) => one.modseq > modseq).map(({ uid }) => uid),
  } as ImapFolder;
  const folders = {} as ImapFolders;
  return {
    folders,
    open: () => openImapView(folders, {} as Named, folder, false),
    reads: () => reads,
    change(uid: number) {
      folder.modseq++;
      rows = rows.map((row) => (row.uid === uid ? { ...row, modseq: folder.modseq } : row));
    },
    arrive() {
      folder.modseq++;
      const uid = folder.uidNext++;
      rows = [...rows, { uid, seq: 100 + uid, modseq: folder.modseq }];
    },
    remove(uid: number) {
      folder.modseq++;
      rows = rows.filter((row) => row.uid !== uid);
      gone.push({ uid, modseq: folder.modseq });
    },
  };
}

function refresh(folders: ImapFolders, view: View): Changes | undefined {
  const changes = findViewChanges(view);
  if (changes) applyViewChanges(folders, view, changes);
  return changes;
}

test("rows of a set are each there once, ascending, and `*` is the last one", () => {
  const { open, remove, folders } = folderOf(6);
  const view = open();
  remove(2);
  refresh(folders, view);
  const at = (set: ReturnType<Parser["sequenceSet"]>, byUid: boolean): number[] =>
    listRowsInSequenceSet(view, set, byUid).map(({ uid }) => uid);
  const last = Number.POSITIVE_INFINITY;
  expect(at([[1, 3]], true)).toEqual([1, 3]);
  expect(at([[1, 3]], false)).toEqual([1, 3, 4]);
  for (const byUid of [true, false]) {
    expect(at([[last, last]], byUid)).toEqual([6]);
    expect(at([[400, last]], byUid)).toEqual([6]);
    expect(
      at(
        [
          [5, 5],
          [400, last],
        ],
        byUid,
      ),
    ).toEqual(byUid ? [5, 6] : [6]);
    expect(at([[400, 500]], byUid)).toEqual([]);
    expect(at([[1, last]], byUid)).toEqual([1, 3, 4, 5, 6]);
  }
});

test("after a refresh, a view knows what arrived, what is gone, and the latest change of each", () => {
  const it = folderOf(3);
  const view = it.open();
  expect(refresh(it.folders, view)).toBeUndefined();
  it.change(2);
  it.remove(1);
  it.arrive();
  const changes = refresh(it.folders, view);
  expect([changes?.vanished, changes?.changed.map(({ uid }) => uid), changes?.arrived.map(({ uid }) => uid)]).toEqual([
    [1],
    [2],
    [4],
  ]);
  expect(view.rows.map(({ uid, modseq }) => [uid, modseq])).toEqual([
    [2, 2],
    [3, 1],
    [4, 4],
  ]);
  expect(view.modseq).toBe(4);
});

test("sessions that know the same share its rows, and see what came while the folder was opened", () => {
  const it = folderOf(1_000);
  const views = [it.open(), it.open(), it.open()];
  expect(it.reads()).toBe(1);
  it.arrive();
  for (const view of views) refresh(it.folders, view);
  const later = it.open();
  expect(new Set([...views, later].map(({ rows }) => rows)).size).toBe(1);
  expect(later.rows).toHaveLength(1_001);
  expect(it.reads()).toBe(1);
});
