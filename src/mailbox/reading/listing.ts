/**
 * Lists and searches conversations (rules: List of conversations, Search operation): in one mailbox or all that the
 * caller reaches, newest first, by keyset. A search yields a set of conversations; its list walks the index and keeps
 * the members, or looks up each member if they are few. By relevance it is the same set: the best matches come before
 * the others, which stay newest first.
 */
import { inArray, sql } from "drizzle-orm";
import {
  type Caller,
  findReachableMailboxes,
  isKeyDeniedSignInCodes,
  isLimitedToMailboxes,
  type Reach,
  type Seeker,
  toSeeker,
} from "../../access/caller.ts";
import { type Static, t } from "../../base/json-schema.ts";
import { mayFindCode } from "../../message/codes.ts";
import type { Loose, SearchScope } from "../../search/engine.ts";
import { foldAddress, foldText } from "../../search/fold.ts";
import { createRanking } from "../../search/fts5/hits.ts";
import type { ListFolder } from "../../search/operators.ts";
import {
  hasSearchWords,
  isOfPeople,
  type MessageCondition,
  type ParsedQuery,
  parseQuery,
  type Query,
  type TextCondition,
} from "../../search/query.ts";
import {
  countCommon,
  countSeqsInSet,
  createSeqSet,
  growSeqSet,
  intersectSets,
  isInSeqSet,
  listSeqsInSet,
  type SeqSet,
  subtractSeqSets,
} from "../../search/sets.ts";
import { decodeCursor, encodeCursor, type Position } from "../../store/cursor.ts";
import { threads } from "../../store/schema.ts";
import { perDatabase, prepared } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { changesSince, latestChange } from "../changing/change-feed.ts";
import { labelKey, listThreadLabels, threadsLabelled } from "../state/labels.ts";
import type { MailCore } from "../state/mail-core.ts";
import { mailboxesInReach, resolveMailboxId } from "../state/mailboxes.ts";
import { type Asker, askIndex, type Inquiry, type MailReader } from "../state/readers.ts";
import { type SearchOrder, type ThreadFilters, ThreadListView, type ThreadView, threadView } from "../state/views.ts";
import { findThreadHighlights, type MaskRows } from "./highlights.ts";
import { createSearchRowMasker } from "./masked-codes.ts";
import { findMaskedMatches, type MaskedMatches, MOST_READ } from "./masked-search.ts";
import { suggestSearchQuery } from "./suggestions.ts";
import {
  type FolderTerm,
  intersectFolderTerms,
  isNewer,
  listMarkedThreads,
  listStarredThreads,
  listUnreadThreads,
  NEWEST,
  type Selection,
  selectAmongThreads,
  walkThreadsNewestFirst,
} from "./walk.ts";

/** The position before the first page, in either order. */
const START: Position = { ...NEWEST, place: 0 };

const DAY_MS = 86_400_000;

/** Most conversations that relevance puts before the others. */
const MOST_FIRST = 1_000;

/** Sets up to this size are looked up one by one, which costs about as much as walking past non-members. */
const FEW = 1_000;

/** Up to so many mailboxes are walked together in no time. */
const FEW_MAILBOXES = 20;

/** Conversations that are counted for a query. */
const MOST_COUNTED = 1_000;

/** The request, with every default filled in. */
interface Asked {
  /** Mailboxes to search, by id. */
  mailboxes: ReadonlyMap<string, unknown>;
  selection: Selection;
  query: Query;
  sort: SearchOrder;
  /** No similar words are found in place of the query's. */
  literally: boolean;
  /** The query finds what it finds in masked text. */
  maskRows?: MaskRows | undefined;
}

