/**
 * The embedded engine: SQLite's FTS5 over the table message_index, one document per message. Words commit with their
 * mail and are removed with it (a trigger), so the index always matches the mail, except for the backlog (upkeep.ts).
 *
 * All text is folded and quoted before it reaches FTS5, so it cannot be query syntax. The column `scope` holds a token
 * for the mailbox and one for the workspace, which folded text cannot contain: access is a condition of the full-text
 * query itself.
 *
 * Below the engine are its parts: results kept between searches, the filter by date and size, and a look-up of words
 * that occur.
 */
import { letOthersRun } from "../../base/pause.ts";
import { FOLDERS, MESSAGES_PER_THREAD } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Db, Store } from "../../store/store.ts";
import {
  documentThreadSet,
  formatMessageSeqSql,
  formatThreadSeqSql,
  isNearDocument,
  toDocumentNumber,
  toMessageSeq,
} from "../document-number.ts";
import type { DocumentScope, SearchEngine, SearchIndex, SearchScope } from "../engine.ts";
import { type IndexDocument, isStandaloneToken, partOfToken, tokensWithin } from "../fold.ts";
import { LONGEST_PHRASE } from "../missing.ts";
import { type MessageCondition, splitIntoPhrases, type TextCondition, type TextField, toFieldToken } from "../query.ts";
import { createSeqSet, isInSeqSet, type SeqSet } from "../sets.ts";
import { beginIndexBacklog, countIndexBacklog, endIndexBacklog, postponeIndexing } from "./upkeep.ts";

/**
 * The column filter of a field. `any` needs none, because no text contains the words of `scope`; a filter would slow
 * FTS5 down.
 */
export const COLUMN_FILTER: Readonly<Record<TextField, string>> = {
  any: "",
  subject: "subject : ",
  sender: "sender : ",
  recipients: "recipients : ",
  cc: "recipients : ",
  files: "files : ",
};

/** Scope tokens begin with a character that folded text never contains. */
const scopeToken = (name: string): string => `\ue100${name.toLowerCase().replaceAll(/[^a-z0-9]/g, "")}`;
const HAS_ATTACHMENT = scopeToken("has attachment");

/** Most mailboxes outside the scope that a query excludes instead of naming those inside. */
const MOST_EXCLUDED = 8;

/**
 * Pages written by one step of a merge while nothing else is to do, and segments of a level that are worth one: where mail
 * comes one by one, merges of two would write the whole index again every few messages.
 */
const IDLE_STEP = { pages: 32, segments: 8 };
/**
 * Merge step while mail is filed: fewer and longer than IDLE_STEP, because each also writes to every segment that it merges.
 */
const FILING_STEP = { pages: 128, segments: 16 };
/** Pages that merges write for a document: each page of it about four times, at one level of the index after the other. */
const estimateMergedPages = ({ body }: IndexDocument): number => 4 + body.length / 2_048;

/** Letters of a token that is looked up by its beginning: fewer begin too many. */
const SHORTEST_BEGINNING = 3;

/**
 * The FTS5 expression that bodies match in which a text occurs, and whether the text is one word. Undefined for a text that
 * is too little. Where a text begins within a word, only the words after it are known.
 */
function buildBodyExpression(text: string): { expression: string; isWord: boolean } | undefined {
  const word = partOfToken(text);
  const tokens = word === undefined ? tokensWithin(text).slice(0, LONGEST_PHRASE) : [word];
  const last = tokens.at(-1) ?? "";
  if (last.length < SHORTEST_BEGINNING && !isStandaloneToken(last)) tokens.pop();
  if (tokens.length === 0) return undefined;
  return { expression: `body : "${tokens.join(" ")}" *`, isWord: word !== undefined };
}

/** The FTS5 phrases, distinct, that a message with the text has. */
export function listFtsPhrases(condition: TextCondition): string[] {
  const filter = COLUMN_FILTER[condition.field];
  return [...new Set(splitIntoPhrases(condition).map((tokens) => `${filter}"${tokens.join(" ")}"`))];
}

