/**
 * Searches a complete Meilisearch index. `match` returns the same set of conversations as FTS5; only `matchLoosely`,
 * whose results are told apart, uses the server's tolerance of typos. Access is a condition of every query, made in one
 * place, `buildMeilisearchFilter`.
 */
import { max } from "drizzle-orm";
import { letOthersRun } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import { messages } from "../../store/schema.ts";
import type { Db } from "../../store/store.ts";
import { toThreadSeq } from "../document-number.ts";
import type { Loose, Ranked, SearchScope } from "../engine.ts";
import { foldText, type IndexDocument } from "../fold.ts";
import { keepBestHitPerThread } from "../fts5/hits.ts";
import {
  boundedEditDistance,
  listConditionTokens,
  type MessageCondition,
  type Query,
  type TextCondition,
  type TextField,
  toFieldToken,
} from "../query.ts";
import { createSeqSet, listSeqsInSet, type SeqSet } from "../sets.ts";
import { readStoredMessages } from "../stored.ts";
import type { Fed } from "./feed.ts";
import { type Client, createMeilisearchClient, type IndexQuery, type ServerAddress } from "./meilisearch-client.ts";
import { mayHaveTypos, PLAIN_FIELDS, PRIVATE, toIndexedWord } from "./message-documents.ts";

/*
 * The translation of queries. Only single quoted words match exactly: the server knows a phrase only as words that
 * occur near each other. A phrase is therefore searched by its words, and its hits must still be narrowed (`open`).
 */

/** Words of q that the server reads, without the excluded ones; it ignores further words. */
const WORDS_READ = 10;
/** Words searched of a phrase; narrowing checks the others. */
const WORDS_OF_PHRASE = 5;

const ATTRIBUTES: Readonly<Record<TextField, readonly string[]>> = {
  any: PLAIN_FIELDS,
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
  cc: ["markedCc"],
  files: ["files"],
};

const isText = (condition: MessageCondition): condition is TextCondition => condition.kind === "text";
const quotePhrase = (word: string): string => `"${word}"`;

/** Ids contain no quotes. The server ignores case, and ids have no upper case. */
function buildMeilisearchFilter(
  conditions: readonly MessageCondition[],
  { workspaceId, mailboxIds }: SearchScope,
): string {
  const parts = [
    workspaceId === undefined
      ? `mailbox IN [${mailboxIds.map((id) => JSON.stringify(id)).join()}]`
      : `workspace = ${JSON.stringify(workspaceId)}`,
  ];
  for (const condition of conditions) {
    if (condition.kind === "attachment") parts.push(`attachment = ${!condition.negated}`);
    if (condition.kind === "since") parts.push(`date >= ${condition.at}`);
    if (condition.kind === "before") parts.push(`date < ${condition.at}`);
    if (condition.kind === "atLeast") parts.push(`size >= ${condition.bytes}`);
    if (condition.kind === "below") parts.push(`size < ${condition.bytes}`);
  }
  return parts.join(" AND ");
}

/** Limits a query to these conversations (threads.seq). */
const within = ({ filter, ...query }: IndexQuery, threads: readonly number[]): IndexQuery => ({
  ...query,
  filter: `${filter} AND thread IN [${threads.join()}]`,
});

function splitIntoGroups<T>(list: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let i = 0; i < list.length; i += size) groups.push(list.slice(i, i + size));
  return groups;
}

/**
 * Queries for the messages that satisfy the conditions: a message must match all of `queries`, and satisfy the
 * conditions that these leave `open`. The scope has at least one mailbox.
 */
