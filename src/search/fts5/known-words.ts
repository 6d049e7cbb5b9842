/**
 * Tells which words occur in the mail of given mailboxes. Every query is restricted to the scope, as in a search, so a
 * word that only other mail contains is unknown. (FTS5's own vocabulary, fts5vocab, covers every tenant and reads all
 * positions of a word.)
 */
import type { Store } from "../../store/store.ts";
import type { SearchScope } from "../engine.ts";
import type { TextField } from "../query.ts";
import { COLUMN_FILTER, expressionOf, scopeOf } from "./fts5.ts";

export interface KnownWords {
  /** The folded words that occur in the field of a message in scope. Yields to other requests in between. */
  among(words: readonly string[], field: TextField, scope: SearchScope): Promise<string[]>;
  /** The number of messages with the word, up to `most`. */
  count(word: string, field: TextField, scope: SearchScope, most: number): number;
}

/** Words per query; this many take about a millisecond. */
const AT_ONCE = 32;

export function createKnownWords({ db }: Pick<Store, "db">): KnownWords {
  const select = db.$client.prepare<{ n: number }, [string, number]>(
    "SELECT count(*) AS n FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ?)",
  );
  const count = (words: readonly string[], field: TextField, scope: SearchScope, most: number): number => {
    const anyOf = `${COLUMN_FILTER[field]}(${words.map((word) => `"${word}"`).join(" OR ")})`;
    return select.get(expressionOf([], scopeOf(scope), anyOf), most)?.n ?? 0;
  };

  /** By halving, because most of the words do not occur. */
  function among(words: readonly string[], field: TextField, scope: SearchScope): string[] {
    if (words.length === 0 || count(words, field, scope, 1) === 0) return [];
    if (words.length === 1) return [...words];
    const middle = words.length >> 1;
    return [...among(words.slice(0, middle), field, scope), ...among(words.slice(middle), field, scope)];
  }

  return {
    async among(words, field, scope) {
      const known: string[] = [];
      if (scope.mailboxIds.length === 0) return known;
      for (let at = 0; at < words.length; at += AT_ONCE) {
        known.push(...among(words.slice(at, at + AT_ONCE), field, scope));
        await new Promise((resolve) => setImmediate(resolve));
      }
      return known;
    },
    count: (word, field, scope, most) => count([word], field, scope, most),
  };
}
