/** The junk filter: what it stores and reads, its limits, and how each token affects the score. */
import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import {
  LEAST_TRAINED,
  scoreByJunkFilter,
  scoreJunkTokens,
  type TokenCounts,
  trainJunkFilter,
  untrainJunkFilter,
} from "../../../src/mailbox/junk/junk-filter.ts";
import { junkFilters, junkTokens } from "../../../src/store/schema.ts";
import type { Tx } from "../../../src/store/store.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const words = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const rowsIn = (tx: Tx) => (tx.$client.query("SELECT count(*) AS n FROM junk_tokens").get() as { n: number }).n;

/** A trained filter with `rows` tokens, without the messages behind them. */
function fill(tx: Tx, mailboxId: string, rows: number, each: { spam: number; ham: number }): number {
  const { seq } = tx.insert(junkFilters).values({ mailboxId, spam: 500, ham: 500 }).returning().get();
  tx.$client
    .query(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO junk_tokens SELECT ?1, i * 20011 - 2000000000, ?3, ?4 FROM n`,
    )
    .run(seq, rows, each.spam, each.ham);
  return seq;
}

test("a look-up in 200,000 tokens searches the primary key for each, and reads nothing else", () => {
  const { store, box } = createAlice();
  const sqlite = store.db.$client;
  const prepare = spyOn(sqlite, "prepare");
  store.transact((tx) => {
    fill(tx, box, 200_000, { spam: 3, ham: 1 });
    expect(scoreByJunkFilter(tx, box, () => words(400, "unheard"))).toBeUndefined();
  });
  const select = prepare.mock.calls
    .map(([text]) => text)
    .find((text) => /^SELECT .* FROM junk_tokens\b.*json/.test(text));
  const plan = sqlite.query(`EXPLAIN QUERY PLAN ${select}`).all(1, "[]") as { detail: string }[];
  expect(plan[0]?.detail).toBe("SEARCH junk_tokens USING PRIMARY KEY (filter_seq=? AND token=?)");
  expect(plan.some(({ detail }) => detail.startsWith("SCAN junk_tokens"))).toBe(false);
});

test("tokens are computed only once the filter is trained", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    const tokens = () => {
      throw new Error("asked for");
    };
    expect(scoreByJunkFilter(tx, box, tokens)).toBeUndefined();
    for (let i = 0; i < 20; i++)
      for (const kind of ["spam", "ham"] as const) trainJunkFilter(tx, box, [`${kind}${i}`], kind);
    expect(() => scoreByJunkFilter(tx, box, tokens)).toThrow("asked for");
  });
});

test("a filter beyond 200,000 tokens forgets the rarest ones and keeps the frequent ones", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    const seq = fill(tx, box, 210_000, { spam: 1, ham: 0 });
    const often = words(400, "often");
    for (let i = 1; i <= 99; i++) trainJunkFilter(tx, box, often, "spam");
    expect(rowsIn(tx)).toBe(400);
    expect(scoreByJunkFilter(tx, box, () => often)?.score).toBeGreaterThan(0.99);
    expect(tx.select().from(junkFilters).all()).toEqual([{ seq, mailboxId: box, spam: 599, ham: 500 }]);
  });
});

test("a smaller filter forgets nothing", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    fill(tx, box, 190_000, { spam: 1, ham: 0 });
    for (let i = 1; i <= 50; i++) trainJunkFilter(tx, box, ["word"], "ham");
    expect(rowsIn(tx)).toBe(190_001);
  });
});

test("unlearning a pruned token never goes below zero", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    trainJunkFilter(tx, box, ["a", "b"], "spam");
    tx.delete(junkTokens).run();
    trainJunkFilter(tx, box, ["a"], "ham");
    untrainJunkFilter(tx, box, ["a", "b"], "spam");
    untrainJunkFilter(tx, box, ["a", "b"], "spam");
    expect(tx.select({ spam: junkTokens.spam, ham: junkTokens.ham }).from(junkTokens).all()).toEqual([
      { spam: 0, ham: 1 },
    ]);
    expect(tx.select({ spam: junkFilters.spam, ham: junkFilters.ham }).from(junkFilters).all()).toEqual([
      { spam: 0, ham: 1 },
    ]);
  });
});

test("a token counts once per message", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    trainJunkFilter(tx, box, ["a", "a"], "spam");
    expect(tx.select({ spam: junkTokens.spam }).from(junkTokens).all()).toEqual([{ spam: 1 }]);
  });
});

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
    expect(scoreJunkTokens(trained, counts(10, 0, 50))).toBeUndefined();
  });

  test("of a message with hardly any known tokens", () => {
    expect(scoreJunkTokens(TRAINED, counts(90, 0, 7))).toBeUndefined();
    expect(scoreJunkTokens(TRAINED, [])).toBeUndefined();
  });

  test("of a message with many neutral words", () => {
    expect(scoreJunkTokens(TRAINED, counts(50, 50, 400))).toBeUndefined();
  });
});

test.each([
  ["words of spam", counts(40, 0, 20), 0.9999, 1],
  ["words of ham", counts(0, 40, 20), 0, 0.0001],
  ["as many of both", [...counts(40, 0, 20), ...counts(0, 40, 20)], 0.4, 0.6],
  ["many of both are no proof of either", [...counts(90, 0, 30), ...counts(0, 90, 30)], 0.4, 0.6],
  ["words seen once", counts(1, 0, 8), 0.9, 1],
])("%s", (_, found, least, most) => {
  const score = scoreJunkTokens(TRAINED, found)?.score;
  expect(score).toBeGreaterThanOrEqual(least);
  expect(score).toBeLessThanOrEqual(most);
});

test("rates count, not the numbers of spam and ham", () => {
  const few = scoreJunkTokens({ spam: 100, ham: 1_000 }, counts(40, 400, 20));
  expect(few).toBeUndefined();
  expect(scoreJunkTokens({ spam: 100, ham: 1_000 }, counts(40, 4, 20))?.score).toBeGreaterThan(0.99);
});

test("the score lies between 0 and 1, and does not depend on the order of the tokens", () => {
  fc.assert(
    fc.property(
      tokens.chain((found) => fc.tuple(fc.constant(found), fc.shuffledSubarray(found, { minLength: found.length }))),
      ([found, shuffled]) => {
        const scored = scoreJunkTokens(TRAINED, found);
        expect(scoreJunkTokens(TRAINED, shuffled)?.score).toBe(scored?.score as number);
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
      const scored = scoreJunkTokens(TRAINED, few);
      const mirrored = scoreJunkTokens(
        TRAINED,
        few.map(({ token, spam, ham }) => ({ token, spam: ham, ham: spam })),
      );
      expect(mirrored?.score ?? 0.5).toBeCloseTo(1 - (scored?.score ?? 0.5), 9);
    }),
  );
});

test("clues are the significant tokens, strongest first", () => {
  const scored = scoreJunkTokens(TRAINED, [...counts(2, 0, 8), ...counts(0, 90, 2), ...counts(50, 50, 9)]);
  expect(scored?.clues.map(({ token }) => token).slice(0, 3)).toEqual(["t0-90.0", "t0-90.1", "t2-0.0"]);
  expect(scored?.clues).toHaveLength(10);
  expect(scored?.clues[0]?.probability).toBeLessThan(0.01);
});

test("counts that exceed the totals after unlearning are harmless", () => {
  expect(scoreJunkTokens(TRAINED, counts(100_000, 0, 20))?.score).toBeLessThanOrEqual(1);
  expect(scoreJunkTokens(TRAINED, counts(100_000, 100_000, 20))).toBeUndefined();
});
