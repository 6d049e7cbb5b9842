/**
 * Reads conversations newest first, directly from the indexes that match a list's conditions (store/schema.ts): it
 * reads only rows of the list, so that every page costs the same. The only file that knows which index serves which
 * list.
 */
import type { Statement } from "bun:sqlite";
import type { ListFolder } from "../../search/operators.ts";
import type { MarkCondition } from "../../search/query.ts";
import type { Position } from "../../store/cursor.ts";
import { FOLDERS, type Folder, type threads } from "../../store/schema.ts";
import { perDatabase, statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import type { MessageFilters } from "../state/views.ts";

/** Whether snoozed and awake conversations are selected, for each folder. */
export type FolderSelection = Readonly<Record<Folder, { awake: boolean; snoozed: boolean }>>;

/** The conditions that select the conversations of a list within a mailbox. */
export interface Selection {
  places: FolderSelection;
  /** True: only starred conversations are selected. */
  starred: boolean;
  unread: boolean;
  hasAttachments: boolean | undefined;
}

/** The position before the newest conversation, where the first page starts. */
export const NEWEST: Position = { at: Number.MAX_SAFE_INTEGER, seq: Number.MAX_SAFE_INTEGER };

/** A folder of a list, or all but it. */
export interface FolderTerm {
  folder: ListFolder;
  negated: boolean;
}

/** True if a list of that folder shows a conversation in `place` (rules: List filters); `starred` is `all` with a star. */
export function isShownInFolderList(folder: ListFolder, place: Folder, isSnoozed: boolean): boolean {
  switch (folder) {
    case "all":
    case "starred":
      return place !== "trash" && place !== "spam";
    case "snoozed":
      return isSnoozed;
    case "inbox":
      return place === "inbox" && !isSnoozed;
    default:
      return place === folder;
  }
}

/** The conversations that are in every one of these; `starred` must not be negated. */
export function intersectFolderTerms(terms: readonly FolderTerm[]): Pick<Selection, "places" | "starred"> {
  const isIn = (place: Folder, isSnoozed: boolean): boolean =>
    terms.every(({ folder, negated }) => isShownInFolderList(folder, place, isSnoozed) !== negated);
  const places = FOLDERS.map((place) => [place, { awake: isIn(place, false), snoozed: isIn(place, true) }] as const);
  return {
    places: Object.fromEntries(places) as FolderSelection,
    starred: terms.some(({ folder }) => folder === "starred"),
  };
}

/** The folders whose conversations are selected in the same way. */
const foldersWhere = (places: FolderSelection, awake: boolean, snoozed: boolean): Folder[] =>
  FOLDERS.filter((folder) => places[folder].awake === awake && places[folder].snoozed === snoozed);

const NOWHERE = "0";

/** The folders of `places`, in SQL. */
function foldersCondition(places: FolderSelection): string {
  const among = (folders: readonly Folder[], further: string): string[] =>
    folders.length === 0 ? [] : [`folder IN (${folders.map((folder) => `'${folder}'`).join()})${further}`];
  const parts = [
    ...among(foldersWhere(places, true, true), ""),
    ...among(foldersWhere(places, true, false), " AND snoozed_until IS NULL"),
    ...among(foldersWhere(places, false, true), " AND snoozed_until IS NOT NULL"),
  ];
  return parts.length === 0 ? NOWHERE : `(${parts.join(" OR ")})`;
}

/** The remaining conditions, literal in the SQL, because SQLite uses a partial index only then. */
const furtherConditions = ({ unread, hasAttachments }: Selection): string =>
  (unread ? " AND unread = 1" : "") +
  (hasAttachments === undefined ? "" : ` AND has_attachments = ${hasAttachments ? 1 : 0}`);

/** A part of the table that an index returns in order of time, by mailbox. */
interface Source {
  index: string;
  where: string;
}

/** The sources of a selection; several if an index is ordered by time only within one folder. */
function listWalkSources(selection: Selection): Source[] {
  const { places, starred, unread } = selection;
  const further = furtherConditions(selection);
  const condition = foldersCondition(places);
  if (condition === NOWHERE) return [];
  const where = `${condition}${further}`;
  if (starred) return [{ index: "threads_starred", where: `starred = 1 AND ${where}` }];
  const isSnoozed = FOLDERS.every((folder) => !places[folder].awake);
  if (isSnoozed) return [{ index: "threads_snoozed", where: `snoozed_until IS NOT NULL AND ${where}` }];
  const index = unread ? "threads_unread" : "threads_by_folder";
  return FOLDERS.flatMap((folder) => {
    const { awake, snoozed } = places[folder];
    if (!awake && !snoozed) return [];
    const part = awake && snoozed ? "" : ` AND snoozed_until IS ${awake ? "" : "NOT "}NULL`;
    return [{ index, where: `folder = '${folder}'${part}${further}` }];
  });
}

type Parameters = (string | number)[];

/** Kinds of lists whose statements are kept. */
const MOST_KINDS = 200;

/** Prepared statements by SQL: one for each kind of list. */
const statements = perDatabase((db) => {
  const made = new Map<string, Statement<Record<string, number | string>, Parameters>>();
  return <Row>(text: string): Statement<Row, Parameters> => {
    const query = made.get(text) ?? statement<Record<string, number | string>, Parameters>(text)(db);
    made.delete(text);
    made.set(text, query);
    const [leastRecent] = made.keys();
    if (made.size > MOST_KINDS && leastRecent !== undefined) made.delete(leastRecent);
    return query as unknown as Statement<Row, Parameters>;
  };
});

/** Positions of one source in one mailbox, after `from`, in chunks that grow from `chunk`. */
function* walkSource(
  db: Db,
  mailboxId: string,
  { index, where }: Source,
  from: Position,
  chunk: number,
): Generator<Position> {
  // `+?`: see store/statement.ts.
  const walking = statements(db)<Position>(
    `SELECT last_message_at AS at, seq FROM threads INDEXED BY ${index}
     WHERE mailbox_id = +? AND ${where} AND (last_message_at, seq) < (+?, +?)
     ORDER BY last_message_at DESC, seq DESC LIMIT +?`,
  );
  let after = from;
  for (let size = chunk; ; size = Math.min(size * 2, 4_096)) {
    const rows = walking.all(mailboxId, after.at, after.seq, size);
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < size) return;
    after = last;
  }
}

