/**
 * Which conversations of a list are unread, a bit each: what the unread ones among a hundred thousand found are counted
 * by (rules: Thread list fields). To read them all from the index takes about as long as to find those, so the marks of
 * the lists last asked for are kept, and follow what triggers write down of every change (changes.ts), whoever makes
 * it: the answer is always that of the rows.
 */
import { type SeqSet, setOf, withRoomFor } from "../search/sets.ts";
import type { Db } from "../store/store.ts";
import { changesSince, latestChange } from "./changes.ts";
import { type Selection, selectAmong, unreadSeqs } from "./walk.ts";

/** Lists: some ten kB each, in a mailbox of a hundred thousand conversations. */
const KEPT_LISTS = 16;
/** From so many on it is less to read all of them. */
const MANY_CHANGES = 1_000;

interface Marks {
  unread: SeqSet;
  /** The last change that they know of. */
  through: number;
}

function mark({ unread }: Marks, seq: number, isUnread: boolean): void {
  const bit = 1 << (seq & 31);
  unread[seq >>> 5] = isUnread ? (unread[seq >>> 5] ?? 0) | bit : (unread[seq >>> 5] ?? 0) & ~bit;
}

function read(db: Db, ids: readonly string[], selection: Selection): Marks {
  const through = latestChange(db);
  return { unread: setOf(unreadSeqs(db, ids, selection)), through };
}

/** Has them know of what changed since; false when that is too much, or forgotten. */
function follow(db: Db, ids: readonly string[], selection: Selection, marks: Marks): boolean {
  const changes = changesSince(db, marks.through, MANY_CHANGES);
  if (changes === undefined || changes.length === MANY_CHANGES) return false;
  const mailboxIds = new Set(ids);
  const seqs = changes.filter(({ mailboxId }) => mailboxIds.has(mailboxId)).map(({ threadSeq }) => threadSeq);
  marks.unread = withRoomFor(marks.unread, Math.max(0, ...seqs));
  for (const seq of seqs) mark(marks, seq, false);
  for (const { seq } of selectAmong(db, seqs, mailboxIds, { ...selection, unread: true })) mark(marks, seq, true);
  marks.through = changes.at(-1)?.seq ?? marks.through;
  return true;
}

/** `unreadIn`: of the selected conversations of mailboxes those that are unread; good until something changes. */
export function createUnreadMarks(db: Db): {
  unreadIn(mailboxIds: readonly string[], selection: Selection): SeqSet;
} {
  const kept = new Map<string, Marks>();
  return {
    unreadIn(mailboxIds, selection) {
      const list = JSON.stringify([mailboxIds, selection.folder, selection.hasAttachments]);
      const known = kept.get(list);
      const marks = known && follow(db, mailboxIds, selection, known) ? known : read(db, mailboxIds, selection);
      kept.delete(list);
      kept.set(list, marks);
      const [longestUnasked] = kept.keys();
      if (kept.size > KEPT_LISTS && longestUnasked !== undefined) kept.delete(longestUnasked);
      return marks.unread;
    },
  };
}
