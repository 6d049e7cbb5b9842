/**
 * Finds a word or phrase in a text without folding all of it: looks up its common spellings, and folds only their
 * surroundings. Then it folds, as far as `Work` allows, the words of the text with letters beyond ASCII, which may be
 * spelt in other ways.
 */
import { isAscii } from "../message/characters.ts";
import { foldText, foldWithOffsets, isAsciiLetterOrDigit, LONGEST_TOKEN, type TokenPosition } from "./fold.ts";

/** A word or a phrase. */
export interface Sought {
  /** One or more, in order. */
  tokens: readonly string[];
  /** The token that is looked up: the longest, which is probably the rarest. */
  anchor: string;
  /** Spellings of the anchor in lower-case text. */
  spellings: readonly string[];
}

/** The remaining budget over many texts, in folded UTF-16 units. When it is used up, further matches are not found. */
export interface Work {
  left: number;
}
/** Units that can be scanned for the price of folding one. */
const LOOKED_THROUGH = 100;

/** A text, and its lower-case form with the same offsets. */
export interface Readable {
  text: string;
  lower: string;
}

export const prepareSearchableText = (text: string): Readable => ({ text, lower: lowered(text) });

/** A position with the tokens around it; `at` is the index of the first match. */
interface Occurrence {
  tokens: TokenPosition[];
  at: number;
}

/** Units folded before and after a position: as much as a snippet shows. A slightly longer text is folded whole. */
const BEFORE = 50;
const BEHIND = 170;
const SHORT = 200;
/** Further units that are folded to reach the end of a token. */
const TO_A_BREAK = 80;
/** Units folded behind a position for a phrase whose words lie far apart. */
const FARTHEST = 2_000;
/** Most positions examined at which the anchor matches and the whole phrase does not. */
const MOST_POSITIONS = 60;

export function prepareSought(text: string): Sought {
  const tokens = foldText(text).split(" ");
  const anchor = tokens.reduce((longest, token) => (token.length > longest.length ? token : longest), "");
  const typed = lowered(text)
    .split(/\s+/)
    .filter((word) => word !== "" && word !== anchor && foldText(word).split(" ").includes(anchor));
  return { tokens, anchor, spellings: [...typed, anchor] };
}

const lowered = (text: string): string => text.replaceAll("İ", "i").toLowerCase();

/** True if a character always separates tokens. */
const isBreak = (unit: number): boolean => unit <= 0x7f && !isAsciiLetterOrDigit(unit);

/**
 * The first match found, which may not be the first in the text. `thorough`: also unusual spellings (other accents,
 * full width, invisible characters inside).
 */
export function findOccurrence(
  sought: Sought,
  { text, lower }: Readable,
  work: Work,
  thorough: boolean,
): Occurrence | undefined {
  let positions = 0;
  for (const spelling of sought.spellings) {
    work.left -= Math.ceil(lower.length / LOOKED_THROUGH);
    for (let at = lower.indexOf(spelling); at >= 0; at = lower.indexOf(spelling, at + 1)) {
      if (!standsAlone(lower, at, spelling)) continue;
      const found = occurrenceAt(sought, text, at, work);
      if (found) return found;
      if (++positions === MOST_POSITIONS || work.left <= 0) return undefined;
    }
  }
  return thorough ? occurrenceInWords(sought, text, work) : undefined;
}

/** True if no ASCII letter or digit extends the match to a longer token. */
function standsAlone(lower: string, at: number, spelling: string): boolean {
  const end = at + spelling.length;
  if (isAsciiLetterOrDigit(lower.charCodeAt(at - 1)) && isAsciiLetterOrDigit(lower.charCodeAt(at))) return false;
  if (spelling.length >= LONGEST_TOKEN) return true;
  return !(isAsciiLetterOrDigit(lower.charCodeAt(end)) && isAsciiLetterOrDigit(lower.charCodeAt(end - 1)));
}

/** Units between two separators. */
const WORD = /[A-Za-z0-9\u0080-\uffff]+/g;
/** Units folded at once in words as long as whole texts. */
const PIECE = 400;

