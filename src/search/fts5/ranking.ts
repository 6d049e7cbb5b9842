/**
 * The embedded engine's order of relevance: a word weighs more if fewer messages contain it, if it occurs often, in a
 * short message, and by field. FTS5's bm25 does this, but counts everybody's messages: the order of a caller's own mail
 * could reveal words in mail out of their reach. For callers who do not reach everything, each word is therefore scored
 * separately, and its rarity is counted within the scope.
 *
 * Invariants: only the given conversations are scored; the caller has checked access. The number of scored messages is
 * bounded for any query. Beyond that, a word costs about as much as finding it did.
 */
import type { Store } from "../../store/store.ts";
import { messageOf, threadOf, threadSql } from "../document-number.ts";
import type { Ranked, SearchScope } from "../engine.ts";
import type { Query } from "../query.ts";
import { dateRangeOf, expressionOf, HIT_IS_DATED, isChoice, isEverywhere, scopeOf } from "./fts5.ts";

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

const THREAD_OF_HIT = threadSql("hit.rowid");

/** For a query that contains words, and conversations (threads.seq, ascending) that it finds in the scope. */
export type RankHits = (query: Query, scope: SearchScope, found: readonly number[]) => Ranked[];

/** By document number; a lower bm25 is better. */
type Badness = [document: number, badness: number][];

export function createRanking({ db }: Pick<Store, "db">, mostScored = MOST_SCORED): RankHits {
  const sqlite = db.$client;
  const columns = sqlite.query<{ name: string }, []>("SELECT name FROM pragma_table_info('message_index')").all();
  const weights = columns.map(({ name }) => WEIGHTS[name] ?? 0);
  const badness = `bm25(message_index, ${weights.join(", ")})`;
  const select = (condition: string) =>
    `SELECT json_group_array(json_array(number, badness)) AS scored FROM (
       SELECT rowid AS number, ${badness} AS badness FROM message_index AS hit
       WHERE message_index MATCH ? AND ${condition}
       ORDER BY rowid DESC LIMIT ${mostScored})`;
  const isFound = `${THREAD_OF_HIT} IN (SELECT value FROM json_each(?))`;
  const selectByWords = sqlite.prepare<{ scored: string }, [string, string]>(select(isFound));
  const selectByBoth = sqlite.prepare<{ scored: string }, [string, string, number, number]>(
    select(`${isFound} AND ${HIT_IS_DATED}`),
  );
  // Without the plus, FTS5 would start a search for each number.
  const selectAmong = sqlite.prepare<{ scored: string }, [string, number, number, string]>(
    select("rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))"),
  );
  const countDocuments = sqlite.prepare<{ n: number }, [string]>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ${MOST_COUNTED})`,
  );
  const scoredIn = (row: { scored: string } | null): Badness => JSON.parse(row?.scored ?? "[]");

  /** The score of these documents (descending): for each word at most 1, times the word's weight. */
  function scoresBy(words: readonly string[], scope: SearchScope, documents: readonly number[]): Map<number, number> {
    const scores = new Map<number, number>();
    const [from, to] = [documents.at(-1) ?? 0, documents[0] ?? 0];
    const among = JSON.stringify(documents);
    for (const word of words) {
      const hits = scoredIn(selectAmong.get(word, from, to, among));
      const best = Math.min(...hits.map(([, bad]) => bad));
      const messages = countDocuments.get(`${scopeOf(scope)} AND ${word}`)?.n ?? 0;
      for (const [document, bad] of hits) {
        scores.set(document, (scores.get(document) ?? 0) + bad / best / Math.log2(2 + messages));
      }
    }
    return scores;
  }

  return ({ message: conditions }, scope, found) => {
    const expression = expressionOf(conditions);
    const among = JSON.stringify(found.slice(-mostScored));
    const range = dateRangeOf(conditions);
    const row = range
      ? selectByBoth.get(expression, among, range.since, range.before)
      : selectByWords.get(expression, among);
    const scored = scoredIn(row);
    const chosen = conditions.filter((condition) => condition.kind === "text" && isChoice(condition));
    const words = [...new Set(chosen.map((condition) => expressionOf([condition])))].slice(0, MOST_WORDS);
    // The rarity of a single word does not affect the order.
    const scores =
      words.length === 1 || isEverywhere(db, scope)
        ? new Map(scored.map(([document, bad]) => [document, -bad]))
        : scoresBy(
            words,
            scope,
            scored.map(([document]) => document),
          );
    return bestOfEach([...scores].map(([document, score]) => ({ thread: threadOf(messageOf(document)), score })));
  };
}

/** Each conversation once, with the score of its best message. */
export function bestOfEach(hits: readonly Ranked[]): Ranked[] {
  const best = new Map<number, number>();
  for (const { thread, score } of hits) best.set(thread, Math.max(score, best.get(thread) ?? score));
  return [...best].map(([thread, score]) => ({ thread, score }));
}
