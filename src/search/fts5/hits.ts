/**
 * Finds and scores the messages of given conversations that satisfy a query. It asks the embedded index, which always
 * knows all mail, whichever engine found the conversations. The caller has checked access.
 */
import { statement } from "../../store/statement.ts";
import type { Store } from "../../store/store.ts";
import {
  findFirstWholeThread,
  formatThreadSeqSql,
  listDocumentRanges,
  type NumberRange,
  threadOfDocument,
  toMessageSeq,
  toThreadSeq,
} from "../document-number.ts";
import type { Ranked, SearchScope } from "../engine.ts";
import { foldText } from "../fold.ts";
import type { Query } from "../query.ts";
import {
  buildFtsExpression,
  buildScopeExpression,
  COLUMN_FILTER,
  coversAllMailboxes,
  findDateAndSizeRange,
  HIT_IS_IN_RANGE,
  listFtsPhrases,
  type RangeParameters,
  toRangeParameters,
} from "./fts5.ts";

/** Hits read to cover all conversations at once; opening the index costs as much as some hundred. */
const MOST_AT_ONCE = 1_000;

const hitsIn = (condition: string) =>
  `SELECT json_group_array(number) AS numbers FROM (
     SELECT rowid AS number FROM message_index AS hit
     WHERE message_index MATCH ? AND rowid BETWEEN ? AND ? ${condition}
     ORDER BY rowid DESC LIMIT ?)`;
const selectByWords = statement<{ numbers: string }, [string, number, number, number]>(hitsIn(""));
const selectByBoth = statement<{ numbers: string }, [string, number, number, ...RangeParameters, number]>(
  hitsIn(`AND ${HIT_IS_IN_RANGE}`),
);
const selectIndexed = statement<unknown, [number, number]>(
  "SELECT 1 FROM message_index_docsize WHERE id BETWEEN ? AND ? LIMIT 1",
);

/**
 * Makes the function that finds the messages of conversations that satisfy a query; `words`: those that an engine found
 * in place of the query's. Its result maps threads.seq to messages.seq: up to `most` for each conversation, latest
 * filed first.
 */
export function createHitFinder({ db }: Pick<Store, "db">, mostAtOnce = MOST_AT_ONCE) {
  return (
    { message: conditions }: Query,
    words?: readonly string[],
  ): ((threadSeqs: readonly number[], most: number) => Map<number, number[]>) => {
    // The engine did not name the words.
    if (words?.length === 0) return () => new Map();
    const others = words ? conditions.filter((one) => one.kind !== "text" || one.negated) : conditions;
    const instead = words?.map((word) => `"${foldText(word)}"`).join(" OR ");
    const expression = buildFtsExpression(
      others,
      ...(instead === undefined ? [] : [`(${COLUMN_FILTER.any}(${instead}))`]),
    );
    const range = findDateAndSizeRange(conditions);

    /** The latest `limit` of these documents. */
    function hitsBetween({ from, to }: NumberRange, limit: number): number[] {
      const row = range
        ? selectByBoth(db).get(expression, from, to, ...toRangeParameters(range), limit)
        : selectByWords(db).get(expression, from, to, limit);
      return JSON.parse(row?.numbers ?? "[]");
    }

    const listIndexedRanges = (first: number, last: number): NumberRange[] =>
      listDocumentRanges(first, last).filter(({ from, to }) => selectIndexed(db).get(from, to) !== null);

    return (threadSeqs, most) => {
      const hits = new Map<number, number[]>(threadSeqs.map((threadSeq) => [threadSeq, []]));
      if (threadSeqs.length === 0) return hits;
      // Conversations far apart: those before the last one covered are queried one by one.
      let complete = 0;
      for (const numbers of listIndexedRanges(Math.min(...threadSeqs), Math.max(...threadSeqs))) {
        const together = hitsBetween(numbers, mostAtOnce);
        for (const document of together) {
          const found = hits.get(threadOfDocument(document));
          if (found && found.length < most) found.push(toMessageSeq(document));
        }
        const last = together.at(-1);
        if (last === undefined || together.length < mostAtOnce) continue;
        complete = Math.max(complete, findFirstWholeThread(numbers, last));
      }
      for (const threadSeq of threadSeqs) {
        if (threadSeq >= complete) continue;
        const found = listIndexedRanges(threadSeq, threadSeq).flatMap((numbers) => hitsBetween(numbers, most));
        hits.set(threadSeq, found.slice(0, most).map(toMessageSeq));
      }
      return hits;
    };
  };
}

/*
 * The embedded engine's order of relevance. A word weighs more if fewer messages contain it, if it occurs often, in a
 * short message, and by field. FTS5's bm25 does this, but counts all messages of the server: the order of a caller's
 * own mail could reveal words in mail out of reach. For callers who do not reach everything, each word is therefore
 * scored separately, and its rarity is counted within the scope.
 *
 * Only the given conversations are scored, and the number of scored messages and words is bounded for any query: bm25
 * compares each occurrence of a word with each other word. Beyond that, a word costs about as much as finding it did.
 */

