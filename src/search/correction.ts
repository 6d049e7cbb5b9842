/**
 * Corrects a query that finds nothing: misspelt operators, words that may be misspelt, and the query with others in
 * their place. Pure; mailbox/suggestion.ts checks whether a correction finds anything.
 */
import { foldWithOffsets } from "./fold.ts";
import { FIELD_OF_OPERATOR, OPERATORS, type Term, type TextField, termsOf, VALUES } from "./query.ts";

/** A word of a query, and its position in it. */
export interface WordPosition {
  /** Folded. */
  word: string;
  field: TextField;
  /** UTF-16 units of the query. */
  start: number;
  end: number;
}

/** A label in a query as typed, and its position. */
export interface LabelPosition {
  label: string;
  start: number;
  end: number;
  quoted: boolean;
}

/** New text for a piece of the query. */
export interface Replacement {
  start: number;
  end: number;
  text: string;
}

/** The query with pieces replaced; the rest stays as typed. */
export function replaced(q: string, replacements: readonly Replacement[]): string {
  let result = "";
  let at = 0;
  for (const { start, end, text } of replacements.toSorted((a, b) => a.start - b.start)) {
    result += q.slice(at, start) + text;
    at = end;
  }
  return result + q.slice(at);
}

/** Shorter words are similar to too many others. */
const SHORTEST = 3;

/** The words of a query that may be misspelt: letters only, and not excluded. */
export function wordsOf(q: string): WordPosition[] {
  return termsOf(q)
    .filter(
      ({ operator, negated }) => !negated && (operator === undefined || FIELD_OF_OPERATOR[operator] !== undefined),
    )
    .flatMap(({ value, start: from, operator = "" }) =>
      foldWithOffsets(value)
        .filter(({ token }) => [...token].length >= SHORTEST && !/\p{N}/u.test(token))
        .map(({ token, start, end }) => ({
          word: token,
          field: FIELD_OF_OPERATOR[operator] ?? "any",
          start: from + start,
          end: from + end,
        })),
    );
}

export const labelPositionsOf = (q: string): LabelPosition[] =>
  termsOf(q)
    .filter(({ operator, negated, value }) => operator === "label" && !negated && value.trim() !== "")
    .map(({ value, start, quoted }) => ({ label: value, start, end: start + value.length, quoted }));

/** The nearest of `words` to a word that is none of them, if it is near enough. */
function nearestOf(word: string, words: readonly string[]): string | undefined {
  const typed = word.toLowerCase();
  const most = Math.max(1, slipsAllowed(typed.length));
  const near = words
    .map((known) => ({ known, slips: slipsBetween(typed, known, most) }))
    .filter(({ slips }) => slips <= most)
    .sort((a, b) => a.slips - b.slips);
  return near[0]?.known;
}

/**
 * The query with each misspelt operator or fixed value corrected: `form:ann`, `is:unraed`. Undefined if there is none.
 */
export function withOperatorsCorrected(q: string): string | undefined {
  const replacements = termsOf(q).flatMap((term) => operatorCorrections(q, term));
  return replacements.length === 0 ? undefined : replaced(q, replacements);
}

function operatorCorrections(q: string, { start, value, operator, quoted }: Term): Replacement[] {
  if (operator !== undefined) return valueCorrections(operator, value, start);
  const colon = value.indexOf(":");
  if (quoted || colon < 0) return [];
  const name = value.slice(0, colon);
  const rest = value.slice(colon + 1);
  const end = start + value.length;
  // While the operator is unknown, quoted text after it is a term of its own.
  if (!/^[a-z]{2,}$/i.test(name) || (rest === "" && !/["“”„]/.test(q[end] ?? ""))) return [];
  const meant = nearestOf(name, OPERATORS);
  if (meant === undefined) return [];
  return [{ start, end: start + colon, text: meant }, ...valueCorrections(meant, rest, start + colon + 1)];
}

function valueCorrections(operator: string, value: string, start: number): Replacement[] {
  const values = VALUES[operator];
  if (values === undefined || value === "" || values.includes(value.toLowerCase())) return [];
  const meant = nearestOf(value, values);
  return meant === undefined ? [] : [{ start, end: start + value.length, text: meant }];
}

/* Similar words: with letters left out, inserted, exchanged or swapped. Pure. */

/** How many such slips a word of that length may have. */
export const slipsAllowed = (length: number): number => (length < 3 ? 0 : length < 7 ? 1 : 2);

/**
 * Damerau-Levenshtein distance (optimal string alignment: a swapped pair is not edited again), at most `most` + 1. In
 * code points.
 */
export function slipsBetween(one: string, other: string, most: number): number {
  const [a, b] = [[...one], [...other]];
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let before: number[] = [];
  let above = b.map((_, i) => i).concat(b.length);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let slips = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + same);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) slips = Math.min(slips, (before[j - 2] ?? 0) + 1);
      row.push(slips);
    }
    if (Math.min(...row) > most) return most + 1;
    before = above;
    above = row;
  }
  return above[b.length] ?? 0;
}

const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];

/** Every word in Latin letters one slip away from a folded one; none for a word with other letters. */
export function oneSlipFrom(word: string): string[] {
  if (!/^[a-z]+$/.test(word)) return [];
  const words = new Set<string>();
  for (let at = 0; at <= word.length; at++) {
    const [left, right] = [word.slice(0, at), word.slice(at)];
    if (right !== "") words.add(left + right.slice(1));
    if (right.length > 1) words.add(left + right.slice(1, 2) + right.slice(0, 1) + right.slice(2));
    for (const letter of LETTERS) {
      words.add(left + letter + right);
      if (right !== "") words.add(left + letter + right.slice(1));
    }
  }
  words.delete(word);
  words.delete("");
  return [...words];
}
