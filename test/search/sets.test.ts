/** Sets of numbers with one bit each agree with Set. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  countCommon,
  countSeqsInSet,
  createSeqSet,
  growSeqSet,
  intersectSets,
  isInSeqSet,
  listSeqsInSet,
  subtractSeqSets,
} from "../../src/search/sets.ts";

/** Word boundaries and large numbers are as likely as others. */
const seq = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constantFrom(31, 32, 63, 64, 2_047, 2_048, 50_000));
const list = fc.array(seq);
const ascending = (seqs: Iterable<number>): number[] => [...new Set(seqs)].sort((a, b) => a - b);

test("a set gives its members once, ascending", () => {
  fc.assert(
    fc.property(list, seq, (seqs, other) => {
      const set = createSeqSet(seqs);
      expect(listSeqsInSet(set)).toEqual(ascending(seqs));
      expect(countSeqsInSet(set)).toBe(new Set(seqs).size);
      expect(isInSeqSet(set, other)).toBe(seqs.includes(other));
      expect(listSeqsInSet(createSeqSet(seqs, (one) => one * 3))).toEqual(ascending(seqs.map((one) => one * 3)));
      const longer = growSeqSet(set, other);
      expect(longer.length * 32).toBeGreaterThan(other);
      expect(listSeqsInSet(longer)).toEqual(listSeqsInSet(set));
    }),
  );
});

test("intersections and differences agree with those of Set", () => {
  fc.assert(
    fc.property(list, fc.array(list, { maxLength: 3 }), (seqs, lists) => {
      const set = createSeqSet(seqs);
      const others = lists.map((other) => createSeqSet(other));
      const inAll = ascending(seqs).filter((one) => lists.every((other) => other.includes(one)));
      expect(listSeqsInSet(intersectSets([set, ...others]) ?? createSeqSet([]))).toEqual(inAll);
      const alone = ascending(seqs).filter((one) => !lists.some((other) => other.includes(one)));
      expect(listSeqsInSet(subtractSeqSets(set, others))).toEqual(alone);
      const [first] = others;
      if (first)
        expect(countCommon(set, first)).toBe(listSeqsInSet(intersectSets([set, first]) ?? createSeqSet([])).length);
    }),
  );
  expect(intersectSets([])).toBeUndefined();
});
