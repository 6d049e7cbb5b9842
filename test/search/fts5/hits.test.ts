/** The messages of conversations that satisfy a query: the same whether found together or one by one. */
import { describe, expect, test } from "bun:test";
import { listFtsPhrases } from "../../../src/search/fts5/fts5.ts";
import { createHitFinder, createRanking } from "../../../src/search/fts5/hits.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { MESSAGES_PER_THREAD } from "../../../src/store/schema.ts";
import { type SeedMessage, seedIndex, WHOLE_A } from "../../harness/data/search-seed.ts";

test("a place in a message is compared with few words, however long the phrase", () => {
  const phrases = (text: string) => listFtsPhrases({ kind: "text", field: "subject", text, negated: false });
  const words = Array.from({ length: 250 }, (_, n) => `w${n}`);
  expect(phrases(words.slice(0, 16).join(" "))).toEqual([`subject : "${words.slice(0, 16).join(" ")}"`]);
  // Two stretches have each word but the first and last eight.
  for (const phrase of phrases(words.join(" "))) expect(phrase.split(" ")).toHaveLength(2 + 16);
  expect(phrases(words.join(" "))).toHaveLength(31);
  expect(phrases("a ".repeat(250))).toEqual([`subject : "${"a ".repeat(16).trim()}"`]);
  expect(phrases("a b ".repeat(125))).toHaveLength(1);
});

/** Hits of conversations as `thread.ordinal`. */
function finder(messages: readonly SeedMessage[], mostAtOnce?: number) {
  const { store, seqOf } = seedIndex(messages);
  const hitsOf = createHitFinder(store, mostAtOnce);
  return (q: string, threads: readonly string[], most = 3, words?: readonly string[]) => {
    const found = hitsOf(parseQuery(q, 0), words)(threads.map(seqOf), most);
    return threads.flatMap((thread) =>
      (found.get(seqOf(thread)) ?? []).map((seq) => `${thread}.${seq - seqOf(thread) * MESSAGES_PER_THREAD}`),
    );
  };
}

test("hits satisfy words, exclusions, dates and attachments in one and the same message", () => {
  const find = finder([
    { thread: "a", text: "oak elm", date: 1_000 },
    { thread: "a", text: "oak", files: ["plan.pdf"], date: Date.parse("2025-01-02") },
    { thread: "a", text: "oak", date: Date.parse("2025-02-02") },
    { thread: "b", text: "oak" },
    { thread: "c", text: "elm" },
  ]);
  expect(find("oak", ["a", "b", "c"])).toEqual(["a.2", "a.1", "a.0", "b.0"]);
  expect(find("oak", ["c", "a"], 1)).toEqual(["a.2"]);
  expect(find("oak -elm", ["a"])).toEqual(["a.2", "a.1"]);
  expect(find("oak after:2025-01-01", ["a", "b"])).toEqual(["a.2", "a.1"]);
  expect(find("oak before:2025-02-01", ["a"])).toEqual(["a.1", "a.0"]);
  expect(find("oak has:attachment", ["a", "b"])).toEqual(["a.1"]);
  expect(find("oak", [])).toEqual([]);
  // The engine did not name its words.
  expect(find("elmm", ["a", "c"], 3, [])).toEqual([]);
  expect(find("elmm -oak", ["a", "c"], 3, ["elm", 'no" OR "oak'])).toEqual(["c.0"]);
});

test("hits of a conversation are found after more hits of others than are read at once", () => {
  const others = Array.from({ length: 30 }, (_, n): SeedMessage => ({ thread: `other ${n % 10}`, text: "oak" }));
  const mail = [
    { thread: "first", text: "oak" },
    { thread: "first", text: "elm" },
    ...others,
    { thread: "last", text: "oak" },
  ];
  for (const atOnce of [20, 1_000]) {
    const find = finder(mail, atOnce);
    expect(find("oak", ["last", "first", "other 0"], 2)).toEqual(["last.0", "first.0", "other 0.2", "other 0.1"]);
  }
});

test("hits of long conversations are found latest first, for any number read at once", () => {
  const long = (thread: string): SeedMessage[] =>
    Array.from({ length: 40 }, (_, n) => ({ thread, text: n % 3 === 0 ? "oak" : "elm", date: n }));
  for (const atOnce of [2, 5, 1_000]) {
    const find = finder([...long("a"), ...long("b"), { thread: "c", text: "oak" }], atOnce);
    expect(find("oak", ["a", "b", "c"], 4)).toEqual(
      ["a.39 a.36 a.33 a.30", "b.39 b.36 b.33 b.30", "c.0"].join(" ").split(" "),
    );
    expect(find("oak", ["a", "b"], 2)).toEqual(["a.39", "a.36", "b.39", "b.36"]);
    expect(find("oak before:1970-01-01", ["a"])).toEqual([]);
    expect(find("oak after:1970-01-01", ["b"], 4)).toEqual(["b.39", "b.36", "b.33", "b.30"]);
  }
});

describe("ranking", () => {
  const threadsIn = (ranked: readonly { thread: number }[]): number[] => ranked.map(({ thread }) => thread).sort();

  test("scores only the latest of the given conversations", () => {
    const { store } = seedIndex(["1", "2", "3", "4"].map((thread) => ({ thread, text: "ash" })));
    const query = parseQuery("ash", 0);
    expect(threadsIn(createRanking(store, 2)(query, WHOLE_A, [1, 2, 3, 4]))).toEqual([3, 4]);
    expect(threadsIn(createRanking(store, 2)(query, WHOLE_A, [1, 2]))).toEqual([1, 2]);
    expect(threadsIn(createRanking(store)(query, WHOLE_A, [2, 4, 9]))).toEqual([2, 4]);
    expect(createRanking(store)(query, WHOLE_A, [])).toEqual([]);
  });

  test("scores all messages of a long conversation", () => {
    const long: SeedMessage[] = Array.from({ length: 20 }, (_, i) => ({ thread: "1", text: `yew and number${i}` }));
    const { store } = seedIndex([...long, { thread: "1", subject: "yew" }, { thread: "2", text: "yew number" }]);
    const [first, second] = createRanking(store)(parseQuery("yew", 0), WHOLE_A, [1, 2]).toSorted(
      (a, b) => a.thread - b.thread,
    );
    expect(first?.score).toBeGreaterThan(second?.score ?? Number.POSITIVE_INFINITY);
    expect(threadsIn(createRanking(store)(parseQuery("number19", 0), WHOLE_A, [1, 2]))).toEqual([1]);
  });

  test("gives a rarer word more weight, counting only mail in reach", async () => {
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
});
