/**
 * The search language: the text `q` (rules: Search operation) as data.
 *
 *   q        = *( term / white-space )                      all must hold
 *   term     = [ "-" ] ( operator ":" value / value )       "-" excludes
 *   operator = a name of operators.ts                       in any case
 *   value    = word / quoted
 *   word     = 1*( anything but white space and quotes )
 *   quoted   = quote *( anything but quotes ) ( quote / end of q )     matches in order
 *   quote    = U+0022, or the curly double quotes that phones insert instead
 *
 * before: is exclusive, after: inclusive, both UTC (rules: Query language). older_than:3d is before: the day three days
 * ago, newer_than:3d is after: it. larger: and smaller: leave that very size out. Any text is a query, except one with a
 * bad date:
 *  - An operator without a value, an unknown one, and any but before: and after: with another value are plain text. Notes
 *    say so.
 *  - A term without searchable text (punctuation only) is ignored. A q of such terms only, or an empty one, therefore
 *    matches everything.
 *  - Terms that ask for the same are one.
 *
 * Conditions on words, addresses, attachments, dates and sizes must hold of one and the same message; labels, folders,
 * unread and starred describe its conversation.
 *
 * Also corrects queries that find nothing.
 */
import { AppError } from "../base/errors.ts";
import { parseTime } from "../base/time.ts";
import { asCc, foldAddress, foldText, foldWithOffsets } from "./fold.ts";
import { LONGEST_PHRASE } from "./missing.ts";
import { type ListFolder, listOperatorValues, OPERATOR_NAMES, OPERATORS, type Operator } from "./operators.ts";

/** The fields in which words are searched; `any` is every field. `recipients` includes `cc`. */
export type TextField = "any" | "sender" | "recipients" | "cc" | "subject" | "files";

/** A condition on one message. A text, as typed, is a word or phrase that folds to at least one token. */
export type MessageCondition =
  | {
      readonly kind: "text";
      readonly field: TextField;
      readonly text: string;
      readonly negated: boolean;
      /** True for a text that was quoted, so it is meant literally. */
      readonly exact?: true;
    }
  | { readonly kind: "attachment"; readonly negated: boolean }
  /** Message date, epoch ms. */
  | { readonly kind: "since"; readonly at: number }
  | { readonly kind: "before"; readonly at: number }
  /** Bytes of the message. */
  | { readonly kind: "atLeast"; readonly bytes: number }
  | { readonly kind: "below"; readonly bytes: number };

export type TextCondition = Extract<MessageCondition, { kind: "text" }>;

/** A condition on the conversation. Labels compare as elsewhere. */
export type ThreadCondition =
  | { readonly kind: "folder"; readonly folder: ListFolder; readonly negated: boolean }
  | { readonly kind: "label"; readonly label: string; readonly negated: boolean }
  | { readonly kind: "unread"; readonly negated: boolean }
  | { readonly kind: "starred"; readonly negated: boolean };

/** A condition on a mark, which a conversation has as a whole; mailbox/reading/walk.ts knows what each mark is. */
export type MarkCondition = Exclude<ThreadCondition, { kind: "folder" | "label" | "unread" }>;

/** All conditions must hold. */
export interface Query {
  readonly message: readonly MessageCondition[];
  readonly thread: readonly ThreadCondition[];
}

export interface ParsedQuery extends Query {
  /** For people: the terms that look like operators and were taken as text, and why. */
  readonly notes: readonly string[];
}

/** True if the query asks for words, so that one match can be better than another. */
export const hasSearchWords = ({ message }: Query): boolean =>
  message.some((condition) => condition.kind === "text" && !condition.negated);

const TERM = new RegExp(
  `(?<minus>-?)(?:(?<operator>${OPERATOR_NAMES.join("|")}):)?(?:["“”„](?<quoted>[^"“”„]*)["“”„]?|(?<word>[^\\s"“”„]+))`,
  "dgi",
);

/** A term of q. */
interface Term {
  /** Position of the value without quotes, in UTF-16 units of q. */
  start: number;
  value: string;
  /** In lower case. */
  operator: Operator | undefined;
  negated: boolean;
  quoted: boolean;
}