const textExpression = (condition: TextCondition): string => `(${listFtsPhrases(condition).join(" AND ")})`;

function scopeExpression(tokens: readonly string[]): string {
  return `scope : (${tokens.map((token) => `"${token}"`).join(" OR ")})`;
}

/** The part of an expression that restricts access. Every document has a scope token. */
export function buildScopeExpression({ mailboxIds, workspaceId }: SearchScope): string {
  const ids = workspaceId === undefined ? mailboxIds : [workspaceId];
  return scopeExpression(ids.map(scopeToken));
}

const listOtherMailboxes = statement<{ ids: string }, [string]>(
  `SELECT json_group_array(id) AS ids FROM
     (SELECT id FROM mailboxes WHERE id NOT IN (SELECT value FROM json_each(?)) LIMIT ${MOST_EXCLUDED + 1})`,
);

/** Mailboxes outside the scope, at most one more than can be excluded. */
const mailboxesOutside = (db: Db, { mailboxIds }: SearchScope): string[] =>
  JSON.parse(listOtherMailboxes(db).get(JSON.stringify(mailboxIds))?.ids ?? "[]");

/** True if no mailbox lies outside the scope. */
export const coversAllMailboxes = (db: Db, scope: SearchScope): boolean => mailboxesOutside(db, scope).length === 0;

/** True if a condition on words or attachments selects documents; false if it only excludes some. */
const selectsDocuments = (condition: MessageCondition): boolean =>
  (condition.kind === "text" || condition.kind === "attachment") && !condition.negated;

/** The FTS5 expression for `wanted` and the conditions. One of them must select documents: NOT needs a left operand. */
export function buildFtsExpression(conditions: readonly MessageCondition[], ...wanted: string[]): string {
  const unwanted: string[] = [];
  for (const condition of conditions) {
    if (condition.kind === "text") (condition.negated ? unwanted : wanted).push(textExpression(condition));
    if (condition.kind === "attachment") {
      (condition.negated ? unwanted : wanted).push(scopeExpression([HAS_ATTACHMENT]));
    }
  }
  const expression = wanted.join(" AND ");
  return unwanted.length === 0 ? expression : `(${expression}) NOT (${unwanted.join(" OR ")})`;
}

/** Epoch ms and bytes: `since` and `atLeast` are inclusive, `before` and `below` exclusive. */
export interface Range {
  since: number;
  before: number;
  atLeast: number;
  below: number;
}

type RangeCondition = Exclude<MessageCondition, { negated: boolean }>;
const isOfRange = (condition: MessageCondition): condition is RangeCondition => !("negated" in condition);

/** Undefined without conditions on dates and sizes. */
export function findDateAndSizeRange(conditions: readonly MessageCondition[]): Range | undefined {
  const bounds = conditions.filter(isOfRange);
  if (bounds.length === 0) return undefined;
  const of = (kind: RangeCondition["kind"]) =>
    bounds.filter((one) => one.kind === kind).map((one) => ("at" in one ? one.at : one.bytes));
  return {
    since: Math.max(Number.MIN_SAFE_INTEGER, ...of("since")),
    before: Math.min(Number.MAX_SAFE_INTEGER, ...of("before")),
    atLeast: Math.max(0, ...of("atLeast")),
    below: Math.min(Number.MAX_SAFE_INTEGER, ...of("below")),
  };
}

/** The parameters of HIT_IS_IN_RANGE. */
export type RangeParameters = [since: number, before: number, atLeast: number, below: number];
export const toRangeParameters = ({ since, before, atLeast, below }: Range): RangeParameters => [
  since,
  before,
  atLeast,
  below,
];

/** True if the row of a message in SQL lies in a range. */
const IN_RANGE = "date >= ? AND date < ? AND size >= ? AND size < ?";

