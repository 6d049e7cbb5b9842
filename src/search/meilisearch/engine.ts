/**
 * Replies to queries from a complete Meilisearch index. For exact matches it returns the same set of conversations as
 * FTS5. The server's tolerance applies only beyond that, and the result says so.
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
import type { ServerAddress } from "./client.ts";
import { type Client, createClient } from "./client.ts";
import { mayHaveTypos } from "./documents.ts";
import type { Fed } from "./feed.ts";
import { exactQueries, looseQueries, within } from "./query.ts";

export interface MeilisearchEngineParts {
  db: Db;
  /** The messages (messages.seq, ascending) in scope that satisfy the conditions. */
  narrow(conditions: readonly MessageCondition[], scope: SearchScope): number[];
}

/** Time limit for one search, ms; another engine then replies. */
const ANSWER_MS = 1_500;
/** Messages requested by relevance: each costs the server about 30 µs, ten times as much as finding it. */
const MOST_RANKED = 250;
/** Conversations named in a query; for more, it ranks everything the query finds. */
const MOST_NAMED = 1_000;
/** Messages searched for the words by which they were found. */
const LOOKED_THROUGH = 10;

const turnOfOthers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The intersection of ascending lists. */
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
  let known: { address: ServerAddress; client: Client } | undefined;

  function clientOf({ address }: Fed): Client {
    if (known?.address.url !== address.url || known.address.key !== address.key) {
      known = { address, client: createClient(address, { requestMs: ANSWER_MS, taskMs: ANSWER_MS }) };
    }
    return known.client;
  }

  return {
    /** See SearchEngine. @throws ServerError */
    async match(fed: Fed, { message: conditions }: Query, scope: SearchScope): Promise<SeqSet> {
      if (scope.mailboxIds.length === 0) return setOf([]);
      const { queries, open } = exactQueries(conditions, scope);
      const lists = await clientOf(fed).search(fed.index, queries);
      const isEmpty = lists.some((list) => list.length === 0);
      if (open.length > 0 && !isEmpty) lists.push(narrow(open, scope));
      return threadsOf(intersect(lists));
    },

    /** See SearchEngine. @throws ServerError */
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
          // Access is checked again, because the result contains words of mail.
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

    /** See SearchEngine. Uses the first ten words only. @throws ServerError */
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

/* Finds the words of a message that the server took for words of the query, which it does not report. */

/** Typos allowed for a word by its length, as in the server. */
const typosOf = (word: string): number => (word.length >= 9 ? 2 : word.length >= 5 ? 1 : 0);
/** Limits on words examined per field, and on comparisons per message: some milliseconds at worst. */
const MOST_WORDS = 2_000;
const MOST_COMPARED = 5_000;

const FIELDS: Readonly<Record<TextField, readonly (keyof IndexDocument)[]>> = {
  any: ["subject", "sender", "recipients", "files", "body"],
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
};

/** For each word of the query that the message lacks, the nearest word that it has, folded, distinct. */
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

/** Undefined if no word is near. */
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