function parseTerms(q: string): Term[] {
  return [...q.matchAll(TERM)].map(({ groups, indices }) => {
    const { minus, operator, quoted, word } = groups ?? {};
    const [start = 0] = indices?.groups?.[quoted === undefined ? "word" : "quoted"] ?? [];
    return {
      start,
      value: quoted ?? word ?? "",
      operator: operator?.toLowerCase() as Operator | undefined,
      negated: minus === "-",
      quoted: quoted !== undefined,
    };
  });
}

const FIELD_OF_OPERATOR: Readonly<Partial<Record<Operator, TextField>>> = {
  from: "sender",
  to: "recipients",
  cc: "cc",
  subject: "subject",
  filename: "files",
};

const ofPeople: readonly TextField[] = ["sender", "recipients", "cc"];

/** True for a field of names and addresses. */
export const isOfPeople = (field: TextField): boolean => ofPeople.includes(field);

/** A folded token as the index has it in a field. */
export const toFieldToken = (field: TextField, token: string): string => (field === "cc" ? asCc(token) : token);

/** The tokens of a condition as the index has them. */
export function listConditionTokens({ field, text }: TextCondition): string[] {
  const address = isOfPeople(field) ? foldAddress(text) : undefined;
  return (address ?? foldText(text)).split(" ").map((token) => toFieldToken(field, token));
}

/** The phrases, as tokens, that a message with the text of a condition has, each within one field. */
export function splitIntoPhrases(condition: TextCondition): string[][] {
  const tokens = listConditionTokens(condition);
  const last = Math.max(0, tokens.length - LONGEST_PHRASE);
  const stretches: string[][] = [];
  for (let at = 0; at < last + LONGEST_PHRASE / 2; at += LONGEST_PHRASE / 2) {
    const start = Math.min(at, last);
    stretches.push(tokens.slice(start, start + LONGEST_PHRASE));
  }
  return stretches;
}

/** Start of the day, epoch ms. @throws AppError bad_request */
function parseDate(operator: string, value: string): number {
  const at = parseTime(`${value}T00:00Z`);
  if (at === undefined) {
    throw new AppError("bad_request", `q: "${operator}:${value}" needs a date that exists, as YYYY-MM-DD`);
  }
  return at;
}

const DAY_MS = 86_400_000;

/** Start of the UTC day so long before `now`, epoch ms; a month that lacks the day ends earlier. Undefined for no age. */
function parseAge(value: string, now: number): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,4})([dwmy])$/i.exec(value) ?? [];
  if (digits === undefined) return undefined;
  const [count, today] = [Number(digits), Math.floor(now / DAY_MS) * DAY_MS];
  const days = { d: 1, w: 7 }[unit.toLowerCase()];
  if (days !== undefined) return today - count * days * DAY_MS;
  const date = new Date(today);
  const day = date.getUTCDate();
  const months = unit.toLowerCase() === "y" ? 12 * count : count;
  // The last day of that month, then this day of it, if it has that.
  date.setUTCMonth(date.getUTCMonth() - months + 1, 0);
  date.setUTCDate(Math.min(day, date.getUTCDate()));
  return date.getTime();
}

const BYTES_OF: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/** Bytes; undefined for no size. Thousands, as the app shows sizes. */
function parseSize(value: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,12})([kmg]?)b?$/i.exec(value) ?? [];
  const bytes = Number(digits) * (BYTES_OF[unit.toLowerCase()] ?? 1);
  return digits === undefined ? undefined : Math.min(bytes, Number.MAX_SAFE_INTEGER - 1);
}

/** Limits on notes, and on the characters of a term that they name. */
const MOST_NOTES = 5;
const LONGEST_NOTED = 40;

function shortened(term: string): string {
  const characters = [...term];
  return characters.length > LONGEST_NOTED ? `${characters.slice(0, LONGEST_NOTED).join("")}…` : term;
}

/**
 * The name in an unquoted term of q that looks like an operator: letters and a colon before a value, but no URL. While the
 * operator is unknown, quoted text after it is a term of its own.
 */
