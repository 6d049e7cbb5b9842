/**
 * What was searched for last, kept for as long as nothing is written: who reads on, page by page, or asks again before
 * anything has changed, does not have a hundred thousand hits read from the index again. Whatever is written, by this
 * process or another, they are all forgotten, so an answer is always that of the index. A set is a bit for each
 * conversation: an eighth of a megabyte for a million.
 */
import type { Database } from "bun:sqlite";
import type { SeqSet } from "../sets.ts";

const KEPT = 8;

/** The set that answers the question, which `find` finds. Not to be changed: it may be given again. */
export type KeepSet = (question: string, find: () => SeqSet) => SeqSet;

export function createKeptSets(sqlite: Database, most = KEPT): KeepSet {
  // Rows changed over this connection, and what changes with every commit over others.
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