export const isNewer = (a: Position, b: Position): boolean => a.at > b.at || (a.at === b.at && a.seq > b.seq);

/**
 * The selected conversations of all given mailboxes, newest first, after `from`. `chunk`: how many the caller will
 * probably take.
 */
export function* walkThreadsNewestFirst(
  db: Db,
  mailboxIds: readonly string[],
  selection: Selection,
  from: Position,
  chunk: number,
): Generator<Position> {
  const walks = mailboxIds.flatMap((id) =>
    listWalkSources(selection).map((source) => walkSource(db, id, source, from, chunk)),
  );
  if (walks.length === 1) {
    yield* walks[0] as Generator<Position>;
    return;
  }
  yield* mergeNewestFirst(walks);
}

/** Merges walks with a binary heap of their heads. */
function* mergeNewestFirst(walks: readonly Generator<Position>[]): Generator<Position> {
  const heap: { head: Position; walk: Generator<Position> }[] = [];
  const headAt = (i: number): Position => (heap[i] as (typeof heap)[number]).head;
  const sink = (start: number): void => {
    for (let i = start; ; ) {
      let newest = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && isNewer(headAt(child), headAt(newest))) newest = child;
      }
      if (newest === i) return;
      [heap[i], heap[newest]] = [heap[newest], heap[i]] as [(typeof heap)[number], (typeof heap)[number]];
      i = newest;
    }
  };
  for (const walk of walks) {
    const { value, done } = walk.next();
    if (!done) heap.push({ head: value, walk });
  }
  for (let i = heap.length >> 1; i >= 0; i--) sink(i);
  for (let top = heap[0]; top !== undefined; top = heap[0]) {
    yield top.head;
    const { value, done } = top.walk.next();
    if (!done) top.head = value;
    else {
      const last = heap.pop();
      if (last !== undefined && last !== top) heap[0] = last;
    }
    sink(0);
  }
}

const ALL = intersectFolderTerms([{ folder: "all", negated: false }]);

/** threads.seq of the newest conversations of a mailbox in `all`, newest first. */
export function newestThreads(db: Db, mailboxId: string, limit: number): number[] {
  const selection = { ...ALL, unread: false, hasAttachments: undefined };
  return [...walkThreadsNewestFirst(db, [mailboxId], selection, NEWEST, limit).take(limit)].map(({ seq }) => seq);
}

/** The selected conversations that are unread, unordered. One JSON text per mailbox is cheaper than a row each. */
export function listUnreadThreads(db: Db, mailboxIds: readonly string[], selection: Selection): number[] {
  return listThreadSeqs(db, mailboxIds, listWalkSources({ ...selection, unread: true }));
}

const STARRED: FolderTerm = { folder: "starred", negated: false };

/** The conversations of the list `starred`, unordered. */
export function listStarredThreads(db: Db, mailboxIds: readonly string[]): number[] {
  const where = `starred = 1 AND ${foldersCondition(intersectFolderTerms([STARRED]).places)}`;
  return listThreadSeqs(db, mailboxIds, [{ index: "threads_starred", where }]);
}

/** A mark: where the conversations that have it are found, and whether one has it. */
interface Mark {
  source: Source;
  /** Undefined: a conversation that begins. */
  isOn(thread: typeof threads.$inferSelect | undefined): boolean;
}

