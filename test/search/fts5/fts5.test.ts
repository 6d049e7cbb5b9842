import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import fc from "fast-check";
import { toDocumentNumber } from "../../../src/search/document-number.ts";
import { createRangeFilter, createSetCache } from "../../../src/search/fts5/fts5.ts";
import { createSeqSet, listSeqsInSet } from "../../../src/search/sets.ts";
import { MESSAGES_PER_THREAD, messages } from "../../../src/store/schema.ts";
import { drizzleOver } from "../../../src/store/statement.ts";
import { type SeedMessage, seedIndex } from "../../harness/data/search-seed.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import { runs } from "../../harness/runs.ts";
import { testContract } from "../engine-contract.ts";

testContract(seedIndex, { runs: runs(50) });

test("merging comes to an end and changes no result", async () => {
  const { engine, add, search } = seedIndex();
  for (let i = 0; i < 40; i++) add({ thread: `t${i}`, text: `word number${i}` });
  const before = await search("word");
  let steps = 0;
  while (engine.maintain()) steps++;
  expect(steps).toBeGreaterThan(0);
  expect(engine.maintain()).toBe(false);
  expect(await search("word")).toEqual(before);
  expect(await search("number7")).toEqual(["t7"]);
});

test("filing merges in steps of its own, and upkeep merges the rest", async () => {
  const { engine, store, add, search } = seedIndex();
  const sqlite = store.db.$client;
  const segments = sqlite.prepare<{ n: number }, []>("SELECT count(DISTINCT segid) AS n FROM message_index_idx");
  const automerge = sqlite.prepare("SELECT v FROM message_index_config WHERE k = 'automerge'");
  const wordsOf = (i: number): string => Array.from({ length: 600 }, (_, n) => `w${600 * i + n}`).join(" ");
  for (let i = 0; i < 200; i++) add({ thread: `t${i}`, text: wordsOf(i) });
  expect(automerge.get()).toEqual({ v: 0 });
  const filed = segments.get()?.n ?? 0;
  // Each of the 200 commits wrote one.
  expect(filed).toBeLessThan(48);
  expect(await search("w600")).toEqual(["t1"]);
  while (engine.maintain());
  expect(segments.get()?.n).toBeLessThan(filed);
  expect(await search("w600")).toEqual(["t1"]);
});

test("merging waits for eight commits, or each would write much of the index again", () => {
  const { engine, add } = seedIndex();
  for (let i = 0; i < 7; i++) add({ thread: `t${i}`, text: `word number${i}` });
  expect(engine.maintain()).toBe(false);
  add({ thread: "t7", text: "word number7" });
  expect(engine.maintain()).toBe(true);
});

describe("texts in bodies", () => {
  const { engine, store } = seedIndex([
    { thread: "1", text: "The Café reviews a budget review" },
    { thread: "2", text: "budget: reviewed", subject: "budget review" },
    { thread: "3", mailbox: "mbx_b1", text: "budget review" },
    { thread: "4", text: "東京都 and cafeteria" },
  ]);
  const found = (text: string, mailbox = "mbx_a1") => {
    const told = engine.inBodies(text, mailbox);
    return told && { ...told, messages: told.messages.map((seq) => Math.floor(seq / MESSAGES_PER_THREAD)) };
  };

  test.each([
    ["a word, without case and accents", "CAFE", { messages: [1, 4], isWord: true }],
    ["a beginning", "revi", { messages: [1, 2], isWord: true }],
    ["an unknown word", "nowhere", { messages: [], isWord: true }],
    ["the words after a part of one", "dget revie", { messages: [1, 2], isWord: false }],
    ["a word with what stands before it", " revie", { messages: [1, 2], isWord: false }],
    ["characters of a script without spaces", "京都", { messages: [4], isWord: false }],
    ["one of them", "東", { messages: [4], isWord: false }],
    [
      "a longer text than a phrase may be",
      `The Café reviews a budget review${" x".repeat(30)}`,
      { messages: [], isWord: false },
    ],
    ["a part with few letters after it", "afé re", undefined],
    ["few letters", "re", undefined],
    ["no letters", "?!", undefined],
    ["a part of a word with what stands after it", "budget.", undefined],
    ["nothing", "", undefined],
  ])("%s", (_, text, messages) => {
    expect(found(text)).toEqual(messages);
  });

  test("of the mailbox alone", () => {
    expect(found("budget review", "mbx_b1")).toEqual({ messages: [3], isWord: false });
  });

  test("cannot be told while the index lacks mail", () => {
    store.transact((tx) => engine.addLater(tx, MESSAGES_PER_THREAD));
    expect(found("budget")).toBeUndefined();
  });
});

