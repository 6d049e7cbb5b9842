/**
 * Folding (fold.ts) that remembers where each token stands in the text, for what was found to be shown in it.
 *
 * Invariant: the tokens are those of `fold`, in its order; no place lies within a surrogate pair, or between a letter and
 * the marks upon it.
 */
import { isAscii } from "../message/shown.ts";
import { cut, foldRun, LONGEST_TOKEN } from "./fold.ts";

/** A token of a text, and the UTF-16 units that it was made of: from `start` up to `end`. */
export interface PlacedToken {
  token: string;
  start: number;
  end: number;
}

/**
 * A character with what composes with it or is drawn on it, however it is written: marks, jamo, and the vowels AM of Thai
 * and Lao, which begin with a mark.
 */
const CLUSTER =
  /[\s\S][\p{M}\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}\u0e33\u0eb3\uff9e\uff9f\u1160-\u11ff\uffa0-\uffdc]*/gu;

/** Characters that fold to themselves, as tokens of their own, wherever they stand: most of Chinese, Japanese and Korean. */
const OWN_TOKEN = /^[\u4e00-\u9fff\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa]$/;

const spaced = (folded: string): string => folded.replace(/ +/g, " ");

const foldCluster = (cluster: string): string => (OWN_TOKEN.test(cluster) ? ` ${cluster} ` : foldRun(cluster));

/** A run beyond ASCII in its clusters; whole, should they say something else together than one by one. */
function piecesOf(run: string): string[] {
  const pieces = run.match(CLUSTER) ?? [];
  return spaced(pieces.map(foldCluster).join("")) === spaced(foldRun(run)) ? pieces : [run];
}

export const isAsciiLetterOrDigit = (unit: number): boolean =>
  (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x30 && unit <= 0x39);

/** The runs of letters and digits of a text in ASCII, in lower case. */
function asciiTokens(lower: string, base: number): PlacedToken[] {
  const tokens: PlacedToken[] = [];
  let start = -1;
  for (let at = 0; at <= lower.length; at++) {
    // Behind the end there is NaN.
    if (isAsciiLetterOrDigit(lower.charCodeAt(at))) {
      if (start < 0) start = at;
    } else if (start >= 0) {
      const token = lower.slice(start, at);
      tokens.push({ token: at - start > LONGEST_TOKEN ? cut(token) : token, start: base + start, end: base + at });
      start = -1;
    }
  }
  return tokens;
}

/**
 * The tokens of a text with their places, counted on from `base`. Beyond ASCII it costs some times what `fold` costs: for
 * short pieces.
 */
export function foldWithOffsets(text: string, base = 0): PlacedToken[] {
  if (isAscii(text)) return asciiTokens(text.toLowerCase(), base);
  const tokens: PlacedToken[] = [];
  let letters = "";
  let start = 0;
  let end = 0;
  const close = (): void => {
    if (letters !== "") {
      const token = letters.length > LONGEST_TOKEN ? cut(letters) : letters;
      tokens.push({ token, start: base + start, end: base + end });
    }
    letters = "";
  };
  const append = (more: string, from: number, to: number): void => {
    if (letters === "") start = from;
    letters += more;
    end = to;
  };
  const appendPiece = (piece: string, at: number): void => {
    if (OWN_TOKEN.test(piece)) {
      close();
      append(piece, at, at + piece.length);
      close();
      return;
    }
    const folded = foldRun(piece);
    // What folds to nothing belongs to the letter that it stands upon.
    if (folded === "" && letters !== "") end = at + piece.length;
    for (const [index, part] of folded.split(" ").entries()) {
      if (index > 0) close();
      if (part !== "") append(part, at, at + piece.length);
    }
  };
  for (let at = 0; at < text.length; ) {
    const from = at;
    if (text.charCodeAt(at) > 0x7f) {
      while (text.charCodeAt(at) > 0x7f) at++;
      let place = from;
      for (const piece of piecesOf(text.slice(from, at))) {
        appendPiece(piece, place);
        place += piece.length;
      }
      continue;
    }
    while (isAsciiLetterOrDigit(text.charCodeAt(at))) at++;
    if (at > from) append(text.slice(from, at).toLowerCase(), from, at);
    else {
      close();
      at++;
    }
  }
  close();
  return tokens;
}