/** True if `document` is one of a message in a range. */
const isInRange = (document: string): string => `EXISTS (
  SELECT 1 FROM messages INDEXED BY messages_by_thread
  WHERE thread_seq = ${formatThreadSeqSql(document)} AND seq = ${formatMessageSeqSql(document)} AND ${IN_RANGE})`;

/**
 * The SQL condition that `message_index AS hit` lies in a range. It names the SQL index because SQLite would else read
 * the table, whose rows are a hundred times as long.
 */
export const HIT_IS_IN_RANGE = isInRange("hit.rowid");

const ALL_FOLDERS = JSON.stringify(FOLDERS);
const IN_MAILBOXES = `messages INDEXED BY messages_by_folder
  WHERE mailbox_id IN (SELECT value FROM json_each(?1)) AND folder IN (SELECT value FROM json_each('${ALL_FOLDERS}'))`;

const selectStored = statement<{ hasAttachments: number }, [number]>(
  "SELECT has_attachments AS hasAttachments FROM messages WHERE seq = ?",
);
// One row of VALUES: INSERT … SELECT opens a statement journal, at which FTS5 writes out its pending data.
const insert = statement<unknown, [number, string, string, string, string, string, string]>(
  "INSERT INTO message_index (rowid, body, subject, sender, recipients, files, scope) VALUES (?, ?, ?, ?, ?, ?, ?)",
);
const remove = statement<unknown, [number]>("DELETE FROM message_index WHERE rowid = ?");
// FTS5 yields rowids in ascending order. One string with a JSON array takes a third of the time of as many rows.
const selectDocuments = statement<{ documents: string }, [string]>(
  "SELECT json_group_array(rowid) AS documents FROM message_index WHERE message_index MATCH ?",
);
const selectInRange = statement<{ threads: string }, [string, ...RangeParameters]>(
  `SELECT json_group_array(seq / ${MESSAGES_PER_THREAD}) AS threads FROM ${IN_MAILBOXES} AND ${IN_RANGE}`,
);
const prune = statement(
  `DELETE FROM message_index WHERE rowid IN
     (SELECT id FROM message_index_docsize WHERE ${formatMessageSeqSql("id")} NOT IN (SELECT seq FROM messages))`,
);
const empty = statement("INSERT INTO message_index (message_index) VALUES ('delete-all')");
const command = statement<unknown, [string, number]>("INSERT INTO message_index (message_index, rank) VALUES (?, ?)");
const selectOption = statement<{ value: number }, [string]>("SELECT v AS value FROM message_index_config WHERE k = ?");
const totalChanges = statement<{ n: number }, []>("SELECT total_changes() AS n");
// A pragma, because FTS5's own command writes, which blocks other writers.
const quickCheck = statement<{ quick_check: string }>("PRAGMA quick_check(message_index)");

/** The embedded index of a database, as far as it is read. */
export type Fts5Index = SearchIndex & {
  /** The messages (messages.seq, ascending) in scope that satisfy the conditions on words. */
  messagesMatching(conditions: readonly MessageCondition[], scope: SearchScope): number[];
};

