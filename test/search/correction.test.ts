/** Which words are similar, and which parts of a query count as slips. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { oneSlipFrom, replaced, slipsBetween, withOperatorsCorrected, wordsOf } from "../../src/search/correction.ts";
import { fold } from "../../src/search/fold.ts";
import { anyCharacter } from "../harness/any-character.ts";

describe("slips", () => {
  test.each<[one: string, other: string, slips: number]>([
    ["word", "word", 0],
    ["word", "wrd", 1],
    ["wrd", "word", 1],
    ["word", "ward", 1],
    ["word", "wrod", 1],
    ["word", "ords", 2],
    ["ca", "abc", 3],
    ["abcdef", "badcfe", 3],
    ["", "abc", 3],
    ["größe", "grösse", 2],
    ["👩x", "x👩", 1],
  ])("%s and %s: %d", (one, other, slips) => {
    expect(slipsBetween(one, other, 5)).toBe(slips);
    expect(slipsBetween(other, one, 5)).toBe(slips);
    if (slips > 1) expect(slipsBetween(one, other, slips - 1)).toBe(slips);
  });

  test("all words one slip away, and no others", () => {
    const word = fc.string({ unit: fc.constantFrom(..."abz"), minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(word, word, (one, other) => {
        expect(oneSlipFrom(one).includes(other)).toBe(slipsBetween(one, other, 1) === 1);
      }),
    );
    expect(oneSlipFrom("größe")).toEqual([]);
    expect(oneSlipFrom("a1")).toEqual([]);
  });
});

test.each<[q: string, words: string[]]>([
  ["Invoice from:Ann -not", ["invoice any at Invoice", "ann sender at Ann"]],
  [
    'subject:"Größe, bitte" to:a@x.example',
    ["grosse subject at Größe", "bitte subject at bitte", "example recipients at example"],
  ],
  ["label:work is:unread has:attachment before:2025-01-01", []],
  ["ab 北京 a1b2 1234", []],
])("the words of %s", (q, words) => {
  expect(wordsOf(q).map(({ word, field, start, end }) => `${word} ${field} at ${q.slice(start, end)}`)).toEqual(words);
});

test.each<[q: string, corrected: string | undefined]>([
  ["form:ann x", "from:ann x"],
  ["-form:ann", "-from:ann"],
  ["frm:ann tp:bob", "from:ann to:bob"],
  ["hsa:atachment", "has:attachment"],
  ["is:UNRAED", "is:unread"],
  ["lable:work", "label:work"],
  ["afte:2025-01-01 befor:2026-01-01", "after:2025-01-01 before:2026-01-01"],
  ['form:"a b"', 'from:"a b"'],
  ['"form:ann"', undefined],
  ["form: ann", undefined],
  ["from:ann is:unread has:attachment", undefined],
  ["has:pictures https://x.example 12:30 a:b", undefined],
  ["word for is", undefined],
])("the operators of %s", (q, corrected) => {
  expect(withOperatorsCorrected(q)).toBe(corrected as string);
});

test("words have their positions in any query", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 60 }), (q) => {
      const words = wordsOf(q);
      for (const { word, start, end } of words) expect(fold(q.slice(start, end))).toContain(word);
      expect(
        replaced(
          q,
          words.map(({ start, end }) => ({ start, end, text: q.slice(start, end) })),
        ),
      ).toBe(q);
      withOperatorsCorrected(q);
    }),
  );
});
