/**
 * A mailbox as a session sees it: its messages by sequence number, which only this file knows, as of the last time that the
 * client was told (RFC 9051 §7.5.1).
 *
 * Invariant: a sequence number changes only with an EXPUNGE or VANISHED that the client was sent.
 */
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { ImapFolder, ImapState, Numbered } from "../mailbox/uids.ts";
import type { SequenceSet } from "./grammar.ts";
import type { Named } from "./names.ts";

type Uids = Mailbox["uids"];

export interface View {
  readonly named: Named;
  readonly readOnly: boolean;
  readonly folder: ImapFolder;
  /** By UID; the sequence number is the index + 1. */
  rows: readonly Numbered[];
  /** Through which the client knows all changes. */
  modseq: number;
  /** The flags that the client was last told, by UID. */
  readonly told: Map<number, string>;
}

export const openView = (uids: Uids, named: Named, folder: ImapFolder, readOnly: boolean): View => ({
  named,
  readOnly,
  folder,
  rows: uids.numbered(folder.id),
  modseq: folder.modseq,
  told: new Map(),
});

/** The index of the first row with that UID or a higher one. */
function indexOf(rows: readonly Numbered[], uid: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as Numbered).uid < uid) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The sequence number of a UID; undefined if the client does not know it. */
export function sequenceOf({ rows }: Pick<View, "rows">, uid: number): number | undefined {
  const index = indexOf(rows, uid);
  return rows[index]?.uid === uid ? index + 1 : undefined;
}

/** The messages of a set, each once, ascending. `*` is the last one. */
export function rowsIn({ rows }: View, set: SequenceSet, byUid: boolean): Numbered[] {
  const last = byUid ? (rows.at(-1)?.uid ?? 0) : rows.length;
  const found = new Set<number>();
  for (const [a, b] of set) {
    const [one, other] = [a, b].map((number) => (number === Number.POSITIVE_INFINITY ? last : number)) as [
      number,
      number,
    ];
    const [from, to] = [Math.min(one, other), Math.max(one, other)];
    const [start, end] = byUid
      ? [indexOf(rows, from), indexOf(rows, to + 1)]
      : [Math.max(0, from - 1), Math.min(to, rows.length)];
    for (let i = start; i < end; i++) found.add(i);
  }
  return [...found].sort((a, b) => a - b).map((index) => rows[index] as Numbered);
}

/** True if a sequence number of the set is of no message: such a command is BAD. */
export const isBeyond = ({ rows }: View, set: SequenceSet): boolean =>
  set.some(([from, to]) => [from, to].some((number) => number !== Number.POSITIVE_INFINITY && number > rows.length));

/** The UIDs that no message has: more than vanished since, which RFC 7162 §3.2.6 allows. */
export function gapsIn({ rows, folder }: View): number[] {
  const missing: number[] = [];
  let uid = 1;
  for (const row of [...rows, { uid: folder.uidNext }]) {
    for (; uid < row.uid; uid++) missing.push(uid);
    uid = row.uid + 1;
  }
  return missing;
}

/** What changed in a mailbox since the client was last told. */
export interface Changes {
  /** UIDs that are gone. */
  vanished: number[];
  /** Messages that came. */
  arrived: Numbered[];
  /** Known messages that changed. */
  changed: Numbered[];
}

const presentOf = (uids: Uids, { folder }: View): ImapFolder | undefined =>
  uids.present(folder.mailboxId, folder.folder);

export function hasChanged(uids: Uids, view: View): boolean {
  const present = presentOf(uids, view);
  return present !== undefined && present.modseq !== view.modseq;
}

/** Brings a view up to date; undefined if nothing changed. Whoever calls it tells the client. */
export function refresh(uids: Uids, view: View): Changes | undefined {
  const present = presentOf(uids, view);
  if (!present || present.modseq === view.modseq) return undefined;
  const since = uids.changedSince(view.folder.id, view.modseq);
  const there = uids.vanishedSince(present, view.modseq);
  const gone = there ? new Set(there) : undefined;
  const all = gone ? undefined : new Set(uids.numbered(view.folder.id).map(({ uid }) => uid));
  const isGone = (uid: number): boolean => (gone ? gone.has(uid) : all?.has(uid) === false);
  const last = view.rows.at(-1)?.uid ?? 0;
  const changes: Changes = {
    vanished: view.rows.filter(({ uid }) => isGone(uid)).map(({ uid }) => uid),
    arrived: since.filter(({ uid }) => uid > last),
    changed: since.filter(({ uid }) => uid <= last),
  };
  const rows = changes.vanished.length === 0 ? view.rows : view.rows.filter(({ uid }) => !isGone(uid));
  view.rows = changes.arrived.length === 0 ? rows : [...rows, ...changes.arrived];
  view.modseq = present.modseq;
  for (const uid of changes.vanished) view.told.delete(uid);
  return changes;
}

/** A state that the client has not been told. */
export function isNews(view: View, { uid }: Pick<ImapState, "uid">, flags: string): boolean {
  if (view.told.get(uid) === flags) return false;
  view.told.set(uid, flags);
  return true;
}
