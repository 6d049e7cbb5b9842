/**
 * The size of a result: how much of a text or a list fits. A result has two sizes, the characters of its text and those
 * of its structured content as JSON, which has the same text with escapes. Pure; render-*.ts say what was cut.
 */
import { AppError } from "../../base/errors.ts";
import { LEAST_CHARS, MOST_CHARS } from "../../operations/tool.ts";
import { cleanTextForMailFence, isSafeInsideMailFence } from "./fence.ts";
import { DEFAULT_CHARS, type RenderArguments } from "./result.ts";

/** Characters left in the text and in the structured content. */
export interface Room {
  text: number;
  json: number;
}

/** The length of a text as JSON, without quotes. */
export const jsonTextLength = (text: string): number => JSON.stringify(text).length - 2;

/** The budget of a result, within its range. (The schema of the tools refuses others.) */
export const resultBudget = ({ maxChars = DEFAULT_CHARS }: Pick<RenderArguments, "maxChars">): number =>
  Math.min(MOST_CHARS, Math.max(LEAST_CHARS, maxChars));

/** Takes the first items, as many as have room as JSON text, with two characters between items. */
export function takeThatFit<T>(items: readonly T[], chars: number, formatItem: (item: T) => string): T[] {
  let left = chars;
  const taken: T[] = [];
  for (const item of items) {
    left -= jsonTextLength(formatItem(item)) + 2;
    if (left < 0) break;
    taken.push(item);
  }
  return taken;
}

/** A piece of a text. */
export interface Piece {
  /** The piece, fit for a fence. */
  shown: string;
  /** Positions in the whole text, in UTF-16 units. The next piece starts at `end`. */
  start: number;
  end: number;
}

/** A piece ends at the end of a line when this shortens it by at most this share. */
const FOR_A_LINE = 0.25;
/** A piece looks at most at this many times the room. A text of which little is shown takes several pieces. */
const MOST_LOOKED_AT = 4;
/** Share of the room that a guess aims at. */
const ALMOST = 0.98;
/** Share of the room that is enough for a piece. */
const ENOUGH = 0.9;
const MOST_GUESSES = 4;

/**
 * Cuts the piece of `whole` that starts at `offset` and has room. Consecutive pieces make up the whole text, whatever
 * the room of each. A piece has at least one code point, so the pieces come to an end.
 * @throws AppError bad_request for an offset beyond the end
 */
export function cutPiece(whole: string, offset: number, room: Room): Piece {
  if (offset > whole.length) {
    throw new AppError("bad_request", `offset ${offset} is beyond the end: there are ${whole.length} characters`);
  }
  const start = isInsidePair(whole, offset) ? offset - 1 : offset;
  const size = Math.max(1, Math.min(room.text, room.json));
  const near = start + size;
  /** True if the text is fit for a fence as it is, so that no guess has to clean it. */
  const isShown = isSafeInsideMailFence(whole.slice(start, near));
  /** The piece up to `at`, with the share of the room that it takes. Above 1 it has no room. */
  const upTo = (at: number): Piece & { takes: number } => {
    const end = isInsidePair(whole, at) ? at - 1 : at;
    const part = whole.slice(start, end);
    const shown = isShown && end <= near ? part : cleanTextForMailFence(part);
    // If the text has room with every character escaped, the escapes need not be counted.
    const json = 2 * shown.length <= room.json ? shown.length : jsonTextLength(shown);
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
    // Guesses as if the shown characters were spread evenly, which is near in a step or two. Other mail is halved.
    const share = (ALMOST - low.takes) / (high.takes - low.takes);
    const distance = (high.end - low.end) * (step <= MOST_GUESSES ? share : 0.5);
    const middle = upTo(low.end + Math.max(1, Math.floor(distance)));
    if (middle.end === low.end || middle.end === high.end) break;
    if (middle.takes > 1) high = middle;
    else low = middle;
  }
  if (low.end > start) {
    const end = goodEndBefore(whole, start, low.end);
    const piece = upTo(end);
    // Spaces are folded, so a shorter piece may take more room.
    return piece.takes <= 1 && end > start ? piece : low;
  }
  return upTo(start + (isInsidePair(whole, start + 1) ? 2 : 1));
}

const isInsidePair = (text: string, at: number): boolean =>
  at > 0 && /[\ud800-\udbff]/.test(text[at - 1] ?? "") && /[\udc00-\udfff]/.test(text[at] ?? "");

/** Finds the last good end of a piece between `start` and `end`: after a line, else a word, else a code point. */
function goodEndBefore(text: string, start: number, end: number): number {
  const least = end - (end - start) * FOR_A_LINE;
  const line = text.lastIndexOf("\n", end - 1) + 1;
  if (line > least) return line;
  const space = text.lastIndexOf(" ", end - 1) + 1;
  if (space > least) return space;
  return isInsidePair(text, end) ? end - 1 : end;
}
