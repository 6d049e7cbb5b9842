/**
 * Tells which words occur in the mail of given mailboxes. Every query is restricted to the scope, as in a search, so a
 * word that only other mail contains is unknown. (FTS5's own vocabulary, fts5vocab, covers every tenant and reads all
 * positions of a word.)
 */
import { prepared } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import type { SearchScope } from "../engine.ts";
import type { TextField } from "../query.ts";
import { COLUMN_FILTER, expressionOf, scopeOf } from "./fts5.ts";

/** Words per query; this many take about a millisecond. */
const AT_ONCE = 32;

const selectCount = prepared(({ $client: sqlite }) =>
  sqlite.prepare<{ n: number }, [string, number]>(
    "SELECT count(*) AS n FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ?)",
  ),
);

function countAny(db: Db, words: readonly string[], field: TextField, scope: SearchScope, most: number): number {
  const anyOf = `${COLUMN_FILTER[field]}(${words.map((word) => `"${word}"`).join(" OR ")})`;
  return selectCount(db).get(expressionOf([], scopeOf(scope), anyOf), most)?.n ?? 0;
}

/** The number of messages with the word, up to `most`. */
export const countWord = (db: Db, word: string, field: TextField, scope: SearchScope, most: number): number =>
  countAny(db, [word], field, scope, most);

/** By halving, because most of the words do not occur. */
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
    await new Promise((resolve) => setImmediate(resolve));
  }
  return known;
}
