/**
 * The size of a result: how much of a text or a list fits, counted in characters of the text and, apart from it, of the
 * structured content as JSON, whose escapes take more. Pure arithmetic; render*.ts say what was cut.
 */
import { AppError } from "../../base/errors.ts";
import { LEAST_CHARS, MOST_CHARS } from "../../operations/tool.ts";
import { fencedText, isFenceable } from "./fence.ts";
import { DEFAULT_CHARS, type RenderArguments } from "./rendering.ts";

/** Characters left in the text and in the JSON. */
export interface Room {
  text: number;
  json: number;
}

export const jsonLength = (value: unknown): number => JSON.stringify(value)?.length ?? 0;

/** The same of a text that is fit for a fence (shownText), quotes left out: these are all the characters it escapes. */
export function jsonLengthOfShown(text: string): number {
  let length = text.length;
  for (const character of ["\n", '"', "\\", "\t"]) {
    for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) length++;
  }
  return length;
}

/** The budget of a result. Out of range is pulled into it: the schema of the tools has refused it before. */
export const budgetOf = ({ maxChars = DEFAULT_CHARS }: Pick<RenderArguments, "maxChars">): number =>
  Math.min(MOST_CHARS, Math.max(LEAST_CHARS, maxChars));

/** As many of the first items as have room in both forms, each with two characters between. */
export function takeThatFit<T>(items: readonly T[], chars: number, textOf: (item: T) => string): T[] {
  let left = chars;
  const taken: T[] = [];
  for (const item of items) {
    left -= Math.max(textOf(item).length, jsonLength(item)) + 2;
    if (left < 0) break;
    taken.push(item);
  }
  return taken;
}

/** A piece of a text. */
export interface Piece {
  /** Made fit for a fence. */
  shown: string;
  /** Of the whole, in UTF-16 units; `end` is where the next piece starts. */
  start: number;
  end: number;
}

/** Pieces end where a line does if that costs no more than this share of them. */
const FOR_A_LINE = 0.25;
/** A piece looks at no more than this many times the room: text of which little is shown is gone through in steps. */
const MOST_LOOKED_AT = 4;
/** Share of the room that a guess aims at, and that is enough for a piece. */
const ALMOST = 0.98;
const ENOUGH = 0.9;
const MOST_GUESSES = 4;

/**
 * The piece of `whole` from `offset` that has room. Pieces one after another make up the whole, whatever the room of
 * each: no unit between them is lost. At least one code point each, so that they come to an end.
 * @throws AppError bad_request for an offset beyond the end
 */
export function pieceOf(whole: string, offset: number, room: Room): Piece {
  if (offset > whole.length) {
    throw new AppError("bad_request", `offset ${offset} is beyond the end: there are ${whole.length} characters`);
  }
  const start = isInsidePair(whole, offset) ? offset - 1 : offset;
  const size = Math.max(1, Math.min(room.text, room.json));
  const near = start + size;
  /** Then what is shown is not made anew for every guess. */
  const isShown = isFenceable(whole.slice(start, near));
  /** With the share of the room that it takes: above 1 it has none. */
  const upTo = (at: number): Piece & { takes: number } => {
    const end = isInsidePair(whole, at) ? at - 1 : at;
    const part = whole.slice(start, end);
    const shown = isShown && end <= near ? part : fencedText(part);
    // Not counted where it has room even if every character is escaped.
    const json = 2 * shown.length <= room.json ? shown.length : jsonLengthOfShown(shown);
    return { shown, start, end, takes: Math.max(shown.length / Math.max(1, room.text), json / Math.max(1, room.json)) };
  };

  // The last piece that had room, and the first that has none.
  let low = upTo(start);
  let high = low;
  for (let step = 1; step <= MOST_LOOKED_AT; step++) {
    high = upTo(Math.min(whole.length, start + step * size));
    if (high.takes > 1) break;
    low = high;
    if (high.end === whole.length) return high;
    if (high.shown.length > size * (1 - FOR_A_LINE)) break;
  }
  for (let step = 1; high.takes > 1 && low.takes < ENOUGH; step++) {
    // As if what is shown were spread evenly, which gets near in a step or two; for mail that is not so, by halves.
    const share = (ALMOST - low.takes) / (high.takes - low.takes);
    const distance = (high.end - low.end) * (step <= MOST_GUESSES ? share : 0.5);
    const middle = upTo(low.end + Math.max(1, Math.floor(distance)));
    if (middle.end === low.end || middle.end === high.end) break;
    if (middle.takes > 1) high = middle;
    else low = middle;
  }
  if (low.end > start) {
    const end = lineEndBefore(whole, start, low.end);
    const piece = upTo(end);
    // Folded spaces may make a shorter piece the larger one.
    return piece.takes <= 1 && end > start ? piece : low;
  }
  return upTo(start + (isInsidePair(whole, start + 1) ? 2 : 1));
}

const isInsidePair = (text: string, at: number): boolean =>
  at > 0 && /[\ud800-\udbff]/.test(text[at - 1] ?? "") && /[\udc00-\udfff]/.test(text[at] ?? "");

/** The last good place for a cut between `start` and `end`: behind a line, a word, or at least a code point. */
function lineEndBefore(text: string, start: number, end: number): number {
  const least = end - (end - start) * FOR_A_LINE;
  const line = text.lastIndexOf("\n", end - 1) + 1;
  if (line > least) return line;
  const space = text.lastIndexOf(" ", end - 1) + 1;
  if (space > least) return space;
  return isInsidePair(text, end) ? end - 1 : end;
}