/** Weight of a word, by column of message_index. */
const WEIGHTS: Readonly<Record<string, number>> = {
  subject: 8,
  sender: 4,
  recipients: 2,
  body: 1,
  files: 0.5,
  scope: 0,
};

/** Most messages scored, and most of their conversations, newest first: 5,000 take 10 to 16 ms. */
const MOST_SCORED = 3_000;
/** Only the first words or phrases decide: each costs as much as finding it did. */
const MOST_WORDS = 6;
/** Messages counted per word; more frequent words count as equally common. */
const MOST_COUNTED = 5_000;

const THREAD_OF_HIT = formatThreadSeqSql("hit.rowid");

const selectColumns = statement<{ name: string }>("SELECT name FROM pragma_table_info('message_index')");
const countDocuments = statement<{ n: number }, [string]>(
  `SELECT count(*) AS n FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ${MOST_COUNTED})`,
);

/** bm25 by document number; lower is better. */
type Badness = [document: number, badness: number][];

/**
 * Makes the function that scores conversations for a query with words. `threads`: those (threads.seq, ascending)
 * that the query finds in the scope.
 */
export function createRanking({ db }: Pick<Store, "db">, mostScored = MOST_SCORED) {
  const columns = selectColumns(db).all();
  const weights = columns.map(({ name }) => WEIGHTS[name] ?? 0);
  const badness = `bm25(message_index, ${weights.join(", ")})`;
  const select = (score: string, condition: string) =>
    `SELECT json_group_array(json_array(number, badness)) AS scored FROM (
       SELECT rowid AS number, ${score} AS badness FROM message_index AS hit
       WHERE message_index MATCH ? AND ${condition}
       ORDER BY rowid DESC LIMIT ${mostScored})`;
  const isFound = `${THREAD_OF_HIT} IN (SELECT value FROM json_each(?))`;
  const finding = (score: string) => ({
    byWords: statement<{ scored: string }, [string, string]>(select(score, isFound)),
    byBoth: statement<{ scored: string }, [string, string, ...RangeParameters]>(
      select(score, `${isFound} AND ${HIT_IS_IN_RANGE}`),
    ),
  });
  const [found, foundAndScored] = [finding("0"), finding(badness)];
  // Without the plus, FTS5 would start a search for each number.
  const selectAmong = statement<{ scored: string }, [string, number, number, string]>(
    select(badness, "rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))"),
  );
  const scoredIn = (row: { scored: string } | null): Badness => JSON.parse(row?.scored ?? "[]");

  /** Those of these documents (descending) that match the expression. */
  const scoredAmong = (expression: string, documents: readonly number[]): Badness =>
    scoredIn(selectAmong(db).get(expression, documents.at(-1) ?? 0, documents[0] ?? 0, JSON.stringify(documents)));

  /** The score of these documents (descending): for each word at most 1, times the word's weight. */
  function scoresBy(words: readonly string[], scope: SearchScope, documents: readonly number[]): Map<number, number> {
    const scores = new Map<number, number>();
    for (const word of words) {
      const hits = scoredAmong(word, documents);
      const best = Math.min(...hits.map(([, bad]) => bad));
      const messages = countDocuments(db).get(`${buildScopeExpression(scope)} AND ${word}`)?.n ?? 0;
      for (const [document, bad] of hits) {
        scores.set(document, (scores.get(document) ?? 0) + bad / best / Math.log2(2 + messages));
      }
    }
    return scores;
  }

  return ({ message: conditions }: Query, scope: SearchScope, threads: readonly number[]): Ranked[] => {
    const texts = conditions.filter((condition) => condition.kind === "text");
    const words = [...new Set(texts.filter(({ negated }) => !negated).flatMap(listFtsPhrases))].slice(0, MOST_WORDS);
    // The rarity of a single word does not affect the order.
    const isTogether = words.length === 1 || coversAllMailboxes(db, scope);
    const isAtOnce = isTogether && texts.flatMap(listFtsPhrases).length <= MOST_WORDS;
    const { byWords, byBoth } = isAtOnce ? foundAndScored : found;
    const expression = buildFtsExpression(conditions);
    const among = JSON.stringify(threads.slice(-mostScored));
    const range = findDateAndSizeRange(conditions);
    const hits = scoredIn(
      range ? byBoth(db).get(expression, among, ...toRangeParameters(range)) : byWords(db).get(expression, among),
    );
    const documents = hits.map(([document]) => document);
    const scores = isTogether
      ? new Map(
          (isAtOnce ? hits : scoredAmong(words.join(" AND "), documents)).map(([document, bad]) => [document, -bad]),
        )
      : scoresBy(words, scope, documents);
    return keepBestHitPerThread(
      [...scores].map(([document, score]) => ({ thread: toThreadSeq(toMessageSeq(document)), score })),
    );
  };
}

/** Each conversation once, with the score of its best message. */
export function keepBestHitPerThread(hits: readonly Ranked[]): Ranked[] {
  const best = new Map<number, number>();
  for (const { thread, score } of hits) best.set(thread, Math.max(score, best.get(thread) ?? score));
  return [...best].map(([thread, score]) => ({ thread, score }));
}
