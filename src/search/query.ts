/**
 * The search language: the text `q` (rules: Search operation) as data.
 *
 *   q        = *( term / white-space )                      all must hold
 *   term     = [ "-" ] ( operator ":" value / value )       "-" excludes
 *   operator = "from" / "to" / "subject" / "label" / "has" / "is" / "before" / "after"      in any case
 *   value    = word / quoted
 *   word     = 1*( anything but white space and quotes )
 *   quoted   = quote *( anything but quotes ) ( quote / end of q )     matches in order
 *   quote    = U+0022, or the curly double quotes that phones insert instead
 *
 * has: takes `attachment`, is: takes `unread`, `read` and `starred`, before: and after: a date YYYY-MM-DD; before: is exclusive,
 * after: inclusive, both UTC (rules: Query language). Any text is a query, except one with a bad date:
 *  - An operator without a value, an unknown one, and has: or is: with another value are plain text.
 *  - A term without searchable text (punctuation only) is ignored. A q of such terms only, or an empty one, therefore
 *    matches everything.
 *  - Terms that ask for the same are one.
 *
 * Conditions on words, addresses, attachments and dates must hold of one and the same message; labels, unread and
 * starred describe its conversation.
 *
 * Also corrects queries that find nothing.
 */
import { AppError } from "../base/errors.ts";
import { fold, foldAddress, foldWithOffsets } from "./fold.ts";

/** The fields in which words are searched; `any` is every field. */
export type TextField = "any" | "sender" | "recipients" | "subject";

/** A condition on one message. A text, as typed, is a word or phrase that folds to at least one token. */
export type MessageCondition =
  | {
      readonly kind: "text";
      readonly field: TextField;
      readonly text: string;
      readonly negated: boolean;
      /** It was quoted, so it is meant literally. */
      readonly exact?: true;
    }
  | { readonly kind: "attachment"; readonly negated: boolean }
  /** Message date, epoch ms. */
  | { readonly kind: "since"; readonly at: number }
  | { readonly kind: "before"; readonly at: number };

/** A condition on the conversation. Labels compare as elsewhere. */
export type ThreadCondition =
  | { readonly kind: "label"; readonly label: string; readonly negated: boolean }
  | { readonly kind: "unread"; readonly negated: boolean }
  | { readonly kind: "starred"; readonly negated: boolean };

/** All conditions must hold. */
export interface Query {
  readonly message: readonly MessageCondition[];
  readonly thread: readonly ThreadCondition[];
}

/** True if the query asks for words, so that one match can be better than another. */
export const wantsWords = ({ message }: Query): boolean =>
  message.some((condition) => condition.kind === "text" && !condition.negated);

const OPERATORS = ["from", "to", "subject", "label", "has", "is", "before", "after"] as const;

/** The values of has: and is:. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  has: ["attachment"],
  is: ["unread", "read", "starred"],
};

const TERM = new RegExp(
  `(?<minus>-?)(?:(?<operator>${OPERATORS.join("|")}):)?(?:["“”„](?<quoted>[^"“”„]*)["“”„]?|(?<word>[^\\s"“”„]+))`,
  "dgi",
);

/** A term of q. */
interface Term {
  /** Position of the value without quotes, in UTF-16 units of q. */
  start: number;
  value: string;
  /** In lower case. */
  operator: string | undefined;
  negated: boolean;
  quoted: boolean;
}

function termsOf(q: string): Term[] {
  return [...q.matchAll(TERM)].map(({ groups, indices }) => {
    const { minus, operator, quoted, word } = groups ?? {};
    const [start = 0] = indices?.groups?.[quoted === undefined ? "word" : "quoted"] ?? [];
    return {
      start,
      value: quoted ?? word ?? "",
      operator: operator?.toLowerCase(),
      negated: minus === "-",
      quoted: quoted !== undefined,
    };
  });
}

const FIELD_OF_OPERATOR: Readonly<Record<string, TextField>> = {
  from: "sender",
  to: "recipients",
  subject: "subject",
};

/** Start of the day, epoch ms. @throws AppError bad_request */
function parseDate(operator: string, value: string): number {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(value) ? Date.parse(`${value}T00:00:00.000Z`) : Number.NaN;
  // A day that its month lacks would roll over into the next.
  if (Number.isNaN(at) || !new Date(at).toISOString().startsWith(value)) {
    throw new AppError("bad_request", `q: "${operator}:${value}" needs a date that exists, as YYYY-MM-DD`);
  }
  return at;
}

/** @throws AppError bad_request only for a bad date in `before:` or `after:` */
export function parseQuery(q: string): Query {
  const message: MessageCondition[] = [];
  const thread: ThreadCondition[] = [];

  function addText(field: TextField, text: string, negated: boolean, exact: boolean): boolean {
    const searchable = fold(text) !== "";
    if (searchable) message.push({ kind: "text", field, text, negated, ...(exact && { exact }) });
    return searchable;
  }

  /** False if the value is invalid for the operator, which makes both plain text. */
  function addOperator(operator: string, value: string, negated: boolean, exact: boolean): boolean {
    switch (operator) {
      case "from":
      case "to":
      case "subject":
        return addText(FIELD_OF_OPERATOR[operator] ?? "any", value, negated, exact);
      case "label":
        thread.push({ kind: "label", label: value, negated });
        return true;
      case "has":
        if (!VALUES.has?.includes(value.toLowerCase())) return false;
        message.push({ kind: "attachment", negated });
        return true;
      case "is": {
        const kind = value.toLowerCase();
        if (kind === "read") thread.push({ kind: "unread", negated: !negated });
        else if (kind === "unread" || kind === "starred") thread.push({ kind, negated });
        else return false;
        return true;
      }
      default: {
        const at = parseDate(operator, value);
        message.push({ kind: (operator === "before") !== negated ? "before" : "since", at });
        return true;
      }
    }
  }

  for (const { operator, value: given, negated, quoted } of termsOf(q)) {
    const value = given.trim();
    const exact = quoted && value !== "";
    if (operator === undefined) addText("any", value, negated, exact);
    else if (value === "" || !addOperator(operator, value, negated, exact)) {
      addText("any", `${operator}:${value}`, negated, exact);
    }
  }
  return { message: distinct(message), thread: distinct(thread) };
}

/** The first of conditions that ask for the same. */
function distinct<T extends MessageCondition | ThreadCondition>(conditions: readonly T[]): T[] {
  const asked = new Map<string, T>();
  for (const condition of conditions) {
    const key = JSON.stringify(condition, (name, value) =>
      name === "text" ? [fold(value), foldAddress(value)] : value,
    );
    if (!asked.has(key)) asked.set(key, condition);
  }
  return [...asked.values()];
}

/*
 * Correction of a query that finds nothing: misspelt operators, words that may be misspelt, and the query with others
 * in their place. mailbox/suggestions.ts checks whether a correction finds anything.
 */

/** A word of a query, and its position in it. */
export interface WordPosition {
  /** Folded. */
  word: string;
  field: TextField;
  /** UTF-16 units of the query. */
  start: number;
  end: number;
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

/** The labels in a query as typed, and their positions. */
export const labelPositionsOf = (q: string): { label: string; start: number; end: number; quoted: boolean }[] =>
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

/* Similar words: with letters left out, inserted, exchanged or swapped. */

/** The number of such slips that a word of that length may have. */
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
