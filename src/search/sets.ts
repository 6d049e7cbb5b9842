/**
 * Sets of conversations, by threads.seq, for search results and filters. Each member takes one bit, so that building,
 * testing and intersecting sets of a hundred thousand is cheap compared to the search.
 */

/** Bit n % 32 of word n / 32 says whether n, an integer below 2^32, is a member. A missing word means no members. */
export type SeqSet = Uint32Array<ArrayBuffer>;

const asItIs = (seq: number): number => seq;

/** Makes a set of numbers in any order; `toSeq` converts each. */
export function createSeqSet(list: readonly number[], toSeq: (one: number) => number = asItIs): SeqSet {
  let bits = new Uint32Array(64);
  for (const one of list) {
    const seq = toSeq(one);
    if (seq >>> 5 >= bits.length) bits = growSeqSet(bits, seq);
    bits[seq >>> 5] = (bits[seq >>> 5] ?? 0) | (1 << (seq & 31));
  }
  return bits;
}

/** Returns the set with room for `seq`, and some more, since others usually follow. */
export function growSeqSet(set: SeqSet, seq: number): SeqSet {
  if (seq >>> 5 < set.length) return set;
  const longer = new Uint32Array(2 * (seq >>> 5) + 1);
  longer.set(set);
  return longer;
}

export const isInSeqSet = (set: SeqSet, seq: number): boolean => ((set[seq >>> 5] ?? 0) & (1 << (seq & 31))) !== 0;

/** The members, ascending. */
export function listSeqsInSet(set: SeqSet): number[] {
  const seqs: number[] = [];
  for (let word = 0; word < set.length; word++) {
    // Removes the lowest bit until none is left.
    for (let bits = set[word] ?? 0; bits !== 0; bits &= bits - 1) {
      seqs.push(word * 32 + 31 - Math.clz32(bits & -bits));
    }
  }
  return seqs;
}

function onesIn(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const nibbles = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

export function countSeqsInSet(set: SeqSet): number {
  let count = 0;
  for (let word = 0; word < set.length; word++) count += onesIn(set[word] ?? 0);
  return count;
}

/** The size of the intersection. */
export function countCommon(a: SeqSet, b: SeqSet): number {
  const length = Math.min(a.length, b.length);
  let count = 0;
  for (let word = 0; word < length; word++) count += onesIn((a[word] ?? 0) & (b[word] ?? 0));
  return count;
}

/** The intersection; undefined for no sets. */
export function intersectSets(sets: readonly SeqSet[]): SeqSet | undefined {
  const [smallest, ...others] = sets.toSorted((a, b) => a.length - b.length);
  const common = others.length === 0 ? smallest : smallest?.slice();
  for (const other of others) {
    for (let word = 0; common && word < common.length; word++) common[word] = (common[word] ?? 0) & (other[word] ?? 0);
  }
  return common;
}

/** The members that are in none of the others. */
export function subtractSeqSets(set: SeqSet, others: readonly SeqSet[]): SeqSet {
  const left = others.length === 0 ? set : set.slice();
  for (const other of others) {
    const length = Math.min(left.length, other.length);
    for (let word = 0; word < length; word++) left[word] = (left[word] ?? 0) & ~(other[word] ?? 0);
  }
  return left;
}
