/** The part of the embedded ranking that the engines' contract leaves open: how much is scored. */
import { expect, test } from "bun:test";
import { createRanking } from "../../../src/search/fts5/ranking.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { type SeedMessage, seedIndex, WHOLE_A } from "../../harness/search-seed.ts";

const threadsIn = (ranked: readonly { thread: number }[]): number[] => ranked.map(({ thread }) => thread).sort();

test("only the latest of the given conversations", () => {
  const { store } = seedIndex(["1", "2", "3", "4"].map((thread) => ({ thread, text: "ash" })));
  const query = parseQuery("ash");
  expect(threadsIn(createRanking(store, 2)(query, WHOLE_A, [1, 2, 3, 4]))).toEqual([3, 4]);
  expect(threadsIn(createRanking(store, 2)(query, WHOLE_A, [1, 2]))).toEqual([1, 2]);
  expect(threadsIn(createRanking(store)(query, WHOLE_A, [2, 4, 9]))).toEqual([2, 4]);
  expect(createRanking(store)(query, WHOLE_A, [])).toEqual([]);
});

test("every message of a long conversation", () => {
  const long: SeedMessage[] = Array.from({ length: 20 }, (_, i) => ({ thread: "1", text: `yew and number${i}` }));
  const { store } = seedIndex([...long, { thread: "1", subject: "yew" }, { thread: "2", text: "yew number" }]);
  const [first, second] = createRanking(store)(parseQuery("yew"), WHOLE_A, [1, 2]).toSorted(
    (a, b) => a.thread - b.thread,
  );
  expect(first?.score).toBeGreaterThan(second?.score ?? Number.POSITIVE_INFINITY);
  expect(threadsIn(createRanking(store)(parseQuery("number19"), WHOLE_A, [1, 2]))).toEqual([1]);
});

test("a rarer word weighs more, counting only mail in reach", async () => {
  const own: SeedMessage[] = [
    { thread: "ash", text: "ash ash ash oak" },
    { thread: "oak", text: "ash oak oak oak" },
    { thread: "also", text: "ash" },
  ];
  expect(await seedIndex(own).ranked("ash oak")).toEqual(["oak", "ash"]);
  const mailbox = "mbx_b1";
  const others = Array.from({ length: 9 }, (_, i): SeedMessage => ({ thread: `b${i}`, mailbox, text: "oak" }));
  const { ranked } = seedIndex([...own, ...others]);
  for (const q of ["ash oak", "oak ash -elm", "ash oak before:1970-01-02"]) {
    expect(await ranked(q)).toEqual(["oak", "ash"]);
  }
});
