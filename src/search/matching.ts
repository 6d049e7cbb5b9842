/**
 * Tells which queries a single message satisfies, without an index: for rules, which act while a message is filed,
 * whichever engine answers searches. It looks at the document that the index gets, for the phrases that the index is asked
 * for, so that both find the same.
 *
 * The cost of a message grows with its length and hardly with the number of queries, except for phrases: each is compared
 * at every place where its rarest token is.
 */
import type { IndexDocument } from "./fold.ts";
import { type MessageCondition, splitIntoPhrases, type TextField } from "./query.ts";

/** The message that a query is matched with. `date`: epoch ms; `size`: bytes. */
export interface Candidate {
  document: IndexDocument;
  date: number;
  size: number;
  hasAttachments: boolean;
}

type Column = keyof IndexDocument;

/** The short columns come first: what they decide, the body need not be read for. */
const COLUMNS_OF: Readonly<Record<TextField, readonly Column[]>> = {
  any: ["subject", "sender", "recipients", "files", "body"],
  sender: ["sender"],
  recipients: ["recipients"],
  cc: ["recipients"],
  subject: ["subject"],
  files: ["files"],
};

/** Folded text, and where in it, in UTF-16 units, the tokens begin that the queries have. */
interface TokenPositions {
  text: string;
  of: ReadonlyMap<string, readonly number[]>;
}

type Test = (candidate: Candidate, positionsIn: (column: Column) => TokenPositions) => boolean;

/**
 * Makes the function that evaluates the message-level conditions of queries: for each, in order, whether a message
 * satisfies all of them.
 */
export function createQueryMatcher(
  queries: readonly (readonly MessageCondition[])[],
): (candidate: Candidate) => boolean[] {
  const wanted = createTokens();
  const tests = queries.map((conditions) =>
    conditions
      .toSorted((a, b) => conditionCost(a) - conditionCost(b))
      .map((condition) => compileConditionTest(condition, wanted)),
  );
  return (candidate) => {
    const known = new Map<Column, TokenPositions>();
    const positionsIn = (column: Column): TokenPositions => {
      const positions = known.get(column) ?? findTokenPositions(candidate.document[column], wanted);
      known.set(column, positions);
      return positions;
    };
    return tests.map((all) => all.every((test) => test(candidate, positionsIn)));
  };
}

const conditionCost = (condition: MessageCondition): number =>
  condition.kind === "text" ? COLUMNS_OF[condition.field].length : 0;

/** Adds the tokens of the condition to `wanted`. */
function compileConditionTest(condition: MessageCondition, wanted: Tokens): Test {
  switch (condition.kind) {
    case "text": {
      const stretches = splitIntoPhrases(condition);
      for (const token of stretches.flat()) wanted.add(token);
      const columns = COLUMNS_OF[condition.field];
      return (_, positionsIn) =>
        stretches.every((tokens) => columns.some((column) => hasPhrase(positionsIn(column), tokens))) !==
        condition.negated;
    }
    case "attachment":
      return ({ hasAttachments }) => hasAttachments !== condition.negated;
    case "since":
      return ({ date }) => date >= condition.at;
    case "before":
      return ({ date }) => date < condition.at;
    case "atLeast":
      return ({ size }) => size >= condition.bytes;
    case "below":
      return ({ size }) => size < condition.bytes;
  }
}

type Tokens = ReturnType<typeof createTokens>;

const HASHES = 4_096;
const hashWith = (hash: number, unit: number): number => (Math.imul(hash, 31) + unit) & (HASHES - 1);
const SPACE = 0x20;

/** A set of tokens that tells by a hash of a few bits that a token is not in it: making a string of each takes longer. */
function createTokens() {
  const tokens = new Set<string>();
  const hashes = new Uint8Array(HASHES);
  return {
    add(token: string): void {
      let hash = 0;
      for (let i = 0; i < token.length; i++) hash = hashWith(hash, token.charCodeAt(i));
      hashes[hash] = 1;
      tokens.add(token);
    },
    mayHave: (hash: number): boolean => hashes[hash] === 1,
    has: (token: string): boolean => tokens.has(token),
  };
}

function findTokenPositions(text: string, wanted: Tokens): TokenPositions {
  const of = new Map<string, number[]>();
  let start = 0;
  let hash = 0;
  for (let at = 0; at <= text.length; at++) {
    const unit = at < text.length ? text.charCodeAt(at) : SPACE;
    if (unit !== SPACE) {
      hash = hashWith(hash, unit);
      continue;
    }
    if (wanted.mayHave(hash)) {
      const token = text.slice(start, at);
      if (wanted.has(token)) {
        const positions = of.get(token);
        if (positions) positions.push(start);
        else of.set(token, [start]);
      }
    }
    start = at + 1;
    hash = 0;
  }
  return { text, of };
}

function hasPhrase({ text, of }: TokenPositions, tokens: readonly string[]): boolean {
  let rarest: readonly number[] | undefined;
  /** Units of the phrase before the rarest token. */
  let before = 0;
  let length = 0;
  for (const token of tokens) {
    const positions = of.get(token);
    if (!positions) return false;
    if (!rarest || positions.length < rarest.length) {
      rarest = positions;
      before = length;
    }
    length += token.length + 1;
  }
  if (tokens.length === 1) return true;
  const phrase = tokens.join(" ");
  const isToken = (start: number): boolean => start <= 0 || text.charCodeAt(start - 1) === SPACE;
  const endsAt = (end: number): boolean => end === text.length || text.charCodeAt(end) === SPACE;
  return (
    rarest?.some((place) => {
      const start = place - before;
      return start >= 0 && text.startsWith(phrase, start) && isToken(start) && endsAt(start + phrase.length);
    }) === true
  );
}