describe("kept sets", () => {
  /** Asks, and returns whether the set had to be found. */
  function asker(sqlite: Database, most?: number) {
    const keep = createSetCache(drizzleOver(sqlite), most);
    return (question: string, answer: readonly number[]) => {
      let found = false;
      const set = keep(question, () => {
        found = true;
        return createSeqSet(answer);
      });
      return { found, seqs: listSeqsInSet(set) };
    };
  }

  test("are searched once until this or another process writes", () => {
    const file = join(temporaryFolder(), "kept.db");
    using sqlite = new Database(file);
    using other = new Database(file);
    sqlite.run("PRAGMA journal_mode = WAL");
    sqlite.run("CREATE TABLE words (word TEXT)");
    const ask = asker(sqlite);
    expect(ask("oak", [1])).toEqual({ found: true, seqs: [1] });
    expect(ask("oak", [2])).toEqual({ found: false, seqs: [1] });
    sqlite.run("INSERT INTO words VALUES ('oak')");
    expect(ask("oak", [3])).toEqual({ found: true, seqs: [3] });
    other.run("INSERT INTO words VALUES ('elm')");
    expect(ask("oak", [4])).toEqual({ found: true, seqs: [4] });
    sqlite.transaction(() => {
      sqlite.run("DELETE FROM words");
      expect(ask("oak", [5])).toEqual({ found: true, seqs: [5] });
    })();
    expect(ask("oak", [6])).toEqual({ found: false, seqs: [5] });
  });

  test("are dropped, least recently used first", () => {
    using sqlite = new Database(":memory:");
    const ask = asker(sqlite, 2);
    for (const question of ["a", "b", "a", "c"]) ask(question, [1]);
    expect(ask("a", [2]).found).toBe(false);
    expect(ask("b", [2]).found).toBe(true);
  });
});

describe("hits in a range", () => {
  const MAILBOXES = ["mbx_a1", "mbx_a2", "mbx_b1"];
  /** Long and short conversations, some in mailboxes outside the scope; several dates are equal. */
  const MAIL: SeedMessage[] = Array.from({ length: 120 }, (_, n) => ({
    thread: n % 3 === 0 ? "long" : `t${n % 50}`,
    mailbox: (n % 3 !== 0 && MAILBOXES[(n % 50) % 3]) || "mbx_a1",
    text: "word",
    date: ((n * 37) % 60) * 10,
    size: (n * 13) % 50,
  }));

  test("are the same looked up, read from inside and read from outside the range", () => {
    const { store } = seedIndex(MAIL);
    const rows = store.db.select().from(messages).all();
    const ways = [
      createRangeFilter(store.db),
      createRangeFilter(store.db, { few: 0, readForEach: 1 }),
      createRangeFilter(store.db, { few: 0, readForEach: 1_000 }),
    ];
    const time = fc.oneof(
      fc.integer({ min: -20, max: 620 }),
      fc.constantFrom(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    );
    const size = fc.oneof(fc.integer({ min: 0, max: 50 }), fc.constantFrom(0, Number.MAX_SAFE_INTEGER));
    fc.assert(
      fc.property(
        fc.subarray(MAILBOXES),
        time,
        time,
        size,
        size,
        fc.infiniteStream(fc.boolean()),
        (scope, since, before, atLeast, below, chosen) => {
          const hits = rows.filter(({ mailboxId }) => scope.includes(mailboxId) && chosen.next().value);
          const documents = hits.map(({ seq }) => toDocumentNumber(seq)).sort((a, b) => a - b);
          const inside = new Set(
            hits
              .filter(({ date, size }) => date >= since && date < before && size >= atLeast && size < below)
              .map(({ seq }) => toDocumentNumber(seq)),
          );
          const expected = documents.filter((document) => inside.has(document));
          const range = { since, before, atLeast, below };
          for (const keep of ways) expect(keep(documents, range, JSON.stringify(scope))).toEqual(expected);
        },
      ),
      { numRuns: 300 },
    );
  });
});
