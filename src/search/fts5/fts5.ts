/**
 * The embedded engine: SQLite's FTS5 over the table message_index, one document per message. Words commit with their
 * mail and are removed with it (a trigger), so the index always matches the mail, except for the backlog (backlog.ts).
 *
 * All text is folded and quoted before it reaches FTS5, so it cannot be query syntax. The column `scope` holds a token
 * for the mailbox and one for the workspace, which folded text cannot contain: access is a condition of the full-text
 * query itself.
 */

import type { Database } from "bun:sqlite";
import { MESSAGES_PER_THREAD } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Store } from "../../store/store.ts";
import { documentNumberOf, isNear, messageOf, messageSql, threadSql, threadsOf } from "../document-number.ts";
import type { DocumentScope, SearchEngine, SearchScope } from "../engine.ts";
import { fold, foldAddress, type IndexDocument } from "../fold.ts";
import type { MessageCondition, TextField } from "../query.ts";
import { has, type SeqSet, setOf } from "../sets.ts";
import { beginBacklog, endBacklog } from "./backlog.ts";

type TextCondition = Extract<MessageCondition, { kind: "text" }>;

/**
 * The column filter of a field. `any` needs none, because no text contains the words of `scope`; a filter would slow
 * FTS5 down.
 */
export const COLUMN_FILTER: Readonly<Record<TextField, string>> = {
  any: "",
  subject: "subject : ",
  sender: "sender : ",
  recipients: "recipients : ",
};

/** Scope tokens begin with a character that folded text never contains. */
const scopeToken = (name: string): string => `\ue100${name.toLowerCase().replaceAll(/[^a-z0-9]/g, "")}`;
const HAS_ATTACHMENT = scopeToken("has attachment");

/** Most mailboxes outside the scope that a query excludes instead of naming those inside. */
const MOST_EXCLUDED = 8;

/** Pages written by one step of a merge. */
const MERGE_PAGES = 32;

function textExpression({ field, text }: TextCondition): string {
  const address = field === "sender" || field === "recipients" ? foldAddress(text) : undefined;
  return `${COLUMN_FILTER[field]}"${address ?? fold(text)}"`;
}

function scopeExpression(tokens: readonly string[]): string {
  return `scope : (${tokens.map((token) => `"${token}"`).join(" OR ")})`;
}

/** The part of an expression that restricts access. Every document has a scope token. */
export function scopeOf({ mailboxIds, workspaceId }: SearchScope): string {
  const ids = workspaceId === undefined ? mailboxIds : [workspaceId];
  return scopeExpression(ids.map(scopeToken));
}

const othersOf = prepared(({ $client: client }) =>
  client.prepare<{ ids: string }, [string]>(
    `SELECT json_group_array(id) AS ids FROM
       (SELECT id FROM mailboxes WHERE id NOT IN (SELECT value FROM json_each(?)) LIMIT ${MOST_EXCLUDED + 1})`,
  ),
);

/** Mailboxes outside the scope, at most one more than can be excluded. */
const beyond = (db: Db, { mailboxIds }: SearchScope): string[] =>
  JSON.parse(othersOf(db).get(JSON.stringify(mailboxIds))?.ids ?? "[]");

/** True if no mailbox lies outside the scope. */
export const isEverywhere = (db: Db, scope: SearchScope): boolean => beyond(db, scope).length === 0;

/** True if a condition selects documents, rather than only excluding others. */
export const isChoice = (condition: MessageCondition): boolean =>
  (condition.kind === "text" || condition.kind === "attachment") && !condition.negated;

/**
 * The FTS5 expression: `wanted` and the conditions. At least one selects documents, because NOT needs a left operand.
 */
