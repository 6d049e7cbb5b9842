/**
 * A mailbox as a session sees it: its messages by sequence number, which only this file knows, as of the last time that the
 * client was told (RFC 9051 §7.5.1).
 *
 * Invariant: a sequence number changes only with an EXPUNGE or VANISHED that the client was sent.
 */
import type { ImapFolders } from "../mailbox/imap/imap-folders.ts";
import type { FlagState, ImapFolder, ImapState, Numbered } from "../mailbox/imap/uids.ts";
import { SAVED, type SequenceSet } from "./grammar.ts";
import type { Named } from "./mailbox-names.ts";

export interface View {
  readonly named: Named;
  readonly readOnly: boolean;
  readonly folder: ImapFolder;
  /** Messages in the order of their UIDs; the sequence number is the index + 1. */
  rows: readonly Numbered[];
  /** Modification sequence up to which the client knows all changes. */
  modseq: number;
  /** The flags that the client was last told, by UID. */
  readonly sentFlags: Map<number, string>;
  /** UIDs of the messages that the last search saved. */
  saved: ReadonlySet<number>;
}

/** @param opened from `Uids.opened`; what came since is in the view */
export function openImapView(folders: ImapFolders, named: Named, opened: ImapFolder, readOnly: boolean): View {
  const folder = opened.present() ?? opened;
  const rows = shared(folders, folder, () => folder.numbered());
  const { modseq } = folder;
  return { named, readOnly, folder, rows, modseq, sentFlags: new Map(), saved: new Set() };
}

/** Rows of folders that a session has, by folder: sessions that know the same have the same array. */
const known = new WeakMap<ImapFolders, Map<string, { modseq: number; rows: WeakRef<readonly Numbered[]> }>>();

/** The rows of a folder as it is now. `read`: if no session has them. */
function shared(
  folders: ImapFolders,
  { objectId, modseq }: ImapFolder,
  read: () => readonly Numbered[],
): readonly Numbered[] {
  const held = known.get(folders) ?? new Map();
  known.set(folders, held);
  const there = held.get(objectId);
  const had = there?.modseq === modseq ? there.rows.deref() : undefined;
  if (had) return had;
  const rows = read();
  held.set(objectId, { modseq, rows: new WeakRef(rows) });
  return rows;
}

/** The index of the first row with that UID or a higher one. */
function findRowIndex(rows: readonly Numbered[], uid: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as Numbered).uid < uid) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The sequence number of a UID; undefined if the client does not know it. */
export function findSequenceNumber({ rows }: Pick<View, "rows">, uid: number): number | undefined {
  const index = findRowIndex(rows, uid);
  return rows[index]?.uid === uid ? index + 1 : undefined;
}

/** The messages of a set, each once, ascending. `*` is the last one. */
export function listRowsInSequenceSet({ rows, saved }: View, set: SequenceSet, byUid: boolean): Numbered[] {
  if (set === SAVED) return rows.filter(({ uid }) => saved.has(uid));
  const last = byUid ? (rows.at(-1)?.uid ?? 0) : rows.length;
  let next = 0;
  return set.flatMap(([from, to]) => {
    // `9:*` of a mailbox that has fewer is its last one.
    const first = Math.min(from, to === Number.POSITIVE_INFINITY ? last : from);
    const [start, end] = byUid ? [findRowIndex(rows, first), findRowIndex(rows, to + 1)] : [Math.max(0, first - 1), to];
    const found = rows.slice(Math.max(start, next), end);
    next = Math.max(next, Math.min(end, rows.length));
    return found;
  });
}

/** The states of rows as they are now: not of what is gone, or has been written anew under another UID. */
export const listRowStates = ({ folder }: Pick<View, "folder">, rows: readonly Numbered[]): ImapState[] =>
  stillNumbered(rows, folder.states);

/** The flags of rows as they are now, which cost less. */
export const listRowFlags = ({ folder }: Pick<View, "folder">, rows: readonly Numbered[]): FlagState[] =>
  stillNumbered(rows, folder.flagStates);

