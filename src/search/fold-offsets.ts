/**
 * Folding (fold.ts) that remembers where each token stands in the text, for what was found to be shown in it.
 *
 * Invariant: the tokens are those of `fold`, in its order; no place lies within a surrogate pair, or between a letter and
 * the marks upon it.
 */
import { cut, foldRun, LONGEST_TOKEN } from "./fold.ts";

/** A token of a text, and the UTF-16 units that it was made of: from `start` up to `end`. */
export interface PlacedToken {
  token: string;
  start: number;
  end: number;
}

/** A character with what composes with it or is drawn on it, however it is written. */
const CLUSTER =
  /[\s\S][\p{M}\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}\uff9e\uff9f\u1160-\u11ff\uffa0-\uffdc]*/gu;

/** Characters that fold to themselves, as tokens of their own, wherever they stand: most of Chinese, Japanese and Korean. */
const OWN_TOKEN = /^[\u4e00-\u9fff\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa]$/;

const spaced = (folded: string): string => folded.replace(/ +/g, " ");

const foldCluster = (cluster: string): string => (OWN_TOKEN.test(cluster) ? ` ${cluster} ` : foldRun(cluster));

/** A run beyond ASCII in pieces that, folded one by one, are the run folded: as small as they get. */
function piecesOf(run: string): string[] {
  const pieces = run.match(CLUSTER) ?? [];
  return spaced(pieces.map(foldCluster).join("")) === spaced(foldRun(run)) ? pieces : halvesOf(run);
}

/** For runs in which a mark acts over what is invisible: halved wherever that changes nothing. */
function halvesOf(run: string): string[] {
  const characters = [...run];
  const folded = spaced(foldRun(run));
  const middle = characters.length >> 1;
  for (let away = 0; away < middle; away++) {
    for (const at of [middle - away, middle + away]) {
      const [left, right] = [characters.slice(0, at).join(""), characters.slice(at).join("")];
      if (left === "" || right === "" || spaced(foldRun(left) + foldRun(right)) !== folded) continue;
      return [...halvesOf(left), ...halvesOf(right)];
    }
  }
  return [run];
}

const isAsciiLetterOrDigit = (unit: number): boolean =>
  (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x30 && unit <= 0x39);

/** The tokens of a text with their places. Costs some times what `fold` costs: for short pieces. */
export function foldWithOffsets(text: string): PlacedToken[] {
  const tokens: PlacedToken[] = [];
  let letters = "";
  let start = 0;
  let end = 0;
  const close = (): void => {
    if (letters !== "") tokens.push({ token: letters.length > LONGEST_TOKEN ? cut(letters) : letters, start, end });
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