export function createFts5Index(db: Db): Fts5Index {
  const keepInRange = createRangeFilter(db);
  const keepSet = createSetCache(db);
  const documentsMatching = (expression: string): number[] =>
    JSON.parse(selectDocuments(db).get(expression)?.documents ?? "[]");

  /**
   * The FTS5 expression for the conditions, and `wanted`, in scope. A term that most documents have is slow to look up, so if few
   * mailboxes are outside the scope, the expression excludes those instead of naming those inside.
   */
  function expressionInScope(conditions: readonly MessageCondition[], scope: SearchScope, ...wanted: string[]): string {
    if (wanted.length > 0 || conditions.some(selectsDocuments)) {
      const others = mailboxesOutside(db, scope);
      if (others.length === 0) return buildFtsExpression(conditions, ...wanted);
      if (others.length <= MOST_EXCLUDED && others.length < scope.mailboxIds.length) {
        return `(${buildFtsExpression(conditions, ...wanted)}) NOT ${scopeExpression(others.map(scopeToken))}`;
      }
    }
    return buildFtsExpression(conditions, buildScopeExpression(scope), ...wanted);
  }

  function find(conditions: readonly MessageCondition[], scope: SearchScope): SeqSet {
    const range = findDateAndSizeRange(conditions);
    const mailboxIds = JSON.stringify(scope.mailboxIds);
    if (range && conditions.every(isOfRange)) {
      const found: number[] = JSON.parse(
        selectInRange(db).get(mailboxIds, ...toRangeParameters(range))?.threads ?? "[]",
      );
      return createSeqSet(found);
    }
    const found = documentsMatching(expressionInScope(conditions, scope));
    return documentThreadSet(range ? keepInRange(found, range, mailboxIds) : found);
  }

  return {
    match: ({ message: conditions }, scope) =>
      scope.mailboxIds.length === 0
        ? createSeqSet([])
        : keepSet(JSON.stringify([conditions, scope]), () => find(conditions, scope)),

    inBodies(text, mailboxId) {
      const asked = countIndexBacklog(db) === 0 ? buildBodyExpression(text) : undefined;
      if (!asked) return undefined;
      const expression = expressionInScope([], { mailboxIds: [mailboxId] }, asked.expression);
      return { messages: documentsMatching(expression).map(toMessageSeq), isWord: asked.isWord };
    },

    messagesMatching: (conditions, scope) =>
      documentsMatching(buildFtsExpression(conditions, buildScopeExpression(scope)))
        .map(toMessageSeq)
        .sort((a, b) => a - b),
  };
}

export function createFts5Engine(store: Pick<Store, "db" | "beforeCommit">): SearchEngine & Fts5Index {
  const { db } = store;

  function setOption(name: string, value: number): void {
    if (selectOption(db).get(name)?.value !== value) command(db).run(name, value);
  }

  /**
   * Merges segments, up to so many pages; a negative number merges all segments into one, which later steps continue.
   * False if there was nothing to merge. FTS5 itself merges only what would else be too much (crisismerge): its own steps
   * (automerge) take twice as long.
   */
  function merge({ pages, segments }: typeof IDLE_STEP): boolean {
    setOption("automerge", 0);
    setOption("usermerge", segments);
    const before = totalChanges(db).get()?.n ?? 0;
    command(db).run("merge", pages);
    return (totalChanges(db).get()?.n ?? 0) - before >= 2;
  }

  /** Pages that merges have yet to write for filed documents. */
  let unmerged = 0;

  function index(messageSeq: number, { workspaceId, mailboxId }: DocumentScope, document: IndexDocument): void {
    const { subject, body, sender, recipients, files } = document;
    const stored = selectStored(db).get(messageSeq);
    if (!stored) throw new Error(`message ${messageSeq} is not stored, so it cannot be indexed`);
    const scope = [workspaceId, mailboxId].map(scopeToken).join(" ");
    const scopeAndFlag = stored.hasAttachments === 0 ? scope : `${scope} ${HAS_ATTACHMENT}`;
    insert(db).run(toDocumentNumber(messageSeq), body, subject, sender, recipients, files, scopeAndFlag);
  }

  /**
   * All documents of a transaction are written together at its end, in order of their numbers: another write in
   * between, or a lower number, would make FTS5 write out a segment, at twice the cost. After some documents follows a
   * step of a merge.
   */
  function atEnd(messageSeq: number, document: IndexDocument, work: () => void): void {
    store.beforeCommit(work, toDocumentNumber(messageSeq));
    unmerged += estimateMergedPages(document);
    if (unmerged < FILING_STEP.pages) return;
    unmerged = 0;
    store.beforeCommit(() => merge(FILING_STEP), Number.POSITIVE_INFINITY);
  }

  function replace(messageSeq: number, scope: DocumentScope, document: IndexDocument): void {
    atEnd(messageSeq, document, () => {
      remove(db).run(toDocumentNumber(messageSeq));
      index(messageSeq, scope, document);
    });
  }

  return {
    ...createFts5Index(db),
    isExternal: () => false,

    add: (_tx, messageSeq, scope, document) => atEnd(messageSeq, document, () => index(messageSeq, scope, document)),

    addLater: postponeIndexing,

    replace: (_tx, ...entry) => replace(...entry),
    rewrite: (_tx, ...entry) => replace(...entry),
    refill: () => {},
    pending: () => undefined,

    prune: () => void prune(db).run(),
    isDamaged: () => quickCheck(db).get()?.quick_check !== "ok",
    empty(tx) {
      empty(db).run();
      beginIndexBacklog(tx);
    },
    complete: endIndexBacklog,

    maintain: () => merge(IDLE_STEP),

    purge: (begin) => merge(begin ? { ...IDLE_STEP, pages: -IDLE_STEP.pages } : IDLE_STEP) || begin,
  };
}