export function expressionOf(conditions: readonly MessageCondition[], ...wanted: string[]): string {
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

/** `since` is inclusive, `before` exclusive; undefined without conditions on dates. */
export function dateRangeOf(conditions: readonly MessageCondition[]): TimeRange | undefined {
  const dates = conditions.filter((condition) => condition.kind === "since" || condition.kind === "before");
  if (dates.length === 0) return undefined;
  return {
    since: Math.max(Number.MIN_SAFE_INTEGER, ...dates.flatMap(({ kind, at }) => (kind === "since" ? [at] : []))),
    before: Math.min(Number.MAX_SAFE_INTEGER, ...dates.flatMap(({ kind, at }) => (kind === "before" ? [at] : []))),
  };
}

/**
 * For message_index AS hit: whether it lies between two times. Unforced, SQLite would read the table, whose rows are a
 * hundred times as long as the index's.
 */
export const HIT_IS_DATED = `EXISTS (
  SELECT 1 FROM messages INDEXED BY messages_by_thread
  WHERE thread_seq = ${threadSql("hit.rowid")} AND seq = ${messageSql("hit.rowid")}
    AND date >= ? AND date < ?)`;

export interface Fts5Engine extends SearchEngine {
  /** The messages (messages.seq, ascending) in scope that satisfy the conditions on words. */
  messagesMatching(conditions: readonly MessageCondition[], scope: SearchScope): number[];
}

export function createFts5Engine(store: Pick<Store, "db" | "beforeCommit">): Fts5Engine {
  const sqlite = store.db.$client;
  const selectStored = sqlite.prepare<{ hasAttachments: number }, [number]>(
    "SELECT has_attachments AS hasAttachments FROM messages WHERE seq = ?",
  );
  // One row of VALUES: INSERT … SELECT opens a statement journal, at which FTS5 writes out its pending data.
  const insert = sqlite.prepare<unknown, [number, string, string, string, string, string, string]>(
    "INSERT INTO message_index (rowid, body, subject, sender, recipients, files, scope) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const remove = sqlite.prepare<unknown, [number]>("DELETE FROM message_index WHERE rowid = ?");
  // FTS5 yields rowids in ascending order. One string with a JSON array takes a third of the time of as many rows.
  const selectDocuments = sqlite.prepare<{ documents: string }, [string]>(
    "SELECT json_group_array(rowid) AS documents FROM message_index WHERE message_index MATCH ?",
  );
  const selectByDate = sqlite.prepare<{ threads: string }, [string, number, number]>(
    `SELECT json_group_array(seq / ${MESSAGES_PER_THREAD}) AS threads FROM messages
     WHERE mailbox_id IN (SELECT value FROM json_each(?)) AND date >= ? AND date < ?`,
  );
  const prune = sqlite.prepare(
    `DELETE FROM message_index WHERE rowid IN
       (SELECT id FROM message_index_docsize WHERE ${messageSql("id")} NOT IN (SELECT seq FROM messages))`,
  );
  const empty = sqlite.prepare("INSERT INTO message_index (message_index) VALUES ('delete-all')");
  const merge = sqlite.prepare(`INSERT INTO message_index (message_index, rank) VALUES ('merge', ${MERGE_PAGES})`);
  const totalChanges = sqlite.prepare<{ n: number }, []>("SELECT total_changes() AS n");

  const mergeAll = sqlite.prepare(`INSERT INTO message_index (message_index, rank) VALUES ('merge', ${-MERGE_PAGES})`);

  /** The number of changed rows tells whether FTS5 found anything to merge. */
  function step(statement: typeof merge): boolean {
    const before = totalChanges.get()?.n ?? 0;
    statement.run();
    return (totalChanges.get()?.n ?? 0) - before >= 2;
  }

  const keepDated = createKeepDated(sqlite);
  const keepSet = createKeptSets(sqlite);
  const documentsMatching = (expression: string): number[] =>
    JSON.parse(selectDocuments.get(expression)?.documents ?? "[]");

  /**
   * A term in most documents is slow to look up. Every message is in some mailbox, so if few mailboxes are outside the
   * scope, the query excludes those instead.
   */
  function reachedExpression(conditions: readonly MessageCondition[], scope: SearchScope): string {
    if (conditions.some(isChoice)) {
      const others = beyond(store.db, scope);
      if (others.length === 0) return expressionOf(conditions);
      if (others.length <= MOST_EXCLUDED && others.length < scope.mailboxIds.length) {
        return `(${expressionOf(conditions)}) NOT ${scopeExpression(others.map(scopeToken))}`;
      }
    }
    return expressionOf(conditions, scopeOf(scope));
  }

  function find(conditions: readonly MessageCondition[], scope: SearchScope): SeqSet {
    const range = dateRangeOf(conditions);
    if (range && conditions.every(({ kind }) => kind === "since" || kind === "before")) {
      const mailboxIds = JSON.stringify(scope.mailboxIds);
      const found: number[] = JSON.parse(selectByDate.get(mailboxIds, range.since, range.before)?.threads ?? "[]");
      return setOf(found);
    }
    const found = documentsMatching(reachedExpression(conditions, scope));
    return threadsOf(range ? keepDated(found, range, JSON.stringify(scope.mailboxIds)) : found);
  }

  function index(messageSeq: number, { workspaceId, mailboxId }: DocumentScope, document: IndexDocument): void {
    const { subject, body, sender, recipients, files } = document;
    const stored = selectStored.get(messageSeq);
    if (!stored) throw new Error(`message ${messageSeq} is not stored, so it cannot be indexed`);
    const scope = [workspaceId, mailboxId].map(scopeToken).join(" ");
    const scopeAndFlag = stored.hasAttachments === 0 ? scope : `${scope} ${HAS_ATTACHMENT}`;
    insert.run(documentNumberOf(messageSeq), body, subject, sender, recipients, files, scopeAndFlag);
  }

  /**
   * All documents of a transaction are written together at its end, in order of their numbers: another write in
   * between, or a lower number, would make FTS5 write out a segment, at twice the cost.
   */
  const atEnd = (messageSeq: number, work: () => void): void => store.beforeCommit(work, documentNumberOf(messageSeq));

  function replace(messageSeq: number, scope: DocumentScope, document: IndexDocument): void {
    atEnd(messageSeq, () => {
      remove.run(documentNumberOf(messageSeq));
      index(messageSeq, scope, document);
    });
  }

  return {
    add: (_tx, messageSeq, scope, document) => atEnd(messageSeq, () => index(messageSeq, scope, document)),

    replace: (_tx, ...entry) => replace(...entry),
    rewrite: (_tx, ...entry) => replace(...entry),
    refill: () => {},
    pending: () => undefined,

    prune: () => void prune.run(),
    // A pragma, because FTS5's own command writes, which blocks other writers.
    isDamaged: () =>
      sqlite.prepare<{ quick_check: string }, []>("PRAGMA quick_check(message_index)").get()?.quick_check !== "ok",
    empty(tx) {
      empty.run();
      beginBacklog(tx);
    },
    complete: endBacklog,

    match: ({ message: conditions }, scope) =>
      scope.mailboxIds.length === 0
        ? setOf([])
        : keepSet(JSON.stringify([conditions, scope]), () => find(conditions, scope)),

    messagesMatching: (conditions, scope) =>
      documentsMatching(expressionOf(conditions, scopeOf(scope)))
        .map(messageOf)
        .sort((a, b) => a - b),

    maintain: () => step(merge),

    // A negative number of pages requests a single final segment; later steps continue with it.
    purge: (begin) => step(begin ? mergeAll : merge) || begin,
  };
}

/*
 * Keeps the results of the latest searches until the next write, so that further pages and repeated searches do not
 * read a hundred thousand hits from the index again. Any write, by this process or another, discards them all, so
 * results always equal those of the index. A set takes one bit per conversation: an eighth of a megabyte for a million.
 */

const KEPT = 8;

/** Returns the set for a question, calling `find` if it is not kept. The set is shared: do not modify it. */
export type KeepSet = (question: string, find: () => SeqSet) => SeqSet;

export function createKeptSets(sqlite: Database, most = KEPT): KeepSet {
  // Rows changed over this connection, and a value that changes with every commit over others.
  const selectWritten = sqlite.prepare<{ own: number; others: number }, []>(
    "SELECT total_changes() AS own, data_version AS others FROM pragma_data_version",
  );
  const kept = new Map<string, SeqSet>();
  let written = selectWritten.get();
  return (question, find) => {
    const now = selectWritten.get();
    if (now?.own !== written?.own || now?.others !== written?.others) kept.clear();
    written = now;
    const set = kept.get(question) ?? find();
    kept.delete(question);
    kept.set(question, set);
    const [longestUnasked] = kept.keys();
    if (kept.size > most && longestUnasked !== undefined) kept.delete(longestUnasked);
    return set;
  };
}

/*
 * Filters many hits by date. Looking each up by number takes several times as long as finding it. If that is cheaper,
 * the messages inside or outside the time range are read from the index by date and compared.
 */

/** Epoch ms: inclusive and exclusive. */
export interface TimeRange {
  since: number;
  before: number;
}

/** Filters documents in the given mailboxes (a JSON array of ids) by the dates of their messages, in the same order. */
export type KeepDated = (documents: readonly number[], range: TimeRange, mailboxIds: string) => readonly number[];

/** Up to this many hits are looked up one by one. */
const FEW = 1_000;
/** Messages that can be read by date in slightly less than the time of one look-up. */
const READ_FOR_EACH = 3;

const IN_MAILBOXES = "messages INDEXED BY messages_by_date WHERE mailbox_id IN (SELECT value FROM json_each(?1))";

/** A JSON array. */
interface Numbers {
  numbers: string;
}

export function createKeepDated(sqlite: Database, { few = FEW, readForEach = READ_FOR_EACH } = {}): KeepDated {
  const seqsOf = (messages: string) => `SELECT json_group_array(seq) AS numbers FROM (${messages})`;
  const selectWithin = sqlite.prepare<Numbers, [string, number, number, number]>(
    seqsOf(`SELECT seq FROM ${IN_MAILBOXES} AND date >= ?2 AND date < ?3 LIMIT ?4`),
  );
  const selectBeyond = sqlite.prepare<Numbers, [string, number, number, number]>(
    seqsOf(
      `SELECT seq FROM ${IN_MAILBOXES} AND date < ?2 UNION ALL SELECT seq FROM ${IN_MAILBOXES} AND date >= ?3 LIMIT ?4`,
    ),
  );
  const dateAt = (order: string) =>
    `(SELECT date FROM messages INDEXED BY messages_by_date WHERE mailbox_id = value ORDER BY date ${order} LIMIT 1)`;
  const selectSpan = sqlite.prepare<{ first: number | null; last: number | null }, [string]>(
    `SELECT min(${dateAt("ASC")}) AS first, max(${dateAt("DESC")}) AS last FROM json_each(?)`,
  );
  const selectLookedUp = sqlite.prepare<Numbers, [string, number, number]>(
    `SELECT json_group_array(value) AS numbers FROM json_each(?) WHERE EXISTS (
       SELECT 1 FROM messages INDEXED BY messages_by_thread
       WHERE thread_seq = ${threadSql("value")} AND seq = ${messageSql("value")} AND date >= ? AND date < ?)`,
  );
  const numbersIn = (row: Numbers | null): number[] => JSON.parse(row?.numbers ?? "[]");

  /** True if most of the mail probably lies in the range, assuming it arrived evenly. */
  function isMostWithin({ since, before }: TimeRange, mailboxIds: string): boolean {
    const { first, last } = selectSpan.get(mailboxIds) ?? {};
    if (first == null || last == null) return true;
    return Math.min(before, last) - Math.max(since, first) > (last - first) / 2;
  }

  return (documents, range, mailboxIds) => {
    const { since, before } = range;
    if (documents.length > few) {
      const most = documents.length * readForEach;
      const isWithin = !isMostWithin(range, mailboxIds);
      const read = numbersIn((isWithin ? selectWithin : selectBeyond).get(mailboxIds, since, before, most));
      if (read.length < most) {
        const isRead = membershipOfDocuments(read.map(documentNumberOf));
        return documents.filter((document) => isRead(document) === isWithin);
      }
    }
    return numbersIn(selectLookedUp.get(JSON.stringify(documents), since, before));
  };
}

/** Bits for the dense numbers, a Set for the others. */
function membershipOfDocuments(documents: readonly number[]): (document: number) => boolean {
  const far = new Set(documents.filter((document) => !isNear(document)));
  const near = setOf(far.size === 0 ? documents : documents.filter(isNear));
  return (document) => (isNear(document) ? has(near, document) : far.has(document));
}
