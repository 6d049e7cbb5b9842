/**
 * Tells what the visible text of a message's HTML has beside its text part, so that the index knows the phrases of both and
 * grows only by what they do not share.
 */

/**
 * Tokens of the longest phrase: a search takes a step for each of them at each place in a message where it may begin. A
 * longer text is found by stretches of that length, each of which shares half with the one before.
 */
export const LONGEST_PHRASE = 16;

/**
 * The runs of `seen` that together have every phrase of up to LONGEST_PHRASE tokens that `text` lacks; both are folded.
 * Linear time: windows of that many tokens are looked up by hash, and compared.
 */
export function findMissingPhrases(text: string, seen: string): string[] {
  if (seen === "" || seen === text) return [];
  const tokens = seen.split(" ");
  const ids = new Map<string, number>();
  const numberTokens = (names: readonly string[]): Int32Array =>
    Int32Array.from(names, (name) => {
      const id = ids.get(name) ?? ids.size;
      ids.set(name, id);
      return id;
    });
  const had = numberTokens(text.split(" "));
  const wanted = numberTokens(tokens);
  const length = Math.min(LONGEST_PHRASE, wanted.length);
  const positions = new Map<number, number>();
  for (const [at, hash] of windowHashes(had, length).entries()) if (!positions.has(hash)) positions.set(hash, at);
  const isHad = (at: number, hash: number): boolean => {
    const position = positions.get(hash);
    if (position === undefined) return false;
    for (let i = 0; i < length; i++) if (had[position + i] !== wanted[at + i]) return false;
    return true;
  };
  const runs: { from: number; to: number }[] = [];
  for (const [at, hash] of windowHashes(wanted, length).entries()) {
    if (isHad(at, hash)) continue;
    const last = runs.at(-1);
    if (last && at <= last.to) last.to = at + length;
    else runs.push({ from: at, to: at + length });
  }
  return runs.map(({ from, to }) => tokens.slice(from, to).join(" "));
}

/** The hashes of all windows of so many ids. */
function windowHashes(ids: Int32Array, length: number): Int32Array {
  const hashes = new Int32Array(Math.max(0, ids.length - length + 1));
  let factor = 1;
  for (let i = 1; i < length; i++) factor = Math.imul(factor, 31);
  let hash = 0;
  for (let at = 0; at < ids.length; at++) {
    if (at >= length) hash -= Math.imul(ids[at - length] as number, factor);
    hash = (Math.imul(hash, 31) + (ids[at] as number)) | 0;
    if (at >= length - 1) hashes[at - length + 1] = hash;
  }
  return hashes;
}