/*
 * Keeps the results of the latest searches until the next write, so that further pages and repeated searches do not
 * read a hundred thousand hits from the index again. Any write, by this process or another, discards them all, so
 * results always equal those of the index. A set takes one bit per conversation: an eighth of a megabyte for a million.
 */

const KEPT = 8;

// Rows changed over this connection, and a value that changes with every commit over others.
const selectWritten = statement<{ own: number; others: number }, []>(
  "SELECT total_changes() AS own, data_version AS others FROM pragma_data_version",
);

/** Returns the set for a question, calling `find` if it is not kept. The set is shared: do not modify it. */
export function createSetCache(db: Db, most = KEPT) {
  const cache = new Map<string, SeqSet>();
  let written = selectWritten(db).get();
  return (question: string, find: () => SeqSet): SeqSet => {
    const now = selectWritten(db).get();
    if (now?.own !== written?.own || now?.others !== written?.others) cache.clear();
    written = now;
    const set = cache.get(question) ?? find();
    cache.delete(question);
    cache.set(question, set);
    const [leastRecent] = cache.keys();
    if (cache.size > most && leastRecent !== undefined) cache.delete(leastRecent);
    return set;
  };
}

/*
 * Filters many hits by date and size. Looking each up by number takes several times as long as finding it. If that is
 * cheaper, the messages inside or outside the range are read from the index by date and compared.
 */

/** Up to this many hits are looked up one by one. */
const FEW = 1_000;
/** Messages that can be read by date in slightly less than the time of one look-up. */
const READ_FOR_EACH = 3;

/** A JSON array. */
interface Numbers {
  numbers: string;
}

const dateAt = (order: string) =>
  `(SELECT date FROM messages INDEXED BY messages_by_folder
    WHERE mailbox_id = mailbox.value AND folder = part.value ORDER BY date ${order} LIMIT 1)`;
const selectWithin = statement<Numbers & { read: number }, [string, ...RangeParameters, number]>(
  `SELECT json_group_array(seq) FILTER (WHERE size >= ?4 AND size < ?5) AS numbers, count(*) AS read
   FROM (SELECT seq, size FROM ${IN_MAILBOXES} AND date >= ?2 AND date < ?3 LIMIT ?6)`,
);
const selectBeyond = statement<Numbers & { read: number }, [string, number, number, number]>(
  `SELECT json_group_array(seq) AS numbers, count(*) AS read FROM (
     SELECT seq FROM ${IN_MAILBOXES} AND date < ?2 UNION ALL SELECT seq FROM ${IN_MAILBOXES} AND date >= ?3 LIMIT ?4)`,
);
const selectSpan = statement<{ first: number | null; last: number | null }, [string]>(
  `SELECT min(${dateAt("ASC")}) AS first, max(${dateAt("DESC")}) AS last
   FROM json_each(?) AS mailbox, json_each('${ALL_FOLDERS}') AS part`,
);
const selectLookedUp = statement<Numbers, [string, ...RangeParameters]>(
  `SELECT json_group_array(value) AS numbers FROM json_each(?) WHERE ${isInRange("value")}`,
);

