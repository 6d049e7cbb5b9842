/** Suggestions for a word that somebody mistyped. */

/** Insertions, deletions, substitutions and swaps of neighbours that make `b` of `a` (optimal string alignment). */
function distance(a: string, b: string): number {
  let [beforeLast, last]: number[][] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      row[j] = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) row[j] = Math.min(at(row, j), at(beforeLast, j - 2) + 1);
    }
    [beforeLast, last] = [last, row];
  }
  return at(last, b.length);
}

const at = (row: number[] | undefined, index: number): number => row?.[index] ?? 0;

/** The word that is nearest to what was typed, if no more than a third of it differs. */
export function suggestNearestWord(typed: string, words: readonly string[]): string | undefined {
  const most = Math.max(1, Math.floor(typed.length / 3));
  const [best] = words
    .map((word) => ({ word, away: distance(typed, word) }))
    .filter(({ away }) => away <= most)
    .sort((a, b) => a.away - b.away);
  return best?.word;
}
