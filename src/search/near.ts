/** Words that are nearly another: by letters left out, put in, exchanged or swapped. Pure. */

/** How many such slips a word of that length may have to be taken for another. */
export const slipsAllowed = (length: number): number => (length < 3 ? 0 : length < 7 ? 1 : 2);

/**
 * Damerau-Levenshtein distance (optimal string alignment: a pair that is swapped stays as it is), counted no further than
 * `most` + 1. In code points.
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

/** Every word of Latin letters that is one slip away from a folded one; none for a word with others. */
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
