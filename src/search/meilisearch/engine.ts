/**
 * Answers queries from a Meilisearch index that has all there is. What satisfies every condition is the same set of
 * conversations that FTS5 gives; only beyond that does the server's forgiveness come in, and is said to.
 */
import type { Db } from "../../store/store.ts";
import { slipsBetween } from "../correction.ts";
import { threadOf } from "../document-number.ts";
import type { Loose, Ranked, SearchScope } from "../engine.ts";
import { fold, type IndexDocument } from "../fold.ts";
import { bestOfEach } from "../fts5/ranking.ts";
import type { MessageCondition, Query, TextField } from "../query.ts";
import { type SeqSet, seqsIn, setOf } from "../sets.ts";
import { readStored } from "../stored.ts";
import type { Place } from "./client.ts";
import { type Client, createClient } from "./client.ts";
import { mayHaveTypos } from "./documents.ts";
import type { Fed } from "./feed.ts";
import { exactQueries, looseQueries, within } from "./query.ts";

export interface MeilisearchEngineParts {
  db: Db;
  /** The messages (messages.seq, ascending) in scope that satisfy the conditions. */
  narrow(conditions: readonly MessageCondition[], scope: SearchScope): number[];
}

/** For one answer, ms: then another engine gives it. */
const ANSWER_MS = 1_500;
/** Messages that are asked for in the order of relevance: each costs the server some 30 µs, ten times what finding it does. */
const MOST_RANKED = 250;
/** Conversations that it is told to look in; of more it ranks all that the query finds. */
const MOST_NAMED = 1_000;
/** Messages that are looked through for the words they were found by. */
const LOOKED_THROUGH = 10;

const turnOfOthers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Members of every list; all ascending. */
function intersect(lists: readonly (readonly number[])[]): number[] {
  const [first = [], ...rest] = [...lists].sort((a, b) => a.length - b.length);
  return rest.reduce<number[]>(
    (kept, list) => {
      const members = new Set(list);
      return kept.filter((number) => members.has(number));
    },
    [...first],
  );
}

const threadsOf = (messageSeqs: readonly number[]): SeqSet => setOf(messageSeqs, threadOf);

export function createMeilisearchEngine({ db, narrow }: MeilisearchEngineParts) {
  let known: { place: Place; client: Client } | undefined;

  function clientOf({ place }: Fed): Client {
    if (known?.place.url !== place.url || known.place.key !== place.key) {
      known = { place, client: createClient(place, { requestMs: ANSWER_MS, taskMs: ANSWER_MS }) };
    }
    return known.client;
  }

  return {
    /** As SearchEngine's. @throws ServerError */
    async match(fed: Fed, { message: conditions }: Query, scope: SearchScope): Promise<SeqSet> {
      if (scope.mailboxIds.length === 0) return setOf([]);
      const { queries, open } = exactQueries(conditions, scope);
      const lists = await clientOf(fed).search(fed.index, queries);
      const isEmpty = lists.some((list) => list.length === 0);
      if (open.length > 0 && !isEmpty) lists.push(narrow(open, scope));
      return threadsOf(intersect(lists));
    },

    /** As SearchEngine's. @throws ServerError */
    async matchLoosely(fed: Fed, { message: conditions }: Query, scope: SearchScope): Promise<Loose | undefined> {
      const queries = scope.mailboxIds.length === 0 ? undefined : looseQueries(conditions, scope);
      if (!queries) return undefined;
      const found = intersect(await clientOf(fed).search(fed.index, queries));
      if (found.length === 0) return undefined;
      return {
        threads: seqsIn(threadsOf(found)),
        async wordsIn(threads) {
          const isAmong = new Set(threads);
          const looked = found.filter((seq) => isAmong.has(threadOf(seq))).slice(-LOOKED_THROUGH);
          // Asked again, for what follows is words of mail.
          const reached = new Set(scope.mailboxIds);
          const words = new Set<string>();
          for (const { mailboxId, foldBeginning } of readStored(db, looked)) {
            if (!reached.has(mailboxId)) continue;
            for (const word of nearestWords(conditions, foldBeginning())) words.add(word);
            await turnOfOthers();
          }
          return [...words];
        },
      };
    },

    /** As SearchEngine's. Of more than ten words, the first ten. @throws ServerError */
    async rank(
      fed: Fed,
      { message: conditions }: Query,
      scope: SearchScope,
      found: readonly number[],
      isLoose: boolean,
    ): Promise<Ranked[]> {
      if (scope.mailboxIds.length === 0) return [];
      const queries = isLoose ? looseQueries(conditions, scope) : exactQueries(conditions, scope).queries;
      const [query] = queries ?? [];
      if (!query) return [];
      const asked = found.length <= MOST_NAMED ? within(query, found) : query;
      const hits = await clientOf(fed).rank(fed.index, asked, MOST_RANKED);
      return bestOfEach(hits.map(({ number, score }) => ({ thread: threadOf(number), score })));
    },
  };
}

/* Which words of a message the server took for those that were asked for: it does not say. */

/** As the server's own: how many typos a word may have by its length. */
const typosOf = (word: string): number => (word.length >= 9 ? 2 : word.length >= 5 ? 1 : 0);
/** Words looked at, of each field, and compared with those asked for, of a message: some milliseconds of the oddest. */
const MOST_WORDS = 2_000;
const MOST_COMPARED = 5_000;

const FIELDS: Readonly<Record<TextField, readonly (keyof IndexDocument)[]>> = {
  any: ["subject", "sender", "recipients", "files", "body"],
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
};

/** Of the words asked for that the message lacks: the nearest that it has, folded, each once. */
export function nearestWords(conditions: readonly MessageCondition[], document: IndexDocument): string[] {
  const found = new Set<string>();
  const wordsOf = new Map<TextField, ReadonlySet<string>>();
  const work = { left: MOST_COMPARED };
  for (const condition of conditions) {
    if (condition.kind !== "text") continue;
    const { field, text } = condition;
    const words = wordsOf.get(field) ?? new Set(FIELDS[field].flatMap((name) => document[name].split(" ", MOST_WORDS)));
    wordsOf.set(field, words);
    for (const asked of fold(text).split(" ").filter(mayHaveTypos)) {
      const nearest = words.has(asked) ? undefined : nearestOf(asked, words, work);
      if (nearest !== undefined) found.add(nearest);
    }
  }
  return [...found];
}

/** Undefined for a word that is near none. */
function nearestOf(asked: string, words: Iterable<string>, work: { left: number }): string | undefined {
  const limit = typosOf(asked);
  if (limit === 0) return undefined;
  let nearest: string | undefined;
  let least = limit + 1;
  for (const word of words) {
    if (Math.abs(word.length - asked.length) > limit) continue;
    if (work.left-- <= 0) break;
    const apart = slipsBetween(asked, word, limit);
    if (apart < least) [nearest, least] = [word, apart];
  }
  return nearest;
}
