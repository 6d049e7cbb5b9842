/**
 * Which conversations of a list are unread, a bit each: what the unread ones among a hundred thousand found are counted
 * by (spec: ThreadList.unread). To read them all from the index takes about as long as to find those, so the marks of the
 * lists last asked for are kept, and follow what triggers write down of every change (changes.ts), whoever makes it: the
 * answer is always that of the rows.
 */
import type { Db } from "../store/store.ts";
import { changesSince, latestChange } from "./changes.ts";
import { type Selection, selectAmong, unreadSeqs } from "./walk.ts";

/** Lists: some ten kB each, in a mailbox of a hundred thousand conversations. */
const KEPT_LISTS = 16;
/** From so many on it is less to read all of them. */
const MANY_CHANGES = 1_000;

interface Marks {
  bits: Uint8Array;
  /** The last change that they know of. */
  through: number;
}

function mark({ bits }: Marks, seq: number, isUnread: boolean): void {
  const at = seq >>> 3;
  if (isUnread) bits[at] = (bits[at] ?? 0) | (1 << (seq & 7));
  else if (at < bits.length) bits[at] = (bits[at] ?? 0) & ~(1 << (seq & 7));
}

/** With room for numbers up to `last`, and as many again as an eighth of them. */
const roomFor = (last: number): Uint8Array => new Uint8Array(((last * 9) >>> 6) + 64);

function read(db: Db, ids: readonly string[], selection: Selection): Marks {
  const through = latestChange(db);
  const seqs = unreadSeqs(db, ids, selection);
  let last = 0;
  for (const seq of seqs) if (seq > last) last = seq;
  const marks = { bits: roomFor(last), through };
  for (const seq of seqs) mark(marks, seq, true);
  return marks;
}

/** Has them know of what changed since; false when that is too much, or forgotten. */
function follow(db: Db, ids: readonly string[], selection: Selection, marks: Marks): boolean {
  const changes = changesSince(db, marks.through, MANY_CHANGES);
  if (changes === undefined || changes.length === MANY_CHANGES) return false;
  const mailboxIds = new Set(ids);
  const seqs = changes.filter(({ mailboxId }) => mailboxIds.has(mailboxId)).map(({ threadSeq }) => threadSeq);
  const last = Math.max(0, ...seqs);
  if (last >= marks.bits.length * 8) {
    const longer = roomFor(last);
    longer.set(marks.bits);
    marks.bits = longer;
  }
  for (const seq of seqs) mark(marks, seq, false);
  for (const { seq } of selectAmong(db, seqs, mailboxIds, { ...selection, unread: true })) mark(marks, seq, true);
  marks.through = changes.at(-1)?.seq ?? marks.through;
  return true;
}

/** `isUnreadIn`: of the selected conversations of mailboxes, by threads.seq, which are unread; good until something changes. */
export function createUnreadMarks(db: Db): {
  isUnreadIn(mailboxIds: readonly string[], selection: Selection): (threadSeq: number) => boolean;
} {
  const kept = new Map<string, Marks>();
  return {
    isUnreadIn(mailboxIds, selection) {
      const list = JSON.stringify([mailboxIds, selection.folder, selection.hasAttachments]);
      const known = kept.get(list);
      const marks = known && follow(db, mailboxIds, selection, known) ? known : read(db, mailboxIds, selection);
      kept.delete(list);
      kept.set(list, marks);
      const [longestUnasked] = kept.keys();
      if (kept.size > KEPT_LISTS && longestUnasked !== undefined) kept.delete(longestUnasked);
      const { bits } = marks;
      return (seq) => ((bits[seq >>> 3] ?? 0) & (1 << (seq & 7))) !== 0;
    },
  };
}
