/**
 * Finds the messages of given conversations that satisfy a query. It asks the embedded index, which always knows all
 * mail, whichever engine found the conversations. The caller has checked access.
 */
import type { Store } from "../../store/store.ts";
import { firstWhole, messageOf, type NumberRange, rangesOf, threadOfDocument } from "../document-number.ts";
import { fold } from "../fold.ts";
import type { Query } from "../query.ts";
import { COLUMN_FILTER, dateRangeOf, expressionOf, HIT_IS_DATED } from "./fts5.ts";

/** By threads.seq, the matching messages (messages.seq): up to `most` each, latest filed first. */
export type FindHits = (threadSeqs: readonly number[], most: number) => Map<number, number[]>;

/** Hits read to cover all conversations at once; opening the index costs as much as some hundred. */
const MOST_AT_ONCE = 1_000;

/** `words`: the words that an engine found in place of the query's. */
export function createHits(
  store: Pick<Store, "db">,
  mostAtOnce = MOST_AT_ONCE,
): (query: Query, words?: readonly string[]) => FindHits {
  const sqlite = store.db.$client;
  const select = (condition: string) =>
    `SELECT json_group_array(number) AS numbers FROM (
       SELECT rowid AS number FROM message_index AS hit
       WHERE message_index MATCH ? AND rowid BETWEEN ? AND ? ${condition}
       ORDER BY rowid DESC LIMIT ?)`;
  const selectByWords = sqlite.prepare<{ numbers: string }, [string, number, number, number]>(select(""));
  const selectByBoth = sqlite.prepare<{ numbers: string }, [string, number, number, number, number, number]>(
    select(`AND ${HIT_IS_DATED}`),
  );
  const selectIndexed = sqlite.prepare<unknown, [number, number]>(
    "SELECT 1 FROM message_index_docsize WHERE id BETWEEN ? AND ? LIMIT 1",
  );

  return ({ message: conditions }, words) => {
    // The engine did not name the words.
    if (words?.length === 0) return () => new Map();
    const others = words ? conditions.filter((one) => one.kind !== "text" || one.negated) : conditions;
    const instead = words?.map((word) => `"${fold(word)}"`).join(" OR ");
    const expression = expressionOf(others, ...(instead === undefined ? [] : [`(${COLUMN_FILTER.any}(${instead}))`]));
    const range = dateRangeOf(conditions);

    /** The latest `limit` of these documents. */
    function hitsBetween({ from, to }: NumberRange, limit: number): number[] {
      const row = range
        ? selectByBoth.get(expression, from, to, range.since, range.before, limit)
        : selectByWords.get(expression, from, to, limit);
      return JSON.parse(row?.numbers ?? "[]");
    }

    const indexedRangesOf = (first: number, last: number): NumberRange[] =>
      rangesOf(first, last).filter(({ from, to }) => selectIndexed.get(from, to) !== null);

    return (threadSeqs, most) => {
      const hits = new Map<number, number[]>(threadSeqs.map((threadSeq) => [threadSeq, []]));
      if (threadSeqs.length === 0) return hits;
      // Conversations far apart: those before the last one covered are queried one by one.
      let complete = 0;
      for (const numbers of indexedRangesOf(Math.min(...threadSeqs), Math.max(...threadSeqs))) {
        const together = hitsBetween(numbers, mostAtOnce);
        for (const document of together) {
          const found = hits.get(threadOfDocument(document));
          if (found && found.length < most) found.push(messageOf(document));
        }
        const last = together.at(-1);
        if (last !== undefined && together.length === mostAtOnce)
          complete = Math.max(complete, firstWhole(numbers, last));
      }
      for (const threadSeq of threadSeqs) {
        if (threadSeq >= complete) continue;
        const found = indexedRangesOf(threadSeq, threadSeq).flatMap((numbers) => hitsBetween(numbers, most));
        hits.set(threadSeq, found.slice(0, most).map(messageOf));
      }
      return hits;
    };
  };
}
