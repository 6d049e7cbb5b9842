/**
 * Which messages of conversations that were found satisfy the query. Whatever engine found them, the embedded index is
 * asked, which knows all mail at any time; who may read the conversations has been decided.
 */
import { MESSAGES_PER_THREAD } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import { fold } from "./fold.ts";
import { COLUMN_FILTER, dateRangeOf, expressionOf } from "./fts5.ts";
import type { Query } from "./query.ts";

/** Of conversations, by threads.seq, the messages (messages.seq) that satisfy the query: up to `most` each, the latest filed first. */
export type FindHits = (threadSeqs: readonly number[], most: number) => Map<number, number[]>;

/** Hits looked at to find those of all conversations at once; opening the index costs as much as some hundred. */
const MOST_AT_ONCE = 1_000;

/** threads.seq of a message. */
export const threadOf = (messageSeq: number): number => Math.floor(messageSeq / MESSAGES_PER_THREAD);

/** `words`: what an engine took for the words of the query. */
export function createHits(
  store: Pick<Store, "db">,
  mostAtOnce = MOST_AT_ONCE,
): (query: Query, words?: readonly string[]) => FindHits {
  const sqlite = store.db.$client;
  const select = (condition: string) =>
    `SELECT json_group_array(seq) AS seqs FROM (
       SELECT rowid AS seq FROM message_index AS hit
       WHERE message_index MATCH ? AND rowid BETWEEN ? AND ? ${condition}
       ORDER BY rowid DESC LIMIT ?)`;
  const selectByWords = sqlite.prepare<{ seqs: string }, [string, number, number, number]>(select(""));
  const selectByBoth = sqlite.prepare<{ seqs: string }, [string, number, number, number, number, number]>(
    select(`AND EXISTS (
         SELECT 1 FROM messages INDEXED BY messages_by_thread
         WHERE thread_seq = hit.rowid / ${MESSAGES_PER_THREAD} AND seq = hit.rowid AND date >= ? AND date < ?)`),
  );

  return ({ message: conditions }, words) => {
    // It did not say which.
    if (words?.length === 0) return () => new Map();
    const others = words ? conditions.filter((one) => one.kind !== "text" || one.negated) : conditions;
    const instead = words?.map((word) => `"${fold(word)}"`).join(" OR ");
    const expression = expressionOf(others, ...(instead === undefined ? [] : [`(${COLUMN_FILTER.any}(${instead}))`]));
    const range = dateRangeOf(conditions);

    /** The latest `limit` in the conversations from `first` to `last`. */
    function hitsBetween(first: number, last: number, limit: number): number[] {
      const [from, to] = [first * MESSAGES_PER_THREAD, (last + 1) * MESSAGES_PER_THREAD - 1];
      const row = range
        ? selectByBoth.get(expression, from, to, range.since, range.before, limit)
        : selectByWords.get(expression, from, to, limit);
      return JSON.parse(row?.seqs ?? "[]");
    }

    return (threadSeqs, most) => {
      const hits = new Map<number, number[]>(threadSeqs.map((threadSeq) => [threadSeq, []]));
      if (threadSeqs.length === 0) return hits;
      const together = hitsBetween(Math.min(...threadSeqs), Math.max(...threadSeqs), mostAtOnce);
      for (const seq of together) {
        const found = hits.get(threadOf(seq));
        if (found && found.length < most) found.push(seq);
      }
      // Pages that lie far apart: those before the last one looked at are asked for one by one.
      const complete = together.length < mostAtOnce ? 0 : threadOf(together.at(-1) ?? 0) + 1;
      for (const threadSeq of threadSeqs) {
        if (threadSeq < complete) hits.set(threadSeq, hitsBetween(threadSeq, threadSeq, most));
      }
      return hits;
    };
  };
}