/** The conversations that satisfy a query's conditions; `members` undefined: all except the excluded ones. */
interface Narrowing {
  members: SeqSet | undefined;
  excluded: readonly SeqSet[];
  /** Those of `members` that come first, best first, each with its position in that order. */
  best: readonly Position[];
  /** The result of the loose search, if the query's words were not found. */
  loose?: Loose | undefined;
  /** Matches in masked text; undefined if the query reads the text unmasked. */
  masked?: MaskedMatches | undefined;
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

const rankHits = perDatabase((db) => createRanking({ db }));

/** A list or search as a reader is asked for it: for whom, of what, and from where on. */
interface ListRequest {
  seeker: Seeker;
  filters: ThreadFilters;
  usual: ListFolder;
}

const threadList: Inquiry<ListRequest, ThreadListView> = {
  name: "threadList",
  answer: ThreadListView,
  read: (reader, request) => readThreadList(reader, request),
};

/**
 * Lists or searches conversations, newest first or by relevance. `usual`: the folder of a list that names none, neither beside nor in `q`.
 * @throws AppError not_found (mailbox), bad_request (cursor, date in `q`), server_error 503
 */
export async function listThreads(
  core: MailCore,
  caller: Caller,
  filters: ThreadFilters,
  usual: ListFolder = filters.q?.trim() ? "all" : "inbox",
): Promise<ThreadListView> {
  const request: ListRequest = { seeker: toSeeker(caller), filters, usual };
  // Parsers mask, which this process asks.
  if (isKeyDeniedSignInCodes(caller)) return readThreadList(core, request, createSearchRowMasker(core, caller));
  return isShortWalk(core.db, caller, filters)
    ? readThreadList(core, request)
    : askIndex(core, caller, threadList, request);
}

/** True for a page that reads hardly more than its rows: asking a reader for it would take this thread as long. */
const isShortWalk = (db: Db, caller: Caller, { q = "", label, hasAttachments, mailbox }: ThreadFilters): boolean =>
  q.trim() === "" &&
  label === undefined &&
  hasAttachments === undefined &&
  (mailbox !== undefined || findReachableMailboxes(db, caller).size <= FEW_MAILBOXES);

/** `mask`: for a key that reads no codes. */
async function readThreadList(
  reader: MailReader,
  { seeker, filters, usual }: ListRequest,
  mask?: MaskRows,
): Promise<ThreadListView> {
  const { db } = reader;
  const mailboxId = filters.mailbox === undefined ? undefined : resolveMailboxId(db, seeker, filters.mailbox);
  const q = filters.q?.trim() ?? "";
  // The request in one spelling; a cursor is valid only for it.
  const binding = [
    mailboxId ?? null,
    filters.folder ?? usual,
    filters.unread === true,
    filters.label === undefined ? null : labelKey(filters.label),
    filters.hasAttachments ?? null,
    q,
    ...(filters.sort === "relevance" ? [filters.sort] : []),
  ];
  const from = filters.cursor === undefined ? START : decodeCursor(filters.cursor, binding);
  // Further pages are of the day of the first.
  const day = from.day ?? Math.floor(reader.now() / DAY_MS);
  const hidesCodes = mask !== undefined;
  const given = parseQuery(q, day * DAY_MS);
  const parsed = hidesCodes ? withoutCodes(given) : given;
  // A bad date or cursor is refused before access is checked (rules: Order of refusals).
  const mailboxes = mailboxesInReach(db, seeker, mailboxId);
  const asMasked = parsed.message.some(looksIntoText) ? mask : undefined;
  // Hidden words count for relevance.
  const sorted: ThreadFilters = asMasked ? { ...filters, sort: "newest" } : filters;
  const ask = (query: Query): Asked => ({
    ...askedBy(query, sorted, usual, mailboxes),
    literally: hidesCodes,
    maskRows: asMasked,
  });
  const asked = ask(parsed);
  const scope = seekerSearchScope(seeker, filters, mailboxes);
  const { positions, unread, loose, masked } = await readThreadPage(reader, asked, scope, from, filters.limit);
  const suggestion =
    positions.length > 0 || q === "" || filters.cursor !== undefined || hidesCodes
      ? undefined
      : await suggestSearchQuery(db, q, day * DAY_MS, scope, async (query) => {
          const other: Asked = { ...ask(query), sort: "newest" };
          const { positions: found, loose: instead } = await readThreadPage(reader, other, scope, START, 1);
          return found.length > 0 && instead === undefined;
        });
  const page = positions.slice(0, filters.limit);
  const last = page.at(-1);
  const views = readThreadViews(db, page, mailboxes);
  const found = views.map(([seq, { messageCount }]) => ({ seq, messageCount }));
  // Words in the shown mail only, and so none from trash, for example.
  const nearWords = page.length === 0 ? undefined : await loose?.wordsIn(page.map(({ seq }) => seq));
  const highlights =
    filters.q === undefined
      ? undefined
      : await findThreadHighlights(db, parsed, found, nearWords, mask && { maskRows: mask, matches: masked?.matches });
  const notes = masked?.isAll === false ? [...parsed.notes.slice(0, MOST_NOTES - 1), NOT_ALL] : parsed.notes;
  return {
    threads: views.map(([seq, view]) => (highlights ? { ...view, highlights: highlights.get(seq) ?? [] } : view)),
    nextCursor:
      positions.length > page.length && last ? encodeCursor({ ...last, ...(q !== "" && { day }) }, binding) : null,
    unread,
    ...(filters.sort !== undefined && { sort: asked.sort }),
    ...(suggestion !== undefined && { suggestion }),
    ...(nearWords !== undefined && { nearWords }),
    ...(notes.length > 0 && { notes: [...notes] }),
  };
}

async function readThreadPage(reader: MailReader, asked: Asked, scope: SearchScope, from: Position, limit: number) {
  const narrowing = await narrow(reader, asked, scope);
  const page = narrowing ? narrowedPage(reader, asked, narrowing, from, limit) : plainPage(reader, asked, from, limit);
  return { ...page, loose: narrowing?.loose, masked: narrowing?.masked };
}

/** Ranks the found conversations by the engine, or else the embedded index; equals stay newest first. */
async function rankFoundThreads(
  { engine, db }: MailReader,
  { query, mailboxes, selection }: Asked,
  scope: SearchScope,
  found: SeqSet,
  isLoose: boolean,
): Promise<Position[]> {
  // The number of ranked conversations is bounded, so only candidates for this list are ranked.
  const lists = selection.unread ? [found, findUnreadThreadSet(db, [...mailboxes.keys()], selection)] : [found];
  const candidates = listSeqsInSet(intersectSets(lists) ?? found);
  if (candidates.length === 0) return [];
  const ranked =
    (await engine.rank?.(query, scope, candidates, isLoose)) ?? (isLoose ? [] : rankHits(db)(query, scope, candidates));
  const isCandidate = createSeqSet(candidates);
  const scores = new Map(
    ranked.filter(({ thread }) => isInSeqSet(isCandidate, thread)).map(({ thread, score }) => [thread, score] as const),
  );
  return selectAmongThreads(db, [...scores.keys()], new Set(mailboxes.keys()), selection)
    .sort((a, b) => (scores.get(b.seq) ?? 0) - (scores.get(a.seq) ?? 0))
    .slice(0, MOST_FIRST)
    .map(({ at, seq }, place) => ({ at, seq, place }));
}

/** The set of conversations that a query selects; undefined if it adds no condition to the selection. */
async function narrow(reader: MailReader, asked: Asked, scope: SearchScope): Promise<Narrowing | undefined> {
  const { engine, db } = reader;
  const { query, mailboxes, selection, sort, literally, maskRows: mask } = asked;
  const sets: SeqSet[] = [];
  const excluded: SeqSet[] = [];
  let loose: Loose | undefined;
  // What masked text lacks excludes nothing.
  const message = mask ? query.message.filter((one) => !(looksIntoText(one) && one.negated)) : query.message;
  if (message.length > 0) {
    const found = await engine.match({ ...query, message }, scope);
    loose = countSeqsInSet(found) === 0 && !literally ? await engine.matchLoosely?.(query, scope) : undefined;
    sets.push(loose ? createSeqSet(loose.threads) : found);
  }
  const ids = [...mailboxes.keys()];
  for (const condition of query.thread) {
    const among = condition.negated ? excluded : sets;
    if (condition.kind === "label") {
      among.push(createSeqSet(threadsLabelled(db, condition.label)));
    } else if (condition.kind === "folder") {
      // The selection has the others.
      if (isNotStarred(condition)) excluded.push(createSeqSet(listStarredThreads(db, ids)));
    } else if (condition.kind !== "unread") {
      among.push(createSeqSet(listMarkedThreads(db, ids, condition)));
    } else if (condition.negated) {
      excluded.push(findUnreadThreadSet(db, ids, selection));
    }
  }
  if (sets.length === 0 && excluded.length === 0 && !mask) return undefined;
  const all = intersectSets(sets);
  const candidates = all && subtractSeqSets(all, excluded);
  const masked =
    mask &&
    (await findMaskedMatches(
      db,
      query.message,
      listNewestThreads(reader, asked, candidates, excluded, MOST_READ + 1),
      mask,
    ));
  const members = masked ? createSeqSet([...masked.matches.keys()]) : candidates;
  const best =
    sort === "relevance" && members ? await rankFoundThreads(reader, asked, scope, members, loose !== undefined) : [];
  return { members, excluded, best, loose, masked };
}

/** The newest conversations of a selection and of a narrowing, threads.seq. */
function listNewestThreads(
  { db }: MailReader,
  { mailboxes, selection }: Asked,
  members: SeqSet | undefined,
  excluded: readonly SeqSet[],
  most: number,
): number[] {
  const ids = [...mailboxes.keys()];
  const chosen =
    members && countSeqsInSet(members) <= FEW
      ? selectAmongThreads(db, listSeqsInSet(members), new Set(ids), selection).values()
      : walkThreadsNewestFirst(db, ids, selection, NEWEST, most).filter(({ seq }) =>
          members ? isInSeqSet(members, seq) : !excluded.some((others) => isInSeqSet(others, seq)),
        );
  return chosen
    .map(({ seq }) => seq)
    .take(most)
    .toArray();
}

/** A page by its selection alone, with one more position if there is one. */
function plainPage({ db }: MailReader, { mailboxes, selection }: Asked, from: Position, limit: number): Page {
  const ids = [...mailboxes.keys()];
  const positions = walkThreadsNewestFirst(db, ids, selection, from, limit + 1)
    .take(limit + 1)
    .toArray();
  return { positions, unread: countSeqsInSet(findUnreadThreadSet(db, ids, selection)) };
}

/** A page of the conversations that match a query: the best, then the others. */
function narrowedPage({ db }: MailReader, asked: Asked, narrowing: Narrowing, from: Position, limit: number): Page {
  const { mailboxes, selection } = asked;
  const { members, excluded, best } = narrowing;
  const positions = bestAfter(best, from).slice(0, limit + 1);
  // The others begin after the best.
  const after = from.place === undefined ? from : NEWEST;
  const isBest = createSeqSet(best.map(({ seq }) => seq));
  if (members && countSeqsInSet(members) <= FEW) {
    const chosen = selectAmongThreads(db, listSeqsInSet(members), new Set(mailboxes.keys()), selection);
    const others = chosen.filter((position) => isNewer(after, position) && !isInSeqSet(isBest, position.seq));
    return {
      positions: [...positions, ...others].slice(0, limit + 1),
      unread: chosen.filter(({ unread }) => unread).length,
    };
  }
  const ids = [...mailboxes.keys()];
  const isMember = (seq: number): boolean =>
    members ? isInSeqSet(members, seq) : !excluded.some((others) => isInSeqSet(others, seq));
  for (const position of walkThreadsNewestFirst(db, ids, selection, after, 4 * (limit + 1))) {
    if (positions.length > limit) break;
    if (isMember(position.seq) && !isInSeqSet(isBest, position.seq)) positions.push(position);
  }
  const allUnread = findUnreadThreadSet(db, ids, selection);
  const unread = members ? countCommon(members, allUnread) : countSeqsInSet(subtractSeqSets(allUnread, excluded));
  return { positions, unread };
}

/** Searches as `listThreads` does; without a folder it covers everything except trash and spam, even for a blank `q`. */
export const searchThreads = (
  core: MailCore,
  caller: Caller,
  filters: ThreadFilters & { q: string },
): Promise<ThreadListView> => listThreads(core, caller, filters, "all");

/**
 * Counts the conversations of a mailbox that a query finds, up to 1,000; `more`: there are more. The caller has checked
 * access. @throws AppError bad_request (date in `q`), server_error 503
 */
export const countMatchingThreads = (core: MailCore, asker: Asker, request: CountRequest): Promise<ThreadCount> =>
  askIndex(core, asker, threadCount, request);

interface CountRequest {
  mailboxId: string;
  q: string;
}

const ThreadCount = t.Object({ threads: t.Integer(), more: t.Boolean() });
type ThreadCount = Static<typeof ThreadCount>;

const threadCount: Inquiry<CountRequest, ThreadCount> = {
  name: "threadCount",
  answer: ThreadCount,
  read: countThreads,
};

async function countThreads(reader: MailReader, { mailboxId, q }: CountRequest): Promise<ThreadCount> {
  const query = parseQuery(q, reader.now());
  const asked = { ...askedBy(query, { limit: MOST_COUNTED }, "all", new Map([[mailboxId, {}]])), literally: true };
  const { positions } = await readThreadPage(reader, asked, { mailboxIds: [mailboxId] }, START, MOST_COUNTED);
  const more = positions.length > MOST_COUNTED;
  return { threads: more ? MOST_COUNTED : positions.length, more };
}

/** The inquiries of this file, for readers. */
export const LIST_INQUIRIES = [threadList, threadCount];

function askedBy(
  { message, thread: said }: Query,
  { folder, unread, hasAttachments, label, sort = "newest" }: ThreadFilters,
  usual: ListFolder,
  mailboxes: Asked["mailboxes"],
): Omit<Asked, "literally"> {
  const thread = [...said, ...(label === undefined ? [] : [{ kind: "label", label, negated: false } as const])];
  const named: FolderTerm[] = thread.filter((condition) => condition.kind === "folder");
  const isIn = folder ?? (named.every(({ negated }) => negated) ? usual : undefined);
  const whole: FolderTerm[] = isIn === undefined ? [] : [{ folder: isIn, negated: false }];
  return {
    mailboxes,
    query: { message, thread },
    // Without words every match is equally good.
    sort: hasSearchWords({ message, thread }) ? sort : "newest",
    selection: {
      ...intersectFolderTerms([...whole, ...named.filter((term) => !isNotStarred(term))]),
      unread: unread === true || thread.some(({ kind, negated }) => kind === "unread" && !negated),
      hasAttachments,
    },
  };
}

/** True for what only the stars can tell. */
const isNotStarred = ({ folder, negated }: FolderTerm): boolean => folder === "starred" && negated;

/** No message is that small. */
const NO_MESSAGE: MessageCondition = { kind: "below", bytes: 0 };
const MOST_NOTES = 5;
const NOT_ALL = "not all mail was searched, and the newest first: this key reads no codes";

/** True for a condition on words of mail, which may be hidden ones. Addresses are never hidden. */
const looksIntoText = (condition: MessageCondition): condition is TextCondition =>
  condition.kind === "text" && !(isOfPeople(condition.field) && foldAddress(condition.text) !== undefined);

/**
 * The query of a key that reads no codes: what may find one, or a part of one, finds nothing, and excludes nothing
 * either. Otherwise the key could find a code digit by digit.
 */
function withoutCodes(query: ParsedQuery): ParsedQuery {
  const isHidden = (condition: MessageCondition): condition is TextCondition =>
    looksIntoText(condition) && (mayFindCode(condition.text) || mayFindCode(foldText(condition.text)));
  const hidden = query.message.filter(isHidden);
  const message: MessageCondition[] = query.message.filter((condition) => !isHidden(condition));
  if (hidden.some(({ negated }) => !negated)) message.push(NO_MESSAGE);
  const notes = hidden.map(({ text }) => `${JSON.stringify(text)} was not searched: this key reads no codes`);
  return { ...query, message, notes: [...query.notes, ...notes].slice(0, MOST_NOTES) };
}

/** Scopes all mailboxes of a workspace by the workspace's id. */
const seekerSearchScope = (seeker: Seeker, { mailbox }: ThreadFilters, mailboxes: Asked["mailboxes"]): SearchScope => ({
  mailboxIds: [...mailboxes.keys()],
  workspaceId:
    mailbox === undefined && seeker.role !== "member" && !isLimitedToMailboxes(seeker) ? seeker.workspaceId : undefined,
});

/** The positions after the last shown one; if that is no longer among them, from its place on. */
function bestAfter(best: readonly Position[], { seq, place }: Position): readonly Position[] {
  if (place === undefined) return [];
  const last = best.findIndex((position) => position.seq === seq);
  return best.slice(last === -1 ? place : last + 1);
}

/** The views of the conversations at these positions, in this order, each with its threads.seq. */
function readThreadViews(
  db: Db,
  positions: readonly Position[],
  mailboxes: ReadonlyMap<string, Reach>,
): [seq: number, view: ThreadView][] {
  const seqs = positions.map(({ seq }) => seq);
  const rows = new Map(
    statements(db)
      .rows.all({ seqs: JSON.stringify(seqs) })
      .map((row) => [row.seq, row]),
  );
  const labels = listThreadLabels(db, seqs);
  return seqs.flatMap((seq) => {
    const row = rows.get(seq);
    const reach = row && mailboxes.get(row.mailboxId);
    return row && reach ? [[seq, threadView(row, reach, labels.get(seq) ?? [])]] : [];
  });
}

/*
 * Unread marks: which conversations of a list are unread, one bit each, for counting them, all or among a hundred
 * thousand matches (rules: Thread list fields). Counting some thousands in the index takes longer than the rest of a page,
 * and reading them all as long as a search. The marks of the most recent lists are therefore kept and updated from the
 * change feed (change-feed.ts), so the result always equals that of the rows.
 */

/** Number of lists kept: some ten kB each, for a mailbox of a hundred thousand conversations. */
const KEPT_LISTS = 64;
/** From this many changes on, reading everything again is cheaper. */
const MANY_CHANGES = 1_000;

interface Marks {
  unread: SeqSet;
  /** The last change that is included. */
  through: number;
}

function mark({ unread }: Marks, seq: number, isUnread: boolean): void {
  const bit = 1 << (seq & 31);
  unread[seq >>> 5] = isUnread ? (unread[seq >>> 5] ?? 0) | bit : (unread[seq >>> 5] ?? 0) & ~bit;
}

function readMarks(db: Db, ids: readonly string[], selection: Selection): Marks {
  const through = latestChange(db);
  return { unread: createSeqSet(listUnreadThreads(db, ids, selection)), through };
}

/** Applies the changes since the last one included; false if there are too many, or the feed no longer has them. */
function catchUp(db: Db, ids: readonly string[], selection: Selection, marks: Marks): boolean {
  const changes = changesSince(db, marks.through, MANY_CHANGES);
  if (changes === undefined || changes.length === MANY_CHANGES) return false;
  if (changes.length === 0) return true;
  const mailboxIds = new Set(ids);
  const seqs = changes.flatMap(({ threadSeq, mailboxId }) =>
    threadSeq !== null && mailboxId !== null && mailboxIds.has(mailboxId) ? threadSeq : [],
  );
  marks.unread = growSeqSet(marks.unread, Math.max(0, ...seqs));
  for (const seq of seqs) mark(marks, seq, false);
  for (const { seq } of selectAmongThreads(db, seqs, mailboxIds, { ...selection, unread: true }))
    mark(marks, seq, true);
  marks.through = changes.at(-1)?.seq ?? marks.through;
  return true;
}

/** The marks of the latest lists of a database, by list. */
const markCache = perDatabase(() => new Map<string, Marks>());

/** The unread conversations of a selection; the set is valid until something changes. */
export function findUnreadThreadSet(db: Db, mailboxIds: readonly string[], selection: Selection): SeqSet {
  const cache = markCache(db);
  const list = JSON.stringify([mailboxIds, { ...selection, unread: true }]);
  const known = cache.get(list);
  const marks = known && catchUp(db, mailboxIds, selection, known) ? known : readMarks(db, mailboxIds, selection);
  cache.delete(list);
  cache.set(list, marks);
  const [leastRecent] = cache.keys();
  if (cache.size > KEPT_LISTS && leastRecent !== undefined) cache.delete(leastRecent);
  return marks.unread;
}
