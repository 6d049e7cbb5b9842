/**
 * Translates a query for Meilisearch. Only single quoted words match exactly: the server knows a phrase only as words
 * that occur near each other. A phrase is therefore searched by its words, and its hits must still be narrowed
 * (`open`).
 *
 * Access is a condition of every query, made in one place, `filterOf`.
 */
import type { SearchScope } from "../engine.ts";
import { fold, foldAddress } from "../fold.ts";
import type { MessageCondition, TextField } from "../query.ts";
import type { IndexQuery } from "./client.ts";
import { mayHaveTypos, PLAIN_FIELDS, wordOf } from "./documents.ts";

type TextCondition = Extract<MessageCondition, { kind: "text" }>;

/** Words of q that the server reads; it ignores the rest. Excluded words do not count. */
const WORDS_READ = 10;
/** Words searched of a phrase; narrowing checks the others. */
const WORDS_OF_PHRASE = 5;

const FIELDS: Readonly<Record<TextField, readonly string[]>> = {
  any: PLAIN_FIELDS,
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
};

function tokensOf({ field, text }: TextCondition): string[] {
  const address = field === "sender" || field === "recipients" ? foldAddress(text) : undefined;
  return (address ?? fold(text)).split(" ");
}

const isText = (condition: MessageCondition): condition is TextCondition => condition.kind === "text";
const quoted = (word: string): string => `"${word}"`;

/** Ids contain no quotes. The server ignores case, and ids have no upper case. */
function filterOf(conditions: readonly MessageCondition[], { workspaceId, mailboxIds }: SearchScope): string {
  const parts = [
    workspaceId === undefined
      ? `mailbox IN [${mailboxIds.map((id) => JSON.stringify(id)).join()}]`
      : `workspace = ${JSON.stringify(workspaceId)}`,
  ];
  for (const condition of conditions) {
    if (condition.kind === "attachment") parts.push(`attachment = ${!condition.negated}`);
    if (condition.kind === "since") parts.push(`date >= ${condition.at}`);
    if (condition.kind === "before") parts.push(`date < ${condition.at}`);
  }
  return parts.join(" AND ");
}

/** The same query for these conversations only (threads.seq). */
export const within = ({ filter, ...query }: IndexQuery, threads: readonly number[]): IndexQuery => ({
  ...query,
  filter: `${filter} AND thread IN [${threads.join()}]`,
});

function groupsOf<T>(list: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let i = 0; i < list.length; i += size) groups.push(list.slice(i, i + size));
  return groups;
}

export interface Asking {
  /** A message must match all of them. */
  queries: IndexQuery[];
  /** The conditions that the queries leave unchecked. */
  open: MessageCondition[];
}

/** Queries for exactly the messages that satisfy the conditions. The scope has at least one mailbox. */
export function exactQueries(conditions: readonly MessageCondition[], scope: SearchScope): Asking {
  const wanted = new Set<string>();
  const unwanted = new Set<string>();
  const open: MessageCondition[] = [];
  for (const condition of conditions.filter(isText)) {
    const words = [...new Set(tokensOf(condition))].map((token) => wordOf(token, condition.field));
    const isPhrase = tokensOf(condition).length > 1;
    if (isPhrase) open.push(condition);
    if (!condition.negated) for (const word of longest(words)) wanted.add(word);
    else if (!isPhrase) for (const word of words) unwanted.add(word);
  }
  const filter = filterOf(conditions, scope);
  const excluded = [...unwanted].map((word) => `-${quoted(word)}`);
  const groups = wanted.size === 0 ? [[]] : groupsOf([...wanted].map(quoted), WORDS_READ);
  return {
    queries: groups.map((group, i) => ({ q: [...group, ...(i === 0 ? excluded : [])].join(" "), filter })),
    open,
  };
}

/** The longest words are usually the rarest. */
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
  const filter = filterOf(conditions, scope);
  const queries = (Object.keys(FIELDS) as TextField[]).flatMap((field) => {
    const tokens = new Set(texts.filter((text) => text.field === field).flatMap(({ text }) => fold(text).split(" ")));
    // A word whose letters the server sees encoded can only match exactly.
    const words = [...tokens].map((token) => (mayHaveTypos(token) ? token : quoted(wordOf(token, "any"))));
    return groupsOf(words, WORDS_READ).map((group) => ({ q: group.join(" "), filter, fields: FIELDS[field] }));
  });
  return queries.some(({ q }) => /(?:^| )[^" ]/.test(q)) ? queries : undefined;
}
