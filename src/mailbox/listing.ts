/**
 * Lists of conversations and their search (rules: List of conversations, Search operation): one mailbox or all that are
 * reached, newest first, by keyset. A search is a set of conversations; a list with one walks its index and keeps the
 * members, or, when the members are few, looks at each of them. By relevance it is the same set: those that answer best
 * stand before the others, which stay newest first.
 */
import { inArray, sql } from "drizzle-orm";
import type { Caller, Reach } from "../access/caller.ts";
import type { Loose, SearchEngine, SearchScope } from "../search/engine.ts";
import { createRanking } from "../search/fts5/ranking.ts";
import { parseQuery, type Query, wantsWords } from "../search/query.ts";
import {
  countCommon,
  countIn,
  has,
  intersectionOf,
  type SeqSet,
  seqsIn,
  setOf,
  without,
  withRoomFor,
} from "../search/sets.ts";
import { decodeCursor, encodeCursor, type Position } from "../store/cursor.ts";
import { threads } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store } from "../store/store.ts";
import { changesSince, latestChange } from "./changes.ts";
import { createHighlights } from "./highlights.ts";
import { labelKey, labelsOf, threadsLabelled } from "./labels.ts";
import { mailboxesToList, mailboxIdOf } from "./mailboxes.ts";
import { createSuggestions } from "./suggestion.ts";
import { threadView } from "./thread-view.ts";
import type { ListFolder, SearchOrder, ThreadFilters, ThreadListView, ThreadView } from "./views.ts";
import {
  countUnread,
  isNewer,
  NEWEST,
  newestFirst,
  type Selection,
  selectAmong,
  starredSeqs,
  unreadSeqs,
} from "./walk.ts";

/** Where the first page starts, in either order. */
const START: Position = { ...NEWEST, place: 0 };

/** Conversations that stand before the others, by relevance. */
const MOST_FIRST = 1_000;

/** Up to so many members of a set are looked up one by one: about what walking past non-members may cost. */
const FEW = 1_000;

/** What is asked, with every default filled in. */
interface Asked {
  mailboxes: Map<string, Reach>;
  selection: Selection;
  query: Query;
  sort: SearchOrder;
}

/** The conversations that satisfy a query's conditions; `members` undefined: all that are not excluded. */
interface Narrowing {
  members: SeqSet | undefined;
  excluded: readonly SeqSet[];
  /** Those of `members` that stand first, the best of them first; each with its place. */
  best: readonly Position[];
  /** What was found in place of the query's words, if those were not. */
  loose?: Loose | undefined;
}

interface Page {
  positions: Position[];
  unread: number;
}

