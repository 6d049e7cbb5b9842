/**
 * Which messages of conversations that were found satisfy the query. Whatever engine found them, the embedded index is
 * asked, which knows all mail at any time; who may read the conversations has been decided.
 */
import { MESSAGES_PER_THREAD } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import { fold } from "./fold.ts";
import { COLUMN_FILTER, dateRangeOf, expressionOf } from "./fts5.ts";
import type { Query } from "./query.ts";

/**
 * messages.seq of those of the conversation `threadSeq`, the latest filed first. `found`: words that an engine took for
 * those of the query.
 */
export type FindHits = (threadSeq: number, most: number) => number[];

export function createHits(store: Pick<Store, "db">): (query: Query, found?: readonly string[]) => FindHits {
  const select = store.db.$client.prepare<{ seq: number }, [string, number, number, number, number, number]>(
    `SELECT rowid AS seq FROM message_index AS hit
     WHERE message_index MATCH ? AND rowid BETWEEN ? AND ? AND EXISTS (
       SELECT 1 FROM messages INDEXED BY messages_by_thread
       WHERE thread_seq = hit.rowid / ${MESSAGES_PER_THREAD} AND seq = hit.rowid AND date >= ? AND date < ?)
     ORDER BY rowid DESC LIMIT ?`,
  );
  return ({ message: conditions }, found) => {
    const others = found ? conditions.filter((one) => one.kind !== "text" || one.negated) : conditions;
    const words = found?.map((word) => `"${fold(word)}"`).join(" OR ");
    const expression = expressionOf(others, ...(words === undefined ? [] : [`(${COLUMN_FILTER.any}(${words}))`]));
    const { since, before } = dateRangeOf(conditions) ?? {
      since: Number.MIN_SAFE_INTEGER,
      before: Number.MAX_SAFE_INTEGER,
    };
    return (threadSeq, most) => {
      const first = threadSeq * MESSAGES_PER_THREAD;
      return select.all(expression, first, first + MESSAGES_PER_THREAD - 1, since, before, most).map(({ seq }) => seq);
    };
  };
}