function stillNumbered<T extends Numbered>(rows: readonly Numbered[], read: (seqs: readonly number[]) => T[]): T[] {
  const known = new Map(rows.map(({ seq, uid }) => [seq, uid]));
  return read([...known.keys()]).filter(({ seq, uid }) => known.get(seq) === uid);
}

/** The mailbox as it is now; undefined if it has not changed, or is gone. */
function findChangedFolder({ folder, modseq }: View): ImapFolder | undefined {
  const present = folder.present();
  return present?.modseq === modseq ? undefined : present;
}

/** The rows of a view as they are now; undefined in the place of what is gone. */
export function listPresentRows(view: View): readonly (Numbered | undefined)[] {
  if (!findChangedFolder(view)) return view.rows;
  const now = new Map(view.folder.numbered().map((row) => [row.uid, row]));
  return view.rows.map(({ uid }) => now.get(uid));
}

/** True if a sequence number of the set is of no message, as `*` in an empty mailbox: such a command is BAD. */
export const isSetBeyondView = ({ rows }: View, set: SequenceSet): boolean =>
  set.length > 0 &&
  (rows.length === 0 ||
    set.some((range) => range.some((number) => number !== Number.POSITIVE_INFINITY && number > rows.length)));

/** The UIDs that no message has: more than vanished since, which RFC 7162 §3.2.6 allows. */
export function listUidGaps({ rows, folder }: View): number[] {
  const missing: number[] = [];
  let uid = 1;
  for (const row of [...rows, { uid: folder.uidNext }]) {
    for (; uid < row.uid; uid++) missing.push(uid);
    uid = row.uid + 1;
  }
  return missing;
}

/** Changes in a mailbox since the client was last told. */
export interface Changes {
  /** The mailbox as it is now. */
  present: ImapFolder;
  /** UIDs of messages of the view that are gone. */
  vanished: number[];
  /** Messages that came. */
  arrived: Numbered[];
  /** Known messages that changed. */
  changed: Numbered[];
}

/** UIDs of messages of the view that are gone. */
function goneFrom(view: View, present: ImapFolder): number[] {
  const vanished = present.vanishedSince(view.modseq);
  if (vanished) return vanished.filter((uid) => findSequenceNumber(view, uid) !== undefined);
  const there = new Set(view.folder.numbered().map(({ uid }) => uid));
  return view.rows.map(({ uid }) => uid).filter((uid) => !there.has(uid));
}

/** Undefined if nothing changed, or the mailbox is gone. */
export function findViewChanges(view: View): Changes | undefined {
  const present = findChangedFolder(view);
  if (!present) return undefined;
  const since = view.folder.changedSince(view.modseq);
  const last = view.rows.at(-1)?.uid ?? 0;
  return {
    present,
    vanished: goneFrom(view, present),
    arrived: since.filter(({ uid }) => uid > last),
    changed: since.filter(({ uid }) => uid <= last),
  };
}

/** Brings a view up to date with the changes just found. The caller tells the client. */
export function applyViewChanges(
  folders: ImapFolders,
  view: View,
  { present, vanished, arrived, changed }: Changes,
): void {
  const gone = new Set(vanished);
  const byUid = new Map(changed.map((row) => [row.uid, row]));
  view.rows = shared(folders, present, () => [
    ...view.rows.filter(({ uid }) => !gone.has(uid)).map((row) => byUid.get(row.uid) ?? row),
    ...arrived,
  ]);
  view.modseq = present.modseq;
  for (const uid of vanished) view.sentFlags.delete(uid);
}

/** A state that the client has not been told. */
export function noteFlagsIfNew(view: View, { uid }: Pick<FlagState, "uid">, flags: string): boolean {
  if (view.sentFlags.get(uid) === flags) return false;
  view.sentFlags.set(uid, flags);
  return true;
}