function operatorLikeIn(q: string, value: string, start: number): string | undefined {
  const [, name, rest] = /^([a-z][a-z_-]+):(?!:|\/\/)(.*)/is.exec(value) ?? [];
  return rest !== "" || /["“”„]/.test(q[start + value.length] ?? "") ? name : undefined;
}

/** Why an operator was taken as text. */
function explainMisusedOperator(operator: Operator, value: string): string {
  if (value === "") return `${operator}: needs a value right after it`;
  const expected = listOperatorValues(operator)?.join(", ") ?? OPERATORS[operator].takes ?? "words";
  return `${operator}: takes ${expected}`;
}

/**
 * `now`, epoch ms: the day that older_than: and newer_than: count from.
 * @throws AppError bad_request only for a bad date in `before:` or `after:`
 */
export function parseQuery(q: string, now: number): ParsedQuery {
  const message: MessageCondition[] = [];
  const thread: ThreadCondition[] = [];
  const notes = new Set<string>();

  function note(term: string, reason: string): void {
    if (notes.size < MOST_NOTES) notes.add(`"${shortened(term)}" was searched as text: ${reason}`);
  }

  function addText(field: TextField, text: string, negated: boolean, exact: boolean): boolean {
    const searchable = foldText(text) !== "";
    if (searchable) message.push({ kind: "text", field, text, negated, ...(exact && { exact }) });
    return searchable;
  }

  function addDate(at: number | undefined, isBefore: boolean): boolean {
    if (at !== undefined) message.push({ kind: isBefore ? "before" : "since", at });
    return at !== undefined;
  }

  /** False if the value is invalid for the operator, which makes both plain text. */
  function addOperator(operator: Operator, value: string, negated: boolean, exact: boolean): boolean {
    const field = FIELD_OF_OPERATOR[operator];
    if (field !== undefined) return addText(field, value, negated, exact);
    const fixed = value.toLowerCase();
    if (listOperatorValues(operator)?.includes(fixed) === false) return false;
    switch (operator) {
      case "label":
        thread.push({ kind: "label", label: value, negated });
        return true;
      case "has":
        message.push({ kind: "attachment", negated });
        return true;
      case "is":
        if (fixed === "starred") thread.push({ kind: "starred", negated });
        else thread.push({ kind: "unread", negated: negated !== (fixed === "read") });
        return true;
      case "in":
        thread.push({ kind: "folder", folder: fixed as ListFolder, negated });
        return true;
      case "larger":
      case "smaller": {
        const bytes = parseSize(value);
        if (bytes === undefined) return false;
        if ((operator === "larger") !== negated) message.push({ kind: "atLeast", bytes: negated ? bytes : bytes + 1 });
        else message.push({ kind: "below", bytes: negated ? bytes + 1 : bytes });
        return true;
      }
      case "older_than":
      case "newer_than":
        return addDate(parseAge(value, now), (operator === "older_than") !== negated);
      case "before":
      case "after":
        return addDate(parseDate(operator, value), (operator === "before") !== negated);
      default:
        return false;
    }
  }

  for (const { operator, value: given, negated, quoted, start } of parseTerms(q)) {
    const value = given.trim();
    const exact = quoted && value !== "";
    const minus = negated ? "-" : "";
    if (operator === undefined) {
      addText("any", value, negated, exact);
      const name = quoted ? undefined : operatorLikeIn(q, value, start);
      const bare = OPERATOR_NAMES.find((known) => !quoted && value.toLowerCase() === `${known}:`);
      if (name !== undefined) note(minus + value, `${shortened(name)}: is no operator`);
      else if (bare !== undefined) note(minus + value, explainMisusedOperator(bare, ""));
    } else if (value === "" || !addOperator(operator, value, negated, exact)) {
      addText("any", `${operator}:${value}`, negated, exact);
      note(`${minus}${operator}:${value}`, explainMisusedOperator(operator, value));
    }
  }
  return { message: distinct(message), thread: distinct(thread), notes: [...notes] };
}

/** The first of conditions that ask for the same. */
function distinct<T extends MessageCondition | ThreadCondition>(conditions: readonly T[]): T[] {
  const asked = new Map<string, T>();
  for (const condition of conditions) {
    const key = JSON.stringify(condition, (name, value) =>
      name === "text" ? [foldText(value), foldAddress(value)] : value,
    );
    if (!asked.has(key)) asked.set(key, condition);
  }
  return [...asked.values()];
}

/*
 * Correction of a query that finds nothing: misspelt operators, words that may be misspelt, and the query with others
 * in their place. mailbox/reading/suggestions.ts checks whether a correction finds anything.
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
export function replaceInQuery(q: string, replacements: readonly Replacement[]): string {
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
export function listQueryWords(q: string): WordPosition[] {
  return parseTerms(q)
    .filter(
      ({ operator, negated }) => !negated && (operator === undefined || FIELD_OF_OPERATOR[operator] !== undefined),
    )
    .flatMap(({ value, start: from, operator }) =>
      foldWithOffsets(value)
        .filter(({ token }) => [...token].length >= SHORTEST && !/\p{N}/u.test(token))
        .map(({ token, start, end }) => ({
          word: token,
          field: (operator && FIELD_OF_OPERATOR[operator]) ?? "any",
          start: from + start,
          end: from + end,
        })),
    );
}

/** The labels in a query as typed, and their positions. */
export const listLabelPositions = (q: string): { label: string; start: number; end: number; quoted: boolean }[] =>
  parseTerms(q)
    .filter(({ operator, negated, value }) => operator === "label" && !negated && value.trim() !== "")
    .map(({ value, start, quoted }) => ({ label: value, start, end: start + value.length, quoted }));

/** The nearest of `words` to a word that is none of them, if near enough; of equally near ones, the preferred. */
function findNearestWord<T extends string>(
  word: string,
  words: readonly T[],
  isPreferred: (word: T) => boolean = () => false,
): T | undefined {
  const typed = word.toLowerCase();
  const most = Math.max(1, countAllowedTypos(typed.length));
  const near = words
    .map((known) => ({ known, slips: boundedEditDistance(typed, known, most) }))
    .filter(({ slips }) => slips <= most)
    .sort((a, b) => a.slips - b.slips || Number(isPreferred(b.known)) - Number(isPreferred(a.known)));
  return near[0]?.known;
}

/**
 * The query with each misspelt operator or fixed value corrected: `form:ann`, `is:unraed`. Undefined if there is none.
 */
export function withOperatorsCorrected(q: string): string | undefined {
  const replacements = parseTerms(q).flatMap((term) => operatorCorrections(q, term));
  return replacements.length === 0 ? undefined : replaceInQuery(q, replacements);
}

function operatorCorrections(q: string, { start, value, operator, quoted }: Term): Replacement[] {
  if (operator !== undefined) return valueCorrections(operator, value, start);
  const name = quoted ? undefined : operatorLikeIn(q, value, start);
  if (name === undefined) return [];
  const colon = start + name.length;
  const rest = value.slice(name.length + 1);
  const meant = findNearestWord(
    name,
    OPERATOR_NAMES,
    (known) => listOperatorValues(known)?.includes(rest.toLowerCase()) === true,
  );
  if (meant === undefined) return [];
  return [{ start, end: colon, text: meant }, ...valueCorrections(meant, rest, colon + 1)];
}

function valueCorrections(operator: Operator, value: string, start: number): Replacement[] {
  const values = listOperatorValues(operator);
  if (values === undefined || value === "" || values.includes(value.toLowerCase())) return [];
  const meant = findNearestWord(value, values);
  return meant === undefined ? [] : [{ start, end: start + value.length, text: meant }];
}

/* Similar words: with letters left out, inserted, exchanged or swapped. */

/** The number of such slips that a word of that length may have. */
export const countAllowedTypos = (length: number): number => (length < 3 ? 0 : length < 7 ? 1 : 2);

/**
 * Damerau-Levenshtein distance (optimal string alignment: a swapped pair is not edited again), at most `most` + 1. In
 * code points.
 */
export function boundedEditDistance(one: string, other: string, most: number): number {
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
export function listWordsOneTypoAway(word: string): string[] {
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
