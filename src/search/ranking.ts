/**
 * The embedded engine's order of relevance, FTS5's bm25: a word weighs more the fewer messages have it, the more often it
 * stands in one, the shorter that is, and by the field.
 *
 * Invariants: only conversations that are given are judged; who may read them has been decided. How many messages are
 * judged is bounded, whatever the query. Beside that a word costs about what it cost to find where it stands.
 */
import type { Store } from "../store/store.ts";
import { threadSql } from "./document-number.ts";
import type { Ranked } from "./engine.ts";
import { dateRangeOf, expressionOf, HIT_IS_DATED } from "./fts5.ts";
import type { Query } from "./query.ts";

/** What a word counts for, by the column of message_index that it stands in. */
const WEIGHTS: Readonly<Record<string, number>> = {
  subject: 8,
  sender: 4,
  recipients: 2,
  body: 1,
  files: 0.5,
  scope: 0,
};

/** Messages that are judged, and conversations that they are of, the latest begun: of 5,000 it takes 10 to 16 ms. */
const MOST_JUDGED = 3_000;

const THREAD_OF_HIT = threadSql("hit.rowid");

/** Of a query that wants words, and conversations (threads.seq, ascending) that it finds. */
export type RankHits = (query: Query, found: readonly number[]) => Ranked[];

export function createRanking({ db }: Pick<Store, "db">, mostJudged = MOST_JUDGED): RankHits {
  const sqlite = db.$client;
  const columns = sqlite.query<{ name: string }, []>("SELECT name FROM pragma_table_info('message_index')").all();
  const weights = columns.map(({ name }) => WEIGHTS[name] ?? 0);
  const select = (condition: string) =>
    `SELECT json_group_array(json_array(thread, score)) AS ranked FROM (
       SELECT ${THREAD_OF_HIT} AS thread, bm25(message_index, ${weights.join(", ")}) AS score
       FROM message_index AS hit
       WHERE message_index MATCH ? AND ${THREAD_OF_HIT} IN (SELECT value FROM json_each(?)) ${condition}
       ORDER BY rowid DESC LIMIT ${mostJudged})`;
  const selectByWords = sqlite.prepare<{ ranked: string }, [string, string]>(select(""));
  const selectByBoth = sqlite.prepare<{ ranked: string }, [string, string, number, number]>(
    select(`AND ${HIT_IS_DATED}`),
  );

  return ({ message: conditions }, found) => {
    const expression = expressionOf(conditions);
    const among = JSON.stringify(found.slice(-mostJudged));
    const range = dateRangeOf(conditions);
    const row = range
      ? selectByBoth.get(expression, among, range.since, range.before)
      : selectByWords.get(expression, among);
    // bm25 is less for what is better.
    const hits: [thread: number, badness: number][] = JSON.parse(row?.ranked ?? "[]");
    return bestOfEach(hits.map(([thread, badness]) => ({ thread, score: -badness })));
  };
}

/** Each conversation once, by its best message. */
export function bestOfEach(hits: readonly Ranked[]): Ranked[] {
  const best = new Map<number, number>();
  for (const { thread, score } of hits) best.set(thread, Math.max(score, best.get(thread) ?? score));
  return [...best].map(([thread, score]) => ({ thread, score }));
}
