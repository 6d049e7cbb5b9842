/** What the filter stores, how it is read, and its limits. */
import { expect, spyOn, test } from "bun:test";
import { learn, scoreIn, unlearn } from "../../../src/mailbox/junk/filter.ts";
import { junkFilters, junkTokens } from "../../../src/store/schema.ts";
import type { Tx } from "../../../src/store/store.ts";
import { createAlice } from "../../harness/mailbox-world.ts";

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
    expect(scoreIn(tx, box, () => words(400, "unheard"))).toBeUndefined();
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
    expect(scoreIn(tx, box, tokens)).toBeUndefined();
    for (let i = 0; i < 20; i++) for (const kind of ["spam", "ham"] as const) learn(tx, box, [`${kind}${i}`], kind);
    expect(() => scoreIn(tx, box, tokens)).toThrow("asked for");
  });
});

test("a filter beyond 200,000 tokens forgets the rarest ones and keeps the frequent ones", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    const seq = fill(tx, box, 210_000, { spam: 1, ham: 0 });
    const often = words(400, "often");
    for (let i = 1; i <= 99; i++) learn(tx, box, often, "spam");
    expect(rowsIn(tx)).toBe(400);
    expect(scoreIn(tx, box, () => often)?.score).toBeGreaterThan(0.99);
    expect(tx.select().from(junkFilters).all()).toEqual([{ seq, mailboxId: box, spam: 599, ham: 500 }]);
  });
});

test("a smaller filter forgets nothing", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    fill(tx, box, 190_000, { spam: 1, ham: 0 });
    for (let i = 1; i <= 50; i++) learn(tx, box, ["word"], "ham");
    expect(rowsIn(tx)).toBe(190_001);
  });
});

test("unlearning a pruned token never goes below zero", () => {
  const { store, box } = createAlice();
  store.transact((tx) => {
    learn(tx, box, ["a", "b"], "spam");
    tx.delete(junkTokens).run();
    learn(tx, box, ["a"], "ham");
    unlearn(tx, box, ["a", "b"], "spam");
    unlearn(tx, box, ["a", "b"], "spam");
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
    learn(tx, box, ["a", "a"], "spam");
    expect(tx.select({ spam: junkTokens.spam }).from(junkTokens).all()).toEqual([{ spam: 1 }]);
  });
});