const statements = prepared((db) => ({
  rows: db
    .select()
    .from(threads)
    .where(inArray(threads.seq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
    .prepare(),
}));

export function createListing({
  store,
  engine,
}: {
  store: Store;
  engine: Pick<SearchEngine, "match" | "matchLoosely" | "rank">;
}) {
  const { db } = store;
  const rankHits = createRanking(store);
  const highlightsOf = createHighlights(store);
  const suggest = createSuggestions(store);
  const { unreadIn } = createUnreadMarks(db);

  async function listThreads(caller: Caller, filters: ThreadFilters): Promise<ThreadListView> {
    const mailboxId = filters.mailbox === undefined ? undefined : mailboxIdOf(db, caller, filters.mailbox);
    const q = filters.q?.trim() ?? "";
    const folder = filters.folder ?? (q === "" ? "inbox" : "all");
    const parsed = parseQuery(q);
    // What selects the rows, in one spelling: the cursor belongs to it.
    const binding = [
      mailboxId ?? null,
      folder,
      filters.unread === true,
      filters.label === undefined ? null : labelKey(filters.label),
      filters.hasAttachments ?? null,
      q,
      ...(filters.sort === "relevance" ? [filters.sort] : []),
    ];
    const from = filters.cursor === undefined ? START : decodeCursor(filters.cursor, binding);
    // A bad date or cursor is refused before it is looked at what is reached (rules: Order of refusals).
    const mailboxes = mailboxesToList(db, caller, mailboxId);
    const asked = askedBy(parsed, { ...filters, folder }, mailboxes);
    const scope = scopeOf(caller, filters, mailboxes);
    const { positions, unread, loose } = await pageOf(asked, scope, from, filters.limit);
    const suggestion =
      positions.length > 0 || q === "" || filters.cursor !== undefined
        ? undefined
        : await suggest(q, scope, async (query) => {
            const other = askedBy(query, { ...filters, folder }, mailboxes);
            const { positions: found, loose: instead } = await pageOf({ ...other, sort: "newest" }, scope, START, 1);
            return found.length > 0 && instead === undefined;
          });
    const page = positions.slice(0, filters.limit);
    const last = page.at(-1);
    const views = viewsOf(db, page, mailboxes);
    const found = views.map(([seq, { messageCount }]) => ({ seq, messageCount }));
    // Of what is shown, and so not of mail in trash, say.
    const nearWords = page.length === 0 ? undefined : await loose?.wordsIn(page.map(({ seq }) => seq));
    const highlights = filters.q === undefined ? undefined : await highlightsOf(parsed, found, nearWords);
    return {
      threads: views.map(([seq, view]) => (highlights ? { ...view, highlights: highlights.get(seq) ?? [] } : view)),
      nextCursor: positions.length > page.length && last ? encodeCursor(last, binding) : null,
      unread,
      ...(filters.sort !== undefined && { sort: asked.sort }),
      ...(suggestion !== undefined && { suggestion }),
      ...(nearWords !== undefined && { nearWords }),
    };
  }

  async function pageOf(asked: Asked, scope: SearchScope, from: Position, limit: number) {
    const narrowing = await narrow(asked, scope);
    const page = narrowing ? narrowedPage(asked, narrowing, from, limit) : plainPage(db, asked, from, limit);
    return { ...page, loose: narrowing?.loose };
  }

  /** Of the conversations found: those that the engine, or else the embedded index, puts first, newest first among equals. */
  async function bestOf(
    { query, mailboxes, selection }: Asked,
    scope: SearchScope,
    found: SeqSet,
    isLoose: boolean,
  ): Promise<Position[]> {
    // How many are judged is bounded: they are to be ones that the list can have.
    const lists = selection.unread ? [found, unreadIn([...mailboxes.keys()], selection)] : [found];
    const judged = seqsIn(intersectionOf(lists) ?? found);
    if (judged.length === 0) return [];
    const ranked =
      (await engine.rank?.(query, scope, judged, isLoose)) ?? (isLoose ? [] : rankHits(query, scope, judged));
    const isJudged = setOf(judged);
    const scores = new Map(
      ranked.filter(({ thread }) => has(isJudged, thread)).map(({ thread, score }) => [thread, score] as const),
    );
    return selectAmong(db, [...scores.keys()], new Set(mailboxes.keys()), selection)
      .sort((a, b) => (scores.get(b.seq) ?? 0) - (scores.get(a.seq) ?? 0))
      .slice(0, MOST_FIRST)
      .map(({ at, seq }, place) => ({ at, seq, place }));
  }

  /** The set of conversations that a query chooses; undefined when it sets no condition beyond the selection. */
  async function narrow(asked: Asked, scope: SearchScope): Promise<Narrowing | undefined> {
    const { query, mailboxes, selection, sort } = asked;
    const sets: SeqSet[] = [];
    const excluded: SeqSet[] = [];
    let loose: Loose | undefined;
    if (query.message.length > 0) {
      const found = await engine.match(query, scope);
      loose = countIn(found) === 0 ? await engine.matchLoosely?.(query, scope) : undefined;
      sets.push(loose ? setOf(loose.threads) : found);
    }
    const ids = [...mailboxes.keys()];
    for (const condition of query.thread) {
      if (condition.kind === "label") {
        (condition.negated ? excluded : sets).push(setOf(threadsLabelled(db, condition.label)));
      } else if (condition.kind === "starred") {
        (condition.negated ? excluded : sets).push(setOf(starredSeqs(db, ids)));
      } else if (condition.negated) {
        excluded.push(unreadIn(ids, selection));
      }
    }
    if (sets.length === 0 && excluded.length === 0) return undefined;
    const all = intersectionOf(sets);
    const members = all && without(all, excluded);
    const best = sort === "relevance" && members ? await bestOf(asked, scope, members, loose !== undefined) : [];
    return { members, excluded, best, loose };
  }

  /** The same of the conversations that a query leaves: the best, then the others. */
  function narrowedPage(asked: Asked, narrowing: Narrowing, from: Position, limit: number): Page {
    const { mailboxes, selection } = asked;
    const { members, excluded, best } = narrowing;
    const positions = bestAfter(best, from).slice(0, limit + 1);
    // The others begin where the best end.
    const after = from.place === undefined ? from : NEWEST;
    const isBest = setOf(best.map(({ seq }) => seq));
    if (members && countIn(members) <= FEW) {
      const chosen = selectAmong(db, seqsIn(members), new Set(mailboxes.keys()), selection);
      const others = chosen.filter((position) => isNewer(after, position) && !has(isBest, position.seq));
      return {
        positions: [...positions, ...others].slice(0, limit + 1),
        unread: chosen.filter(({ unread }) => unread).length,
      };
    }
    const ids = [...mailboxes.keys()];
    const isMember = (seq: number): boolean =>
      members ? has(members, seq) : !excluded.some((others) => has(others, seq));
    for (const position of newestFirst(db, ids, selection, after, 4 * (limit + 1))) {
      if (positions.length > limit) break;
      if (isMember(position.seq) && !has(isBest, position.seq)) positions.push(position);
    }
    const allUnread = unreadIn(ids, selection);
    const unread = members ? countCommon(members, allUnread) : countIn(without(allUnread, excluded));
    return { positions, unread };
  }

  return {
    listThreads,
    /** The same; without a folder everywhere but in trash and spam, also for a blank `q`. */
    search: (caller: Caller, filters: ThreadFilters & { q: string }) =>
      listThreads(caller, { ...filters, folder: filters.folder ?? "all" }),
  };
}

function askedBy(
  { message, thread: said }: Query,
  { folder, unread, hasAttachments, label, sort = "newest" }: ThreadFilters & { folder: ListFolder },
  mailboxes: Asked["mailboxes"],
): Asked {
  const thread = [...said, ...(label === undefined ? [] : [{ kind: "label", label, negated: false } as const])];
  return {
    mailboxes,
    query: { message, thread },
    // Without words nothing answers better than another.
    sort: wantsWords({ message, thread }) ? sort : "newest",
    selection: {
      folder,
      unread: unread === true || thread.some(({ kind, negated }) => kind === "unread" && !negated),
      hasAttachments,
    },
  };
}

/** All mailboxes of a workspace are asked for by its name. */
const scopeOf = (caller: Caller, { mailbox }: ThreadFilters, mailboxes: Asked["mailboxes"]): SearchScope => ({
  mailboxIds: [...mailboxes.keys()],
  workspaceId: mailbox === undefined && caller.role !== "member" ? caller.workspaceId : undefined,
});

/** A page by its selection alone, and one more position if there is one. */
function plainPage(db: Db, { mailboxes, selection }: Asked, from: Position, limit: number): Page {
  const ids = [...mailboxes.keys()];
  const positions: Position[] = [];
  for (const position of newestFirst(db, ids, selection, from, limit + 1)) {
    positions.push(position);
    if (positions.length > limit) break;
  }
  return { positions, unread: countUnread(db, ids, selection) };
}

/** Those behind the one shown last; when it is no longer among them, from its place on. */
function bestAfter(best: readonly Position[], { seq, place }: Position): readonly Position[] {
  if (place === undefined) return [];
  const last = best.findIndex((position) => position.seq === seq);
  return best.slice(last === -1 ? place : last + 1);
}

/** The conversations at these positions as they are shown, in this order, each with its threads.seq. */
function viewsOf(
  db: Db,
  positions: readonly Position[],
  mailboxes: Asked["mailboxes"],
): [seq: number, view: ThreadView][] {
  const seqs = positions.map(({ seq }) => seq);
  const rows = new Map(
    statements(db)
      .rows.all({ seqs: JSON.stringify(seqs) })
      .map((row) => [row.seq, row]),
  );
  const labels = labelsOf(db, seqs);
  return seqs.flatMap((seq) => {
    const row = rows.get(seq);
    const reach = row && mailboxes.get(row.mailboxId);
    return row && reach ? [[seq, threadView(row, reach, labels.get(seq) ?? [])]] : [];
  });
}

/*
 * Which conversations of a list are unread, a bit each: what the unread ones among a hundred thousand found are counted
 * by (rules: Thread list fields). To read them all from the index takes about as long as to find those, so the marks of the
 * lists last asked for are kept, and follow what triggers write down of every change (changes.ts), whoever makes it: the
 * answer is always that of the rows.
 */

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
