/**
 * Which words stand in the mail of somebody's mailboxes. Each question carries the scope, as every search does: a word that
 * only others' mail has is not known. (FTS5's own list of words, fts5vocab, has those of every tenant, and reads all
 * places of a word to name it.)
 */
import type { Store } from "../../store/store.ts";
import type { SearchScope } from "../engine.ts";
import type { TextField } from "../query.ts";
import { COLUMN_FILTER, expressionOf, scopeOf } from "./fts5.ts";

export interface KnownWords {
  /** Those of the folded words that stand in the field of some message in scope. Other requests have their turn meanwhile. */
  among(words: readonly string[], field: TextField, scope: SearchScope): Promise<string[]>;
  /** In how many messages, as far as `most`. */
  count(word: string, field: TextField, scope: SearchScope, most: number): number;
}

/** Asked for at once: looking up so many takes about a millisecond. */
const AT_ONCE = 32;

export function createKnownWords({ db }: Pick<Store, "db">): KnownWords {
  const select = db.$client.prepare<{ n: number }, [string, number]>(
    "SELECT count(*) AS n FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ?)",
  );
  const count = (words: readonly string[], field: TextField, scope: SearchScope, most: number): number => {
    const anyOf = `${COLUMN_FILTER[field]}(${words.map((word) => `"${word}"`).join(" OR ")})`;
    return select.get(expressionOf([], scopeOf(scope), anyOf), most)?.n ?? 0;
  };

  /** By halves: most of what is asked for is not there. */
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
