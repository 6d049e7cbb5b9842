/** The arithmetic of the junk filter: neutral with little data, and the effect of each token on the score. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LEAST_TRAINED, scoreOf, type TokenCounts } from "../../../src/mailbox/junk/score.ts";

const TRAINED = { spam: 100, ham: 100 };
const counts = (spam: number, ham: number, count: number, name = `t${spam}-${ham}`): TokenCounts[] =>
  Array.from({ length: count }, (_, i) => ({ token: `${name}.${i}`, spam, ham }));
const tokens = fc.array(
  fc.record({ token: fc.string({ minLength: 1 }), spam: fc.nat({ max: 100 }), ham: fc.nat({ max: 100 }) }),
  { minLength: 8, maxLength: 400 },
);

describe("has no opinion", () => {
  test.each([
    ["untrained", { spam: 0, ham: 0 }],
    ["with too little spam", { spam: LEAST_TRAINED - 1, ham: 1_000 }],
    ["with too little ham", { spam: 1_000, ham: LEAST_TRAINED - 1 }],
  ])("%s", (_, trained) => {
    expect(scoreOf(trained, counts(10, 0, 50))).toBeUndefined();
  });

  test("of a message with hardly any known tokens", () => {
    expect(scoreOf(TRAINED, counts(90, 0, 7))).toBeUndefined();
    expect(scoreOf(TRAINED, [])).toBeUndefined();
  });

  test("of a message with many neutral words", () => {
    expect(scoreOf(TRAINED, counts(50, 50, 400))).toBeUndefined();
  });
});

test.each([
  ["words of spam", counts(40, 0, 20), 0.9999, 1],
  ["words of ham", counts(0, 40, 20), 0, 0.0001],
  ["as many of both", [...counts(40, 0, 20), ...counts(0, 40, 20)], 0.4, 0.6],
  ["many of both are no proof of either", [...counts(90, 0, 30), ...counts(0, 90, 30)], 0.4, 0.6],
  ["words seen once", counts(1, 0, 8), 0.9, 1],
])("%s", (_, found, least, most) => {
  const score = scoreOf(TRAINED, found)?.score;
  expect(score).toBeGreaterThanOrEqual(least);
  expect(score).toBeLessThanOrEqual(most);
});

test("rates count, not the numbers of spam and ham", () => {
  const few = scoreOf({ spam: 100, ham: 1_000 }, counts(40, 400, 20));
  expect(few).toBeUndefined();
  expect(scoreOf({ spam: 100, ham: 1_000 }, counts(40, 4, 20))?.score).toBeGreaterThan(0.99);
});

test("the score lies between 0 and 1, and does not depend on the order of the tokens", () => {
  fc.assert(
    fc.property(
      tokens.chain((found) => fc.tuple(fc.constant(found), fc.shuffledSubarray(found, { minLength: found.length }))),
      ([found, shuffled]) => {
        const scored = scoreOf(TRAINED, found);
        expect(scoreOf(TRAINED, shuffled)?.score).toBe(scored?.score as number);
        fc.pre(scored !== undefined);
        expect(scored.score).toBeGreaterThanOrEqual(0);
        expect(scored.score).toBeLessThanOrEqual(1);
      },
    ),
  );
});

test("swapping spam and ham mirrors the score", () => {
  fc.assert(
    fc.property(tokens, (found) => {
      // Ties beyond the number of clues are broken by name, and so not mirrored.
      const few = found.slice(0, 50);
      const scored = scoreOf(TRAINED, few);
      const mirrored = scoreOf(
        TRAINED,
        few.map(({ token, spam, ham }) => ({ token, spam: ham, ham: spam })),
      );
      expect(mirrored?.score ?? 0.5).toBeCloseTo(1 - (scored?.score ?? 0.5), 9);
    }),
  );
});

test("clues are the significant tokens, strongest first", () => {
  const scored = scoreOf(TRAINED, [...counts(2, 0, 8), ...counts(0, 90, 2), ...counts(50, 50, 9)]);
  expect(scored?.clues.map(({ token }) => token).slice(0, 3)).toEqual(["t0-90.0", "t0-90.1", "t2-0.0"]);
  expect(scored?.clues).toHaveLength(10);
  expect(scored?.clues[0]?.probability).toBeLessThan(0.01);
});

test("counts that exceed the totals after unlearning are harmless", () => {
  expect(scoreOf(TRAINED, counts(100_000, 0, 20))?.score).toBeLessThanOrEqual(1);
  expect(scoreOf(TRAINED, counts(100_000, 100_000, 20))).toBeUndefined();
});
