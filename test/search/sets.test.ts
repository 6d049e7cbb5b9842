/** Sets of numbers as lists: what bits say is what Set says. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { intersectionOf, membershipOf } from "../../src/search/sets.ts";

const ascending = fc.uniqueArray(fc.integer({ min: 1, max: 300 })).map((seqs) => seqs.sort((a, b) => a - b));

test("membership", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 300 })), (seqs) => {
      const isMember = membershipOf(seqs);
      const set = new Set(seqs);
      for (let seq = 0; seq <= 320; seq++) expect(isMember(seq)).toBe(set.has(seq));
    }),
  );
});

test("intersection", () => {
  fc.assert(
    fc.property(fc.array(ascending, { minLength: 1, maxLength: 4 }), (lists) => {
      const [first = [], ...others] = lists;
      expect(intersectionOf(lists)).toEqual(first.filter((seq) => others.every((list) => list.includes(seq))));
    }),
  );
  expect(intersectionOf([])).toBeUndefined();
});