export function exactQueries(
  conditions: readonly MessageCondition[],
  scope: SearchScope,
): { queries: IndexQuery[]; open: MessageCondition[] } {
  const wanted = new Set<string>();
  const unwanted = new Set<string>();
  const open: MessageCondition[] = [];
  for (const condition of conditions.filter(isText)) {
    const words = [...new Set(listConditionTokens(condition))].map((token) => toIndexedWord(token, condition.field));
    const isPhrase = listConditionTokens(condition).length > 1;
    if (isPhrase) open.push(condition);
    if (!condition.negated) for (const word of longest(words)) wanted.add(word);
    else if (!isPhrase) for (const word of words) unwanted.add(word);
  }
  const filter = buildMeilisearchFilter(conditions, scope);
  const excluded = [...unwanted].map((word) => `-${quotePhrase(word)}`);
  const groups = wanted.size === 0 ? [[]] : splitIntoGroups([...wanted].map(quotePhrase), WORDS_READ);
  return {
    queries: groups.map((group, i) => ({ q: [...group, ...(i === 0 ? excluded : [])].join(" "), filter })),
    open,
  };
}

/** The longest words, which are usually the rarest. */
const longest = (words: readonly string[]): string[] =>
  words.length <= WORDS_OF_PHRASE
    ? [...words]
    : [...words].sort((a, b) => b.length - a.length).slice(0, WORDS_OF_PHRASE);

/**
 * Queries that forgive typos. Undefined for a literal query: with quotes, exclusions, or no word that could be
 * misspelt.
 */
