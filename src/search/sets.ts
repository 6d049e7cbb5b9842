/** Sets of conversation numbers, as ascending lists: what a search answers, and what it is narrowed by. */

/**
 * Whether a number is in the list, whose numbers lie within 2^32; a bit each, so that tens of thousands cost little to make
 * and ask.
 */
export function membershipOf(seqs: readonly number[]): (seq: number) => boolean {
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const seq of seqs) {
    if (seq < first) first = seq;
    if (seq > last) last = seq;
  }
  if (seqs.length === 0) return () => false;
  const bits = new Uint8Array(((last - first) >>> 3) + 1);
  for (const seq of seqs) {
    const at = seq - first;
    bits[at >>> 3] = (bits[at >>> 3] ?? 0) | (1 << (at & 7));
  }
  return (seq) => {
    const at = seq - first;
    return at >= 0 && seq <= last && ((bits[at >>> 3] ?? 0) & (1 << (at & 7))) !== 0;
  };
}

/** How many of the numbers are members. */
export function countMembers(seqs: readonly number[], isMember: (seq: number) => boolean): number {
  let count = 0;
  for (const seq of seqs) if (isMember(seq)) count++;
  return count;
}

/** The numbers that are in every list; undefined when there is no list. */
export function intersectionOf(lists: readonly (readonly number[])[]): readonly number[] | undefined {
  const [smallest, ...others] = lists.toSorted((a, b) => a.length - b.length);
  if (smallest === undefined) return undefined;
  const tests = others.map(membershipOf);
  return tests.length === 0 ? smallest : smallest.filter((seq) => tests.every((isMember) => isMember(seq)));
}