/** Filters documents in the given mailboxes (a JSON array of ids) by the range of their messages, in the same order. */
export function createRangeFilter(db: Db, { few = FEW, readForEach = READ_FOR_EACH } = {}) {
  const numbersIn = (row: Numbers | null): number[] => JSON.parse(row?.numbers ?? "[]");

  /** True if most of the mail probably lies between the dates, assuming it arrived evenly. */
  function isMostWithin({ since, before }: Range, mailboxIds: string): boolean {
    const { first, last } = selectSpan(db).get(mailboxIds) ?? {};
    if (first == null || last == null) return true;
    return Math.min(before, last) - Math.max(since, first) > (last - first) / 2;
  }

  return (documents: readonly number[], range: Range, mailboxIds: string): readonly number[] => {
    const { since, before, atLeast, below } = range;
    if (documents.length > few) {
      const most = documents.length * readForEach;
      const isWithin = atLeast > 0 || below < Number.MAX_SAFE_INTEGER || !isMostWithin(range, mailboxIds);
      const row = isWithin
        ? selectWithin(db).get(mailboxIds, ...toRangeParameters(range), most)
        : selectBeyond(db).get(mailboxIds, since, before, most);
      if (row && row.read < most) {
        const isRead = membershipOfDocuments(numbersIn(row).map(toDocumentNumber));
        return documents.filter((document) => isRead(document) === isWithin);
      }
    }
    return numbersIn(selectLookedUp(db).get(JSON.stringify(documents), ...toRangeParameters(range)));
  };
}

/** Bits for the dense numbers, a Set for the others. */
function membershipOfDocuments(documents: readonly number[]): (document: number) => boolean {
  const far = new Set(documents.filter((document) => !isNearDocument(document)));
  const near = createSeqSet(far.size === 0 ? documents : documents.filter(isNearDocument));
  return (document) => (isNearDocument(document) ? isInSeqSet(near, document) : far.has(document));
}

/*
 * Tells which words occur in the mail of given mailboxes. Each query is restricted to the scope, as in a search, so a
 * word that only other mail contains is unknown. (FTS5's own vocabulary, fts5vocab, covers all workspaces and reads all
 * positions of a word.)
 */

/** Words per query; this many take about a millisecond. */
const AT_ONCE = 32;

const selectCount = statement<{ n: number }, [string, number]>(
  "SELECT count(*) AS n FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ?)",
);

function countAny(db: Db, words: readonly string[], field: TextField, scope: SearchScope, most: number): number {
  const anyOf = `${COLUMN_FILTER[field]}(${words.map((word) => `"${toFieldToken(field, word)}"`).join(" OR ")})`;
  return selectCount(db).get(buildFtsExpression([], buildScopeExpression(scope), anyOf), most)?.n ?? 0;
}

/** The number of messages with the word, up to `most`. */
export const countWord = (db: Db, word: string, field: TextField, scope: SearchScope, most: number): number =>
  countAny(db, [word], field, scope, most);

/** The words that occur. Searches by halves, because most do not. */
function knownAmong(db: Db, words: readonly string[], field: TextField, scope: SearchScope): string[] {
  if (words.length === 0 || countAny(db, words, field, scope, 1) === 0) return [];
  if (words.length === 1) return [...words];
  const middle = words.length >> 1;
  return [
    ...knownAmong(db, words.slice(0, middle), field, scope),
    ...knownAmong(db, words.slice(middle), field, scope),
  ];
}

/** The folded words that occur in the field of a message in scope. Yields to other requests in between. */
export async function knownWords(
  db: Db,
  words: readonly string[],
  field: TextField,
  scope: SearchScope,
): Promise<string[]> {
  const known: string[] = [];
  if (scope.mailboxIds.length === 0) return known;
  for (let at = 0; at < words.length; at += AT_ONCE) {
    known.push(...knownAmong(db, words.slice(at, at + AT_ONCE), field, scope));
    await letOthersRun();
  }
  return known;
}