function occurrenceInWords(sought: Sought, text: string, work: Work): Occurrence | undefined {
  if (isAscii(text)) return undefined;
  let positions = 0;
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (isAscii(word)) continue;
    for (let at = 0; at < word.length; at += PIECE) {
      if (work.left <= 0) return undefined;
      // With context, since a token may cross the boundary.
      const piece = word.slice(Math.max(0, at - LONGEST_TOKEN), at + PIECE + LONGEST_TOKEN);
      work.left -= piece.length;
      if (!foldText(piece).includes(sought.anchor)) continue;
      const anchor = foldWithOffsets(piece).find(({ token }) => token === sought.anchor);
      const found = anchor && occurrenceAt(sought, text, index + Math.max(0, at - LONGEST_TOKEN) + anchor.start, work);
      if (found) return found;
      if (++positions === MOST_POSITIONS) return undefined;
    }
  }
  return undefined;
}

/** The tokens around a position of the anchor, if they contain the match. */
function occurrenceAt(sought: Sought, text: string, position: number, work: Work): Occurrence | undefined {
  let reach = Math.max(BEHIND, 3 * sought.tokens.join(" ").length);
  for (;;) {
    const tokens = tokensAround(text, position, reach, work);
    const at = indexOfRun(tokens, sought.tokens, position);
    if (at >= 0) return { tokens, at };
    // The words of a phrase may lie far apart.
    if (sought.tokens.length === 1 || reach >= FARTHEST) return undefined;
    reach = FARTHEST;
  }
}

/** True if the run of tokens is at this index. */
export function isRunAt(tokens: readonly TokenPosition[], at: number, run: readonly string[]): boolean {
  for (let i = 0; i < run.length; i++) {
    if (tokens[at + i]?.token !== run[i]) return false;
  }
  return true;
}

/** Index of the run that contains `position`, or else of the first one. */
function indexOfRun(tokens: readonly TokenPosition[], run: readonly string[], position: number): number {
  let first = -1;
  for (let at = 0; at + run.length <= tokens.length; at++) {
    if (!isRunAt(tokens, at, run)) continue;
    if (first < 0) first = at;
    const end = tokens[at + run.length - 1]?.end ?? 0;
    if (end > position) return at;
  }
  return first;
}

function tokensAround(text: string, position: number, reach: number, work: Work): TokenPosition[] {
  const [first, last] =
    text.length <= SHORT ? [0, text.length] : [position - Math.max(BEFORE, reach - BEHIND), position + reach];
  const from = toCharacterBoundary(text, breakBefore(text, Math.max(0, first)));
  const to = toCharacterBoundary(text, breakBehind(text, Math.min(text.length, last)));
  work.left -= to - from;
  const tokens = foldWithOffsets(text.slice(from, to), from);
  // The last token may be cut, and then does not count; of a long one the beginning counts, and is present.
  const isCut = to < text.length && !isBreak(text.charCodeAt(to));
  if (isCut && (tokens.at(-1)?.token.length ?? 0) < LONGEST_TOKEN) tokens.pop();
  return from > 0 && !isBreak(text.charCodeAt(from - 1)) ? tokens.slice(1) : tokens;
}

/** The position itself, or the one before it if it lies within a surrogate pair. */
export const toCharacterBoundary = (text: string, at: number): number =>
  /[\ud800-\udbff]/.test(text[at - 1] ?? "") && /[\udc00-\udfff]/.test(text[at] ?? "") ? at - 1 : at;

/** The nearest position at or before `at` that follows a separator, unless it is far. */
function breakBefore(text: string, at: number): number {
  for (let position = at; position > 0 && position > at - TO_A_BREAK; position--) {
    if (isBreak(text.charCodeAt(position - 1))) return position;
  }
  return Math.max(0, at - TO_A_BREAK);
}

function breakBehind(text: string, at: number): number {
  for (let position = at; position < text.length && position < at + TO_A_BREAK; position++) {
    if (isBreak(text.charCodeAt(position))) return position;
  }
  return Math.min(text.length, at + TO_A_BREAK);
}