const MARKS: Readonly<Record<MarkCondition["kind"], Mark>> = {
  starred: {
    source: { index: "threads_starred", where: "starred = 1" },
    isOn: (thread) => thread?.starred === true,
  },
};

/** The conversations in any folder that have the mark of a condition, negated or not, unordered. */
export const listMarkedThreads = (db: Db, mailboxIds: readonly string[], { kind }: MarkCondition): number[] =>
  listThreadSeqs(db, mailboxIds, [MARKS[kind].source]);

/** True if a conversation has the mark of a condition, negated or not; undefined: one that begins. */
export const hasThreadMark = (thread: typeof threads.$inferSelect | undefined, { kind }: MarkCondition): boolean =>
  MARKS[kind].isOn(thread);

function listThreadSeqs(db: Db, mailboxIds: readonly string[], sources: readonly Source[]): number[] {
  const found: number[][] = [];
  for (const { index, where } of sources) {
    const selecting = statements(db)<{ seqs: string }>(
      `SELECT json_group_array(seq) AS seqs FROM threads INDEXED BY ${index} WHERE mailbox_id = ? AND ${where}`,
    );
    for (const id of mailboxIds) found.push(JSON.parse(selecting.get(id)?.seqs ?? "[]"));
  }
  return ([] as number[]).concat(...found);
}

/**
 * The selected ones among the given conversations in these mailboxes, newest first. Looks each up, so it is for few.
 */
export function selectAmongThreads(
  db: Db,
  seqs: readonly number[],
  mailboxIds: ReadonlySet<string>,
  selection: Selection,
): (Position & { unread: boolean })[] {
  return statements(db)<Position & { mailboxId: string; unread: number }>(
    `SELECT last_message_at AS at, seq, unread, mailbox_id AS mailboxId FROM threads
     WHERE seq IN (SELECT value FROM json_each(?)) AND ${foldersCondition(selection.places)}${furtherConditions(selection)}
       ${selection.starred ? "AND starred = 1" : ""}`,
  )
    .all(JSON.stringify(seqs))
    .filter(({ mailboxId }) => mailboxIds.has(mailboxId))
    .map(({ at, seq, unread }) => ({ at, seq, unread: unread === 1 }))
    .sort((a, b) => (isNewer(a, b) ? -1 : 1));
}

/** Messages among which those of a sender are sought: nothing finds these in order of time. */
const MOST_SOUGHT = 20_000;

/** messages.seq of the newest messages of all given mailboxes, newest first. */
export function newestMessages(
  db: Db,
  mailboxIds: readonly string[],
  { folder, direction, messageId, threadId, from, among, limit }: MessageFilters,
): number[] {
  const few: [condition: string, value: string][] = [];
  if (among) few.push(["id IN (SELECT value FROM json_each(?))", JSON.stringify(among)]);
  if (messageId !== undefined) few.push(["message_id = ?", `<${messageId.replace(/^<|>$/g, "")}>`]);
  if (threadId !== undefined) few.push(["thread_seq = (SELECT seq FROM threads WHERE id = ?)", threadId]);
  const isFew = few.length > 0;
  // The index is in the order of time within one folder only.
  const parts = isFew || folder ? [folder] : FOLDERS;
  // Among what others wrote, what we wrote has an index of its own.
  const isMoved = (part: Folder | undefined): boolean =>
    !isFew && direction === "outbound" && (part === "inbox" || part === "archive");
  const indexedByClause = (part: Folder | undefined): string =>
    isFew ? "" : `INDEXED BY ${isMoved(part) ? "messages_outgoing_moved" : "messages_by_folder"}`;
  const sought = Math.max(limit, Math.floor(MOST_SOUGHT / (parts.length * Math.max(1, mailboxIds.length))));
  const statement = (part: Folder | undefined) =>
    statements(db)<Position>(
      `SELECT at, seq FROM (
         SELECT date AS at, seq, "from" FROM messages ${indexedByClause(part)}
         WHERE mailbox_id = ?${few.map(([condition]) => ` AND ${condition}`).join("")}${part ? ` AND folder = '${part}'` : ""}${isMoved(part) ? " AND folder IN ('inbox', 'archive')" : ""}${direction ? ` AND kind ${direction === "inbound" ? "=" : "<>"} 'received'` : ""}
         ORDER BY date DESC, seq DESC LIMIT ?)
       ${from === undefined ? "" : `WHERE lower("from" ->> 'email') = ? ORDER BY at DESC, seq DESC LIMIT ?`}`,
    );
  const values = few.map(([, value]) => value);
  const last = from === undefined ? [limit] : [sought, from.toLowerCase(), limit];
  return mailboxIds
    .flatMap((id) => parts.flatMap((part) => statement(part).all(id, ...values, ...last)))
    .sort((a, b) => (isNewer(a, b) ? -1 : 1))
    .slice(0, limit)
    .map(({ seq }) => seq);
}