export function looseQueries(conditions: readonly MessageCondition[], scope: SearchScope): IndexQuery[] | undefined {
  const texts = conditions.filter(isText);
  if (texts.some(({ negated, exact }) => negated || exact)) return undefined;
  const filter = buildMeilisearchFilter(conditions, scope);
  const queries = (Object.keys(ATTRIBUTES) as TextField[]).flatMap((field) => {
    const tokens = new Set(
      texts.filter((text) => text.field === field).flatMap(({ text }) => foldText(text).split(" ")),
    );
    // A word whose letters the server sees encoded can only match exactly: among others, every one of Cc.
    const words = [...tokens].map((token) => {
      if (field === "cc") return quotePhrase(toIndexedWord(toFieldToken(field, token), field));
      return mayHaveTypos(token) ? token : quotePhrase(toIndexedWord(token, "any"));
    });
    return splitIntoGroups(words, WORDS_READ).map((group) => ({
      q: group.join(" "),
      filter,
      fields: ATTRIBUTES[field],
    }));
  });
  return queries.some(({ q }) => /(?:^| )[^" ]/.test(q)) ? queries : undefined;
}

/** Time limit for one search, ms; FTS5 then replies. */
const SEARCH_MS = 1_500;
/** Messages requested by relevance: each costs the server about 30 µs, ten times as much as finding it. */
const MOST_RANKED = 250;
/** Conversations named in a query; for more, it ranks everything the query finds. */
const MOST_NAMED = 1_000;
/** Messages searched for the words by which they were found. */
const MOST_READ = 10;

/** The intersection of ascending lists, without numbers above `newest`, which are no messages. */
function intersect(lists: readonly (readonly number[])[], newest: number): number[] {
  const [all = [], ...rest] = [...lists].sort((a, b) => a.length - b.length);
  const first = all.filter((number) => number <= newest);
  return rest.reduce<number[]>((common, list) => {
    const members = new Set(list);
    return common.filter((number) => members.has(number));
  }, first);
}

const messageThreadSet = (messageSeqs: readonly number[]): SeqSet => createSeqSet(messageSeqs, toThreadSeq);

/** `narrow` finds the messages (messages.seq, ascending) in scope that satisfy the conditions on words. */
export function createMeilisearchEngine(
  db: Db,
  { fetch }: Pick<Runtime, "fetch">,
  narrow: (conditions: readonly MessageCondition[], scope: SearchScope) => number[],
) {
  let known: { address: ServerAddress; client: Client } | undefined;

  const newest = (): number =>
    db
      .select({ seq: max(messages.seq) })
      .from(messages)
      .get()?.seq ?? 0;

  function getSearchClient({ address }: Fed): Client {
    if (known?.address.url !== address.url || known.address.key !== address.key) {
      known = { address, client: createMeilisearchClient(address, { requestMs: SEARCH_MS, taskMs: SEARCH_MS, fetch }) };
    }
    return known.client;
  }

  return {
    /** See SearchEngine. @throws ServerError */
    async match(fed: Fed, { message: conditions }: Query, scope: SearchScope): Promise<SeqSet> {
      if (scope.mailboxIds.length === 0) return createSeqSet([]);
      const { queries, open } = exactQueries(conditions, scope);
      const lists = await getSearchClient(fed).search(fed.index, queries);
      const isEmpty = lists.some((list) => list.length === 0);
      if (open.length > 0 && !isEmpty) lists.push(narrow(open, scope));
      return messageThreadSet(intersect(lists, newest()));
    },

    /** See SearchEngine. @throws ServerError */
    async matchLoosely(fed: Fed, { message: conditions }: Query, scope: SearchScope): Promise<Loose | undefined> {
      const queries = scope.mailboxIds.length === 0 ? undefined : looseQueries(conditions, scope);
      if (!queries) return undefined;
      const found = intersect(await getSearchClient(fed).search(fed.index, queries), newest());
      if (found.length === 0) return undefined;
      return {
        threads: listSeqsInSet(messageThreadSet(found)),
        async wordsIn(threads) {
          const isAmong = new Set(threads);
          const latest = found.filter((seq) => isAmong.has(toThreadSeq(seq))).slice(-MOST_READ);
          // Access is checked again, because the result contains words of mail.
          const reached = new Set(scope.mailboxIds);
          const words = new Set<string>();
          for (const { mailboxId, foldBeginning } of readStoredMessages(db, latest)) {
            if (!reached.has(mailboxId)) continue;
            for (const word of nearestWords(conditions, foldBeginning())) words.add(word);
            await letOthersRun();
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
      const narrowed = found.length <= MOST_NAMED ? within(query, found) : query;
      const hits = await getSearchClient(fed).rank(fed.index, narrowed, MOST_RANKED);
      return keepBestHitPerThread(hits.map(({ number, score }) => ({ thread: toThreadSeq(number), score })));
    },
  };
}

/* The words of a message that the server took for words of the query, which it does not report. */

/** Typos allowed for a word by its length, as in the server. */
const countTyposAllowed = (word: string): number => (word.length >= 9 ? 2 : word.length >= 5 ? 1 : 0);
/** Limits on words examined per field, and on comparisons per message: some milliseconds at worst. */
const MOST_WORDS = 2_000;
const MOST_COMPARED = 5_000;

const DOCUMENT_FIELDS: Readonly<Record<TextField, readonly (keyof IndexDocument)[]>> = {
  any: ["subject", "sender", "recipients", "files", "body"],
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
  cc: ["recipients"],
  files: ["files"],
};

/** For each word of the query that the message lacks, the nearest word that it has, folded, distinct. */
export function nearestWords(conditions: readonly MessageCondition[], document: IndexDocument): string[] {
  const found = new Set<string>();
  const wordsOf = new Map<TextField, ReadonlySet<string>>();
  const work = { left: MOST_COMPARED };
  for (const condition of conditions) {
    if (condition.kind !== "text") continue;
    const { field, text } = condition;
    const words =
      wordsOf.get(field) ??
      new Set(
        DOCUMENT_FIELDS[field].flatMap((name) =>
          document[name].split(" ", MOST_WORDS).filter((token) => !PRIVATE.test(token)),
        ),
      );
    wordsOf.set(field, words);
    for (const sought of foldText(text).split(" ").filter(mayHaveTypos)) {
      const nearest = words.has(sought) ? undefined : findTypoMatch(sought, words, work);
      if (nearest !== undefined) found.add(nearest);
    }
  }
  return [...found];
}

/** The nearest of `words`; undefined if none is near enough. */
function findTypoMatch(sought: string, words: Iterable<string>, work: { left: number }): string | undefined {
  const limit = countTyposAllowed(sought);
  if (limit === 0) return undefined;
  let nearest: string | undefined;
  let least = limit + 1;
  for (const word of words) {
    if (Math.abs(word.length - sought.length) > limit) continue;
    if (work.left-- <= 0) break;
    const distance = boundedEditDistance(sought, word, limit);
    if (distance < least) [nearest, least] = [word, distance];
  }
  return nearest;
}
